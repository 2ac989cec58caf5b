// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the comparable quantities of each kind of result: their values, their replicates, and the replicate of
//! every row.
//!
//! Every value is a time in microseconds, so that more is slower. A rate of progress counts as the time that one unit
//! of progress takes.

use super::comparison::{Quantities, Quantity};
use super::hyperfine::HyperfineCommand;
use super::placer::log::PlacementLog;
use super::program_runs::{RunFigures, RunQuantity};
use corehop_plan::kinds::RowTime;
use corehop_plan::samples::Rows;

/// The number of nanoseconds in a microsecond.
const MICROS: f64 = 1e3;

/// A quantity of this experiment.
fn quantity(experiment: &str, group: String, place: u64, name: String) -> Quantity {
    let (file, experiment) = (String::new(), experiment.to_owned());
    Quantity { file, experiment, group, cell: None, package: None, place, name, aside: None }
}

impl Quantities {
    /// Adds the rows of a file of any kind. The runs of recordings are in several files; add them with
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

    /// Adds the runs of a recorded program: wall time, CPU time and waiting time of each arm.
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

    /// Adds the windows of a placer's log in which the program's progress is known; returns false if no window has a
    /// known progress.
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

    /// Adds the runs of a command that hyperfine timed, under `name`, with each run as a replicate.
    pub fn take_command(&mut self, command: &HyperfineCommand, name: &str) {
        let of = quantity("hyperfine", "wall time of commands".to_owned(), 0, name.to_owned());
        for (run, &us) in (0..).zip(&command.us) {
            self.add(of.clone(), run, us);
        }
    }

    /// Adds an answer of `offload` as one replicate: the mean time of each call on the local core and on the OS core.
    /// Returns false if the JSON value is not an answer of `offload` or contains no time.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{EquivalenceMargin, compare};
    use corehop_stats::estimator::Estimator;
    use serde_json::json;

    /// The names and costs of all quantities, in microseconds.
    fn costs(all: &Quantities) -> Vec<(String, String, f64)> {
        let margin = EquivalenceMargin { share: 0.05, least_us: None };
        let told = compare(all, all, margin, 0.05).unwrap();
        let of = |it: &crate::comparison::QuantityComparison| {
            (it.quantity.group.clone(), it.quantity.name.clone(), it.a_us)
        };
        told.cells.iter().map(of).collect()
    }

    #[test]
    fn an_off_loaded_call_has_a_time_on_either_core_in_microseconds() {
        let mut all = Quantities::new(Estimator::Difference);
        let answer = json!({"by_call": [
            {"call": "read", "here_ns": 1_500.0, "there_ns": 2_500.0},
            {"call": "write", "here_ns": null, "there_ns": 4_000},
        ]});
        assert!(all.take_offload(&answer));
        let mut found = costs(&all);
        found.sort_by(|a, b| a.2.total_cmp(&b.2));
        let of = |core: &str, call: &str, us| {
            (format!("mean time of a call on the {core} core"), call.to_owned(), us)
        };
        assert_eq!(
            found,
            [of("caller's", "read", 1.5), of("OS", "read", 2.5), of("OS", "write", 4.0)]
        );
        let mut none = Quantities::new(Estimator::Difference);
        assert!(!none.take_offload(&json!({"by_call": [{"call": "read"}]})));
        assert!(!none.take_offload(&json!({"rows": []})));
        assert!(costs(&none).is_empty());
    }

    #[test]
    fn a_unit_of_progress_takes_the_inverse_of_its_rate_and_at_least_a_window_without_any() {
        let answer = crate::example::placed(
            &[(7, "0")],
            crate::placer::trial::TrialVerdict::Better(crate::example::OUTCOME),
            true,
        );
        let head = crate::placer::log::PlacementLogHeader::new(
            crate::placer::settings::Settings::default(),
            &crate::placer::terrain::Terrain::new(
                &["0-1".parse().unwrap()],
                crate::placer::terrain::WakeCosts {
                    same_cpu_ns: 1.0,
                    shared_cache_ns: 2.0,
                    separate_ns: 3.0,
                },
            ),
            &[],
            Vec::new(),
            None,
        );
        let rate = |end_s, per_second, placed| crate::placer::log::ProgressRate {
            end_s,
            per_second,
            placed,
        };
        let log = |rates| PlacementLog {
            head: head.clone(),
            answer: answer.clone(),
            rates,
            is_whole: true,
        };
        let mut all = Quantities::new(Estimator::Difference);
        assert!(!all.take_placement(&log(vec![rate(1.0, None, false)])));
        let rates =
            vec![rate(1.0, None, false), rate(1.5, Some(0.0), false), rate(2.5, Some(4.0), true)];
        assert!(all.take_placement(&log(rates)));
        let mut found: Vec<(String, f64)> =
            costs(&all).into_iter().map(|it| (it.1, it.2)).collect();
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let expected = [("threads placed", 250_000.0), ("threads as they were", 500_000.0)];
        assert_eq!(found, expected.map(|(name, us)| (name.to_owned(), us)));
    }
}
