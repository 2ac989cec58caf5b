// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of the kernel: the inputs of overhead-aware analysis.
//!
//! Measured in the kernel, between its own tracepoints (`kernel`), and from threads, which needs no
//! rights but says less (`threads`).

mod kernel;
mod streams;
mod threads;

use std::io;

use corehop_core::experiment::Tasks;
use corehop_core::machine::MachineError;
use corehop_core::units::{Cpu, CpuList};

use crate::bpf::BpfError;
use crate::live::LiveMachine;

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A scheduling decision. From threads: a sched_yield(2) that changes nothing, a system call's entry
    /// and exit in it.
    Scheduling,
    /// A switch to another thread. From threads: what a sched_yield(2) takes longer, per switch.
    Switch,
    /// The tick, its interrupt and the softirqs that it raised. From threads: holes in a computing
    /// thread's time that one timer interrupt and nothing else came in.
    Tick,
    /// Handling the timer that releases a job, with its interrupt. Not available from threads.
    Release,
    /// From when that timer was due to the begin of its interrupt. Not available from threads.
    EventLatency,
    /// From threads, in place of the two: from the end of a sleep to the thread running.
    WakeUp,
    /// From sending an interrupt to its begin on the other CPU. Not available from threads.
    OneWay(Cpu, Cpu),
    /// From threads, in place of that: from asking another CPU to run something (membarrier(2)) to its
    /// being done.
    RoundTrip(Cpu, Cpu),
}

/// How something was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Between the kernel's tracepoints.
    Kernel,
    /// From threads.
    Threads,
}

impl Way {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Threads => "threads",
        }
    }
}

/// Times of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What they are.
    pub what: What,
    /// How they were measured.
    pub way: Way,
    /// Of how many tasks.
    pub tasks: u32,
    /// In nanoseconds, as they were measured.
    pub ns: Vec<f64>,
}

/// What measuring in the kernel takes itself, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Recording {
    /// Noting one event down, in nanoseconds, the median: in none of the times.
    pub noting_ns: f64,
    /// Getting to the program that does and away from it, the median: in each of the times, once, and once
    /// more for each event within; none where it could not be measured.
    pub residual_ns: Option<f64>,
    /// How far the clocks of two CPUs may be apart.
    pub clock_bound_ns: f64,
    /// Events noted down.
    pub events: usize,
    /// Events that found no room, or came while the same program ran.
    pub lost: u64,
    /// Begins without ends and ends without begins.
    pub unmatched: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Overheads {
    /// The times; none is empty.
    pub series: Vec<Series>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// Of measuring in the kernel, where that was possible.
    pub recording: Option<Recording>,
}

/// Task sets to measure under.
#[derive(Debug)]
pub struct Sets<'a> {
    /// What runs them; its programs beside ours would be in the times, so nobody should watch the jobs.
    pub machine: &'a mut LiveMachine,
    /// The sets, by their numbers of tasks.
    pub tasks: &'a Tasks,
    /// The seed of their draws.
    pub seed: u64,
    /// Asked now and then whether to go on.
    pub go_on: fn() -> bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum OverheadsError {
    /// A thread that measures could not be pinned or started.
    #[error("a measuring thread: {0}")]
    Threads(#[from] io::Error),
    /// A task set does not run.
    #[error(transparent)]
    Sets(#[from] MachineError),
    /// The kernel does not run corehop's programs.
    #[error(transparent)]
    NoBpf(#[from] BpfError),
}

/// Measures all of it on `cpus`, in both ways or, without `in_kernel`, from threads alone: below five
/// seconds, and a fifth for each pair. In the kernel it is measured while the sets run, where there are
/// some, and otherwise while two threads do what there is to be measured.
///
/// # Errors
/// Where a thread cannot be pinned to one of them, or a task set does not run.
pub fn overheads(
    cpus: &CpuList,
    in_kernel: bool,
    sets: Option<Sets<'_>>,
) -> Result<Overheads, OverheadsError> {
    let mut missing = Vec::new();
    let (mut series, mut recording) = (Vec::new(), None);
    if in_kernel {
        match kernel::measure(cpus, sets, &mut missing) {
            Ok((found, how)) => (series, recording) = (found, Some(how)),
            Err(OverheadsError::NoBpf(error)) => {
                missing.push(format!("in the kernel, and by the number of tasks: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    series.extend(threads::measure(cpus, &mut missing)?);
    series.retain(|it| !it.ns.is_empty());
    Ok(Overheads { series, missing, recording })
}
