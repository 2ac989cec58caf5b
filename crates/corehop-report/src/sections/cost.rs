// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section about the cost of events by working-set size.

use super::panel::{Panel, colour, count, median, panels, with_interval};
use crate::figure::{
    Axis, AxisMark, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace,
    SeriesPoint, Style, ValueUnit, Variant,
};
use crate::table::{micros, spread_text};
use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_results::Results;
use corehop_stats::delay::Extrapolation;
use corehop_stats::saturation::SWEEP;
use corehop_stats::summary::CellSummary;

/// Returns the section about the cost by working-set size, for each class of event.
pub(super) fn cost(data: &Results) -> Option<PageSection> {
    let cells = data.jobs.summaries.iter().filter(|cell| &*cell.cell.experiment != SWEEP);
    let panels = panels(cells);
    if panels.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "cost-by-wss".to_owned(),
        kind: FigureKind::Curves,
        x: wss_axis(),
        views: vec![
            Axis::new("delay in µs", "µs", true, ValueUnit::Number),
            Axis::new("delay in µs per KiB of working set", "µs/KiB", true, ValueUnit::Number),
        ],
        statistics: statistics(&[("median", true), ("mean", false), ("max", true)]),
        variants: panels.iter().map(variant).collect(),
        marks: cache_marks(data),
        marked: "cache size: declared, or measured if the declaration is contradicted",
    };
    Some(PageSection {
        figures: vec![figure],
        tables: panels.iter().map(table).chain(refusals(&panels)).collect(),
        ..PageSection::new(SectionPlace::Result, "cost", "Cost by working-set size").says(
            "The additional time of a resumed touch compared with a warm touch. A maximum grows with the number of samples, so the page states this number beside each maximum. A logarithmic axis cannot show values at or below zero; the tables have these values.",
        )
    })
}

/// Returns the horizontal axis of figures that show a quantity by working-set size.
pub(super) fn wss_axis() -> Axis {
    Axis::new("working-set size", "WSS", true, ValueUnit::Kib)
}

pub(super) fn statistics(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|&(name, on)| (name.to_owned(), on)).collect()
}

/// Returns marks at the cache sizes of all machines: the declared size, or the size that corehop found if measurements
/// contradict the declared size.
pub(super) fn cache_marks(data: &Results) -> Vec<AxisMark> {
    let several = data.machines.len() > 1;
    let mut marks: Vec<AxisMark> = Vec::new();
    for machine in &data.machines {
        let sizes = machine.platform.iter().flat_map(Platform::cache_sizes);
        for (level, size) in sizes {
            let label =
                if several { format!("L{level} {}", machine.id) } else { format!("L{level}") };
            let mark = AxisMark { x: size.kib(), label };
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    marks
}

fn variant(panel: &Panel) -> Variant {
    let series = panel.series().into_iter().flat_map(|(name, cells)| {
        [("median", Style::Solid), ("mean", Style::Dotted), ("max", Style::Dashed)].map(
            |(statistic, style)| FigureSeries {
                name: name.clone(),
                statistic: statistic.to_owned(),
                colour: colour(cells[0].cell.event),
                style,
                points: cells.iter().filter_map(|cell| point(cell, statistic)).collect(),
            },
        )
    });
    Variant { label: panel.label.clone(), series: series.collect(), ..Variant::default() }
}

/// Returns the point of a cell in a curve, with its value and the value per KiB.
pub(super) fn point(cell: &CellSummary, statistic: &str) -> Option<SeriesPoint> {
    let delay = cell.delay.as_ref()?;
    let per_kib = delay.per_kib;
    let point = SeriesPoint {
        x: cell.cell.wss_kib(),
        note: format!("{} valid samples", count(cell)),
        ..SeriesPoint::default()
    };
    Some(match statistic {
        "median" => {
            let median = delay.median();
            SeriesPoint {
                y: vec![Some(median.estimate), Some(per_kib.median)],
                low: vec![median.low, per_kib.median_low],
                high: vec![median.high, per_kib.median_high],
                ..point
            }
        }
        "mean" => SeriesPoint { y: vec![Some(delay.moments.mean), Some(per_kib.mean)], ..point },
        _ => SeriesPoint { y: vec![Some(delay.max.value), Some(per_kib.max)], ..point },
    })
}

/// Returns a table of all values known about the cells of a panel.
pub(super) fn table(panel: &Panel) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Delay in µs, {}", panel.label),
        &[
            "event",
            "WSS",
            "n",
            "median [95 %]",
            "medians of replicates",
            "mean",
            "std",
            "p90",
            "p99",
            "max",
            "median per KiB",
            "over warm",
            "warm touch",
            "cold − warm",
            "switch",
            "repaired",
            "beyond the samples",
        ],
    );
    for (name, cells) in panel.series() {
        table.rows.extend(cells.iter().map(|cell| row(&name, cell)));
    }
    table
}

/// Returns a table of the reasons why corehop states no value beyond the samples, with a row for
/// each reason.
fn refusals(panels: &[Panel]) -> Option<FigureTable> {
    let mut table = FigureTable::new("Reasons for a missing tail", &["reason", "cells"]);
    for panel in panels {
        for cell in &panel.cells {
            let Some(Extrapolation::Refused(why)) = cell.delay.as_ref().map(|it| &it.tail) else {
                continue;
            };
            let size = Bytes::new(cell.cell.wss_bytes);
            let name = format!("{} {size} ({})", panel.name(&cell.cell), panel.label);
            match table.rows.iter_mut().find(|row| row[0] == *why) {
                Some(row) => row[1] = format!("{}; {name}", row[1]),
                None => table.rows.push(vec![why.clone(), name]),
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(name: &str, cell: &CellSummary) -> Vec<String> {
    let none = || "–".to_owned();
    let mut row = vec![name.to_owned(), Bytes::new(cell.cell.wss_bytes).to_string(), count(cell)];
    match &cell.delay {
        Some(delay) => {
            let quantile = |p| delay.quantile(p).map_or_else(none, with_interval);
            row.extend([
                median(delay),
                spread_text(delay),
                micros(delay.moments.mean),
                delay.moments.std.map_or_else(none, micros),
                quantile(0.9),
                quantile(0.99),
                micros(delay.max.value),
                micros(delay.per_kib.median),
                delay.over_warm.map_or_else(none, |ratio| format!("{ratio:.2}×")),
            ]);
        }
        None => row.extend(std::iter::repeat_with(none).take(9)),
    }
    let value = |quantile: &Option<corehop_stats::quantile::Quantile>| {
        quantile.as_ref().map_or_else(none, |it| micros(it.estimate))
    };
    row.extend([value(&cell.warm_us), value(&cell.cold_bound_us), value(&cell.switch_us)]);
    row.push(cell.repaired_share.map_or_else(none, super::panel::percent));
    row.push(match cell.delay.as_ref().map(|delay| &delay.tail) {
        Some(Extrapolation::Quantile { p, estimate, interval, no_interval, .. }) => {
            let why = || no_interval.map_or_else(String::new, |why| format!("({why})"));
            let ends = interval
                .map_or_else(why, |it| format!("[{}, {}]", micros(it.low), micros(it.high)));
            format!("{:.3} %: {} {ends}", 100.0 * p, micros(*estimate))
        }
        Some(Extrapolation::Refused(_)) => "refused".to_owned(),
        None => none(),
    });
    row
}
