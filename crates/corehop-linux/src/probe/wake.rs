// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the time of a futex wake-up from one CPU to another, and of the shortest system call.
//!
//! Two pinned threads wake each other in turn, and sleep in between. Half a round trip includes everything that a
//! wake-up takes: the call, the interrupt, the other CPU's idle-state exit, and the switch to the woken thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Thread, current, park_timeout};
use std::time::Duration;

use corehop_plan::platform::{Latency, Platform};
use corehop_plan::units::Cpu;

use super::{ProbeError, joined, on_cpu, pin};
use corehop_system::clock::{TickClock, Ticks, now};
use corehop_system::thread::current_tid;

/// The largest number of round trips, and the longest time for all of them.
const ROUNDS: usize = 400;
const ALL_NS: f64 = 200e6;
/// The time after which a thread that is not woken checks again, so that a CPU that others keep busy delays the probe
/// but does not stop it.
const PATIENCE: Duration = Duration::from_millis(50);
/// The number of system calls in a batch, and the number of batches.
const CALLS: u64 = 100;
const BATCHES: usize = 101;

/// The median time of `gettid`.
pub(super) fn system_call(cpu: Cpu, clock: &TickClock) -> Result<Latency, ProbeError> {
    on_cpu(cpu, || {
        let batch = |_| {
            let begun = now();
            for _ in 0..CALLS {
                std::hint::black_box(current_tid());
            }
            now() - begun
        };
        let ticks = median((0..BATCHES).map(batch).collect());
        Ok(latency(ticks, clock, CALLS as f64))
    })
}

/// Half of the median round trip between the first two usable CPUs; `None` if only one CPU is usable.
pub(super) fn by_futex(
    platform: &Platform,
    clock: &TickClock,
) -> Result<Option<(Latency, Cpu, Cpu)>, ProbeError> {
    let usable = platform.usable();
    let mut cpus = usable.iter();
    let (Some(from), Some(to)) = (cpus.next(), cpus.next()) else { return Ok(None) };
    let trips = on_cpu(from, || {
        let game = WakePingPong { theirs: AtomicBool::new(false), over: AtomicBool::new(false) };
        let asker = current();
        std::thread::scope(|scope| {
            let answerer = std::thread::Builder::new()
                .spawn_scoped(scope, || pin(to).map(|()| game.answer(&asker)))?;
            let trips = game.ask(answerer.thread(), now() + clock.ticks(ALL_NS));
            game.over.store(true, Ordering::Release);
            answerer.thread().unpark();
            joined(answerer).map(|()| trips)
        })
    })?;
    Ok((!trips.is_empty()).then(|| (latency(median(trips), clock, 2.0), from, to)))
}

fn median(mut ticks: Vec<Ticks>) -> Ticks {
    ticks.sort_unstable();
    ticks[ticks.len() / 2]
}

fn latency(ticks: Ticks, clock: &TickClock, parts: f64) -> Latency {
    Latency::Picos((clock.nanos(ticks) / parts * 1e3).round() as u64)
}

/// Two threads that wake each other in turn.
struct WakePingPong {
    /// Whether it is the answering thread's turn.
    theirs: AtomicBool,
    over: AtomicBool,
}

impl WakePingPong {
    /// Wakes the other thread and sleeps until the answer, up to the stamp `end`; returns the round trips.
    fn ask(&self, other: &Thread, end: Ticks) -> Vec<Ticks> {
        let mut trips = Vec::new();
        while trips.len() < ROUNDS {
            let begun = now();
            self.theirs.store(true, Ordering::Release);
            other.unpark();
            while self.theirs.load(Ordering::Acquire) {
                if now() > end {
                    return trips;
                }
                park_timeout(PATIENCE);
            }
            trips.push(now() - begun);
        }
        trips
    }

    /// Sleeps until it is this thread's turn, and wakes the other thread.
    fn answer(&self, other: &Thread) {
        while !self.over.load(Ordering::Acquire) {
            if self.theirs.swap(false, Ordering::AcqRel) {
                other.unpark();
            } else {
                park_timeout(PATIENCE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_takes_longer_than_a_system_call() {
        let usable = corehop_system::thread::affinity().unwrap();
        let clock = TickClock::calibrate(Duration::from_millis(5));
        let call = system_call(usable.first().unwrap(), &clock).unwrap();
        let Latency::Picos(call) = call else { panic!("{call:?}") };
        let platform =
            corehop_system::discover::discover(&corehop_system::discover::SysRoot::live()).unwrap();
        let Some((Latency::Picos(wake), from, to)) = by_futex(&platform, &clock).unwrap() else {
            return;
        };
        assert!(from != to && wake > call && call > 0, "{wake} {call}");
    }
}
