// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for a traced job: a program's memory accesses, read from a file.

use std::path::PathBuf;
use std::sync::Arc;

use corehop_plan::workload::WorkingSet;
use corehop_plan::workload::trace::{
    MOST_ACCESSES, ParsedTrace, ReadError, TraceThread, TraceWindow,
};

use crate::output;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// The options for jobs of other kinds. clap ignores a `requires` whose option conflicts with a given option, so
/// every trace option states these conflicts.
const INSTEAD_OF_TRACE: [&str; 5] = ["workload", "wss", "write_ratio", "pattern", "chains"];

/// The options for a trace in place of a working set.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Replay a program's memory accesses instead of walking working sets, on simulated machines only. The file is
    /// the output of lackey, or of DynamoRIO's view or memtrace (`-`: stdin)
    #[arg(
        long = "from-trace",
        value_name = "FILE",
        conflicts_with_all = INSTEAD_OF_TRACE,
        help_heading = "Instead of the preset's values"
    )]
    trace: Option<PathBuf>,
    /// Skip this many accesses of the trace
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "trace",
        conflicts_with_all = INSTEAD_OF_TRACE,
        help_heading = "Instead of the preset's values"
    )]
    trace_skip: u64,
    /// Replay this many accesses of the trace
    #[arg(
        long,
        value_name = "N",
        default_value_t = TraceWindow::default().take,
        value_parser = clap::value_parser!(u64).range(1..=MOST_ACCESSES),
        requires = "trace",
        conflicts_with_all = INSTEAD_OF_TRACE,
        help_heading = "Instead of the preset's values"
    )]
    trace_take: u64,
    /// Replay this thread of the trace, as 501 or in the trace's notation (W0.T501); default: the first thread
    #[arg(
        long,
        value_name = "TID",
        requires = "trace",
        conflicts_with_all = INSTEAD_OF_TRACE,
        help_heading = "Instead of the preset's values"
    )]
    trace_thread: Option<TraceThread>,
}

impl TraceArgs {
    /// The working set of the trace, if a trace is given.
    pub(super) fn set(&self) -> Result<Option<WorkingSet>, Failure> {
        let Some(path) = &self.trace else { return Ok(None) };
        let name = if path.as_os_str() == "-" {
            "stdin".to_owned()
        } else {
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let window =
            TraceWindow { skip: self.trace_skip, take: self.trace_take, thread: self.trace_thread };
        let read = ParsedTrace::from(input::stream(path)?, &name, window).map_err(refused)?;
        read.notes.iter().for_each(|note| output::note(note));
        let set = WorkingSet::of_trace(Arc::new(read.trace));
        set.map(Some).map_err(|error| Failure::new(Exit::Damaged, error))
    }
}

fn refused(error: ReadError) -> Failure {
    let exit = match error {
        ReadError::Io { .. } => Exit::Failed,
        ReadError::Short { .. } | ReadError::Absent { .. } => Exit::Usage,
        ReadError::Binary { .. } | ReadError::Unknown { .. } => Exit::Damaged,
    };
    Failure::new(exit, error)
}
