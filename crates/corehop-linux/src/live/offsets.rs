// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offsets between the CPUs' time-stamp counters, with an error bound.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use corehop_plan::units::{Cpu, CpuList};
use serde_json::{Value, json};

use corehop_system::clock::{TickClock, now};
use corehop_system::thread::set_affinity;

/// The number of round trips per pair, of which the fastest counts.
const ROUNDS: u64 = 2_000;

/// The offset of each CPU's counter to the first CPU's counter, in nanoseconds, and the bound of its error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offsets {
    of: BTreeMap<Cpu, (f64, f64)>,
}

impl Offsets {
    /// Measures the offsets by ping-pong between the first of `cpus` and each other CPU (Cristian 1989). The other
    /// CPU's stamp lies between two stamps of the first CPU, so half the fastest round trip bounds the offset.
    pub(crate) fn measure(cpus: &CpuList, clock: &TickClock) -> io::Result<Self> {
        let mut of = BTreeMap::new();
        let Some(reference) = cpus.first() else { return Ok(Self::default()) };
        of.insert(reference, (0.0, 0.0));
        for cpu in cpus.iter().filter(|&cpu| cpu != reference) {
            let (offset, width) = ping_pong(reference, cpu)?;
            of.insert(cpu, (offset / clock.hertz() * 1e9, clock.nanos(width) / 2.0));
        }
        Ok(Self { of })
    }

    /// The time from a stamp of `from` to a stamp of `to`, in nanoseconds, with its bound.
    pub(crate) fn between(
        &self,
        clock: &TickClock,
        (from, left): (Cpu, u64),
        (to, arrived): (Cpu, u64),
    ) -> (f64, f64) {
        let raw = clock.between(left, arrived);
        if from == to {
            return (raw, 0.0);
        }
        let ((from_offset, from_bound), (to_offset, to_bound)) = (self.ahead(from), self.ahead(to));
        (raw - to_offset + from_offset, from_bound + to_bound)
    }

    /// By how much the counter of `cpu` is ahead of the first CPU's counter, in nanoseconds, and
    /// the bound.
    pub(crate) fn ahead(&self, cpu: Cpu) -> (f64, f64) {
        self.of.get(&cpu).copied().unwrap_or_default()
    }

    pub(crate) fn describe(&self) -> Value {
        let row = |(cpu, (offset, bound)): (&Cpu, &(f64, f64))| json!({"cpu": cpu.0, "offset_ns": offset, "bound_ns": bound});
        self.of.iter().map(row).collect()
    }
}

/// The other CPU's counter minus this CPU's, and the width of the fastest round trip, in ticks.
fn ping_pong(here: Cpu, there: Cpu) -> io::Result<(f64, u64)> {
    let (ball, stamp) = (AtomicU64::new(0), AtomicU64::new(0));
    // Odd: the other side's turn. The last value ends it, also where one side could not be pinned.
    let end = 2 * ROUNDS + 1;
    let wait = |turn: u64| loop {
        let value = ball.load(Ordering::Acquire);
        if value == turn || value == end {
            break value;
        }
        std::hint::spin_loop();
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || {
            let pinned = set_affinity([there]);
            for round in 0..ROUNDS {
                if pinned.is_err() || wait(2 * round + 1) == end {
                    break;
                }
                stamp.store(now(), Ordering::Relaxed);
                ball.store(2 * round + 2, Ordering::Release);
            }
            if pinned.is_err() {
                ball.store(end, Ordering::Release);
            }
            pinned
        })?;
        let ours = std::thread::Builder::new().spawn_scoped(scope, || {
            let pinned = set_affinity([here]);
            let mut best = (0.0, u64::MAX);
            for round in 0..ROUNDS {
                let before = now();
                if pinned.is_err()
                    || ball
                        .compare_exchange(
                            2 * round,
                            2 * round + 1,
                            Ordering::AcqRel,
                            Ordering::Relaxed,
                        )
                        .is_err()
                {
                    break;
                }
                if wait(2 * round + 2) == end {
                    break;
                }
                let after = now();
                if after - before < best.1 {
                    let middle = before + (after - before) / 2;
                    best = (
                        stamp.load(Ordering::Relaxed).wrapping_sub(middle).cast_signed() as f64,
                        after - before,
                    );
                }
            }
            ball.store(end, Ordering::Release);
            pinned.map(|()| best)
        });
        // Without this thread the other one would wait for its turn without end.
        let ours = ours.inspect_err(|_| ball.store(end, Ordering::Release))?;
        let panicked = || io::Error::other("a thread that measures clock offsets panicked");
        let best = ours.join().map_err(|_| panicked())?;
        other.join().map_err(|_| panicked())??;
        best
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_offset_is_corrected_for_and_its_bound_kept() {
        let offsets =
            Offsets { of: BTreeMap::from([(Cpu(0), (0.0, 0.0)), (Cpu(1), (100.0, 30.0))]) };
        let clock = TickClock::of_rate(1.0);
        assert_eq!(offsets.between(&clock, (Cpu(0), 1_000), (Cpu(1), 2_100)), (1_000.0, 30.0));
        assert_eq!(offsets.between(&clock, (Cpu(1), 2_100), (Cpu(0), 3_000)), (1_000.0, 30.0));
        assert_eq!(offsets.between(&clock, (Cpu(1), 10), (Cpu(1), 30)), (20.0, 0.0));
    }

    #[test]
    fn between_two_cpus_that_are_both_off_the_offsets_are_taken_from_each_other_and_the_bounds_add_up()
     {
        let of = [(0, (0.0, 0.0)), (1, (100.0, 30.0)), (2, (-40.0, 5.0))];
        let offsets = Offsets { of: of.map(|(cpu, it)| (Cpu(cpu), it)).into() };
        let clock = TickClock::of_rate(2.0);
        // 2,000 ticks are 1,000 ns, of which the counters of the CPUs differ by 140.
        assert_eq!(offsets.between(&clock, (Cpu(1), 0), (Cpu(2), 2_000)), (1_140.0, 35.0));
        assert_eq!(offsets.between(&clock, (Cpu(2), 0), (Cpu(1), 2_000)), (860.0, 35.0));
        assert_eq!((offsets.ahead(Cpu(2)), offsets.ahead(Cpu(7))), ((-40.0, 5.0), (0.0, 0.0)));
        let told = offsets.describe();
        let expected = json!({"cpu": 2, "offset_ns": -40.0, "bound_ns": 5.0});
        assert_eq!((&told[2], told.as_array().map(Vec::len)), (&expected, Some(3)));
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn the_counters_of_two_cpus_are_compared_within_a_bound() {
        let cpus = corehop_system::thread::affinity().unwrap();
        if cpus.len() < 2 {
            return eprintln!("skipped: only one CPU");
        }
        let clock = TickClock::calibrate(Duration::from_millis(5));
        let offsets = Offsets::measure(&cpus, &clock).unwrap();
        assert!(
            offsets.of.len() == cpus.len()
                && offsets.of.values().skip(1).all(|&(_, bound)| bound > 0.0)
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_ends_the_game_with_an_error() {
        let clock = TickClock::of_rate(1.0);
        for cpus in [[Cpu(0), Cpu(900)], [Cpu(900), Cpu(901)]] {
            assert!(Offsets::measure(&CpuList::new(cpus), &clock).is_err());
        }
    }
}
