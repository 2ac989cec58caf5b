// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a scheduling overhead, and its row.

use crate::kinds::RowTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kinds::{Overhead, OverheadTime, Vantage};
use crate::platform::Platform;
use crate::units::Cpu;

/// Some times of one overhead.
#[derive(Debug, Clone, PartialEq)]
pub struct OverheadRecord {
    /// The overhead.
    pub overhead: Overhead,
    /// The vantage point.
    pub vantage: Vantage,
    /// The number of tasks meanwhile.
    pub tasks: u32,
    /// The CPUs of an interrupt: sender and receiver.
    pub between: Option<(Cpu, Cpu)>,
    /// The replicate; None where nothing was begun anew.
    pub replicate: Option<u32>,
    /// The times, in nanoseconds.
    pub ns: Vec<f64>,
}

impl OverheadRecord {
    /// Its rows: one for each time.
    pub(super) fn rows<'a>(
        &'a self,
        platform: &Platform,
        seed: u64,
    ) -> impl Iterator<Item = OverheadTime> + use<'a> {
        let machine: crate::kinds::Text = platform.id.as_str().into();
        self.ns.iter().map(move |&ns| OverheadTime {
            machine: machine.clone(),
            seed,
            overhead: self.overhead,
            vantage: self.vantage,
            task_count: u64::from(self.tasks),
            from_cpu: self.between.map(|(from, _)| u64::from(from.0)),
            to_cpu: self.between.map(|(_, to)| u64::from(to.0)),
            ns,
            replicate: self.replicate.map(u64::from),
        })
    }
}

/// The facts of a measurement of overheads, apart from its rows. They are part of the provenance, under
/// [`OverheadFacts::KEY`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OverheadFacts {
    /// The overheads that were not measured, with the reason.
    pub missing: Vec<String>,
    /// The observation of the kernel, if it was possible.
    pub recording: Option<KernelObservation>,
    /// The cost of the control page.
    pub control_page: Option<ControlPageCost>,
    /// The reason why there is no control page.
    pub no_control_page: Option<String>,
}

impl OverheadFacts {
    /// The number of tasks up to which times from threads alone are taken to hold: as many as 001 runs.
    const FROM_THREADS: u32 = 250;

    /// The number of tasks to extend the table of overheads to; None if task sets were measured.
    pub fn table_to(&self) -> Option<u32> {
        self.recording.is_none().then_some(Self::FROM_THREADS)
    }

    /// The key of these facts in the provenance.
    pub const KEY: &'static str = "overheads";

    /// The facts in the provenance of a file or a run.
    pub fn of(machine: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(machine.get(Self::KEY)?.clone()).ok()
    }
}

/// The cost and the certainty of observing the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KernelObservation {
    /// The median time to record one event, in nanoseconds. The measured times exclude it.
    pub noting_ns: f64,
    /// The median time to enter and leave the recording program, in nanoseconds. Each measured time
    /// contains it once, and once more for each event within. None if it was not measured.
    pub residual_ns: Option<f64>,
    /// The largest offset between the clocks of two CPUs, in nanoseconds.
    pub clock_bound_ns: f64,
    /// The recorded events.
    pub events: usize,
    /// Events lost for lack of room, or because the same program was running.
    pub lost: u64,
    /// Begins without ends, and ends without begins.
    pub unmatched: u64,
}

/// The cost of the control page: the time of a context switch, the minimum of several interleaved
/// repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ControlPageCost {
    /// Without any program, in nanoseconds.
    pub none_ns: f64,
    /// With the programs, for threads that are not registered, in nanoseconds.
    pub unregistered_ns: f64,
    /// With the programs, for registered threads, in nanoseconds.
    pub registered_ns: f64,
    /// The run time of the programs per switch of registered threads, by the kernel's account (with two
    /// clock readings), in nanoseconds; None if the kernel does not account for it.
    pub program_ns: Option<f64>,
    /// The number of repetitions of each kind.
    pub goes: u32,
}

impl ControlPageCost {
    /// The time of a switch with the programs relative to that without: for unregistered and for
    /// registered threads.
    pub fn ratios(&self) -> (f64, f64) {
        (self.unregistered_ns / self.none_ns, self.registered_ns / self.none_ns)
    }
}

impl OverheadTime {
    /// The time, for comparisons.
    pub(super) fn time(&self) -> RowTime {
        let in_kernel = self.vantage == Vantage::Kernel;
        let from = if in_kernel { "in the kernel" } else { "from threads" };
        // The kernel interrupts whichever CPU a task set makes it interrupt: a pair is seen in some of the sets.
        let cpus = self.from_cpu.zip(self.to_cpu).filter(|_| !in_kernel);
        let cpus = cpus.map_or_else(String::new, |(from, to)| format!(" {from}:{to}"));
        RowTime {
            experiment: "overheads",
            group: format!("overheads {from}, {} tasks", self.task_count),
            place: 0,
            name: format!("{}{cpus}", self.overhead.word().replace('_', " ")),
            replicate: self.replicate.unwrap_or_default(),
            ns: Ok(self.ns),
        }
    }
}
