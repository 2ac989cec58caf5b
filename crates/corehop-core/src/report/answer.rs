// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sentence that answers: the cost of a preemption and of a migration here, and how sure it is.
//!
//! The page begins with it, and the terminal's table ends with it.

use super::data::ReportData;
use super::table::{interval, micros};
use crate::model::headline::{Cost, Headline, headline};
use crate::units::Bytes;

/// The sentence; None where nothing was preempted or migrated.
pub fn answer(data: &ReportData) -> Option<String> {
    let headline = headline(&data.summaries)?;
    let machine = data.machines.iter().find(|machine| *machine.id == *headline.cell.machine);
    let id = &*headline.cell.machine;
    let name = machine
        .and_then(|machine| machine.platform.as_ref())
        .map_or_else(|| id.to_owned(), |platform| format!("{id} ({})", platform.name));
    Some(sentence(&name, &headline, classes(data, &headline)))
}

fn sentence(machine: &str, headline: &Headline, classes: &str) -> String {
    let cell = &headline.cell;
    let sure = || headline.costs.iter().filter(|it| it.interval_us.is_some());
    let common = sure().next().filter(|first| sure().all(|it| it.replicates == first.replicates));
    let costs: Vec<String> = headline.costs.iter().map(|it| cost(it, common.is_none())).collect();
    let from = match (sure().count(), common) {
        (0, _) => "medians, without intervals".to_owned(),
        (_, None) => "medians with 95 % intervals".to_owned(),
        (1, Some(it)) => format!("medians, with a 95 % interval from {}", replicates(it)),
        (_, Some(it)) => format!("medians, with 95 % intervals from {} each", replicates(it)),
    };
    format!(
        "On {machine}, {} to a job with a working set of {} ({}, write ratio {}, load {}, preemption length \
         {}): {from}; {classes}.",
        listed(&costs),
        Bytes::new(cell.wss_bytes),
        cell.workload.as_deref().unwrap_or(cell.pattern.word()),
        cell.write_ratio,
        cell.load,
        length(headline.length()),
    )
}

/// `a preemption costs 288 µs [261, 375]`, with the replicates where they differ or give no interval.
fn cost(cost: &Cost, differ: bool) -> String {
    let name = cost.event.word().replace('_', " ");
    let article = if name.starts_with('l') || name.starts_with('s') { "an" } else { "a" };
    let ends = match cost.interval_us {
        Some((low, high)) if differ => {
            format!("{} ({})", interval(Some(low), Some(high)), replicates(cost))
        }
        Some((low, high)) => interval(Some(low), Some(high)),
        None => format!("({})", replicates(cost)),
    };
    let error = if cost.within_error { ", which is within the method's error," } else { "" };
    format!("{article} {} costs {} µs {ends}{error}", title(&name), micros(cost.median_us))
}

/// `l3 migration` with the level in capitals.
fn title(name: &str) -> String {
    match name.split_once(' ') {
        Some((level @ ("l2" | "l3"), rest)) => format!("{} {rest}", level.to_uppercase()),
        Some(("smt", rest)) => format!("SMT {rest}"),
        _ => name.to_owned(),
    }
}

fn replicates(cost: &Cost) -> String {
    match cost.replicates {
        1 => "1 replicate".to_owned(),
        several => format!("{several} replicates"),
    }
}

/// Clauses with commas, and `and` before the last; the verb is said once.
fn listed(costs: &[String]) -> String {
    let short = |(place, cost): (usize, &String)| match place {
        0 => cost.clone(),
        _ => cost.replacen(" costs ", " ", 1),
    };
    let costs: Vec<String> = costs.iter().enumerate().map(short).collect();
    match costs.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => costs.concat(),
    }
}

/// `4 ms` of `fixed_4ms`; other lengths as their column has them.
fn length(text: &str) -> String {
    match text.strip_prefix("fixed_") {
        Some(fixed) => {
            let digits = fixed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(fixed.len());
            let (number, unit) = fixed.split_at(digits);
            format!("{number} {unit}").trim_end().to_owned()
        }
        None => text.to_owned(),
    }
}

/// The source of the migration classes.
fn classes(data: &ReportData, headline: &Headline) -> &'static str {
    let migrates = headline.costs.iter().any(|it| it.event.is_migration());
    let measured = |file: &super::data::FileNote| file.provenance.machine.contains_key("distance");
    if headline.simulated {
        "simulated, not measured"
    } else if !migrates {
        "no migration was measured"
    } else if data.files.iter().any(measured) {
        "each sample's class was measured by line exchanges"
    } else {
        "classes are as the machine declares them"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::CellKey;
    use crate::model::example::sample;
    use crate::workload::Event;

    /// An event, its cost, the interval, and the replicates.
    type Given = (Event, f64, Option<(f64, f64)>, usize);

    fn of(costs: &[Given]) -> String {
        let costs = costs.iter().map(|&(event, median_us, interval_us, replicates)| Cost {
            event,
            median_us,
            interval_us,
            replicates,
            within_error: false,
        });
        let mut cell = CellKey::of(&sample());
        cell.load = "idle".into();
        cell.preemption_length = "fixed_4ms".into();
        (cell.wss_bytes, cell.write_ratio) = (256 << 10, 0.5);
        let headline = Headline { cell, costs: costs.collect(), simulated: false };
        sentence("a box", &headline, "classes are as the machine declares them")
    }

    #[test]
    fn one_sentence_has_the_costs_the_intervals_and_what_they_stand_on() {
        let two = [
            (Event::Preemption, 288.0, Some((261.0, 375.0)), 20),
            (Event::L3Migration, 275.0, Some((192.0, 389.0)), 20),
        ];
        assert_eq!(
            of(&two),
            "On a box, a preemption costs 288 µs [261, 375] and an L3 migration 275 µs [192, 389] to a job with \
             a working set of 256 KiB (shuffled, write ratio 0.5, load idle, preemption length 4 ms): \
             medians, with 95 % intervals from 20 replicates each; classes are as the machine declares \
             them."
        );
    }

    #[test]
    fn an_interval_that_is_missing_is_said_with_the_number_of_replicates() {
        let text = of(&[
            (Event::Preemption, 288.0, Some((261.0, 375.0)), 20),
            (Event::MemoryMigration, 588.0, None, 1),
        ]);
        assert!(text.contains("a memory migration 588 µs (1 replicate) to a job"), "{text}");
        assert!(text.contains("medians, with a 95 % interval from 20 replicates;"), "{text}");
        let none = of(&[(Event::Preemption, 288.0, None, 3)]);
        assert!(none.contains("288 µs (3 replicates) to a job"), "{none}");
        assert!(none.contains("medians, without intervals;"), "{none}");
    }
}
