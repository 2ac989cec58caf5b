// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a cost study, as text.

use super::figure::FigureTable;
use super::table::plain;
use corehop_sched::limited::remedy::Limit;
use corehop_sched::study::cost::{
    AcceptanceCounts, CapCounts, CostStudy, CostStudyResult, ReadingResult, Saved,
};

/// Writes a table for each comparison and for each way to limit preemptions, reading by reading.
pub fn text(study: &CostStudy, outcome: &CostStudyResult) -> String {
    let mut text =
        format!("{}\n{} sets per cap, seed {}\n\n", study.title.trim_end(), study.sets, study.seed);
    for found in &outcome.readings {
        for at in 0..found.all.compared.len() {
            text.push_str(&plain(&compared(found, at)));
            text.push('\n');
        }
        for at in 0..found.all.limited.len() {
            text.push_str(&plain(&limited(found, at)));
            text.push('\n');
        }
    }
    text
}

/// Returns the counts of each cap, and of all caps together.
fn rows(found: &ReadingResult) -> impl Iterator<Item = (String, &CapCounts)> {
    let cap = |row: &CapCounts| row.cap.map_or_else(|| "all".to_owned(), |cap| format!("{cap}"));
    found.rows.iter().chain([&found.all]).map(move |row| (cap(row), row))
}

fn compared(found: &ReadingResult, at: usize) -> FigureTable {
    let name = &found.all.compared[at].name;
    let mut table = FigureTable::new(
        format!("{}, {name}: sets accepted", found.name),
        &["U", "sets", "by pair", "one value", "only by pair", "only one value"],
    );
    let row = |(cap, row): (String, &CapCounts)| {
        let AcceptanceCounts { with, without, only_with, only_without, .. } = &row.compared[at];
        let counts = [&row.sets, with, without, only_with, only_without];
        [cap].into_iter().chain(counts.map(u64::to_string)).collect()
    };
    table.rows = rows(found).map(row).collect();
    table
}

fn limited(found: &ReadingResult, at: usize) -> FigureTable {
    let how = match found.all.limited[at].limit {
        Limit::EdfRegions => "EDF with non-preemptive regions",
        Limit::FpRegions => "fixed priorities with non-preemptive regions",
        Limit::FpThresholds => "fixed priorities with preemption thresholds",
    };
    let mut table = FigureTable::new(
        format!(
            "{}, {how}: task sets before and after, and the maximum of preemptions and CPUs per set",
            found.name
        ),
        &[
            "U",
            "sets",
            "schedulable",
            "so limited",
            "preemptions/s",
            "remain/s",
            "cost in CPUs",
            "remains",
        ],
    );
    let row = |(cap, row): (String, &CapCounts)| {
        let it = &row.limited[at];
        let mut cells =
            vec![cap, row.sets.to_string(), it.before.to_string(), it.after.to_string()];
        cells.extend(means(it));
        cells
    };
    table.rows = rows(found).map(row).collect();
    table
}

/// Returns the mean values per task set, over sets that are schedulable with the limit.
fn means(it: &Saved) -> Vec<String> {
    let sums = [
        (it.preemptions_before, 1),
        (it.preemptions_after, 1),
        (it.cpus_before, 4),
        (it.cpus_after, 4),
    ];
    let mean = |(sum, digits): (f64, usize)| match it.after {
        0 => "…".to_owned(),
        sets => format!("{:.digits$}", sum / sets as f64),
    };
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(cap: Option<f64>, sets: u64, after: u64) -> CapCounts {
        let accepted = AcceptanceCounts {
            name: "fp".to_owned(),
            with: 7,
            without: 5,
            only_with: 3,
            only_without: 1,
        };
        let saved = Saved {
            limit: Limit::FpThresholds,
            before: 2,
            after,
            preemptions_before: 30.4,
            preemptions_after: 9.0,
            cpus_before: 0.5,
            cpus_after: 0.25,
        };
        CapCounts { cap, sets, compared: vec![accepted], limited: vec![saved] }
    }

    fn found() -> ReadingResult {
        ReadingResult {
            name: "r".to_owned(),
            rows: vec![counts(Some(0.5), 10, 4), counts(Some(0.75), 11, 0)],
            all: counts(None, 21, 4),
        }
    }

    #[test]
    fn acceptance_is_counted_by_cap_and_over_all() {
        let table = compared(&found(), 0);
        assert_eq!(table.caption, "r, fp: sets accepted");
        assert_eq!(
            table.rows,
            [
                ["0.5", "10", "7", "5", "3", "1"],
                ["0.75", "11", "7", "5", "3", "1"],
                ["all", "21", "7", "5", "3", "1"]
            ]
        );
    }

    #[test]
    fn savings_are_means_of_the_sets_that_are_schedulable_and_none_has_no_mean() {
        let table = limited(&found(), 0);
        assert_eq!(
            table.caption,
            "r, fixed priorities with preemption thresholds: task sets before and after, and the maximum of preemptions and CPUs per set"
        );
        assert_eq!(table.rows[0], ["0.5", "10", "2", "4", "7.6", "2.2", "0.1250", "0.0625"]);
        assert_eq!(table.rows[1], ["0.75", "11", "2", "0", "…", "…", "…", "…"]);
        assert_eq!(table.rows.len(), 3);
    }
}
