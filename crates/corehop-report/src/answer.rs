// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sentence with the main result: the cost of a preemption and of a migration on this machine, with
//! its certainty.
//!
//! The page begins with this sentence, and the terminal's table ends with it.

use super::table::{interval, micros};
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;
use corehop_results::Results;
use corehop_stats::headline::{CompanyCosts, Headline, HeadlineCost, headline};

/// Returns the sentence with the main result, or `None` if the data have no preemption and no
/// migration.
pub fn answer(data: &Results) -> Option<String> {
    let headline = headline(&data.jobs.summaries)?;
    let machine = data.machines.iter().find(|machine| *machine.id == *headline.cell.machine);
    let id = &*headline.cell.machine;
    let name = machine
        .and_then(|machine| machine.platform.as_ref())
        .map_or_else(|| id.to_owned(), |platform| format!("{id} ({})", platform.name));
    Some(sentence(&name, &headline, classes(data, &headline)))
}

/// Writes a sentence for the first company with its evidence, and a sentence for each other company.
fn sentence(machine: &str, headline: &Headline, classes: &str) -> String {
    let Some((first, others)) = headline.groups.split_first() else { return String::new() };
    let cell = &headline.cell;
    let sure = || headline.costs().filter(|it| it.interval_us.is_some());
    let common = sure().next().filter(|first| sure().all(|it| it.replicates == first.replicates));
    let from = match (sure().count(), common) {
        (0, _) => "medians, without intervals".to_owned(),
        (_, None) => "medians with 95 % intervals".to_owned(),
        (1, Some(it)) => format!("medians, with a 95 % interval from {}", replicates(it)),
        (_, Some(it)) => format!("medians, with 95 % intervals from {} each", replicates(it)),
    };
    let differ = common.is_none();
    let mut text = format!(
        "On {machine}, {} to a job with a working set of {} ({}, write ratio {}, load {}, preemption length \
         {}, {}): {from}; {classes}.{}",
        listed(first, differ),
        Bytes::new(cell.wss_bytes),
        cell.workload.as_deref().unwrap_or(cell.pattern.word()),
        cell.write_ratio,
        cell.load,
        preemption_length(headline.length()),
        first.company.brief(),
        beside(first, headline.control.as_ref(), differ),
    );
    for group in others {
        text.push_str(&apart(group, headline, differ));
    }
    text
}

/// Returns the sentence about a company that is not comparable with the first company.
fn apart(group: &CompanyCosts, headline: &Headline, differ: bool) -> String {
    let missing = if group.compares() {
        ""
    } else if group.costs.iter().any(|it| it.event.is_migration()) {
        ", and no preemption was measured in that company to compare with"
    } else {
        ", and no migration was measured in that company to compare with"
    };
    let beside = beside(group, headline.control.as_ref(), differ);
    format!(" If {}, {}{missing}.{beside}", group.company.brief(), listed(group, differ))
}

/// Returns the clause about the control, beside a company in which other threads ran.
fn beside(group: &CompanyCosts, control: Option<&HeadlineCost>, differ: bool) -> String {
    match control {
        _ if group.is_quiet() => String::new(),
        Some(control) => {
            let ends = ends(control, differ);
            let us = micros(control.median_us);
            let absence = "eaving the CPU for as long while nothing runs costs";
            // What costs more than every whole is no part of one.
            if group.costs.iter().any(|it| control.median_us <= it.median_us) {
                format!(" Of that delay, l{absence} {us} µs{ends}.")
            } else {
                format!(" L{absence} no less: {us} µs{ends}.")
            }
        }
        None => " The control idle_leave was not measured.".to_owned(),
    }
}

/// Returns the cost of an event as a clause, such as `a preemption costs 288 µs [261, 375]`; the number
/// of replicates is added if it differs between costs or if there is no interval.
fn cost(cost: &HeadlineCost, quiet: bool, differ: bool) -> String {
    let error = if cost.within_error { ", which is within the method's error," } else { "" };
    let name = match cost.event {
        Event::IdleLeave => "leaving the CPU (the control)".to_owned(),
        Event::Preemption if quiet => "leaving the CPU".to_owned(),
        event => with_article(event),
    };
    format!("{name} costs {} µs{}{error}", micros(cost.median_us), ends(cost, differ))
}

/// Returns the name of an event with its article, such as `an L3 migration`.
pub(super) fn with_article(event: Event) -> String {
    let name = event.word().replace('_', " ");
    let article = if name.starts_with('l') || name.starts_with('s') { "an" } else { "a" };
    format!("{article} {}", level_in_capitals(&name))
}

/// Returns the interval of a cost, such as ` [261, 375]`; the number of replicates is added if it
/// differs between costs or if there is no interval.
fn ends(cost: &HeadlineCost, differ: bool) -> String {
    match cost.interval_us {
        Some((low, high)) if differ => {
            format!(" {} ({})", interval(Some(low), Some(high)), replicates(cost))
        }
        Some((low, high)) => format!(" {}", interval(Some(low), Some(high))),
        None => format!(" ({})", replicates(cost)),
    }
}

/// Returns a name such as `l3 migration` with its level in capitals.
fn level_in_capitals(name: &str) -> String {
    match name.split_once(' ') {
        Some((level @ ("l2" | "l3"), rest)) => format!("{} {rest}", level.to_uppercase()),
        Some(("smt", rest)) => format!("SMT {rest}"),
        _ => name.to_owned(),
    }
}

fn replicates(cost: &HeadlineCost) -> String {
    match cost.replicates {
        1 => "1 replicate".to_owned(),
        several => format!("{several} replicates"),
    }
}

/// Returns the costs of a company as clauses, joined with commas and a final `and`; only the first
/// clause has a verb.
fn listed(group: &CompanyCosts, differ: bool) -> String {
    let costs = group.costs.iter().map(|it| cost(it, group.is_quiet(), differ));
    let short = |(place, cost): (usize, String)| match place {
        0 => cost,
        _ => cost.replacen(" costs ", " ", 1),
    };
    let costs: Vec<String> = costs.enumerate().map(short).collect();
    match costs.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => costs.concat(),
    }
}

/// Returns the preemption length as text: `4 ms` for `fixed_4ms`; other lengths stay as in their
/// column.
pub(super) fn preemption_length(text: &str) -> String {
    match text.strip_prefix("fixed_") {
        Some(fixed) => {
            let digits = fixed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(fixed.len());
            let (number, unit) = fixed.split_at(digits);
            format!("{number} {unit}").trim_end().to_owned()
        }
        None => text.to_owned(),
    }
}

/// Returns the words that state the source of the migration classes.
fn classes(data: &Results, headline: &Headline) -> &'static str {
    let migrates = headline.costs().any(|it| it.event.is_migration());
    let measured =
        |file: &corehop_results::FileNote| file.provenance.machine.contains_key("distance");
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
    use corehop_plan::samples::example::sample;
    use corehop_plan::workload::Absence;
    use corehop_stats::cell::CellKey;
    use corehop_stats::company::Company;

    /// An event, its cost, the interval, and the replicates.
    type Given = (Event, f64, Option<(f64, f64)>, usize);

    fn cost_of((event, median_us, interval_us, replicates): Given) -> HeadlineCost {
        HeadlineCost { event, median_us, interval_us, replicates, within_error: false }
    }

    fn group(company: Company, costs: &[Given]) -> CompanyCosts {
        CompanyCosts { company, costs: costs.iter().copied().map(cost_of).collect() }
    }

    fn walked() -> Company {
        let polluter = Some("shuffled 4 MiB write 0.5".to_owned());
        Company { preempted_by: Absence::Preemptor, polluter, pair_class: None }
    }

    fn of(groups: Vec<CompanyCosts>, control: Option<Given>) -> String {
        let mut cell = CellKey::of(&sample());
        cell.load = "idle".into();
        cell.preemption_length = "fixed_4ms".into();
        (cell.wss_bytes, cell.write_ratio) = (256 << 10, 0.5);
        let headline = Headline { cell, groups, control: control.map(cost_of), simulated: false };
        sentence("a box", &headline, "classes are as the machine declares them")
    }

    #[test]
    fn one_sentence_has_the_costs_of_one_company_and_another_company_has_its_own() {
        let leave = (Event::IdleLeave, 240.0, Some((54.0, 376.0)), 20);
        let moved = (Event::L3Migration, 275.0, Some((192.0, 389.0)), 20);
        let preempted = (Event::Preemption, 288.0, Some((261.0, 375.0)), 20);
        let quiet = group(Company::nothing(), &[leave, moved]);
        assert_eq!(
            of(vec![quiet, group(walked(), &[preempted])], Some(leave)),
            "On a box, leaving the CPU (the control) costs 240 µs [54.0, 376] and an L3 migration 275 µs \
             [192, 389] to a job with a working set of 256 KiB (shuffled, write ratio 0.5, load idle, \
             preemption length 4 ms, nothing ran meanwhile): medians, with 95 % intervals from 20 replicates \
             each; classes are as the machine declares them. If a preemptor walked 4 MiB meanwhile, a \
             preemption costs 288 µs [261, 375], and no migration was measured in that company to compare \
             with. Of that delay, leaving the CPU for as long while nothing runs costs 240 µs [54.0, 376]."
        );
    }

    #[test]
    fn a_control_that_costs_more_than_a_preemption_is_no_part_of_it() {
        let leave = (Event::IdleLeave, 228.0, None, 1);
        let preempted = group(walked(), &[(Event::Preemption, 72.5, None, 1)]);
        let quiet = group(Company::nothing(), &[leave]);
        let told = of(vec![quiet, preempted], Some(leave));
        let no_less = "Leaving the CPU for as long while nothing runs costs no less: 228 µs";
        assert!(told.contains(no_less) && !told.contains("Of that delay"), "{told}");
    }

    #[test]
    fn an_interval_or_a_control_that_is_missing_is_said() {
        let text = of(
            vec![group(
                walked(),
                &[
                    (Event::Preemption, 288.0, Some((261.0, 375.0)), 20),
                    (Event::MemoryMigration, 588.0, None, 1),
                ],
            )],
            None,
        );
        assert!(text.contains("a memory migration 588 µs (1 replicate) to a job"), "{text}");
        assert!(text.contains("medians, with a 95 % interval from 20 replicates;"), "{text}");
        assert!(text.ends_with("The control idle_leave was not measured."), "{text}");
        let none = of(vec![group(walked(), &[(Event::Preemption, 288.0, None, 3)])], None);
        assert!(none.contains("288 µs (3 replicates) to a job"), "{none}");
        assert!(none.contains("medians, without intervals;"), "{none}");
    }
}
