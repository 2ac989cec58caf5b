// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report`

use std::path::PathBuf;

use corehop_core::model::estimator::Estimator;
use corehop_core::model::summary::{CellSummary, Summaries};
use corehop_core::report::table;
use corehop_core::samples::Sample;

use crate::exit::{Exit, Failure};
use crate::{answer, input};

/// What files of ours say: as a table, and as one page that needs no network.
///
/// Several files are joined into one report, whatever their experiments; a `.part` of a run that
/// goes on, or was killed, is read as far as it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files that `corehop measure` wrote.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a table: for a terminal, for other programs, or with everything that is known.
    #[arg(long, value_name = "FORM")]
    table: Option<Form>,
    /// How a delay is computed from the intervals of a sample (see `corehop explain estimator`).
    #[arg(long, default_value = "difference")]
    estimator: Estimator,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// Aligned, for a terminal.
    Text,
    /// One statistic a line, in the columns of the printed tables.
    Csv,
    /// Every cell with all its statistics.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let summaries = summaries(args)?;
    match args.table.unwrap_or(Form::Text) {
        Form::Text => answer::print(&table::text(&summaries, answer::width()))?,
        Form::Csv => print_csv(&summaries)?,
        Form::Json => answer::print(&format!("{:#}\n", serde_json::json!(summaries)))?,
    }
    Ok(Exit::Done)
}

fn summaries(args: &Args) -> Result<Vec<CellSummary>, Failure> {
    let mut summaries = Summaries::new(args.estimator);
    for path in &args.files {
        let mut reader = input::open(path)?;
        while let Some(samples) = reader.next_rows::<Sample>()? {
            summaries.take(&samples);
        }
    }
    Ok(summaries.finish())
}

#[expect(clippy::print_stderr, reason = "what the table leaves out is said beside it")]
fn print_csv(summaries: &[CellSummary]) -> Result<(), Failure> {
    let (chosen, left_out) = table::joinable(summaries);
    if left_out > 0 {
        eprintln!(
            "corehop: {left_out} cells differ from others only in what these columns cannot tell \
             apart (pages, pattern, chains, who preempted); --table json has them all"
        );
    }
    answer::print(&table::csv(&chosen))
}
