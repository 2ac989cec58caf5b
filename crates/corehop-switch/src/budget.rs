// SPDX-License-Identifier: MIT OR Apache-2.0
//! The length of a spin before a thread sleeps, from the recent past: Strong et al., section 6.3.
//!
//! A spin pays if the wait ends within it. The waits of the recent past tell, as for locks that spin and then block
//! (Karlin et al. 1991): after a wait that a spin would have covered, the next spin is twice as long as that wait;
//! after a longer one, spins get shorter, down to none. The limit bounds the loss at any time.

/// A budget for spinning, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinBudget {
    limit: u64,
    now: u64,
}

/// Shorter spins than this see nothing: a line needs so long from core to core. Nanoseconds.
const LEAST: u64 = 200;

impl SpinBudget {
    /// A budget of at most `limit` nanoseconds, which it has at first. 0 is never to spin.
    pub fn new(limit: u64) -> Self {
        Self { limit, now: limit }
    }

    /// The nanoseconds to spin now.
    pub fn now(self) -> u64 {
        self.now
    }

    /// Learns that a wait took so many nanoseconds in all, asleep or not.
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

/// The limit for a spin where the library is not told, in nanoseconds, by the number of usable CPUs.
///
/// One CPU: a spin keeps the other thread from running. Two: the spinner's CPU is half of the machine.
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
