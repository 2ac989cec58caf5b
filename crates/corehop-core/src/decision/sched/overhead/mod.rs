// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overheads charged to a set: what comes out is of another type, so that nothing is charged twice.

pub mod system;
pub mod table;

use super::blocks::CacheUse;
use super::task::{LONGEST, System, Task, TaskError, TaskSet, Time};
use crate::decision::costs::Costs;
use crate::workload::Event;

/// A set of tasks into whose execution times overheads were charged. It cannot be inflated again.
///
/// An inflated task may need more than its period: then no test accepts the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inflated {
    cpus: u32,
    tasks: Vec<Task>,
    delays: Vec<Time>,
    cache: Option<CacheUse>,
}

impl Inflated {
    /// What a test is given.
    pub fn system(&self) -> System<'_> {
        System { cpus: self.cpus, tasks: &self.tasks, cache: self.cache.as_ref() }
    }
    /// The inflated tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }
    /// The delay `D_c` that each task of the set was charged.
    pub fn delays(&self) -> &[Time] {
        &self.delays
    }
}

/// A task that fits nowhere: what inflation makes of one that cannot be served.
fn impossible(task: &Task) -> Task {
    Task { wcet: 2 * LONGEST, ..*task }
}

/// Charges each job the delay of one preemption or migration: `e' = e + D_c` (Bastoni, Brandenburg and
/// Anderson 2010, section 2). `delay` gives `D_c` of the task with this index.
pub fn plain(set: &TaskSet, delay: impl FnMut(usize) -> Time) -> Inflated {
    let delays: Vec<Time> = (0..set.tasks().len()).map(delay).collect();
    let charged = |(task, &delay): (&Task, &Time)| Task {
        // Beyond the longest span nothing fits anyway, and sums stay inside of 64 bits.
        wcet: task.wcet.saturating_add(delay).min(2 * LONGEST),
        ..*task
    };
    let tasks = set.tasks().iter().zip(&delays).map(charged).collect();
    Inflated { cpus: set.cpus(), tasks, delays, cache: set.cache().cloned() }
}

/// The same with the delay that follows from each task's working set: what the dearest of `events` costs,
/// rounded up to whole microseconds. Where there are none, nothing is charged.
///
/// # Errors
/// [`TaskError`] for a task whose working set is not known, or has no known cost.
pub fn by_working_set(
    set: &TaskSet,
    events: &[Event],
    costs: &dyn Costs,
) -> Result<Inflated, TaskError> {
    let delays = delays(set, events, costs)?;
    Ok(plain(set, |at| delays[at]))
}

/// The delay that follows from each task's working set, as [`by_working_set`] charges it.
///
/// # Errors
/// As [`by_working_set`].
pub fn delays(set: &TaskSet, events: &[Event], costs: &dyn Costs) -> Result<Vec<Time>, TaskError> {
    let delay = |at: usize| {
        let wrong = |value: String, expected: String| {
            let name = set.names()[at].clone();
            TaskError { task: Some(at), name, field: "wss_kib", value, expected }
        };
        if events.is_empty() {
            return Ok(0);
        }
        let Some(wss) = set.wss_kib()[at] else {
            let what = "the size of the working set, from which the task's delay follows";
            return Err(wrong("absent".to_owned(), what.to_owned()));
        };
        let cost = costs
            .largest(events, wss as f64)
            .map_err(|why| wrong(wss.to_string(), format!("a size whose cost is known ({why})")))?;
        Ok(cost.us.max(0.0).ceil() as Time)
    };
    (0..set.tasks().len()).map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::catalogue::test;
    use crate::decision::sched::task::testing::implicit;
    use crate::decision::sched::verdict::Verdict;

    #[test]
    fn each_task_is_charged_its_own_delay_once() {
        let set = implicit(2, &[(1, 10), (2, 20)]);
        let inflated = plain(&set, |at| 5 * (at as Time + 1));
        let wcets: Vec<Time> = inflated.tasks().iter().map(Task::wcet).collect();
        assert_eq!(wcets, [6, 12]);
        assert_eq!(set.tasks()[0].wcet(), 1);
    }

    #[test]
    fn a_task_that_no_longer_fits_makes_the_set_infeasible_and_is_no_error() {
        let inflated = plain(&implicit(2, &[(1, 10), (2, 20)]), |_| 10);
        for (name, verdict) in [("necessary", Verdict::Unschedulable), ("gfb", Verdict::Unknown)] {
            assert_eq!(test(name).unwrap().run(inflated.system()).verdict, verdict, "{name}");
        }
        let huge = plain(&implicit(1, &[(1, 10)]), |_| Time::MAX);
        assert_eq!(test("qpa").unwrap().run(huge.system()).verdict, Verdict::Unschedulable);
    }
}
