// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of costs shows the costs of the answer as lines with words, and the checks of
//! the answer.

use corehop_plan::workload::{Absence, Event};
use corehop_results::{FileNote, Results};
use corehop_stats::classes::Classes;
use corehop_stats::company::Company;
use corehop_stats::headline::{CompanyCosts, Headline, HeadlineCost, headline};

use super::kind_front::{KindFront, first_file};
use super::panel::percent;
use crate::answer::{preemption_length, with_article};
use crate::front::{MOST_LINES, SurenessCheck, WordedChart, WordedLine};
use corehop_plan::units::Bytes;

/// If a smaller share of the samples than this is valid, the valid samples describe the quieter
/// moments of the run.
const ENOUGH_VALID: f64 = 0.5;

pub(super) fn front(data: &Results) -> Option<KindFront> {
    let headline = headline(&data.jobs.summaries)?;
    let checks = [
        SurenessCheck::replicated(
            "replicates of each cost",
            headline.costs().map(|it| it.replicates),
        ),
        classes(data, &headline),
        valid(data),
    ];
    Some(KindFront {
        title: "Cost of preempting and migrating a job".to_owned(),
        answer: None,
        chart: Some(chart(&headline)),
        checks: checks.into_iter().flatten().collect(),
        next: (
            format!("corehop advise {}", first_file(data)),
            "says from which wait on a move costs less than staying.",
        ),
    })
}

/// Returns a chart that shows the control first, and then the costs of an event in each company.
fn chart(headline: &Headline) -> WordedChart {
    let cell = &headline.cell;
    let length = preemption_length(headline.length());
    let line = |group: usize, company: &Company, cost: &HeadlineCost| WordedLine {
        words: words(&length, company, cost.event),
        value: cost.median_us,
        ends: cost.interval_us,
        group,
    };
    // A company in which nothing ran has the control among its costs.
    let told = headline.groups.iter().any(CompanyCosts::is_quiet);
    let control = headline.control.as_ref().filter(|_| !told);
    let groups = headline.groups.iter().zip(usize::from(!told)..);
    let costs =
        groups.flat_map(|(it, at)| it.costs.iter().map(move |cost| (at, &it.company, cost)));
    let control = control.map(|it| line(0, &Company::nothing(), it));
    WordedChart {
        quantity: "cost of one absence in µs".to_owned(),
        unit: "µs",
        point: "median",
        level: 0.95,
        under: format!("working set {}, load {}", Bytes::new(cell.wss_bytes), cell.load),
        lines: control
            .into_iter()
            .chain(costs.map(|(at, company, cost)| line(at, company, cost)))
            .take(MOST_LINES)
            .collect(),
    }
}

/// Returns the words for an event, such as `after 4 ms, another job ran`.
fn words(length: &str, company: &Company, event: Event) -> String {
    let ran = match company.preempted_by {
        Absence::Nothing => "nothing else ran",
        Absence::Preemptor => "another job ran",
        Absence::Load => "the load ran",
    };
    if !event.is_migration() {
        return format!("after {length}, {ran}");
    }
    format!("after {length} and {}, {ran}", with_article(event))
}

/// Returns a check of whether the distances of the CPUs changed during the run, because such a change
/// moves a migration into another class.
fn classes(data: &Results, headline: &Headline) -> Option<SurenessCheck> {
    if headline.simulated {
        return None;
    }
    let of = |file: &FileNote| -> Option<Classes> {
        serde_json::from_value(file.provenance.machine.get("distance")?.clone()).ok()
    };
    let all: Vec<Classes> = data.files.iter().filter_map(of).collect();
    if all.is_empty() {
        return Some(SurenessCheck::new(
            false,
            "the distance of the CPUs was declared, not measured",
        ));
    }
    let changes: u64 = all.iter().flat_map(|it| &it.pairs).map(|it| it.stays.changes as u64).sum();
    let text = match changes {
        0 => "the distance of the CPUs did not change".to_owned(),
        1 => "the distance of the CPUs changed once during the run".to_owned(),
        _ => format!("the distance of the CPUs changed {changes} times during the run"),
    };
    Some(SurenessCheck::new(changes == 0, text))
}

fn valid(data: &Results) -> Option<SurenessCheck> {
    let total = &data.budget.total;
    (total.n_all > 0).then(|| {
        let share = percent(total.valid_share);
        let text = format!("{share} of {} samples are valid", total.n_all);
        SurenessCheck::new(total.valid_share >= ENOUGH_VALID, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_who_ran_and_where_the_job_went() {
        let nothing = Company::nothing();
        let other = Company {
            preempted_by: Absence::Preemptor,
            polluter: Some("x".to_owned()),
            pair_class: None,
        };
        assert_eq!(words("4 ms", &nothing, Event::IdleLeave), "after 4 ms, nothing else ran");
        assert_eq!(words("4 ms", &other, Event::Preemption), "after 4 ms, another job ran");
        assert_eq!(
            words("4 ms", &nothing, Event::L3Migration),
            "after 4 ms and an L3 migration, nothing else ran"
        );
    }
}
