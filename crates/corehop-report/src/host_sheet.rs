// SPDX-License-Identifier: MIT OR Apache-2.0
//! A calibration, and a comparison of live with simulated cells, as text.

use super::figure::FigureTable;
use super::label::size;
use super::table::{micros, plain};
use corehop_decide::calibration::FactEstimate;
use corehop_decide::validation::aim::ErrorQuantiles;
use corehop_decide::validation::host::{AIMS, CellValidation, HostSheet, Part};
use corehop_plan::units::Bytes;

/// Returns the numbers that a calibration found, with their intervals.
pub fn numbers(numbers: &[FactEstimate]) -> String {
    let mut table = FigureTable::new("Numbers found", &["fact", "value", "between", "from", "n"]);
    table.rows = numbers
        .iter()
        .map(|row| {
            let interval = row.interval.as_ref().map(|[low, high]| format!("{low} to {high}"));
            let [fact, value, cells] = [&row.fact, &row.value, &row.cells].map(Clone::clone);
            vec![fact, value, interval.unwrap_or_else(|| "–".to_owned()), cells, row.n.to_string()]
        })
        .collect();
    plain(&table)
}

/// Writes live and simulated delays cell by cell, and the errors.
pub fn sheet(sheet: &HostSheet) -> String {
    let title = format!("{}: median delays in us, live beside simulated", sheet.platform);
    let columns = ["cell", "WSS", "live", "95 %", "n", "simulated", "error", "judged"];
    let mut table = FigureTable::new(title, &columns);
    table.rows = sheet.cells.iter().map(row).collect();
    format!("{}{}", plain(&table), summary(sheet))
}

fn row(it: &CellValidation) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), micros);
    let percent = |value: Option<f64>| {
        value.map_or_else(|| "–".to_owned(), |it| format!("{:.0} %", 100.0 * it))
    };
    let cell = &it.cell;
    let apart = if it.apart { " (apart)" } else { "" };
    let name = [cell.event.word(), &cell.load, cell.page.word(), cell.absence()].join(" ");
    let name = format!("{}{apart}", name.trim_end());
    let interval = it.live_interval.map(|of| format!("[{}, {}]", micros(of.low), micros(of.high)));
    let note = if it.part == Part::Judged { "yes" } else { it.part.word() };
    vec![
        name,
        size(Bytes::new(cell.wss_bytes)),
        micros(it.live_us),
        interval.unwrap_or_else(|| "–".to_owned()),
        it.n.to_string(),
        optional(it.simulated_us),
        percent(it.error),
        note.to_owned(),
    ]
}

/// Returns the errors, and the part of them that no better description could remove.
fn summary(sheet: &HostSheet) -> String {
    let line = |what: &str, errors: Option<ErrorQuantiles>| {
        errors.map(|ErrorQuantiles { rows, median, p90, .. }| {
            let [median, p90] = [median, p90].map(|it| 100.0 * it);
            format!(
                "{what}: {rows} cells, median error {median:.1} %, 90th percentile {p90:.1} %\n"
            )
        })
    };
    let order = sheet.order;
    let order = (order.pairs > 0).then(|| {
        let share = 100.0 * order.agree as f64 / order.pairs as f64;
        format!(
            "order of events: of {} pairs that differ in the live run, the simulation orders {} as the live run does ({share:.0} %)\n",
            order.pairs, order.agree
        )
    });
    let left_out = (sheet.left_out > 0).then(|| {
        format!("{} live samples were left out, because no description covers the far distance that the cores then had\n", sheet.left_out)
    });
    let halves = line("first half of the live run against the second", sheet.halves);
    [
        line("judged", sheet.judged),
        line("calibrating, not judged", sheet.calibrating),
        line("warm touches", sheet.warm),
        order,
        halves.map(|it| it.replace("median error", "apart by a median of")),
        left_out,
        Some(aims(sheet)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the aims for the errors, and whether they are reached.
fn aims(sheet: &HostSheet) -> String {
    let missed = sheet.missed();
    let outcome = if missed.is_empty() {
        "reached".to_owned()
    } else {
        format!("not reached: {}", missed.join("; "))
    };
    let [median, p90, order] = AIMS.map(|share| 100.0 * share);
    format!(
        "aims (median {median:.0} %, 90th percentile {p90:.0} %, {order:.0} % of the order): {outcome}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::example::held_against;
    use corehop_plan::platform::Platform;
    use corehop_plan::samples::Sample;
    use corehop_plan::samples::example::sample;
    use corehop_plan::workload::Event;

    #[test]
    fn a_cell_without_its_simulated_twin_has_a_dash_and_says_why_it_is_not_judged() {
        let at = |replicate: u64| Sample {
            event: Event::MemoryMigration,
            wss_bytes: 65_536,
            replicate: Some(replicate),
            ..sample()
        };
        let live: Vec<Sample> = (0..20).map(at).collect();
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let text = sheet(&held_against(&platform, &live, &[]));
        let line = text.lines().find(|it| it.contains("memory_migration")).unwrap();
        assert!(line.ends_with("not simulated") && line.contains('–'), "{text}");
        assert!(!text.contains("judged:"), "{text}");
        let judged = sheet(&held_against(&platform, &live, &live));
        assert!(judged.contains("judged: 1 cells, median error 0.0 %"), "{judged}");
    }

    #[test]
    fn a_number_without_an_interval_has_a_dash() {
        let number = FactEstimate {
            fact: "memory.local".to_owned(),
            value: "104.2 ns".to_owned(),
            interval: None,
            cells: "flush".to_owned(),
            n: 12,
        };
        assert!(numbers(&[number]).contains('–'));
    }
}
