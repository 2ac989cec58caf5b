// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of a recording: text or JSON, and the files with the page, the trace and the metrics of the
//! recording.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;
use corehop_app::run::{RunOutcome, of_arms};
use corehop_decide::run_cost::{ChargedRecording, RunCost};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{FileError, Reader, RecordedAbsence, Recording};
use corehop_report::observed::TraceWriter;
use corehop_report::{metrics, observed, observed_page, program_runs};

use serde_json::json;

use crate::output::{Force, OutputFile, print, say, stdout_layout};

/// The files that show a recording.
#[derive(Debug, clap::Args)]
pub(super) struct DrawingOptions {
    /// Write a page with tables and a timeline of the threads with the longest absences
    #[arg(long, value_name = "FILE.html")]
    timeline: Option<PathBuf>,
    /// Write the events in the trace-event format for Perfetto, with tracks of threads and of CPUs and the expected
    /// lost time
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Write times, events and the cost of the events in OpenMetrics format, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
}

impl DrawingOptions {
    /// The output files for the page, the trace and the metrics, none of which may be one of `inputs`.
    pub(super) fn files(
        &self,
        inputs: &[Option<&Path>],
        force: Force,
    ) -> Result<[Option<OutputFile>; 3], Failure> {
        let inputs: Vec<&Path> = inputs.iter().copied().flatten().collect();
        let paths = [self.timeline.as_ref(), self.trace.as_ref(), self.metrics.as_ref()];
        OutputFile::all_asked(paths, &inputs, force)
    }

    /// Whether an output file needs the recorded rows.
    pub(super) const fn wants_rows(&self) -> bool {
        self.trace.is_some()
    }

    /// The folder for temporary rows, if rows are needed and have no file of their own.
    pub(super) fn spool(&self) -> Option<PathBuf> {
        self.trace.as_deref().map(spool_folder)
    }
}

/// The stream for the text of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum TextTarget {
    /// The text goes to stdout, because the recording comes from a trace and no program uses stdout.
    Stdout,
    /// The text goes to stderr, because the program uses stdout.
    Stderr,
    /// No text is printed, because the rows on stdout must stay undisturbed.
    Nowhere,
}

/// The format and the destination of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordingAnswer {
    /// Whether the answer is JSON.
    pub(super) json: bool,
    /// The stream for the text, unless the answer is JSON.
    pub(super) text: TextTarget,
    /// Whether the program ran in blocks.
    pub(super) is_repeated: bool,
}

impl RecordingAnswer {
    /// Writes the page, trace and metrics of a recording, and prints the answer.
    pub(super) fn give(
        self,
        ended: &RunOutcome,
        rows: Option<Reader<File>>,
        [page, trace, metrics]: [Option<OutputFile>; 3],
    ) -> Result<Exit, Failure> {
        let (recording, platform) = ended.tally.recording(&ended.provenance)?;
        let Some(ChargedRecording { cost, refills, costs: origin }) = &ended.charged else {
            return Err(Failure::says(Exit::Failed, "corehop charged no costs to this recording"));
        };
        let comparison = of_arms(recording, refills)?;
        let drawn =
            page.map_or(Ok(()), |file| file.write(observed_page::page(recording, cost, &platform)));
        let traced = trace.zip(rows).map_or(Ok(()), |(file, mut rows)| {
            file.fill(|out| {
                write_trace(BufWriter::new(out), &mut rows, (recording, cost), &platform)
            })
        });
        let measured = metrics.map_or(Ok(()), |file| file.write(metrics::of_run(recording, cost)));
        let mut printed = Ok(());
        if self.json {
            let mut answer = observed::json(recording, cost);
            answer["sentence"] =
                program_runs::sentence(recording, cost, comparison.as_ref()).into();
            answer["costs"] = json!(origin);
            answer["comparison"] = json!(comparison);
            printed = print(&format!("{}\n", doubts::with(answer)));
        } else {
            let compared = comparison.as_ref().map_or_else(String::new, program_runs::text);
            let text = format!("{compared}{}{origin}\n", observed::text(recording, cost));
            let text = stdout_layout().fold(&text);
            match self.text {
                TextTarget::Stdout => printed = print(&text),
                TextTarget::Stderr => say(&text),
                TextTarget::Nowhere => {}
            }
        }
        // A wrapper ends as the program did. Of several runs all have succeeded, or none was compared.
        let status = recording.facts.status.filter(|_| !self.is_repeated);
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
}

/// The folder for the temporary rows from which `trace` is written: the folder of the trace, because both need
/// similar space, unless the trace is a device.
fn spool_folder(trace: &Path) -> PathBuf {
    let folder = trace.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.unwrap_or(Path::new(".")) {
        folder if folder.starts_with("/dev") || folder.starts_with("/proc") => std::env::temp_dir(),
        folder => folder.to_owned(),
    }
}

/// The recorded absences, from the run's file or its unnamed temporary file.
pub(super) fn recorded_rows(ended: &mut RunOutcome) -> Result<Option<Reader<File>>, Failure> {
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
    (recording, cost): (&Recording, &RunCost),
    platform: &Platform,
) -> Result<(), FileError> {
    let mut trace = TraceWriter::begin(out, recording, platform, cost)?;
    while let Some(rows) = rows.next_rows::<RecordedAbsence>()? {
        trace.take(&rows)?;
    }
    Ok(trace.end()?)
}
