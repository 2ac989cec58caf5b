// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time for which a thread spins before it sleeps, learned from recent waits: Strong et al., section 6.3.
//!
//! A spin saves time if the wait ends within it. Recent waits predict that, as for locks that spin and then block
//! (Karlin et al. 1991). After a wait that a spin would have covered, the next spin is twice as long as that wait.
//! After a longer wait, spins get shorter, down to none. The limit bounds the loss at any time.

/// A budget for spinning, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinBudget {
    limit: u64,
    now: u64,
}

/// The shortest useful spin, because a cache line takes about this long from core to core. The value is in
/// nanoseconds.
const LEAST: u64 = 200;

impl SpinBudget {
    /// Creates a budget that starts at its limit of `limit` nanoseconds. 0 disables spinning.
    pub fn new(limit: u64) -> Self {
        Self { limit, now: limit }
    }

    /// Returns the current spin time in nanoseconds.
    pub fn now(self) -> u64 {
        self.now
    }

    /// Learns from a complete wait of `waited` nanoseconds, with or without sleep.
    pub fn learn(&mut self, waited: u64) {
        self.now = if waited <= self.limit {
            self.limit.min(LEAST.max(2 * waited).max(self.now))
        } else if self.now <= LEAST {
            0
        } else {
            self.now / 2
        };
    }
}

/// Returns the default spin limit in nanoseconds, by the number of usable CPUs.
///
/// With one CPU, a spin keeps the other thread from running. With two CPUs, the spinning thread uses half of the
/// machine.
pub fn usual_limit(cpus: usize) -> u64 {
    match cpus {
        0 | 1 => 0,
        2 => 5_000,
        _ => 50_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_end_the_spinning_and_a_short_one_resumes_it() {
        let mut budget = SpinBudget::new(1_600);
        let mut spins = Vec::new();
        for _ in 0..5 {
            spins.push(budget.now());
            budget.learn(1_000_000);
        }
        assert_eq!(spins, [1_600, 800, 400, 200, 0]);
        budget.learn(500);
        assert_eq!(budget.now(), 1_000);
        budget.learn(1_600);
        assert_eq!(budget.now(), 1_600);
    }

    #[test]
    fn one_long_wait_among_short_ones_costs_little() {
        let mut budget = SpinBudget::new(5_000);
        budget.learn(60_000);
        assert_eq!(budget.now(), 2_500);
        budget.learn(2_000);
        assert_eq!(budget.now(), 4_000);
    }

    #[test]
    fn no_wait_makes_a_budget_exceed_its_limit() {
        for limit in [0, 1, 200, 5_000] {
            let mut budget = SpinBudget::new(limit);
            for waited in [0, 1, limit, limit + 1, u64::MAX / 4, 3, limit / 2] {
                budget.learn(waited);
                assert!(budget.now() <= limit);
            }
        }
    }

    #[test]
    fn one_cpu_never_spins_and_two_spin_for_five_microseconds() {
        assert_eq!([0, 1, 2, 3].map(usual_limit), [0, 0, 5_000, 50_000]);
    }

    #[test]
    fn a_wait_within_the_limit_never_shortens_a_spin_and_a_short_one_lengthens_it_to_the_least() {
        let mut budget = SpinBudget::new(1_600);
        budget.learn(10);
        assert_eq!(budget.now(), 1_600);
        for _ in 0..4 {
            budget.learn(1_601);
        }
        assert_eq!(budget.now(), 0);
        budget.learn(1_600 / 32);
        assert_eq!(budget.now(), LEAST);
        budget.learn(300);
        assert_eq!(budget.now(), 600);
    }
}
