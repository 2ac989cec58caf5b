// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set as an answer deploys it: where each task runs, under which scheduler, with the priorities that were analysed, or with
//! the budgets that the verdict allows.

use super::catalogue::Test;
use super::charge::ChargedAnswer;
use super::ranking::Ranking;
use crate::workload::scheduler::Scheduler;
use crate::workload::task::{TaskError, TaskSet, Time};

/// The set with the assignment of an answer that accepts it; none where the test assigns no CPUs.
///
/// # Errors
/// [`TaskError`] for a place that makes no sense.
pub fn deployed(
    set: &TaskSet,
    test: &Test,
    asked: &ChargedAnswer,
) -> Result<Option<TaskSet>, TaskError> {
    let Some(places) = &asked.answer.placement else { return Ok(None) };
    let set = set.clone().placed(places.clone())?;
    let set = match test.scheduler() {
        Some(Scheduler::PFp | Scheduler::GFp) => {
            let ranks = ranks(&set, asked);
            set.ranked(&ranks).scheduled_by(Scheduler::PFp)
        }
        Some(scheduler) => budgeted(set.unranked(), asked)?.scheduled_by(scheduler),
        None => set,
    };
    Ok(Some(set))
}

/// The ranks that were analysed: those stated, otherwise distinct ones.
fn ranks(set: &TaskSet, asked: &ChargedAnswer) -> Vec<u32> {
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

/// With what each job was charged as its budget: `SCHED_DEADLINE` stops a job at its budget, also while it reloads the cache.
fn budgeted(set: TaskSet, asked: &ChargedAnswer) -> Result<TaskSet, TaskError> {
    let Some(charged) = &asked.charged else { return Ok(set) };
    let budget = |(task, charged): (&super::Task, &[f64; 3])| {
        (charged[0].ceil() as Time).clamp(task.wcet, task.deadline.min(task.period).max(task.wcet))
    };
    let budgets: Vec<Time> = set.tasks().iter().zip(charged).map(budget).collect();
    set.budgeted(&budgets)
}

impl Test {
    /// The scheduler that it is about, if it is one that sets can state.
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
    use crate::sched::charge::{Charged, Delay};
    use crate::sched::test;
    use crate::workload::set_file;

    fn deploy(name: &str) -> TaskSet {
        let set = set_file::parse(
            r#"{"cpus":2,"tasks":[{"name":"a","wcet_us":5000,"period_us":10000},
            {"name":"b","wcet_us":9000,"period_us":20000},{"name":"c","wcet_us":6000,"period_us":20000}]}"#,
        );
        let set = set.unwrap();
        let test = test(name).unwrap();
        let asked = Charged::new(&set, None, Delay::Each(200), None).ask(test).unwrap();
        assert!(asked.answer.verdict.is_schedulable());
        deployed(&set, test, &asked).unwrap().unwrap()
    }

    #[test]
    fn priorities_that_were_assigned_are_deployed_and_distinct() {
        let set = deploy("p-fp-ffd");
        let ranks: Vec<_> = set.tasks().iter().map(crate::sched::Task::priority).collect();
        assert_eq!(ranks, [Some(1), Some(2), Some(3)]);
        assert_eq!((set.scheduler(), set.budgets()), (Some(Scheduler::PFp), None));
    }

    #[test]
    fn a_budget_holds_what_the_verdict_charged() {
        let set = deploy("p-edf-ffd");
        assert_eq!(set.budgets().unwrap(), [5_200, 9_200, 6_200]);
        assert_eq!(set.scheduler(), Some(Scheduler::PEdf));
        // With a larger delay the budgets no longer hold the work.
        let asked =
            Charged::new(&set, None, Delay::Each(300), None).ask(test("p-edf-given").unwrap());
        assert!(asked.unwrap().answer.why.unwrap().contains("budget"));
        let same =
            Charged::new(&set, None, Delay::Each(200), None).ask(test("p-edf-given").unwrap());
        assert!(same.unwrap().answer.verdict.is_schedulable());
    }
}
