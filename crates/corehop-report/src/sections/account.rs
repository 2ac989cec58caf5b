// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about lost samples and their causes, about verdicts on the observations of published
//! studies, and about whether the latencies of the caches add up to the delays.

use super::cost::statistics;
use super::panel::percent;
use crate::figure::{
    Axis, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace, SeriesPoint,
    Style, ValueUnit, Variant,
};
use crate::table::micros;
use corehop_plan::samples::Cause;
use corehop_plan::units::Bytes;
use corehop_results::Results;
use corehop_stats::balance::Balance;
use corehop_stats::budget::SampleFate;
use corehop_stats::verdict::{ClaimVerdict, Comparison, Says, TestOutcome};

/// Returns the section about the number of valid samples, and about the disturbances that made
/// other samples invalid.
pub(super) fn budget(data: &Results) -> Option<PageSection> {
    let budget = &data.budget;
    if budget.total.n_all == 0 {
        return None;
    }
    let causes: Vec<Cause> = budget.total.lost_to.keys().copied().collect();
    let figure = Figure {
        id: "disturbance-budget".to_owned(),
        kind: FigureKind::Bars,
        x: Axis::new("share of the samples", "share", false, ValueUnit::Share),
        views: vec![
            Axis::new("share of the samples", "share", false, ValueUnit::Share),
            Axis::new("samples", "number", false, ValueUnit::Number),
        ],
        statistics: Vec::new(),
        variants: vec![
            bars("by event and load", &budget.by_event, &causes),
            bars("by working-set size", &budget.by_wss, &causes),
        ],
        marks: Vec::new(),
        marked: "",
    };
    let total = &budget.total;
    Some(PageSection {
        figures: vec![figure],
        tables: vec![
            fates("by event and load", &budget.by_event, &causes),
            fates("by working-set size", &budget.by_wss, &causes),
        ],
        ..PageSection::new(SectionPlace::Trust, "budget", "Disturbance budget").says(format!(
            "Of {} samples {} are valid unchanged, and {} are valid after disturbed segments were cut out of a touch; the rest are flagged with their causes. A sample with several causes counts once, under the most significant cause.",
            total.n_all,
            percent(total.clean_share),
            percent(total.repaired_share)
        ))
    })
}

fn bars(label: &str, fates: &[SampleFate], causes: &[Cause]) -> Variant {
    let point = |place: usize, share: f64, count: usize| SeriesPoint {
        x: place as f64,
        y: vec![Some(share), Some(count as f64)],
        ..SeriesPoint::default()
    };
    let series = |name: &str, colour, points| FigureSeries {
        name: name.to_owned(),
        statistic: String::new(),
        colour,
        style: Style::Bars,
        points,
    };
    let of = |value: &dyn Fn(&SampleFate) -> (f64, usize)| -> Vec<SeriesPoint> {
        let values = fates.iter().map(value).enumerate();
        values.map(|(place, (share, count))| point(place, share, count)).collect()
    };
    let mut all = vec![
        series("valid", 5, of(&|fate| (fate.clean_share, fate.clean))),
        series("repaired", 4, of(&|fate| (fate.repaired_share, fate.repaired))),
    ];
    all.extend(causes.iter().enumerate().map(|(place, cause)| {
        let lost = |fate: &SampleFate| {
            let share = fate.lost_share.get(cause).copied().unwrap_or_default();
            (share, fate.lost_to.get(cause).copied().unwrap_or_default())
        };
        series(cause.word(), 8 + place, of(&lost))
    }));
    Variant {
        label: label.to_owned(),
        categories: fates.iter().map(|fate| fate.of.clone()).collect(),
        series: all,
        ..Variant::default()
    }
}

fn fates(label: &str, fates: &[SampleFate], causes: &[Cause]) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Samples {label}"),
        &["of", "all", "valid share", "untouched", "repaired"],
    );
    table.head.extend(causes.iter().map(ToString::to_string));
    for fate in fates {
        let mut row = vec![
            fate.of.clone(),
            fate.n_all.to_string(),
            percent(fate.valid_share),
            fate.clean.to_string(),
            fate.repaired.to_string(),
        ];
        let lost = causes.iter().map(|cause| fate.lost_to.get(cause).copied().unwrap_or_default());
        row.extend(lost.map(|count| count.to_string()));
        table.rows.push(row);
    }
    table
}

/// Returns the section about the observations of published studies, and whether they hold on this
/// machine.
pub(super) fn verdicts(data: &Results) -> Option<PageSection> {
    let mut tables = Vec::new();
    for machine in data.machines.iter().filter(|machine| !machine.verdicts.is_empty()) {
        let mut table = FigureTable::new(
            format!("Observations on {}", machine.id),
            &["observation", "here", "because", "source"],
        )
        .shown();
        table.rows.extend(machine.verdicts.iter().map(verdict));
        tables.push(table);
        let mut rules = FigureTable::new("How each is tested", &["observation", "rule"]);
        rules
            .rows
            .extend(machine.verdicts.iter().map(|it| vec![it.id.to_owned(), it.rule.to_owned()]));
        tables.push(rules);
        let compared = machine.verdicts.iter().filter(|it| !it.comparisons.is_empty());
        tables.extend(compared.map(comparisons));
    }
    (!tables.is_empty()).then(|| PageSection {
        tables,
        ..PageSection::new(
            SectionPlace::Trust,
            "verdicts",
            "Observations of the studies, tested here",
        )
    })
}

pub(super) fn word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Holds => "holds",
        TestOutcome::DoesNot => "does not hold",
        TestOutcome::CannotTell => "cannot tell",
    }
}

fn verdict(verdict: &ClaimVerdict) -> Vec<String> {
    vec![
        verdict.claim.to_owned(),
        word(verdict.outcome).to_owned(),
        verdict.evidence.clone(),
        format!("{} ({})", verdict.source, verdict.id),
    ]
}

fn comparisons(verdict: &ClaimVerdict) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Evidence for {}", verdict.id),
        &["compared", "WSS", "found", "interval", "margin", "says"],
    );
    table.rows.extend(verdict.comparisons.iter().map(comparison));
    table
}

fn comparison(comparison: &Comparison) -> Vec<String> {
    let unit = if comparison.unit == "1" { "" } else { comparison.unit };
    let value = |value: f64| format!("{} {unit}", micros(value)).trim_end().to_owned();
    let ends = comparison
        .interval
        .map_or_else(|| "–".to_owned(), |it| format!("[{}, {}]", micros(it.low), micros(it.high)));
    let says = match comparison.says {
        Says::Fits => "fits",
        Says::Contradicts => "contradicts",
        Says::Open => "open",
    };
    vec![
        comparison.what.clone(),
        Bytes::new(comparison.wss_bytes).to_string(),
        value(comparison.estimate),
        ends,
        value(comparison.margin),
        says.to_owned(),
    ]
}

/// Returns the section that compares delays with the sum of the latencies of the caches, and states
/// the share of address translation.
pub(super) fn balance(data: &Results) -> Option<PageSection> {
    let with_any = data.machines.iter().filter(|machine| !machine.balances.is_empty());
    let variants: Vec<Variant> = with_any
        .clone()
        .flat_map(|machine| {
            let mut loads: Vec<&str> = Vec::new();
            for balance in &machine.balances {
                if !loads.contains(&&*balance.cell.load) {
                    loads.push(&balance.cell.load);
                }
            }
            loads.into_iter().map(move |load| {
                balanced(&format!("{}, load {load}", machine.id), &machine.balances, load)
            })
        })
        .collect();
    let mut tables: Vec<FigureTable> = with_any
        .clone()
        .flat_map(|machine| [levels(machine), balances(&machine.id, &machine.balances)])
        .collect();
    tables.push(translations(data));
    tables.retain(|table| !table.rows.is_empty());
    let figure = Figure {
        id: "closing-balance".to_owned(),
        kind: FigureKind::Bars,
        x: Axis::new("delay in µs", "µs", false, ValueUnit::Number),
        views: vec![
            Axis::new("µs per KiB of working set", "µs/KiB", false, ValueUnit::Number),
            Axis::new("delay in µs", "µs", false, ValueUnit::Number),
        ],
        statistics: statistics(&[]),
        variants,
        marks: Vec::new(),
        marked: "",
    };
    let figures = if figure.variants.is_empty() { Vec::new() } else { vec![figure] };
    (!tables.is_empty()).then(|| PageSection {
        figures,
        tables,
        ..PageSection::new(SectionPlace::Trust, "balance", "Closing balance").says(
            "If every line of the working set comes from the next level that still has it, the delay is lines × (latency there − warm time of a line). The residual is the measured delay minus this product. Lines that were not evicted make the residual negative. A latency measured with larger sets also makes the residual negative, because memory is faster for a small set, whose translations and rows stay cached. Transfers between caches, write-backs and translation make the residual positive. Events with unknown latencies are omitted: those of a cache without a plateau in the access-time curve.",
        )
    })
}

fn balanced(label: &str, balances: &[Balance], load: &str) -> Variant {
    let mine: Vec<&Balance> = balances
        .iter()
        .filter(|it| &*it.cell.load == load && it.cell.page == corehop_plan::workload::Page::Base)
        .collect();
    let series = |name: &str, colour, value: &dyn Fn(&Balance) -> [f64; 2]| FigureSeries {
        name: name.to_owned(),
        statistic: String::new(),
        colour,
        style: Style::Bars,
        points: mine
            .iter()
            .enumerate()
            .map(|(place, it)| SeriesPoint {
                x: place as f64,
                y: value(it).map(Some).to_vec(),
                ..SeriesPoint::default()
            })
            .collect(),
    };
    Variant {
        label: label.to_owned(),
        categories: mine.iter().map(|it| category(&it.cell)).collect(),
        series: vec![
            series("explained", 4, &|it| [it.explained_us_per_kib, it.explained_us]),
            series("residual", 6, &|it| [it.residual_us_per_kib, it.residual_us]),
        ],
        ..Variant::default()
    }
}

/// Returns a category of the figure: the event and the working-set size, with the preemption length
/// if the length varied.
fn category(cell: &corehop_stats::cell::CellKey) -> String {
    let size = Bytes::new(cell.wss_bytes);
    if cell.preemption_length.starts_with("uniform") {
        format!("{} {} {size}", cell.event, cell.preemption_length)
    } else {
        format!("{} {size}", cell.event)
    }
}

fn levels(machine: &corehop_results::MachineNote) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Latencies used, {}", machine.id),
        &["level", "size", "access, ns", "from"],
    );
    let Some(levels) = &machine.levels else { return table };
    let time = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), micros);
    let caches = levels.caches.iter().zip(&levels.sources).map(|((label, size, ns), source)| {
        vec![label.clone(), Bytes::new(*size).to_string(), time(*ns), source.clone()]
    });
    table.rows.extend(caches);
    let source = levels.sources.last().cloned().unwrap_or_default();
    table.rows.push(vec!["memory".to_owned(), String::new(), time(levels.memory_ns), source]);
    table
}

fn balances(machine: &str, balances: &[Balance]) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Median delay and its causes, {machine}"),
        &[
            "event",
            "WSS",
            "load",
            "pages",
            "lines from",
            "ns per line",
            "warm, ns per line",
            "measured, µs",
            "explained, µs",
            "residual, µs",
            "explained share",
            "by misses, µs",
        ],
    );
    let none = || "–".to_owned();
    table.rows.extend(balances.iter().map(|account| {
        vec![
            account.cell.event.to_string(),
            Bytes::new(account.cell.wss_bytes).to_string(),
            account.cell.load.to_string(),
            account.cell.page.to_string(),
            account.from.clone(),
            micros(account.from_ns),
            micros(account.warm_line_ns),
            micros(account.measured_us),
            micros(account.explained_us),
            micros(account.residual_us),
            account.explained_share.map_or_else(none, percent),
            account.indirect_us.map_or_else(none, micros),
        ]
    }));
    table
}

fn translations(data: &Results) -> FigureTable {
    let mut table = FigureTable::new(
        "Share of address translation: the same cell with base pages and with huge pages",
        &["event", "WSS", "load", "huge pages", "base, µs", "huge, µs", "translation, µs", "share"],
    );
    table.rows.extend(data.translations.iter().map(|comparison| {
        vec![
            comparison.cell.event.to_string(),
            Bytes::new(comparison.cell.wss_bytes).to_string(),
            comparison.cell.load.to_string(),
            comparison.huge.to_string(),
            micros(comparison.base_us),
            micros(comparison.huge_us),
            micros(comparison.translation_us),
            comparison.share.map_or_else(|| "–".to_owned(), percent),
        ]
    }));
    table
}
