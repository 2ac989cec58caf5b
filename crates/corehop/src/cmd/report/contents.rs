// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report contents`

use std::path::{Path, PathBuf};

use corehop_decide::placer::log::PlacementLog;
use corehop_plan::shown;
use corehop_report::off_load::OffLoadAnswer;
use corehop_report::{listing, placement};
use corehop_sched::study::StudyCounts;
use corehop_stats::estimator::Estimator;

use crate::output::{AnswerBody, answer, counted, either, stdout_layout};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::{input, study};

/// Show what a corehop file contains: the kind of its rows, their provenance, how many are valid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file of `corehop measure`, complete or partial (`.part`), a file of `corehop check study -o`, the
    /// log of `corehop place -o`, or the answer of `corehop offload -o`.
    file: PathBuf,
    /// Print JSON, with the meaning of every column and the whole provenance.
    #[arg(long, conflicts_with_all = ["plan", "rows"])]
    json: bool,
    /// Print the plan of the run.
    #[arg(long, conflicts_with = "rows")]
    plan: bool,
    /// Print the first N rows, one JSON object per line.
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(outcome) = input::counts(&args.file)? {
        return counts(args, &outcome);
    }
    if let Some(log) = input::placement(&args.file)? {
        return placement_of(args, &log);
    }
    if let Some(off_load) = input::off_load(&args.file)? {
        return off_load_of(args, &off_load);
    }
    if args.plan {
        return plan(&args.file);
    }
    if let Some(count) = args.rows {
        return rows(&args.file, count);
    }
    let data = input::gather(std::slice::from_ref(&args.file), Estimator::Difference)?;
    let json = args.json.then(|| doubts::with(listing::json(&data)));
    either(&listing::sentence(&data), json.as_ref(), || listing::text(&data))?;
    Ok(Exit::Done)
}

fn plan(path: &Path) -> Result<Exit, Failure> {
    let reader = input::open(path)?;
    let provenance = &reader.kind().provenance;
    let Some(plan) = &provenance.plan else {
        let sentence = format!(
            "{}: the plan was too large to store; `{} --dry-run` with seed {} makes it again \
             (digest {})",
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
    answer(&sentence, AnswerBody::Data(&format!("{plan:#}\n")))?;
    Ok(Exit::Done)
}

/// The log of a placer. Its rows are the rates of its windows.
fn placement_of(args: &Args, log: &PlacementLog) -> Result<Exit, Failure> {
    if args.plan {
        return Err(Failure::says(Exit::No, "the log of a placer has no plan: leave out --plan"));
    }
    if let Some(count) = args.rows {
        let rates = log.rates.iter().take(count).map(|rate| serde_json::json!(rate));
        return some_rows(&args.file, log.rates.len() as u64, rates);
    }
    let json = args.json.then(|| placement::json(log));
    either(&placement::sentence(&log.answer), json.as_ref(), || placement::log_text(log))?;
    Ok(Exit::Done)
}

/// An answer of off-load. Its rows are its calls, or its policies.
fn off_load_of(args: &Args, of: &OffLoadAnswer) -> Result<Exit, Failure> {
    if args.plan {
        return Err(Failure::says(Exit::No, "an answer of off-load has no plan: leave out --plan"));
    }
    if let Some(count) = args.rows {
        let rows = of.rows();
        return some_rows(&args.file, rows.len() as u64, rows.iter().take(count).cloned());
    }
    let json = args.json.then(|| of.json().clone());
    either(&of.sentence(), json.as_ref(), || of.text())?;
    Ok(Exit::Done)
}

/// Prints rows as lines of JSON, of a file that has `all`.
fn some_rows(
    path: &Path,
    all: u64,
    rows: impl Iterator<Item = serde_json::Value>,
) -> Result<Exit, Failure> {
    let lines: Vec<String> = rows.map(|row| format!("{row}\n")).collect();
    let (file, shown) = (shown::path(path), lines.len());
    let sentence = format!("{shown} of {} of {file}.", counted(all, "row"));
    answer(&sentence, AnswerBody::Data(&lines.concat()))?;
    Ok(Exit::Done)
}

/// The counts of a study.
fn counts(args: &Args, outcome: &StudyCounts) -> Result<Exit, Failure> {
    let damaged = |error| Failure::new(Exit::Damaged, error);
    if args.plan {
        // The plan of a study is its description.
        answer(&study::sentence(outcome), AnswerBody::Data(&outcome.study.text))?;
    } else if let Some(count) = args.rows {
        let batch = outcome.batch().map_err(damaged)?;
        let (all, some) = (batch.num_rows(), batch.slice(0, count.min(batch.num_rows())));
        return some_rows(&args.file, all as u64, listing::rows(&some).into_iter());
    } else {
        let json = args.json.then(|| doubts::with(outcome.json()));
        either(&study::sentence(outcome), json.as_ref(), || {
            study::text(outcome, &[], stdout_layout())
        })?;
    }
    Ok(Exit::Done)
}

fn rows(path: &Path, count: usize) -> Result<Exit, Failure> {
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
    answer(&sentence, AnswerBody::Data(&lines))?;
    Ok(Exit::Done)
}
