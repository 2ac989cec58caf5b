// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a log, and checks whether the placer repeats its recorded actions.

use std::io::BufRead;

use serde::Serialize;

use super::log::{LogError, PlacementLogEntry, lines_of};
use super::step::{Action, Placer};
use corehop_plan::host::Activity;
use corehop_stats::machine_gain::MachineGain;

/// The result of replaying a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// The number of replayed windows.
    pub windows: u64,
    /// The number of replayed actions.
    pub actions: u64,
    /// The first window in which the actions differ. Later windows are left out, because they were recorded under
    /// actions that the placer no longer takes.
    pub difference: Option<ReplayDifference>,
}

/// A window after which the placer's actions differ from the recorded ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayDifference {
    /// The number of the window, from 1.
    pub window: u64,
    /// The actions in the log.
    pub recorded: Vec<Action>,
    /// The actions that the placer takes in the replay.
    pub now: Vec<Action>,
}

/// The reason why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log does not describe the machine.
    #[error(
        "the log does not list the CPUs, because an earlier version of corehop wrote the log: record a new log"
    )]
    NoTerrain,
}

/// Replays a log up to the first window in which the actions differ, with the gain fitted on the machine, if given.
///
/// # Errors
/// Returns [`ReplayError`] if the text is not a log, is damaged, or comes from a version that did not record the CPUs.
pub fn replay(log: impl BufRead, gain: Option<MachineGain>) -> Result<Replay, ReplayError> {
    let mut log = lines_of(log)?;
    let head = log.head.clone();
    let terrain = head.terrain.ok_or(ReplayError::NoTerrain)?;
    let mut placer = Placer::new(head.settings, terrain).with_gain(gain);
    let mut start = head.start;
    let mut done = Replay { windows: 0, actions: 0, difference: None };
    while let Some(line) = log.next_line()? {
        match line {
            PlacementLogEntry::Window { window, actions } => {
                let now = actions_of(&mut placer, start.take().as_ref(), &window);
                done.windows += 1;
                done.actions += actions.len() as u64;
                if now != actions {
                    let window = done.windows;
                    done.difference = Some(ReplayDifference { window, recorded: actions, now });
                    break;
                }
            }
            PlacementLogEntry::Refused { .. } => placer.refused(),
            PlacementLogEntry::Head(_) | PlacementLogEntry::End { .. } => {}
        }
    }
    Ok(done)
}

/// The placer's actions after a window; in the first window threads get their initial placement.
pub fn actions_of(
    placer: &mut Placer,
    start: Option<&super::InitialPlacement>,
    window: &Activity,
) -> Vec<Action> {
    let mut actions = placer.step(window);
    actions.extend(start.into_iter().flat_map(|it| placer.start(it, window)));
    actions
}
