// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure program-costs`: the costs of a preemption and of a migration for a given program.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_linux::placing::ProgressSource;
use corehop_plan::experiment::{Argument, Interventions, ProgramCosts, Target};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Event, Pattern, Polluter};
use corehop_report::metrics;

use super::to::Out;
use super::{on, outline};
use crate::cmd::place::process;
use crate::output::OutputFile;
use corehop_app::failure::{Exit, Failure};
use corehop_app::program_costs;
use corehop_app::quantities::{count, percent};

/// The heading of these options in the help.
const HEADING: &str = "Events";

/// The default numbers of rounds: for a program that reports progress, and for a command that runs again and again.
const ROUNDS: [u32; 2] = [50, 10];

/// Cause preemptions and migrations in a program, and measure how much more CPU time the same progress takes.
///
/// corehop moves or preempts threads of the program in blocks of 100 ms, at several rates or not at all, in random
/// order. The cost of an event is the CPU time beyond the CPU time of blocks without events. The measurement needs no
/// counter, no model and no working set. If `--progress` is missing, corehop runs the command repeatedly, and a block
/// is a run. corehop holds at most one thread on a CPU at a time, and restores all affinity masks at the end, even
/// after SIGKILL. Threads that pin themselves stay as they are. A command that corehop started with `--progress` ends
/// by SIGTERM.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    out: Out,
    /// Measure this running process and its children
    #[arg(long, value_name = "PID", value_parser = process, requires = "progress", conflicts_with = "program")]
    pid: Option<u32>,
    /// Read the program's progress from this source: a file with a growing number, `unix:SOCKET` with one number per
    /// line, or `syscalls:write,sendmsg` for completed system calls (a proxy for progress)
    #[arg(long, value_name = "SOURCE")]
    progress: Option<ProgressSource>,
    /// Cause events of these classes: preemption, smt_migration, l2_migration, l3_migration, memory_migration
    /// [default: all of these classes that this host has], and idle_leave (the thread is frozen while its CPU idles)
    #[arg(long = "event", value_name = "LIST", value_delimiter = ',', help_heading = HEADING)]
    events: Vec<Event>,
    /// Preempt or freeze threads for each of these lengths, 20us to 50ms; each length has its own blocks
    #[arg(long = "length", value_name = "LIST", value_delimiter = ',', default_value = "1ms", help_heading = HEADING)]
    lengths: Vec<Nanos>,
    /// Let the preemptor walk a working set of each of these sizes; each size has its own blocks
    #[arg(long = "preemptor", value_name = "LIST", value_delimiter = ',', default_value = "512KiB", help_heading = HEADING)]
    preemptors: Vec<Bytes>,
    /// Choose the event rates so that the program loses at most this share of its time, on average over the run
    #[arg(long, value_name = "PERCENT%", value_parser = percent, default_value = "5%", help_heading = HEADING)]
    share: f64,
    /// Make blocks this long, with --progress [default: 100ms]
    #[arg(long, value_name = "TIME", requires = "progress", help_heading = HEADING)]
    block: Option<Nanos>,
    /// Run this many rounds, each with five blocks for each class [default: 50, without --progress 10]
    #[arg(long, value_name = "N", value_parser = count("--rounds 0 measures nothing: omit --rounds for the default"), help_heading = HEADING)]
    rounds: Option<u32>,
    /// Write the costs in OpenMetrics format, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
    /// Draw the order of blocks and the threads of the events from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program to start, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(on::LIVE)?;
        let experiment = self.experiment()?;
        if self.out.dry_run {
            return outline::of_experiment(&experiment, &platform, self.seed, 1, self.out.json);
        }
        let run = self.out.to_run(self.out.destination(false));
        let options = LiveMachineOptions {
            output_to_stderr: self.out.wants_stdout(),
            ..LiveMachineOptions::default()
        };
        let mut machine = LiveMachine::new(platform, options);
        let inputs: Vec<&Path> = self.out.output.as_deref().into_iter().collect();
        let metrics = OutputFile::if_asked(self.metrics.as_ref(), &inputs, self.out.force)?;
        let ended = run.carry_out(&mut machine, &experiment, self.seed)?;
        let mut answer = run.answer(&ended)?;
        if let Some(costs) = ended.tally.program_costs() {
            program_costs::orient(&mut answer, &costs);
            if let Some(file) = metrics {
                file.write(metrics::of_costs(&costs))?;
            }
        }
        self.out.tell(&answer)
    }

    fn experiment(&self) -> Result<ProgramCosts, Failure> {
        let usual = ROUNDS[usize::from(self.progress.is_none())];
        let preemptor =
            |&wss: &Bytes| Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.5 };
        let plan = Interventions {
            target: self.target()?,
            progress: self.progress.as_ref().map(ToString::to_string),
            block: self.block.unwrap_or(Nanos::from_millis(100)),
            share: self.share,
            lengths: self.lengths.clone(),
            preemptors: self.preemptors.iter().map(preemptor).collect(),
            events: self.events.clone(),
            blocks: Vec::new(),
        };
        Ok(ProgramCosts { plan, rounds: self.rounds.unwrap_or(usual) })
    }

    fn target(&self) -> Result<Target, Failure> {
        match self.pid {
            Some(pid) => Ok(Target::Process(pid)),
            None if self.program.is_empty() => {
                let what =
                    "missing program: write `-- PROGRAM ARGUMENTS`, or --pid PID with --progress";
                Err(Failure::says(Exit::Usage, what))
            }
            None => {
                let words = self.program.iter().map(|word| word.as_bytes().to_vec());
                Ok(Target::Command(words.map(Argument::new).collect()))
            }
        }
    }
}
