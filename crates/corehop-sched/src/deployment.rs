// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns an answer into a deployable set: each task's CPUs, the scheduler, and either the analysed priorities or the
//! budgets that the verdict allows.

use super::catalogue::{Suffers, Test};
use super::charge::ChargedAnswer;
use super::ranking::Ranking;
use corehop_plan::workload::linux;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::{JobPreference, MigrationReach, Scheduler};
use corehop_plan::workload::task::{TaskError, TaskSet, Time};

/// Returns the set with the assignment of an accepting answer; `None` if the test neither assigns CPUs nor is about a
/// global scheduler. `scheduler` is the analysed scheduler if the test covers several schedulers.
///
/// # Errors
/// Returns [`TaskError`] for an invalid placement.
pub fn deployed(
    set: &TaskSet,
    test: &Test,
    scheduler: Option<Scheduler>,
    asked: &ChargedAnswer,
) -> Result<Option<TaskSet>, TaskError> {
    let scheduler = test.scheduler().or(scheduler.filter(|_| !test.is_soft()));
    let is_global = scheduler.is_some_and(|it| it.reach() == MigrationReach::Global);
    let set = match places(set, asked) {
        Some(places) => set.clone().placed(places)?,
        None if is_global => set.clone(),
        None => return Ok(None),
    };
    let one_cpu = set.cpus() == 1;
    let set = match scheduler {
        Some(scheduler) if scheduler.order() == JobPreference::Rank => {
            let ranks = ranks(&set, asked);
            set.ranked(&ranks).scheduled_by(if one_cpu { Scheduler::PFp } else { scheduler })
        }
        Some(scheduler) => budgeted(set.unranked(), asked)?.scheduled_by(scheduler),
        None => set,
    };
    Ok(Some(set))
}

/// Returns sentences about differences between Linux and the analysis of an accepting answer; none for other answers.
pub fn limits(
    set: &TaskSet,
    test: &Test,
    scheduler: Option<Scheduler>,
    asked: &ChargedAnswer,
) -> Vec<String> {
    if !asked.answer.verdict.is_schedulable() {
        return Vec::new();
    }
    let placed = deployed(set, test, scheduler, asked).ok().flatten();
    placed.as_ref().map_or_else(Vec::new, linux::limits)
}

/// The analysed ranks: the stated ranks, or else distinct ranks by deadline.
pub(super) fn ranks(set: &TaskSet, asked: &ChargedAnswer) -> Vec<u32> {
    let stated: Option<Vec<u32>> = set.tasks().iter().map(|task| task.priority).collect();
    let ranking = Ranking::of(set.tasks());
    let order = match (&asked.answer.priorities, stated) {
        (None, Some(stated)) => return stated,
        (Some(order), _) => order.as_slice(),
        (None, None) => ranking.order(),
    };
    let mut ranks = vec![0; order.len()];
    order.iter().zip(1..).for_each(|(&at, rank)| ranks[at] = rank);
    ranks
}

/// The placement of each task in the answer. On one CPU every task is placed on that CPU.
fn places(set: &TaskSet, asked: &ChargedAnswer) -> Option<Vec<TaskPlacement>> {
    let alone = || vec![TaskPlacement::Cpus(vec![0]); set.tasks().len()];
    asked.answer.placement.clone().or_else(|| (set.cpus() == 1).then(alone))
}

/// The longest time for which a job of each task occupies its CPU under EDF: its WCET with its own reloads, and at
/// least its charged execution time.
///
/// A job is charged for the job that it preempts, so the charge to `j` bounds the cost of one preemption by `j` to the
/// preempted job. Each job with an earlier deadline that is released within the job's deadline preempts the job at most
/// once.
pub(super) fn needs(set: &TaskSet, asked: &ChargedAnswer) -> Vec<Time> {
    let (tasks, places) = (set.tasks(), places(set, asked));
    let places = places.as_deref().or_else(|| set.placement());
    let meet = |i: usize, j: usize| {
        places.is_none_or(|all| all[i].cpus().iter().any(|cpu| all[j].cpus().contains(cpu)))
    };
    let reloads = |i: usize, j: usize| -> Time {
        let Some(delays) = &asked.delays else { return Time::ZERO };
        let (own, other) = (&tasks[i], &tasks[j]);
        if i == j || other.deadline.saturating_sub(other.jitter) >= own.deadline || !meet(i, j) {
            return Time::ZERO;
        }
        let window = own.deadline + own.jitter + other.jitter;
        delays[j].saturating_mul(window.div_ceil(other.period))
    };
    let of = |i: usize| {
        let (task, all) = (&tasks[i], 0..tasks.len());
        let with_reloads = all.fold(task.wcet, |sum, j| sum.saturating_add(reloads(i, j)));
        let charged =
            asked.charged.as_ref().map_or(Time::ZERO, |it| Time::new(it[i][0].ceil() as u64));
        with_reloads.max(charged).min(task.deadline.min(task.period)).max(task.wcet)
    };
    (0..tasks.len()).map(of).collect()
}

/// Sets each task's budget to the longest occupation of a job, because `SCHED_DEADLINE` stops a job at its budget
/// even while the job reloads the cache.
fn budgeted(set: TaskSet, asked: &ChargedAnswer) -> Result<TaskSet, TaskError> {
    if asked.charged.is_none() {
        return Ok(set);
    }
    let budgets = needs(&set, asked);
    set.budgeted(&budgets)
}

impl Test {
    /// Whether an answer of the test says how tasks are to run: on which CPUs, or under a global scheduler.
    pub fn deploys(&self) -> bool {
        let in_clusters = matches!(self.suffers, Suffers::Within(_));
        self.scheduler().is_some() || in_clusters || self.scheduler.starts_with("semi-partitioned")
    }

    /// The scheduler that the test analyses, if sets can state that scheduler.
    pub fn scheduler(&self) -> Option<Scheduler> {
        let begins = |with: &str| self.scheduler.starts_with(with);
        match () {
            () if self.is_soft() || begins("non-preemptive") || begins("global non-preemptive") => {
                None
            }
            () if begins("partitioned EDF") || begins("EDF on one CPU") => Some(Scheduler::PEdf),
            () if begins("partitioned fixed") || begins("fixed priorities on one CPU") => {
                Some(Scheduler::PFp)
            }
            () if begins("EDF in clusters") => Some(Scheduler::CEdf),
            () if begins("global EDF") => Some(Scheduler::GEdf),
            () if begins("global fixed") => Some(Scheduler::GFp),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{ChargedSet, DelayCharge};
    use crate::test;
    use corehop_plan::workload::set_file;

    fn deploy(name: &str) -> TaskSet {
        let set = set_file::parse(
            r#"{"cpus":2,"tasks":[{"name":"a","wcet_us":5000,"period_us":10000},
            {"name":"b","wcet_us":9000,"period_us":20000},{"name":"c","wcet_us":6000,"period_us":20000}]}"#,
        );
        let set = set.unwrap();
        let test = test(name).unwrap();
        let asked =
            ChargedSet::new(&set, None, DelayCharge::Each(Time::new(200)), None).ask(test).unwrap();
        assert!(asked.answer.verdict.is_schedulable());
        deployed(&set, test, None, &asked).unwrap().unwrap()
    }

    #[test]
    fn under_a_global_scheduler_the_set_keeps_the_scheduler_and_priorities_and_gets_no_cpus() {
        let set = deploy("g-edf");
        assert_eq!((set.scheduler(), set.placement()), (Some(Scheduler::GEdf), None));
        assert!(set.budgets().is_some() && set.tasks()[0].priority().is_none());
        let set = deploy("g-fp-bertogna");
        assert_eq!((set.scheduler(), set.placement()), (Some(Scheduler::GFp), None));
        assert_eq!(set.tasks().iter().filter_map(crate::Task::priority).count(), 3);
    }

    #[test]
    fn priorities_that_were_assigned_are_deployed_and_distinct() {
        let set = deploy("p-fp-ffd");
        let ranks: Vec<_> = set.tasks().iter().map(crate::Task::priority).collect();
        assert_eq!(ranks, [Some(1), Some(2), Some(3)]);
        assert_eq!((set.scheduler(), set.budgets()), (Some(Scheduler::PFp), None));
    }

    #[test]
    fn a_budget_holds_the_reloads_of_the_job_that_is_preempted() {
        // By hand: in 20 ms `short` is released four times, and each of its jobs may preempt `long` once.
        let set = set_file::parse(
            r#"{"cpus":1,"tasks":[{"name":"short","wcet_us":1000,"period_us":5000},
            {"name":"long","wcet_us":8000,"period_us":20000}]}"#,
        );
        let set = set.unwrap();
        let test = test("edf-rta").unwrap();
        let asked =
            ChargedSet::new(&set, None, DelayCharge::Each(Time::new(200)), None).ask(test).unwrap();
        let deployed = deployed(&set, test, None, &asked).unwrap().unwrap();
        assert_eq!(deployed.budgets().unwrap(), [1_200, 8_800].map(Time::new));
        assert_eq!(deployed.placement().unwrap()[1].cpus(), [0]);
        let again = ChargedSet::new(&deployed, None, DelayCharge::Each(Time::new(200)), None)
            .ask(test)
            .unwrap();
        assert!(again.answer.verdict.is_schedulable(), "{:?}", again.answer.why);
    }

    #[test]
    fn a_budget_holds_what_the_verdict_charged() {
        let set = deploy("p-edf-ffd");
        assert_eq!(set.budgets().unwrap(), [5_200, 9_400, 6_200].map(Time::new));
        assert_eq!(set.scheduler(), Some(Scheduler::PEdf));
        // With a larger delay the budgets no longer hold the work.
        let asked = ChargedSet::new(&set, None, DelayCharge::Each(Time::new(300)), None)
            .ask(test("p-edf-given").unwrap());
        assert!(asked.unwrap().answer.why.unwrap().contains("budget"));
        let same = ChargedSet::new(&set, None, DelayCharge::Each(Time::new(200)), None)
            .ask(test("p-edf-given").unwrap());
        assert!(same.unwrap().answer.verdict.is_schedulable());
    }
}
