// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of moving threads, from the user's file.

use std::path::Path;

use corehop_decide::move_cost::MoveCosts;
use corehop_plan::shown;
use corehop_stats::costs::Selection;

use crate::exit::Failure;
use crate::input;

/// The load of a host that does nothing else, where a file has several.
const IDLE: &str = "idle";

/// The costs of moves; the assumed ones without a file. The size of a thread's working set is unknown here.
///
/// # Errors
/// Exit 4 for a file that has no costs, exit 2 where it does not say which are meant.
pub(super) fn of_moves(path: Option<&Path>) -> Result<MoveCosts, Failure> {
    let Some(path) = path else { return Ok(MoveCosts::ASSUMED) };
    let source = input::costs(path)?;
    let load = source.loads().contains(&IDLE).then(|| IDLE.to_owned());
    let selected = source.selected(&Selection { load, ..Selection::default() });
    let selected = selected.map_err(|error| Failure::from(error).context(shown::path(path)))?;
    Ok(MoveCosts::of(selected.costs.as_ref(), None))
}
