// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop record`: records an unmodified program as it runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{Argument, Experiment, Program, Target};
use corehop_plan::units::Bytes;

mod answer;
mod arms;
mod from;

use self::answer::{DrawingOptions, RecordingAnswer, TextTarget, recorded_rows};
use self::arms::ArmArgs;
use super::costs::CostArgs;
use super::measure::to::Out;
use super::measure::{on, outline};
use crate::cmd::VerbOrMode;
use corehop_app::charge::RecordingCharge;
use corehop_app::failure::{Exit, Failure};
use corehop_app::run::{RunOptions, silent};

/// The arguments of `corehop record` and of its modes.
pub(crate) type Args = VerbOrMode<RecordOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Read a scheduler trace of another program as a recording: text of `perf sched script`, `trace-cmd report`,
    /// ftrace or Perfetto.
    From(from::FromOptions),
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => args.run(),
        VerbOrMode::Mode(Mode::From(args)) => args.run(),
    }
}

/// The program to record, and the costs to charge.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordOptions {
    #[command(flatten)]
    out: Out,
    /// Record this process and its children, until the process exits or --budget is over
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Record the processes of this cgroup
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    costs: CostArgs,
    /// State the working-set size of the program, if you know it
    #[arg(long, value_name = "SIZE")]
    wss: Option<Bytes>,
    /// Estimate the working set from the pages that the program touches within 10 ms, four times a second. After each
    /// estimate, the program has to refill its TLB
    #[arg(long, conflicts_with = "wss")]
    estimate_wss: bool,
    #[command(flatten)]
    drawings: DrawingOptions,
    #[command(flatten)]
    arms: ArmArgs,
    /// The program to start and record, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl RecordOptions {
    fn target(&self) -> Result<Target, Failure> {
        let words = &self.program;
        let usage = |what: &str| Err(Failure::says(Exit::Usage, what));
        match (self.pid, &self.cgroup) {
            (None, None) if words.is_empty() => usage(
                "missing program: write `-- PROGRAM ARGUMENTS`, --pid PID or --cgroup DIRECTORY",
            ),
            (None, None) => {
                let bytes = words.iter().map(|word| word.as_bytes().to_vec());
                Ok(Target::Command(bytes.map(Argument::new).collect()))
            }
            _ if !words.is_empty() => usage("use either a program to start, or --pid or --cgroup"),
            (Some(pid), _) => Ok(Target::Process(pid)),
            (_, Some(path)) => Ok(Target::Cgroup(path.clone())),
        }
    }

    /// Records the program, computes its costs, and prints the answer.
    fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(on::LIVE)?;
        let target = self.target()?;
        let arms = self.arms.experiment(&target, self.estimate_wss)?;
        // Costs that make no sense are refused before the program runs.
        let request = self.costs.request();
        let charge = Some(RecordingCharge::of(request.chosen()?, &request, self.wss)?);
        let once = Program::once(target, self.estimate_wss);
        let (experiment, replicates): (&dyn Experiment, u32) = match &arms {
            Some(arms) => (arms, self.arms.blocks()),
            None => (&once, 1),
        };
        let seed = self.arms.draws().seed;
        if self.out.dry_run {
            return outline::of_experiment(experiment, &platform, seed, replicates, self.out.json);
        }
        let given = [request.file(), self.out.output.as_deref()];
        let drawings = self.drawings.files(&given, self.out.force)?;
        // The terminal belongs to the program: no progress is shown.
        let destination = self.out.destination(self.arms.draws().resumes());
        let spool = self.drawings.spool();
        let run =
            RunOptions { spool, replicates, view: silent, charge, ..self.out.to_run(destination) };
        let output_to_stderr = self.out.wants_stdout();
        let mut machine = LiveMachine::new(
            platform,
            LiveMachineOptions { output_to_stderr, ..LiveMachineOptions::default() },
        );
        let mut ended = run.carry_out(&mut machine, experiment, seed)?;
        let rows =
            self.drawings.wants_rows().then(|| recorded_rows(&mut ended)).transpose()?.flatten();
        let answer = RecordingAnswer {
            json: self.out.json,
            is_repeated: self.arms.is_repeated(),
            text: if self.out.stream.is_some() { TextTarget::Nowhere } else { TextTarget::Stderr },
        };
        answer.give(&ended, rows, drawings)
    }
}
