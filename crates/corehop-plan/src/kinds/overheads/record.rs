// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a scheduling overhead, and the conversion to rows.

use crate::kinds::RowTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kinds::{Overhead, OverheadTime, Vantage};
use crate::platform::Platform;
use crate::units::Cpu;

/// A record of several times of one overhead.
#[derive(Debug, Clone, PartialEq)]
pub struct OverheadRecord {
    /// The scheduling overhead that was measured.
    pub overhead: Overhead,
    /// The vantage point of the measurement.
    pub vantage: Vantage,
    /// The number of tasks during the measurement.
    pub tasks: u32,
    /// The sender and the receiver of an interrupt between CPUs.
    pub between: Option<(Cpu, Cpu)>,
    /// The replicate of the measurement, or `None` if no part of the measurement was started anew.
    pub replicate: Option<u32>,
    /// The times that corehop measured for the overhead, in nanoseconds.
    pub ns: Vec<f64>,
}

impl OverheadRecord {
    /// Returns the rows of the record, one for each time.
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

/// The facts of a measurement of overheads, apart from its rows. The provenance of a result has the
/// facts about overheads under [`OverheadFacts::KEY`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OverheadFacts {
    /// The overheads that corehop did not measure, each with the reason.
    pub missing: Vec<String>,
    /// The cost of observing the kernel, or `None` if the kernel could not be observed.
    pub recording: Option<KernelObservation>,
    /// The cost of the control page, or `None` if there is no control page.
    pub control_page: Option<ControlPageCost>,
    /// The reason why there is no control page.
    pub no_control_page: Option<String>,
}

impl OverheadFacts {
    /// The largest number of tasks for which times measured from threads alone are assumed to hold,
    /// which is also the largest number of tasks in Bastoni et al.
    const FROM_THREADS: u32 = 250;

    /// Returns the number of tasks to which the table of overheads is extended, or `None` if overheads
    /// were measured with task sets.
    pub fn table_to(&self) -> Option<u32> {
        self.recording.is_none().then_some(Self::FROM_THREADS)
    }

    /// The key of the facts about overheads in the provenance.
    pub const KEY: &'static str = "overheads";

    /// Returns the facts about overheads in the provenance of a file or a run.
    pub fn of(machine: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(machine.get(Self::KEY)?.clone()).ok()
    }
}

/// The cost of observing the kernel, and the errors of the observed times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KernelObservation {
    /// The median time that corehop needs to record one event, in nanoseconds. The measured times
    /// exclude this recording time.
    pub noting_ns: f64,
    /// The median time to enter and leave the recording program, in nanoseconds. Every measured time
    /// contains the residual once, plus once for each event within the measured time. The field is
    /// `None` if corehop did not measure the residual.
    pub residual_ns: Option<f64>,
    /// The largest offset between the clocks of two CPUs, in nanoseconds.
    pub clock_bound_ns: f64,
    /// The number of kernel events that corehop recorded.
    pub events: usize,
    /// The number of events lost because the buffer was full or the recording program was already
    /// running.
    pub lost: u64,
    /// The number of kernel events without a counterpart: starts without an end, and ends without a start.
    pub unmatched: u64,
}

/// The cost of the control page: the time of a context switch, as the minimum of several interleaved
/// repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ControlPageCost {
    /// The switch time without BPF programs, in nanoseconds.
    pub none_ns: f64,
    /// The switch time of unregistered threads with the BPF programs, in nanoseconds.
    pub unregistered_ns: f64,
    /// The switch time of registered threads with the BPF programs, in nanoseconds.
    pub registered_ns: f64,
    /// The run time of the BPF programs per switch of registered threads, in nanoseconds, as the kernel accounts for
    /// this time (with two clock readings), or `None` if the kernel does not account for the time.
    pub program_ns: Option<f64>,
    /// The number of times that corehop measured each of the three switch times.
    pub goes: u32,
}

impl ControlPageCost {
    /// Returns the switch times with the BPF programs divided by the switch time without the programs, for unregistered
    /// and for registered threads.
    pub fn ratios(&self) -> (f64, f64) {
        (self.unregistered_ns / self.none_ns, self.registered_ns / self.none_ns)
    }
}

impl OverheadTime {
    /// Returns the time of the overhead, for comparisons.
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
