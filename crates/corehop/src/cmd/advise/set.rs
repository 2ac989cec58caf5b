// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise SET.json --costs …`: limited preemption for a set of tasks.

use std::path::Path;

use corehop_plan::shown;
use corehop_report::limited::{self, remedies};
use corehop_sched::limited::remedy::Remedies;
use corehop_stats::costs::Selection;

use super::Args;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::either;

/// Computes what limited preemption saves for the set in a file.
pub(super) fn run(args: &Args, file: &Path, costs: &Path) -> Result<Exit, Failure> {
    let set = input::task_set(file)?;
    let source = input::costs(costs)?;
    let wanted = Selection {
        load: args.load.clone(),
        statistic: args.statistic.clone(),
        length: args.length,
        only: args.only.clone(),
    };
    let selected = source.for_a_verdict(&wanted)?;
    let all = Remedies::of(&set, selected.costs.as_ref()).map_err(|error| {
        let exit = if error.field == "cpus" { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error).context(shown::path(file))
    })?;
    let json = args.json.then(|| all.json());
    either(&limited::sentence(&all), json.as_ref(), || remedies(&set, &all))?;
    Ok(if all.is_some() { Exit::Done } else { Exit::No })
}
