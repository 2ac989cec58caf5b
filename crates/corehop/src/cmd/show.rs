// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop show`

use std::path::{Path, PathBuf};

use corehop_core::decision::placer::log::PlacementLog;
use corehop_core::model::estimator::Estimator;
use corehop_core::report::{listing, placement};
use corehop_core::shown;
use corehop_core::study::StudyCounts;

use super::study;
use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::print;

/// Show what a corehop file contains: the kind of its rows, their provenance, how many are valid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file of `corehop measure`, complete or partial (`.part`), a file of `corehop study -o`, or the
    /// log of `corehop place -o`.
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

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(outcome) = input::counts(&args.file)? {
        return counts(args, &outcome);
    }
    if let Some(log) = input::placement(&args.file)? {
        return placement_of(args, &log);
    }
    if args.plan {
        return plan(&args.file);
    }
    if let Some(count) = args.rows {
        return rows(&args.file, count);
    }
    let data = input::gather(std::slice::from_ref(&args.file), Estimator::Difference)?;
    if args.json {
        print(&format!("{:#}\n", doubts::with(listing::json(&data))))?;
    } else {
        print(&listing::text(&data))?;
    }
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
    print(&format!("{plan:#}\n"))?;
    Ok(Exit::Done)
}

/// The log of a placer. Its rows are the rates of its windows.
fn placement_of(args: &Args, log: &PlacementLog) -> Result<Exit, Failure> {
    if args.plan {
        return Err(Failure::says(Exit::No, "the log of a placer has no plan: leave out --plan"));
    }
    if let Some(count) = args.rows {
        for rate in log.rates.iter().take(count) {
            print(&format!("{}\n", serde_json::json!(rate)))?;
        }
    } else if args.json {
        print(&format!("{:#}\n", placement::json(log)))?;
    } else {
        print(&placement::log_text(log))?;
    }
    Ok(Exit::Done)
}

/// The counts of a study.
fn counts(args: &Args, outcome: &StudyCounts) -> Result<Exit, Failure> {
    let damaged = |error| Failure::new(Exit::Damaged, error);
    if args.plan {
        // The plan of a study is its description.
        print(&outcome.study.text)?;
    } else if let Some(count) = args.rows {
        let batch = outcome.batch().map_err(damaged)?;
        for row in listing::rows(&batch.slice(0, count.min(batch.num_rows()))) {
            print(&format!("{row}\n"))?;
        }
    } else if args.json {
        print(&format!("{:#}\n", doubts::with(outcome.json())))?;
    } else {
        print(&study::text(outcome, &[]))?;
    }
    Ok(Exit::Done)
}

fn rows(path: &Path, count: usize) -> Result<Exit, Failure> {
    let mut reader = input::open(path)?;
    let mut left = count;
    while left > 0 {
        let named = |error| Failure::from(error).context(shown::path(path));
        let Some(batch) = reader.next_batch().map_err(named)? else { break };
        let some = batch.slice(0, left.min(batch.num_rows()));
        left -= some.num_rows();
        for row in listing::rows(&some) {
            print(&format!("{row}\n"))?;
        }
    }
    Ok(Exit::Done)
}
