// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits of Linux's real-time policies: settings that the kernel rejects, and the times after which it stops
//! threads that it accepted.
//!
//! The limits of this module are the kernel's defaults. A host can change the limits by
//! `kernel.sched_rt_runtime_us`, `kernel.sched_deadline_period_min_us` and `…_max_us`.

use super::scheduler::{JobPreference, Scheduler};
use super::task::{Task, TaskSet, Time};
use crate::units::Nanos;

/// The shortest budget that Linux allows under SCHED_DEADLINE.
pub(super) const LEAST_RUNTIME: Nanos = Nanos::new(1_024);
/// The shortest and the longest period that Linux accepts under SCHED_DEADLINE.
pub(super) const PERIODS: [Nanos; 2] = [Nanos::from_micros(100), Nanos::from_micros(1 << 22)];
/// The share of a CPU that Linux admits under SCHED_DEADLINE, which is also the share that threads under SCHED_FIFO
/// can use.
const ADMITTED: f64 = 0.95;
/// The run time in each second after which Linux stops a CPU's threads under SCHED_FIFO.
const THROTTLED_AFTER: Nanos = Nanos::from_millis(950);
/// The number of steps after which the search for a CPU's longest busy span gives up.
const MOST_STEPS: usize = 10_000;

/// Returns sentences about threads of a set that Linux does not run as the analysis assumes, for the scheduler that
/// the set states.
pub fn limits(set: &TaskSet) -> Vec<String> {
    match set.scheduler().map(Scheduler::order) {
        Some(JobPreference::Rank) => throttled(set),
        Some(JobPreference::Deadline) => {
            admission(set).into_iter().chain(unlike_edf(set)).collect()
        }
        Some(JobPreference::Fair) | None => Vec::new(),
    }
}

/// Returns the sentences about CPUs that threads under SCHED_FIFO keep busy for longer than Linux allows.
pub(super) fn throttled(set: &TaskSet) -> Vec<String> {
    let stops = "Linux stops such threads after 950 ms of each second (kernel.sched_rt_runtime_us; from Linux 6.12 on only while ordinary threads wait), so deadlines can be missed";
    let of = |(cpus, tasks): (Vec<usize>, Vec<usize>)| {
        let share = |&at: &usize| set.tasks()[at].wcet.as_f64() / set.tasks()[at].period.as_f64();
        let used: f64 = tasks.iter().map(share).sum::<f64>() / cpus.len() as f64;
        let on = named(&cpus);
        if used > ADMITTED + 1e-9 {
            return Some(format!(
                "threads under SCHED_FIFO use {:.1} % of {on}: {stops}",
                100.0 * used
            ));
        }
        let own: Vec<Task> = tasks.iter().map(|&at| set.tasks()[at]).collect();
        let is_busy = cpus.len() == 1 && busy_beyond(&own, set.tick().up(THROTTLED_AFTER));
        is_busy.then(|| {
            format!(
                "threads under SCHED_FIFO can keep {on} busy for more than 950 ms in a row: {stops}"
            )
        })
    };
    groups(set).into_iter().filter_map(of).collect()
}

/// Returns the sentence about budgets that together are more than Linux admits under SCHED_DEADLINE.
pub(super) fn admission(set: &TaskSet) -> Option<String> {
    let share = |&at: &usize| set.budget(at).as_f64() / set.tasks()[at].period.as_f64();
    groups(set).into_iter().find_map(|(cpus, tasks)| {
        let sum: f64 = tasks.iter().map(share).sum();
        let most = ADMITTED * cpus.len() as f64;
        let what = format!("the budgets use {sum:.2} of {}", named(&cpus));
        (sum > most + 1e-9).then(|| {
            format!("{what}: Linux admits {most:.2}, unless kernel.sched_rt_runtime_us is raised")
        })
    })
}

/// Returns the sentences about fields of a set that SCHED_DEADLINE treats unlike the analysis of EDF.
pub(super) fn unlike_edf(set: &TaskSet) -> Vec<String> {
    let any = |has: fn(&Task) -> bool| set.tasks().iter().any(has);
    let all = [
        (
            any(|task| task.jitter > Time::ZERO),
            "SCHED_DEADLINE counts a deadline from the release of a job, and the analysis from the arrival (jitter_us): set \
             dl-deadline shorter by the jitter",
        ),
        (
            any(|task| task.suspension > Time::ZERO),
            "SCHED_DEADLINE gives a thread that wakes up from a suspension a new deadline if the old one leaves its budget too \
             little time; the analysis keeps the deadline (suspension_us)",
        ),
        (
            set.locks().is_some(),
            "Linux has no stack resource policy: under SCHED_DEADLINE locks inherit deadlines, and this protocol is not analysed",
        ),
    ];
    all.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()).collect()
}

/// Returns the name of CPUs in a sentence, such as `CPU 0` or `CPUs 0, 2`.
fn named(cpus: &[usize]) -> String {
    let all: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    format!("CPU{} {}", if all.len() == 1 { "" } else { "s" }, all.join(", "))
}

/// Returns the groups of CPUs that tasks share, each with the tasks that run only on the CPUs of the group; the
/// group of all CPUs is last.
fn groups(set: &TaskSet) -> Vec<(Vec<usize>, Vec<usize>)> {
    let all: Vec<usize> = (0..set.cpus() as usize).collect();
    let of: Vec<Vec<usize>> = (0..set.tasks().len()).map(|at| set.cpus_of(at)).collect();
    let mut lists = of.clone();
    lists.sort();
    lists.dedup();
    lists.retain(|list| *list != all);
    lists.push(all);
    let within = |list: &[usize]| {
        let is_within = |at: &usize| of[*at].iter().all(|cpu| list.contains(cpu));
        (0..of.len()).filter(is_within).collect::<Vec<_>>()
    };
    lists.into_iter().map(|list| (list.clone(), within(&list))).collect()
}

/// Returns whether the tasks of a CPU, all released together, keep the CPU busy for longer than `span`.
fn busy_beyond(tasks: &[Task], span: Time) -> bool {
    let demand = |until: Time| {
        let of =
            |task: &Task| task.wcet.saturating_mul((until + task.jitter).div_ceil(task.period));
        tasks.iter().map(of).fold(Time::ZERO, Time::saturating_add)
    };
    let mut busy = tasks.iter().map(|task| task.wcet).fold(Time::ZERO, Time::saturating_add);
    for _ in 0..MOST_STEPS {
        let next = demand(busy);
        if busy > span || next == busy {
            break;
        }
        busy = next;
    }
    busy > span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::set_file;

    fn said(tasks: &str, scheduler: &str) -> String {
        let text = format!(r#"{{"cpus": 2, "scheduler": "{scheduler}", "tasks": [{tasks}]}}"#);
        limits(&set_file::parse(&text).unwrap()).join("\n")
    }

    #[test]
    fn a_cpu_that_fifo_threads_use_beyond_95_percent_is_named() {
        let full = r#"{"wcet_us": 970, "period_us": 1000, "priority": 1, "cpus": [0]},
            {"wcet_us": 900, "period_us": 1000, "priority": 1, "cpus": [1]}"#;
        let says = said(full, "p-fp");
        assert!(says.contains("use 97.0 % of CPU 0") && !says.contains("CPU 1"), "{says}");
        assert!(says.contains("kernel.sched_rt_runtime_us"), "{says}");
        // The same work under SCHED_DEADLINE is not admitted.
        let deadline = full.replace(r#""priority": 1, "#, "");
        assert!(said(&deadline, "p-edf").contains("Linux admits 0.95"));
        // Both CPUs together have room, and each CPU has enough.
        let both = r#"{"wcet_us": 900, "period_us": 1000, "priority": 1},
            {"wcet_us": 900, "period_us": 1000, "priority": 2}"#;
        assert_eq!(said(both, "g-fp"), "");
        assert!(said(&both.replace("900", "960"), "g-fp").contains("96.0 % of CPUs 0, 1"));
    }

    #[test]
    fn fields_that_linux_treats_unlike_edf_are_named() {
        let tasks =
            |more: &str| format!(r#"{{"wcet_us": 1, "period_us": 1000, "cpus": [0]{more}}}"#);
        assert_eq!(said(&tasks(""), "p-edf"), "");
        assert!(said(&tasks(r#", "jitter_us": 5"#), "p-edf").contains("from the release of a job"));
        assert!(said(&tasks(r#", "suspension_us": 5"#), "p-edf").contains("a new deadline"));
        assert_eq!(said(&tasks(r#", "suspension_us": 5, "priority": 1"#), "p-fp"), "");
    }

    #[test]
    fn a_job_of_a_second_is_stopped_although_its_cpu_is_half_idle() {
        let long = |wcet: u32| {
            format!(
                r#"{{"wcet_us": {wcet}, "period_us": 2000000, "priority": 1, "cpus": [0]}},
                {{"wcet_us": 1, "period_us": 1000, "priority": 2, "cpus": [1]}}"#
            )
        };
        assert!(said(&long(960_000), "p-fp").contains("CPU 0 busy for more than 950 ms"));
        assert_eq!(said(&long(940_000), "p-fp"), "");
    }
}
