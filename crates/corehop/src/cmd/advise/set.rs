// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise set`: limited preemption for a set of tasks.

use std::path::PathBuf;

use corehop_plan::shown;
use corehop_report::limited::{self, remedies};
use corehop_sched::limited::remedy::Remedies;

use crate::cmd::costs::CostArgs;
use crate::output::either;
use corehop_app::failure::{Exit, Failure};
use corehop_app::task_files;

/// Advise which task of a set on one CPU to make non-preemptive, for how long, and how much CPU time the change
/// saves.
///
/// Exit code 1 means that the set misses deadlines under every limit on preemptions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the task set from this file, in the format of `corehop check`.
    #[arg(value_name = "SET.json")]
    file: PathBuf,
    #[command(flatten)]
    costs: CostArgs,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Computes what limited preemption saves for the set in a file.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = args.file.as_path();
    let set = task_files::task_set(file)?;
    let chosen = args.costs.request().chosen()?;
    let Some(source) = chosen.source else {
        let what = format!("--costs: {}", chosen.origin);
        return Err(Failure::says(Exit::Usage, what));
    };
    let wanted = args.costs.request().choice;
    let selected = source.for_a_verdict(&wanted)?;
    let all = Remedies::of(&set, selected.costs.as_ref()).map_err(|error| {
        let exit = if error.field == "cpus" { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error).context(shown::path(file))
    })?;
    let json = args.json.then(|| all.json());
    either(&limited::sentence(&all), json.as_ref(), || remedies(&set, &all))?;
    Ok(if all.is_some() { Exit::Done } else { Exit::No })
}
