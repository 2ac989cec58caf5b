// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects whether other threads now use the CPUs of a kept placement: the placed threads wait longer for a CPU than
//! when the placement was judged.
//!
//! Threads that take turns on one CPU wait for each other in any case. So the measure is the placed threads' time in
//! the run queue divided by their CPU time, compared with the first windows after the judgement.

use std::collections::{BTreeMap, VecDeque};

use corehop_plan::host::Activity;
use corehop_plan::units::CpuList;
use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::median;

/// The number of windows in a median: half a second.
const WINDOWS: usize = 5;
/// The crowding limit is this factor times the earlier waiting ratio, plus [`MORE`].
const TIMES: f64 = 1.5;
const MORE: f64 = 0.25;
/// The number of windows between the first two reactions. Each reaction doubles the number, up to [`MOST_REST`].
const REST: u64 = 20;
const MOST_REST: u64 = 600;

/// The recent waiting of placed threads, and their waiting when the placement was judged.
#[derive(Debug, Clone)]
pub(super) struct Crowding {
    basis: Option<f64>,
    recent: VecDeque<f64>,
    /// The window from which crowding counts again, and the length of the pause after it.
    next: (u64, u64),
}

impl Default for Crowding {
    fn default() -> Self {
        Self { basis: None, recent: VecDeque::new(), next: (0, REST) }
    }
}

impl Crowding {
    /// Records that a placement was judged: the next windows become the reference.
    pub(super) fn judged(&mut self) {
        self.basis = None;
        self.recent.clear();
    }

    /// Adds a window; returns whether the placed threads are newly crowded.
    pub(super) fn has_come(
        &mut self,
        window: u64,
        activity: &Activity,
        placed: &BTreeMap<u32, CpuList>,
    ) -> bool {
        let Some(waiting) = waiting(activity, placed) else { return false };
        if self.recent.len() == WINDOWS {
            self.recent.pop_front();
        }
        self.recent.push_back(waiting);
        let recent: Vec<f64> = self.recent.iter().copied().collect();
        let Some(recent) = Ordered::new(&recent).ok().filter(|_| recent.len() == WINDOWS) else {
            return false;
        };
        let now = median(&recent);
        let basis = *self.basis.get_or_insert(now);
        let (from, rest) = self.next;
        let has_come = window >= from && now > TIMES * basis + MORE;
        if has_come {
            self.next = (window + rest, (2 * rest).min(MOST_REST));
        }
        has_come
    }
}

/// The placed threads' waiting time divided by their running time; `None` if the threads neither waited nor ran.
fn waiting(activity: &Activity, placed: &BTreeMap<u32, CpuList>) -> Option<f64> {
    let threads = activity.threads.iter().filter(|it| placed.contains_key(&it.tid));
    let sum = |(ran, waited): (u64, u64), it: &corehop_plan::host::ActiveThread| {
        (ran + it.busy_ns, waited + it.waited_ns)
    };
    let (ran, waited) = threads.fold((0, 0), sum);
    (ran + waited > 0).then(|| waited as f64 / ran.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::host::ActiveThread;
    use corehop_plan::units::Cpu;

    fn placed() -> BTreeMap<u32, CpuList> {
        [1, 2].into_iter().map(|tid| (tid, CpuList::new([Cpu(0)]))).collect()
    }

    /// The windows in which crowding is detected, if each thread waits for this long per 50 ms.
    fn noticed(waited_ms: impl Fn(u64) -> u64, windows: u64) -> Vec<u64> {
        let (mut crowding, placed) = (Crowding::default(), placed());
        let is_noticed = |&at: &u64| {
            let waited_ns = waited_ms(at) * 1_000_000;
            // A thread that is not placed waits as it likes.
            let other = ActiveThread {
                tid: 3,
                busy_ns: 1,
                waited_ns: 90_000_000,
                ..ActiveThread::default()
            };
            let thread = |tid| ActiveThread {
                tid,
                busy_ns: 50_000_000,
                waited_ns,
                ..ActiveThread::default()
            };
            let threads = vec![thread(1), thread(2), other];
            let activity = Activity { span_ns: 100_000_000, threads, ..Activity::default() };
            crowding.has_come(at, &activity, &placed)
        };
        (0..windows).filter(is_noticed).collect()
    }

    #[test]
    fn company_is_noticed_within_half_a_second_and_waiting_for_each_other_is_none() {
        assert!(noticed(|_| 40, 100).is_empty());
        let seen = noticed(|at| if at < 30 { 20 } else { 60 }, 40);
        assert_eq!(seen, [32]);
        // A single window is no company.
        assert!(noticed(|at| if at % 9 == 0 { 90 } else { 20 }, 100).is_empty());
    }

    #[test]
    fn reactions_to_company_that_stays_become_rarer() {
        let seen = noticed(|at| if at < 10 { 0 } else { 100 }, 400);
        let between: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(between[..4], [20, 40, 80, 160]);
    }
}
