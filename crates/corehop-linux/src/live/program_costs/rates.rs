// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate at which events are caused, as high as the share of time that the program may lose allows.

use corehop_plan::experiment::ProgramCosts;
use corehop_plan::samples::CausedRecord;

/// The part of the share of time a program may lose ([`EventRate::share`]) that is planned; the rest covers costs that
/// are higher than estimated.
const PLANNED: f64 = 0.7;
/// The assumed cost of an event before any measurement, in nanoseconds: that of a large working set.
const GUESS_NS: f64 = 500e3;
/// The lowest cost of an event, in nanoseconds: a context switch.
const LEAST_NS: f64 = 5e3;
/// The lowest and the highest rate of the smallest dose, per second.
const RATES: [f64; 2] = [1.0, 250.0];
/// The number of rounds after which the measured costs determine the rate; fewer rounds show too little.
const ROUNDS: usize = 3;

/// The events of one class so far.
#[derive(Debug, Clone)]
pub(super) struct EventRate {
    /// The share of its time that the program may lose, 0 to 1.
    share: f64,
    /// The time for which a thread is off its CPU, in nanoseconds.
    absent_ns: f64,
    /// The number of events of the smallest dose per second.
    per_second: f64,
    under_way: Vec<(u32, CausedRecord)>,
    /// For each round, the additional time in nanoseconds, and the number of events.
    rounds: Vec<[f64; 2]>,
}

impl EventRate {
    pub(super) fn new(share: f64, absent_ns: f64) -> Self {
        let (per_second, under_way, rounds) = (0.0, Vec::new(), Vec::new());
        let mut it = Self { share, absent_ns, per_second, under_way, rounds };
        it.per_second = it.affordable(GUESS_NS);
        it
    }

    /// The number of events of the smallest dose per second.
    pub(super) const fn per_second(&self) -> f64 {
        self.per_second
    }

    /// The rate at which events of this cost take the planned share of the program's time.
    fn affordable(&self, cost_ns: f64) -> f64 {
        let doses = ProgramCosts::DOSES;
        let mean = f64::from(doses.iter().sum::<u32>()) / doses.len() as f64;
        let each = (cost_ns.max(LEAST_NS) + self.absent_ns) * 1e-9;
        (PLANNED * self.share / (mean * each)).clamp(RATES[0], RATES[1])
    }

    /// Adds a block with a dose. The last block of a round determines the rate of the next round.
    pub(super) fn take(&mut self, dose: u32, record: &CausedRecord) {
        self.under_way.push((dose, record.clone()));
        if self.under_way.len() < ProgramCosts::DOSES.len() {
            return;
        }
        let round = std::mem::take(&mut self.under_way);
        let usable = || {
            round
                .iter()
                .filter(|(_, it)| it.invalid.is_none() && it.progress > 0.0 && it.cpu_ns > 0.0)
        };
        let still = || usable().filter(|(dose, _)| *dose == 0);
        if still().count() == 0 {
            return;
        }
        // As in the summary: a difference of logarithms has no direction of its own.
        let log_each = |it: &CausedRecord| (it.cpu_ns / it.progress).ln();
        let each = still().map(|(_, it)| log_each(it)).sum::<f64>() / still().count() as f64;
        let caused = || usable().filter(|(dose, _)| *dose > 0);
        let excess: f64 = caused().map(|(_, it)| it.cpu_ns * (log_each(it) - each)).sum();
        self.rounds.push([excess, caused().map(|(_, it)| it.events as f64).sum()]);
        if let Some(cost_ns) = self.least_cost_ns().filter(|_| self.rounds.len() >= ROUNDS) {
            let wanted = self.affordable(cost_ns);
            self.per_second = wanted.clamp(self.per_second / 2.0, self.per_second * 2.0);
        }
    }

    /// The cost of an event minus its standard error. Noise alone must not lower the rate, because fewer events would
    /// show even less. Returns `None` if no event was caused.
    fn least_cost_ns(&self) -> Option<f64> {
        let count = self.rounds.len() as f64;
        let [excess, events] =
            self.rounds.iter().fold([0.0; 2], |[x, n], it| [x + it[0], n + it[1]]);
        let cost = excess / events;
        let apart = |it: &[f64; 2]| (it[0] - cost * it[1]).powi(2);
        let squares: f64 = self.rounds.iter().map(apart).sum();
        let error = (squares / (count - 1.0).max(1.0) / count).sqrt() / (events / count);
        (events > 0.0).then_some(cost - error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after some rounds of 100 ms each, for a program that takes 1 ms of CPU time per unit, with events of
    /// this cost.
    fn after(rounds: usize, share: f64, cost_ns: f64) -> EventRate {
        let mut rate = EventRate::new(share, 0.0);
        for _ in 0..rounds {
            for dose in ProgramCosts::DOSES {
                let events = (rate.per_second() * f64::from(dose) * 0.1).round();
                let progress = (100e6 - events * cost_ns).max(0.0) / 1e6;
                let record = CausedRecord {
                    events: events as u64,
                    cpu_ns: 100e6,
                    progress,
                    ..CausedRecord::default()
                };
                rate.take(dose, &record);
            }
        }
        rate
    }

    /// The share of its time that a program loses to events of this cost.
    fn lost(rate: &EventRate, cost_ns: f64) -> f64 {
        rate.per_second() * 7.0 / 5.0 * cost_ns * 1e-9
    }

    #[test]
    fn the_program_loses_the_planned_part_of_its_share_once_the_cost_is_known() {
        for cost_ns in [100e3, 200e3, 900e3, 5e6] {
            let rate = after(12, 0.05, cost_ns);
            let lost = lost(&rate, cost_ns);
            assert!((0.025..=0.05).contains(&lost), "{cost_ns}: {lost}");
        }
        assert!(
            (after(20, 0.05, 100.0).per_second() - RATES[1]).abs() < 1e-9,
            "cheap events have a limit"
        );
    }

    #[test]
    fn the_rate_changes_by_no_more_than_twice_from_round_to_round_and_not_before_the_third() {
        let rates: Vec<f64> = (0..8).map(|rounds| after(rounds, 0.05, 20e3).per_second()).collect();
        assert!(rates[..3].windows(2).all(|it| (it[0] - it[1]).abs() < 1e-9), "{rates:?}");
        assert!(rates.windows(2).all(|it| it[1] <= 2.0 * it[0] + 1e-9), "{rates:?}");
        assert!(rates[7] > rates[2]);
    }

    #[test]
    fn the_time_off_the_cpu_counts_as_lost() {
        let (near, away) = (EventRate::new(0.05, 0.0), EventRate::new(0.05, 4.5e6));
        assert!((near.per_second() / away.per_second() - 10.0).abs() < 0.01);
    }

    #[test]
    fn noise_does_not_lower_the_rate() {
        let mut rate = EventRate::new(0.05, 0.0);
        let begin = rate.per_second();
        for round in 0..20 {
            for (at, dose) in ProgramCosts::DOSES.into_iter().enumerate() {
                // Ten per cent more or less, whatever the dose.
                let noise = if (round * 7 + at * 3) % 2 == 0 { 0.9 } else { 1.1 };
                let record = CausedRecord {
                    events: u64::from(dose),
                    cpu_ns: 100e6 * noise,
                    progress: 100.0,
                    ..CausedRecord::default()
                };
                rate.take(dose, &record);
            }
        }
        assert!(rate.per_second() >= begin, "{}", rate.per_second());
    }

    #[test]
    fn blocks_that_say_nothing_change_nothing() {
        let mut rate = EventRate::new(0.05, 0.0);
        let before = rate.per_second();
        for _ in 0..5 {
            for dose in ProgramCosts::DOSES {
                let invalid = Some("no progress".to_owned());
                rate.take(
                    dose,
                    &CausedRecord { cpu_ns: 1e9, events: 3, invalid, ..CausedRecord::default() },
                );
            }
        }
        assert!((rate.per_second() - before).abs() < 1e-12);
    }
}
