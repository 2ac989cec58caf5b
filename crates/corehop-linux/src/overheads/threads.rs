// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernel's scheduling overheads from threads.
//!
//! Every quantity is the time that a thread loses, so it includes everything that cannot be separated from it. No
//! thread is real-time, and none computes for longer than half a second.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use corehop_plan::samples::{Overhead, OverheadRecord, Vantage};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Cpu, CpuList};

use crate::bpf::interrupts::{InterruptCounter, InterruptCounters};
use corehop_system::clock::{TickClock, now, sleep_until};
use corehop_system::thread::{apart, punctual, set_affinity, usage};

const SLEEPS: u32 = 400;
const GOES: u32 = 400;
/// The number of yields in one pass.
const YIELDS: u32 = 50;
const IPIS: u32 = 2_000;
const TICKS_FOR: Duration = Duration::from_millis(400);

/// The number of threads that every measurement uses.
pub(super) const TASKS: u32 = 2;

/// The number of replicates. Each replicate measures everything with new threads, because a thread has random
/// properties from its start on.
const REPLICATES: u32 = 10;

/// Measures all quantities on `cpus` until `stop` is set; takes less than two seconds, plus a tenth for each pair.
/// Quantities that could not be measured are in `missing`, with the reason.
pub(super) fn measure(
    cpus: &CpuList,
    missing: &mut Vec<String>,
    stop: &Stop,
) -> io::Result<Vec<OverheadRecord>> {
    let clock = TickClock::calibrate(Duration::from_millis(20));
    let counters = InterruptCounters::open(cpus);
    let (mut found, mut lacking) = (Vec::new(), Vec::new());
    for replicate in 0..REPLICATES {
        let mut once = measure_once(cpus, (&clock, &counters), &mut lacking, stop)?;
        for record in &mut once {
            record.replicate = Some(replicate);
        }
        found.append(&mut once);
        if stop.is_asked() {
            break;
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    missing.extend(lacking.into_iter().filter(|it| seen.insert(it.clone())));
    Ok(found)
}

/// Measures all quantities once, with one replicate's share of the repetitions.
fn measure_once<E: std::fmt::Display>(
    cpus: &CpuList,
    (clock, counters): (&TickClock, &Result<InterruptCounters, E>),
    missing: &mut Vec<String>,
    stop: &Stop,
) -> io::Result<Vec<OverheadRecord>> {
    let first = first(cpus)?;
    let record = |overhead, ns| OverheadRecord {
        overhead,
        vantage: Vantage::Threads,
        tasks: TASKS,
        between: None,
        replicate: None,
        ns,
    };
    let (scheduling, switch) = yields(first, clock, GOES / REPLICATES)?;
    let mut found = vec![record(Overhead::Decision, scheduling), record(Overhead::Switch, switch)];
    match counters {
        Ok(counters) => {
            let times = on(first, || ticks(first, counters, clock, TICKS_FOR / REPLICATES))?;
            found.push(record(Overhead::Tick, times));
        }
        Err(error) => missing.push(format!("ticks: {error}")),
    }
    found.push(record(Overhead::WakeUp, on(first, || releases(SLEEPS / REPLICATES))?));
    for (from, to) in pairs(cpus).take_while(|_| !stop.is_asked()) {
        match ipis(from, to, clock, IPIS / REPLICATES) {
            Ok(times) => {
                let between = Some((from, to));
                found.push(OverheadRecord { between, ..record(Overhead::RoundTrip, times) });
            }
            Err(error) => missing.push(format!("interrupts from {from} to {to}: {error}")),
        }
    }
    if cpus.len() < 2 {
        missing.push("interrupts between CPUs: one CPU only".to_owned());
    }
    Ok(found)
}

/// Makes threads cause the events whose kernel times are measured: yield, alone and in turns, sleep, compute through
/// ticks, and interrupt each other.
pub(super) fn exercise(cpus: &CpuList, stop: &Stop) -> io::Result<()> {
    let clock = TickClock::calibrate(Duration::from_millis(20));
    let first = first(cpus)?;
    yields(first, &clock, GOES / 20)?;
    on(first, || releases(SLEEPS))?;
    on(first, || compute(TICKS_FOR))?;
    interrupt_each_other(cpus, stop);
    Ok(())
}

/// Makes threads on each pair of CPUs interrupt each other.
pub(super) fn interrupt_each_other(cpus: &CpuList, stop: &Stop) {
    let clock = TickClock::calibrate(Duration::from_millis(20));
    for (from, to) in pairs(cpus).take_while(|_| !stop.is_asked()) {
        // A kernel that cannot has no such interrupts to measure.
        let _without = ipis(from, to, &clock, IPIS / 4);
    }
}

/// Sleeps often and briefly on `cpu`.
pub(super) fn sleep_often(cpu: Cpu) {
    let _any_cpu_will_do = on(cpu, || releases(SLEEPS));
}

fn first(cpus: &CpuList) -> io::Result<Cpu> {
    cpus.first().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Every pair of different CPUs, in both directions.
fn pairs(cpus: &CpuList) -> impl Iterator<Item = (Cpu, Cpu)> + '_ {
    cpus.iter().flat_map(|from| cpus.iter().filter(move |&to| to != from).map(move |to| (from, to)))
}

fn compute(time: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < time {
        spin_loop();
    }
}

/// Runs `run` in a new thread on `cpu`.
fn on<T: Send>(cpu: Cpu, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    apart(move || set_affinity([cpu]).map(|()| run()))?
}

fn yield_now() {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::sched_yield() };
}

/// The time per yield alone, and the additional time of a switch.
fn yields(cpu: Cpu, clock: &TickClock, goes: u32) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let go = |yields: u32| {
        let begin = now();
        (0..yields).for_each(|_| yield_now());
        clock.nanos(now() - begin) / f64::from(yields)
    };
    let alone: Vec<f64> = on(cpu, || (0..goes).map(|_| go(YIELDS)).collect())?;
    let best = alone.iter().copied().fold(f64::INFINITY, f64::min);
    let stop = AtomicBool::new(false);
    let both = std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || {
            set_affinity([cpu]).map(|()| {
                while !stop.load(Ordering::Relaxed) {
                    yield_now();
                }
            })
        })?;
        let times = on(cpu, || {
            let times = (0..goes).filter_map(|_| {
                let before = voluntary_or_not();
                let time = go(YIELDS);
                let switches = voluntary_or_not() - before;
                // Each hand-over is one away and one back; a go in which another thread ran for long, or
                // the other thread did not take its turns, says nothing of a switch.
                (switches >= u64::from(YIELDS) * 9 / 10)
                    .then(|| ((time * f64::from(YIELDS) / switches as f64) / 2.0 - best).max(0.0))
            });
            times.collect::<Vec<f64>>()
        });
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap_or_else(|_| Err(io::Error::other("the other thread died")))?;
        times
    })?;
    Ok((alone, both))
}

/// The number of times that the calling thread has left its CPU.
fn voluntary_or_not() -> u64 {
    crate::counters::software::ThreadCounts::read().switches()
}

/// The delays with which sleeps of 200 µs end.
fn releases(sleeps: u32) -> Vec<f64> {
    punctual();
    let late = |_| {
        let at = corehop_system::clock::read(libc::CLOCK_MONOTONIC) + 200_000;
        sleep_until(at);
        (corehop_system::clock::read(libc::CLOCK_MONOTONIC) - at) as f64
    };
    (0..sleeps).map(late).filter(|&late| late >= 0.0).collect()
}

/// The lengths of holes that a single timer interrupt caused.
fn ticks(cpu: Cpu, counters: &InterruptCounters, clock: &TickClock, during: Duration) -> Vec<f64> {
    let (threshold, end) = (clock.ticks(300.0), now() + clock.ticks(during.as_nanos() as f64));
    let mut found = Vec::new();
    let (mut last, mut before, mut switches) = (now(), counters.read(cpu), usage().switches);
    while last < end {
        let stamp = now();
        if stamp - last > threshold {
            let counts = counters.read(cpu);
            let (added, switched) = (counts.minus(&before), usage().switches);
            if added.get(InterruptCounter::LocalTimer) == 1
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

/// The command `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration.
const EXPEDITED: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The time of a barrier on `from` while a thread of this process computes on `to`, minus the time of a barrier that
/// interrupts no CPU.
fn ipis(from: Cpu, to: Cpu, clock: &TickClock, count: u32) -> io::Result<Vec<f64>> {
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
    let alone = on(from, || barriers(200))??.into_iter().fold(f64::INFINITY, f64::min);
    let (ready, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let times = std::thread::scope(|scope| {
        let there = std::thread::Builder::new().spawn_scoped(scope, || {
            let pinned = set_affinity([to]);
            ready.store(1, Ordering::Release);
            while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
            pinned
        })?;
        let times = on(from, || {
            while ready.load(Ordering::Acquire) == 0 {
                yield_now();
            }
            barriers(count)
        });
        stop.store(true, Ordering::Relaxed);
        there.join().unwrap_or_else(|_| Err(io::Error::other("the other thread died")))?;
        times
    })??;
    // The other thread may be off its CPU at times: then no CPU was interrupted.
    Ok(times.into_iter().map(|time| time - alone).filter(|&time| time > 0.0).collect())
}
