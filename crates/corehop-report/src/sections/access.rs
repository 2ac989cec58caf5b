// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section about access times by working-set size, and about the cache levels that show in
//! them.

use super::cost::{cache_marks, statistics, wss_axis};
use super::panel::with_interval;
use crate::figure::{
    Axis, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace, SeriesPoint,
    Style, ValueUnit, Variant,
};
use crate::table::micros;
use corehop_plan::units::Bytes;
use corehop_plan::workload::LineState;
use corehop_results::Results;
use corehop_stats::access::AccessCurve;

pub(super) fn access(data: &Results) -> Option<PageSection> {
    if data.jobs.curves.is_empty() {
        return None;
    }
    let mut variants: Vec<Variant> = Vec::new();
    for curve in &data.jobs.curves {
        let label = label(curve, data.machines.len() > 1);
        if variants.last().is_none_or(|last| last.label != label) {
            variants.push(Variant { label, ..Variant::default() });
        }
        if let Some(variant) = variants.last_mut() {
            variant.series.extend(series(curve));
        }
    }
    let figure = Figure {
        id: "access-time".to_owned(),
        kind: FigureKind::Curves,
        x: wss_axis(),
        views: vec![Axis::new("time of an access in ns", "ns", true, ValueUnit::Number)],
        statistics: statistics(&[("median", true), ("min", false)]),
        variants,
        marks: cache_marks(data),
        marked: "cache size: declared, or measured if the declaration is contradicted",
    };
    let mut tables = vec![edges(data)];
    tables.extend(data.jobs.curves.iter().filter(|it| !it.plateaus.is_empty()).map(plateaus));
    tables.push(points(data));
    tables.retain(|table| !table.rows.is_empty());
    Some(PageSection {
        figures: vec![figure],
        tables,
        ..PageSection::new(SectionPlace::Detail, "access", "Access time by working-set size").says(
            "Each access waits for the previous access. The job accesses each line once, in random order. While a working set fits into a cache, an access has the latency of that cache: a plateau. Invalid lines come from memory; modified lines displace other lines that have to be written back first.",
        )
    })
}

fn label(curve: &AccessCurve, several: bool) -> String {
    let key = &curve.key;
    let mut label = format!("{}, {} pages, write ratio {}", key.pattern, key.page, key.write_ratio);
    if key.chains > 1 {
        label = format!("{label}, {} chains", key.chains);
    }
    if let Some(node) = key.node {
        label = format!("{label}, memory of node {node}");
    }
    if several { format!("{}: {label}", key.machine) } else { label }
}

fn series(curve: &AccessCurve) -> [FigureSeries; 2] {
    let state = curve.key.cache_state;
    let colour = match state {
        LineState::Valid => 3,
        LineState::Invalid => 6,
        LineState::Modified => 7,
    };
    let series = |statistic: &str, style, points| FigureSeries {
        name: format!("{state} lines"),
        statistic: statistic.to_owned(),
        colour,
        style,
        points,
    };
    let (mut median, mut least) = (Vec::new(), Vec::new());
    for point in &curve.points {
        let Some(access) = point.access_ns else { continue };
        let x = Bytes::new(point.wss_bytes).kib();
        let note = format!("{} of {} walks", access.n, point.n_all);
        least.push(SeriesPoint {
            x,
            y: vec![point.min_ns],
            note: note.clone(),
            ..SeriesPoint::default()
        });
        median.push(SeriesPoint {
            x,
            y: vec![Some(access.estimate)],
            low: vec![access.low],
            high: vec![access.high],
            note,
        });
    }
    [series("median", Style::Solid, median), series("min", Style::Dotted, least)]
}

/// Returns a table that compares the declared caches with the curve of access times.
fn edges(data: &Results) -> FigureTable {
    let mut table = FigureTable::new(
        "Declared caches against the curve",
        &["machine", "cache", "declared", "outcome", "because", "access on its plateau, ns"],
    )
    .shown();
    for machine in &data.machines {
        table.rows.extend(machine.edges.iter().map(|edge| {
            vec![
                machine.id.clone(),
                edge.cache.clone(),
                Bytes::new(edge.declared_bytes).to_string(),
                edge.outcome.word().to_owned(),
                edge.why.clone(),
                edge.access_ns.map_or_else(|| "–".to_owned(), micros),
            ]
        }));
    }
    table
}

fn plateaus(curve: &AccessCurve) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Plateaus, {}", label(curve, false)),
        &["from", "to", "access, ns", "points"],
    );
    table.rows.extend(curve.plateaus.iter().map(|plateau| {
        vec![
            Bytes::new(plateau.from_bytes).to_string(),
            Bytes::new(plateau.to_bytes).to_string(),
            micros(plateau.access_ns),
            plateau.points.to_string(),
        ]
    }));
    table
}

fn points(data: &Results) -> FigureTable {
    let mut table = FigureTable::new(
        "Time of an access in ns",
        &["WSS", "lines", "pattern", "pages", "write ratio", "valid walks", "median [95 %]", "min"],
    );
    let none = || "–".to_owned();
    for curve in &data.jobs.curves {
        let key = &curve.key;
        table.rows.extend(curve.points.iter().map(|point| {
            vec![
                Bytes::new(point.wss_bytes).to_string(),
                key.cache_state.to_string(),
                key.pattern.to_string(),
                key.page.to_string(),
                key.write_ratio.to_string(),
                format!("{} of {}", point.access_ns.map_or(0, |it| it.n), point.n_all),
                point.access_ns.as_ref().map_or_else(none, with_interval),
                point.min_ns.map_or_else(none, micros),
            ]
        }));
    }
    table
}
