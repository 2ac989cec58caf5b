// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overheads charged to a set. The charged set has a type of its own, so that nothing is charged twice.

pub mod system;
pub mod table;

use crate::system::System;
use corehop_plan::workload::task::{LONGEST, Task, TaskSet, Time};

/// A task set whose execution times include charged overheads. An inflated set cannot be inflated again.
///
/// An inflated task may need more than its period. No test accepts a set with a task that needs more than its period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inflated {
    set: TaskSet,
    tasks: Vec<Task>,
    delays: Vec<Time>,
}

impl Inflated {
    /// Returns the charged set as the input of a test.
    pub fn system(&self) -> System<'_> {
        System { tasks: &self.tasks, ..System::of(&self.set) }
    }
    /// Returns the tasks with the overheads charged.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }
    /// The delay `D_c` that each task of the set was charged.
    pub fn delays(&self) -> &[Time] {
        &self.delays
    }
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
    Inflated { set: set.clone(), tasks, delays }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::test;
    use crate::verdict::Verdict;
    use corehop_fixtures::task_sets::implicit;

    #[test]
    fn each_task_is_charged_its_own_delay_once() {
        let set = implicit(2, &[(1, 10), (2, 20)]);
        let inflated = plain(&set, |at| Time::new(5 * (at as u64 + 1)));
        let wcets: Vec<Time> = inflated.tasks().iter().map(Task::wcet).collect();
        assert_eq!(wcets, [6, 12].map(Time::new));
        assert_eq!(set.tasks()[0].wcet(), Time::new(1));
    }

    #[test]
    fn a_task_that_no_longer_fits_makes_the_set_infeasible_and_is_no_error() {
        let inflated = plain(&implicit(2, &[(1, 10), (2, 20)]), |_| Time::new(10));
        for (name, verdict) in [("necessary", Verdict::Unschedulable), ("gfb", Verdict::Unknown)] {
            assert_eq!(test(name).unwrap().run(inflated.system()).verdict, verdict, "{name}");
        }
        let huge = plain(&implicit(1, &[(1, 10)]), |_| Time::MAX);
        assert_eq!(test("qpa").unwrap().run(huge.system()).verdict, Verdict::Unschedulable);
    }
}
