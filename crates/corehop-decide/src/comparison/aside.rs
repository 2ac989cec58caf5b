// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which quantities are shown but not judged by a gate.
//!
//! A comparison that could not have failed keeps a gate from passing, because the absence of a failure proves
//! nothing. Two kinds of quantities could never fail, however often the run is repeated: quantities that a run
//! measures only once by nature, and quantities that the run did not plan. The comparison shows quantities of these
//! two kinds without judging them.

use std::collections::BTreeSet;

use super::{ComparedQuantity, Quantity};
use crate::gate::{first_level, least};
use corehop_stats::replicates::FEWEST_REPLICATES;

/// The reason why a quantity that its run measures once is not judged.
const ONCE: &str =
    "measured once in a run whose other cells have replicates, so its variation is unknown";

/// The reason why a class of migrations that occurred only in a few replicates is not judged.
const CHANCE: &str = "reached by chance: the CPUs were that far apart only in a few replicates. Most planned replicates have another class, which is judged";

/// Sets aside the quantities that no number of replicates would let a gate judge.
pub(super) fn set_aside(pairs: &mut [ComparedQuantity<'_>], alpha: f64) {
    let once = measured_once(pairs);
    let chance = by_chance(pairs, first_level(alpha, pairs.len()));
    for (it, (once, chance)) in pairs.iter_mut().zip(once.into_iter().zip(chance)) {
        let why = once.then_some(ONCE).or_else(|| chance.then_some(CHANCE));
        it.aside = it.aside.or(why);
    }
}

/// Marks quantities with one replicate in a run whose other quantities have several.
fn measured_once(pairs: &[ComparedQuantity<'_>]) -> Vec<bool> {
    let several = pairs.iter().filter(|it| it.replicates() >= FEWEST_REPLICATES);
    let replicated: BTreeSet<_> = several.map(|it| it.quantity.run()).collect();
    let once = |it: &ComparedQuantity<'_>| it.a.replicates().max(it.b.replicates()) == 1;
    pairs.iter().map(|it| once(it) && replicated.contains(&it.quantity.run())).collect()
}

/// Marks quantities that could not fail at this level, if another measured quantity of the same plan occurred more
/// often and could fail.
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
