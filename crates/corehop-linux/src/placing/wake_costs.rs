// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of waking a thread on one CPU and on two: two threads hand a byte to and fro through pipes.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corehop_core::platform::{Affinity, Platform};
use corehop_core::units::Cpu;

use crate::thread::{Policy, set_affinity, set_policy};

/// Times from a wake-up until the other thread has answered with one, halved, in nanoseconds; None where the host has no
/// such pair of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeTimes {
    /// On one CPU.
    pub same_cpu_ns: f64,
    /// On two CPUs with a cache in common.
    pub shared_cache_ns: Option<f64>,
    /// On two CPUs without.
    pub separate_ns: Option<f64>,
}

/// Batches at most, of which the lower quartile counts: programs that run meanwhile make some of them longer.
const BATCHES: usize = 45;
/// Round trips in a batch.
const TRIPS: u32 = 10;
/// The time after which there are no further batches.
const MOST: Duration = Duration::from_millis(100);
/// The time after which threads that have not handed over are given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Beside a program that fills the CPUs, a hand-over would wait for the slices of others.
const URGENT: Policy = Policy::Other(-20);

/// Measures them, for some tens of milliseconds. Without CAP_SYS_NICE, threads of others may be in the way.
///
/// # Errors
/// If threads or pipes cannot be had.
pub fn wake_times(platform: &Platform) -> io::Result<WakeTimes> {
    let cpus = platform.usable();
    let pair = |affinities: &[Affinity]| affinities.iter().find_map(|&it| platform.pair(&cpus, it));
    let times = |pair: Option<(Cpu, Cpu)>| pair.map(|(a, b)| hand_over(a, b)).transpose();
    let first = cpus.first().ok_or_else(|| io::Error::other("no usable CPU"))?;
    Ok(WakeTimes {
        same_cpu_ns: hand_over(first, first)?,
        shared_cache_ns: times(pair(&[Affinity::L3, Affinity::L2, Affinity::Smt]))?,
        separate_ns: times(pair(&[Affinity::Memory]))?,
    })
}

/// The time of one hand-over between threads on these CPUs. Threads that get no CPU are not waited for: their ends of the pipes are
/// closed when they run.
fn hand_over(a: Cpu, b: Cpu) -> io::Result<f64> {
    let ((here, to_here), (there, to_there)) = (pipe()?, pipe()?);
    let (tell, told) = mpsc::channel();
    let start = std::thread::Builder::new;
    // A thread that does not start drops its ends of the pipes, so that the other thread ends.
    start().spawn(move || echo(b, there, to_here))?;
    start().spawn(move || tell.send(batches(a, here, to_there)))?;
    told.recv_timeout(PATIENCE).map_err(|_| {
        io::Error::other(format!(
            "threads on CPU {} and CPU {} have handed nothing over within {} s",
            a.0,
            b.0,
            PATIENCE.as_secs()
        ))
    })?
}

/// The lower quartile of the times of a hand-over, in nanoseconds.
fn batches(cpu: Cpu, mut here: PipeReader, mut to_there: PipeWriter) -> io::Result<f64> {
    begin_on(cpu)?;
    let (mut times, mut byte) = (Vec::new(), [0]);
    let begun = Instant::now();
    while times.len() < BATCHES && (times.is_empty() || begun.elapsed() < MOST) {
        let begin = Instant::now();
        for _ in 0..TRIPS {
            to_there.write_all(&byte)?;
            here.read_exact(&mut byte)?;
        }
        times.push(begin.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 4])
}

/// Answers each byte until the other side is closed.
fn echo(cpu: Cpu, mut from: PipeReader, mut to: PipeWriter) -> io::Result<()> {
    begin_on(cpu)?;
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        to.write_all(&byte)?;
    }
    Ok(())
}

fn begin_on(cpu: Cpu) -> io::Result<()> {
    // What it may not have, it does without.
    let _plain = set_policy(URGENT);
    set_affinity([cpu])
}
