// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes the supply of CPUs: one thread reads the time-stamp counter, on one CPU at a time.
//!
//! A window begins at an instant that was planned while the thread slept. The thread wakes a little earlier, so that
//! a gap in progress at that instant is seen from its beginning. A thread that wakes too late was kept waiting. That
//! time is a gap whose beginning was not observed. The first reading after the planned end closes the window, so that
//! a gap is seen to its end.

use std::time::{Duration, Instant};

use corehop_plan::experiment::{PlannedWindow, Watch};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, SupplyRecord};
use corehop_plan::stop::Stop;
use corehop_plan::units::Nanos;
use serde_json::json;

use super::{LiveMachine, failed};
use crate::duty;
use corehop_system::clock::{TickClock, Ticks, monotonic_ns, now, sleep_until};
use corehop_system::supervisor::interrupt;
use corehop_system::thread::{SchedulingPolicy, apart, best_policy, punctual, set_affinity};

/// The time for which the thread is awake before a window begins, in nanoseconds, longer than most wake-ups take.
const LEAD_NS: f64 = 1e6;
/// The time after which records are passed on.
const BATCH: Duration = Duration::from_millis(500);
/// The longest sleep between two checks whether the run was stopped, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;
/// The largest number of gaps stored for a window.
const ROOM: usize = 1 << 15;
/// A distance between two readings of up to this many times the shortest distance counts as one reading; a longer
/// distance is a gap.
const READING: Ticks = 4;

impl LiveMachine {
    /// Observes the windows of a plan.
    pub(super) fn run_supply(
        &mut self,
        plan: &Watch,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let (stop, real_time) = (sink.stop(), self.real_time());
        let mut next = 0;
        while next < plan.windows.len() {
            let (clock, started) = (self.clock, self.started);
            let watched = apart(|| {
                interrupt::keep_off_this_thread();
                punctual();
                let policy = best_policy(real_time.clone());
                let watcher = Watcher::new(plan, clock, started, policy.0);
                (watcher.and_then(|it| it.batch(next, &stop)), policy)
            });
            let (records, policy) =
                watched.map_err(|error| failed("starting the thread that watches", error))?;
            let records = records.map_err(|why| failed("watching a CPU", why))?;
            self.facts.insert(
                "policy".to_owned(),
                json!({"best": policy.0.to_string(), "why_no_better": policy.1}),
            );
            next += records.len();
            let goes_on = sink.take(Batch::Supply(&records)).map_err(MachineError::Sink)?;
            if !goes_on || stop.is_asked() {
                return Ok(RunEnd::Stopped);
            }
        }
        Ok(RunEnd::Complete)
    }
}

/// The thread that observes a CPU.
struct Watcher<'a> {
    plan: &'a Watch,
    clock: TickClock,
    started: Instant,
    policy: SchedulingPolicy,
    readings: Readings,
}

impl<'a> Watcher<'a> {
    fn new(
        plan: &'a Watch,
        clock: TickClock,
        started: Instant,
        policy: SchedulingPolicy,
    ) -> Result<Self, String> {
        let readings = Readings::new(clock.ticks(plan.threshold.get() as f64))?;
        Ok(Self { plan, clock, started, policy, readings })
    }

    /// Observes windows from index `first` on, for about [`BATCH`]; fewer if the run was stopped.
    fn batch(mut self, first: usize, stop: &Stop) -> Result<Vec<SupplyRecord>, String> {
        let (begin, mut records) = (Instant::now(), Vec::new());
        for (number, window) in self.plan.windows.iter().enumerate().skip(first) {
            if begin.elapsed() > BATCH || stop.is_asked() {
                break;
            }
            set_affinity([window.cpu]).map_err(|error| format!("{}: {error}", window.cpu))?;
            if !self.rest(window, stop) {
                break;
            }
            records.push(SupplyRecord { window: number as u64, ..self.window(window)? });
        }
        Ok(records)
    }

    /// Sleeps as the plan requires, and until the window fits into the budget of its CPU. Returns false if the run
    /// was stopped.
    fn rest(&self, window: &PlannedWindow, stop: &Stop) -> bool {
        duty::settle(window.cpu);
        let need = self.plan.window.get() as f64 + 2.0 * LEAD_NS;
        let wait = duty::wait_ns(window.cpu, need).max(window.after.get() as f64);
        let until = monotonic_ns() + wait as u64;
        loop {
            let left = until.saturating_sub(monotonic_ns());
            if left == 0 {
                return true;
            }
            sleep_until((until - left + left.min(LOOK_NS)).cast_signed());
            if stop.is_asked() {
                return false;
            }
        }
    }

    /// Observes one window that begins shortly after now.
    fn window(&mut self, window: &PlannedWindow) -> Result<SupplyRecord, String> {
        let lead = self.clock.ticks(LEAD_NS);
        let begin = now() + 2 * lead;
        let length = self.clock.ticks(self.plan.window.get() as f64);
        sleep_until((monotonic_ns() + LEAD_NS as u64).cast_signed());
        let start_ns = self.started.elapsed().as_nanos() as u64;
        let awake = now();
        let Some((first, last)) = self.readings.watch(begin + length) else {
            return Err(format!(
                "{} has more than {ROOM} gaps in a window of {}: name a larger --threshold",
                window.cpu, self.plan.window
            ));
        };
        duty::enter(window.cpu, self.clock.between(awake, now()), 0.0);
        duty::settle(window.cpu);
        Ok(self.record(window, start_ns, (begin.min(first), first, last)))
    }

    /// The record of a window with its beginning, and the first and the last reading.
    fn record(
        &self,
        window: &PlannedWindow,
        start_ns: u64,
        (begin, first, last): (Ticks, Ticks, Ticks),
    ) -> SupplyRecord {
        let since = |ticks: Ticks| self.clock.between(begin, ticks).max(0.0) as u64;
        let late = (first > begin).then_some((begin, first));
        let gaps = late.into_iter().chain(self.readings.gaps.iter().copied());
        let gaps: Vec<(u64, u64)> =
            gaps.map(|(from, to)| (since(from), since(to) - since(from))).collect();
        let short_ns = self.clock.nanos(self.readings.short).ceil() as u64;
        let asked_ns = self.plan.window.get();
        SupplyRecord {
            window: 0,
            cpu: window.cpu,
            replicate: window.replicate,
            start_ns,
            asked_ns,
            // A rounding must not make it shorter than planned.
            watched_ns: since(last).max(asked_ns),
            short_ns,
            gaps,
            cut: late.is_some(),
            policy: self.policy.to_string(),
        }
    }
}

/// Consecutive readings of the time stamp counter.
struct Readings {
    /// The distance between two readings above which the distance counts as a gap.
    threshold: Ticks,
    /// The shortest distance between two readings.
    reading: Ticks,
    /// The gaps of the last window, each from the reading before to the reading after.
    gaps: Vec<(Ticks, Ticks)>,
    /// The ticks lost in gaps that are shorter than `threshold`.
    short: Ticks,
}

impl Readings {
    fn new(threshold: Ticks) -> Result<Self, String> {
        let distances = (0..1_000).map(|_| {
            let before = now();
            now().wrapping_sub(before)
        });
        let reading = distances.min().unwrap_or(1).max(1);
        if threshold < READING * reading {
            let needs = "the readings of the clock are further apart: name a larger --threshold";
            return Err(format!("--threshold: {needs}"));
        }
        // Written once, so that no page of it is missing in a window.
        let mut gaps = vec![(1, 1); ROOM];
        gaps.clear();
        Ok(Self { threshold, reading, gaps, short: 0 })
    }

    /// Reads the counter until it reaches `end`; returns the first and the last reading. Returns `None` if there are
    /// more gaps than can be stored.
    fn watch(&mut self, end: Ticks) -> Option<(Ticks, Ticks)> {
        self.gaps.clear();
        self.short = 0;
        let first = now();
        let mut last = first;
        while last < end {
            let next = now();
            let apart = next - last;
            if apart > READING * self.reading {
                if apart < self.threshold {
                    self.short += apart - self.reading;
                } else if self.gaps.len() < ROOM {
                    self.gaps.push((last, next));
                } else {
                    return None;
                }
            }
            last = next;
        }
        Some((first, last))
    }
}

/// The thread is under `SCHED_FIFO` for no longer than a window and the time around it.
const _: () = assert!(Watch::LONGEST.get() as f64 + 3.0 * LEAD_NS < duty::PLANNED_NS);

/// The planned busy time of a window's CPU follows from the window's length.
const _: () = assert!(Nanos::from_millis(1).get() == LEAD_NS as u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_a_gap_of_that_length() {
        apart(|| {
            let clock = TickClock::calibrate(Duration::from_millis(20));
            let mut readings = Readings::new(clock.ticks(10_000.0)).unwrap();
            let begin = now();
            let end = begin + clock.ticks(3e6);
            let (first, last) = readings.watch(end).unwrap();
            // In ticks: a time in nanoseconds is rounded down to ticks, and the last reading may be the very end.
            assert!(first >= begin && last >= end);
            let lost: f64 = readings.gaps.iter().map(|it| clock.between(it.0, it.1)).sum();
            assert!(lost <= clock.between(first, last), "{lost}");
            let ordered = readings.gaps.windows(2).all(|it| it[0].1 <= it[1].0);
            assert!(ordered && readings.gaps.iter().all(|it| it.0 < it.1));
        })
        .unwrap();
    }

    #[test]
    fn a_window_is_told_in_nanoseconds_since_its_begin_with_the_time_that_it_was_late() {
        let (cpu, replicate, after) = (corehop_plan::units::Cpu(3), 2, Nanos::from_millis(1));
        let (window, threshold) = (Nanos::from_micros(10), Nanos::from_micros(1));
        let planned = PlannedWindow { cpu, replicate, after };
        let plan = Watch { cpus: <_>::default(), window, threshold, windows: Vec::new() };
        // Two ticks are a nanosecond.
        let (clock, started) = (TickClock::of_rate(2.0), Instant::now());
        let gaps = vec![(3_000, 7_000), (20_000, 24_000)];
        let readings = Readings { threshold: 2_000, reading: 20, gaps, short: 101 };
        let policy = best_policy(Err("not asked for".to_owned())).0;
        let watcher = Watcher { plan: &plan, clock, started, policy, readings };
        let punctual = watcher.record(&planned, 77, (1_000, 1_000, 24_000));
        assert_eq!(punctual.gaps, [(1_000, 2_000), (9_500, 2_000)]);
        let SupplyRecord { watched_ns, asked_ns, short_ns, cut, start_ns, .. } = punctual;
        assert_eq!(
            (watched_ns, asked_ns, short_ns, cut, start_ns),
            (11_500, 10_000, 51, false, 77)
        );
        assert_eq!(
            (punctual.cpu, punctual.replicate, punctual.policy),
            (cpu, 2, policy.to_string())
        );
        let late = watcher.record(&planned, 77, (1_000, 2_000, 20_900));
        assert_eq!((late.cut, late.gaps[0], late.gaps.len()), (true, (0, 500), 3));
        assert_eq!(late.watched_ns, 10_000, "a rounding does not make it shorter than planned");
    }

    #[test]
    fn a_threshold_below_the_distance_of_readings_is_refused() {
        assert!(Readings::new(1).is_err_and(|why| why.contains("--threshold")));
    }
}
