// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of a kernel: as text, and as the table for `check --overheads`.

use serde::Serialize;

use super::figure::Table;
use super::table::{micros, plain};

/// Quantiles of one quantity, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Its column in the table.
    pub column: &'static str,
    /// Its name, for people.
    pub what: String,
    /// The way of measuring: `kernel` or `threads`.
    pub how: &'static str,
    /// Of how many tasks.
    pub tasks: u32,
    /// The number of measurements.
    pub n: usize,
    /// The median.
    pub p50_us: f64,
    /// The value that 90 % do not exceed.
    pub p90_us: f64,
    /// The value that 99 % do not exceed.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
}

/// The way of measuring that counts where there are several.
const BEST: &str = "kernel";

impl Overhead {
    /// Of times in nanoseconds; none where there are none.
    pub fn of(
        column: &'static str,
        what: impl Into<String>,
        (how, tasks): (&'static str, u32),
        ns: &[f64],
    ) -> Option<Self> {
        let mut sorted: Vec<f64> = ns.iter().map(|ns| ns / 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let max_us = *sorted.last()?;
        // The smallest value that so many do not exceed.
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted[rank.clamp(1, sorted.len()) - 1]
        };
        let (p50_us, p90_us, p99_us) = (quantile(0.5), quantile(0.9), quantile(0.99));
        let (what, n) = (what.into(), sorted.len());
        Some(Self { column, what, how, tasks, n, p50_us, p90_us, p99_us, max_us })
    }
}

/// All of them, as text.
pub fn text(overheads: &[Overhead], notes: &[String]) -> String {
    let columns = ["what", "column", "how", "tasks", "n", "median µs", "90 %", "99 %", "largest"];
    let mut table = Table::new("What this kernel takes for scheduling", &columns);
    let row = |it: &Overhead| {
        let times = [it.p50_us, it.p90_us, it.p99_us, it.max_us].map(micros);
        let (column, how) = (it.column.to_owned(), it.how.to_owned());
        let head = vec![it.what.clone(), column, how, it.tasks.to_string(), it.n.to_string()];
        [head, times.to_vec()].concat()
    };
    table.rows = overheads.iter().map(row).collect();
    plain(&table) + &notes.join("\n") + "\n"
}

/// The table by the number of tasks, with the 99th percentile of each. Of several of one column the
/// largest counts, and of several ways the best; more tasks take no less. With `most`, it
/// takes for granted that so many tasks take no more than those that were measured.
pub fn csv(overheads: &[Overhead], most: Option<u32>) -> String {
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

/// The time for so many tasks, as far as known; where only more were measured, the time for those.
fn value(overheads: &[Overhead], column: &str, tasks: u32) -> f64 {
    let own = || overheads.iter().filter(|it| it.column == column);
    let best = own().any(|it| it.how == BEST);
    let usable = || own().filter(move |it| !best || it.how == BEST);
    let fewest = usable().map(|it| it.tasks).min().unwrap_or(0);
    let known = usable().filter(|it| it.tasks <= tasks.max(fewest));
    known.map(|it| it.p99_us).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::overhead::table::OverheadTable;

    fn of(column: &'static str, how: &'static str, tasks: u32, ns: f64) -> Overhead {
        Overhead::of(column, "x", (how, tasks), &[ns]).unwrap()
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let ns: Vec<f64> = (1..=200).map(|it| f64::from(it) * 1e3).collect();
        let it = Overhead::of("CXS", "a switch", ("kernel", 2), &ns).unwrap();
        assert_eq!((it.p50_us, it.p90_us, it.p99_us, it.max_us), (100.0, 180.0, 198.0, 200.0));
        assert_eq!(Overhead::of("CXS", "a switch", ("kernel", 2), &[]), None);
    }

    #[test]
    fn the_table_is_one_that_check_reads_and_the_larger_pair_counts() {
        let rows = [
            of("CXS", "threads", 2, 1_500.0),
            of("IPI-LATENCY", "threads", 2, 700.0),
            of("IPI-LATENCY", "threads", 2, 2_000.0),
        ];
        let text = csv(&rows, Some(50));
        assert_eq!(text, "TASK-COUNT,CXS,IPI-LATENCY\n2,1.500,2.000\n50,1.500,2.000\n");
        let known = OverheadTable::parse(&text)
            .unwrap()
            .of(30, crate::units::Nanos::new(1_000_000), false)
            .unwrap();
        assert_eq!((known.context_switch, known.interprocessor), (1_500, 2_000));
    }

    #[test]
    fn what_the_kernel_says_counts_and_more_tasks_take_no_less() {
        let rows = [
            of("CXS", "kernel", 2, 1_000.0),
            of("CXS", "threads", 2, 9_000.0),
            of("CXS", "kernel", 10, 3_000.0),
            of("CXS", "kernel", 25, 2_000.0),
            // Not measured of two tasks.
            of("TICK", "threads", 10, 4_000.0),
        ];
        let lines = ["TASK-COUNT,CXS,TICK", "2,1.000,4.000", "10,3.000,4.000", "25,3.000,4.000"];
        assert_eq!(csv(&rows, None).lines().collect::<Vec<_>>(), lines);
    }
}
