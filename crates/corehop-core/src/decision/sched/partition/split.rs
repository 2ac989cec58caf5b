// SPDX-License-Identifier: MIT OR Apache-2.0
//! Semi-partitioned EDF by C=D splitting (Burns, Davis, Wang and Zhang, Real-Time Systems 48(1), 2012).
//!
//! A task that fits on no CPU whole is cut: its first piece `(C', T, D = C')` runs at once on a CPU that is
//! nearly full, the rest `(C - C', T, D - C')` goes on to another.

use std::cmp::Reverse;

use crate::decision::sched::task::{System, Task, Time};
use crate::decision::sched::uni::edf;
use crate::decision::sched::verdict::Verdict;

use super::packing::by_utilisation;

/// A task, or a piece of it, on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Which task.
    pub task: usize,
    /// Which CPU.
    pub cpu: usize,
    /// How much of its work is done there.
    pub wcet: Time,
    /// Within how long of its release there.
    pub deadline: Time,
}

/// The largest `C'` up to `most` such that `(C', T, D = C')` fits beside `beside`; nothing where none
/// does. What does not fit at `C'` does not fit at more.
pub fn largest_head(beside: &[Task], task: &Task, most: Time) -> Option<Time> {
    let fits = |wcet: Time| {
        let piece = Task { wcet, deadline: wcet, ..*task };
        let all: Vec<Task> = beside.iter().copied().chain([piece]).collect();
        edf::qpa(&all) == Verdict::Schedulable
    };
    // Between a piece that fits (none at all) and one that does not.
    let (mut low, mut high) = (0, most.min(task.deadline) + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// First fit by falling utilisation, splitting what fits nowhere; the pieces, or the first task that no
/// splitting placed.
///
/// # Errors
/// The index of the task that could not be placed.
pub fn c_equals_d(system: System<'_>) -> Result<Vec<Piece>, usize> {
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by(|&a, &b| by_utilisation(&system.tasks[b], &system.tasks[a]));
    let mut cpus: Vec<Vec<Task>> = vec![Vec::new(); system.cpus as usize];
    let mut pieces = Vec::new();
    for at in order {
        place(system.tasks[at], at, &mut cpus, &mut pieces).ok_or(at)?;
    }
    Ok(pieces)
}

fn place(task: Task, at: usize, cpus: &mut [Vec<Task>], pieces: &mut Vec<Piece>) -> Option<()> {
    let mut left = task;
    // A task is not on one CPU twice: its pieces would have to follow each other there.
    let mut used = vec![false; cpus.len()];
    loop {
        let whole = (0..cpus.len()).find(|&cpu| {
            let all: Vec<Task> = cpus[cpu].iter().copied().chain([left]).collect();
            !used[cpu] && edf::qpa(&all) == Verdict::Schedulable
        });
        if let Some(cpu) = whole {
            cpus[cpu].push(left);
            pieces.push(Piece { task: at, cpu, wcet: left.wcet, deadline: left.deadline });
            return Some(());
        }
        // The CPU that takes the largest head; of several, the first.
        let heads = (0..cpus.len())
            .filter(|&cpu| !used[cpu])
            .filter_map(|cpu| Some((largest_head(&cpus[cpu], &left, left.wcet - 1)?, cpu)));
        let (head, cpu) = heads.max_by_key(|&(head, cpu)| (head, Reverse(cpu)))?;
        used[cpu] = true;
        cpus[cpu].push(Task { wcet: head, deadline: head, ..left });
        pieces.push(Piece { task: at, cpu, wcet: head, deadline: head });
        left = Task { wcet: left.wcet - head, deadline: left.deadline - head, ..left };
        if left.wcet > left.deadline {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::task::testing::implicit;

    #[test]
    fn three_tasks_that_no_partition_places_are_split() {
        // Three of 0.6 on two CPUs: the third is cut into what fits beside each.
        let set = implicit(2, &[(6, 10), (6, 10), (6, 10)]);
        let pieces = c_equals_d(set.system()).unwrap();
        assert_eq!(pieces.len(), 4);
        let of_third: Time =
            pieces.iter().filter(|piece| piece.task == 2).map(|piece| piece.wcet).sum();
        assert_eq!(of_third, 6);
        // Beside (6, 10) a head of 4 fits: by 4 it is done, and 6 + 4 by 10.
        assert_eq!(pieces[2], Piece { task: 2, cpu: 0, wcet: 4, deadline: 4 });
        assert_eq!(pieces[3], Piece { task: 2, cpu: 1, wcet: 2, deadline: 6 });
    }

    #[test]
    fn beside_a_set_that_already_fails_there_is_no_head_and_no_abort() {
        let full = implicit(1, &[(5, 9), (5, 9)]);
        assert_eq!(largest_head(full.tasks(), &full.tasks()[0], 3), None);
        assert_eq!(c_equals_d(implicit(2, &[(9, 10), (9, 10), (9, 10)]).system()), Err(2));
    }
}
