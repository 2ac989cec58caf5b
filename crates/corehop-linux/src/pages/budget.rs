// SPDX-License-Identifier: MIT OR Apache-2.0
//! The budget of faults that sampling may cause per second, for each thread and for all threads together.

use std::collections::HashMap;

/// The purpose of a fault. Each purpose gets one half of a thread's faults, so that neither starves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The fault finds pages that are written, and the threads that write them.
    Explore,
    /// The fault looks again at a page that several threads write.
    Watch,
}

/// The largest number of faults per second for all threads together.
const ALL_PER_SECOND: f64 = 1_000.0;
/// Unused faults accumulate up to the number for this many seconds.
const DEPTH_S: f64 = 0.1;

/// A number of remaining faults, and the time at which it was valid.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at_ns: u64,
}

impl Bucket {
    fn full(per_second: f64, now_ns: u64) -> Self {
        Self { left: depth(per_second), at_ns: now_ns }
    }

    /// The number of remaining faults now. A negative number means that too many faults were made.
    fn left(&self, per_second: f64, now_ns: u64) -> f64 {
        let passed_s = now_ns.saturating_sub(self.at_ns) as f64 * 1e-9;
        (self.left + passed_s * per_second).min(depth(per_second))
    }

    fn charge(&mut self, faults: f64, per_second: f64, now_ns: u64) {
        self.left = self.left(per_second, now_ns) - faults;
        self.at_ns = self.at_ns.max(now_ns);
    }
}

fn depth(per_second: f64) -> f64 {
    (per_second * DEPTH_S).max(2.0)
}

/// The fault budgets of threads.
#[derive(Debug)]
pub(super) struct FaultBudget {
    /// The faults per second for one purpose of one thread.
    per_second: f64,
    threads: HashMap<u32, [Bucket; 2]>,
    all: Bucket,
}

impl FaultBudget {
    /// Allows at most `faults_per_second` faults for each thread, both purposes together.
    pub(super) fn new(faults_per_second: u32, now_ns: u64) -> Self {
        let per_second = f64::from(faults_per_second) / 2.0;
        Self { per_second, threads: HashMap::new(), all: Bucket::full(ALL_PER_SECOND, now_ns) }
    }

    /// Whether this thread, and all threads together, may cause one more fault.
    pub(super) fn allows(&self, tid: u32, purpose: Purpose, now_ns: u64) -> bool {
        let own = self.threads.get(&tid).map(|it| it[purpose as usize]);
        own.is_none_or(|it| it.left(self.per_second, now_ns) >= 1.0) && self.all_left(now_ns)
    }

    /// Whether every thread may cause one more fault.
    pub(super) fn allows_each(&self, purpose: Purpose, now_ns: u64) -> bool {
        let allows = |it: &[Bucket; 2]| it[purpose as usize].left(self.per_second, now_ns) >= 1.0;
        self.threads.values().all(allows) && self.all_left(now_ns)
    }

    fn all_left(&self, now_ns: u64) -> bool {
        self.all.left(ALL_PER_SECOND, now_ns) >= 1.0
    }

    /// Charges faults to a thread; a negative number returns faults that were charged in advance.
    pub(super) fn charge(&mut self, tid: u32, purpose: Purpose, faults: f64, now_ns: u64) {
        let rate = self.per_second;
        let buckets = self.threads.entry(tid).or_insert([Bucket::full(rate, now_ns); 2]);
        buckets[purpose as usize].charge(faults, rate, now_ns);
        self.all.charge(faults, ALL_PER_SECOND, now_ns);
    }

    /// The time until a thread with an empty budget may cause a fault.
    pub(super) fn wait_ns(&self) -> u64 {
        (1e9 / self.per_second.max(0.1)) as u64
    }

    /// Removes threads whose budget equals that of a new thread, because they may have ended.
    pub(super) fn forget(&mut self, now_ns: u64) {
        let (rate, full) = (self.per_second, depth(self.per_second));
        self.threads.retain(|_, it| it.iter().any(|it| it.left(rate, now_ns) < full));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The number of faults that a thread may cause if it tries this often per second.
    fn caused(
        budget: &mut FaultBudget,
        tids: &[u32],
        seconds: u64,
        purposes: &[Purpose],
    ) -> Vec<u32> {
        let mut counts = vec![0; tids.len()];
        for now in (0..seconds * SECOND).step_by(100_000) {
            for (count, &tid) in counts.iter_mut().zip(tids) {
                for &purpose in purposes {
                    if budget.allows(tid, purpose, now) {
                        budget.charge(tid, purpose, 1.0, now);
                        *count += 1;
                    }
                }
            }
        }
        counts
    }

    #[test]
    fn a_thread_has_a_hundred_faults_a_second_and_each_purpose_one_half() {
        let both = [Purpose::Explore, Purpose::Watch];
        let all = caused(&mut FaultBudget::new(100, 0), &[1], 10, &both);
        // Ten more from the beginning: what fits into a tenth of a second.
        assert!((1_000..=1_010).contains(&all[0]), "{all:?}");
        let half = caused(&mut FaultBudget::new(100, 0), &[1, 2], 10, &[Purpose::Watch]);
        assert!(half.iter().all(|it| (500..=505).contains(it)), "{half:?}");
    }

    #[test]
    fn many_threads_share_a_thousand_faults_a_second() {
        let tids: Vec<u32> = (1..=40).collect();
        let all = caused(&mut FaultBudget::new(100, 0), &tids, 5, &[Purpose::Explore]);
        let sum: u32 = all.iter().sum();
        assert!((5_000..=5_100).contains(&sum), "{sum}");
    }

    #[test]
    fn faults_beyond_the_budget_are_made_up_for_and_rest_does_not_add_up() {
        let mut budget = FaultBudget::new(100, 0);
        budget.charge(1, Purpose::Watch, 55.0, 0);
        assert!(!budget.allows(1, Purpose::Watch, SECOND));
        assert!(!budget.allows_each(Purpose::Watch, SECOND));
        assert!(budget.allows(1, Purpose::Watch, SECOND + SECOND / 20));
        assert!(budget.allows(1, Purpose::Explore, 0));
        budget.forget(SECOND);
        assert_eq!(budget.threads.len(), 1);
        budget.forget(100 * SECOND);
        assert_eq!(budget.threads.len(), 0);
        let mut rested = FaultBudget::new(100, 0);
        let count = (0..50).filter(|_| {
            let allowed = rested.allows(7, Purpose::Watch, 100 * SECOND);
            rested.charge(7, Purpose::Watch, 1.0, 100 * SECOND);
            allowed
        });
        assert_eq!(count.count(), 5);
    }

    #[test]
    fn faults_of_one_thread_count_for_all_and_what_was_not_caused_is_given_back() {
        // 100 of all threads together are left at first, and 1,000 more a second.
        let mut budget = FaultBudget::new(10_000, 0);
        for tid in 1..=4 {
            budget.charge(tid, Purpose::Explore, 25.0, 0);
        }
        assert!(!budget.allows(5, Purpose::Explore, 0) && !budget.allows_each(Purpose::Watch, 0));
        assert!(budget.allows(5, Purpose::Explore, 1_000_000), "a fault a millisecond");
        budget.charge(4, Purpose::Explore, -25.0, 0);
        assert!(budget.allows(5, Purpose::Explore, 0));
        // What is given back does not add up beyond the depth, and time does not go back.
        let mut one = FaultBudget::new(20, 0);
        one.charge(1, Purpose::Watch, -50.0, SECOND);
        one.charge(1, Purpose::Watch, 2.0, 0);
        assert!(!one.allows(1, Purpose::Watch, SECOND));
        assert!(one.allows(1, Purpose::Watch, SECOND + SECOND / 10));
    }

    #[test]
    fn a_thread_without_faults_waits_for_one_of_its_purpose() {
        assert_eq!(FaultBudget::new(100, 0).wait_ns(), 20_000_000);
        assert_eq!(FaultBudget::new(0, 0).wait_ns(), 10_000_000_000, "not for ever");
        // At least two, however few a second.
        let mut few = FaultBudget::new(2, 0);
        let allowed = (0..5).filter(|_| {
            let allows = few.allows(1, Purpose::Explore, 0);
            few.charge(1, Purpose::Explore, f64::from(u8::from(allows)), 0);
            allows
        });
        assert_eq!(allowed.count(), 2);
    }
}
