// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop record from`: reads a trace from another tool as a recording.

use std::path::{Path, PathBuf};

use corehop_app::charge::RecordingCharge;
use corehop_app::costs::ChosenCosts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;
use corehop_app::run::{Destination, RunOptions, silent};
use corehop_plan::experiment::{Argument, Program, Target};
use corehop_plan::replay::TraceMachine;
use corehop_plan::shown;
use corehop_plan::units::Bytes;
use corehop_stats::campaign::sampling::Goal;

use super::answer::{DrawingOptions, RecordingAnswer, TextTarget, recorded_rows};
use crate::cmd::costs::CostArgs;
use crate::cmd::measure::on;
use crate::output::{Force, note};

/// Read a scheduler trace of another program as a recording: text of `perf sched script`, `trace-cmd report`, ftrace
/// or Perfetto.
///
/// As for `corehop record`, the answer has the absences of the threads, their causes and their cost. If the trace
/// lacks a fact, the fact is unknown. The answer names the missing facts, and the lines that corehop could not
/// understand.
#[derive(Debug, clap::Args)]
pub(crate) struct FromOptions {
    /// Read the trace as text from this file; `-` stands for standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Record only this process or thread and the processes that it starts; default: all threads of the trace
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Classify migrations by the caches of this machine (a platform's name or a file), on which the trace was
    /// recorded; default: this host
    #[arg(long, value_name = "NAME|FILE")]
    platform: Option<String>,
    /// Write the rows to this file; the file is called `FILE.part` until the run is complete
    #[arg(short, long, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    costs: CostArgs,
    /// State the working-set size of the program, if you know it
    #[arg(long, value_name = "SIZE")]
    wss: Option<Bytes>,
    #[command(flatten)]
    drawings: DrawingOptions,
}

impl FromOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(self.platform.as_deref().unwrap_or(on::LIVE))?;
        let request = self.costs.request();
        let charge = RecordingCharge::of(self.costs()?, &request, self.wss)?;
        let given = [request.file(), self.output.as_deref(), Some(self.file.as_path())];
        let drawings = self.drawings.files(&given, self.force)?;
        let source = input::stream(&self.file)?;
        if self.platform.is_none() {
            note(
                "corehop assumes that the trace comes from this host: name another machine with --platform",
            );
        }
        let mut machine = TraceMachine::new(platform, source, self.name(), self.pid);
        let run = self.options(charge);
        let mut ended = run
            .carry_out(&mut machine, &self.experiment(), 1)
            .map_err(|failure| failure.context(shown::path(&self.file)))?;
        let is_wanted = self.drawings.wants_rows();
        let rows = is_wanted.then(|| recorded_rows(&mut ended)).transpose()?.flatten();
        let answer =
            RecordingAnswer { json: self.json, is_repeated: false, text: TextTarget::Stdout };
        answer.give(&ended, rows, drawings)
    }

    /// The costs that the options name. The costs of this host are used only for traces from this host.
    fn costs(&self) -> Result<ChosenCosts, Failure> {
        let request = self.costs.request();
        if request.is_given() || self.platform.is_none() {
            return request.chosen();
        }
        request.refuse_without_costs()?;
        let origin =
            "no costs: the costs of this host do not apply to another machine (--costs FILE)";
        Ok(ChosenCosts { source: None, origin: origin.to_owned() })
    }

    /// The recording in words.
    fn name(&self) -> String {
        let is_stdin = self.file == Path::new("-");
        let file = if is_stdin { "standard input".to_owned() } else { shown::path(&self.file) };
        self.pid.map_or_else(|| file.clone(), |pid| format!("process {pid} in {file}"))
    }

    fn experiment(&self) -> Program {
        let file = Path::new(&self.file).as_os_str().as_encoded_bytes().to_vec();
        let target =
            self.pid.map_or_else(|| Target::Command(vec![Argument::new(file)]), Target::Process);
        Program::once(target, false)
    }

    fn options(&self, charge: RecordingCharge) -> RunOptions {
        let destination = self.output.as_ref().map(|path| Destination::File {
            path: path.clone(),
            resume: false,
            force: self.force.into(),
        });
        RunOptions {
            destination,
            spool: self.drawings.spool(),
            goal: Goal::Count,
            replicates: 1,
            budget: None,
            view: silent,
            charge: Some(charge),
        }
    }
}
