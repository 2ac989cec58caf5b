// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of limited preemption on a task set, as text.

use super::figure::FigureTable;
use super::table::{interval, micros, plain};
use corehop_plan::workload::task::Time;
use corehop_sched::limited::NoRegions;
use corehop_sched::limited::remedy::{Limit, Remedies, Remedy, Treated};
use corehop_sched::{Task, TaskSet};
use corehop_stats::costs::Cost;

/// Returns a sentence about the remedy that saves the largest share of the CPU.
pub fn sentence(all: &Remedies) -> String {
    let found = all.ways.iter().filter_map(|(_, it)| it.as_ref().ok());
    let best = found.max_by(|a, b| a.saves_share.us.total_cmp(&b.saves_share.us));
    best.map_or_else(
        || "No limit on preemptions keeps the deadlines of this set.".to_owned(),
        |saving| {
            let saved = 100.0 * saving.saves_share.us;
            format!(
                "{} save at most {saved:.2} % of the CPU{}.",
                title(saving.limit),
                condition(all, saving)
            )
        },
    )
}

/// Returns the remedies, or the reasons why a remedy is not possible; each remedy has a table with
/// the advice for each task.
pub fn remedies(set: &TaskSet, all: &Remedies) -> String {
    let one = |(limit, remedy): &(Limit, Result<Remedy, NoRegions>)| match remedy {
        Ok(remedy) => treated(set, remedy, &condition(all, remedy)),
        Err(why) => format!("{}: {why}.\n\n", title(*limit)),
    };
    all.ways.iter().map(one).collect()
}

/// Returns the condition under which a remedy holds, as a clause that begins with a comma; empty if
/// costs are bounds.
fn condition(all: &Remedies, remedy: &Remedy) -> String {
    if let Some(by) = &all.charged_by {
        return format!(", if no preemption costs more than {by}");
    }
    let unbounded = remedy.tasks.iter().find(|it| it.delay.high_us.is_none());
    match unbounded.map(|it| it.delay.low_us) {
        None => String::new(),
        Some(Some(_)) => ", if no preemption costs more than was seen, which nothing bounds from \
                         above; more replicates give a quantile"
            .to_owned(),
        Some(None) => {
            ", if delays are no larger than estimated: the delays have no interval; more \
                       replicates give an interval"
                .to_owned()
        }
    }
}

const fn title(limit: Limit) -> &'static str {
    match limit {
        Limit::EdfRegions => "EDF with non-preemptive regions",
        Limit::FpRegions => "Fixed priorities with non-preemptive regions",
        Limit::FpThresholds => "Fixed priorities with preemption thresholds",
    }
}

fn name(set: &TaskSet, at: usize) -> String {
    set.names()[at].clone().unwrap_or_else(|| format!("task {at}"))
}

fn treated(set: &TaskSet, remedy: &Remedy, condition: &str) -> String {
    let mut table = FigureTable::new(
        format!("{}: cost of preemptions per job, in us", title(remedy.limit)),
        &["task", "WCET", "do", "a preemption costs", "preemptions", "remain", "saves at most"],
    );
    let row = |(at, (it, task)): (usize, (&Treated, &Task))| {
        vec![
            name(set, at),
            task.wcet().to_string(),
            what(set, it, task),
            cost(&it.delay),
            it.preemptions.to_string(),
            it.remaining.to_string(),
            cost(&it.saves),
        ]
    };
    table.rows =
        remedy.tasks.iter().zip(&set.in_whole_microseconds()).enumerate().map(row).collect();
    let before = match remedy.preemptive {
        Some(true) => "schedulable",
        Some(false) => "not schedulable",
        None => "not known to be schedulable",
    };
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let share = &remedy.saves_share;
    format!(
        "{}Fully preemptive the set is {before}; with limited preemption the set is schedulable, and saves at most {} % \
         [{}, {}] of the CPU{condition}.\n\n",
        plain(&table).trim_end_matches('\n').to_owned() + "\n",
        percent(share.us),
        share.low_us.map_or_else(|| "…".to_owned(), percent),
        share.high_us.map_or_else(|| "…".to_owned(), percent)
    )
}

/// Returns the advice for a task.
fn what(set: &TaskSet, it: &Treated, task: &Task) -> String {
    match &it.preempted_by {
        Some(by) if by.is_empty() => "non-preemptive".to_owned(),
        Some(by) => {
            let names: Vec<String> = by.iter().map(|&at| name(set, at)).collect();
            format!("preempted by {} only", names.join(", "))
        }
        None if it.region_us >= task.wcet() => "non-preemptive".to_owned(),
        None if it.region_us == Time::ZERO => "preemptive".to_owned(),
        None => format!("non-preemptive for {} us", it.region_us),
    }
}

fn cost(cost: &Cost) -> String {
    format!("{} {}", micros(cost.us), interval(cost.low_us, cost.high_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;

    const COST: Cost = Cost { us: 2.0, low_us: Some(1.5), high_us: Some(3.0) };

    fn treated_as(region_us: u64, preempted_by: Option<Vec<usize>>) -> Treated {
        let region_us = Time::new(region_us);
        Treated { region_us, preempted_by, preemptions: 4, remaining: 1, delay: COST, saves: COST }
    }

    fn remedy(limit: Limit, share: f64, delay: Cost) -> Remedy {
        let tasks = vec![Treated { delay, ..treated_as(0, None) }, treated_as(20, None)];
        let saves_share = Cost { us: share, low_us: None, high_us: Some(2.0 * share) };
        Remedy { limit, preemptive: None, tasks, saves_share }
    }

    #[test]
    fn a_task_is_told_what_to_be_by_its_region_or_its_threshold() {
        let set = implicit(1, &[(10, 50), (40, 200)]);
        let told = |region, by| what(&set, &treated_as(region, by), &set.tasks()[1]);
        assert_eq!(told(40, None), "non-preemptive");
        assert_eq!(told(39, None), "non-preemptive for 39 us");
        assert_eq!(told(0, None), "preemptive");
        assert_eq!(told(0, Some(vec![])), "non-preemptive");
        assert_eq!(told(0, Some(vec![0, 1])), "preempted by task 0, task 1 only");
    }

    #[test]
    fn the_sentence_is_of_the_remedy_that_saves_most_and_states_its_condition() {
        let misses = || Err(NoRegions::Misses { policy: "fixed priorities" });
        let bounded = |share| Ok(remedy(Limit::EdfRegions, share, COST));
        let mut all = Remedies {
            ways: vec![
                (Limit::FpRegions, misses()),
                (Limit::EdfRegions, bounded(0.01)),
                (Limit::FpThresholds, Ok(remedy(Limit::FpThresholds, 0.025, COST))),
            ],
            charged_by: None,
        };
        let best = "Fixed priorities with preemption thresholds save at most 2.50 % of the CPU";
        assert_eq!(sentence(&all), format!("{best}."));
        all.charged_by = Some("5 us".to_owned());
        assert_eq!(sentence(&all), format!("{best}, if no preemption costs more than 5 us."));
        all.ways.truncate(1);
        assert_eq!(sentence(&all), "No limit on preemptions keeps the deadlines of this set.");
    }

    #[test]
    fn a_delay_without_an_upper_end_is_a_condition() {
        let none = Remedies { ways: Vec::new(), charged_by: None };
        let told = |low_us, high_us| {
            condition(&none, &remedy(Limit::EdfRegions, 0.1, Cost { us: 2.0, low_us, high_us }))
        };
        assert_eq!(told(None, Some(3.0)), "");
        assert!(told(Some(1.0), None).starts_with(", if no preemption costs more than was seen"));
        assert!(told(None, None).starts_with(", if delays are no larger than estimated"));
    }

    #[test]
    fn a_remedy_states_what_the_set_was_and_a_way_without_one_why() {
        let set = implicit(1, &[(10, 50), (40, 200)]);
        let ways = vec![
            (Limit::FpRegions, Err(NoRegions::Misses { policy: "fixed priorities" })),
            (Limit::EdfRegions, Ok(remedy(Limit::EdfRegions, 0.01, COST))),
        ];
        let text = remedies(&set, &Remedies { ways, charged_by: None });
        assert!(
            text.starts_with(
                "Fixed priorities with non-preemptive regions: the set misses deadlines under fixed priorities even \
                 without non-preemptive regions.\n\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "Fully preemptive the set is not known to be schedulable; with limited preemption the set is schedulable, \
                 and saves at most 1.00 % […, 2.00] of the CPU.\n\n"
            ),
            "{text}"
        );
        let row = text.lines().find(|line| line.starts_with("task 1")).unwrap();
        let fields: Vec<&str> =
            row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
        assert_eq!(
            fields,
            [
                "task 1",
                "40",
                "non-preemptive for 20 us",
                "2.00 [1.50, 3.00]",
                "4",
                "1",
                "2.00 [1.50, 3.00]"
            ]
        );
    }
}
