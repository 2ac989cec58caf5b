// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the answer of a test as a sentence: yes with the tightest task, no with a late task, or unknown with the
//! reason.

use super::catalogue::{Suffers, Test};
use super::charge::{AS_CHARGED, ChargedAnswer};
use super::global;
use super::global::demand::{self, Beyond};
use super::held_up;
use super::partition::given;
use super::supply::{Supplied, Supply};
use super::system::System;
use super::uni::edf_response::response_times_on;
use super::uni::fixed;
use super::verdict::Verdict;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::chains::Chain;
use corehop_plan::workload::scheduler::JobPreference;
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// Returns, for example, `yes: every deadline holds under partitioned EDF; the tightest is `video`, 1.2 ms of 5 ms
/// left`, or `no: `control` can take 21 ms and has 5 ms`; `under` names the scheduler.
pub fn sentence(set: &TaskSet, under: &str, test: &Test, asked: &ChargedAnswer) -> String {
    let soft = test.is_soft();
    match asked.answer.verdict {
        Verdict::Schedulable if soft => {
            format!("yes: tardiness is bounded under {under}; deadlines may be missed")
        }
        Verdict::Schedulable => {
            let tightest = tightest(set, test, asked).unwrap_or_default();
            let conditions = asked.conditions().unwrap_or_default();
            format!("yes: every deadline holds under {under}{tightest}{conditions}")
        }
        Verdict::Unschedulable => {
            let late = late(set, test, asked).or_else(|| asked.answer.why.clone());
            let what = if soft { "tardiness is not bounded" } else { "a deadline is missed" };
            let under = format!(" under {under}");
            match late {
                // What was assumed belongs to a no as well.
                Some(late) if under.contains("assumed") => format!("no: {late}{under}"),
                Some(late) => format!("no: {late}"),
                None => format!("no: {what}{under}"),
            }
        }
        Verdict::Unknown if asked.answer.is_conditional() => doubt(test, under, asked),
        Verdict::Unknown if asked.answer.why.as_deref() == Some(AS_CHARGED) => {
            let late = late(set, test, asked);
            if asked.supply.is_some() {
                let late =
                    late.unwrap_or_else(|| format!("{} refuses the set on this supply", test.name));
                return format!(
                    "unknown: {late}; but a supply is only a bound, and a window may lose less"
                );
            }
            let late = late.unwrap_or_else(|| doubt(test, under, asked));
            format!("unknown: {late}; but a charge is only a bound, and a job may pay less")
        }
        Verdict::Unknown => {
            let late = late_chain(set, asked).unwrap_or_else(|| doubt(test, under, asked));
            format!("unknown: {late}")
        }
    }
}

/// The reason why the answer is unknown, with the test as the subject of the sentence.
fn doubt(test: &Test, under: &str, asked: &ChargedAnswer) -> String {
    match asked.answer.why.as_deref() {
        None => format!("{} neither accepts nor refuses the set under {under}", test.name),
        Some(why) => match why.strip_prefix("the test ") {
            Some(rest) => format!("{} {rest}", test.name),
            None => why.to_owned(),
        },
    }
}

/// The first chain whose latency exceeds its deadline.
fn late_chain(set: &TaskSet, asked: &ChargedAnswer) -> Option<String> {
    let all = set.chains()?.all.iter().zip(asked.answer.latencies.as_ref()?);
    let (chain, &latency) = all.into_iter().find(|(chain, latency)| **latency > chain.deadline)?;
    let Chain { name, deadline, .. } = chain;
    let span = |time| set.tick().span(time);
    Some(format!("chain `{name}` can take {} and has {}", span(latency), span(*deadline)))
}

/// Returns the name of a task, or its number.
pub fn called(set: &TaskSet, at: usize) -> String {
    set.names()[at].as_ref().map_or_else(|| format!("task {at}"), |name| format!("`{name}`"))
}

/// The task with the smallest relative time left before its deadline.
fn tightest(set: &TaskSet, test: &Test, asked: &ChargedAnswer) -> Option<String> {
    let bounds = bounds_of(set, test, asked)?;
    let part = |at: &usize| bounds[*at].as_f64() / set.tasks()[*at].deadline.as_f64();
    let at = (0..bounds.len()).max_by(|a, b| part(a).total_cmp(&part(b)))?;
    let deadline = set.tasks()[at].deadline;
    let span = |time| set.tick().span(time);
    let left = span(deadline.checked_sub(bounds[at])?);
    Some(format!("; the tightest is {}, {left} of {} left", called(set, at), span(deadline)))
}

/// Adds response-time bounds to an answer, if the accepting test gave none and they follow from the task placement.
pub fn with_bounds(set: &TaskSet, test: &Test, mut asked: ChargedAnswer) -> ChargedAnswer {
    if asked.answer.verdict.is_schedulable() {
        asked.answer.bounds = bounds_of(set, test, &asked).or(asked.answer.bounds);
    }
    asked
}

/// The bounds on the responses of the tasks, if the answer contains them or they follow from the answer.
pub(super) fn bounds_of(set: &TaskSet, test: &Test, asked: &ChargedAnswer) -> Option<Vec<Time>> {
    let bounds = asked.answer.bounds.clone();
    bounds.or_else(|| responses_by_deadline(set, test, asked)).filter(|_| !test.is_soft())
}

/// The worst-case responses if EDF runs on each CPU, including charges, rounded up.
fn responses_by_deadline(set: &TaskSet, test: &Test, asked: &ChargedAnswer) -> Option<Vec<Time>> {
    let alone = set.cpus() == 1 && ["qpa", "utilisation", "density"].contains(&test.name);
    let groups = match &asked.answer.partition {
        Some(bins) if test.name.starts_with("p-edf-") => bins.clone(),
        None if alone => vec![(0..set.tasks().len()).collect()],
        _ => return None,
    };
    if set.locks().is_some() && asked.delays.is_some() {
        // Sections are longer by reloads, which the set does not state.
        return None;
    }
    let tasks = charged_tasks(set, asked);
    let mut bounds = vec![Time::ZERO; tasks.len()];
    for (cpu, group) in groups.iter().enumerate().filter(|(_, group)| !group.is_empty()) {
        let own: Vec<Task> = group.iter().map(|&at| tasks[at]).collect();
        let supply = on_cpus(set, test, asked).map(|it| it.at(cpu));
        let system = System { supply, ..System::of(set) };
        let responses = held_up::responses_by_deadline(system, group, &own)?;
        for (&at, response) in group.iter().zip(responses) {
            // What is charged to periods and deadlines comes before the release.
            bounds[at] = response + (set.tasks()[at].deadline.saturating_sub(tasks[at].deadline));
        }
    }
    Some(bounds)
}

/// The supply of the CPUs with which the test ran.
pub(super) fn on_cpus<'a>(
    set: &TaskSet,
    test: &Test,
    asked: &'a ChargedAnswer,
) -> Option<Supplied<'a>> {
    let seen = asked.supply.as_ref()?.seen(set);
    Some(if test.name.ends_with("-given") { seen.own() } else { seen })
}

/// The tasks including their charges: C rounded up, T and D rounded down.
pub(super) fn charged_tasks(set: &TaskSet, asked: &ChargedAnswer) -> Vec<Task> {
    let Some(charged) = &asked.charged else { return set.tasks().to_vec() };
    let of = |(task, &[wcet, period, deadline]): (&Task, &[f64; 3])| Task {
        wcet: Time::new(wcet.ceil() as u64),
        period: Time::new(period.floor() as u64),
        deadline: Time::new(deadline.floor() as u64),
        ..*task
    };
    set.tasks().iter().zip(charged).map(of).collect()
}

/// The late task, or the overloaded CPUs: without charges if that suffices, otherwise with charges.
fn late(set: &TaskSet, test: &Test, asked: &ChargedAnswer) -> Option<String> {
    let bare = set.tasks().to_vec();
    let charged = asked.charged.as_ref().map(|_| charged_tasks(set, asked));
    let all = [(bare, ""), (charged.unwrap_or_default(), " with the charges")];
    let beyond = asked.answer.bounds.iter().flatten().enumerate();
    let mut beyond = beyond.filter(|&(at, &bound)| bound > set.tasks()[at].deadline);
    let by_bounds = beyond.next().map(|(at, &response)| takes(set, at, response, ""));
    let mut of_tasks = all.into_iter().filter(|(tasks, _)| !tasks.is_empty());
    of_tasks
        .find_map(|(tasks, with)| {
            let supply = on_cpus(set, test, asked);
            let system = System { tasks: &tasks, supply, ..System::of(set) };
            too_long(set, system, with)
                .or_else(|| overload(set, system, with))
                .or_else(|| undersupplied(set, system, with))
                .or_else(|| responds_late(set, test, system, with))
                .or_else(|| demanded(set, system, with))
        })
        .or(by_bounds)
}

fn takes(set: &TaskSet, at: usize, response: Time, with: &str) -> String {
    let span = |time| set.tick().span(time);
    let has = span(set.tasks()[at].deadline);
    format!("{} can take {}{with} and has {has}", called(set, at), span(response))
}

/// A task that misses its deadline even if the task runs alone.
fn too_long(set: &TaskSet, system: System<'_>, with: &str) -> Option<String> {
    let at = system.tasks.iter().position(|task| task.wcet > task.deadline)?;
    let span = |time| set.tick().span(time);
    let (needs, has) = (span(system.tasks[at].wcet), span(set.tasks()[at].deadline));
    Some(format!("{} needs {needs}{with} and has {has}", called(set, at)))
}

/// CPUs whose tasks demand more than the CPUs can supply.
fn overload(set: &TaskSet, system: System<'_>, with: &str) -> Option<String> {
    let (cpus, tasks) = global::overloaded(system)?;
    let load: f64 =
        tasks.iter().map(|&at| system.tasks[at].u()).map(|(c, t)| c as f64 / t as f64).sum();
    let percent = (load / cpus.len() as f64 * 1_000.0).ceil() / 10.0;
    let which = match (cpus.len(), set.cpus()) {
        (1, 1) => "the CPU is".to_owned(),
        (1, _) => format!("CPU {} is", cpus[0]),
        (all, there) if all == there as usize => format!("the {all} CPUs are"),
        _ => format!("CPUs {} are", CpuList::new(cpus.iter().map(|&cpu| Cpu(cpu as u32)))),
    };
    Some(format!("{which} needed for {percent} % of the time{with}, by {}", some_of(set, &tasks)))
}

/// A CPU whose tasks demand more than the CPU's supply guarantees in the long run.
fn undersupplied(set: &TaskSet, system: System<'_>, with: &str) -> Option<String> {
    system.supply?;
    given::bins(system).ok()?.into_iter().enumerate().find_map(|(cpu, bin)| {
        let supplied = system.at_bin(cpu).supply().long_run();
        let load = bin.iter().map(|&at| system.tasks[at].u());
        let load: f64 = load.map(|(c, t)| c as f64 / t as f64).sum();
        let tenths = |share: f64| (share * 1_000.0) / 10.0;
        (load > supplied).then(|| {
            format!(
                "CPU {cpu} is needed for {:.1} % of the time{with}, by {}, but guarantees only {:.1} %",
                tenths(load),
                some_of(set, &bin),
                tenths(supplied)
            )
        })
    })
}

/// The first few of these tasks, and the number of further tasks.
fn some_of(set: &TaskSet, tasks: &[usize]) -> String {
    let names: Vec<String> = tasks.iter().take(4).map(|&at| called(set, at)).collect();
    let more =
        if tasks.len() > 4 { format!(" and {} more", tasks.len() - 4) } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// Tasks that demand more work, within some time after a common release, than their CPUs can do.
fn demanded(set: &TaskSet, system: System<'_>, with: &str) -> Option<String> {
    let Beyond { cpus, tasks, within, work } = demand::beyond(system)?;
    let span = |time| set.tick().span(time);
    let work = span(Time::new(work.try_into().ok()?));
    let has = span(within.checked_mul(cpus.len() as u64)?);
    let whose = match cpus.len() {
        1 => format!("CPU {} has {has}", cpus[0]),
        several => format!("{several} CPUs have {has}"),
    };
    let (who, within) = (some_of(set, &tasks), span(within));
    Some(format!("{who} need {work}{with} within {within} after a common release, but {whose}"))
}

/// A task that other tasks delay for too long, on a single CPU or on the CPU that the set gives it.
fn responds_late(set: &TaskSet, test: &Test, system: System<'_>, with: &str) -> Option<String> {
    let order = match test.name {
        "p-fp-rta" | "p-fp-given" => JobPreference::Rank,
        "qpa" | "edf-rta" | "p-edf-given" => JobPreference::Deadline,
        _ => return None,
    };
    let on = if system.supply.is_some() { " on this supply" } else { "" };
    let mut late = late_tasks(order, system).into_iter();
    late.find_map(|(at, response)| Some(takes(set, at, response?, &format!("{with}{on}"))))
}

/// The tasks that can be late on a single CPU, or on the CPUs that the set gives them. The order is CPU by CPU: under
/// fixed priorities the highest priority first, under EDF the latest task first. Each task comes with its longest
/// response, if known. Blocking and suspension are left out, because a no must not rest on delays that are only
/// bounded.
pub(super) fn late_tasks(order: JobPreference, system: System<'_>) -> Vec<(usize, Option<Time>)> {
    let by_priority = order == JobPreference::Rank;
    let bins = given::bins(system).unwrap_or_default().into_iter().enumerate();
    let mut all = Vec::new();
    for (cpu, bin) in bins.filter(|(_, bin)| !bin.is_empty() && order != JobPreference::Fair) {
        let supply = system.at_bin(cpu).supply();
        let own =
            |&at: &usize| Task { blocking: Time::ZERO, suspension: Time::ZERO, ..system.tasks[at] };
        let own: Vec<Task> = bin.iter().map(own).collect();
        let late =
            if by_priority { fixed::late(&own, supply) } else { late_by_deadline(&own, supply) };
        all.extend(late.into_iter().map(|(place, response)| (bin[place], response)));
    }
    all
}

/// The tasks of a CPU that are late under EDF, the latest first.
fn late_by_deadline(tasks: &[Task], supply: &Supply) -> Vec<(usize, Option<Time>)> {
    let Some(responses) = response_times_on(tasks, supply) else { return Vec::new() };
    let late = |at: &usize| responses[*at].saturating_sub(tasks[*at].deadline);
    let mut all: Vec<usize> = (0..tasks.len()).filter(|at| late(at) > Time::ZERO).collect();
    all.sort_by_key(|at| std::cmp::Reverse((late(at), *at)));
    all.into_iter().map(|at| (at, Some(responses[at]))).collect()
}

impl Test {
    /// Whether a yes of the test bounds tardiness instead of guaranteeing deadlines.
    pub fn is_soft(&self) -> bool {
        self.scheduler.ends_with(", soft") || self.name == "sp-edf-os"
    }

    /// Whether the test's scheduler keeps each job on one CPU.
    pub fn is_partitioned(&self) -> bool {
        self.suffers == Suffers::Preemptions && !self.one_cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{ChargedSet, DelayCharge};
    use crate::test;
    use corehop_plan::workload::set_file;

    fn says(text: &str, name: &str, delay: Option<Time>) -> String {
        let set = set_file::parse(text).unwrap();
        let delay = delay.map_or(DelayCharge::Nothing, DelayCharge::Each);
        let test = test(name).unwrap();
        let asked = ChargedSet::new(&set, None, delay, None).ask(test).unwrap();
        sentence(&set, test.scheduler, test, &with_bounds(&set, test, asked))
    }

    #[test]
    fn a_no_names_the_task_that_is_late_and_by_how_much() {
        let equals = r#"{"cpus":1,"tasks":[{"name":"fast","wcet_us":1000,"period_us":5000,"priority":10},
            {"name":"slow","wcet_us":20000,"period_us":100000,"priority":10}]}"#;
        assert_eq!(says(equals, "p-fp-rta", None), "no: `fast` can take 21 ms and has 5 ms");
        let pinned = r#"{"cpus":2,"tasks":[{"wcet_us":6000,"period_us":10000,"cpus":[0]},
            {"wcet_us":7000,"period_us":12000,"cpus":[0]},{"wcet_us":1,"period_us":9,"cpus":[1]}]}"#;
        for name in ["p-edf-given", "p-fp-given", "necessary"] {
            let expected = "no: CPU 0 is needed for 118.4 % of the time, by task 0, task 1";
            assert_eq!(says(pinned, name, None), expected, "{name}");
        }
        let tight = r#"{"cpus":1,"tasks":[{"name":"a","wcet_us":2,"period_us":8,"deadline_us":3},
            {"name":"b","wcet_us":2,"period_us":9,"deadline_us":3}]}"#;
        assert_eq!(says(tight, "qpa", None), "no: `b` can take 4 us and has 3 us");
        let one = r#"{"cpus":1,"tasks":[{"wcet_us":2,"period_us":8,"deadline_us":3}]}"#;
        let longer = "unknown: task 0 needs 4 us with the charges and has 3 us; but a charge is only a bound, and a \
                      job may pay less";
        assert_eq!(says(one, "p-fp-rta", Some(Time::new(2))), longer);
    }

    #[test]
    fn a_yes_names_the_task_with_the_least_part_left() {
        let set = r#"{"cpus":1,"tasks":[{"name":"video","wcet_us":3800,"period_us":5000},
            {"wcet_us":2000,"period_us":200000}]}"#;
        let left = "the tightest is `video`, 1.2 ms of 5 ms left";
        for (name, under) in [
            ("p-fp-rta", "fixed priorities on one CPU"),
            ("qpa", "EDF on one CPU"),
            ("p-edf-ffd", "partitioned EDF"),
        ] {
            let expected = format!("yes: every deadline holds under {under}; {left}");
            assert_eq!(says(set, name, None), expected, "{name}");
        }
        let soft = says(set, "soft-g-edf", None);
        assert!(soft.starts_with("yes: tardiness is bounded"), "{soft}");
    }
}
