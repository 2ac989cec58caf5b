// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report`

mod contents;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use corehop_decide::placer::log::PlacementLog;
use corehop_report::figure::FigureTable;
use corehop_report::off_load::OffLoadAnswer;
use corehop_report::study::page as study_page;
use corehop_report::{listing, page, placement, screen, sections, table};
use corehop_results::Results;
use corehop_sched::study::StudyCounts;
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::CellSummary;
use serde_json::{Value, json};

use crate::cmd::VerbOrMode;
use crate::output;
use crate::output::{AnswerBody, Force, OutputFile, answer, either, stdout_layout};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::{input, study};

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<ReportOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Show what a file contains: the kind of its rows, their provenance, how many are valid.
    Contents(contents::Args),
}

/// Summarise samples as a table, and as one page that needs no network.
///
/// One report joins files of any experiments. It reads the complete rows of a `.part` file and marks the run
/// as incomplete. A platform file of the same machine (`corehop measure platform -o FILE.toml`) adds the
/// cache-line transfer time between CPUs, and which stated facts are true.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Files of `corehop measure`, and platform files (`*.toml`) of their machines. Or one file of
    /// `corehop check study -o`, one log of `corehop place -o`, or one answer of `corehop offload -o`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a table: one screen for a terminal (the default without -o), text with all statistics of a
    /// terminal, csv for other programs, or json.
    #[arg(long, value_name = "FORM")]
    table: Option<ReportFormat>,
    /// Restrict the table to cells with this value of a column: `page=thp`, `load=idle`, `chains=4`.
    /// May be given several times. A page always has all cells.
    #[arg(long, value_name = "COLUMN=VALUE")]
    only: Vec<String>,
    /// Write a page: one self-contained HTML file.
    #[arg(short, long, value_name = "REPORT.html")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The estimator of the delay of a sample (see `corehop help estimator`) [default: difference]
    #[arg(long)]
    estimator: Option<Estimator>,
    /// Print JSON, as `--table json` does
    #[arg(long, conflicts_with = "table")]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ReportFormat {
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
    match args {
        VerbOrMode::Verb(args) => summarise(args),
        VerbOrMode::Mode(Mode::Contents(args)) => contents::run(args),
    }
}

fn summarise(args: &ReportOptions) -> Result<Exit, Failure> {
    let json = args.json.then_some(ReportFormat::Json);
    let form = json.or(args.table).or(args.output.is_none().then_some(ReportFormat::Screen));
    if form.is_none() && !args.only.is_empty() {
        let what = "--only selects cells of a table: add --table, or leave out -o";
        return Err(Failure::says(Exit::Usage, what));
    }
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let output = OutputFile::if_asked(args.output.as_ref(), &inputs, args.force)?;
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
    if let Some(file) = &output {
        file.write(page::page(&data))?;
    }
    data.jobs.summaries = table::only(&data.jobs.summaries, &args.only)
        .map_err(|why| Failure::says(Exit::Usage, format!("--only: {why}")))?;
    let (sentence, whole) = (listing::answer(&data), args.only.is_empty());
    match form {
        Some(ReportFormat::Screen) => {
            answer(&sentence, AnswerBody::Text(&screen::screen(&data, output::width(), whole)))?;
        }
        Some(ReportFormat::Text) => answer(&sentence, AnswerBody::Text(&text(&data, whole)))?,
        Some(ReportFormat::Csv) => print_csv(&sentence, &data.jobs.summaries)?,
        Some(ReportFormat::Json) => {
            let json = doubts::with(everything(&data));
            answer(&sentence, AnswerBody::Data(&format!("{json:#}\n")))?;
        }
        None => answer(&sentence, AnswerBody::Text(""))?,
    }
    Ok(Exit::Done)
}

/// The cells; beside them the outcomes of task sets and the causes of the spread, if present. Other kinds of rows have
/// their tables.
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

/// A table as a list of objects by column.
fn as_rows(table: &FigureTable) -> Value {
    let row = |row: &Vec<String>| -> Value {
        let fields = table.head.iter().cloned().zip(row.iter().map(|it| json!(it)));
        Value::Object(fields.collect())
    };
    json!({"caption": table.caption, "rows": table.rows.iter().map(row).collect::<Vec<_>>()})
}

/// Refuses a table of cells, or a choice among them, where the files have none.
fn of_cells(
    args: &ReportOptions,
    form: Option<ReportFormat>,
    data: &Results,
) -> Result<(), Failure> {
    if !data.jobs.summaries.is_empty() {
        return Ok(());
    }
    let kinds: BTreeSet<&str> = data.files.iter().map(|it| it.rows.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let asked = match form {
        Some(ReportFormat::Csv) => "--table csv prints costs of cells",
        _ if !args.only.is_empty() => "--only selects cells",
        _ if args.estimator.is_some() => "--estimator computes delays of cells",
        _ => return Ok(()),
    };
    let what = format!(
        "{asked}, and these files have no valid sample of a cell (rows: {kinds}): use --table json or text, or print rows with \
         `corehop report contents FILE --rows N`"
    );
    Err(Failure::says(Exit::Usage, what))
}

/// The log of a placer: its page, or its answer.
fn placement_of(
    args: &ReportOptions,
    form: Option<ReportFormat>,
    output: Option<OutputFile>,
    log: &PlacementLog,
) -> Result<Exit, Failure> {
    let what = "the log of a placer has no cells: leave out --only, and use --table text or json \
                (`corehop report contents FILE --rows N` prints the rates of its windows)";
    without_cells(args, form, what)?;
    if let Some(file) = output {
        file.write(placement::page(log))?;
    }
    let sentence = placement::sentence(&log.answer);
    tell(&sentence, form, || placement::json(log), || placement::log_text(log))
}

/// The counts of a study: its page, or its tables.
fn counts(
    args: &ReportOptions,
    form: Option<ReportFormat>,
    output: Option<OutputFile>,
    outcome: &StudyCounts,
) -> Result<Exit, Failure> {
    let what = "the counts of a study have no cells: leave out --only, and use --table text or json \
                (`corehop report contents FILE --rows N` prints the counts)";
    without_cells(args, form, what)?;
    if let Some(file) = output {
        file.write(study_page(outcome))?;
    }
    tell(
        &study::sentence(outcome),
        form,
        || outcome.json(),
        || study::text(outcome, &[], stdout_layout()),
    )
}

/// Refuses options that select cells, of a file that has none.
fn without_cells(
    args: &ReportOptions,
    form: Option<ReportFormat>,
    what: &str,
) -> Result<(), Failure> {
    if args.estimator.is_some() {
        let what = "--estimator computes delays of cells, and this file has none: leave it out";
        return Err(Failure::says(Exit::Usage, what));
    }
    if args.only.is_empty() && !matches!(form, Some(ReportFormat::Csv)) {
        return Ok(());
    }
    Err(Failure::says(Exit::Usage, what))
}

/// An answer of off-load: its page, or its words.
fn off_load_of(
    args: &ReportOptions,
    form: Option<ReportFormat>,
    output: Option<OutputFile>,
    of: &OffLoadAnswer,
) -> Result<Exit, Failure> {
    let what = "an answer of `corehop offload` has no cells: leave out --only, and use --table text or json \
                (`corehop report contents FILE --rows N` prints its calls)";
    without_cells(args, form, what)?;
    if let Some(file) = output {
        file.write(of.page())?;
    }
    tell(&of.sentence(), form, || of.json().clone(), || of.text())
}

/// Ends with JSON or text, where a form is asked for.
fn tell(
    sentence: &str,
    form: Option<ReportFormat>,
    json: impl Fn() -> Value,
    text: impl Fn() -> String,
) -> Result<Exit, Failure> {
    let json = matches!(form, Some(ReportFormat::Json)).then(|| doubts::with(json()));
    either(sentence, json.as_ref(), || form.map_or_else(String::new, |_| text()))?;
    Ok(Exit::Done)
}

/// The table of the cells; with the other contents of the files, unless cells were selected.
fn text(data: &Results, whole: bool) -> String {
    let others = if whole { sections::other_tables(data) } else { Vec::new() };
    let notes = if whole { sections::notes(data) } else { Vec::new() };
    table::text(&data.jobs.summaries, output::width())
        + &others.iter().map(table::plain).collect::<String>()
        + &notes.into_iter().flat_map(|note| [note, "\n".to_owned()]).collect::<String>()
}

fn print_csv(sentence: &str, summaries: &[CellSummary]) -> Result<(), Failure> {
    let joinable = table::joinable(summaries);
    let count: usize = joinable.shared.iter().map(|(_, count)| count).sum();
    if count > 0 {
        let shared = joinable.shared.iter().map(|(what, count)| format!("  {count} with {what}\n"));
        output::say(&format!(
            "corehop: {count} cells differ from others only in what these columns cannot tell; of each statistic\n\
             the largest is printed. --only COLUMN=VALUE chooses, --table json has all:\n{}",
            shared.collect::<String>()
        ));
    }
    answer(sentence, AnswerBody::Data(&table::csv(&joinable)))
}
