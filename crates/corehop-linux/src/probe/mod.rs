// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the machine itself: transfer times of lines between CPUs, latencies within a CPU, and interference
//! between CPUs.
//!
//! The probes run under `SCHED_OTHER` in separate threads (except the thread that answers while CPUs are observed).
//! The probes are bounded in time and memory, and change nothing permanently. The probes do not measure jobs: no
//! value is certified, and each value is the shortest or the median of many.

mod contention;
mod controller;
mod curve;
pub(crate) mod exchange;
mod parked;
pub(crate) mod partners;
mod wake;
pub(crate) mod waking;
mod watch;

use std::io;
use std::time::Duration;

use corehop_plan::platform::observed::PlatformObservations;
use corehop_plan::platform::{Hertz, Platform};
use corehop_plan::units::Cpu;

use crate::memory::MemoryError;
use corehop_system::clock::TickClock;
use corehop_system::thread::{SchedulingPolicy, set_affinity, set_policy};
pub use waking::wake_batches;
pub use watch::watch;

/// The reason why a machine could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A thread could not be pinned to a CPU.
    #[error(
        "no thread can be put on {cpu} ({error}): it went offline, or the cpuset changed; look \
         with `corehop sim platform`"
    )]
    Pin {
        /// The CPU that was requested.
        cpu: Cpu,
        /// The system's error.
        error: io::Error,
    },
    /// There was too little memory for a list.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A thread could not be started.
    #[error("corehop cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Measures the machine that `platform` describes, which must be this host. The measurement takes from some seconds
/// to half a minute. `progress` receives the current step.
///
/// # Errors
/// Fails if a usable CPU turns out to be unusable, or memory runs out.
pub fn observe(
    platform: &Platform,
    progress: &mut dyn FnMut(&str),
) -> Result<PlatformObservations, ProbeError> {
    progress("the clock");
    let clock = TickClock::calibrate(Duration::from_millis(50));
    let counter = Some(Hertz::new(clock.hertz().round() as u64));
    let exchanges = exchange::all(platform, &clock, progress)?;
    let contentions = contention::all(platform, progress)?;
    let mut curves = Vec::new();
    for cpu in platform.curve_cpus() {
        curves.push(curve::on(platform, cpu, &clock, progress)?);
    }
    let controller = controller::of(platform, &clock, progress)?;
    progress("system calls and wake-ups");
    let first = platform.usable().first();
    let system_call = first.map(|cpu| wake::system_call(cpu, &clock)).transpose()?;
    let futex_wake = wake::by_futex(platform, &clock)?;
    Ok(PlatformObservations {
        counter,
        curves,
        exchanges,
        contentions,
        controller,
        system_call,
        futex_wake,
    })
}

/// Pins the calling thread to `cpu`, with the highest priority that the user may set.
pub(crate) fn pin(cpu: Cpu) -> Result<(), ProbeError> {
    set_affinity([cpu]).map_err(|error| ProbeError::Pin { cpu, error })?;
    // Where this is refused, the thread is served as all others are.
    let _ = set_policy(SchedulingPolicy::Other(-20));
    Ok(())
}

/// Runs `work` in a new thread that is pinned to `cpu`.
fn on_cpu<T: Send>(
    cpu: Cpu,
    work: impl FnOnce() -> Result<T, ProbeError> + Send,
) -> Result<T, ProbeError> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new();
        let thread = builder.spawn_scoped(scope, || pin(cpu).and_then(|()| work()))?;
        joined(thread)
    })
}

/// The result of a thread; a panic of the thread is propagated.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
