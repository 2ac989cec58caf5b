// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure program-costs`: what a preemption and a migration cost a given program.

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

/// Rounds of a program with progress, and of a command that is run again and again.
const ROUNDS: [u32; 2] = [50, 10];

/// Cause preemptions and migrations in a program, and see how much more CPU time the same progress takes.
///
/// In blocks of 100 ms, in random order, threads of the program are moved or preempted at several rates or not at all. The cost of an
/// event is the CPU time beyond that of blocks without events. No counter, no model and no working set is needed. A command without
/// `--progress` is run again and again: a block is a run. At most one thread is held on a CPU at a time; all is put back at the end, even
/// after SIGKILL. A thread that pins itself is left alone. A command that was started here, with `--progress`, is ended by SIGTERM.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    out: Out,
    /// A running process; its children are included
    #[arg(long, value_name = "PID", value_parser = process, requires = "progress", conflicts_with = "program")]
    pid: Option<u32>,
    /// The program's progress: a file with a growing number, `unix:SOCKET` with one number per line, or
    /// `syscalls:write,sendmsg` for completed system calls (a proxy)
    #[arg(long, value_name = "SOURCE")]
    progress: Option<ProgressSource>,
    /// Classes of events: preemption, smt_migration, l2_migration, l3_migration, memory_migration [default: these, as
    /// far as this host has them], and idle_leave (the thread is frozen while its CPU idles)
    #[arg(long = "event", value_name = "LIST", value_delimiter = ',', help_heading = HEADING)]
    events: Vec<Event>,
    /// Lengths of preemptions and idle leaves, 20us to 50ms; each is measured in its own blocks
    #[arg(long = "length", value_name = "LIST", value_delimiter = ',', default_value = "1ms", help_heading = HEADING)]
    lengths: Vec<Nanos>,
    /// The preemptor's working set; each of several sizes is measured in its own blocks
    #[arg(long = "preemptor", value_name = "LIST", value_delimiter = ',', default_value = "512KiB", help_heading = HEADING)]
    preemptors: Vec<Bytes>,
    /// Maximum share of its time that the program loses to the measurement, on average over the run; sets the event
    /// rates
    #[arg(long, value_name = "PERCENT%", value_parser = percent, default_value = "5%", help_heading = HEADING)]
    share: f64,
    /// The length of a block, with --progress [default: 100ms]
    #[arg(long, value_name = "TIME", requires = "progress", help_heading = HEADING)]
    block: Option<Nanos>,
    /// Rounds, of five blocks for each class [default: 50, without --progress 10]
    #[arg(long, value_name = "N", value_parser = count("--rounds 0 measures nothing: omit --rounds for the default"), help_heading = HEADING)]
    rounds: Option<u32>,
    /// Write the costs in OpenMetrics format, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
    /// The seed of the order and of the events' targets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A program to start, with its arguments, after `--`
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
