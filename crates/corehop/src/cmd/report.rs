// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report`

use std::path::{Path, PathBuf};

use corehop_core::model::estimator::Estimator;
use corehop_core::model::summary::CellSummary;
use corehop_core::report::data::{Gather, ReportData};
use corehop_core::report::study::page;
use corehop_core::report::{html, screen, sections, table};
use corehop_core::samples::RowKind;
use corehop_core::study::StudyCounts;

use super::study;
use crate::exit::{Exit, Failure};
use crate::run::of_kind;
use crate::{input, output};

/// Summarise samples as a table, and as one page that needs no network.
///
/// One report joins files of any experiments. It reads the complete rows of a `.part` file and marks the run
/// as incomplete. A platform file of the same machine (`corehop platform --measure -o FILE.toml`) adds the
/// cache-line transfer time between CPUs, and which stated facts are true.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of `corehop measure`, and platform files (`*.toml`) of their machines. Or one file of
    /// `corehop study -o`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a table: one screen for a terminal (the default without -o), text with all statistics of a
    /// terminal, csv for other programs, or json.
    #[arg(long, value_name = "FORM")]
    table: Option<Form>,
    /// Restrict the table to cells with this value of a column: `page=thp`, `load=idle`, `chains=4`.
    /// May be given several times. A page always has all cells.
    #[arg(long, value_name = "COLUMN=VALUE")]
    only: Vec<String>,
    /// Write a page: one self-contained HTML file.
    #[arg(short, long, value_name = "REPORT.html")]
    output: Option<PathBuf>,
    /// The estimator of the delay of a sample (see `corehop explain estimator`).
    #[arg(long, default_value = "difference")]
    estimator: Estimator,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// At most fifty lines: medians with intervals, and a sentence that answers.
    Screen,
    /// All cells: medians, maxima, counts, replicates, and the same sentence.
    Text,
    /// One statistic per line, in the columns of the printed tables.
    Csv,
    /// Every cell with all its statistics; for task sets and `conditions` an object with more fields
    /// beside `cells`.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let form = args.table.or(args.output.is_none().then_some(Form::Screen));
    if form.is_none() && !args.only.is_empty() {
        let what = "--only selects cells of a table: add --table, or leave out -o";
        return Err(Failure::says(Exit::Usage, what));
    }
    if let [one] = args.files.as_slice()
        && let Some(outcome) = study::counts(one)?
    {
        return counts(args, form, &outcome);
    }
    let mut data = gather(&args.files, args.estimator)?;
    if let Some(path) = &args.output {
        write_page(&data, path)?;
    }
    data.summaries = table::only(&data.summaries, &args.only)
        .map_err(|why| Failure::says(Exit::Usage, format!("--only: {why}")))?;
    match form {
        Some(Form::Screen) => {
            output::print(&screen::screen(&data, output::width(), args.only.is_empty()))?;
        }
        Some(Form::Text) => output::print(&text(&data, args.only.is_empty()))?,
        Some(Form::Csv) => print_csv(&data.summaries)?,
        Some(Form::Json) => {
            output::print(&format!("{:#}\n", everything(&data)))?;
        }
        None => {}
    }
    Ok(Exit::Done)
}

/// The cells; beside them the outcomes of task sets and the causes of the spread, if present.
fn everything(data: &ReportData) -> serde_json::Value {
    let cells = serde_json::json!(data.summaries);
    let mut all = serde_json::Map::new();
    all.extend(data.tasks.as_ref().map(|it| ("task_sets".to_owned(), serde_json::json!(it))));
    if !data.spreads.is_empty() {
        all.insert("conditions".to_owned(), serde_json::json!(data.spreads));
    }
    if all.is_empty() {
        return cells;
    }
    all.insert("cells".to_owned(), cells);
    all.into()
}

/// The counts of a study: its page, or its tables.
fn counts(args: &Args, form: Option<Form>, outcome: &StudyCounts) -> Result<Exit, Failure> {
    if !args.only.is_empty() || matches!(form, Some(Form::Csv)) {
        let what = "the counts of a study have no cells: leave out --only, and use --table text or json \
                    (`corehop show FILE --rows N` prints the counts)";
        return Err(Failure::says(Exit::Usage, what));
    }
    if let Some(path) = &args.output {
        output::write(path, page(outcome))?;
    }
    match form {
        Some(Form::Json) => output::print(&format!("{:#}\n", outcome.json()))?,
        Some(_) => output::print(&study::text(outcome, &[]))?,
        None => {}
    }
    Ok(Exit::Done)
}

/// The joined data of `files`.
pub(crate) fn gather(files: &[PathBuf], estimator: Estimator) -> Result<ReportData, Failure> {
    let mut gather = Gather::new(estimator);
    let is_platform = |path: &&PathBuf| path.extension().is_some_and(|it| it == "toml");
    let (platforms, samples): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_platform);
    refuse_twice(&samples)?;
    let threads = threads_beside(&samples)?;
    let samples = samples.into_iter().chain(&threads);
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

/// The files of the threads of recorded programs that are not among `files`.
fn threads_beside(files: &[&PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut beside = Vec::new();
    for path in files {
        let threads = of_kind(path, RowKind::Threads);
        let of_program = || input::open(path).map(|it| it.rows_kind().ok());
        if threads.exists()
            && !files.contains(&&threads)
            && of_program()? == Some(RowKind::Absences)
        {
            beside.push(threads);
        }
    }
    Ok(beside)
}

/// A file that is given twice would count every sample twice.
fn refuse_twice(files: &[&PathBuf]) -> Result<(), Failure> {
    let mut seen = std::collections::BTreeSet::new();
    // Opening a missing file reports it later.
    let real = |path: &&&PathBuf| std::fs::canonicalize(path).is_ok_and(|real| !seen.insert(real));
    match files.iter().find(real) {
        Some(path) => {
            let what =
                format!("{} is given twice, and its samples would count twice", path.display());
            Err(Failure::says(Exit::Usage, what))
        }
        None => Ok(()),
    }
}

/// Writes the page of `data` to `path`.
pub(crate) fn write_page(data: &ReportData, path: &Path) -> Result<(), Failure> {
    output::write(path, html::page(data))
}

/// The table of the cells; with the other contents of the files, unless cells were selected.
fn text(data: &ReportData, whole: bool) -> String {
    let others = if whole { sections::other_tables(data) } else { Vec::new() };
    let notes = if whole { sections::notes(data) } else { Vec::new() };
    table::text(&data.summaries, output::width())
        + &others.iter().map(table::plain).collect::<String>()
        + &notes.into_iter().flat_map(|note| [note, "\n".to_owned()]).collect::<String>()
        + &screen::ending(data, output::width())
}

#[expect(clippy::print_stderr, reason = "what the table leaves out is said beside it")]
fn print_csv(summaries: &[CellSummary]) -> Result<(), Failure> {
    let table::Joinable { chosen, left_out } = table::joinable(summaries);
    let count: usize = left_out.iter().map(|(_, count)| count).sum();
    if count > 0 {
        eprintln!(
            "corehop: {count} cells are left out, which differ from others in what these columns \
             cannot tell; --only COLUMN=VALUE prints them, --table json has all:"
        );
        for (what, count) in left_out {
            eprintln!("  {count} with {what}");
        }
    }
    output::print(&table::csv(&chosen))
}
