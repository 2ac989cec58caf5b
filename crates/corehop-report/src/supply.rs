// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table with notes shows the supply of CPUs.

use super::figure::FigureTable;
use super::table::{micros, plain};
use corehop_sched::supply::SupplySummary;

/// Writes the summaries of the supply as text, with notes below the table.
pub fn text(supply: &[SupplySummary]) -> String {
    plain(&table(supply)) + &notes(supply).join("\n") + "\n"
}

/// Returns a table of the summaries of the supply.
pub fn table(supply: &[SupplySummary]) -> FigureTable {
    let columns = [
        "CPU",
        "windows",
        "watched s",
        "gaps",
        "gaps/s",
        "largest gap µs",
        "lost %",
        "most in 1 ms",
        "in 10 ms",
        "in 40 ms",
    ];
    let mut table = FigureTable::new("Time that CPUs did not supply", &columns);
    let optional = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), micros);
    let row = |it: &SupplySummary| {
        let counts = vec![
            it.cpu.to_string(),
            it.windows.to_string(),
            format!("{:.1}", it.watched_s),
            it.gaps.to_string(),
            format!("{:.0}", it.gaps_per_s),
            optional(it.largest_us),
            format!("{:.2}", it.lost_percent),
        ];
        [counts, it.most_lost_us.map(optional).to_vec()].concat()
    };
    table.rows = supply.iter().map(row).collect();
    table
}

/// Returns notes below the table, about gaps that were cut and about threads that shared their CPU.
pub fn notes(supply: &[SupplySummary]) -> Vec<String> {
    let cut: u64 = supply.iter().map(|it| it.cut).sum();
    let cut = (cut > 0).then(|| {
        format!(
            "{cut} gaps began before their windows, so these gaps are at least as long as recorded"
        )
    });
    let ordinary = supply.iter().flat_map(|it| &it.policies).find(|it| !it.starts_with("fifo"));
    let ordinary = ordinary.map(|policy| {
        format!(
            "the watching threads ran under {policy}, not SCHED_FIFO: time in which other threads ran counts as gaps"
        )
    });
    cut.into_iter().chain(ordinary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_and_what_other_threads_took_is_said() {
        let cpu = |policy: &str, cut| SupplySummary {
            cpu: 3,
            windows: 25,
            watched_s: 1.0,
            gaps: 800,
            cut,
            gaps_per_s: 800.0,
            largest_us: Some(5_400.0),
            lost_percent: 2.0,
            most_lost_us: [Some(1_000.0), Some(5_700.0), None],
            policies: vec![policy.to_owned()],
        };
        let text = text(&[cpu("fifo:2", 0)]);
        assert!(text.contains("5700") && text.contains("2.00") && text.contains('–'), "{text}");
        assert!(notes(&[cpu("fifo:2", 0)]).is_empty());
        let notes = notes(&[cpu("fifo:2", 2), cpu("other:-20", 0)]);
        assert!(notes[0].starts_with("2 gaps began"), "{notes:?}");
        assert!(notes[1].contains("under other:-20, not SCHED_FIFO"), "{notes:?}");
    }

    #[test]
    fn nothing_is_noted_where_real_time_threads_watched_from_the_beginning() {
        let cpu = |cut, policies: &[&str]| SupplySummary {
            cpu: 3,
            windows: 25,
            watched_s: 1.25,
            gaps: 800,
            cut,
            gaps_per_s: 640.4,
            largest_us: None,
            lost_percent: 2.0,
            most_lost_us: [Some(1_000.0), Some(5_700.0), None],
            policies: policies.iter().map(|&it| it.to_owned()).collect(),
        };
        assert!(notes(&[cpu(0, &["fifo:2"])]).is_empty());
        let said = notes(&[cpu(2, &["fifo:2"]), cpu(3, &["fifo:2", "other"])]);
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("5 gaps began"), "{said:?}");
        assert!(said[1].starts_with("the watching threads ran under other, not"), "{said:?}");
        assert_eq!(
            table(&[cpu(0, &[])]).rows,
            [["3", "25", "1.2", "800", "640", "–", "2.00", "1000", "5700", "–"]]
        );
    }
}
