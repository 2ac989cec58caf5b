// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel takes for scheduling, seen from threads: the inputs of overhead-aware analysis.
//!
//! Every quantity is the time that a thread misses, so each holds what it cannot be told apart from. No
//! thread is real-time, and none computes for longer than a few tens of milliseconds.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use corehop_core::units::{Cpu, CpuList};

use crate::bpf::interrupts::{Counter, InterruptCounters};
use crate::clock::{Clock, now, sleep_until};
use crate::thread::{punctual, set_affinity, usage};

/// Times in nanoseconds, as they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Overheads {
    /// A call of the scheduler that leaves the thread where it is (sched_yield(2) alone on its CPU, a
    /// system call's entry and exit in it).
    pub scheduling_ns: Vec<f64>,
    /// What it takes longer where it goes to another thread and back, per switch.
    pub switch_ns: Vec<f64>,
    /// From the time that a sleep was to end to the thread running again: timer interrupt, wake-up,
    /// scheduling and switch.
    pub release_ns: Vec<f64>,
    /// Holes in a computing thread's time that one timer interrupt and nothing else came in; none
    /// where interrupts cannot be counted.
    pub tick_ns: Vec<f64>,
    /// From asking another CPU to run something (membarrier(2)) to its being done, by pair: there and
    /// back.
    pub ipi_ns: Vec<((Cpu, Cpu), Vec<f64>)>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
}

const SLEEPS: u32 = 400;
const GOES: u32 = 400;
/// Yields in one go.
const YIELDS: u32 = 50;
const IPIS: u32 = 2_000;
const TICKS_FOR: Duration = Duration::from_millis(400);

/// Measures all of it on `cpus`: below two seconds and a tenth for each pair.
///
/// # Errors
/// Where a thread cannot be pinned to one of them.
pub fn overheads(cpus: &CpuList) -> io::Result<Overheads> {
    let clock = Clock::calibrate(Duration::from_millis(20));
    let Some(first) = cpus.first() else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let mut missing = Vec::new();
    let (scheduling_ns, switch_ns) = yields(first, &clock)?;
    let tick_ns = match InterruptCounters::open(cpus) {
        Ok(counters) => on(first, || ticks(first, &counters, &clock))?,
        Err(error) => {
            missing.push(format!("ticks: {error}"));
            vec![]
        }
    };
    let mut ipi_ns = Vec::new();
    for from in cpus.iter() {
        for to in cpus.iter().filter(|&to| to != from) {
            match ipis(from, to, &clock) {
                Ok(times) => ipi_ns.push(((from, to), times)),
                Err(error) => missing.push(format!("interrupts from {from} to {to}: {error}")),
            }
        }
    }
    if cpus.len() < 2 {
        missing.push("interrupts between CPUs: one CPU only".to_owned());
    }
    let release_ns = on(first, releases)?;
    Ok(Overheads { scheduling_ns, switch_ns, release_ns, tick_ns, ipi_ns, missing })
}

/// Runs on a thread of its own, on `cpu`.
fn on<T: Send>(cpu: Cpu, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(move || set_affinity([cpu]).map(|()| run()));
        pinned.join().unwrap_or_else(|_| Err(io::Error::other("a measuring thread died")))
    })
}

fn yield_now() {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::sched_yield() };
}

/// Per yield alone, and what a switch takes beyond that.
fn yields(cpu: Cpu, clock: &Clock) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let go = |yields: u32| {
        let begin = now();
        (0..yields).for_each(|_| yield_now());
        clock.nanos(now() - begin) / f64::from(yields)
    };
    let alone: Vec<f64> = on(cpu, || (0..GOES).map(|_| go(YIELDS)).collect())?;
    let best = alone.iter().copied().fold(f64::INFINITY, f64::min);
    let stop = AtomicBool::new(false);
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            set_affinity([cpu]).map(|()| {
                while !stop.load(Ordering::Relaxed) {
                    yield_now();
                }
            })
        });
        let times = on(cpu, || {
            let goes = (0..GOES).filter_map(|_| {
                let before = voluntary_or_not();
                let time = go(YIELDS);
                let switches = voluntary_or_not() - before;
                // Each of ours is one away and one back; a go in which somebody else ran for long, or
                // the other thread did not take its turns, says nothing of a switch.
                (switches >= u64::from(YIELDS) * 9 / 10)
                    .then(|| ((time * f64::from(YIELDS) / switches as f64) / 2.0 - best).max(0.0))
            });
            goes.collect::<Vec<f64>>()
        });
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap_or_else(|_| Err(io::Error::other("the other thread died")))?;
        times
    })?;
    Ok((alone, both))
}

/// How often the calling thread has left its CPU.
fn voluntary_or_not() -> u64 {
    crate::counters::software::ThreadCounts::read().switches()
}

/// How late a sleep of 200 µs ends.
fn releases() -> Vec<f64> {
    punctual();
    let late = |_| {
        let at = crate::clock::read(libc::CLOCK_MONOTONIC) + 200_000;
        sleep_until(at);
        (crate::clock::read(libc::CLOCK_MONOTONIC) - at) as f64
    };
    (0..SLEEPS).map(late).filter(|&late| late >= 0.0).collect()
}

/// Holes that one timer interrupt and nothing else made.
fn ticks(cpu: Cpu, counters: &InterruptCounters, clock: &Clock) -> Vec<f64> {
    let (threshold, end) = (clock.ticks(300.0), now() + clock.ticks(TICKS_FOR.as_nanos() as f64));
    let mut found = Vec::new();
    let (mut last, mut before, mut switches) = (now(), counters.read(cpu), usage().switches);
    while last < end {
        let stamp = now();
        if stamp - last > threshold {
            let counts = counters.read(cpu);
            let (added, switched) = (counts.minus(&before), usage().switches);
            if added.get(Counter::LocalTimer) == 1
                && added.interrupts() == 1
                && switched == switches
            {
                found.push(clock.nanos(stamp - last));
            }
            (before, switches) = (counters.read(cpu), switched);
            last = now();
        } else {
            last = stamp;
        }
    }
    found
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration.
const EXPEDITED: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A barrier on `from` while a thread of this process computes on `to`, less what one takes that
/// interrupts nobody.
fn ipis(from: Cpu, to: Cpu, clock: &Clock) -> io::Result<Vec<f64>> {
    membarrier(REGISTER)?;
    let barriers = |count: u32| -> io::Result<Vec<f64>> {
        (0..count)
            .map(|_| {
                let begin = now();
                membarrier(EXPEDITED)?;
                Ok(clock.nanos(now() - begin))
            })
            .collect()
    };
    let nobody = on(from, || barriers(200))??.into_iter().fold(f64::INFINITY, f64::min);
    let (ready, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let times = std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let pinned = set_affinity([to]);
            ready.store(1, Ordering::Release);
            while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
            pinned
        });
        let times = on(from, || {
            while ready.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            barriers(IPIS)
        });
        stop.store(true, Ordering::Relaxed);
        there.join().unwrap_or_else(|_| Err(io::Error::other("the other thread died")))?;
        times
    })??;
    // The other thread may be off its CPU at times: then nobody was interrupted.
    Ok(times.into_iter().map(|time| time - nobody).filter(|&time| time > 0.0).collect())
}
