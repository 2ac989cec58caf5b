// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the table of core-to-core-latency (`--csv`): a row for each measuring CPU and a column for each other CPU, in
//! nanoseconds.
//!
//! A value is the mean of half a round trip. The table has no headings and names no CPU: its rows and columns are the
//! CPUs on which the program ran, in ascending order.

use std::ops::RangeInclusive;

use super::DescriptionError;
use crate::bounds;
use crate::platform::observed::Exchange;
use crate::platform::{Fact, Latency};
use crate::units::{Cpu, CpuList};

/// The source of exchanges that were read from a table of core-to-core-latency.
const SOURCE: &str =
    "core-to-core-latency: one mean for each pair, in place of its least and its median";

/// The times that an exchange of a cache line between two CPUs can take: a cycle at least, and less than a wake-up.
const TIMES_NS: RangeInclusive<f64> = 0.1..=1e6;

/// Returns the exchanges of a table, for the CPUs of its rows and columns in ascending order.
///
/// # Errors
/// Returns [`DescriptionError`] for a table that is not square or has another number of CPUs, and for a value that no
/// exchange takes.
pub fn exchanges(text: &str, cpus: &CpuList) -> Result<Fact<Vec<Exchange>>, DescriptionError> {
    let wrong =
        |what: String| DescriptionError::Syntax { format: "table of core-to-core-latency", what };
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split(',').map(str::trim).collect())
        .collect();
    if rows.len() != cpus.len() {
        return Err(DescriptionError::Incomplete(format!(
            "the table has {} CPUs and does not state which, but the platform has {} online: measure all CPUs, or describe the \
             machine without the others",
            rows.len(),
            cpus.len()
        )));
    }
    let all: Vec<Cpu> = cpus.iter().collect();
    let mut exchanges = Vec::new();
    for (row, cells) in rows.iter().enumerate() {
        if cells.len() != all.len() {
            return Err(wrong(format!(
                "row {} has {} values for {} CPUs",
                row + 1,
                cells.len(),
                all.len()
            )));
        }
        for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let ns = bounds::number(cell).ok().filter(|ns| TIMES_NS.contains(ns));
            let ns = ns.ok_or_else(|| {
                let place = format!("row {}, column {}", row + 1, column + 1);
                wrong(format!(
                    "{place} is {cell}: expected {} to {} nanoseconds",
                    TIMES_NS.start(),
                    TIMES_NS.end()
                ))
            })?;
            let mean = Latency::from_nanos(ns);
            let (from, to) = (all[row], all[column]);
            exchanges.push(Exchange { from, to, min: mean, median: mean, batches: 1 });
        }
    }
    if exchanges.is_empty() {
        return Err(wrong("no pair has a value".to_owned()));
    }
    Ok(Fact::cited(exchanges, SOURCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuList {
        list.parse().unwrap()
    }

    #[test]
    fn rows_and_columns_are_the_cpus_in_order_and_empty_cells_are_no_pairs() {
        let read = exchanges(",,\n40.25,,\n50,60,\n", &cpus("0,2,4")).unwrap();
        let told: Vec<(u32, u32, Latency)> =
            read.value.iter().map(|it| (it.from.0, it.to.0, it.median)).collect();
        let ns = Latency::from_nanos;
        assert_eq!(told, [(2, 0, ns(40.25)), (4, 0, ns(50.0)), (4, 2, ns(60.0))]);
        assert!(read.source.to_string().contains("one mean for each pair"));
    }

    #[test]
    fn a_table_of_other_cpus_or_without_times_is_refused() {
        for (text, words) in [
            (",\n40,\n", "the table has 2 CPUs and does not state which, but the platform has 3"),
            (",,\n40,\n1,1,\n", "row 2 has 2 values for 3 CPUs"),
            (",,\n-1,,\n1,1,\n", "row 2, column 1 is -1: expected 0.1 to 1000000 nanoseconds"),
            (",,\n40,,\n1e-4,1,\n", "row 3, column 1 is 1e-4: expected 0.1 to 1000000"),
            (",,\n40,,\n1,4e9,\n", "row 3, column 2 is 4e9: expected 0.1 to 1000000"),
            (",,\nx,,\n1,1,\n", "row 2, column 1 is x"),
            (",,\n,,\n,,\n", "no pair has a value"),
        ] {
            let said = exchanges(text, &cpus("0-2")).unwrap_err().to_string();
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
