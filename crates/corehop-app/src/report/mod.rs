// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports results as a table, a screen, data or a page, and shows the contents of one file.

mod bundle;
mod contents;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use corehop_decide::placer::log::PlacementLog;
use corehop_plan::shown;
use corehop_report::figure::FigureTable;
use corehop_report::front::shell_path;
use corehop_report::off_load::OffLoadAnswer;
use corehop_report::study::page as study_page;
use corehop_report::{listing, page, paste, placement, screen, sections, table};
use corehop_results::Results;
use corehop_sched::study::StudyCounts;
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::CellSummary;
use serde_json::{Value, json};

use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::layout::TerminalLayout;
use crate::voice::warn;
use crate::{input, study};
pub use contents::{ContentsForm, contents};

/// A request to report the results in files.
#[derive(Debug, Clone)]
pub struct ReportRequest {
    /// The input files: files of rows with platform files, or one answer of another verb.
    pub files: Vec<PathBuf>,
    /// The form of the table; `None` for a page alone.
    pub form: Option<ReportForm>,
    /// The column values by which cells are selected for the table.
    pub only: Vec<String>,
    /// The output file for a page.
    pub output: Option<PathBuf>,
    /// The output file for a bundle of the results.
    pub bundle: Option<PathBuf>,
    /// Whether existing files may be replaced.
    pub force: bool,
    /// The estimator of delays; `None` selects the difference.
    pub estimator: Option<Estimator>,
    /// The number of columns of a table.
    pub width: usize,
    /// The layout of text.
    pub layout: TerminalLayout,
}

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportForm {
    /// A summary that fits on one screen.
    Screen,
    /// All cells as text.
    Text,
    /// CSV with one statistic per line, for other programs.
    Csv,
    /// Tables in Markdown.
    Markdown,
    /// Tables in LaTeX.
    Latex,
    /// JSON with every cell and all its statistics.
    Json,
}

/// A sentence, with text for readers or data for programs.
#[derive(Debug)]
pub struct ReportAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The text or the data that follows the sentence.
    pub body: ReportBody,
}

/// The content of a report beside its sentence.
#[derive(Debug)]
pub enum ReportBody {
    /// Text for readers; may be empty.
    Text(String),
    /// Data for other programs.
    Data(String),
}

/// Creates the report, and writes the requested page and bundle.
///
/// # Errors
/// Fails with exit code 2 for an invalid request, and with the errors of all [readers](crate::input).
pub fn report(args: &ReportRequest) -> Result<ReportAnswer, Failure> {
    let form = args.form;
    if form.is_none() && !args.only.is_empty() {
        let what = "--only selects cells of a table: add --table, or omit -o";
        return Err(Failure::says(Exit::Usage, what));
    }
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let asked = [args.output.as_ref(), args.bundle.as_ref()];
    let [output, bundle] = OutputFile::all_asked(asked, &inputs, args.force)?;
    if let [one] = args.files.as_slice()
        && let Some(outcome) = input::counts(one)?
    {
        return counts(args, form, output, &outcome);
    }
    if let [one] = args.files.as_slice()
        && let Some(log) = input::placement(one)?
    {
        return placement_of(args, form, output, &log);
    }
    if let [one] = args.files.as_slice()
        && let Some(off_load) = input::off_load(one)?
    {
        return off_load_of(args, form, output, &off_load);
    }
    let mut data = input::gather(&args.files, args.estimator.unwrap_or(Estimator::Difference))?;
    of_cells(args, form, &data)?;
    if let Some(file) = &bundle {
        bundle::write(file, &args.files, &data)?;
    }
    if let Some(file) = &output {
        file.write(page::page(&data))?;
    }
    data.jobs.summaries = table::only(&data.jobs.summaries, &args.only)
        .map_err(|why| Failure::says(Exit::Usage, format!("--only: {why}")))?;
    let (sentence, whole) = (listing::answer(&data), args.only.is_empty());
    let body = match form {
        Some(ReportForm::Screen) => ReportBody::Text(screen::screen(&data, args.width, whole)),
        Some(ReportForm::Text) => ReportBody::Text(text(&data, whole, args.width)),
        Some(ReportForm::Csv) => ReportBody::Data(in_csv(&data.jobs.summaries)),
        Some(ReportForm::Markdown) => ReportBody::Data(pasted(&data, whole, paste::markdown)?),
        Some(ReportForm::Latex) => ReportBody::Data(pasted(&data, whole, paste::latex)?),
        Some(ReportForm::Json) => {
            ReportBody::Data(format!("{:#}\n", doubts::with(everything(&data))))
        }
        None => ReportBody::Text(String::new()),
    };
    Ok(ReportAnswer { sentence, body })
}

/// The cells, with the outcomes of task sets and the causes of the spread, if present. Other kinds of rows have their
/// own tables.
fn everything(data: &Results) -> Value {
    let cells = json!(data.jobs.summaries);
    let mut all = serde_json::Map::new();
    all.extend(data.tasks.as_ref().map(|it| ("task_sets".to_owned(), json!(it))));
    if !data.jobs.spreads.is_empty() {
        all.insert("conditions".to_owned(), json!(data.jobs.spreads));
    }
    let others = sections::other_tables(data);
    if data.jobs.summaries.is_empty() && !others.is_empty() {
        all.insert("tables".to_owned(), others.iter().map(as_rows).collect());
    }
    if all.is_empty() {
        return cells;
    }
    all.insert("cells".to_owned(), cells);
    all.into()
}

/// A table as a list of objects with one field per column.
fn as_rows(table: &FigureTable) -> Value {
    let row = |row: &Vec<String>| -> Value {
        let fields = table.head.iter().cloned().zip(row.iter().map(|it| json!(it)));
        Value::Object(fields.collect())
    };
    json!({"caption": table.caption, "rows": table.rows.iter().map(row).collect::<Vec<_>>()})
}

/// Rejects a table of cells, or a selection of cells, if the files contain none.
fn of_cells(args: &ReportRequest, form: Option<ReportForm>, data: &Results) -> Result<(), Failure> {
    if !data.jobs.summaries.is_empty() {
        return Ok(());
    }
    let kinds: BTreeSet<&str> = data.files.iter().map(|it| it.rows.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let asked = match form {
        Some(ReportForm::Csv) => "--table csv prints costs of cells",
        _ if !args.only.is_empty() => "--only selects cells",
        _ if args.estimator.is_some() => "--estimator computes delays of cells",
        _ => return Ok(()),
    };
    let what = format!(
        "{asked}, but these files have no valid sample of a cell (rows: {kinds}): use --table json or text, or print rows with `corehop report contents FILE --rows N`"
    );
    Err(Failure::says(Exit::Usage, what))
}

/// Reports the log of a placer as a page, or as its answer.
fn placement_of(
    args: &ReportRequest,
    form: Option<ReportForm>,
    output: Option<OutputFile>,
    log: &PlacementLog,
) -> Result<ReportAnswer, Failure> {
    let what = "the log of a placer has no cells: omit --only, and use --table text or json (`corehop report contents FILE --rows N` prints the rates of its windows)";
    without_cells(args, form, what, output, || placement::page(log, &whole(args)))?;
    let sentence = placement::sentence(&log.answer);
    Ok(tell(&sentence, form, || placement::json(log), || placement::log_text(log)))
}

/// Reports the counts of a study as a page, or as tables.
fn counts(
    args: &ReportRequest,
    form: Option<ReportForm>,
    output: Option<OutputFile>,
    outcome: &StudyCounts,
) -> Result<ReportAnswer, Failure> {
    let what = "the counts of a study have no cells: omit --only, and use --table text or json (`corehop report contents FILE --rows N` prints the counts)";
    without_cells(args, form, what, output, || {
        study_page(outcome, &study::sentence(outcome), &whole(args))
    })?;
    Ok(tell(
        &study::sentence(outcome),
        form,
        || outcome.json(),
        || study::text(outcome, &[], args.layout),
    ))
}

/// Returns the command that prints everything in the files of a request.
fn whole(args: &ReportRequest) -> String {
    let files: Vec<String> = args.files.iter().map(|it| shell_path(&shown::path(it))).collect();
    format!("corehop report {} --table text", files.join(" "))
}

/// Rejects options that select cells for a file without cells, and writes the page of such a file if requested.
fn without_cells(
    args: &ReportRequest,
    form: Option<ReportForm>,
    what: &str,
    output: Option<OutputFile>,
    page: impl FnOnce() -> String,
) -> Result<(), Failure> {
    bundle::refuse(args.bundle.is_some())?;
    if args.estimator.is_some() {
        let what =
            "--estimator computes delays of cells, and this file has no cells: omit --estimator";
        return Err(Failure::says(Exit::Usage, what));
    }
    let is_of_cells =
        matches!(form, Some(ReportForm::Csv | ReportForm::Markdown | ReportForm::Latex));
    if !args.only.is_empty() || is_of_cells {
        return Err(Failure::says(Exit::Usage, what));
    }
    output.map_or(Ok(()), |file| file.write(page()))
}

/// Reports an answer of off-load as a page, or as text.
fn off_load_of(
    args: &ReportRequest,
    form: Option<ReportForm>,
    output: Option<OutputFile>,
    of: &OffLoadAnswer,
) -> Result<ReportAnswer, Failure> {
    let what = "an answer of `corehop offload` has no cells: omit --only, and use --table text or json (`corehop report contents FILE --rows N` prints its calls)";
    without_cells(args, form, what, output, || of.page(&whole(args)))?;
    Ok(tell(&of.sentence(), form, || of.json().clone(), || of.text()))
}

/// Returns a report with JSON or text, as `form` selects; without a form, the report has only its sentence.
fn tell(
    sentence: &str,
    form: Option<ReportForm>,
    json: impl Fn() -> Value,
    text: impl Fn() -> String,
) -> ReportAnswer {
    let body = match form {
        Some(ReportForm::Json) => ReportBody::Data(format!("{:#}\n", doubts::with(json()))),
        Some(_) => ReportBody::Text(text()),
        None => ReportBody::Text(String::new()),
    };
    ReportAnswer { sentence: sentence.to_owned(), body }
}

/// The table of the cells, followed by the other contents of the files unless the user selected cells.
fn text(data: &Results, whole: bool, width: usize) -> String {
    let others = if whole { sections::other_tables(data) } else { Vec::new() };
    let notes = if whole { sections::notes(data) } else { Vec::new() };
    table::text(&data.jobs.summaries, width)
        + &others.iter().map(table::plain).collect::<String>()
        + &notes.into_iter().flat_map(|note| [note, "\n".to_owned()]).collect::<String>()
}

/// The tables for inclusion in another text: the cells, and the other contents of the files unless the user selected
/// cells.
fn pasted(
    data: &Results,
    whole: bool,
    form: fn(&FigureTable) -> String,
) -> Result<String, Failure> {
    let others = if whole { sections::other_tables(data) } else { Vec::new() };
    let tables = paste::cells(&data.jobs.summaries).into_iter().chain(others);
    let text: String = tables.map(|table| form(&table)).collect();
    if text.is_empty() {
        let what =
            "these files have no table: `corehop report contents FILE` shows what they contain";
        return Err(Failure::says(Exit::No, what));
    }
    Ok(text)
}

/// The costs of the cells as a table for other programs.
fn in_csv(summaries: &[CellSummary]) -> String {
    let joinable = table::joinable(summaries);
    let count: usize = joinable.shared.iter().map(|(_, count)| count).sum();
    if count > 0 {
        let shared: Vec<String> =
            joinable.shared.iter().map(|(what, count)| format!("  {count} with {what}")).collect();
        warn(&format!(
            "{count} cells differ from others only in what these columns cannot tell; of each statistic\n\
             the largest is printed. --only COLUMN=VALUE chooses, --table json has all:\n{}",
            shared.join("\n")
        ));
    }
    table::csv(&joinable)
}
