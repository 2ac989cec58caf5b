// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report contents`

use std::path::PathBuf;

use corehop_app::failure::{Exit, Failure};
use corehop_app::report::{ContentsForm, contents};

use super::print_report;
use crate::output::stdout_layout;

/// List the contents of a corehop file: the kind of its rows, their provenance, and the number of valid rows.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to list: a file of `corehop measure`, complete or partial (`.part`), a file of `corehop check study
    /// -o`, the log of `corehop place -o`, or the answer of `corehop offload -o`.
    file: PathBuf,
    /// Print the contents as JSON, with the meaning of every column and the whole provenance.
    #[arg(long, conflicts_with_all = ["plan", "rows"])]
    json: bool,
    /// Print the plan of the recorded run.
    #[arg(long, conflicts_with = "rows")]
    plan: bool,
    /// Print the first N rows, as one JSON object per line.
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let form = match (args.json, args.plan, args.rows) {
        (true, ..) => ContentsForm::Json,
        (_, true, _) => ContentsForm::Plan,
        (.., Some(count)) => ContentsForm::Rows(count),
        _ => ContentsForm::Text,
    };
    print_report(&contents(&args.file, form, stdout_layout())?)
}
