// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of a kernel: the quantiles of each overhead, and a table by the number of
//! tasks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimator::Estimator;
use super::summarise::{FromFile, Summarise};
use corehop_plan::samples::{Overhead, OverheadFacts, OverheadTime, RowKind, Rows, Vantage};

pub use self::OverheadSummaries as Summary;

/// The quantiles of one overhead, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverheadSummary {
    /// The column of the overhead in SchedCAT's tables.
    pub column: &'static str,
    /// The name of the overhead for people, with the CPUs of an interrupt.
    pub what: String,
    /// The vantage point of the measurement.
    #[serde(rename = "how")]
    pub vantage: Vantage,
    /// The number of tasks during the measurement.
    pub tasks: u32,
    /// The number of times that were measured.
    pub n: usize,
    /// The median of the measured times.
    pub p50_us: f64,
    /// The 90th percentile of the times.
    pub p90_us: f64,
    /// The 99th percentile of the times.
    pub p99_us: f64,
    /// The longest of the measured times.
    pub max_us: f64,
}

/// The key of overheads whose times are summarised together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OverheadKey {
    vantage: Vantage,
    tasks: u64,
    overhead: Overhead,
    between: Option<(u64, u64)>,
}

/// Collects the times of all overheads.
#[derive(Debug, Clone, Default)]
pub struct OverheadCollector {
    times: BTreeMap<OverheadKey, Vec<f64>>,
}

impl OverheadCollector {
    /// Adds measured times to the collector.
    pub fn take(&mut self, rows: &[OverheadTime]) {
        for row in rows {
            let key = OverheadKey {
                vantage: row.vantage,
                tasks: row.task_count,
                overhead: row.overhead,
                between: row.from_cpu.zip(row.to_cpu),
            };
            self.times.entry(key).or_default().push(row.ns);
        }
    }

    /// Returns the summaries: times from the kernel first, ordered by the number of tasks.
    pub fn summaries(&self) -> Vec<OverheadSummary> {
        self.times.iter().filter_map(|(&key, ns)| summary(key, ns)).collect()
    }
}

/// The overheads that all files contain.
#[derive(Debug, Clone, Default)]
pub struct OverheadResults {
    /// The summaries: times from the kernel first, ordered by the number of tasks.
    pub summaries: Vec<OverheadSummary>,
    /// The facts of the measurements, one entry for each file that has facts.
    pub facts: Vec<OverheadFacts>,
}

/// Collects overheads with the facts of their files.
#[derive(Debug, Default)]
pub struct OverheadSummaries {
    times: OverheadCollector,
    facts: Vec<OverheadFacts>,
}

impl Summarise for OverheadSummaries {
    type Said = OverheadResults;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn begin(&mut self, from: &FromFile<'_>) {
        if from.kind == RowKind::Overheads {
            self.facts.extend(OverheadFacts::of(&from.provenance.machine));
        }
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        self.times.take(&rows.overheads);
    }

    fn finish(&mut self) -> OverheadResults {
        let facts = std::mem::take(&mut self.facts);
        OverheadResults { summaries: self.times.summaries(), facts }
    }
}

/// Returns the summary of an overhead, or `None` without a finite time.
fn summary(key: OverheadKey, ns: &[f64]) -> Option<OverheadSummary> {
    let mut sorted: Vec<f64> = ns.iter().map(|ns| ns / 1e3).filter(|us| us.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let max_us = *sorted.last()?;
    // The smallest value that this share does not exceed.
    let quantile = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    };
    Some(OverheadSummary {
        column: column(key.overhead),
        what: name(key),
        vantage: key.vantage,
        tasks: u32::try_from(key.tasks).unwrap_or(u32::MAX),
        n: sorted.len(),
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        max_us,
    })
}

/// Returns the column of an overhead in SchedCAT's tables.
const fn column(overhead: Overhead) -> &'static str {
    match overhead {
        Overhead::Decision => "SCHEDULE",
        Overhead::Switch => "CXS",
        Overhead::Tick => "TICK",
        Overhead::Release => "RELEASE",
        Overhead::EventLatency | Overhead::WakeUp => "RELEASE-LATENCY",
        Overhead::OneWay | Overhead::RoundTrip => "IPI-LATENCY",
    }
}

fn name(key: OverheadKey) -> String {
    let (from, to) = key.between.unwrap_or_default();
    match key.overhead {
        Overhead::Decision => "scheduling decision".to_owned(),
        Overhead::Switch => "context switch".to_owned(),
        Overhead::Tick => "tick".to_owned(),
        Overhead::Release => "release".to_owned(),
        Overhead::EventLatency => "release, until handled".to_owned(),
        Overhead::WakeUp => "release, to running".to_owned(),
        Overhead::OneWay => format!("interrupt {from}→{to}"),
        Overhead::RoundTrip => format!("interrupt {from}→{to}, there and back"),
    }
}

/// Returns the table by the number of tasks, as CSV, with the 99th percentile of each overhead. If
/// several overheads belong to one column, the largest counts, and times from the kernel take
/// precedence over times from threads; more tasks never take less time. `most` extends the table to
/// this number of tasks, with the values of the largest measured number.
pub fn csv(overheads: &[OverheadSummary], most: Option<u32>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for it in overheads {
        if !names.contains(&it.column) {
            names.push(it.column);
        }
    }
    let mut counts: Vec<u32> = overheads.iter().map(|it| it.tasks).chain(most).collect();
    counts.sort_unstable();
    counts.dedup();
    let row = |&count: &u32| {
        let values = names.iter().map(|name| format!(",{:.3}", value(overheads, name, count)));
        format!("{count}{}\n", values.collect::<String>())
    };
    let rows: String = counts.iter().map(row).collect();
    format!("TASK-COUNT,{}\n{rows}", names.join(","))
}

/// Returns the time for this number of tasks; if only larger numbers were measured, the time for the
/// smallest measured number.
fn value(overheads: &[OverheadSummary], column: &str, tasks: u32) -> f64 {
    let own = || overheads.iter().filter(|it| it.column == column);
    let best = own().any(|it| it.vantage == Vantage::Kernel);
    let usable = || own().filter(move |it| !best || it.vantage == Vantage::Kernel);
    let fewest = usable().map(|it| it.tasks).min().unwrap_or(0);
    let known = usable().filter(|it| it.tasks <= tasks.max(fewest));
    known.map(|it| it.p99_us).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(overhead: Overhead, vantage: Vantage, task_count: u64, ns: f64) -> OverheadTime {
        let (from_cpu, to_cpu) = (Some(0), Some(1));
        let machine = "host".into();
        OverheadTime {
            machine,
            seed: 1,
            overhead,
            vantage,
            task_count,
            from_cpu,
            to_cpu,
            ns,
            replicate: None,
        }
    }

    fn summaries(rows: &[OverheadTime]) -> Vec<OverheadSummary> {
        let mut overheads = OverheadCollector::default();
        overheads.take(rows);
        overheads.summaries()
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let of = |us: u32| time(Overhead::Switch, Vantage::Kernel, 2, f64::from(us) * 1e3);
        let rows: Vec<OverheadTime> = (1..=200).rev().map(of).collect();
        let [it] = &summaries(&rows)[..] else { unreachable!("one overhead") };
        assert_eq!((it.column, it.n, it.tasks), ("CXS", 200, 2));
        assert_eq!((it.p50_us, it.p90_us, it.p99_us, it.max_us), (100.0, 180.0, 198.0, 200.0));
        let unknown = [time(Overhead::Switch, Vantage::Kernel, 2, f64::NAN)];
        assert!(summaries(&unknown).is_empty() && summaries(&[]).is_empty());
    }

    #[test]
    fn the_larger_pair_counts_and_the_table_reaches_as_far_as_asked() {
        let back = |ns, to| OverheadTime {
            to_cpu: Some(to),
            ..time(Overhead::RoundTrip, Vantage::Threads, 2, ns)
        };
        let rows = [
            time(Overhead::Switch, Vantage::Threads, 2, 1_500.0),
            back(700.0, 1),
            back(2_000.0, 2),
        ];
        let summaries = summaries(&rows);
        assert_eq!(summaries[2].what, "interrupt 0→2, there and back");
        let text = csv(&summaries, Some(50));
        assert_eq!(text, "TASK-COUNT,CXS,IPI-LATENCY\n2,1.500,2.000\n50,1.500,2.000\n");
    }

    #[test]
    fn the_kernels_times_come_first_and_more_tasks_take_no_less() {
        let rows = [
            time(Overhead::Switch, Vantage::Kernel, 2, 1_000.0),
            time(Overhead::Switch, Vantage::Threads, 2, 9_000.0),
            time(Overhead::Switch, Vantage::Kernel, 10, 3_000.0),
            time(Overhead::Switch, Vantage::Kernel, 25, 2_000.0),
            // Not measured with two tasks.
            time(Overhead::Tick, Vantage::Threads, 10, 4_000.0),
        ];
        let lines = ["TASK-COUNT,CXS,TICK", "2,1.000,4.000", "10,3.000,4.000", "25,3.000,4.000"];
        assert_eq!(csv(&summaries(&rows), None).lines().collect::<Vec<_>>(), lines);
    }
}
