// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of a command: complete, timed runs.

use std::time::Duration;

use corehop_decide::pinning::arms::{PinArm, ProgramLoad};
use corehop_plan::host::whole_run::{CommandRunner, WholeRun, WholeRunError};
use corehop_plan::units::CpuList;

use super::rounds::{ProgramTurns, TrialClock, TurnFigures, turn_of};
use crate::failure::{Exit, Failure};
use crate::voice::note;

/// The duration below which a run consists mostly of process start-up.
const SHORT_NS: u64 = 10_000_000;

/// A command that is shorter than this runs several times per turn if the time allows, so that process start-up and
/// other activity on the host weigh less.
const TURN: Duration = Duration::from_millis(300);

/// The complete runs of a command.
pub(super) struct WholeRuns<'a> {
    words: &'a str,
    runner: &'a mut dyn CommandRunner,
    /// The shortest length of a turn.
    turn: Duration,
}

/// The first, unpinned run of a command.
pub(super) struct FirstRun {
    pub(super) load: ProgramLoad,
    pub(super) wall_s: f64,
}

impl<'a> WholeRuns<'a> {
    pub(super) fn new(words: &'a str, runner: &'a mut dyn CommandRunner) -> Self {
        Self { words, runner, turn: Duration::ZERO }
    }

    /// Runs the command unpinned, counts its threads, and reports a run that is too short for a good answer.
    pub(super) fn first(&mut self, clock: &TrialClock) -> Result<Option<FirstRun>, Failure> {
        let Some(run) = self.run(None, clock)? else { return Ok(None) };
        if run.wall_ns < SHORT_NS {
            note(&format!(
                "the command ends within {:.1} ms, most of which is process start: give the command more work to learn about the program",
                run.wall_ns as f64 / 1e6
            ));
        }
        let busy_cpus = run.cpu_ns as f64 / run.wall_ns.max(1) as f64;
        let load = ProgramLoad { threads: run.threads, busy_cpus: Some(busy_cpus) };
        Ok(Some(FirstRun { load, wall_s: run.wall_ns as f64 * 1e-9 }))
    }

    /// Chooses a length of turns with which the rounds of `arms` arms fit into the time; returns the length of a turn
    /// in seconds, given the duration of a run.
    pub(super) fn divide(&mut self, duration: Duration, arms: usize, wall_s: f64) -> f64 {
        self.turn = turn_of(duration, arms).min(TURN);
        wall_s.max(self.turn.as_secs_f64())
    }

    /// Runs the command once; the run must not end early, and the command must succeed.
    fn run(
        &mut self,
        arm: Option<&PinArm>,
        clock: &TrialClock,
    ) -> Result<Option<WholeRun>, Failure> {
        let run = self.runner.run(arm.map(|it| &it.cpus), clock.left()).map_err(not_run)?;
        if run.ended_early {
            return Ok(None);
        }
        if run.status == 0 { Ok(Some(run)) } else { Err(self.failed(arm, run.status)) }
    }

    fn failed(&self, arm: Option<&PinArm>, status: i32) -> Failure {
        let name = arm.map_or("default", |it| it.kind.word());
        let pinned = |cpus: &CpuList| format!("taskset -c {cpus} {}", self.words);
        let alone = arm.map_or_else(|| self.words.to_owned(), |it| pinned(&it.cpus));
        let exit = u8::try_from(status).map_or(Exit::Failed, Exit::Of);
        let what = format!(
            "arm {name}: the command failed with status {status}, so its time is meaningless; `{alone}` shows why"
        );
        Failure::says(exit, what)
    }
}

impl ProgramTurns for WholeRuns<'_> {
    fn turn(
        &mut self,
        arm: Option<&PinArm>,
        clock: &TrialClock,
    ) -> Result<Option<TurnFigures>, Failure> {
        let (mut runs, mut wall_s, mut cpu_s) = (0, 0.0, 0.0);
        while runs == 0 || wall_s < self.turn.as_secs_f64() {
            let Some(run) = self.run(arm, clock)? else { return Ok(None) };
            runs += 1;
            wall_s += run.wall_ns as f64 * 1e-9;
            cpu_s += run.cpu_ns as f64 * 1e-9;
        }
        let each = runs as f64;
        Ok(Some(TurnFigures { runs, value: wall_s / each, cpu_s: Some(cpu_s / each) }))
    }
}

fn not_run(error: WholeRunError) -> Failure {
    let exit = match error {
        WholeRunError::NotStarted { .. } | WholeRunError::Strays { .. } => Exit::Usage,
        WholeRunError::Failed { .. } => Exit::Failed,
    };
    Failure::new(exit, error)
}
