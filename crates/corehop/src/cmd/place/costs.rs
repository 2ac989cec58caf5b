// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of moving threads.

use corehop_decide::move_cost::MoveCosts;
use corehop_stats::costs::Selection;

use crate::cmd::costs::CostArgs;
use corehop_app::failure::Failure;

/// The load of a host that does nothing else, where a file has several.
const IDLE: &str = "idle";

/// The costs of moves; the assumed ones where there are none. The size of a thread's working set is unknown here.
///
/// # Errors
/// Exit 4 for a file that has no costs, exit 2 where it does not say which are meant.
pub(super) fn of_moves(args: &CostArgs) -> Result<MoveCosts, Failure> {
    let chosen = args.chosen()?;
    let Some(source) = chosen.source else { return Ok(MoveCosts::ASSUMED) };
    let wanted = args.selection();
    let usual = || source.loads().contains(&IDLE).then(|| IDLE.to_owned());
    let selection = Selection { load: wanted.load.clone().or_else(usual), ..wanted };
    let selected = source.selected(&selection);
    let selected = selected.map_err(|error| Failure::from(error).context(chosen.origin))?;
    Ok(MoveCosts::of(selected.costs.as_ref(), None))
}
