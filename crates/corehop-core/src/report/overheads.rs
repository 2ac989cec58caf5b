// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel takes for scheduling: as text, and as the table that `check --overheads` reads.

use serde::Serialize;

use super::figure::Table;
use super::table::{micros, plain};

/// Quantiles of one quantity, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overhead {
    /// Its column in the table.
    pub column: &'static str,
    /// What it is, for people.
    pub what: String,
    /// How often it was measured.
    pub n: usize,
    /// The median.
    pub p50_us: f64,
    /// What 90 % do not exceed.
    pub p90_us: f64,
    /// What 99 % do not exceed.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl Overhead {
    /// Of times in nanoseconds; none where there are none.
    pub fn of(column: &'static str, what: impl Into<String>, ns: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = ns.iter().map(|ns| ns / 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let max_us = *sorted.last()?;
        // The smallest value that so many do not exceed.
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted[rank.clamp(1, sorted.len()) - 1]
        };
        let (p50_us, p90_us, p99_us) = (quantile(0.5), quantile(0.9), quantile(0.99));
        Some(Self { column, what: what.into(), n: sorted.len(), p50_us, p90_us, p99_us, max_us })
    }
}

/// All of them, as text.
pub fn text(overheads: &[Overhead], notes: &[String]) -> String {
    let columns = ["what", "column", "n", "median µs", "90 %", "99 %", "largest"];
    let mut table = Table::new("What this kernel takes for scheduling", &columns);
    let row = |it: &Overhead| {
        let times = [it.p50_us, it.p90_us, it.p99_us, it.max_us].map(micros);
        [vec![it.what.clone(), it.column.to_owned(), it.n.to_string()], times.to_vec()].concat()
    };
    table.rows = overheads.iter().map(row).collect();
    plain(&table) + &notes.join("\n") + "\n"
}

/// The table by the number of tasks, with the 99th percentile of each, the largest of several of one
/// column, for `tasks` tasks and for fewer. It takes for granted that fewer tasks take no more.
pub fn csv(overheads: &[Overhead], tasks: usize) -> String {
    let mut columns: Vec<(&str, f64)> = Vec::new();
    for it in overheads {
        match columns.iter_mut().find(|(name, _)| *name == it.column) {
            Some((_, value)) => *value = value.max(it.p99_us),
            None => columns.push((it.column, it.p99_us)),
        }
    }
    let head: Vec<&str> =
        std::iter::once("TASK-COUNT").chain(columns.iter().map(|it| it.0)).collect();
    let values: Vec<String> = columns.iter().map(|(_, value)| format!("{value:.3}")).collect();
    let row = |count: usize| format!("{count},{}\n", values.join(","));
    format!("{}\n{}{}", head.join(","), row(1), row(tasks.max(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::overhead::table::OverheadTable;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let ns: Vec<f64> = (1..=200).map(|it| f64::from(it) * 1e3).collect();
        let it = Overhead::of("CXS", "a switch", &ns).unwrap();
        assert_eq!((it.p50_us, it.p90_us, it.p99_us, it.max_us), (100.0, 180.0, 198.0, 200.0));
        assert_eq!(Overhead::of("CXS", "a switch", &[]), None);
    }

    #[test]
    fn the_table_is_one_that_check_reads_and_the_larger_pair_counts() {
        let of = |column, ns: f64| Overhead::of(column, "x", &[ns]).unwrap();
        let rows = [of("CXS", 1_500.0), of("IPI-LATENCY", 700.0), of("IPI-LATENCY", 2_000.0)];
        let text = csv(&rows, 50);
        assert_eq!(text, "TASK-COUNT,CXS,IPI-LATENCY\n1,1.500,2.000\n50,1.500,2.000\n");
        let known = OverheadTable::parse(&text).unwrap().of(30, 1_000, false).unwrap();
        assert_eq!((known.context_switch, known.interprocessor), (2, 2));
    }
}
