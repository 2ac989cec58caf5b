// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost against working-set size, and against the length of a polluter's run.

use super::panel::{Panel, colour, count, median, panels, with_interval};
use crate::model::delay::Extrapolation;
use crate::model::summary::CellSummary;
use crate::platform::Platform;
use crate::report::data::ReportData;
use crate::report::figure::{
    Axis, Figure, FigureKind, Mark, Point, Section, Series, Style, Table, Unit, Variant,
};
use crate::report::table::micros;
use crate::units::Bytes;

/// The experiment whose cells are drawn against the preemption length.
pub(super) const SWEEP: &str = "polluter-sweep";

/// Cost against working-set size by class.
pub(super) fn cost(data: &ReportData) -> Option<Section> {
    let cells = data.summaries.iter().filter(|cell| &*cell.cell.experiment != SWEEP);
    let panels = panels(cells);
    if panels.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "cost-by-wss".to_owned(),
        kind: FigureKind::Curves,
        x: wss_axis(),
        views: vec![
            Axis::new("delay in µs", "µs", true, Unit::Number),
            Axis::new("delay in µs per KiB of working set", "µs/KiB", true, Unit::Number),
        ],
        statistics: statistics(&[("median", true), ("mean", false), ("max", true)]),
        variants: panels.iter().map(variant).collect(),
        marks: cache_marks(data),
    };
    Some(Section {
        figures: vec![figure],
        tables: panels.iter().map(table).chain(refusals(&panels)).collect(),
        ..Section::new("cost", "Cost by working-set size").says(
            "Median with its distribution-free 95 % interval (bars), mean, and the greatest \
                 value. A maximum grows with the number of samples: each says over how many it is. \
                 Vertical lines are cache sizes, as declared, or as found where that is \
                 contradicted. Values at or below zero cannot be drawn \
                 on a logarithmic axis; the tables have them.",
        )
    })
}

/// The horizontal axis of working-set sizes.
pub(super) fn wss_axis() -> Axis {
    Axis::new("working-set size", "WSS", true, Unit::Kib)
}

pub(super) fn statistics(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|&(name, on)| (name.to_owned(), on)).collect()
}

/// The sizes of the caches of all machines: declared, or found where that is contradicted.
pub(super) fn cache_marks(data: &ReportData) -> Vec<Mark> {
    let several = data.machines.len() > 1;
    let mut marks: Vec<Mark> = Vec::new();
    for machine in &data.machines {
        let sizes = machine.platform.iter().flat_map(Platform::cache_sizes);
        for (level, size) in sizes {
            let label =
                if several { format!("L{level} {}", machine.id) } else { format!("L{level}") };
            let mark = Mark { x: size.kib(), label };
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
            |(statistic, style)| Series {
                name: name.clone(),
                statistic: statistic.to_owned(),
                colour: colour(cells[0].cell.event),
                style,
                points: cells.iter().filter_map(|cell| point(cell, statistic)).collect(),
            },
        )
    });
    Variant { label: panel.label.clone(), categories: Vec::new(), series: series.collect() }
}

/// A cell as a point of a curve: the value and that per KiB.
fn point(cell: &CellSummary, statistic: &str) -> Option<Point> {
    let delay = cell.delay.as_ref()?;
    let per_kib = delay.per_kib;
    let point = Point {
        x: cell.cell.wss_kib(),
        note: format!("{} valid samples", count(cell)),
        ..Point::default()
    };
    Some(match statistic {
        "median" => {
            let median = delay.median();
            Point {
                y: vec![Some(median.estimate), Some(per_kib.median)],
                low: vec![median.low, per_kib.median_low],
                high: vec![median.high, per_kib.median_high],
                ..point
            }
        }
        "mean" => Point { y: vec![Some(delay.moments.mean), Some(per_kib.mean)], ..point },
        _ => Point { y: vec![Some(delay.max.value), Some(per_kib.max)], ..point },
    })
}

/// Everything that is known of the cells of a panel.
fn table(panel: &Panel) -> Table {
    let mut table = Table::new(
        format!("Delay in µs, {}", panel.label),
        &[
            "event",
            "WSS",
            "n",
            "median [95 %]",
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

/// Why nothing is stated beyond the samples, each reason once.
fn refusals(panels: &[Panel]) -> Option<Table> {
    let mut table = Table::new("Why a tail is refused", &["reason", "cells"]);
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
                micros(delay.moments.mean),
                delay.moments.std.map_or_else(none, micros),
                quantile(0.9),
                quantile(0.99),
                micros(delay.max.value),
                micros(delay.per_kib.median),
                delay.over_warm.map_or_else(none, |ratio| format!("{ratio:.2}×")),
            ]);
        }
        None => row.extend(std::iter::repeat_with(none).take(8)),
    }
    let value = |quantile: &Option<crate::model::quantile::Quantile>| {
        quantile.as_ref().map_or_else(none, |it| micros(it.estimate))
    };
    row.extend([value(&cell.warm_us), value(&cell.cold_bound_us), value(&cell.switch_us)]);
    row.push(cell.repaired_share.map_or_else(none, super::panel::percent));
    row.push(match cell.delay.as_ref().map(|delay| &delay.tail) {
        Some(Extrapolation::Quantile { p, estimate, interval, .. }) => {
            let ends = format!("[{}, {}]", micros(interval.low), micros(interval.high));
            format!("{:.3} %: {} {ends}", 100.0 * p, micros(*estimate))
        }
        Some(Extrapolation::Refused(_)) => "refused".to_owned(),
        None => none(),
    });
    row
}

/// Cost against the length for which a polluter ran.
pub(super) fn sweep(data: &ReportData) -> Option<Section> {
    let cells = data.summaries.iter().filter(|cell| &*cell.cell.experiment == SWEEP);
    let panels = panels(cells);
    if panels.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "cost-by-length".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("preemption length in ms", "length", false, Unit::Number),
        views: vec![
            Axis::new("delay in µs", "µs", true, Unit::Number),
            Axis::new("delay in µs per KiB of working set", "µs/KiB", true, Unit::Number),
        ],
        statistics: statistics(&[("median", true), ("max", false), ("cold − warm", true)]),
        variants: panels.iter().map(sweep_variant).collect(),
        marks: Vec::new(),
    };
    Some(Section {
        figures: vec![figure],
        tables: panels.iter().map(table).collect(),
        ..Section::new("sweep", "Cost by preemption length").says(
            "A polluter runs in the job's place for longer and longer. The delay grows until \
                   every useful line is evicted; cold less warm is where it must end.",
        )
    })
}

/// One series for each working-set size; the length asked for is on the axis.
fn sweep_variant(panel: &Panel) -> Variant {
    let mut series = Vec::new();
    for (colour, wss) in panel.sizes().into_iter().enumerate() {
        let mut cells: Vec<&&CellSummary> =
            panel.cells.iter().filter(|cell| cell.cell.wss_bytes == wss).collect();
        let length = |cell: &CellSummary| cell.length_us.map_or(0.0, |length| length.estimate);
        cells.sort_by(|a, b| length(a).total_cmp(&length(b)));
        let at = |cell: &CellSummary, point: Point| Point { x: length(cell) / 1e3, ..point };
        for (statistic, style) in [("median", Style::Solid), ("max", Style::Dashed)] {
            let points = cells.iter().filter_map(|cell| Some(at(cell, point(cell, statistic)?)));
            series.push(Series {
                name: Bytes::new(wss).to_string(),
                statistic: statistic.to_owned(),
                colour: colour + 3,
                style,
                points: points.collect(),
            });
        }
        let bound = |cell: &CellSummary| {
            let y = vec![Some(cell.cold_bound_us?.estimate), cell.cold_bound_us_per_kib];
            Some(Point { x: length(cell) / 1e3, y, ..Point::default() })
        };
        series.push(Series {
            name: Bytes::new(wss).to_string(),
            statistic: "cold − warm".to_owned(),
            colour: colour + 3,
            style: Style::Dotted,
            points: cells.iter().filter_map(|cell| bound(cell)).collect(),
        });
    }
    Variant { label: panel.label.clone(), categories: Vec::new(), series }
}
