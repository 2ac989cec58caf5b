// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities that are shown and that no gate judges.
//!
//! A gate stays silent about what could not have failed, and its silence is no pass. Two kinds of quantities never could, however
//! often the run is repeated, and say nothing about it: what a run measures once by its nature, and what the run did not ask for.

use std::collections::BTreeSet;

use super::{ComparedQuantity, Quantity};
use crate::gate::{first_level, least};
use corehop_stats::replicates::FEWEST_REPLICATES;

/// The reason not to judge a quantity that its run measures once.
const ONCE: &str =
    "measured once in a run whose other cells have replicates, so its variation is unknown";

/// The reason not to judge a class of migrations that came out in a few replicates.
const CHANCE: &str = "reached by chance: the CPUs were that far apart only in a few replicates. Most planned replicates have another class, which is judged";

/// Sets aside what no number of replicates would let a gate judge.
pub(super) fn set_aside(pairs: &mut [ComparedQuantity<'_>], alpha: f64) {
    let once = measured_once(pairs);
    let chance = by_chance(pairs, first_level(alpha, pairs.len()));
    for (it, (once, chance)) in pairs.iter_mut().zip(once.into_iter().zip(chance)) {
        let why = once.then_some(ONCE).or_else(|| chance.then_some(CHANCE));
        it.aside = it.aside.or(why);
    }
}

/// Marks those with one replicate in a run whose other quantities have several.
fn measured_once(pairs: &[ComparedQuantity<'_>]) -> Vec<bool> {
    let several = pairs.iter().filter(|it| it.replicates() >= FEWEST_REPLICATES);
    let replicated: BTreeSet<_> = several.map(|it| it.quantity.run()).collect();
    let once = |it: &ComparedQuantity<'_>| it.a.replicates().max(it.b.replicates()) == 1;
    pairs.iter().map(|it| once(it) && replicated.contains(&it.quantity.run())).collect()
}

/// Marks those that could not fail at this level, while of everything that was planned there another one came out more often and could.
fn by_chance(pairs: &[ComparedQuantity<'_>], level: f64) -> Vec<bool> {
    let could_fail =
        |it: &ComparedQuantity<'_>| least(it.a, it.b).is_some_and(|least| least <= level);
    let stands_for = |it: &ComparedQuantity<'_>, planned: &Quantity, than: usize| {
        could_fail(it)
            && it.replicates() > than
            && it.planned.iter().any(|all| all.contains(planned))
    };
    let chance = |it: &ComparedQuantity<'_>| {
        let mut planned = it.planned.iter().copied().flatten();
        let than = it.replicates();
        !could_fail(it)
            && planned.all(|planned| pairs.iter().any(|other| stands_for(other, planned, than)))
    };
    pairs.iter().map(chance).collect()
}
