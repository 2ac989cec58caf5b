// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison of a program's runs as text that begins with the answer and continues with each quantity.

use super::figure::{FigureTable, PageSection, SectionPlace};
use super::front::in_a_sentence;
use super::observed::firsts;
use super::table::{micros, plain, wrapped};
use corehop_decide::gate::{CostChange, Gate};
use corehop_decide::program_runs::{
    ArmEffects, Effect, JudgedArm, RunComparison, RunQuantity, Seen, WallTimeGate,
};
use corehop_decide::run_cost::RunCost;
use corehop_plan::samples::Recording;
use corehop_plan::units::CpuList;

/// Returns the answer about a recorded program as one sentence, which is the answer of the comparison if the program had
/// arms.
pub fn sentence(
    recording: &Recording,
    cost: &RunCost,
    comparison: Option<&RunComparison>,
) -> String {
    let clauses = comparison.map_or_else(|| firsts(recording, cost), answers);
    // The text for a terminal breaks a long clause.
    in_a_sentence(&clauses).replace("\n  ", " ")
}

/// Writes the comparison of runs as text.
pub fn text(comparison: &RunComparison) -> String {
    let answers = answers(comparison).join("\n");
    let tables: String = tables(comparison).iter().map(plain).collect();
    format!("{answers}\n\n{tables}")
}

/// Writes the comparison of runs as the evidence for a gate, in lines of at most `width` columns.
pub fn gated(comparison: &RunComparison, width: usize) -> String {
    let sentences: String = answers(comparison).iter().map(|it| wrapped(it, width)).collect();
    let tables: String = tables(comparison).iter().map(|it| within(it, width)).collect();
    format!("{sentences}\n{tables}")
}

/// Writes the quantities of two recordings that have no statistical test, such as counts and the cost of refills, in
/// lines of at most `width` columns.
pub fn beside(comparison: &RunComparison, width: usize) -> String {
    untested(comparison).iter().map(|it| within(it, width)).collect()
}

/// Returns the tables of the quantities that have no statistical test.
pub(super) fn untested(comparison: &RunComparison) -> Vec<FigureTable> {
    let mut rest = comparison.clone();
    let tested = |it: &Effect| it.quantity.is_tested();
    rest.arms.iter_mut().for_each(|arm| arm.effects.retain(|it| !tested(it)));
    rest.arms.retain(|arm| !arm.effects.is_empty());
    tables(&rest)
}

/// Returns a sentence about the verdict of a gate that compares wall times.
pub fn verdict(judged: &WallTimeGate) -> String {
    let all = judged.arms.len();
    let of = |outcome: CostChange| {
        judged.arms.iter().filter(move |it| it.decided.outcome == outcome).count()
    };
    let counts = CostChange::ALL.map(|it| format!("{} {}", of(it), it.words())).join(", ");
    let seen = judged.arms.iter().filter_map(|it| it.detectable).reduce(f64::max);
    let seen = seen.map_or_else(String::new, |slowdown| {
        format!("; a slowdown of {:.1} % would have been seen with 80 % power", 100.0 * slowdown)
    });
    let least = judged.least_us.filter(|it| *it > 0.0);
    let least = least.map_or_else(String::new, |it| format!(" and {} us", micros(it)));
    let by_more = format!("by more than {:.1} %{least}", 100.0 * judged.margin);
    match judged.gate {
        Gate::Nothing | Gate::Incomplete => {
            "Nothing was compared: at least one of the two sides has no wall times.".to_owned()
        }
        Gate::Mute => {
            let needed = judged.runs_to_fail;
            format!(
                "Cannot tell whether the wall time is longer: too few runs to show any slowdown ({counts}); {needed} blocks are \
                 enough (`record --repeat {needed}`)."
            )
        }
        _ if of(CostChange::Slower) > 0 => {
            let slower = |it: &&JudgedArm| it.decided.outcome == CostChange::Slower;
            let names = judged.arms.iter().filter(slower).map(|it| it.name.as_str());
            format!(
                "The wall time is longer {by_more}: {} ({counts}).",
                names.collect::<Vec<_>>().join(", ")
            )
        }
        Gate::Passes if all > 0 => {
            format!("No sign that the wall time is longer {by_more}: {counts}{seen}.")
        }
        _ => format!(
            "The wall time is not longer {by_more}, but the gate fails on other outcomes: {counts}."
        ),
    }
}

/// Returns a table in lines of at most `width` columns: if the table is too wide, letters replace the names of
/// recordings, and the table loses columns that are not essential.
fn within(table: &FigureTable, width: usize) -> String {
    let caption = wrapped(&table.caption, width);
    let mut table = FigureTable { caption: String::new(), ..table.clone() };
    let fits = |table: &FigureTable| plain(table).lines().all(|line| line.chars().count() <= width);
    if !fits(&table) {
        for (name, letter) in table.head.iter_mut().skip(1).zip(["A", "B"]) {
            letter.clone_into(name);
        }
    }
    for column in ["smallest seen", "A/A floor", "n"] {
        if fits(&table) {
            break;
        }
        if let Some(at) = table.head.iter().position(|it| it == column) {
            table.head.remove(at);
            table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    caption + plain(&table).trim_start_matches('\n')
}

/// Returns the section of a page about a comparison of runs.
pub(super) fn section(comparison: &RunComparison) -> PageSection {
    let tables = tables(comparison).into_iter().map(FigureTable::shown).collect();
    let text = answers(comparison);
    PageSection {
        text,
        tables,
        ..PageSection::new(SectionPlace::Result, "arms", "Does the change pay?")
    }
}

/// Returns sentences about the effect of each arm, and about the smallest effect that the comparison could have seen.
pub fn answers(comparison: &RunComparison) -> Vec<String> {
    let mut answers: Vec<String> = comparison.arms.iter().filter_map(unbound).collect();
    let of_arm = |arm: &ArmEffects| answer(arm, &comparison.baseline);
    answers.extend(comparison.arms.iter().filter_map(of_arm));
    if answers.is_empty() {
        answers.push(
            "nothing to compare: no arm runs the program differently (--arm NAME=COMMAND)"
                .to_owned(),
        );
    }
    answers.extend(comparison.itself.as_ref().and_then(|it| itself(it, &comparison.baseline)));
    answers.extend(comparison.pairs_needed().map(|needed| {
        format!(
            "an interval at {:.0} % needs {needed} blocks (--repeat)",
            100.0 * comparison.confidence
        )
    }));
    answers
}

/// Returns a sentence about an arm that did not bind the program, so that the arm says nothing about the CPUs that it
/// names.
fn unbound(arm: &ArmEffects) -> Option<String> {
    let it = arm.not_bound.as_ref()?;
    let cpus = |cpus: &CpuList| format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" });
    Some(format!(
        "{} did not bind the program to {}: in {} runs its threads ran on {}\n  and could use other CPUs, because the program sets its own CPUs: the arm does not show the effect of binding",
        arm.name,
        cpus(&it.named),
        it.runs,
        cpus(&it.ran_on)
    ))
}

/// Returns a sentence about the effect of an arm on the wall time of the program.
fn answer(arm: &ArmEffects, baseline: &str) -> Option<String> {
    let (name, wall) = (&arm.name, arm.wall_time()?);
    let runs = wall.pairs;
    let Some(interval) = wall.interval.filter(|_| wall.relative) else {
        return Some(format!(
            "{name}: cannot tell from {runs} runs (wall time {} than {baseline})",
            faster(wall.change)
        ));
    };
    let bounds = |low: f64, high: f64| format!("[{:.1} %, {:.1} %]", 100.0 * low, 100.0 * high);
    Some(match wall.seen {
        Seen::Less => {
            let bounds = bounds(-interval.high, -interval.low);
            format!("{name} is {} than {baseline} {bounds}", faster(wall.change))
        }
        Seen::More => {
            let bounds = bounds(interval.low, interval.high);
            format!("{name} is {} than {baseline} {bounds}", faster(wall.change))
        }
        Seen::Nothing | Seen::CannotTell => format!(
            "{name}: no difference in wall time from {baseline} larger than {:.1} % was seen {}",
            100.0 * wall.largest_possible().unwrap_or_default(),
            bounds(interval.low, interval.high)
        ),
    })
}

/// Returns a change of the wall time in words, such as `3.1 % faster`.
fn faster(change: f64) -> String {
    let word = if change <= 0.0 { "faster" } else { "slower" };
    format!("{:.1} % {word}", 100.0 * change.abs())
}

/// Returns a sentence that compares the unchanged command with itself, and states the smallest effect that the
/// comparison could have seen.
fn itself(it: &ArmEffects, baseline: &str) -> Option<String> {
    let wall = it.wall_time().filter(|wall| wall.relative)?;
    let smallest = wall.interval.map_or_else(String::new, |interval| {
        format!("; an effect of {:.1} % could have been seen", 50.0 * interval.width())
    });
    Some(format!(
        "{baseline} differs from itself by {:.1} % (A/A){smallest}",
        100.0 * wall.change.abs()
    ))
}

/// Returns a table for each arm, and a table that compares the unchanged command with itself.
pub(super) fn tables(comparison: &RunComparison) -> Vec<FigureTable> {
    let arms = comparison.arms.iter().chain(&comparison.itself);
    arms.map(|arm| table(arm, comparison)).collect()
}

fn table(arm: &ArmEffects, comparison: &RunComparison) -> FigureTable {
    let (name, baseline) = (&arm.name, &comparison.baseline);
    let how = if comparison.paired { "by pairs of runs" } else { "by the medians of runs" };
    let caption = format!(
        "{name} against {baseline}, {how}; times in µs, intervals at {:.0} %",
        100.0 * comparison.confidence
    );
    let columns = [
        "per run",
        baseline.as_str(),
        name.as_str(),
        "difference",
        "interval",
        "A/A floor",
        "smallest seen",
        "n",
        "outcome",
    ];
    let mut table = FigureTable::new(caption, &columns);
    table.rows = arm.effects.iter().map(row).collect();
    table
}

fn row(it: &Effect) -> Vec<String> {
    let value = |value: f64| amount(it.quantity, value);
    let change = |change: f64| match it.relative {
        true => format!("{:+.1} %", 100.0 * change),
        false if change > 0.0 => format!("+{}", value(change)),
        false => value(change),
    };
    let optional = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), change);
    let interval = it.interval.map(|it| format!("[{}, {}]", change(it.low), change(it.high)));
    vec![
        title(it.quantity).to_owned(),
        value(it.without),
        value(it.with),
        change(it.change),
        interval.unwrap_or_else(|| "–".to_owned()),
        optional(it.floor),
        it.smallest.map_or_else(|| "–".to_owned(), |it| change(it).replace('+', "")),
        it.pairs.to_string(),
        outcome(it.seen).to_owned(),
    ]
}

fn amount(quantity: RunQuantity, value: f64) -> String {
    if quantity.is_time() { micros(value) } else { format!("{value:.1}") }
}

const fn title(quantity: RunQuantity) -> &'static str {
    match quantity {
        RunQuantity::WallTime => "wall time",
        RunQuantity::CpuTime => "CPU time",
        RunQuantity::Waited => "waited for a CPU",
        RunQuantity::RefillLeast => "refilling caches, at least",
        RunQuantity::RefillMost => "refilling caches, at most",
        RunQuantity::Preemptions => "preemptions",
        RunQuantity::Migrations => "migrations",
    }
}

const fn outcome(seen: Seen) -> &'static str {
    match seen {
        Seen::More => "more",
        Seen::Less => "less",
        Seen::Nothing => "none seen",
        Seen::CannotTell => "cannot tell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_decide::program_runs::{RunFigures, arms};
    use corehop_plan::samples::{RecordedRun, Recording};
    use std::collections::BTreeMap;

    /// Makes a comparison of blocks with the given wall times: the command as it is, again, and pinned.
    fn compared(blocks: &[[u64; 3]]) -> RunComparison {
        let empty = Recording::default().ended_runs().remove(0);
        let run = |arm: &str, block: u64, ms: u64| RecordedRun {
            arm: arm.into(),
            block,
            wall_ns: ms * 1_000_000,
            ..empty.clone()
        };
        let runs = blocks.iter().zip(0..).flat_map(|(&[plain, again, pinned], block)| {
            [run("plain", block, plain), run("again", block, again), run("pinned", block, pinned)]
        });
        let recording = Recording { runs: runs.collect(), ..Recording::default() };
        arms(&RunFigures::of_recording(&recording, &BTreeMap::new()), 0.05).unwrap()
    }

    #[test]
    fn the_answer_comes_first_with_its_interval_and_what_could_have_been_seen() {
        let again = [990, 1_010, 1_000, 980, 1_020, 1_000];
        let pinned = [890, 910, 900, 880, 920, 900];
        let blocks: Vec<[u64; 3]> =
            again.iter().zip(pinned).map(|(&again, pinned)| [1_000, again, pinned]).collect();
        let text = text(&compared(&blocks));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("pinned is 10.0 % faster than plain [8.0 %, 12.0 %]"));
        assert_eq!(
            lines.next(),
            Some(
                "plain differs from itself by 0.0 % (A/A); an effect of 2.0 % could have been seen"
            )
        );
        assert!(text.contains("wall time") && text.contains("–"), "{text}");
    }

    #[test]
    fn where_nothing_was_seen_the_answer_says_how_large_an_effect_may_still_be() {
        let blocks: Vec<[u64; 3]> =
            [990, 1_010, 1_000, 985, 1_020, 1_000].map(|pinned| [1_000, 1_000, pinned]).to_vec();
        let answers = answers(&compared(&blocks));
        assert_eq!(
            answers[0],
            "pinned: no difference in wall time from plain larger than 2.0 % was seen [-1.5 %, 2.0 %]"
        );
    }

    #[test]
    fn a_few_runs_tell_nothing_and_the_answer_says_how_many_would() {
        let answers = answers(&compared(&[[1_000, 1_000, 500]; 2]));
        assert!(answers[0].starts_with("pinned: cannot tell from 2 runs"), "{answers:?}");
        assert!(answers.iter().any(|it| it.contains("needs 6 blocks")), "{answers:?}");
    }

    #[test]
    fn an_arm_that_does_not_bind_is_said_first_with_the_cpus_that_it_ran_on() {
        let empty = Recording::default().ended_runs().remove(0);
        let answers_of = |ran_on: &str| {
            let run = |arm: &str, block: u64| RecordedRun {
                arm: arm.into(),
                block,
                wall_ns: 1_000_000 + block,
                bound_to: (arm == "pinned").then(|| "1".into()),
                ran_on: Some(if arm == "pinned" { ran_on } else { "0-1" }.into()),
                ..empty.clone()
            };
            let runs =
                (0..6).flat_map(|block| ["plain", "again", "pinned"].map(|arm| run(arm, block)));
            let recording = Recording { runs: runs.collect(), ..Recording::default() };
            answers(&arms(&RunFigures::of_recording(&recording, &BTreeMap::new()), 0.05).unwrap())
        };
        let said = answers_of("0-1");
        let expected =
            "pinned did not bind the program to CPU 1: in 6 runs its threads ran on CPUs 0-1";
        assert!(said[0].starts_with(expected), "{said:?}");
        assert!(said[1].starts_with("pinned: no difference"), "{said:?}");
        assert!(!answers_of("1").iter().any(|it| it.contains("did not bind")));
    }
}
