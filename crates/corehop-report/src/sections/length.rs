// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the delay by preemption length, sample by sample, and about the requested lengths
//! compared with the measured ones.

use super::cost::statistics;
use super::panel::{colour, with_interval};
use crate::figure::{
    Axis, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace, SeriesPoint,
    Style, ValueUnit, Variant,
};
use crate::table::micros;
use corehop_plan::units::Bytes;
use corehop_results::Results;
use corehop_stats::lengths::LengthSummary;
use corehop_stats::scatter::Cloud;

/// Returns the figure that shows every sample as a point.
pub(super) fn scatter(data: &Results) -> Option<PageSection> {
    let mut variants: Vec<(u8, Variant)> = Vec::new();
    for cloud in &data.jobs.clouds {
        let cell = &cloud.cell;
        let label = format!(
            "{}, load {}, {} pages, {}",
            Bytes::new(cell.wss_bytes),
            cell.load,
            cell.page,
            cell.experiment
        );
        // Lengths that vary say most about length: they come first.
        let rank = u8::from(!cell.preemption_length.starts_with("uniform"));
        let known = variants.iter().position(|(_, it)| it.label == label);
        let place = known.unwrap_or_else(|| {
            variants.push((rank, Variant { label, ..Variant::default() }));
            variants.len() - 1
        });
        variants[place].0 = variants[place].0.min(rank);
        variants[place].1.series.extend(points(cloud));
    }
    variants.sort_by_key(|&(rank, _)| rank);
    let (table, any) = (table(&data.jobs.clouds), !variants.is_empty());
    let figure = Figure {
        id: "delay-by-length".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("actual preemption length, in ms", "length", false, ValueUnit::Number),
        views: vec![Axis::new("delay in µs", "µs", false, ValueUnit::Number)],
        statistics: statistics(&[("valid", true), ("disturbed", false)]),
        variants: variants.into_iter().map(|(_, variant)| variant).collect(),
        marks: Vec::new(),
        marked: "",
    };
    any.then(|| PageSection {
        figures: vec![figure],
        tables: vec![table],
        ..PageSection::new(SectionPlace::Detail, "length", "Delay by preemption length").says(
            "One point per sample. Disturbed samples, which include the disturbance, can be shown in addition to the valid samples. Large clouds are thinned evenly; the table states the number of points, and the highest point is always shown.",
        )
    })
}

fn points(cloud: &Cloud) -> Vec<FigureSeries> {
    let name = format!("{} {}", cloud.cell.event, cloud.cell.preemption_length);
    let kinds =
        [("valid", Style::Points, &cloud.valid), ("disturbed", Style::Hollow, &cloud.disturbed)];
    kinds
        .into_iter()
        .filter(|(_, _, points)| !points.is_empty())
        .map(|(statistic, style, points)| FigureSeries {
            name: name.clone(),
            statistic: statistic.to_owned(),
            colour: colour(cloud.cell.event),
            style,
            points: points
                .iter()
                .map(|&[x, y]| SeriesPoint { x, y: vec![Some(y)], ..SeriesPoint::default() })
                .collect(),
        })
        .collect()
}

fn table(clouds: &[Cloud]) -> FigureTable {
    let mut table = FigureTable::new(
        "Points",
        &["event", "length", "WSS", "load", "pages", "valid", "shown", "disturbed", "shown"],
    );
    for cloud in clouds {
        let cell = &cloud.cell;
        table.rows.push(vec![
            cell.event.to_string(),
            cell.preemption_length.to_string(),
            Bytes::new(cell.wss_bytes).to_string(),
            cell.load.to_string(),
            cell.page.to_string(),
            cloud.n_valid.to_string(),
            cloud.valid.len().to_string(),
            cloud.n_disturbed.to_string(),
            cloud.disturbed.len().to_string(),
        ]);
    }
    table
}

/// Returns the section that compares the requested preemption lengths with the measured lengths.
pub(super) fn asked_and_got(data: &Results) -> Option<PageSection> {
    if data.jobs.lengths.is_empty() {
        return None;
    }
    let mut variants: Vec<Variant> = Vec::new();
    let mut table = FigureTable::new(
        "Excess over the requested length, in µs",
        &[
            "asked for, µs",
            "load",
            "n",
            "got, µs",
            "excess: median [95 %]",
            "excess: p99",
            "excess: max",
        ],
    );
    for length in &data.jobs.lengths {
        let label = format!("load {}", length.load);
        if variants.last().is_none_or(|last| last.label != label) {
            variants.push(Variant { label, series: empty(), ..Variant::default() });
        }
        if let Some(variant) = variants.last_mut() {
            for series in &mut variant.series {
                series.points.extend(excess(length, &series.statistic));
            }
        }
        table.rows.push(row(length));
    }
    let figure = Figure {
        id: "length-got".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("requested preemption length, in µs", "asked", true, ValueUnit::Number),
        views: vec![
            Axis::new(
                "excess over the requested length, in µs",
                "excess",
                false,
                ValueUnit::Number,
            ),
            Axis::new("actual preemption length, in µs", "got", true, ValueUnit::Number),
        ],
        statistics: statistics(&[("median", true), ("p99", false), ("max", true)]),
        variants,
        marks: Vec::new(),
        marked: "",
    };
    Some(PageSection {
        figures: vec![figure],
        tables: vec![table],
        ..PageSection::new(SectionPlace::Detail, "asked", "Requested and actual preemption lengths").says(
            "A relation of delay and length is only as accurate as the match of actual and requested length. The excess includes the timer and the wake-up.",
        )
    })
}

fn empty() -> Vec<FigureSeries> {
    [("median", Style::Solid), ("p99", Style::Dotted), ("max", Style::Dashed)]
        .into_iter()
        .enumerate()
        .map(|(place, (statistic, style))| FigureSeries {
            name: statistic.to_owned(),
            statistic: statistic.to_owned(),
            colour: [3, 4, 6][place],
            style,
            points: Vec::new(),
        })
        .collect()
}

fn excess(length: &LengthSummary, statistic: &str) -> Option<SeriesPoint> {
    let x = length.requested_us;
    let note = format!("{} absences", length.excess_us.n);
    Some(match statistic {
        "median" => SeriesPoint {
            x,
            y: vec![Some(length.excess_us.estimate), Some(length.got_us.estimate)],
            low: vec![length.excess_us.low, length.got_us.low],
            high: vec![length.excess_us.high, length.got_us.high],
            note,
        },
        "p99" => {
            let y = vec![Some(length.excess_p99_us?.estimate), None];
            SeriesPoint { x, y, note, ..SeriesPoint::default() }
        }
        _ => {
            let y = vec![Some(length.excess_max_us.value), None];
            SeriesPoint { x, y, note, ..SeriesPoint::default() }
        }
    })
}

fn row(length: &LengthSummary) -> Vec<String> {
    vec![
        micros(length.requested_us),
        length.load.clone(),
        length.excess_us.n.to_string(),
        with_interval(&length.got_us),
        with_interval(&length.excess_us),
        length.excess_p99_us.as_ref().map_or_else(|| "–".to_owned(), with_interval),
        micros(length.excess_max_us.value),
    ]
}
