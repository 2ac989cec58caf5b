// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the cost of an event by the length for which a polluter or a load ran, and about
//! the length at which the cost stops growing.

use super::cost::{point, statistics, table};
use super::panel::{Panel, panels, percent};
use crate::figure::{
    Axis, AxisMark, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace,
    SeriesPoint, Style, ValueUnit, Variant,
};
use crate::table::micros;
use corehop_plan::units::Bytes;
use corehop_results::Results;
use corehop_stats::cell::CellKey;
use corehop_stats::saturation::{SWEEP, Saturation, SaturationLength, same_but_length};
use corehop_stats::summary::CellSummary;

/// Returns the section about the cost by the length for which a polluter ran.
pub(super) fn sweep(data: &Results) -> Option<PageSection> {
    let cells = data.jobs.summaries.iter().filter(|cell| &*cell.cell.experiment == SWEEP);
    let panels = panels(cells);
    if panels.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "cost-by-length".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("preemption length in ms", "length", false, ValueUnit::Number),
        views: vec![
            Axis::new("delay in µs", "µs", true, ValueUnit::Number),
            Axis::new("delay in µs per KiB of working set", "µs/KiB", true, ValueUnit::Number),
        ],
        statistics: statistics(&[("median", true), ("max", false), ("cold − warm", true)]),
        variants: panels.iter().map(|panel| variant(panel, &data.saturations)).collect(),
        marks: Vec::new(),
        marked: "shortest length that can fill a cache",
    };
    let section = PageSection::new(SectionPlace::Result, "sweep", "Cost by preemption length")
        .says(
            "A polluter, or the load, replaces the job for increasing times. The delay grows until every useful line is evicted. The limit of the delay is the cold time minus the warm time.",
        )
        .says(
            "The delay has stopped growing at the first length beyond which no length costs more by over a tenth of the largest median. A vertical line shows the time to refill a cache at the measured rate: no shorter length can evict the whole cache. Because caches keep some old lines, the growth may end later.",
        );
    let tables = saturation(data).into_iter().chain(panels.iter().map(table)).collect();
    Some(PageSection { figures: vec![figure], tables, ..section })
}

/// Returns a variant of the figure with one series for each working-set size and each polluter or
/// load; the axis shows the measured length.
fn variant(panel: &Panel, saturations: &[Saturation]) -> Variant {
    let mut groups: Vec<Vec<&CellSummary>> = Vec::new();
    for &cell in &panel.cells {
        match groups.iter_mut().find(|known| same_but_length(&known[0].cell, &cell.cell)) {
            Some(known) => known.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    let sizes = panel.sizes();
    let several = groups.len() > sizes.len();
    let series = groups.into_iter().flat_map(|cells| {
        let first = &cells[0].cell;
        let colour = sizes.iter().position(|&wss| wss == first.wss_bytes).unwrap_or_default();
        let mut name = Bytes::new(first.wss_bytes).to_string();
        if several {
            name = format!("{name} ({})", ran(first));
        }
        curves(&name, colour + 3, cells)
    });
    let its = saturations.iter().filter(|it| it.cell.same_panel(&panel.cells[0].cell));
    Variant {
        label: panel.label.clone(),
        series: series.collect(),
        marks: marks(its),
        ..Variant::default()
    }
}

/// Returns the polluter or load that ran in place of the job.
fn ran(cell: &CellKey) -> String {
    cell.polluter.as_deref().map_or_else(|| cell.preempted_by.to_string(), str::to_owned)
}

/// Returns the curves of the median, the maximum and the bound for cells that differ only in the
/// length.
fn curves(name: &str, colour: usize, mut cells: Vec<&CellSummary>) -> Vec<FigureSeries> {
    let length = |cell: &CellSummary| cell.length_us.map_or(0.0, |length| length.estimate);
    cells.sort_by(|a, b| length(a).total_cmp(&length(b)));
    let at =
        |cell: &CellSummary, point: SeriesPoint| SeriesPoint { x: length(cell) / 1e3, ..point };
    let bound = |cell: &CellSummary| {
        let y = vec![Some(cell.cold_bound_us?.estimate), cell.cold_bound_us_per_kib];
        Some(SeriesPoint { y, ..SeriesPoint::default() })
    };
    let kinds = [("median", Style::Solid), ("max", Style::Dashed), ("cold − warm", Style::Dotted)];
    let series = |(statistic, style)| FigureSeries {
        name: name.to_owned(),
        statistic: String::from(statistic),
        colour,
        style,
        points: cells
            .iter()
            .filter_map(|cell| {
                let point =
                    if style == Style::Dotted { bound(cell) } else { point(cell, statistic) };
                Some(at(cell, point?))
            })
            .collect(),
    };
    kinds.map(series).into()
}

/// Returns marks at the refill times of the caches, for each polluter or load at its largest
/// working set.
fn marks<'a>(saturations: impl Iterator<Item = &'a Saturation>) -> Vec<AxisMark> {
    let mut by_load: Vec<&Saturation> = Vec::new();
    for one in saturations {
        let same = |it: &&mut &Saturation| ran(&it.cell) == ran(&one.cell);
        match by_load.iter_mut().find(same) {
            Some(known) if known.cell.wss_bytes < one.cell.wss_bytes => *known = one,
            Some(_) => {}
            None => by_load.push(one),
        }
    }
    let several = by_load.len() > 1;
    let of_one = |one: &Saturation| {
        let load = if several { format!(", {}", ran(&one.cell)) } else { String::new() };
        let times = one.refills.iter().filter_map(|it| Some((it.cache.clone(), it.time_us?)));
        let mark = |(cache, us)| AxisMark { x: us / 1e3, label: format!("{cache} refilled{load}") };
        times.map(mark).collect::<Vec<_>>()
    };
    by_load.into_iter().flat_map(of_one).collect()
}

/// Returns a table of the lengths at which the delay stops growing, as measured and as predicted.
pub(super) fn saturation(data: &Results) -> Option<FigureTable> {
    let mut caches: Vec<&str> = Vec::new();
    for refill in data.saturations.iter().flat_map(|one| &one.refills) {
        if !caches.contains(&refill.cache.as_str()) {
            caches.push(&refill.cache);
        }
    }
    let mut table = FigureTable::new(
        "End of the growth of the delay, against the time to refill a cache",
        &[
            "WSS",
            "load",
            "ran meanwhile",
            "stops growing at, ms",
            "delay at the longest, µs",
            "cold − warm, µs",
            "share",
            "lines in, a µs",
            "known by",
        ],
    )
    .shown();
    table.head.extend(caches.iter().map(|cache| format!("{cache} refilled, ms")));
    let several = data.machines.len() > 1;
    for one in &data.saturations {
        let mut fields = row(one, &caches);
        if several {
            fields[0] = format!("{} on {}", fields[0], one.cell.machine);
        }
        table.rows.push(fields);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(one: &Saturation, caches: &[&str]) -> Vec<String> {
    let none = || "–".to_owned();
    let ms = |us: f64| micros(us / 1e3);
    let mut row = vec![
        Bytes::new(one.cell.wss_bytes).to_string(),
        one.cell.load.to_string(),
        ran(&one.cell),
        stops(&one.reached),
        micros(one.final_us),
        one.bound_us.map_or_else(none, micros),
        one.share_of_bound.map_or_else(none, percent),
        one.fill.map_or_else(none, |fill| micros(fill.lines_per_s / 1e6)),
        one.fill.map_or_else(none, |fill| fill.source.to_string()),
    ];
    row.extend(caches.iter().map(|cache| {
        let refill = one.refills.iter().find(|refill| refill.cache == *cache);
        refill.and_then(|refill| refill.time_us).map_or_else(none, ms)
    }));
    row
}

/// Returns the length at which a delay stops growing, such as `4.05 [2.03, 8.01]`, with `…` for an
/// end that the samples do not determine.
fn stops(reached: &SaturationLength) -> String {
    let ms = |us: f64| micros(us / 1e3);
    match *reached {
        SaturationLength::At { length_us, earliest_us, latest_us } => {
            let end = |us: Option<f64>| us.map_or_else(|| "…".to_owned(), ms);
            format!("{} [{}, {}]", ms(length_us), end(earliest_us), end(latest_us))
        }
        SaturationLength::NotBy { longest_us } => format!("not by {}", ms(longest_us)),
        SaturationLength::NoDelay => "no delay".to_owned(),
    }
}
