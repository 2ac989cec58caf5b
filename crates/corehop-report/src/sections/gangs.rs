// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about gangs, which show the time that threads with common data gain when they share a
//! cache.

use serde_json::Value;

use super::kind_front::KindFront;
use super::{TerminalTables, tables_of};
use crate::figure::{FigureTable, PageSection, SectionPlace};
use crate::front::{SurenessCheck, WordedChart, WordedLine};
use corehop_results::Results;
use corehop_stats::gain::TAKEN;
use corehop_stats::gangs::{GangOutcome, SharingSummary};

/// Tables of gangs have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the section about gangs, with a table of all of them.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let table = table(&data.gangs);
    let section = (!data.gangs.is_empty()).then(|| PageSection {
        tables: vec![table.shown()],
        ..PageSection::new(SectionPlace::Result, "sharing", "Threads with common data").says(format!(
            "Each program ran with and without a common cache for its threads, or with all threads on one CPU, or moved from the farther place to the nearer place halfway. A time is the time of the slowest thread per iteration: a mean of simulated runs, or a median of live runs. SMR is the share of last-level misses that another package answers; MPmI is the number of last-level misses per million instructions. The ratio is the run time of the placing `shared` divided by the run time of `separate`; on a machine without a second cache, `same` divided by `shared`. A ratio below 1 means that the nearer placing is faster. The predicted ratio needs only the misses without a common cache: {TAKEN}, fitted to the 87 printed rows of Kamali (2010). `corehop sim validate kamali-regression` reports its error.",
        ))
    });
    section.into_iter().collect()
}

/// Returns the first screen about gangs, with the times of the first program by the place of its
/// threads.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let first = data.gangs.first()?;
    let places = [
        ("all threads on one CPU", &first.same),
        ("threads below a common cache", &first.shared),
        ("threads without a common cache", &first.separate),
    ];
    let line = |(words, side): (&str, &Option<GangOutcome>)| {
        let value = side.as_ref()?.round_ns;
        Some(WordedLine { words: words.to_owned(), value, ends: None, group: 0 })
    };
    let lines: Vec<WordedLine> = places.into_iter().filter_map(line).collect();
    let told = lines.iter().map(|it| format!("{:.1} ns with {}", it.value, it.words));
    let told = told.collect::<Vec<_>>().join(", ");
    let program = format!("{} {}", first.program, first.parameters).trim().to_owned();
    let replicates = data.gangs.iter().filter_map(|it| it.replicates);
    Some(KindFront {
        title: "Threads with common data".to_owned(),
        answer: Some(format!("{program}: an iteration takes {told}.")),
        chart: Some(WordedChart {
            quantity: "time of an iteration of the slowest thread in ns".to_owned(),
            unit: "ns",
            point: "one value for all runs",
            level: 0.95,
            under: program,
            lines,
        }),
        checks: SurenessCheck::replicated("replicates of each program", replicates)
            .into_iter()
            .collect(),
        next: ("corehop place PID".to_owned(), "finds such threads in a running program."),
    })
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    TerminalTables { before: Vec::new(), after: tables_of(sections(data)) }
}

/// Gangs need no notes, because their table says everything.
pub(super) fn notes(_: &Results) -> Vec<String> {
    Vec::new()
}

/// Gangs have no JSON results of their own, because a table has their columns.
pub(super) fn results(_: &Results) -> Vec<Value> {
    Vec::new()
}

fn table(summaries: &[SharingSummary]) -> FigureTable {
    let mut table = FigureTable::new(
        "gangs, below a common cache and separate",
        &[
            "program",
            "with",
            "items",
            "sharing",
            "same ns",
            "shared ns",
            "separate ns",
            "moved ns",
            "ratio",
            "predicted",
            "SMR separate",
            "MPmI shared",
            "MPmI separate",
            "runs",
        ],
    );
    let side =
        |side: &Option<GangOutcome>, of: &dyn Fn(&GangOutcome) -> Option<f64>, places: usize| {
            let value = side.as_ref().and_then(of);
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
        };
    let row = |it: &SharingSummary| {
        vec![
            it.program.clone(),
            it.parameters.clone(),
            it.items.to_string(),
            it.sharing.to_string(),
            side(&it.same, &|side| Some(side.round_ns), 1),
            side(&it.shared, &|side| Some(side.round_ns), 1),
            side(&it.separate, &|side| Some(side.round_ns), 1),
            side(&it.moved, &|side| Some(side.round_ns), 1),
            ratio(it),
            it.predicted_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            side(&it.separate, &|side| side.smr, 2),
            side(&it.shared, &|side| side.mpmi, 1),
            side(&it.separate, &|side| side.mpmi, 1),
            it.shared
                .or(it.separate)
                .or(it.same)
                .or(it.moved)
                .map_or(0, |side| side.runs)
                .to_string(),
        ]
    };
    table.rows = summaries.iter().map(row).collect();
    table
}

/// Returns the ratio of two times, with its interval if the runs were live.
fn ratio(it: &SharingSummary) -> String {
    let Some(ratio) = it.runtime_ratio else { return "-".to_owned() };
    it.ratio_interval.map_or_else(
        || format!("{ratio:.2}"),
        |interval| format!("{ratio:.2} [{:.2}, {:.2}]", interval.low, interval.high),
    )
}
