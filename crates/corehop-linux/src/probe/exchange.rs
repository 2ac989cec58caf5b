// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the transfer time of a cache line from one CPU to another.
//!
//! Two pinned threads write a line in turn, each waiting for the other thread's value. The measuring thread touches
//! the page first, so that the line's home is its own node. The measuring thread uses many lines, so that no single
//! slice of the cache dominates. Half a round trip is the one-way time: a transfer, and the store that caused the
//! transfer. In the control, one thread plays both sides on one CPU, which gives the time of the protocol itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corehop_plan::platform::observed::Exchange;
use corehop_plan::platform::{Latency, Platform};
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::Page;

use super::{ProbeError, joined, on_cpu, pin};
use crate::memory::{Mapping, MemoryError};
use corehop_system::clock::{TickClock, Ticks, now};

/// The number of lines, two lines apart so that prefetching a neighbour does not help.
const LINES: u64 = 16;
const APART: usize = 128;
/// The number of round trips per batch, which takes some microseconds and is short compared with a time slice.
pub(crate) const ROUNDS: u64 = 32;
/// The longest time for all pairs together, and the shortest and the longest time for one pair, in nanoseconds.
const ALL_PAIRS_NS: f64 = 8e9;
const PAIR_NS: [f64; 2] = [1.5e6, 100e6];
/// The largest number of batches of a pair; more would not change the median.
const BATCHES: u64 = 1_000;
/// The longest wait for a pair if the other thread does not get its CPU, as a multiple of the share of time that the
/// pair has.
const PATIENCE: f64 = 20.0;

/// Measures the exchanges of all pairs that are to be measured.
pub(super) fn all(
    platform: &Platform,
    clock: &TickClock,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Exchange>, ProbeError> {
    let pairs = platform.exchange_pairs();
    let share = (ALL_PAIRS_NS / pairs.len().max(1) as f64).clamp(PAIR_NS[0], PAIR_NS[1]);
    let mut exchanges = Vec::new();
    for (place, &(from, to)) in pairs.iter().enumerate() {
        progress(&format!("exchange of lines, pair {} of {}", place + 1, pairs.len()));
        let ticks = if from == to {
            on_cpu(from, || control(clock.ticks(share)))?
        } else {
            between(from, to, clock.ticks(share))?
        };
        // A CPU that is never free gives nothing; the others are still worth having.
        exchanges.extend(summary(from, to, ticks, clock));
    }
    Ok(exchanges)
}

/// The time for which a single pair exchanges lines, in ns.
const ONE_PAIR_NS: f64 = 5e6;

/// The shortest one-way time in ns of a line from one CPU to the other; `None` if the threads do not run
/// simultaneously, or on one CPU.
pub(super) fn one_way_ns(from: Cpu, to: Cpu, clock: &TickClock) -> Option<f64> {
    let ticks = (from != to).then(|| between(from, to, clock.ticks(ONE_PAIR_NS)).ok())??;
    match summary(from, to, ticks, clock)?.min {
        Latency::Picos(picos) => Some(picos as f64 / 1e3),
        Latency::MilliCycles(_) => None,
    }
}

/// The shortest and the median one-way time of the batches.
fn summary(from: Cpu, to: Cpu, mut batches: Vec<Ticks>, clock: &TickClock) -> Option<Exchange> {
    batches.sort_unstable();
    let one_way = |ticks: Ticks| {
        let picos = clock.nanos(ticks) / (2 * ROUNDS) as f64 * 1e3;
        Latency::Picos(picos.round() as u64)
    };
    Some(Exchange {
        from,
        to,
        min: one_way(*batches.first()?),
        median: one_way(batches[batches.len() / 2]),
        batches: batches.len() as u32,
    })
}

/// The lines that two threads exchange: new memory, first touched by the thread that allocates it.
#[derive(Debug)]
pub(crate) struct ExchangeLines(Mapping);

// SAFETY: the memory is reached through `Lines::of` alone, as atomics.
unsafe impl Sync for ExchangeLines {}

impl ExchangeLines {
    pub(crate) fn new() -> Result<Self, MemoryError> {
        Mapping::new(Bytes::new(LINES * APART as u64), Page::Base, None).map(Self)
    }

    /// The line that a batch uses.
    fn of(&self, batch: u64) -> &AtomicU64 {
        let address = self.0.address() as usize + (batch % LINES) as usize * APART;
        // SAFETY: the address is aligned and lies within the mapping, which outlives the borrow;
        // these words are used as atomics only.
        unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }
}

/// Measures batches in which one thread plays both sides of the exchange on one CPU.
fn control(share: Ticks) -> Result<Vec<Ticks>, ProbeError> {
    let lines = ExchangeLines::new()?;
    let mut batches = Vec::new();
    let end = now() + share;
    for batch in 0..BATCHES {
        let line = lines.of(batch);
        let began = now();
        for _ in 0..2 * ROUNDS {
            let value = line.load(Ordering::Acquire);
            line.store(value + 1, Ordering::Release);
        }
        batches.push(now() - began);
        if now() > end {
            break;
        }
    }
    Ok(batches)
}

/// The durations of the batches that `from` measures against `to`.
fn between(from: Cpu, to: Cpu, share: Ticks) -> Result<Vec<Ticks>, ProbeError> {
    on_cpu(from, || {
        let deadline = now() + (share as f64 * PATIENCE) as Ticks;
        let game = LinePingPong::new(ExchangeLines::new()?, BATCHES, deadline);
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || {
                let pinned = pin(to);
                if pinned.is_ok() {
                    game.answer(Ticks::MAX);
                }
                game.leave();
                pinned
            })?;
            let batches = game.serve(share);
            game.leave();
            joined(other).map(|()| batches)
        })
    })
}

/// The lines between two threads, and how their exchange ends.
#[derive(Debug)]
pub(crate) struct LinePingPong {
    lines: ExchangeLines,
    /// The largest number of batches.
    batches: u64,
    /// Whether one of the two threads has left, so that the other thread stops waiting.
    over: AtomicBool,
    deadline: Ticks,
}

impl LinePingPong {
    /// Creates an exchange that ends after `batches` batches, or at the stamp `deadline`.
    pub(crate) fn new(lines: ExchangeLines, batches: u64, deadline: Ticks) -> Self {
        Self { lines, batches, over: AtomicBool::new(false), deadline }
    }

    /// Ends the exchange for one thread.
    pub(crate) fn leave(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The line that a batch uses, and its initial value.
    fn line(&self, batch: u64) -> (&AtomicU64, u64) {
        (self.lines.of(batch), batch / LINES * 2 * ROUNDS)
    }

    /// Writes odd values and waits for even values; returns the durations of complete batches.
    pub(crate) fn serve(&self, share: Ticks) -> Vec<Ticks> {
        let mut batches = Vec::new();
        let mut end = None;
        for batch in 0..self.batches {
            let (line, base) = self.line(batch);
            let began = now();
            // The share counts from the first batch on: the other thread has to start first.
            if began > *end.get_or_insert(began + share) && batch > 1 {
                break;
            }
            if !(0..ROUNDS).all(|round| {
                line.store(base + 2 * round + 1, Ordering::Release);
                self.wait(line, base + 2 * round + 2, self.deadline)
            }) {
                break;
            }
            batches.push(now() - began);
        }
        batches
    }

    /// Waits for odd values and writes even values, until the stamp `latest`.
    pub(crate) fn answer(&self, latest: Ticks) {
        let latest = latest.min(self.deadline);
        for batch in 0..self.batches {
            let (line, base) = self.line(batch);
            for round in 0..ROUNDS {
                if !self.wait(line, base + 2 * round + 1, latest) {
                    return;
                }
                line.store(base + 2 * round + 2, Ordering::Release);
            }
        }
    }

    /// Waits for a value, up to the stamp `latest`. The loop has no pause instruction, because such an instruction
    /// takes longer than an exchange and makes a hypervisor take the CPU away.
    fn wait(&self, line: &AtomicU64, value: u64, latest: Ticks) -> bool {
        loop {
            for _ in 0..256 {
                if line.load(Ordering::Acquire) == value {
                    return true;
                }
            }
            if self.over.load(Ordering::Relaxed) || now() > latest {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_become_time_for_one_way_with_the_shortest_and_the_median() {
        let clock = TickClock::of_rate(2.0);
        let batch = |ns_one_way: u64| ns_one_way * 2 * 2 * ROUNDS;
        let exchange =
            summary(Cpu(0), Cpu(1), vec![batch(90), batch(50), batch(60)], &clock).unwrap();
        assert_eq!(
            (exchange.min, exchange.median),
            (Latency::Picos(50_000), Latency::Picos(60_000))
        );
        assert_eq!(summary(Cpu(0), Cpu(1), Vec::new(), &clock), None);
    }

    #[test]
    fn a_line_takes_longer_to_another_cpu_than_from_a_cpu_to_itself() {
        let cpus = corehop_system::thread::affinity().unwrap();
        let [Some(from), Some(to)] = [cpus.first(), cpus.iter().nth(1)] else {
            #[expect(clippy::print_stderr, reason = "a skip must be seen")]
            {
                eprintln!("skipped: only one CPU is usable");
            }
            return;
        };
        let clock = TickClock::calibrate(std::time::Duration::from_millis(20));
        let share = clock.ticks(100e6);
        let shortest = |batches: Vec<Ticks>| batches.into_iter().min().unwrap();
        let alone = shortest(on_cpu(from, || control(share)).unwrap());
        let across = shortest(between(from, to, share).unwrap());
        assert!(across > alone, "{across} {alone}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_named_and_no_thread_waits_for_it() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let error = between(cpu, Cpu(1000), 1_000_000).unwrap_err();
        assert!(matches!(error, ProbeError::Pin { cpu: Cpu(1000), .. }), "{error}");
    }
}
