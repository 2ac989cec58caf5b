// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time that a placement saves: the cost of ties where their threads ran, minus the cost of ties where the
//! placement puts the threads.

use super::super::regions::Regions;
use super::super::terrain::{Ran, Terrain};
use super::{Bond, Crowd, ThreadCluster};

/// A tie whose threads may change CPUs under a placement, with its cost per second, in CPUs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct BondSaving {
    bond: Bond,
    before: f64,
    after: f64,
}

impl BondSaving {
    const fn saved(&self) -> f64 {
        self.before - self.after
    }
}

impl Bond {
    /// The cost of the tie if the threads run at these distances.
    fn cost_at(&self, ran: Ran, terrain: &Terrain) -> f64 {
        ran.shares().zip(terrain.by_distance()).map(|(share, costs)| share * self.cost(costs)).sum()
    }

    /// The cost of the tie after a placement that lets the threads run `anywhere` in their regions. Looks in which
    /// the threads already ran as near as the placement requires keep their cost, because nothing shows that the
    /// threads will run nearer. If the threads are in two regions, they may run farther apart.
    fn cost_after(&self, anywhere: Ran, is_one_region: bool, terrain: &Terrain) -> f64 {
        let expected = self.cost_at(anywhere, terrain);
        let Some(ran) = self.ran else { return expected };
        let range = anywhere.range();
        let looks = ran.shares().zip(terrain.by_distance()).enumerate();
        let cost = |(distance, (share, costs)): (usize, (f64, _))| {
            let as_before = self.cost(costs);
            let then = match range.contains(&distance) {
                true if is_one_region => as_before,
                true => as_before.max(expected),
                false => expected,
            };
            share * then
        };
        looks.map(cost).sum()
    }
}

/// The ties that a placement changes.
pub(in super::super) fn changes(
    crowd: &Crowd,
    terrain: &Terrain,
    placed: &[ThreadCluster],
) -> Vec<BondSaving> {
    let mut regions = Regions::new(terrain);
    let lists: Vec<usize> = crowd.lists.iter().map(|it| regions.number(it)).collect();
    let now: Vec<usize> = crowd.members.iter().map(|it| lists[it.list]).collect();
    let mut then = now.clone();
    for it in placed {
        let region = regions.number(&it.cpus);
        it.members.iter().for_each(|&member| then[member] = region);
    }
    let change = |bond: &Bond| {
        let (now, then) = ((now[bond.a], now[bond.b]), (then[bond.a], then[bond.b]));
        if now == then {
            return None;
        }
        let ran = bond.ran.unwrap_or_else(|| regions.anywhere(now.0, now.1));
        let before = bond.cost_at(ran, terrain);
        let anywhere = regions.anywhere(then.0, then.1);
        let after = bond.cost_after(anywhere, then.0 == then.1, terrain);
        Some(BondSaving { bond: *bond, before, after })
    };
    crowd.bonds.iter().filter_map(change).collect()
}

/// Returns the CPU time per second that a placement saves, in CPUs: the current cost of its ties minus their cost
/// under the placement.
pub fn saved(crowd: &Crowd, terrain: &Terrain, placed: &[ThreadCluster]) -> f64 {
    changes(crowd, terrain, placed).iter().map(BondSaving::saved).sum()
}

/// Limits a predicted saving to the time that the threads and the host can save. Wake-up costs are measured on idle
/// CPUs and include waiting, so together these costs can exceed the time that the threads use. A tie saves at most what
/// its threads use beyond their best case. All ties together save at most what their threads use, and at most what the
/// host has.
pub(in super::super) fn savable(crowd: &Crowd, terrain: &Terrain, changes: &[BondSaving]) -> f64 {
    let busy = |member: usize| crowd.members[member].busy;
    let least = |it: &BondSaving| {
        let beyond = (busy(it.bond.a) + busy(it.bond.b) - it.after).max(0.0);
        it.saved().min(beyond)
    };
    let saving = changes.iter().filter(|it| it.saved() > 0.0);
    let mut members: Vec<usize> = saving.flat_map(|it| [it.bond.a, it.bond.b]).collect();
    members.sort_unstable();
    members.dedup();
    let used: f64 = members.into_iter().map(busy).sum();
    let sum: f64 = changes.iter().map(least).sum();
    sum.min(used).min(terrain.cpus().len() as f64)
}

/// The clusters of a placement that save CPU time; clusters whose threads already run as placed are left out. A cluster
/// is not a new move if it contains a thread that `stays` placed.
pub(in super::super) fn gainful(
    crowd: &Crowd,
    terrain: &Terrain,
    placed: Vec<ThreadCluster>,
    stays: impl Fn(usize) -> bool,
) -> Vec<ThreadCluster> {
    let mut cluster = vec![None; crowd.members.len()];
    for (at, it) in placed.iter().enumerate() {
        it.members.iter().for_each(|&member| cluster[member] = Some(at));
    }
    let mut saved = vec![0.0; placed.len()];
    for it in changes(crowd, terrain, &placed) {
        for at in [it.bond.a, it.bond.b].into_iter().filter_map(|member| cluster[member]) {
            saved[at] += it.saved();
        }
    }
    let gains =
        |at: usize, it: &ThreadCluster| saved[at] > 0.0 || it.members.iter().any(|&it| stays(it));
    let all = placed.into_iter().enumerate();
    all.filter(|(at, it)| gains(*at, it)).map(|(_, it)| it).collect()
}
