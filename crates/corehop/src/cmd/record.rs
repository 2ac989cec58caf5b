// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop record`: records an unmodified program as it runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use corehop_decide::run_cost::ChargedRecording;
use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{Argument, Experiment, Program, Target};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{FileError, Reader, RecordedAbsence, Recording};
use corehop_plan::units::Bytes;
use corehop_report::observed::TraceWriter;
use corehop_report::{metrics, observed, observed_page, program_runs};

use serde_json::json;

mod arms;

use self::arms::ArmArgs;
use super::costs::CostArgs;
use super::measure::to::Out;
use super::measure::{on, outline};
use crate::output::{OutputFile, print, say, stdout_layout};
use corehop_app::charge::RecordingCharge;
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;
use corehop_app::run::{RunOptions, RunOutcome, of_arms, silent};

/// The program to record, and the costs to charge.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    /// The working set of the program, if known
    #[arg(long, value_name = "SIZE")]
    wss: Option<Bytes>,
    /// Estimate the working set from the pages that the program touches within 10 ms, four times a second. Each
    /// estimate makes the program refill its TLB
    #[arg(long, conflicts_with = "wss")]
    estimate_wss: bool,
    /// Write a page with tables and a timeline of the threads with the longest absences
    #[arg(long, value_name = "FILE.html")]
    timeline: Option<PathBuf>,
    /// Write the events in the trace-event format, for Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Write times, events and their cost in OpenMetrics format, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    arms: ArmArgs,
    /// The program to start and record, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Args {
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
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(on::LIVE)?;
        let target = self.target()?;
        let arms = self.arms.experiment(&target, self.estimate_wss)?;
        // Costs that make no sense are refused before the program runs.
        let charge = Some(RecordingCharge::of(&self.costs.request(), self.wss)?);
        let once = Program::once(target, self.estimate_wss);
        let (experiment, replicates): (&dyn Experiment, u32) = match &arms {
            Some(arms) => (arms, self.arms.blocks()),
            None => (&once, 1),
        };
        let seed = self.arms.draws().seed;
        if self.out.dry_run {
            return outline::of_experiment(experiment, &platform, seed, replicates, self.out.json);
        }
        let drawings = self.drawings()?;
        // The terminal belongs to the program: no progress is shown.
        let destination = self.out.destination(self.arms.draws().resumes());
        let spool = self.trace.as_deref().map(spool_folder);
        let run =
            RunOptions { spool, replicates, view: silent, charge, ..self.out.to_run(destination) };
        let output_to_stderr = self.out.wants_stdout();
        let mut machine = LiveMachine::new(
            platform,
            LiveMachineOptions { output_to_stderr, ..LiveMachineOptions::default() },
        );
        let mut ended = run.carry_out(&mut machine, experiment, seed)?;
        let rows = self.trace.as_ref().map(|_| recorded_rows(&mut ended)).transpose()?.flatten();
        self.answer(&ended, rows, drawings)
    }

    /// Writes the drawings of a recording, and prints the answer.
    fn answer(
        &self,
        ended: &RunOutcome,
        rows: Option<Reader<File>>,
        [page, trace, metrics]: [Option<OutputFile>; 3],
    ) -> Result<Exit, Failure> {
        let (recording, platform) = ended.tally.recording(&ended.provenance)?;
        let Some(ChargedRecording { cost, refills, costs: origin }) = &ended.charged else {
            return Err(Failure::says(Exit::Failed, "this recording was not charged"));
        };
        let comparison = of_arms(recording, refills)?;
        let drawn =
            page.map_or(Ok(()), |file| file.write(observed_page::page(recording, cost, &platform)));
        let traced = trace.zip(rows).map_or(Ok(()), |(file, mut rows)| {
            file.fill(|out| write_trace(BufWriter::new(out), &mut rows, recording, &platform))
        });
        let measured = metrics.map_or(Ok(()), |file| file.write(metrics::of_run(recording, cost)));
        let mut printed = Ok(());
        if self.out.json {
            let mut answer = observed::json(recording, cost);
            answer["costs"] = json!(origin);
            answer["comparison"] = json!(comparison);
            printed = print(&format!("{}\n", doubts::with(answer)));
        } else if self.out.stream.is_none() {
            let compared = comparison.as_ref().map_or_else(String::new, program_runs::text);
            let text = format!("{compared}{}{origin}\n", observed::text(recording, cost));
            say(&stdout_layout().fold(&text));
        }
        // A wrapper ends as the program did. Of several runs all have succeeded, or none was compared.
        let status = recording.facts.status.filter(|_| !self.arms.is_repeated());
        for failure in [drawn, traced, measured, printed].into_iter().filter_map(Result::err) {
            if status.is_none() {
                return Err(failure);
            }
            let _of_the_program = crate::output::report(&failure);
        }
        let status = status.and_then(|status| u8::try_from(status).ok());
        Ok(status.map_or(ended.exit, |status| match status {
            0 => Exit::Done,
            other => Exit::Of(other),
        }))
    }

    /// The files for the page, the trace and the metrics.
    fn drawings(&self) -> Result<[Option<OutputFile>; 3], Failure> {
        let costs = self.costs.request();
        let given = [costs.file(), self.out.output.as_deref()];
        let inputs: Vec<&Path> = given.into_iter().flatten().collect();
        let paths = [self.timeline.as_ref(), self.trace.as_ref(), self.metrics.as_ref()];
        OutputFile::all_asked(paths, &inputs, self.out.force)
    }
}

/// The folder for rows that `trace` is written from: that of the trace, which is as large, unless that is a device.
fn spool_folder(trace: &Path) -> PathBuf {
    let folder = trace.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.unwrap_or(Path::new(".")) {
        folder if folder.starts_with("/dev") || folder.starts_with("/proc") => std::env::temp_dir(),
        folder => folder.to_owned(),
    }
}

/// The recorded absences, from the file of the run or the one without a name.
fn recorded_rows(ended: &mut RunOutcome) -> Result<Option<Reader<File>>, Failure> {
    match (ended.files.first(), ended.spool.take()) {
        (Some(path), _) => input::open(path).map(Some),
        (None, Some(file)) => input::opened(Path::new("the rows for --trace"), file).map(Some),
        (None, None) => Ok(None),
    }
}

/// Writes the trace of a recording, batch by batch.
fn write_trace(
    out: impl Write,
    rows: &mut Reader<File>,
    recording: &Recording,
    platform: &Platform,
) -> Result<(), FileError> {
    let mut trace = TraceWriter::begin(out, recording, platform)?;
    while let Some(rows) = rows.next_rows::<RecordedAbsence>()? {
        trace.take(&rows)?;
    }
    Ok(trace.end()?)
}
