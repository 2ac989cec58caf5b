// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report`

use std::path::{Path, PathBuf};

use corehop_core::model::estimator::Estimator;
use corehop_core::model::summary::CellSummary;
use corehop_core::report::data::{Gather, ReportData};
use corehop_core::report::{html, sections, table};

use crate::exit::{Exit, Failure};
use crate::{answer, input};

/// What files of ours say: as a table, and as one page that needs no network.
///
/// Several files are joined into one report, whatever their experiments; a `.part` of a run that
/// goes on, or was killed, is read as far as it goes, and the report says so. A platform file that
/// `corehop platform --measure -o FILE.toml` wrote on the same machine adds what was measured of it:
/// how long a cache line takes from CPU to CPU, and which stated facts are true.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files that `corehop measure` wrote; platform files (`*.toml`) of the machines they are from.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a table: for a terminal (as is done when no page is asked for), for other programs, or
    /// with everything that is known.
    #[arg(long, value_name = "FORM")]
    table: Option<Form>,
    /// Write a page: one HTML file with everything in it.
    #[arg(short, long, value_name = "REPORT.html")]
    output: Option<PathBuf>,
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
    let data = gather(&args.files, args.estimator)?;
    if let Some(path) = &args.output {
        write_page(&data, path)?;
    }
    match args.table.or(args.output.is_none().then_some(Form::Text)) {
        Some(Form::Text) => answer::print(&text(&data))?,
        Some(Form::Csv) => print_csv(&data.summaries)?,
        Some(Form::Json) => {
            answer::print(&format!("{:#}\n", serde_json::json!(data.summaries)))?;
        }
        None => {}
    }
    Ok(Exit::Done)
}

/// What `files` say together.
pub(crate) fn gather(files: &[PathBuf], estimator: Estimator) -> Result<ReportData, Failure> {
    let mut gather = Gather::new(estimator);
    let is_platform = |path: &&PathBuf| path.extension().is_some_and(|it| it == "toml");
    let (platforms, samples): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_platform);
    for path in samples {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let mut reader = input::open(path)?;
        gather
            .file(&name, &mut reader)
            .map_err(|error| Failure::from(error).context(path.display().to_string()))?;
    }
    for path in platforms {
        let platform = super::platform::described(&path.to_string_lossy())?;
        gather.platform(platform).map_err(|error| {
            Failure::new(Exit::Usage, error).context(path.display().to_string())
        })?;
    }
    Ok(gather.finish())
}

/// Writes the page of `data` to `path`.
pub(crate) fn write_page(data: &ReportData, path: &Path) -> Result<(), Failure> {
    std::fs::write(path, html::page(data))
        .map_err(|error| Failure::new(Exit::Failed, error).context(path.display().to_string()))
}

fn text(data: &ReportData) -> String {
    let others = sections::other_tables(data);
    table::text(&data.summaries, answer::width())
        + &others.iter().map(table::plain).collect::<String>()
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
