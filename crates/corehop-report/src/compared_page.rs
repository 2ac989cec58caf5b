// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of two results, or of the arms of a recording, as a page whose chart shows the cells that changed most.

use super::compared::{by_share, counted, detectable, evidence, groups, table_of};
use super::figure::{PageSection, SectionPlace};
use super::front::{MOST_LINES, PageFront, SurenessCheck, WordedChart, WordedLine};
use super::{html, program_runs};
use corehop_decide::comparison::{QuantityComparison, ResultComparison};
use corehop_decide::gate::CostChange;
use corehop_decide::program_runs::{ArmEffects, RunComparison, WallTimeGate};
use corehop_plan::units::three_digits;

/// The slowdown that a comparison with enough replicates shows in half of its cells.
const ENOUGH: f64 = 0.1;

/// The titles and commands of a page about a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonHeading<'a> {
    /// The names of the results: the baseline, and the second result if the comparison has one.
    pub names: &'a [String],
    /// The sentence that answers the gate.
    pub answer: &'a str,
    /// The command that prints the complete comparison.
    pub everything: &'a str,
}

impl ComparisonHeading<'_> {
    fn front(&self) -> PageFront {
        let facts =
            self.names.iter().zip(["A", "B"]).map(|(name, letter)| format!("{letter}: {name}"));
        PageFront {
            title: "Did it become slower?".to_owned(),
            answer: self.answer.to_owned(),
            everything: self.everything.to_owned(),
            facts: facts.collect(),
            next: Some((
                self.everything.trim_end_matches(" --json").to_owned(),
                "ends a script with exit code 1 if B is slower.",
            )),
            ..PageFront::default()
        }
    }
}

/// Writes the page of a comparison; `beside` has the quantities of two recordings that no test judges.
pub fn page(
    comparison: &ResultComparison,
    beside: Option<&RunComparison>,
    heading: &ComparisonHeading<'_>,
) -> String {
    let front =
        PageFront { checks: checks(comparison), chart: chart(comparison), ..heading.front() };
    let mut sections = vec![cells(comparison)];
    let evidence = evidence(comparison);
    if !evidence.is_empty() {
        let section =
            PageSection::new(SectionPlace::Trust, "trust", "What the comparison could show");
        sections.push(evidence.into_iter().fold(section, PageSection::says));
    }
    sections.extend(beside.map(|runs| PageSection {
        tables: program_runs::tables(runs),
        ..PageSection::new(SectionPlace::Detail, "runs", "Quantities of the runs")
    }));
    html::page_of(&front, sections)
}

/// Writes the page of the arms of one recording.
pub fn arms(
    comparison: &RunComparison,
    judged: &WallTimeGate,
    heading: &ComparisonHeading<'_>,
) -> String {
    let decided = judged.arms.iter().filter(|it| !it.decided.is_mute()).count();
    let text =
        format!("{decided} of {} arms have enough runs to show a slowdown", judged.arms.len());
    let front = PageFront {
        checks: vec![SurenessCheck::new(decided == judged.arms.len(), text)],
        chart: wall_times(comparison),
        ..heading.front()
    };
    html::page_of(&front, vec![program_runs::section(comparison)])
}

/// Returns the tables of all cells; the tables with a slower or a faster cell are open.
fn cells(comparison: &ResultComparison) -> PageSection {
    let section = PageSection::new(SectionPlace::Result, "cells", "Cells of A and B").says(
        "Medians in µs. The change B-A is in percent of A, with its interval. A/A is the difference within A, where nothing changed.",
    );
    let table = |cells: &[QuantityComparison]| {
        let changed = cells.iter().any(|it| is_change(it.decided.outcome));
        let table = table_of(cells);
        if changed { table.shown() } else { table }
    };
    PageSection { tables: groups(comparison).map(table).collect(), ..section }
}

fn is_change(outcome: CostChange) -> bool {
    matches!(outcome, CostChange::Slower | CostChange::Faster)
}

/// Returns the checks behind the answer: replicates, sensitivity, the noise within A, and missing cells.
fn checks(comparison: &ResultComparison) -> Vec<SurenessCheck> {
    let all = comparison.gated().count();
    if all == 0 {
        return Vec::new();
    }
    let able = all - comparison.mute().count();
    let floors = comparison.gated().filter_map(|it| Some(it.floor_us?.abs() <= it.margin_us));
    let (quiet, known) =
        floors.fold((0, 0), |(quiet, known), it| (quiet + usize::from(it), known + 1));
    let lacking = comparison.lacking.len();
    let mut checks = vec![
        SurenessCheck::new(
            able == all,
            format!("{able} of {all} cells have enough replicates to show a slowdown"),
        ),
        sensitivity(comparison),
        SurenessCheck::new(
            lacking == 0,
            match lacking {
                0 => "B has every cell of A".to_owned(),
                _ => format!("B has no valid sample of {} of A", counted(lacking)),
            },
        ),
    ];
    if known > 0 {
        let text =
            format!("A differs from itself by less than the margin in {quiet} of {known} cells");
        checks.insert(2, SurenessCheck::new(quiet == known, text));
    }
    checks
}

/// Returns a check whether half of the cells would show a slowdown of a tenth.
fn sensitivity(comparison: &ResultComparison) -> SurenessCheck {
    let seen = detectable(comparison);
    match seen.get((comparison.gated().count() - 1) / 2) {
        Some(share) => SurenessCheck::new(
            *share <= ENOUGH,
            format!(
                "a slowdown of {} % would be seen in half of the cells (enough: {:.0} %)",
                three_digits(100.0 * share),
                100.0 * ENOUGH
            ),
        ),
        None => SurenessCheck::new(false, "no slowdown would be seen in half of the cells"),
    }
}

/// Returns a chart of the cells with the largest relative changes, with slower and faster cells first.
fn chart(comparison: &ResultComparison) -> Option<WordedChart> {
    let mut cells: Vec<&QuantityComparison> =
        comparison.gated().filter(|it| by_share(it)).collect();
    let rank = |it: &QuantityComparison| {
        (is_change(it.decided.outcome), (it.difference_us / it.a_us).abs())
    };
    cells.sort_by(|a, b| {
        let ((changed_a, share_a), (changed_b, share_b)) = (rank(a), rank(b));
        changed_b.cmp(&changed_a).then(share_b.total_cmp(&share_a))
    });
    let line = |it: &QuantityComparison| {
        let percent = |us: f64| 100.0 * us / it.a_us;
        WordedLine {
            words: format!(
                "{}: {} ({})",
                it.decided.outcome.words(),
                it.quantity.name,
                it.quantity.group
            ),
            value: percent(it.difference_us),
            ends: it.interval.map(|its| (percent(its.low), percent(its.high))),
            group: match it.decided.outcome {
                CostChange::Slower => 1,
                CostChange::Faster => 2,
                _ => 0,
            },
        }
    };
    let cells: Vec<&QuantityComparison> = cells.into_iter().take(MOST_LINES).collect();
    let levels = cells.iter().filter_map(|it| Some(it.interval?.level));
    let level = levels.fold(1.0, f64::min);
    changes(cells.into_iter().map(line).collect(), level)
}

/// Returns a chart of the change of each arm's wall time.
fn wall_times(comparison: &RunComparison) -> Option<WordedChart> {
    let line = |arm: &ArmEffects| {
        let wall = arm.wall_time().filter(|it| it.relative)?;
        Some(WordedLine {
            words: format!("{}, wall time", arm.name),
            value: 100.0 * wall.change,
            ends: wall.interval.map(|its| (100.0 * its.low, 100.0 * its.high)),
            group: 0,
        })
    };
    let arms = comparison.arms.iter().chain(&comparison.itself);
    changes(arms.filter_map(line).take(MOST_LINES).collect(), comparison.confidence)
}

/// Makes a chart of changes whose intervals have at least the level `level`.
fn changes(lines: Vec<WordedLine>, level: f64) -> Option<WordedChart> {
    (!lines.is_empty()).then(|| WordedChart {
        quantity: "change of the cost, in % of the baseline".to_owned(),
        unit: "%",
        point: "change of the median",
        level,
        under: String::new(),
        lines,
    })
}
