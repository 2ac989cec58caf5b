// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed priorities: `R = C + sum over hp of (ceil(R / T) C + gamma)` (Altmeyer, Davis and Maiza, RTS 48(5), 2012).

use super::{Approach, CacheBlockSet, Footprint, Reload, dearest};
use crate::ranking::Ranking;
use corehop_plan::workload::task::{Task, Time};

/// Returns the worst-case response times with reload costs, or `None` if a deadline may be missed. The analysis needs
/// deadlines within periods and no jitter. `footprints` follows the order of the tasks, and `reload` converts blocks
/// into reload time.
pub fn responses(
    tasks: &[Task],
    footprints: &[Footprint],
    reload: Reload,
    approach: Approach,
) -> Option<Vec<Time>> {
    if footprints.len() != tasks.len() {
        return None;
    }
    let mut levels = PriorityLevels::new(tasks)?;
    let prints = Prints::new(footprints, reload, &levels.order);
    for level in 0..tasks.len() {
        let of = |form| {
            levels.response(level, |j, response| prints.reloads(&levels, level, j, response, form))
        };
        let found = match approach {
            Approach::Combined => {
                let both = [Approach::UcbUnionMultiset, Approach::EcbUnionMultiset];
                both.into_iter().filter_map(of).min()
            }
            one => of(one),
        };
        levels.responses.push(found?);
    }
    Some(levels.in_order_of_the_tasks())
}

/// The tasks, highest priority first, with the response times found so far. A level is a task's index in this order.
pub(super) struct PriorityLevels<'a> {
    tasks: &'a [Task],
    pub(super) order: Vec<usize>,
    pub(super) responses: Vec<Time>,
}

impl<'a> PriorityLevels<'a> {
    /// Returns `None` if deadlines are beyond periods, tasks share a priority, or a task has jitter or blocking.
    pub(super) fn new(tasks: &'a [Task]) -> Option<Self> {
        let plain = |task: &Task| {
            task.deadline <= task.period && task.jitter == Time::ZERO && task.blocking == Time::ZERO
        };
        let order = Ranking::distinct(tasks).ok()?;
        tasks.iter().all(plain).then(|| Self { tasks, order, responses: Vec::new() })
    }

    pub(super) fn task(&self, level: usize) -> &Task {
        &self.tasks[self.order[level]]
    }

    /// The largest number of jobs of level `j` within `response`: `E_j`.
    pub(super) fn jobs(&self, j: usize, response: Time) -> u64 {
        response.div_ceil(self.task(j).period)
    }

    /// The number of times `j` can preempt `k` while the task at `level` responds: `E_j(R_k) E_k(R_i)`.
    pub(super) fn preemptions(&self, level: usize, k: usize, j: usize, response: Time) -> u64 {
        let of_k = if k == level { response } else { self.responses[k] };
        self.jobs(j, of_k) * self.jobs(k, response)
    }

    /// The least fixpoint of the response time at this level, where preemptions by level `j` cost `reloads(j,
    /// response)`; `None` if the fixpoint is beyond the deadline.
    pub(super) fn response(
        &self,
        level: usize,
        reloads: impl Fn(usize, Time) -> Time,
    ) -> Option<Time> {
        let own = self.task(level);
        let mut response = own.wcet;
        while response <= own.deadline {
            let of = |j: usize| {
                let computing = self.jobs(j, response) * self.task(j).wcet;
                computing.saturating_add(reloads(j, response))
            };
            let next = (0..level).map(of).fold(own.wcet, Time::saturating_add);
            if next == response {
                return Some(response);
            }
            response = next;
        }
        None
    }

    pub(super) fn in_order_of_the_tasks(self) -> Vec<Time> {
        let mut responses = vec![Time::ZERO; self.order.len()];
        for (at, response) in self.order.into_iter().zip(self.responses) {
            responses[at] = response;
        }
        responses
    }
}

/// The cache blocks that tasks use and evict, by level.
struct Prints<'a> {
    reload: Reload,
    by_level: Vec<&'a Footprint>,
    /// At each level, the union of the ECBs of the task at that level and of all tasks with higher priority.
    evicting: Vec<CacheBlockSet>,
}

impl<'a> Prints<'a> {
    fn new(footprints: &'a [Footprint], reload: Reload, order: &[usize]) -> Self {
        let mut evicting: Vec<CacheBlockSet> = Vec::with_capacity(order.len());
        for &at in order {
            let above = evicting.last().cloned().unwrap_or_default();
            evicting.push(above.union(&footprints[at].ecb));
        }
        let by_level = order.iter().map(|&at| &footprints[at]).collect();
        Self { reload, by_level, evicting }
    }

    fn ucb(&self, level: usize) -> &CacheBlockSet {
        &self.by_level[level].ucb
    }
    fn ecb(&self, level: usize) -> &CacheBlockSet {
        &self.by_level[level].ecb
    }

    fn reloads(
        &self,
        levels: &PriorityLevels<'_>,
        level: usize,
        j: usize,
        response: Time,
        approach: Approach,
    ) -> Time {
        self.reload.of(self.blocks(levels, level, j, response, approach))
    }

    /// The number of blocks that preemptions by level `j` make the tasks down to `level` reload within
    /// `response`.
    fn blocks(
        &self,
        levels: &PriorityLevels<'_>,
        level: usize,
        j: usize,
        response: Time,
        approach: Approach,
    ) -> u64 {
        let jobs = levels.jobs(j, response);
        let affected = j + 1..=level;
        match approach {
            Approach::EcbOnly => jobs * self.ecb(j).count(),
            Approach::UcbOnly => jobs * affected.map(|k| self.ucb(k).count()).max().unwrap_or(0),
            Approach::UcbUnion => {
                let union =
                    affected.fold(CacheBlockSet::default(), |union, k| union.union(self.ucb(k)));
                jobs * union.common(self.ecb(j))
            }
            Approach::EcbUnion => jobs * affected.map(|k| self.evicted(k, j)).max().unwrap_or(0),
            Approach::UcbUnionMultiset => self.ucb_multiset(levels, level, j, response),
            Approach::EcbUnionMultiset => self.ecb_multiset(levels, level, j, response),
            Approach::Combined => self
                .ucb_multiset(levels, level, j, response)
                .min(self.ecb_multiset(levels, level, j, response)),
        }
    }

    /// The number of blocks that `k` can lose to `j` and to all tasks that preempt `j`.
    fn evicted(&self, k: usize, j: usize) -> u64 {
        self.ucb(k).common(&self.evicting[j])
    }

    /// Counts each block as often as the block can be useful, but no more often than it can be evicted.
    fn ucb_multiset(
        &self,
        levels: &PriorityLevels<'_>,
        level: usize,
        j: usize,
        response: Time,
    ) -> u64 {
        let jobs = levels.jobs(j, response);
        let useful = |block: u32| {
            let holders = (j + 1..=level).filter(|&k| self.ucb(k).contains(block));
            holders.map(|k| levels.preemptions(level, k, j, response)).sum::<u64>()
        };
        self.ecb(j).iter().map(|block| useful(block).min(jobs)).sum()
    }

    /// Sums the most expensive preemptions, as many as `j` has jobs.
    fn ecb_multiset(
        &self,
        levels: &PriorityLevels<'_>,
        level: usize,
        j: usize,
        response: Time,
    ) -> u64 {
        let costs = (j + 1..=level)
            .map(|k| (self.evicted(k, j), levels.preemptions(level, k, j, response)))
            .collect();
        dearest(costs, levels.jobs(j, response))
    }
}

#[cfg(test)]
mod tests {
    use Approach::{
        Combined, EcbOnly, EcbUnion, EcbUnionMultiset, UcbOnly, UcbUnion, UcbUnionMultiset,
    };

    use super::*;
    use crate::uni::fixed::response_time_analysis;
    use corehop_fixtures::task_sets::implicit;

    fn footprint(ucb: &[u32], ecb: &[u32]) -> Footprint {
        Footprint { ucb: ucb.iter().copied().collect(), ecb: ecb.iter().copied().collect() }
    }

    #[test]
    fn every_approach_by_hand() {
        // One preempter with blocks 1-4, one task that finds 3-7 useful: two jobs of the first while the
        // second runs. ECB 4 each, UCB 5 each, both 2 each.
        let set = implicit(1, &[(2, 20), (17, 60)]);
        let prints =
            [footprint(&[], &[1, 2, 3, 4]), footprint(&[3, 4, 5, 6, 7], &[3, 4, 5, 6, 7, 8])];
        let of = |approach| {
            responses(set.tasks(), &prints, Reload { time: Time::new(1), blocks: 1 }, approach)
                .unwrap()[1]
        };
        // 17 + 2 (2 + 4) = 29; 17 + 2 (2 + 5) = 31; 17 + 2 (2 + 2) = 25.
        assert_eq!(of(Approach::EcbOnly), Time::new(29));
        assert_eq!(of(Approach::UcbOnly), Time::new(31));
        for approach in [Approach::UcbUnion, Approach::EcbUnion, Approach::Combined] {
            assert_eq!(of(approach), Time::new(25), "{approach:?}");
        }
    }

    #[test]
    fn a_multiset_counts_what_is_preempted_no_more_often_than_it_is() {
        // The middle task is rare and has the blocks; the low one has none: of the many jobs of the
        // high one, few find something to evict.
        let set = implicit(1, &[(1, 10), (4, 100), (40, 200)]);
        let prints =
            [footprint(&[], &[1, 2, 3]), footprint(&[1, 2, 3], &[1, 2, 3]), footprint(&[], &[9])];
        let of = |approach| {
            responses(set.tasks(), &prints, Reload { time: Time::new(1), blocks: 1 }, approach)
                .unwrap()[2]
        };
        // Of two, the response in full: w = 4 + 1 + 3. Of three with one preemption of the middle one: 40 + 4 + 3
        // + ceil(w / 10) = 53; the unions charge 3 for each job of the first.
        assert_eq!(of(Approach::UcbUnionMultiset), Time::new(53));
        assert_eq!(of(Approach::EcbUnionMultiset), Time::new(53));
        assert!(of(Approach::UcbUnion) > Time::new(60));
    }

    #[test]
    fn approaches_dominate_each_other_as_the_paper_says() {
        let mut state = 5_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut compared = 0;
        for _ in 0..1_500 {
            let n = draw(4) + 2;
            let tasks: Vec<_> = (0..n)
                .map(|_| {
                    let period = draw(90) + 10;
                    (draw(period / n) + 1, period)
                })
                .collect();
            let set = implicit(1, &tasks);
            let prints: Vec<Footprint> = (0..n)
                .map(|_| {
                    let ecb: Vec<u32> = (0..12).filter(|_| draw(2) == 0).collect();
                    let ucb: Vec<u32> = ecb.iter().copied().filter(|_| draw(2) == 0).collect();
                    footprint(&ucb, &ecb)
                })
                .collect();
            let of = |approach| {
                responses(set.tasks(), &prints, Reload { time: Time::new(1), blocks: 1 }, approach)
            };
            let no_later = |a: Approach, b: Approach| match (of(a), of(b)) {
                (Some(a), Some(b)) => a.iter().zip(&b).all(|(a, b)| a <= b),
                (None, Some(_)) => false,
                _ => true,
            };
            for (a, b) in [
                (UcbUnionMultiset, UcbUnion),
                (UcbUnion, EcbOnly),
                (EcbUnionMultiset, EcbUnion),
                (EcbUnion, UcbOnly),
                (Combined, UcbUnionMultiset),
                (Combined, EcbUnionMultiset),
            ] {
                assert!(no_later(a, b), "{a:?} {b:?} {tasks:?} {prints:?}");
            }
            // With nothing to reload all are the plain analysis.
            let mut plain = vec![Time::ZERO; n as usize];
            if response_time_analysis(set.tasks(), Some(&mut plain)).is_schedulable() {
                assert_eq!(responses(set.tasks(), &prints, Reload::nanos(0), EcbOnly), Some(plain));
                compared += 1;
            }
        }
        assert!(compared > 300, "{compared}");
    }
}
