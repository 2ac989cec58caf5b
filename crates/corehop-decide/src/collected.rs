// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities of each kind of result that can be compared: their values, their replicates, and the replicate of every row.
//!
//! Every value is a time in microseconds, so that more is slower. A rate of progress counts as the time that one unit of progress
//! takes.

use std::collections::BTreeMap;

use super::comparison::{Quantities, Quantity};
use super::placer::log::PlacementLog;
use super::program_runs::{RunFigures, RunQuantity};
use corehop_plan::samples::{
    OverheadTime, Rows, SharedData, SupplyGap, SwitchBatch, TaskJob, Vantage,
};
use corehop_plan::units::Bytes;

/// Nanoseconds in a microsecond.
const MICROS: f64 = 1e3;

/// A quantity of this experiment.
fn quantity(experiment: &str, group: String, place: u64, name: String) -> Quantity {
    let (file, experiment) = (String::new(), experiment.to_owned());
    Quantity { file, experiment, group, cell: None, package: None, place, name, aside: None }
}

impl Quantities {
    /// Takes the rows of a file, of whatever kind. Recordings have their runs in several files, and are taken by
    /// [`Quantities::take_runs`].
    pub fn take_rows(&mut self, rows: &Rows) {
        self.take(&rows.samples);
        self.take_access_times(rows);
        for it in &rows.preemption_lengths {
            let name = format!("{} us asked", it.requested_length_ns as f64 / MICROS);
            let group = format!("length of an absence, load {}", it.load);
            let of = quantity("preemption-length", group, it.requested_length_ns, name);
            self.add(of, it.replicate.unwrap_or_default(), it.length_ns / MICROS);
        }
        self.take_gangs(&rows.shared_data);
        self.take_jobs(&rows.task_jobs);
        rows.overheads.iter().for_each(|it| self.take_overhead(it));
        rows.switches.iter().for_each(|it| self.take_switches(it));
        rows.supply.iter().for_each(|it| self.take_gap(it));
    }

    fn take_access_times(&mut self, rows: &Rows) {
        for it in rows.access_times.iter().filter(|it| it.valid) {
            let (page, node) = (it.page, it.node.map(|it| format!(", node {it}")));
            let group = format!(
                "time of an access, {page} pages, {}, write ratio {}, {} chains{}",
                it.pattern,
                it.write_ratio,
                it.chains,
                node.unwrap_or_default()
            );
            let name = format!("{} {}", it.cache_state, Bytes::new(it.wss_bytes));
            let of = quantity("access-time", group, it.wss_bytes, name);
            self.add(of, it.replicate.unwrap_or_default(), it.access_ns / MICROS);
        }
    }

    /// Of each run of a gang the time that a round of its slowest thread took.
    fn take_gangs(&mut self, rows: &[SharedData]) {
        let mut runs: BTreeMap<(u64, u64), (&SharedData, f64)> = BTreeMap::new();
        for it in rows {
            let round = it.time_ns / it.rounds.max(1) as f64 / MICROS;
            let run = runs.entry((it.gang, it.run)).or_insert((it, round));
            run.1 = run.1.max(round);
        }
        for ((_, number), (it, round_us)) in runs {
            let group = format!("time of a round, {} {}", it.program, it.parameters);
            let name = format!("{} items, {}, {}", it.items, it.sharing, it.placing);
            let of = quantity("shared-data", group.trim_end().to_owned(), it.items, name);
            self.add(of, it.replicate.unwrap_or(number), round_us);
        }
    }

    /// Every run starts its threads and maps its memory anew.
    fn take_jobs(&mut self, rows: &[TaskJob]) {
        for it in rows {
            let group =
                format!("jobs of {} tasks under {}, load {}", it.task_count, it.scheduler, it.load);
            let kib = Bytes::new(it.wss_bytes);
            let of = |place, what: &str| {
                quantity("schedule-sensitive", group.clone(), place, format!("{what}, {kib}"))
            };
            self.add(of(0, "release to begin"), it.run, it.latency_ns.max(0.0) / MICROS);
            self.add(of(1, "release to end"), it.run, it.response_ns.max(0.0) / MICROS);
        }
    }

    fn take_overhead(&mut self, it: &OverheadTime) {
        let from = if it.vantage == Vantage::Kernel { "in the kernel" } else { "from threads" };
        let group = format!("overheads {from}, {} tasks", it.task_count);
        // The kernel interrupts whichever CPU a task set makes it interrupt: a pair is seen in some of the sets.
        let cpus = it.from_cpu.zip(it.to_cpu).filter(|_| it.vantage != Vantage::Kernel);
        let cpus = cpus.map_or_else(String::new, |(from, to)| format!(" {from}:{to}"));
        let name = format!("{}{cpus}", it.overhead.word().replace('_', " "));
        let of = quantity("overheads", group, 0, name);
        self.add(of, it.replicate.unwrap_or_default(), it.ns / MICROS);
    }

    fn take_gap(&mut self, it: &SupplyGap) {
        let Some(ns) = it.gap_ns else { return };
        let group = "length of a gap in the supply".to_owned();
        let of = quantity("supply", group, it.cpu, format!("CPU {}", it.cpu));
        self.add(of, it.replicate.unwrap_or_default(), ns as f64 / MICROS);
    }

    fn take_switches(&mut self, it: &SwitchBatch) {
        if let Some(why) = &it.not_measured {
            self.lacks(format!("{} {}:{}", it.mechanism, it.from_cpu, it.to_cpu), why);
        }
        let Some(mean_ns) = it.mean_ns.filter(|_| it.valid) else { return };
        let size = if it.bytes > 0 { format!(" {}", Bytes::new(it.bytes)) } else { String::new() };
        let depth = if it.outstanding > 1 {
            format!(", {} at a time", it.outstanding)
        } else {
            String::new()
        };
        let group = format!("time of a call of {}{size}{depth}", it.call);
        let name = format!("{} {}:{}", it.mechanism, it.from_cpu, it.to_cpu);
        let of = quantity("core-switch", group, 0, name);
        self.add(of, it.replicate.unwrap_or_default(), mean_ns / MICROS);
    }

    /// Takes the runs of a recorded program: wall time, CPU time and waiting of each arm.
    pub fn take_runs(&mut self, runs: &[RunFigures]) {
        for (number, run) in (0..).zip(runs) {
            let arm = run.changed().map_or_else(String::new, |arm| format!(", {arm}"));
            for (place, of, name) in [
                (0, RunQuantity::WallTime, "wall time"),
                (1, RunQuantity::CpuTime, "CPU time"),
                (2, RunQuantity::Waited, "waited for a CPU"),
            ] {
                if let Some(us) = run.value(of) {
                    let group = format!("runs of the program{arm}");
                    let quantity = quantity("program", group, place, name.to_owned());
                    self.add(Quantity { aside: of.aside(), ..quantity }, number, us);
                }
            }
        }
    }

    /// Takes the windows of a placer's log in which the program's progress is known; false where it is known of none.
    pub fn take_placement(&mut self, log: &PlacementLog) -> bool {
        let (mut any, mut before_s) = (false, 0.0);
        for (window, rate) in (0..).zip(&log.rates) {
            let span_s = rate.end_s - std::mem::replace(&mut before_s, rate.end_s);
            let Some(per_second) = rate.per_second else { continue };
            let name = if rate.placed { "threads placed" } else { "threads as they were" };
            let group = "time for one unit of progress, by windows".to_owned();
            let of = quantity("place", group, u64::from(rate.placed), name.to_owned());
            // In a window without progress a unit takes at least the window.
            let unit_s = if per_second > 0.0 { 1.0 / per_second } else { span_s };
            self.add(of, window, unit_s * 1e6);
            any = true;
        }
        any
    }

    /// Takes an answer of `offload`, one replicate: the mean time of each call here and on the OS core. False where it has no
    /// time, or is no such answer.
    pub fn take_offload(&mut self, answer: &serde_json::Value) -> bool {
        let calls = answer["by_call"].as_array().map_or(&[][..], Vec::as_slice);
        let mut any = false;
        for call in calls {
            let name = call["call"].as_str().unwrap_or_default();
            for (place, key, core) in [(0, "here_ns", "caller's"), (1, "there_ns", "OS")] {
                if let Some(ns) = call[key].as_f64().filter(|ns| ns.is_finite()) {
                    let group = format!("mean time of a call on the {core} core");
                    self.add(quantity("offload", group, place, name.to_owned()), 0, ns / MICROS);
                    any = true;
                }
            }
        }
        any
    }
}
