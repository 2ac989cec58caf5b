// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the costs of events that corehop caused in a program.

use serde_json::{Value, json};

use super::super::figure::{
    Axis, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace, SeriesPoint,
    Style, ValueUnit, Variant,
};
use super::super::program_costs;
use super::TerminalTables;
use super::kind_front::KindFront;
use crate::front::{MOST_LINES, SurenessCheck, WordedChart, WordedLine};
use corehop_results::Results;
use corehop_stats::program_costs::{DoseCost, ProgramCost, ProgramCostResults};

/// The headings that only tables of a program's costs have.
pub(super) const HEADINGS: &[(&str, &str)] = &[
    (
        "rate",
        "The rate at which corehop causes events in a block, in multiples of the lowest rate; the row `none` compares two blocks without events.",
    ),
    ("events/s", "The number of events per second that corehop caused in a block."),
    (
        "cost µs",
        "The additional CPU time that the program needs per event for the same progress, in µs.",
    ),
    ("seen", "Whether the interval of the cost excludes zero."),
];

/// Returns the section about the costs of a program, if the data has any.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = program_costs::tables(&data.program_costs);
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        figures: vec![doses(&data.program_costs)],
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new(
            SectionPlace::Result,
            "program-costs",
            "Cost of an event for the program",
        )
    });
    section.into_iter().collect()
}

/// Returns a figure of the CPU time that events take in a second, by the rate of the events: a straight line through
/// zero if each event costs the same.
fn doses(results: &ProgramCostResults) -> Figure {
    let series = |(colour, it): (usize, &ProgramCost)| FigureSeries {
        name: program_costs::named(results, it),
        statistic: String::new(),
        colour,
        style: Style::Solid,
        points: it.by_dose.iter().map(dose).collect(),
    };
    let series = results.costs.iter().enumerate().map(series).collect();
    let share = "CPU time lost, ms in a second";
    Figure {
        id: "program-cost-doses".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("events in a second", "events/s", false, ValueUnit::Number),
        views: vec![Axis::new(share, "ms/s", false, ValueUnit::Number)],
        statistics: Vec::new(),
        variants: vec![Variant { series, ..Variant::default() }],
        marks: Vec::new(),
        marked: "",
    }
}

/// Returns the point of a rate: the rate, and the CPU time that its events take.
fn dose(of: &DoseCost) -> SeriesPoint {
    let ms = |us: f64| of.per_second * us / 1e3;
    SeriesPoint {
        x: of.per_second,
        y: vec![Some(ms(of.cost.us))],
        low: vec![of.cost.interval.map(|it| ms(it.low))],
        high: vec![of.cost.interval.map(|it| ms(it.high))],
        note: format!("{} events", of.events),
    }
}

/// Returns the first screen about a program's costs, with the cost of each class of event.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let results = &data.program_costs;
    let rounds = results.costs.iter().map(|it| it.rounds);
    (!results.is_empty()).then(|| KindFront {
        title: "Cost of a preemption and a migration for a program".to_owned(),
        answer: Some(program_costs::sentence(results)),
        chart: Some(WordedChart {
            quantity: "additional CPU time for each event in µs".to_owned(),
            unit: "µs",
            point: "mean over the events",
            level: 0.95,
            under: results.program.clone(),
            lines: results
                .costs
                .iter()
                .filter_map(|it| line(results, it))
                .take(MOST_LINES)
                .collect(),
        }),
        checks: SurenessCheck::replicated("rounds of each event", rounds).into_iter().collect(),
        next: (
            "corehop record -- PROGRAM".to_owned(),
            "counts how often the program pays such a cost.",
        ),
    })
}

fn line(results: &ProgramCostResults, it: &ProgramCost) -> Option<WordedLine> {
    let cost = it.cost?;
    Some(WordedLine {
        words: format!("after {}", program_costs::named(results, it)),
        value: cost.us,
        ends: cost.interval.map(|it| (it.low, it.high)),
        group: usize::from(it.event.is_migration()),
    })
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    TerminalTables { before: program_costs::tables(&data.program_costs), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    program_costs::notes(&data.program_costs)
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.program_costs.costs.iter().map(|it| json!(it)).collect()
}
