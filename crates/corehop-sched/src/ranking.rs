// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed priorities: the order of the tasks, and which of them share a priority.
//!
//! `SCHED_FIFO` never preempts a task of equal priority: jobs of tasks with equal stated priority run in the order of
//! their releases. Every analysis therefore takes its order from this module and chooses how to treat equal
//! priorities: as served in the order of releases ([`Ranking::of`]), or as an error ([`Ranking::distinct`]).

use corehop_plan::workload::task::Task;

/// The tasks by priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranking {
    /// The task indexes, the highest priority first. Tasks of equal priority are adjacent, by index.
    order: Vec<usize>,
    /// The range of positions that share the priority of each position in `order`: the first position, and the position
    /// after the last.
    levels: Vec<(usize, usize)>,
}

impl Ranking {
    /// Ranks tasks by their stated ranks; tasks of equal rank share a priority. Without stated ranks, priorities are
    /// deadline-monotonic (the shorter deadline first) and all distinct.
    pub(crate) fn of(tasks: &[Task]) -> Self {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&i| match tasks[i].priority {
            Some(rank) => u64::from(rank),
            None => tasks[i].deadline.ticks(),
        });
        let equal = |a: &usize, b: &usize| {
            tasks[*a].priority.is_some() && tasks[*a].priority == tasks[*b].priority
        };
        let mut levels = Vec::with_capacity(order.len());
        for level in order.chunk_by(equal) {
            let first = levels.len();
            levels.extend(level.iter().map(|_| (first, first + level.len())));
        }
        Self { order, levels }
    }

    /// Returns the tasks, the highest priority first; an error with two tasks if these share a priority.
    pub(crate) fn distinct(tasks: &[Task]) -> Result<Vec<usize>, (usize, usize)> {
        let ranking = Self::of(tasks);
        match ranking.tie() {
            None => Ok(ranking.order),
            Some(equals) => Err(equals),
        }
    }

    /// The number of other tasks with at least the priority of `task`.
    pub(crate) fn others_before(&self, task: usize) -> usize {
        let place = self.order.iter().position(|&at| at == task);
        place.map_or(0, |place| self.levels[place].1 - 1)
    }

    /// The tasks, the highest priority first, for callers that handle equal priorities themselves.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The tasks of higher priority than the task at `place`.
    pub(crate) fn above(&self, place: usize) -> &[usize] {
        &self.order[..self.levels[place].0]
    }

    /// The tasks with the priority of the task at `place`, including that task.
    pub(crate) fn level(&self, place: usize) -> &[usize] {
        let (first, after) = self.levels[place];
        &self.order[first..after]
    }

    /// The tasks of at least the priority of the task at `place`.
    pub(crate) fn down_to(&self, place: usize) -> &[usize] {
        &self.order[..self.levels[place].1]
    }

    /// The tasks of lower priority than the task at `place`.
    pub(crate) fn below(&self, place: usize) -> &[usize] {
        &self.order[self.levels[place].1..]
    }

    /// The groups of tasks that share a priority, the highest priority first.
    pub(crate) fn levels(&self) -> impl DoubleEndedIterator<Item = &[usize]> {
        let firsts = (0..self.order.len()).filter(|&place| self.levels[place].0 == place);
        firsts.map(|place| self.level(place))
    }

    /// Two tasks that share a priority, if any do.
    pub(crate) fn tie(&self) -> Option<(usize, usize)> {
        let level = self.levels().find(|level| level.len() > 1)?;
        Some((level[0], level[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::task::{TaskParameters, TaskSet, Time};

    fn ranked(given: &[(Option<u32>, u64)]) -> Vec<Task> {
        let task = |&(priority, period): &(Option<u32>, u64)| TaskParameters {
            wcet: Time::new(1),
            period: Time::new(period),
            priority,
            ..TaskParameters::default()
        };
        let given: Vec<_> = given.iter().map(task).collect();
        TaskSet::new(1, &given).unwrap().tasks().to_vec()
    }

    #[test]
    fn equals_are_neighbours_and_know_each_other() {
        let tasks = ranked(&[(Some(3), 9), (Some(1), 9), (Some(3), 5), (Some(9), 1)]);
        let ranking = Ranking::of(&tasks);
        assert_eq!(ranking.order(), [1, 0, 2, 3]);
        for place in [1, 2] {
            assert_eq!(ranking.above(place), [1]);
            assert_eq!(ranking.level(place), [0, 2]);
            assert_eq!(ranking.down_to(place), [1, 0, 2]);
            assert_eq!(ranking.below(place), [3]);
        }
        assert_eq!(ranking.tie(), Some((0, 2)));
        assert_eq!(Ranking::distinct(&tasks), Err((0, 2)));
    }

    #[test]
    fn priorities_that_were_not_given_are_distinct() {
        let tasks = ranked(&[(None, 9), (None, 5), (None, 9)]);
        assert_eq!(Ranking::distinct(&tasks), Ok(vec![1, 0, 2]));
        assert_eq!(Ranking::of(&tasks).level(1), [0]);
    }
}
