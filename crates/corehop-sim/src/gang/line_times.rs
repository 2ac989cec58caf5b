// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transfer time of a modified line from one CPU of a simulated machine to another.

use super::run::{manner, visit};
use crate::recipe::{Recipe, no_frames};
use crate::times::Picos;
use corehop_plan::host::LineTimes;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Affinity;
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::Page;

/// The number of turns of the two CPUs: in the last turn, both CPUs already have all other state of the page.
const TURNS: usize = 3;

/// The transfer times below a common last-level cache and across last-level caches, on an idle machine.
///
/// # Errors
/// Returns [`MachineError`] if there is no memory for a page.
pub(super) fn line_times(recipe: &Recipe, seed: u64) -> Result<LineTimes, MachineError> {
    let usable = recipe.platform.usable();
    let of = |affinities: &[Affinity]| -> Result<Option<f64>, MachineError> {
        let pair = affinities.iter().find_map(|&it| recipe.platform.pair(&usable, it));
        let picos = pair.map(|(from, to)| line_time(recipe, from, to, seed)).transpose()?;
        Ok(picos.map(|picos| picos as f64 / 1e3))
    };
    Ok(LineTimes {
        shared_cache_ns: of(&[Affinity::L3, Affinity::L2])?,
        separate_ns: of(&[Affinity::Memory])?,
    })
}

/// The transfer time of a line that CPU `from` has written and CPU `to` writes next.
fn line_time(recipe: &Recipe, from: Cpu, to: Cpu, seed: u64) -> Result<Picos, MachineError> {
    let mut state = recipe.idle_state(seed)?;
    let home = state.node_of(recipe.place(from));
    let page = state.frames.place(Bytes::new(4_096), Page::Base, home, None);
    let line = page.map_err(|error| no_frames(&error))?[0];
    let (mut now, mut took) = (0, 0);
    for cpu in [from, to].iter().cycle().take(2 * TURNS) {
        let visit = visit(&state, line, true);
        took = state.act(recipe.place(*cpu), visit, manner(1), now);
        now += took;
    }
    Ok(took)
}
