// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches as text and tables, with the ladder of mechanisms and the point from which a switch pays.

use std::collections::{BTreeMap, BTreeSet};

use super::figure::FigureTable;
use super::label::time;
use super::table::{plain, wrapped};
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_stats::replicates::ReplicateStatistic;
use corehop_stats::switches::{
    Instead, MedianDifference, NotMeasured, Pays, SwitchSummary, Switched,
};

/// Writes a sentence for each pair of CPUs, and below the sentences the ladder and the least costly ways to make each
/// call.
pub fn text(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> String {
    // The sentence of a pair names its class; several of them need a column, and its room.
    let classes: BTreeSet<_> = summaries.iter().map(|it| it.of.pair_class).collect();
    let spare: &[_] = if classes.len() > 1 { &["median", "99 %", "line ns"] } else { &["class"] };
    let left_out = [&["range of batches ns", "10 %", "invalid"], spare].concat();
    let ladder = narrow(ladder(summaries, not_measured), &left_out);
    let tables = some([ladder, narrow(least_costly(summaries), &[&["call ns"], spare].concat())]);
    let tables = tables.iter().map(plain).collect::<String>();
    let notes = notes(summaries, not_measured).into_iter().map(|note| wrapped(&note, 100));
    let parts = [notes.collect::<String>(), tables];
    parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the tables of core switches: the ladder of the shortest call, the least costly ways, and the break-even of
/// all calls, as far as they were measured.
pub fn tables(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> Vec<FigureTable> {
    some([ladder(summaries, not_measured), least_costly(summaries), break_even(summaries)])
}

fn some<const N: usize>(tables: [FigureTable; N]) -> Vec<FigureTable> {
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Removes the given columns from a table, so that the table fits on a screen.
fn narrow(table: FigureTable, left_out: &[&str]) -> FigureTable {
    let keep: Vec<bool> =
        table.head.iter().map(|head| !left_out.contains(&head.as_str())).collect();
    let kept = |fields: Vec<String>| -> Vec<String> {
        fields.into_iter().zip(&keep).filter_map(|(field, keep)| keep.then_some(field)).collect()
    };
    let rows = table.rows.into_iter().map(kept).collect();
    FigureTable { head: kept(table.head), rows, ..table }
}

/// Returns a table with the least costly mechanisms for each call: one that waits for the call, and one with several
/// calls outstanding. The table compares the better of the two with a second worker on the other core.
fn least_costly(summaries: &[SwitchSummary]) -> FigureTable {
    let columns = ["CPUs", "class", "call", "bytes", "way", "call ns", "pays"];
    let mut table =
        FigureTable::new("From which point a core switch pays, by the cheapest way", &columns);
    let calls = summaries.iter().filter(|it| it.mechanism == SwitchMechanism::None);
    table.rows = calls.flat_map(|none| points_of_call(summaries, none)).collect();
    table
}

/// Returns the rows of one call in the table of least costly ways.
fn points_of_call(summaries: &[SwitchSummary], none: &SwitchSummary) -> Vec<Vec<String>> {
    let of_call = || summaries.iter().filter(|it| it.of == none.of);
    let cheapest = |several: bool| {
        let ways = of_call().filter(|it| it.pays.is_some() && (it.outstanding > 1) == several);
        let ways = ways.filter(|it| it.mechanism != SwitchMechanism::Sqpoll);
        ways.min_by(|a, b| a.mean_ns.estimate.total_cmp(&b.mean_ns.estimate))
    };
    let (waits, several) = (cheapest(false), cheapest(true));
    let row = |name: String, it: &SwitchSummary, pays: String| {
        let (call, bytes) = (it.of.call.to_string(), it.of.bytes.to_string());
        vec![pair(&it.of), class(&it.of), call, bytes, name, with_interval(&it.mean_ns), pays]
    };
    let mut rows = vec![row("none".to_owned(), none, "-".to_owned())];
    let ways = [waits, several].into_iter().flatten();
    rows.extend(ways.map(|it| row(way(it), it, or_dash(it.pays.as_ref().map(point)))));
    let second = of_call().find(|it| it.mechanism == SwitchMechanism::SecondWorker);
    if let (Some(second), Some(it)) = (second, several.or(waits)) {
        let pays = it.instead.as_ref().map(|instead| against(&way(it), instead));
        rows.push(row(way(second), second, or_dash(pays)));
    }
    rows
}

/// Returns the name of a mechanism, with the number of outstanding calls if there are several.
fn way(it: &SwitchSummary) -> String {
    match it.outstanding {
        1 => it.mechanism.to_string(),
        several => format!("{}, {several}", it.mechanism),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Returns a table of every mechanism on each pair of CPUs, when the caller waits for each call.
fn ladder(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> FigureTable {
    let columns = [
        "CPUs",
        "class",
        "mechanism",
        "call ns",
        "a switch ns",
        "range of batches ns",
        "10 %",
        "median",
        "99 %",
        "line ns",
        "batches",
        "invalid",
    ];
    let mut table =
        FigureTable::new("The cost of a core switch (gettid, there and back)", &columns);
    let waits = |it: &&SwitchSummary| it.of.call == SwitchCall::Gettid && it.outstanding == 1;
    table.rows = summaries.iter().filter(waits).map(rung).collect();
    let waits = |it: &&NotMeasured| it.of.call == SwitchCall::Gettid && it.outstanding == 1;
    table.rows.extend(not_measured.iter().filter(waits).map(missing_rung));
    table
}

/// Returns the row of a mechanism that was not measured; a sentence below the table states the reason.
fn missing_rung(it: &NotMeasured) -> Vec<String> {
    let mut row =
        vec![pair(&it.of), class(&it.of), it.mechanism.to_string(), "not measured".to_owned()];
    row.resize(10, "-".to_owned());
    row.extend(["0".to_owned(), it.batches.to_string()]);
    row
}

fn rung(it: &SwitchSummary) -> Vec<String> {
    let [p10, p50, _, p99] = it.percentiles_ns.map(nanos);
    let per_switch = it.per_switch_ns().map(|(estimate, ends)| with_ends(estimate, ends));
    vec![
        pair(&it.of),
        class(&it.of),
        it.mechanism.to_string(),
        with_interval(&it.mean_ns),
        or_dash(per_switch),
        format!("{} to {}", nanos(it.range_ns.0), nanos(it.range_ns.1)),
        p10,
        p50,
        p99,
        or_dash(it.exchange_ns.map(nanos)),
        it.batches.to_string(),
        it.invalid.to_string(),
    ]
}

/// Returns a table of every call by every mechanism, with the point from which the switch pays.
fn break_even(summaries: &[SwitchSummary]) -> FigureTable {
    let columns = [
        "CPUs",
        "class",
        "call",
        "bytes",
        "mechanism",
        "outstanding",
        "call ns",
        "longer by ns",
        "pays",
        "instead of a second worker",
    ];
    let mut table = FigureTable::new("From which point a core switch pays, by every way", &columns);
    let row = |it: &SwitchSummary| {
        let extra = it.extra_ns.as_ref().map(with_interval);
        vec![
            pair(&it.of),
            class(&it.of),
            it.of.call.to_string(),
            it.of.bytes.to_string(),
            it.mechanism.to_string(),
            it.outstanding.to_string(),
            with_interval(&it.mean_ns),
            or_dash(extra),
            or_dash(it.pays.as_ref().map(point)),
            or_dash(it.instead.as_ref().map(beside)),
        ]
    };
    let calls = summaries.iter().filter(|it| it.of.call.is_sized() || it.outstanding > 1);
    table.rows = calls.map(row).collect();
    table
}

/// Returns the point from which a switch pays, in words.
fn point(pays: &Pays) -> String {
    match *pays {
        Pays::FasterThere(it) if it.ns <= 0.0 => format!("always{}", number(it.replicates)),
        Pays::FasterThere(it) => format!("if {} faster there{}", span(it), number(it.replicates)),
        Pays::OwnWork(it) if it.interval.is_some_and(|(_, high)| high <= 0.0) => {
            format!("beside any own work{}", number(it.replicates))
        }
        Pays::OwnWork(it) => format!("from {} of own work{}", span(it), number(it.replicates)),
        Pays::Never { part_ns, replicates } => {
            format!("never: the caller's part takes {}{}", time(part_ns), number(replicates))
        }
        Pays::NotEnough(it) => format!("not enough evidence{}", number(it.replicates)),
        Pays::Unknown => "unknown: measure `none` and gettid too".to_owned(),
    }
}

/// Returns a clause about the amount of own work with which a switch beats a second worker.
fn beside(instead: &Instead) -> String {
    match *instead {
        Instead::OwnWork { from, to } => {
            format!(
                "with {} to {} of own work{}",
                time(from.ns),
                time(to.ns),
                number(to.replicates)
            )
        }
        Instead::Never(by) => format!("never: {} slower{}", span(by), number(by.replicates)),
        Instead::NotEnough(it) => format!("not enough evidence{}", number(it.replicates)),
        Instead::Unknown => "unknown: measure second-worker too".to_owned(),
    }
}

/// Returns a clause about the amount of own work with which `way` beats a second worker, for a row about that worker.
fn against(way: &str, instead: &Instead) -> String {
    let way = way.replace(", ", "/");
    match *instead {
        Instead::OwnWork { from, to } => {
            let n = to.replicates;
            let (from, to) = (time(from.ns), time(to.ns));
            format!("{way} at {from} to {to} of work{}", number(n))
        }
        Instead::Never(by) => {
            format!("beats {way} by {}{}", span(by), number(by.replicates))
        }
        _ => beside(instead),
    }
}

/// Returns a time with its interval, in one unit.
fn span(it: MedianDifference) -> String {
    let Some((low, high)) = it.interval else { return time(it.ns) };
    let values = [it.ns, low, high];
    let all = values.map(time);
    let parts = all.each_ref().map(|it| it.split_once(' ').unwrap_or((it, "")));
    let [(estimate, unit), (low, of_low), (high, of_high)] = parts;
    if unit == of_low && unit == of_high {
        return format!("{estimate} [{low}, {high}] {unit}");
    }
    let [estimate, low, high] = values.map(nanos);
    format!("{estimate} [{low}, {high}] ns")
}

/// Returns the number of replicates behind a statement, such as ` (n=20)`.
fn number(replicates: usize) -> String {
    format!(" (n={replicates})")
}

/// Returns a sentence for each pair of CPUs about the cheapest and the dearest switch, and a sentence for each reason
/// why mechanisms were not measured.
pub fn notes(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> Vec<String> {
    let mut pairs: Vec<Vec<&SwitchSummary>> = Vec::new();
    for it in summaries.iter().filter(|it| it.of.call == SwitchCall::Gettid) {
        match pairs.last_mut().filter(|pair| pair[0].of == it.of) {
            Some(pair) => pair.push(it),
            None => pairs.push(vec![it]),
        }
    }
    let missing = reasons(not_measured).into_iter();
    let of_pair = |pair: &Vec<&SwitchSummary>| [sentence(pair), peers(pair)];
    pairs.iter().flat_map(of_pair).flatten().chain(missing).collect()
}

/// Returns a sentence about a call without the library, by the cheapest and by the dearest way that programs use.
fn peers(pair: &[&SwitchSummary]) -> Option<String> {
    let cost = |it: &&&SwitchSummary| it.mean_ns.estimate;
    let peers = pair.iter().filter(|it| SwitchMechanism::PEERS.contains(&it.mechanism));
    let cheapest = peers.clone().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let dearest = peers.max_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let named = |it: &SwitchSummary| format!("{} by {}", time(it.mean_ns.estimate), it.mechanism);
    let is_one = cheapest.mechanism == dearest.mechanism;
    let dearest = if is_one { String::new() } else { format!(" to {}", named(dearest)) };
    Some(format!(
        "CPU {}→{}: without the library, a call to a worker thread takes {}{dearest}.",
        cheapest.of.from_cpu,
        cheapest.of.to_cpu,
        named(cheapest),
    ))
}

/// Returns sentences about the mechanisms that were not measured, one for each reason.
fn reasons(not_measured: &[NotMeasured]) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, BTreeSet<SwitchMechanism>> = BTreeMap::new();
    for it in not_measured {
        by_reason.entry(&it.why).or_default().insert(it.mechanism);
    }
    let sentence = |(why, mechanisms): (&str, BTreeSet<SwitchMechanism>)| {
        let names: Vec<String> = mechanisms.iter().map(ToString::to_string).collect();
        format!("Not measured: {}: {why}.", names.join(", "))
    };
    by_reason.into_iter().map(sentence).collect()
}

fn sentence(pair: &[&SwitchSummary]) -> Option<String> {
    let cost = |it: &&&SwitchSummary| it.per_switch_ns().map_or(f64::INFINITY, |(ns, _)| ns);
    // The kernel's thread carries out requests, not functions; workers of a program's own have a sentence of theirs.
    let is_other =
        |it: SwitchMechanism| it == SwitchMechanism::Sqpoll || SwitchMechanism::PEERS.contains(&it);
    let priced = pair.iter().filter(|it| !is_other(it.mechanism) && it.per_switch_ns().is_some());
    let cheapest = priced.clone().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let dearest = priced.max_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    // The class may be one that the platform declares: two runs are of one distance if their lines take the same.
    let class = cheapest.of.pair_class.map(|class| class.to_string());
    let line = cheapest.exchange_ns.map(|ns| format!("a line takes {} one way", time(ns)));
    let distance: Vec<String> = class.into_iter().chain(line).collect();
    let class =
        if distance.is_empty() { String::new() } else { format!(" ({})", distance.join(", ")) };
    Some(format!(
        "CPU {}→{}{class}: a switch costs {} by {} and {} by {}.",
        cheapest.of.from_cpu,
        cheapest.of.to_cpu,
        time(cost(&cheapest)),
        cheapest.mechanism,
        time(cost(&dearest)),
        dearest.mechanism,
    ))
}

fn pair(of: &Switched) -> String {
    format!("{}→{}", of.from_cpu, of.to_cpu)
}

fn class(of: &Switched) -> String {
    or_dash(of.pair_class.map(|class| class.to_string()))
}

fn with_interval(it: &ReplicateStatistic) -> String {
    with_ends(it.estimate, it.interval.map(|interval| (interval.low, interval.high)))
}

fn with_ends(estimate: f64, ends: Option<(f64, f64)>) -> String {
    let ends = ends.map(|(low, high)| format!(" [{}, {}]", nanos(low), nanos(high)));
    nanos(estimate) + &ends.unwrap_or_default()
}

/// Nanoseconds as text, with tenths if they are below a hundred, and otherwise as a whole number.
fn nanos(ns: f64) -> String {
    if ns.abs() < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::SwitchBatch;
    use corehop_plan::samples::example::switch_batch;
    use corehop_plan::workload::Event;
    use corehop_stats::switches::Switchings;

    #[test]
    fn the_ladder_the_break_even_and_one_sentence_answer() {
        let near = measured(6, None);
        let text = text(&near, &[]);
        for part in [
            "v4",
            "200",
            "30000",
            "CPU 0→1 (a line takes 50.0 ns one way): a switch costs 200 ns by v4 and 30.0 µs by v1.",
            "CPU 0→1: without the library, a call to a worker thread takes 9.00 µs by pipe.",
            "if 400 [400, 400] ns faster there (n=6)",
            "beside any own work (n=6)",
            "never: the caller's part takes",
        ] {
            let known = part != "never: the caller's part takes";
            assert_eq!(text.contains(part), known, "{part}: {text}");
        }
        let second = text.lines().find(|line| line.contains("second-worker") && line.contains('v'));
        assert!(
            second.is_some_and(|it| it.contains("beats v4/16 by 25.0 [25.0, 25.0] ns (n=6)")),
            "{text}"
        );
        // Two classes take a column more.
        let far = measured(6, Some(Event::MemoryMigration));
        let wide = super::text(&[near, far].concat(), &[]);
        assert!(wide.contains("memory_migration"), "{wide}");
        let lines = || text.lines().chain(wide.lines());
        assert!(lines().all(|line| line.chars().count() <= 100), "{text}{wide}");
    }

    #[test]
    fn too_few_replicates_are_not_enough_evidence() {
        let text = text(&measured(3, None), &[]);
        assert!(text.contains("not enough evidence (n=3)"), "{text}");
        assert!(!text.contains("beside any own work") && !text.contains("faster there"), "{text}");
    }

    /// Makes the summaries of a call by some ways, each with `replicates` replicates.
    fn measured(replicates: u64, pair_class: Option<Event>) -> Vec<SwitchSummary> {
        use SwitchMechanism::{Pipe, SecondWorker, V1, V4};
        let mut switchings = Switchings::default();
        let ways = [
            (SwitchMechanism::None, 1, 70.0),
            (V1, 1, 60_070.0),
            (V4, 1, 470.0),
            (V4, 16, 60.0),
            (Pipe, 1, 9_000.0),
            (SecondWorker, 1, 35.0),
        ];
        for (mechanism, outstanding, mean_ns) in ways {
            for replicate in (0..replicates).map(Some) {
                let mean_ns = Some(mean_ns);
                switchings.take(&[SwitchBatch {
                    mechanism,
                    outstanding,
                    mean_ns,
                    replicate,
                    pair_class,
                    ..switch_batch()
                }]);
            }
        }
        switchings.finish()
    }

    #[test]
    fn nothing_measured_prints_nothing() {
        assert_eq!(text(&[], &[]), "");
    }
    #[test]
    fn a_mechanism_that_was_not_measured_has_a_row_and_its_reason_above() {
        let mut switchings = Switchings::default();
        switchings.take(&[
            SwitchBatch { mechanism: SwitchMechanism::None, ..switch_batch() },
            SwitchBatch {
                mechanism: SwitchMechanism::Sqpoll,
                mean_ns: None,
                valid: false,
                not_measured: Some("no answer in time".into()),
                ..switch_batch()
            },
        ]);
        let text = text(&switchings.finish(), &switchings.not_measured());
        let is_row = |line: &str| line.contains("sqpoll") && line.contains("not measured");
        assert!(text.lines().any(is_row), "{text}");
        assert!(text.contains("Not measured: sqpoll: no answer in time."), "{text}");
    }
}
