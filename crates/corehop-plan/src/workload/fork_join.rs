// SPDX-License-Identifier: MIT OR Apache-2.0
//! The computation of a Fibonacci number by fork and join: the tasks, and the deques from which threads take and
//! steal tasks.
//!
//! A task forks into tasks for the two preceding numbers and puts the task of the smaller number into its thread's
//! deque; it ends when both have ended. Thieves take the oldest task of another thread. Every task has a record of
//! one line at its position in the tree, so that a stolen task takes along the lines of all tasks below it.

/// A task that computes a Fibonacci number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkTask {
    /// The position of the task in the tree, counted from 0: first the task, then all tasks below its first child,
    /// then the second child.
    pub at: u32,
    /// The index of the Fibonacci number that the task computes.
    pub number: u32,
}

impl ForkTask {
    /// The largest index of a Fibonacci number: a task's position and index must fit into one word.
    pub const MOST: u32 = 20;

    /// The capacity of a deque; the tasks in a deque have different indices.
    pub const SLOTS: usize = 32;

    const NUMBER_BITS: u32 = 5;

    /// Returns the root task, of which all other tasks are descendants.
    pub const fn root(number: u32) -> Self {
        Self { at: 0, number }
    }

    /// Returns the Fibonacci number of the task, if the number is known without a fork.
    pub const fn value(self) -> Option<u64> {
        if self.number < 2 { Some(self.number as u64) } else { None }
    }

    /// Returns the two tasks into which the task forks, the larger number first. A task has children only if its number
    /// cannot be computed without a fork.
    pub fn children(self) -> [Self; 2] {
        let first = Self { at: self.at + 1, number: self.number - 1 };
        let behind = TASKS[first.number as usize];
        [first, Self { at: first.at + behind, number: self.number - 2 }]
    }

    /// Returns the task encoded as a word of a deque.
    pub const fn word(self) -> u32 {
        self.at << Self::NUMBER_BITS | self.number
    }

    /// Decodes a task from a word of a deque.
    pub const fn of_word(word: u32) -> Self {
        let number = word & ((1 << Self::NUMBER_BITS) - 1);
        Self { at: word >> Self::NUMBER_BITS, number }
    }
}

/// The number of tasks that compute each Fibonacci number.
const TASKS: [u32; ForkTask::MOST as usize + 1] = {
    let mut tasks = [1; ForkTask::MOST as usize + 1];
    let mut number = 2;
    while number < tasks.len() {
        tasks[number] = 1 + tasks[number - 1] + tasks[number - 2];
        number += 1;
    }
    tasks
};

/// Returns the number of tasks that compute a Fibonacci number; for too large indices, the number for the largest
/// index.
pub const fn tasks(number: u32) -> u32 {
    TASKS[if number < ForkTask::MOST { number as usize } else { ForkTask::MOST as usize }]
}

/// Returns the Fibonacci number with index `number`.
pub fn fibonacci(number: u32) -> u64 {
    (0..number).fold((0, 1), |(this, next), _| (next, this + next)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_fibonacci_number_is_three_and_takes_nine_tasks() {
        assert_eq!([0, 1, 2, 3, 4, 5, 20].map(fibonacci), [0, 1, 1, 2, 3, 5, 6_765]);
        assert_eq!([0, 1, 2, 3, 4].map(tasks), [1, 1, 3, 5, 9]);
        assert_eq!(tasks(20), 21_891);
    }

    #[test]
    fn every_task_has_a_place_of_its_own_and_fits_into_a_word() {
        let (mut open, mut places) = (vec![ForkTask::root(9)], Vec::new());
        while let Some(task) = open.pop() {
            assert_eq!(ForkTask::of_word(task.word()), task);
            places.push(task.at);
            if task.value().is_none() {
                open.extend(task.children());
            }
        }
        places.sort_unstable();
        assert_eq!(places, (0..tasks(9)).collect::<Vec<_>>());
    }
}
