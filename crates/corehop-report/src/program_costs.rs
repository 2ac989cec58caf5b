// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events that corehop caused in a program: first the sentence that answers, then the table, and the
//! reasons to doubt it.

use super::figure::FigureTable;
use super::table::{micros, plain};
use corehop_plan::units::Nanos;
use corehop_plan::workload::Event;
use corehop_stats::program_costs::{DoseCost, EventCost, ProgramCost, ProgramCostResults};

/// Writes the costs as text, with the main sentence, the tables and the notes.
pub fn text(results: &ProgramCostResults) -> String {
    let tables: String = tables(results).iter().map(plain).collect();
    format!("{}\n\n{tables}{}\n", sentence(results), notes(results).join("\n"))
}

/// Returns a sentence that states the costs, such as
/// `redis-server pays 27.1 µs [24.0, 30.3] for a migration across the L3.`
pub fn sentence(results: &ProgramCostResults) -> String {
    let name = if results.program.is_empty() { "the program" } else { results.program.as_str() };
    let parts: Vec<String> = results.costs.iter().map(|it| part(results, it)).collect();
    format!("{name}: {}.", parts.join("; "))
}

/// Returns the clause about the cost of one class of event.
fn part(results: &ProgramCostResults, cost: &ProgramCost) -> String {
    let event = named(results, cost);
    match &cost.cost {
        None => format!("{event} was not measured: {}", why_not(cost)),
        Some(it) if it.is_seen() => format!("{event} costs {}", amount(it)),
        Some(EventCost { us, interval: None }) => {
            format!("{event} costs some {} µs (too few rounds for an interval)", micros(*us))
        }
        Some(EventCost { interval: Some(it), .. }) => {
            format!("{event} costs at most {} µs, and may cost nothing", micros(it.high))
        }
    }
}

/// Returns a clause that explains why a class of event has no cost.
fn why_not(cost: &ProgramCost) -> String {
    let worst = cost.invalid.iter().max_by_key(|(_, count)| **count);
    match worst {
        Some((why, count)) if cost.rounds == 0 => format!("{why} ({count} blocks)"),
        _ if cost.tried == 0 => "no round is complete".to_owned(),
        _ => format!(
            "none of {} events could be caused; the threads were not running, or pin themselves",
            cost.tried
        ),
    }
}

/// Returns a cost with its interval, such as `27.1 µs [24.0, 30.3]`.
fn amount(cost: &EventCost) -> String {
    let within = cost
        .interval
        .map_or_else(String::new, |it| format!(" [{}, {}]", micros(it.low), micros(it.high)));
    format!("{} µs{within}", micros(cost.us))
}

/// Returns the class of a cost as a noun: `a preemption of 1 ms`, also with the preemptor's working set if several
/// preemptors were measured.
pub(super) fn named(results: &ProgramCostResults, cost: &ProgramCost) -> String {
    let class = class(results, cost);
    let what = match cost.event {
        Event::SmtMigration => "a migration within a core",
        Event::L2Migration => "a migration within an L2 cache",
        Event::L3Migration => "a migration within an L3 cache",
        Event::MemoryMigration => "a migration without a common cache",
        Event::IdleLeave => "an idle absence",
        _ => "a preemption",
    };
    format!("{what}{class}")
}

/// Returns ` of 1 ms` for preemptions, and ` of 1 ms by 64 KiB, …` if several preemptors were measured.
fn class(results: &ProgramCostResults, cost: &ProgramCost) -> String {
    let us = cost.length_us;
    let length = us.map_or_else(String::new, |us| format!(" of {}", Nanos::new((1e3 * us) as u64)));
    let is_other = |it: &ProgramCost| it.polluter.is_some() && it.polluter != cost.polluter;
    let several = results.costs.iter().any(is_other);
    let preemptor = cost.polluter.as_ref().filter(|_| several);
    preemptor.map_or_else(|| length.clone(), |it| format!("{length} by {it}"))
}

/// Returns a table of the costs by class of event and rate of events.
pub fn tables(results: &ProgramCostResults) -> Vec<FigureTable> {
    if results.is_empty() {
        return Vec::new();
    }
    let head = ["event", "rate", "events/s", "events", "cost µs", "95 %", "seen"];
    let mut table = FigureTable::new("CPU time of the program for each event", &head);
    for cost in &results.costs {
        let event = format!("{}{}", cost.event, class(results, cost));
        let events = cost.events.to_string();
        table.rows.extend(cost.by_dose.iter().map(|dose| dose_row(&event, dose)));
        table.rows.extend(cost.cost.map(|it| row(&event, ["all", "", &events], &it)));
        table.rows.extend(cost.floor.map(|it| row(&event, ["none", "0", "0"], &it)));
    }
    vec![table]
}

fn dose_row(event: &str, dose: &DoseCost) -> Vec<String> {
    let (times, rate) = (format!("{}×", dose.dose), format!("{:.0}", dose.per_second));
    row(event, [&times, &rate, &dose.events.to_string()], &dose.cost)
}

fn row(event: &str, [times, rate, events]: [&str; 3], of: &EventCost) -> Vec<String> {
    let within = of
        .interval
        .map_or_else(|| "–".to_owned(), |it| format!("[{}, {}]", micros(it.low), micros(it.high)));
    let seen = if of.is_seen() { "yes" } else { "no" };
    [event, times, rate, events, &micros(of.us), &within, seen].map(str::to_owned).to_vec()
}

/// Returns notes about the costs: the slowdown by the measurement, costs that change with the rate, and other
/// reasons to doubt an answer.
pub fn notes(results: &ProgramCostResults) -> Vec<String> {
    let slow = results.slowdown_percent.map(|percent| {
        format!("The measurement slowed the program by {percent:.1} %, over all blocks.")
    });
    results.costs.iter().flat_map(|it| notes_of(results, it)).chain(slow).collect()
}

fn notes_of(results: &ProgramCostResults, cost: &ProgramCost) -> Vec<String> {
    let event = format!("{}{}", cost.event, class(results, cost));
    let mut notes = Vec::new();
    if let Some(bend) = &cost.bend {
        let more = if bend.us < 0.0 { "less" } else { "more" };
        let us = micros(bend.us.abs());
        notes.push(format!(
            "{event}: an event at the highest rate costs {us} µs {more} than at the lowest: use the row with your system's rate."
        ));
    }
    if cost.floor.is_some_and(|it| it.is_seen()) {
        notes.push(format!(
            "{event}: two kinds of blocks without events differ (row `none`), so the blocks differ by more than their events: do not trust costs of that size."
        ));
    }
    if cost.events * 2 < cost.tried {
        notes.push(format!(
            "{event}: {} of {} events happened: the threads were not running, or were moved back at once.",
            cost.events, cost.tried
        ));
    }
    if cost.cost.is_some_and(|it| !it.is_seen()) {
        notes.push(format!(
            "{event}: {} events cost less than other differences between blocks: cause more events in a block (a larger \
             --share), or measure longer (--rounds).",
            cost.events
        ));
    }
    let invalid = cost.invalid.iter();
    notes.extend(
        invalid.map(|(why, count)| format!("{event}: {count} blocks were excluded: {why}.")),
    );
    if let Some([least, most]) =
        cost.exchange_ns.filter(|[least, most]| *most > 2.0 * least.max(0.0))
    {
        notes.push(format!(
            "{event}: a line exchange took {least:.0} to {most:.0} ns: the hypervisor moved its CPUs, and the cost is a mixture of distances."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use corehop_stats::ordered::Interval;

    fn cost(us: f64, low: f64, high: f64) -> EventCost {
        EventCost { us, interval: Some(Interval { low, high, level: 0.95 }) }
    }

    fn preemption(of: Option<EventCost>) -> ProgramCost {
        ProgramCost {
            event: Event::Preemption,
            length_us: Some(1_000.0),
            polluter: None,
            rounds: 40,
            invalid: BTreeMap::new(),
            events: 900,
            tried: 1_000,
            cost: of,
            by_dose: vec![DoseCost {
                dose: 1,
                per_second: 12.4,
                events: 300,
                cost: cost(70.0, 60.0, 80.0),
            }],
            bend: None,
            floor: Some(cost(1.0, -2.0, 4.0)),
            effect_percent: Some(2.0),
            exchange_ns: None,
        }
    }

    fn results(costs: Vec<ProgramCost>) -> ProgramCostResults {
        ProgramCostResults { program: "xz".to_owned(), costs, slowdown_percent: Some(3.25) }
    }

    #[test]
    fn the_answer_names_the_program_the_event_and_the_cost_with_its_interval() {
        let migration = ProgramCost {
            event: Event::MemoryMigration,
            length_us: None,
            ..preemption(Some(cost(3.0, -9.0, 15.0)))
        };
        let it = results(vec![preemption(Some(cost(61.3, 40.2, 83.0))), migration]);
        assert_eq!(
            sentence(&it),
            "xz: a preemption of 1 ms costs 61.3 µs [40.2, 83.0]; a migration without a common cache costs at most \
             15.0 µs, and may cost nothing."
        );
        let text = text(&it);
        assert!(text.contains("slowed the program by 3.2 %"), "{text}");
        assert!(text.contains("none") && text.contains("12"), "{text}");
    }

    #[test]
    fn preemptors_are_told_apart_where_there_are_several() {
        let by = |polluter: &str| ProgramCost {
            polluter: Some(polluter.to_owned()),
            ..preemption(Some(cost(61.3, 40.2, 83.0)))
        };
        let idle = ProgramCost {
            event: Event::IdleLeave,
            polluter: None,
            ..preemption(Some(cost(9.0, 7.0, 11.0)))
        };
        let one = sentence(&results(vec![by("64 KiB"), idle.clone()]));
        assert!(one.starts_with("xz: a preemption of 1 ms costs"), "{one}");
        assert!(one.contains("an idle absence of 1 ms costs 9.0"), "{one}");
        let two = text(&results(vec![by("64 KiB"), by("2 MiB")]));
        assert!(two.contains("a preemption of 1 ms by 64 KiB costs"), "{two}");
        assert!(two.contains("preemption of 1 ms by 2 MiB "), "{two}");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let nothing = ProgramCost {
            rounds: 0,
            invalid: BTreeMap::from([("no progress".to_owned(), 200)]),
            ..preemption(None)
        };
        let said = sentence(&results(vec![nothing]));
        assert!(said.ends_with("was not measured: no progress (200 blocks)."), "{said}");
        let said = sentence(&results(vec![preemption(None)]));
        assert!(said.contains("none of 1000 events could be caused"), "{said}");
    }

    #[test]
    fn what_speaks_against_an_answer_is_said() {
        let it = ProgramCost {
            events: 100,
            bend: Some(cost(-30.0, -40.0, -20.0)),
            floor: Some(cost(9.0, 5.0, 12.0)),
            exchange_ns: Some([60.0, 300.0]),
            invalid: BTreeMap::from([("no progress".to_owned(), 2)]),
            ..preemption(Some(cost(61.3, 40.2, 83.0)))
        };
        let said = notes(&results(vec![it])).join("\n");
        for part in [
            "30.0 µs less",
            "do not trust",
            "100 of 1000 events",
            "2 blocks were excluded: no progress",
            "60 to 300 ns",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(notes(&results(vec![preemption(Some(cost(61.3, 40.2, 83.0)))])).len(), 1);
    }
}
