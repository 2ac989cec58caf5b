// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of a running process: intervals of time in which its threads are pinned, and its progress in them.
//!
//! An interval consists of two windows. In the first window the threads settle, and only the second window counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use corehop_decide::pinning::arms::{PinArm, ProgramLoad};
use corehop_decide::placer::trial::UndecidedReason;
use corehop_plan::host::{ActiveThread, Activity, Host, HostError, Move};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Cpu, CpuList};

use super::interrupted;
use super::rounds::{ProgramTurns, TrialClock, TurnFigures, turn_of};
use crate::failure::{Exit, Failure};
use crate::voice::note;

/// The length of the window before the arms are known.
const FIRST: Duration = Duration::from_millis(300);
/// The shortest and the longest window.
const WINDOW: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// The number of windows in an interval.
const WINDOWS: u32 = 2;
/// The share of a CPU that a thread must use or wait for to count as wanting a CPU.
const WANTS: f64 = 0.02;
/// The number of consecutive windows with unreadable progress after which the trial is given up.
const MOST_UNREAD: u32 = 5;

/// Intervals of a running process.
pub(super) struct Stretches<'a> {
    host: &'a mut dyn Host,
    stop: Stop,
    window: Duration,
    /// The time by which the host lengthens a window, so that the host's looks take only a limited share of the window.
    longer: Duration,
    /// The CPUs that most threads may use.
    own: CpuList,
    /// The threads at the end of the last window.
    threads: Vec<ActiveThread>,
    /// Threads that chose their own CPUs, and keep them.
    stay: BTreeSet<u32>,
    load: ProgramLoad,
}

impl<'a> Stretches<'a> {
    /// Observes the unpinned threads for a while.
    pub(super) fn begin(
        host: &'a mut dyn Host,
        duration: Duration,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let load = ProgramLoad { threads: 1, busy_cpus: None };
        let (window, own) = (FIRST.min(duration), CpuList::default());
        let stop = stop.clone();
        let (threads, stay) = (Vec::new(), BTreeSet::new());
        let mut found =
            Self { host, stop, window, longer: Duration::ZERO, own, threads, stay, load };
        // The first look at a thread knows no CPU time.
        let ended = || Failure::says(Exit::No, "cannot tell: the process exited before the trial");
        // As in a trial of the placer: shorter windows are worth closer looks.
        found.host.look_closely(true);
        found.window()?.ok_or_else(ended)?;
        let activity = found.window()?.ok_or_else(ended)?;
        found.own = usual(&activity.threads);
        found.load = load_of(&activity);
        found.longer = Duration::from_nanos(activity.span_ns).saturating_sub(window);
        found.leave_alone(None);
        let others = found.stay.len();
        if others > 0 {
            let s = if others == 1 { " keeps the" } else { "s keep the" };
            let own = &found.own;
            note(&format!(
                "{others} thread{s} CPUs that the program chose; corehop pins the other threads, which may use CPUs {own}"
            ));
        }
        Ok(found)
    }

    /// The CPUs that most of the threads may use.
    pub(super) const fn own(&self) -> &CpuList {
        &self.own
    }

    /// The load of the process.
    pub(super) const fn load(&self) -> ProgramLoad {
        self.load
    }

    /// Chooses the window length so that the rounds of `arms` arms fit into the time.
    pub(super) fn divide(&mut self, duration: Duration, arms: usize) {
        let each = turn_of(duration, arms) / WINDOWS;
        self.window = each.clamp(WINDOW[0], WINDOW[1]);
    }

    /// The length of a turn in seconds.
    pub(super) fn turn_s(&self) -> f64 {
        (WINDOWS * (self.window + self.longer)).as_secs_f64()
    }

    /// Observes one window; `None` if the process has ended.
    fn window(&mut self) -> Result<Option<Activity>, Failure> {
        let seen = self.host.observe(self.window).map_err(failed)?;
        self.host.notes().iter().for_each(|it| note(it));
        if self.stop.is_asked() {
            return Err(interrupted());
        }
        if seen.ended.is_some() {
            return Ok(None);
        }
        let activity = seen.activity.unwrap_or_default();
        self.threads.clone_from(&activity.threads);
        Ok(Some(activity))
    }

    /// Measures an interval: the progress per second, and the CPU time per second.
    fn stretch(&mut self) -> Result<Option<TurnFigures>, Failure> {
        for _ in 0..MOST_UNREAD {
            let Some(before) = self.window()? else { return Ok(None) };
            let Some(after) = self.window()? else { return Ok(None) };
            let Some((before, now)) = before.progress.zip(after.progress) else { continue };
            let seconds = after.span_ns.max(1) as f64 * 1e-9;
            let why = match now - before {
                grown if grown > 0.0 => {
                    let busy: u64 = after.threads.iter().map(|it| it.busy_ns).sum();
                    let cpu_s = Some(busy as f64 * 1e-9 / seconds);
                    return Ok(Some(TurnFigures { runs: 1, value: grown / seconds, cpu_s }));
                }
                grown if grown < 0.0 => UndecidedReason::RanBackwards,
                _ => UndecidedReason::StoodStill,
            };
            return Err(undecided(why));
        }
        Err(undecided(UndecidedReason::Unknown))
    }

    /// Notes the threads whose CPUs are neither those of most threads nor those of the previous arm.
    fn leave_alone(&mut self, arm: Option<&PinArm>) {
        let is_of_arm = |it: &ActiveThread| arm.is_some_and(|arm| arm.cpus == it.allowed);
        let others = self.threads.iter().filter(|it| it.allowed != self.own && !is_of_arm(it));
        self.stay.extend(others.map(|it| it.tid));
    }

    /// The moves that pin the threads to an arm. A thread that chose its own CPUs is left alone.
    fn moves(&self, arm: &PinArm) -> Vec<Move> {
        let usual = self.threads.iter().filter(|it| !self.stay.contains(&it.tid));
        usual.map(|it| Move { tid: it.tid, cpus: arm.cpus.clone() }).collect()
    }
}

impl ProgramTurns for Stretches<'_> {
    fn turn(
        &mut self,
        arm: Option<&PinArm>,
        clock: &TrialClock,
    ) -> Result<Option<TurnFigures>, Failure> {
        if clock.left() < WINDOWS * self.window {
            return Ok(None);
        }
        let moves = arm.map(|it| self.moves(it)).filter(|it| !it.is_empty());
        let receipt = match moves.map(|it| self.host.apply(&it)).transpose() {
            Ok(receipt) => receipt,
            Err(error) => return Err(Failure::new(Exit::NotPossible, error)),
        };
        let ended = self.stretch();
        if let Some(receipt) = receipt {
            self.host.revert(receipt).map_err(failed)?;
        }
        self.leave_alone(arm);
        ended
    }
}

/// The CPUs that most threads may use; among equally frequent sets, the largest.
fn usual(threads: &[ActiveThread]) -> CpuList {
    let mut counts: BTreeMap<Vec<Cpu>, usize> = BTreeMap::new();
    for it in threads {
        *counts.entry(it.allowed.iter().collect()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(cpus, count)| (*count, cpus.len()));
    CpuList::new(most.into_iter().flat_map(|(cpus, _)| cpus))
}

fn load_of(activity: &Activity) -> ProgramLoad {
    let span = activity.span_ns.max(1) as f64;
    let wants = |it: &&ActiveThread| (it.busy_ns + it.waited_ns) as f64 > WANTS * span;
    let busy: u64 = activity.threads.iter().map(|it| it.busy_ns).sum();
    let threads = activity.threads.iter().filter(wants).count().max(1);
    ProgramLoad { threads, busy_cpus: Some(busy as f64 / span) }
}

fn undecided(why: UndecidedReason) -> Failure {
    Failure::says(
        Exit::No,
        format!(
            "cannot tell: {why}; load the program during the trial, or name another --progress"
        ),
    )
}

fn failed(error: HostError) -> Failure {
    Failure::new(Exit::Failed, error)
}
