// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of a machine as text: its latencies, its line exchanges, and the outcome of the
//! checks of stated facts.

use std::fmt::Write as _;

use super::label;
use corehop_plan::platform::observed::{DistanceLevel, Exchange, ExchangeClass};
use corehop_plan::platform::{Check, Fact, Latency, Loss, Platform};
use corehop_plan::units::{Cpu, CpuList};

/// The exchanges of a machine with at most this many CPUs appear as a matrix; a larger machine has
/// a line for each class of CPU pair.
const MATRIX: usize = 12;

/// Writes the sections about a machine for which it has measurements; the text is empty if nothing
/// was measured or checked.
pub(super) fn sections(platform: &Platform) -> String {
    let mut text = latencies(platform);
    text.push_str(&exchanges(platform));
    text.push_str(&distances(platform));
    text.push_str(&losses(platform));
    let checks = label::checks(platform);
    if !checks.is_empty() {
        text.push_str("\nstated facts, checked\n");
    }
    for (fact, check) in checks {
        // Writing to a string cannot fail, here and below.
        let _ = match check {
            Check::Observed { how } => writeln!(text, "  observed      {fact}: {how}"),
            Check::Contradicted { why } => writeln!(text, "  contradicted  {fact}: {why}"),
            Check::Unchecked => writeln!(text, "  not told      {fact}"),
        };
    }
    text
}

fn latencies(platform: &Platform) -> String {
    let line = |(name, fact): (String, &Fact<Latency>)| {
        format!("  {name:<18}{:<12}{}\n", fact.value.to_string(), fact.source)
    };
    let lines: String = label::latencies(platform).into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nlatency\n{lines}") }
}

fn exchanges(platform: &Platform) -> String {
    let Some(exchanges) = platform.exchange.as_ref().map(|fact| &fact.value) else {
        return String::new();
    };
    let cpus = CpuList::new(exchanges.iter().flat_map(|exchange| [exchange.from, exchange.to]));
    let mut text = "\na cache line from CPU to CPU, ns: shortest and median\n".to_owned();
    if cpus.len() <= MATRIX {
        matrix(&mut text, exchanges, &cpus);
    } else {
        classes(&mut text, platform);
    }
    text
}

fn matrix(text: &mut String, exchanges: &[Exchange], cpus: &CpuList) {
    let find = |from: Cpu, to: Cpu| exchanges.iter().find(|e| (e.from, e.to) == (from, to));
    let cell = |exchange: Option<&Exchange>| {
        exchange.map_or_else(
            || "-".to_owned(),
            |e| format!("{} {}", label::ns(e.min), label::ns(e.median)),
        )
    };
    let _ = write!(text, "  {:<8}", "from\\to");
    for to in cpus.iter() {
        let _ = write!(text, "{:>13}", to.0);
    }
    for from in cpus.iter() {
        let _ = write!(text, "\n  {:<8}", from.0);
        for to in cpus.iter() {
            let _ = write!(text, "{:>13}", cell(find(from, to)));
        }
    }
    text.push('\n');
}

fn classes(text: &mut String, platform: &Platform) {
    for class in platform.exchange_classes() {
        let ExchangeClass { affinity, pairs, least, median } = class;
        let name = label::exchange(affinity);
        let _ =
            writeln!(text, "  {name:<18}{} {}, {pairs} pairs", label::ns(least), label::ns(median));
    }
}

/// Writes the distances between watched CPUs, and the share of time that the CPUs spent at each
/// distance.
fn distances(platform: &Platform) -> String {
    let Some(distance) = &platform.distance else { return String::new() };
    let mut text = "\ndistances of CPUs during the observation\n".to_owned();
    for level in &distance.value {
        let DistanceLevel { class, exchange, share, changes, .. } = level;
        let _ = writeln!(
            text,
            "  {:<18}{:>7} ns  {:>5.1} % of the time  {}  changes to it: {changes}",
            class.event(),
            label::ns(*exchange),
            f64::from(*share) / 10.0,
            stay(level)
        );
    }
    let _ = writeln!(text, "  {}", distance.source);
    text
}

/// Writes the share of cache lines that an absence removes from the caches, as a median and
/// quartiles.
fn losses(platform: &Platform) -> String {
    let mut text = String::new();
    for Loss { length, wss, share } in &platform.losses {
        if text.is_empty() {
            text.push_str(
                "\ncache lines lost during an absence in which none of your threads ran: median, and quartiles\n",
            );
        }
        let percent =
            |at: usize| f64::from(share.value.get(at).copied().unwrap_or_default()) / 10.0;
        let count = share.value.len();
        let (low, middle, high) = (percent(count / 4), percent(count / 2), percent(3 * count / 4));
        let _ = writeln!(
            text,
            "  in {:<7} of {:<9}{middle:>6.1} %  {low:>6.1} % to {high:>5.1} %  {}",
            length.to_string(),
            label::size(*wss),
            share.source
        );
    }
    text
}

/// Returns a clause about the time for which CPUs stayed at a distance: the median, or a lower
/// bound if no stay was seen from its beginning to its end.
fn stay(level: &DistanceLevel) -> String {
    match level.median_stay {
        Some(median) => format!("stays {:>6.1} s (median)", median.secs()),
        None => format!("stays {:>6.1} s at least", level.longest_stay.secs()),
    }
}
