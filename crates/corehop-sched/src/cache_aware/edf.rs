// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processor demand under EDF with reload costs (Lunniss, Altmeyer, Maiza and Davis, RTAS 2013).
//!
//! `DBF(t) = sum of max(0, floor((t - D) / T) + 1) (C + gamma)`: a job of `j` can preempt, within `t`, the tasks with
//! longer deadlines up to `t`.

use super::{Approach, CacheBlockSet, Footprint, Reload, dearest};
use crate::uni::edf::{deadline_before, qpa, utilisation};
use crate::uni::{STEPS, busy_period};
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Tests whether all deadlines are met with reload costs. The test is sufficient. The multiset bounds count no more
/// preemptions of a task than the task's jobs can suffer within their deadlines.
pub fn schedulable(
    tasks: &[Task],
    footprints: &[Footprint],
    reload: Reload,
    approach: Approach,
) -> Verdict {
    if footprints.len() != tasks.len() {
        return Verdict::Unknown;
    }
    let demand = Demand { tasks: EdfTasks(tasks), footprints, reload };
    let most = |at| reload.of(demand.each(at, Time::MAX, approach));
    demand.tasks.fit(most, |t| match approach {
        Approach::Combined => {
            let of = |form| demand.at(t, form);
            of(Approach::UcbUnionMultiset).min(of(Approach::EcbUnionMultiset))
        }
        one => demand.at(t, one),
    })
}

/// The tasks of one CPU under EDF.
pub(super) struct EdfTasks<'a>(pub(super) &'a [Task]);

impl EdfTasks<'_> {
    /// Whether the demand with reloads fits before each deadline. `most(j)` is the largest reload cost that a job of
    /// `j` can cause. `demand(t)` is the demand within `t` including reloads, which never falls as `t` grows.
    pub(super) fn fit(
        &self,
        most: impl Fn(usize) -> Time,
        demand: impl Fn(Time) -> Time,
    ) -> Verdict {
        if qpa(self.0) == Verdict::Unschedulable {
            return Verdict::Unschedulable;
        }
        let plain = |task: &Task| {
            task.deadline <= task.period && task.jitter == Time::ZERO && task.blocking == Time::ZERO
        };
        if !self.0.iter().all(plain) {
            return Verdict::Unknown;
        }
        // The most that reloading can cost each job makes the busy period that covers every miss.
        let dearest = |(at, task): (usize, &Task)| task.longer(most(at));
        let dear: Vec<Task> = self.0.iter().enumerate().map(dearest).collect();
        let horizon = if utilisation(&dear) == Verdict::Unschedulable {
            None
        } else {
            busy_period(&dear, Time::ZERO)
        };
        horizon.map_or(Verdict::Unknown, |horizon| self.fit_before(horizon, demand))
    }

    fn fit_before(&self, horizon: Time, demand: impl Fn(Time) -> Time) -> Verdict {
        let mut steps = STEPS / 64;
        let mut next = deadline_before(self.0, horizon + Time::TICK);
        while let Some(t) = next {
            let Some(left) = steps.checked_sub((self.0.len() * self.0.len()) as u64) else {
                return Verdict::Unknown;
            };
            steps = left;
            let demand = demand(t);
            if demand > t {
                return Verdict::Unknown;
            }
            // What lies between is covered.
            next = deadline_before(self.0, if demand < t { demand + Time::TICK } else { t });
        }
        Verdict::Schedulable
    }

    /// The tasks that `j` can preempt and whose deadlines are at most `t`.
    pub(super) fn affected(&self, j: usize, t: Time) -> impl Iterator<Item = usize> + Clone + '_ {
        let own = self.0[j].deadline;
        (0..self.0.len()).filter(move |&k| self.0[k].deadline > own && self.0[k].deadline <= t)
    }

    /// The number of jobs of a task that are due within `t`.
    pub(super) fn jobs(&self, at: usize, t: Time) -> u64 {
        self.0[at].demand(t) / self.0[at].wcet
    }

    /// The number of times `j` can preempt jobs of `k` that are due within `t`.
    pub(super) fn preemptions(&self, k: usize, j: usize, t: Time) -> u64 {
        let room = self.0[k].deadline - self.0[j].deadline;
        room.div_ceil(self.0[j].period) * self.jobs(k, t)
    }
}

struct Demand<'a> {
    tasks: EdfTasks<'a>,
    footprints: &'a [Footprint],
    reload: Reload,
}

impl Demand<'_> {
    /// The demand within `t`, including reloads.
    fn at(&self, t: Time, approach: Approach) -> Time {
        let of = |(j, task): (usize, &Task)| {
            task.demand(t) + self.reload.of(self.blocks(j, t, approach))
        };
        self.tasks.0.iter().enumerate().map(of).sum()
    }

    /// The number of blocks that the jobs of `j` due within `t` make others reload.
    fn blocks(&self, j: usize, t: Time, approach: Approach) -> u64 {
        let jobs = self.tasks.jobs(j, t);
        match approach {
            Approach::UcbUnionMultiset => self.ucb_multiset(j, t, jobs),
            Approach::EcbUnionMultiset => self.ecb_multiset(j, t, jobs),
            single => jobs * self.each(j, t, single),
        }
    }

    /// The largest number of blocks that one job of `j` makes the tasks due within `t` reload.
    fn each(&self, j: usize, t: Time, approach: Approach) -> u64 {
        let own = &self.footprints[j];
        let useful = || self.tasks.affected(j, t).map(|k| &self.footprints[k].ucb);
        match approach {
            Approach::EcbOnly if useful().next().is_none() => 0,
            Approach::EcbOnly => own.ecb.count(),
            Approach::UcbOnly => useful().map(CacheBlockSet::count).max().unwrap_or(0),
            Approach::UcbUnion | Approach::UcbUnionMultiset => {
                useful().fold(CacheBlockSet::default(), |all, ucb| all.union(ucb)).common(&own.ecb)
            }
            Approach::EcbUnion | Approach::EcbUnionMultiset => {
                let evicting = self.evicting(j);
                useful().map(|ucb| ucb.common(&evicting)).max().unwrap_or(0)
            }
            Approach::Combined => {
                let of = |form| self.each(j, t, form);
                of(Approach::UcbUnion).max(of(Approach::EcbUnion))
            }
        }
    }

    /// The blocks that `j` and all tasks that can preempt `j` evict.
    fn evicting(&self, j: usize) -> CacheBlockSet {
        let before = self.tasks.0.iter().zip(self.footprints);
        let before = before.filter(|(task, _)| task.deadline <= self.tasks.0[j].deadline);
        before.fold(CacheBlockSet::default(), |all, (_, footprint)| all.union(&footprint.ecb))
    }

    /// Counts each block as often as the block can be useful, but no more often than `j` can evict it.
    fn ucb_multiset(&self, j: usize, t: Time, jobs: u64) -> u64 {
        let useful = |block: u32| {
            let holders = self.tasks.affected(j, t);
            let holders = holders.filter(|&k| self.footprints[k].ucb.contains(block));
            holders.map(|k| self.tasks.preemptions(k, j, t)).sum::<u64>()
        };
        self.footprints[j].ecb.iter().map(|block| useful(block).min(jobs)).sum()
    }

    /// Sums the most expensive preemptions, as many as `j` has jobs.
    fn ecb_multiset(&self, j: usize, t: Time, jobs: u64) -> u64 {
        let evicting = self.evicting(j);
        let cost =
            |k: usize| (self.footprints[k].ucb.common(&evicting), self.tasks.preemptions(k, j, t));
        dearest(self.tasks.affected(j, t).map(cost).collect(), jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::set;

    fn footprint(ucb: &[u32], ecb: &[u32]) -> Footprint {
        Footprint { ucb: ucb.iter().copied().collect(), ecb: ecb.iter().copied().collect() }
    }

    #[test]
    fn reloads_take_the_time_that_was_left() {
        // By 20: one job of 8 and, due before it, two of 4 (due by 5 and 15): 16 of 20.
        let tasks = set(1, &[(4, 10, 5), (8, 20, 20)]);
        let prints = [footprint(&[], &[1, 2, 3]), footprint(&[1, 2, 9], &[1, 2, 9])];
        let of = |time, approach| {
            schedulable(tasks.tasks(), &prints, Reload { time, blocks: 1 }, approach)
        };
        // Two preemptions at two blocks each: 16 + 4 reloads fit, twice that does not.
        for approach in [Approach::UcbUnion, Approach::EcbUnion, Approach::Combined] {
            assert_eq!(of(Time::new(1), approach), Verdict::Schedulable, "{approach:?}");
            assert_eq!(of(Time::new(2), approach), Verdict::Unknown, "{approach:?}");
        }
        // Three blocks each: 22 of 20.
        assert_eq!(of(Time::new(1), Approach::EcbOnly), Verdict::Unknown);
        assert_eq!(of(Time::new(1), Approach::UcbOnly), Verdict::Unknown);
        for approach in Approach::ALL {
            assert_eq!(of(Time::ZERO, approach), Verdict::Schedulable);
        }
    }

    #[test]
    fn what_fails_without_reloads_fails() {
        let tasks = set(1, &[(1, 8, 2), (2, 8, 2)]);
        let prints = [Footprint::default(), Footprint::default()];
        assert_eq!(
            schedulable(tasks.tasks(), &prints, Reload::nanos(1_000), Approach::EcbOnly),
            Verdict::Unschedulable
        );
    }
}
