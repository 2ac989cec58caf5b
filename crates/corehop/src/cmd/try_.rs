// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop try`: should a program be pinned, and to which CPUs?

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::pinning::{PinTrial, PinTrialView};
use corehop_app::words::for_a_shell;
use corehop_linux::placing::{PlacerSettings, PlacingHost, ProgressSource};
use corehop_linux::whole_runs::TimedCommand;
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::stop::Stop;
use corehop_plan::units::Nanos;
use corehop_system::supervisor::interrupt;
use indicatif::ProgressBar;

use super::measure::{on, outline};
use super::place::{not_placed, process};
use crate::output::{spinner, told};

/// Test a program on fewer CPUs, and print whether to pin it, to which CPUs, and the gain.
///
/// corehop derives the arms (sets of CPUs) from the topology: one NUMA node, no SMT siblings, one cache, one CPU, as
/// many CPUs as threads. Each round runs all arms in random order and, as a control, the kernel's default twice. The
/// trial ends early if an arm wins with 95 % confidence for all arms together, or if no arm shows a gain.
///
/// A command runs some ten times in each arm, with empty input and discarded output. corehop tests a running process
/// (--pid) in stretches, and restores its affinity masks at the end, even after SIGKILL. Exit code 1 means that no
/// arm beats the default, or that the trial cannot decide.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Test this running process and its children in stretches of time
    #[arg(long, value_name = "PID", value_parser = process, requires = "progress")]
    pid: Option<u32>,
    /// Read the program's progress from this source: a file with a growing number, `unix:SOCKET` with one number per
    /// line, or `syscalls:write,sendmsg` for completed system calls (a proxy for progress)
    #[arg(long, value_name = "SOURCE")]
    progress: Option<ProgressSource>,
    /// Take the topology from a platform file of this host, for example of a measured platform [default: Linux's
    /// description]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Stop after this long, and print the best answer at that time
    #[arg(long, value_name = "TIME", default_value = "3min")]
    duration: Nanos,
    /// Draw the order within rounds from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// The command to test, with its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let platform = on::platform(args.platform.as_deref().unwrap_or(on::LIVE))?;
    let stop = Stop::when(interrupt::requested);
    let duration = outline::duration(args.duration);
    let trial = PinTrial { platform: &platform, duration, seed: args.seed, stop: &stop };
    trial.check()?;
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut line = TrialLine(spinner());
    let answer = match args.pid {
        Some(pid) => args.of_process(pid, &trial, &mut line),
        None => args.of_command(&trial, &mut line),
    };
    drop(line);
    told(&answer?, args.json)
}

impl Args {
    fn of_command(
        &self,
        trial: &PinTrial<'_>,
        line: &mut TrialLine,
    ) -> Result<corehop_app::answer::Answer, Failure> {
        let only = [("--progress", self.progress.is_some())];
        refuse("corehop times a command that ends, and does not read its progress", &only)?;
        if self.program.is_empty() {
            let what =
                "missing command: write `-- COMMAND ARGUMENTS`, or --pid PID --progress SOURCE";
            return Err(Failure::says(Exit::Usage, what));
        }
        let words: Vec<Argument> =
            self.program.iter().map(|word| Argument::new(word.as_bytes().to_vec())).collect();
        let shown: Vec<String> = words.iter().map(ToString::to_string).collect();
        let name = for_a_shell(shown.iter().map(String::as_str));
        let failed = |error| Failure::new(Exit::Failed, error);
        let mut command = TimedCommand::new(words).map_err(failed)?;
        let inherited = command.inherited().clone();
        trial.command(&name, &inherited, &mut command, line)
    }

    fn of_process(
        &self,
        pid: u32,
        trial: &PinTrial<'_>,
        line: &mut TrialLine,
    ) -> Result<corehop_app::answer::Answer, Failure> {
        let only = [("the command", !self.program.is_empty())];
        refuse("--pid names a running process, so corehop starts no command", &only)?;
        let wishes = PlacerSettings {
            platform: trial.platform,
            progress: self.progress.as_ref(),
            evidence: &[],
            page_faults: 1,
            search: true,
            moves: true,
            to_stderr: false,
        };
        let mut host = PlacingHost::begin(&[Target::Process(pid)], wishes).map_err(not_placed)?;
        trial.process(pid, &mut host, line)
    }
}

/// The progress line of a running trial, on stderr if that is a terminal.
struct TrialLine(ProgressBar);

impl PinTrialView for TrialLine {
    fn turn(&mut self, line: &str) {
        self.0.set_message(line.to_owned());
        self.0.tick();
    }
}

impl Drop for TrialLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
