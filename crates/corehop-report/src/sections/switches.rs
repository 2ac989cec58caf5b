// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about core switches: the ladder of mechanisms, the time of a call by its size, and the point from
//! which a switch pays.

use serde_json::{Value, json};

use super::super::figure::{
    Axis, Figure, FigureKind, FigureSeries, PageSection, SectionPlace, SeriesPoint, Style,
    ValueUnit, Variant,
};
use super::super::switching;
use super::TerminalTables;
use super::kind_front::KindFront;
use crate::front::{MOST_LINES, SurenessCheck, WordedChart, WordedLine};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_results::Results;
use corehop_stats::switches::{SwitchResults, SwitchSummary};

/// Tables of core switches have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the section about core switches, if the data has any.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| PageSection {
        figures: figure(&data.switches.summaries).into_iter().collect(),
        // That of every way is on demand.
        tables: tables.into_iter().enumerate().map(|(at, it)| if at < 2 { it.shown() } else { it }).collect(),
        ..notes(data).into_iter().fold(PageSection::new(SectionPlace::Result, "switches", "Core switches"), PageSection::says).says(
            "The cost of a switch is half of the additional time of a call on the other core, because such a call switches there and back. Batches of all mechanisms alternate. A caller that waits for each call gains only if the call runs faster on the other core by more than the switch costs; a caller with several outstanding calls gains from the point that the table states.",
        )
    });
    section.into_iter().collect()
}

/// Returns the first screen about core switches, with the least costly ways to make the first call, and with
/// the call without a switch.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let all = &data.switches.summaries;
    let first = &all.first()?.of;
    let mut ways: Vec<&SwitchSummary> =
        all.iter().filter(|it| it.of == *first && it.outstanding == 1).collect();
    ways.sort_by(|a, b| a.mean_ns.estimate.total_cmp(&b.mean_ns.estimate));
    let replicates = all.iter().map(|it| it.mean_ns.replicates);
    Some(KindFront {
        title: "Cost of switching cores for one call".to_owned(),
        answer: notes(data).into_iter().next(),
        chart: Some(WordedChart {
            quantity: "time of a call in ns, the least costly ways".to_owned(),
            unit: "ns",
            point: "mean",
            level: 0.95,
            under: format!("{}, CPU {} to {}", first.call, first.from_cpu, first.to_cpu),
            lines: ways.iter().take(MOST_LINES).map(|it| line(it)).collect(),
        }),
        checks: SurenessCheck::replicated("replicates of each mechanism", replicates)
            .into_iter()
            .collect(),
        next: (
            "corehop offload --os-cores 1 -- PROGRAM".to_owned(),
            "measures whether off-load pays for a whole program.",
        ),
    })
}

fn line(it: &SwitchSummary) -> WordedLine {
    let is_own = it.mechanism == SwitchMechanism::None;
    let other = || format!("on the other core, by {}", it.mechanism);
    WordedLine {
        words: if is_own { "on the caller's own core".to_owned() } else { other() },
        value: it.mean_ns.estimate,
        ends: it.mean_ns.interval.map(|it| (it.low, it.high)),
        group: usize::from(!is_own),
    }
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    let SwitchResults { summaries, not_measured } = &data.switches;
    TerminalTables { before: switching::tables(summaries, not_measured), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    switching::notes(&data.switches.summaries, &data.switches.not_measured)
}

/// Returns the JSON results about the mechanisms, and about the mechanisms that were not measured, with the
/// reason.
pub(super) fn results(data: &Results) -> Vec<Value> {
    let summaries = data.switches.summaries.iter().map(|it| json!(it));
    summaries.chain(data.switches.not_measured.iter().map(|it| json!(it))).collect()
}

/// Returns a figure of the time of calls by their size, or `None` if no call with a size was measured.
fn figure(summaries: &[SwitchSummary]) -> Option<Figure> {
    let mut variants: Vec<Variant> = Vec::new();
    for it in summaries.iter().filter(|it| it.of.call.is_sized()) {
        let class = it.of.pair_class.map_or_else(String::new, |class| format!(", {class}"));
        let label = format!("{}, CPU {}→{}{class}", it.of.call, it.of.from_cpu, it.of.to_cpu);
        let at = variants.iter().position(|known| known.label == label).unwrap_or_else(|| {
            variants.push(Variant { label, ..Variant::default() });
            variants.len() - 1
        });
        add(&mut variants[at], it);
    }
    (!variants.is_empty()).then(|| Figure {
        id: "switches".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("size of the call in KiB", "size", true, ValueUnit::Kib),
        views: vec![Axis::new("time of a call in ns", "ns", true, ValueUnit::Number)],
        statistics: Vec::new(),
        variants,
        marks: Vec::new(),
        marked: "",
    })
}

/// Adds a point to the curve of its mechanism; a broken line stands for a mechanism with several calls
/// outstanding.
fn add(variant: &mut Variant, it: &SwitchSummary) {
    let name = match it.outstanding {
        1 => it.mechanism.to_string(),
        several => format!("{}, {several} outstanding", it.mechanism),
    };
    let at = variant.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
        let place = SwitchMechanism::ALL.iter().position(|&known| known == it.mechanism);
        let style = if it.outstanding == 1 { Style::Solid } else { Style::Dashed };
        let (statistic, points) = (String::new(), Vec::new());
        variant.series.push(FigureSeries {
            name,
            statistic,
            colour: place.unwrap_or(0),
            style,
            points,
        });
        variant.series.len() - 1
    });
    let interval = it.mean_ns.interval;
    variant.series[at].points.push(SeriesPoint {
        x: it.of.bytes as f64 / 1024.0,
        y: vec![Some(it.mean_ns.estimate)],
        low: vec![interval.map(|interval| interval.low)],
        high: vec![interval.map(|interval| interval.high)],
        note: format!("{} batches", it.batches),
    });
}
