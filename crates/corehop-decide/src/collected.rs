// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities of each kind of result that can be compared: their values, their replicates, and the replicate of every row.
//!
//! Every value is a time in microseconds, so that more is slower. A rate of progress counts as the time that one unit of progress
//! takes.

use super::comparison::{Quantities, Quantity};
use super::placer::log::PlacementLog;
use super::program_runs::{RunFigures, RunQuantity};
use corehop_plan::kinds::RowTime;
use corehop_plan::samples::Rows;

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
        for RowTime { experiment, group, place, name, replicate, ns } in RowTime::of(rows) {
            match ns {
                Ok(ns) => {
                    self.add(quantity(experiment, group, place, name), replicate, ns / MICROS);
                }
                Err(why) => self.lacks(name, &why),
            }
        }
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
