// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of two results, or of the arms of a recording, as a page whose chart shows the cells that changed most.

use super::compared::{by_share, evidence, groups, table_of};
use super::figure::{PageSection, SectionPlace};
use super::front::{MOST_LINES, PageFront, SurenessCheck, WordedChart, WordedLine};
use super::label::plural;
use super::{html, program_runs};
use corehop_decide::comparison::{Quantity, QuantityComparison, ResultComparison};
use corehop_decide::gate::CostChange;
use corehop_decide::program_runs::{ArmEffects, RunComparison, WallTimeGate};

/// The slowdown beyond the margin that a sensitive cell shows, as a share of the cost.
const ENOUGH: f64 = 0.1;

/// The names, the answer and the command of a page about a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonHeading<'a> {
    /// The names of the compared files or folders: one file with two results, or the baseline and the second result.
    pub names: &'a [String],
    /// The sentence that answers the gate.
    pub answer: &'a str,
    /// The command that prints the complete comparison; empty if no command line asked.
    pub everything: &'a str,
}

impl ComparisonHeading<'_> {
    fn front(&self) -> PageFront {
        let facts = match self.names {
            [one] => vec![one.clone()],
            all => all
                .iter()
                .zip(["A", "B"])
                .map(|(name, letter)| format!("{letter}: {name}"))
                .collect(),
        };
        let gate = (!self.everything.is_empty()).then(|| {
            let command = self.everything.trim_end_matches(" --json").to_owned();
            (command, "exits with code 0 only if the gate passes.")
        });
        PageFront {
            title: "Did it become slower?".to_owned(),
            answer: self.answer.to_owned(),
            everything: self.everything.to_owned(),
            facts,
            next: gate,
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
    let rest = beside.map_or_else(Vec::new, program_runs::untested);
    if !rest.is_empty() {
        let section = PageSection::new(SectionPlace::Detail, "runs", "Quantities without a test");
        sections.push(PageSection { tables: rest, ..section });
    }
    html::page_of(&front, sections)
}

/// Writes the page of the arms of one recording.
pub fn arms(
    comparison: &RunComparison,
    judged: &WallTimeGate,
    heading: &ComparisonHeading<'_>,
) -> String {
    let all = comparison.arms.len();
    let able = judged.arms.iter().filter(|it| it.decided.could_have_failed).count();
    let text = format!("{able} of {} can show a slowdown", plural(all, "arm"));
    let front = PageFront {
        checks: vec![SurenessCheck::new(able == all, text)],
        chart: wall_times(comparison, judged),
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
    // A measurement does not differ from itself, however few its replicates are.
    let cells: Vec<&QuantityComparison> =
        comparison.gated().filter(|it| !it.decided.same).collect();
    let share = |holds: &dyn Fn(&QuantityComparison) -> Option<bool>, what: &str| {
        let known: Vec<bool> = cells.iter().filter_map(|it| holds(it)).collect();
        let (yes, all) = (known.iter().filter(|it| **it).count(), known.len());
        (all > 0).then(|| (yes, all, format!("{yes} of {} {what}", plural(all, "cell"))))
    };
    let every = |(yes, all, text): (usize, usize, String)| SurenessCheck::new(yes == all, text);
    let half = |(yes, all, text): (usize, usize, String)| SurenessCheck::new(2 * yes >= all, text);
    let able = share(&|it| Some(it.decided.could_have_failed), "can show a slowdown");
    let sensitive = format!("would show a slowdown of {:.0} % beyond the margin", 100.0 * ENOUGH);
    let quiet = |it: &QuantityComparison| Some(it.floor_us?.abs() <= it.margin_us);
    let all = [
        able.map(every),
        share(&is_sensitive, &sensitive).map(half),
        share(&quiet, "differ within A by less than the margin").map(every),
        lacking(comparison),
    ];
    all.into_iter().flatten().collect()
}

/// Whether a slowdown of [`ENOUGH`] beyond the margin would be seen with 80 % power; `None` if the cost is too small for
/// a share.
fn is_sensitive(it: &QuantityComparison) -> Option<bool> {
    let enough = it.margin_us + ENOUGH * it.a_us;
    by_share(it).then(|| it.detectable_us.is_some_and(|us| us <= enough))
}

/// Returns a check whether B has the cells of A.
fn lacking(comparison: &ResultComparison) -> Option<SurenessCheck> {
    let lacking = comparison.lacking.len().max(comparison.only_a);
    let text = match lacking {
        0 => "B has every cell of A".to_owned(),
        _ => format!("B lacks {} of A", plural(lacking, "cell")),
    };
    (!comparison.cells.is_empty()).then(|| SurenessCheck::new(lacking == 0, text))
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
            words: words(it),
            value: percent(it.difference_us),
            ends: it.interval.map(|its| (percent(its.low), percent(its.high))),
            group: group(it.decided.outcome),
        }
    };
    let cells: Vec<&QuantityComparison> = cells.into_iter().take(MOST_LINES).collect();
    let levels = cells.iter().filter_map(|it| Some(it.interval?.level));
    let level = levels.fold(1.0, f64::min);
    changes(cells.into_iter().map(line).collect(), level)
}

/// Returns the words of a cell in the chart: the outcome, the file in its folder, the cell, and its group.
fn words(it: &QuantityComparison) -> String {
    let Quantity { file, name, group, .. } = &it.quantity;
    let file = if file.is_empty() { String::new() } else { format!("{file}, ") };
    format!("{}: {file}{name} ({group})", it.decided.outcome.words())
}

/// Returns the group of an outcome, which decides the colour and the shape of a line.
const fn group(outcome: CostChange) -> usize {
    match outcome {
        CostChange::Slower => 1,
        CostChange::Faster => 2,
        CostChange::Equivalent | CostChange::CannotTell => 0,
    }
}

/// Returns a chart of the changes of the arms' wall times, the slowest arm first.
fn wall_times(comparison: &RunComparison, judged: &WallTimeGate) -> Option<WordedChart> {
    let outcome = |arm: &ArmEffects| {
        let of = judged.arms.iter().find(|it| it.name == arm.name);
        of.map_or(CostChange::CannotTell, |it| it.decided.outcome)
    };
    let line = |arm: &ArmEffects| {
        let wall = arm.wall_time().filter(|it| it.relative)?;
        Some(WordedLine {
            words: format!("{}: {}, wall time", outcome(arm).words(), arm.name),
            value: 100.0 * wall.change,
            ends: wall.interval.map(|its| (100.0 * its.low, 100.0 * its.high)),
            group: group(outcome(arm)),
        })
    };
    let mut lines: Vec<WordedLine> = comparison.arms.iter().filter_map(line).collect();
    lines.sort_by(|a, b| b.value.total_cmp(&a.value));
    lines.truncate(MOST_LINES);
    changes(lines, comparison.confidence)
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

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::comparison::{EquivalenceMargin, Quantities, compare};
    use corehop_decide::gate::FailOn;
    use corehop_decide::program_runs::{RunFigures, arms as compared_arms};
    use corehop_plan::samples::example::sample;
    use corehop_plan::samples::{RecordedRun, Recording, Sample};
    use corehop_stats::estimator::Estimator;
    use std::collections::BTreeMap;

    const MARGIN: EquivalenceMargin = EquivalenceMargin { share: 0.05, least_us: Some(1.0) };

    /// Makes samples of 20 replicates of each size, `us` slow, which differ by some percent.
    fn delays(us: f64, sizes: &[u64]) -> Quantities {
        let mut all = Quantities::new(Estimator::Difference);
        for &kib in sizes {
            let of = |at: u64| Sample {
                wss_bytes: kib << 10,
                replicate: Some(at),
                resumed_ns: 1e3 * us * (1.0 + (at * 7 % 20) as f64 / 400.0),
                ..sample()
            };
            all.take(&(0..20).map(of).collect::<Vec<_>>());
        }
        all
    }

    fn texts(a: &Quantities, b: &Quantities) -> Vec<(bool, String)> {
        let told = compare(a, b, MARGIN, 0.05).unwrap();
        checks(&told).into_iter().map(|it| (it.holds, it.text)).collect()
    }

    #[test]
    fn the_checks_count_cells_that_can_differ_and_cells_that_b_lacks() {
        let (slow, quick) = (delays(90.0, &[64]), delays(60.0, &[64, 256]));
        let told = texts(&quick, &slow);
        let expected = [
            (true, "1 of 1 cell can show a slowdown"),
            (true, "1 of 1 cell would show a slowdown of 10 % beyond the margin"),
            (true, "1 of 1 cell differ within A by less than the margin"),
            (false, "B lacks 1 cell of A"),
        ];
        assert_eq!(told, expected.map(|(holds, text)| (holds, text.to_owned())));
        let same = texts(&slow, &slow);
        assert_eq!(same, [(true, "B has every cell of A".to_owned())], "nothing can differ");
    }

    #[test]
    fn the_chart_begins_with_the_cells_that_changed() {
        let told = compare(&delays(60.0, &[64]), &delays(90.0, &[64]), MARGIN, 0.05).unwrap();
        let chart = chart(&told).unwrap();
        assert_eq!(chart.lines[0].group, 1);
        assert!(chart.lines[0].words.starts_with("slower: preemption 64 KiB ("), "{chart:?}");
        assert!((chart.lines[0].value - 50.0).abs() < 1.0 && chart.level >= 0.95, "{chart:?}");
        let tiny = compare(&delays(0.02, &[64]), &delays(0.03, &[64]), MARGIN, 0.05).unwrap();
        assert_eq!(super::chart(&tiny), None, "a share of nothing says nothing");
    }

    #[test]
    fn the_slowest_arm_stands_first_however_many_there_are() {
        let empty = Recording::default().ended_runs().remove(0);
        let run = |arm: String, block: u64, ms: u64| RecordedRun {
            arm: arm.into(),
            block,
            wall_ns: (ms + block % 3) * 1_000_000,
            ..empty.clone()
        };
        let arms = ["plain", "a", "b", "c", "d", "e", "z"];
        let of_block = |block| {
            let ms = |arm: &str| if arm == "z" { 1_500 } else { 1_000 };
            arms.map(|arm| run(arm.to_owned(), block, ms(arm)))
        };
        let runs = (0..12).flat_map(of_block).collect();
        let recording = Recording { runs, ..Recording::default() };
        let of = RunFigures::of_recording(&recording, &BTreeMap::new());
        let told = compared_arms(&of, 0.05).unwrap();
        let judged = told.judged(&[FailOn::Slower], MARGIN).unwrap();
        let chart = wall_times(&told, &judged).unwrap();
        assert_eq!((chart.lines.len(), chart.lines[0].words.as_str()), (5, "slower: z, wall time"));
    }
}
