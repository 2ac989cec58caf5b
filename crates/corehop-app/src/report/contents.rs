// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the contents of a file: the kind of its rows, their provenance, the number of valid rows, its plan, or its
//! rows.

use std::path::Path;

use corehop_decide::placer::log::PlacementLog;
use corehop_plan::shown;
use corehop_report::off_load::OffLoadAnswer;
use corehop_report::{listing, placement};
use corehop_sched::study::StudyCounts;
use corehop_stats::estimator::Estimator;
use serde_json::Value;

use super::{ReportAnswer, ReportBody};
use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::layout::TerminalLayout;
use crate::words::counted;
use crate::{input, study};

/// The form in which the contents of a file are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentsForm {
    /// A description as text.
    Text,
    /// JSON with the meaning of every column and the whole provenance.
    Json,
    /// The plan of the recorded run.
    Plan,
    /// The first rows, at most this many, each as JSON.
    Rows(usize),
}

/// Shows the contents of a file in a form.
///
/// # Errors
/// Fails with exit code 1 if the file has no plan, and with the errors of all [readers](crate::input).
pub fn contents(
    path: &Path,
    form: ContentsForm,
    layout: TerminalLayout,
) -> Result<ReportAnswer, Failure> {
    if let Some(outcome) = input::counts(path)? {
        return counts(path, form, &outcome, layout);
    }
    if let Some(log) = input::placement(path)? {
        return placement_of(path, form, &log);
    }
    if let Some(off_load) = input::off_load(path)? {
        return off_load_of(path, form, &off_load);
    }
    match form {
        ContentsForm::Plan => return plan(path),
        ContentsForm::Rows(count) => return rows(path, count),
        ContentsForm::Text | ContentsForm::Json => {}
    }
    let data = input::gather(&[path.to_owned()], Estimator::Difference)?;
    let json = || doubts::with(listing::json(&data));
    Ok(either(listing::sentence(&data), form, json, || listing::text(&data)))
}

fn plan(path: &Path) -> Result<ReportAnswer, Failure> {
    let reader = input::open(path)?;
    let provenance = &reader.kind().provenance;
    let Some(plan) = &provenance.plan else {
        let sentence = format!(
            "{}: the plan was too large to store; `{} --dry-run` with seed {} creates it again (digest {})",
            shown::path(path),
            provenance.command.join(" "),
            provenance.seed,
            provenance.plan_digest
        );
        return Err(Failure::says(Exit::No, sentence));
    };
    let (file, seed) = (shown::path(path), provenance.seed);
    let sentence =
        format!("This is the plan of {file}, seed {seed}: `corehop measure plan` runs it again.");
    Ok(ReportAnswer { sentence, body: ReportBody::Data(format!("{plan:#}\n")) })
}

/// Shows the log of a placer. The rows of a log are the progress rates of its windows.
fn placement_of(
    path: &Path,
    form: ContentsForm,
    log: &PlacementLog,
) -> Result<ReportAnswer, Failure> {
    if form == ContentsForm::Plan {
        return Err(Failure::says(Exit::No, "the log of a placer has no plan: omit --plan"));
    }
    if let ContentsForm::Rows(count) = form {
        let rates = log.rates.iter().take(count).map(|rate| serde_json::json!(rate));
        return Ok(some_rows(path, log.rates.len() as u64, rates));
    }
    let sentence = placement::sentence(&log.answer);
    Ok(either(sentence, form, || placement::json(log), || placement::log_text(log)))
}

/// Shows an answer of off-load. The rows of an answer are its calls, or its policies.
fn off_load_of(
    path: &Path,
    form: ContentsForm,
    of: &OffLoadAnswer,
) -> Result<ReportAnswer, Failure> {
    if form == ContentsForm::Plan {
        return Err(Failure::says(
            Exit::No,
            "an answer of `corehop offload` has no plan: omit --plan",
        ));
    }
    if let ContentsForm::Rows(count) = form {
        let rows = of.rows();
        return Ok(some_rows(path, rows.len() as u64, rows.iter().take(count).cloned()));
    }
    Ok(either(of.sentence(), form, || of.json().clone(), || of.text()))
}

/// Returns rows as lines of JSON, from a file with `all` rows.
fn some_rows(path: &Path, all: u64, rows: impl Iterator<Item = serde_json::Value>) -> ReportAnswer {
    let lines: Vec<String> = rows.map(|row| format!("{row}\n")).collect();
    let (file, shown) = (shown::path(path), lines.len());
    let sentence = format!("{shown} of {} of {file}.", counted(all, "row"));
    ReportAnswer { sentence, body: ReportBody::Data(lines.concat()) }
}

/// Shows the counts of a study.
fn counts(
    path: &Path,
    form: ContentsForm,
    outcome: &StudyCounts,
    layout: TerminalLayout,
) -> Result<ReportAnswer, Failure> {
    let sentence = study::sentence(outcome);
    match form {
        // The plan of a study is its description.
        ContentsForm::Plan => {
            Ok(ReportAnswer { sentence, body: ReportBody::Data(outcome.study.text.clone()) })
        }
        ContentsForm::Rows(count) => {
            let batch = outcome.batch().map_err(|error| Failure::new(Exit::Damaged, error))?;
            let (all, some) = (batch.num_rows(), batch.slice(0, count.min(batch.num_rows())));
            Ok(some_rows(path, all as u64, listing::rows(&some).into_iter()))
        }
        ContentsForm::Text | ContentsForm::Json => {
            let json = || doubts::with(outcome.json());
            Ok(either(sentence, form, json, || study::text(outcome, &[], layout)))
        }
    }
}

/// Returns a report with JSON or text, as `form` selects.
fn either(
    sentence: String,
    form: ContentsForm,
    json: impl Fn() -> Value,
    text: impl Fn() -> String,
) -> ReportAnswer {
    let body = match form {
        ContentsForm::Json => ReportBody::Data(format!("{:#}\n", json())),
        _ => ReportBody::Text(text()),
    };
    ReportAnswer { sentence, body }
}

fn rows(path: &Path, count: usize) -> Result<ReportAnswer, Failure> {
    let mut reader = input::open(path)?;
    let mut left = count;
    let mut lines = Vec::new();
    while left > 0 {
        let named = |error| Failure::from(error).context(shown::path(path));
        let Some(batch) = reader.next_batch().map_err(named)? else { break };
        let some = batch.slice(0, left.min(batch.num_rows()));
        left -= some.num_rows();
        lines.extend(listing::rows(&some));
    }
    let sentence =
        format!("The first {} of {}.", counted(lines.len() as u64, "row"), shown::path(path));
    let lines: String =
        lines.into_iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect();
    Ok(ReportAnswer { sentence, body: ReportBody::Data(lines) })
}
