// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log played back: does the placer do again what it did?

use std::io::BufRead;

use serde::Serialize;

use super::log::{LogError, PlacementLogEntry, lines_of};
use super::step::{Action, Placer};
use corehop_plan::host::Activity;
use corehop_stats::machine_gain::MachineGain;

/// The result of playing a log back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// The windows that were played back.
    pub windows: u64,
    /// The actions in them.
    pub actions: u64,
    /// The first window with other actions. What follows was recorded under those that are not done now, so it is left out.
    pub difference: Option<ReplayDifference>,
}

/// A window after which the placer does something else than it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayDifference {
    /// Its number, from 1.
    pub window: u64,
    /// The recorded actions.
    pub recorded: Vec<Action>,
    /// The actions now.
    pub now: Vec<Action>,
}

/// A log that cannot be played back.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It lacks the machine.
    #[error("the log does not list the CPUs, because an earlier version wrote it")]
    NoTerrain,
}

/// Plays a log back, as far as it goes, with the gain that was fitted on the machine, if one was given.
///
/// # Errors
/// [`ReplayError`]: it is none, is damaged, or is older.
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

/// The actions after a window, the first one of which is put somewhere.
pub fn actions_of(
    placer: &mut Placer,
    start: Option<&super::InitialPlacement>,
    window: &Activity,
) -> Vec<Action> {
    let mut actions = placer.step(window);
    actions.extend(start.into_iter().flat_map(|it| placer.start(it, window)));
    actions
}
