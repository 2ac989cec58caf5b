// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches as text and tables: the ladder of mechanisms, and the point from which a switch pays.

use std::collections::{BTreeMap, BTreeSet};

use super::figure::Table;
use super::label::time;
use super::table::plain;
use crate::model::replicates::Between;
use crate::model::switching::{NotMeasured, Pays, SwitchSummary, Switched};
use crate::workload::switching::{SwitchCall, SwitchMechanism};

/// The ladder and the least costly ways of each call as text, a sentence for each pair of CPUs below.
pub fn text(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> String {
    let tables = some([narrow(ladder(summaries, not_measured)), least_costly(summaries)]);
    let tables: String = tables.iter().map(plain).collect();
    tables + &notes(summaries, not_measured).into_iter().map(|note| note + "\n").collect::<String>()
}

/// The ladder of the shortest call, and the break-even of all, as far as they were measured.
pub fn tables(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> Vec<Table> {
    some([ladder(summaries, not_measured), least_costly(summaries), break_even(summaries)])
}

fn some<const N: usize>(tables: [Table; N]) -> Vec<Table> {
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// A ladder that fits on a screen.
fn narrow(ladder: Table) -> Table {
    let left_out = ["range of batches ns", "10 %", "invalid"];
    let keep: Vec<bool> =
        ladder.head.iter().map(|head| !left_out.contains(&head.as_str())).collect();
    let kept = |fields: Vec<String>| -> Vec<String> {
        fields.into_iter().zip(&keep).filter_map(|(field, keep)| keep.then_some(field)).collect()
    };
    let rows = ladder.rows.into_iter().map(kept).collect();
    Table { head: kept(ladder.head), rows, ..ladder }
}

/// Of each call the least costly mechanism that waits for it, and the one with several calls outstanding.
fn least_costly(summaries: &[SwitchSummary]) -> Table {
    let columns = [
        "CPUs",
        "class",
        "call",
        "bytes",
        "stays ns",
        "waits",
        "longer by ns",
        "outstanding",
        "pays",
    ];
    let mut table =
        Table::new("From which point a core switch pays, by the least costly way", &columns);
    let calls: Vec<&SwitchSummary> =
        summaries.iter().filter(|it| it.mechanism == SwitchMechanism::None).collect();
    let row = |none: &&SwitchSummary| {
        let cheapest = |several: bool| {
            let ways = summaries.iter().filter(|it| {
                it.of == none.of && it.pays.is_some() && (it.outstanding > 1) == several
            });
            let ways = ways.filter(|it| it.mechanism != SwitchMechanism::Sqpoll);
            ways.min_by(|a, b| a.mean_ns.estimate.total_cmp(&b.mean_ns.estimate))
        };
        let (waits, several) = (cheapest(false), cheapest(true));
        let extra = waits.and_then(|it| it.extra_ns.as_ref()).map(with_interval);
        let way = |it: &SwitchSummary| format!("{}, {}", it.mechanism, it.outstanding);
        vec![
            pair(&none.of),
            class(&none.of),
            none.of.call.to_string(),
            none.of.bytes.to_string(),
            with_interval(&none.mean_ns),
            or_dash(waits.map(|it| it.mechanism.to_string())),
            or_dash(extra),
            or_dash(several.map(way)),
            or_dash(several.and_then(|it| it.pays.as_ref()).map(point)),
        ]
    };
    table.rows = calls.iter().map(row).collect();
    table
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Every mechanism on each pair of CPUs, waiting for each call.
fn ladder(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> Table {
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
    let mut table = Table::new("The cost of a core switch (gettid, there and back)", &columns);
    let waits = |it: &&SwitchSummary| it.of.call == SwitchCall::Gettid && it.outstanding == 1;
    table.rows = summaries.iter().filter(waits).map(rung).collect();
    let waits = |it: &&NotMeasured| it.of.call == SwitchCall::Gettid && it.outstanding == 1;
    table.rows.extend(not_measured.iter().filter(waits).map(missing_rung));
    table
}

/// The row of a mechanism that was not measured; the reason is a sentence below the table.
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

/// Every call by every mechanism, with the point from which the switch pays.
fn break_even(summaries: &[SwitchSummary]) -> Table {
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
    ];
    let mut table = Table::new("From which point a core switch pays, by every way", &columns);
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
        ]
    };
    let calls = summaries.iter().filter(|it| it.of.call.is_sized() || it.outstanding > 1);
    table.rows = calls.map(row).collect();
    table
}

/// The point from which a switch pays, in words.
fn point(pays: &Pays) -> String {
    match *pays {
        Pays::FasterThere { ns } if ns <= 0.0 => "always".to_owned(),
        Pays::FasterThere { ns } => format!("if the call is {} faster there", time(ns)),
        Pays::OwnWork { ns } if ns <= 0.0 => "beside any work of the caller".to_owned(),
        Pays::OwnWork { ns } => format!("from {} of own work per call", time(ns)),
        Pays::Never { part_ns } => {
            format!("never: the caller's part takes {}", time(part_ns))
        }
        Pays::Unknown => "unknown: measure `none` and gettid too".to_owned(),
    }
}

/// One sentence for each pair of CPUs: the cheapest and the dearest switch; and one for each reason for which mechanisms were
/// not measured.
pub fn notes(summaries: &[SwitchSummary], not_measured: &[NotMeasured]) -> Vec<String> {
    let mut pairs: Vec<Vec<&SwitchSummary>> = Vec::new();
    for it in summaries.iter().filter(|it| it.of.call == SwitchCall::Gettid) {
        match pairs.last_mut().filter(|pair| pair[0].of == it.of) {
            Some(pair) => pair.push(it),
            None => pairs.push(vec![it]),
        }
    }
    let missing = reasons(not_measured).into_iter();
    pairs.iter().filter_map(|pair| sentence(pair)).chain(missing).collect()
}

/// The mechanisms that were not measured, by reason.
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
    // The kernel's thread carries out requests, not functions.
    let priced = pair
        .iter()
        .filter(|it| it.mechanism != SwitchMechanism::Sqpoll && it.per_switch_ns().is_some());
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

fn with_interval(it: &Between) -> String {
    with_ends(it.estimate, it.interval.map(|interval| (interval.low, interval.high)))
}

fn with_ends(estimate: f64, ends: Option<(f64, f64)>) -> String {
    let ends = ends.map(|(low, high)| format!(" [{}, {}]", nanos(low), nanos(high)));
    nanos(estimate) + &ends.unwrap_or_default()
}

/// Nanoseconds: tenths below a hundred, whole ones above.
fn nanos(ns: f64) -> String {
    if ns.abs() < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::switching::Switchings;
    use crate::samples::SwitchBatch;
    use crate::samples::example::switch_batch;

    #[test]
    fn the_ladder_the_break_even_and_one_sentence_answer() {
        use SwitchMechanism::{None, V1, V4};
        let mut switchings = Switchings::default();
        let ways = [(None, 1, 70.0), (V1, 1, 60_070.0), (V4, 1, 470.0), (V4, 16, 60.0)];
        for (mechanism, outstanding, mean_ns) in ways {
            let mean_ns = Some(mean_ns);
            let batch = SwitchBatch { mechanism, outstanding, mean_ns, ..switch_batch() };
            switchings.take(&[batch]);
        }
        let text = text(&switchings.finish(), &[]);
        for part in [
            "v4",
            "200",
            "30000",
            "CPU 0→1 (a line takes 50.0 ns one way): a switch costs 200 ns by v4 and 30.0 µs by v1.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("beside any work of the caller"), "{text}");
    }

    #[test]
    fn nothing_measured_prints_nothing() {
        assert_eq!(text(&[], &[]), "");
    }
    #[test]
    fn a_mechanism_that_was_not_measured_has_a_row_and_its_reason_below() {
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
        let row = text.lines().find(|line| line.contains("sqpoll")).unwrap();
        assert!(row.contains("not measured"), "{text}");
        assert!(text.contains("Not measured: sqpoll: no answer in time."), "{text}");
    }
}
