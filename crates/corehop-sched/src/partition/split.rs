// SPDX-License-Identifier: MIT OR Apache-2.0
//! Semi-partitioned EDF by C=D splitting (Burns, Davis, Wang and Zhang, Real-Time Systems 48(1), 2012).
//!
//! A task that fits on no CPU as a whole is cut. The first piece `(C', T, D = C')` runs immediately on a nearly full
//! CPU, and the rest `(C - C', T, D - C')` continues on another CPU.
//!
//! With delays, each piece is a task of its CPU: the piece pays for the job that it preempts there, and each piece
//! but the first reloads after its migration, within its budget. A piece is then `(C' + paid, T, D')`, where `D'`
//! equals that execution time.

use std::cmp::Reverse;

use crate::bill::{Bill, Payer};
use crate::system::System;
use crate::uni::edf;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

use super::packing::by_utilisation;

/// A whole task or a piece of a task, on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subtask {
    /// The index of the task.
    pub task: usize,
    /// The index of the CPU.
    pub cpu: usize,
    /// The part of the task's work that this CPU executes.
    pub wcet: Time,
    /// The time that the piece may run on this CPU: its work, and its reload after migration.
    pub budget: Time,
    /// The piece's payment for the job that it preempts on this CPU.
    pub paid: Time,
    /// The deadline of the piece, relative to its release on this CPU.
    pub deadline: Time,
}

/// The load of a CPU: whole tasks and pieces as tasks, and the reload time of each after a preemption.
#[derive(Debug, Clone, Default)]
pub struct CpuLoad {
    tasks: Vec<Task>,
    resumed: Vec<Time>,
}

impl CpuLoad {
    /// The load with one more task.
    fn with(&self, task: Task, resumed: Time) -> Self {
        let mut more = self.clone();
        more.push(task, resumed);
        more
    }

    /// Adds one more task to the load.
    pub(crate) fn push(&mut self, task: Task, resumed: Time) {
        self.tasks.push(task);
        self.resumed.push(resumed);
    }

    /// The payment of each task for delays.
    pub(crate) fn paid(&self, bill: Option<&Bill>) -> Vec<Time> {
        let none = || vec![Time::ZERO; self.tasks.len()];
        bill.map_or_else(none, |it| it.paid(Payer::LaterDeadline, &self.tasks, &self.resumed))
    }

    /// Whether all tasks meet their deadlines, including their payments.
    pub(crate) fn meets(&self, bill: Option<&Bill>) -> bool {
        let verdict = match bill {
            None => edf::qpa(&self.tasks),
            Some(bill) => {
                edf::qpa(&bill.jobs(Payer::LaterDeadline, 1, &self.tasks, &self.resumed).tasks)
            }
        };
        verdict == Verdict::Schedulable
    }
}

/// The part of a split task that has no CPU yet.
#[derive(Debug, Clone, Copy)]
struct TaskRemainder {
    task: Task,
    /// The reload time of the task's jobs when they resume.
    resumed: Time,
    /// The reload time of the next piece after its migration.
    reload: Time,
}

impl TaskRemainder {
    /// The whole remainder as a task of one CPU.
    fn whole(&self) -> Task {
        Task { wcet: self.task.wcet + self.reload, ..self.task }
    }

    /// A piece that is due within `deadline` and needs all of that time: its budget and its payment. Returns `None` if
    /// the payment leaves no time for work.
    fn piece(&self, beside: &CpuLoad, bill: Option<&Bill>, deadline: Time) -> Option<(Time, Time)> {
        let task = Task { deadline, ..self.task };
        let with = |_| beside.with(task, self.resumed).paid(bill).pop();
        let paid = bill.and_then(with).unwrap_or(Time::ZERO);
        let budget = deadline.checked_sub(paid).filter(|&budget| budget > self.reload)?;
        Some((budget, paid))
    }

    /// The largest piece with at most this much work that fits beside a load, as its budget, its payment, and `D'`.
    fn largest(
        &self,
        beside: &CpuLoad,
        bill: Option<&Bill>,
        most: Time,
    ) -> Option<(Time, Time, Time)> {
        let fits = |deadline: Time| match self.piece(beside, bill, deadline) {
            None => true,
            Some((budget, _)) => {
                let piece = Task { wcet: budget, deadline, ..self.task };
                budget - self.reload <= most && beside.with(piece, self.resumed).meets(bill)
            }
        };
        // Between a piece that fits (none at all) and one that does not.
        let (mut low, mut high) = (Time::ZERO, self.task.deadline + Time::TICK);
        while high - low > Time::TICK {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        self.piece(beside, bill, low).map(|(budget, paid)| (budget, paid, low))
    }
}

/// Packs tasks by first fit and falling utilisation, and splits tasks that fit nowhere. Returns the pieces, or the
/// first task that no splitting could place.
///
/// # Errors
/// Returns the index of the task that could not be placed.
pub fn c_equals_d(system: System<'_>) -> Result<Vec<Subtask>, usize> {
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by(|&a, &b| by_utilisation(&system.tasks[b], &system.tasks[a]));
    let mut cpus: Vec<CpuLoad> = vec![CpuLoad::default(); system.cpus as usize];
    let mut pieces = Vec::new();
    for at in order {
        place(system, at, &mut cpus, &mut pieces).ok_or(at)?;
    }
    // Those that came later may have raised what those before them pay.
    for (cpu, load) in cpus.iter().enumerate() {
        let here = pieces.iter_mut().filter(|piece| piece.cpu == cpu);
        here.zip(load.paid(system.bill)).for_each(|(piece, paid)| piece.paid = paid);
    }
    Ok(pieces)
}

fn place(
    system: System<'_>,
    at: usize,
    cpus: &mut [CpuLoad],
    pieces: &mut Vec<Subtask>,
) -> Option<()> {
    let bill = system.bill;
    let delay = |of: fn(&Bill) -> &Vec<Time>| bill.map_or(Time::ZERO, |bill| of(bill)[at]);
    let resumed = delay(|bill| &bill.resumed);
    let mut rest = TaskRemainder { task: system.tasks[at], resumed, reload: Time::ZERO };
    // A task is not on one CPU twice: its pieces would have to follow each other there.
    let mut used = vec![false; cpus.len()];
    loop {
        let open = |cpu: &usize| !used[*cpu];
        let whole = rest.whole();
        let fits = |cpu: &usize| cpus[*cpu].with(whole, resumed).meets(bill);
        if let Some(cpu) = (0..cpus.len()).filter(open).find(fits) {
            cpus[cpu].push(whole, resumed);
            let (wcet, deadline) = (rest.task.wcet, rest.task.deadline);
            pieces.push(Subtask {
                task: at,
                cpu,
                wcet,
                budget: whole.wcet,
                paid: Time::ZERO,
                deadline,
            });
            return Some(());
        }
        // Jobs of a thread follow each other: a piece of the next job must not begin before the last piece of this one ends.
        rest.task.deadline = rest.task.deadline.min(rest.task.period);
        // The CPU that takes the most work; of several, the first.
        let most = rest.task.wcet - Time::TICK;
        let heads = (0..cpus.len()).filter(open);
        let heads = heads.filter_map(|cpu| Some((rest.largest(&cpus[cpu], bill, most)?, cpu)));
        let ((budget, paid, deadline), cpu) =
            heads.max_by_key(|&((budget, ..), cpu)| (budget, Reverse(cpu)))?;
        used[cpu] = true;
        cpus[cpu].push(Task { wcet: budget, deadline, ..rest.task }, resumed);
        let wcet = budget - rest.reload;
        pieces.push(Subtask { task: at, cpu, wcet, budget, paid, deadline });
        let (left, due) = (rest.task.wcet - wcet, rest.task.deadline - deadline);
        let reload = delay(|bill| &bill.moved);
        rest = TaskRemainder {
            task: Task { wcet: left, deadline: due, ..rest.task },
            resumed,
            reload,
        };
        if left + reload > due {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;

    #[test]
    fn a_task_that_is_cut_is_done_within_its_period_though_it_is_due_later() {
        let tasks = [(6, 10, 10), (6, 10, 10), (6, 10, 30)];
        let set = corehop_fixtures::task_sets::set(2, &tasks);
        let pieces = c_equals_d(System::of(&set)).unwrap();
        let due: Vec<Time> =
            pieces.iter().filter(|it| it.task == 2).map(|it| it.deadline).collect();
        assert!(due.len() > 1 && due.iter().sum::<Time>() <= Time::new(10), "{pieces:?}");
        // Whole, a task keeps its deadline.
        let set = corehop_fixtures::task_sets::set(1, &[(6, 10, 30)]);
        assert_eq!(c_equals_d(System::of(&set)).unwrap()[0].deadline, Time::new(30));
    }

    #[test]
    fn three_tasks_that_no_partition_places_are_split() {
        // Three of 0.6 on two CPUs: the third is cut into what fits beside each.
        let set = implicit(2, &[(6, 10), (6, 10), (6, 10)]);
        let pieces = c_equals_d(System::of(&set)).unwrap();
        assert_eq!(pieces.len(), 4);
        let of_third: Time =
            pieces.iter().filter(|piece| piece.task == 2).map(|piece| piece.wcet).sum();
        assert_eq!(of_third, Time::new(6));
        // Beside (6, 10) a head of 4 fits: by 4 it is done, and 6 + 4 by 10.
        assert_eq!(
            pieces[2],
            Subtask {
                task: 2,
                cpu: 0,
                wcet: Time::new(4),
                budget: Time::new(4),
                paid: Time::ZERO,
                deadline: Time::new(4)
            }
        );
        assert_eq!(
            pieces[3],
            Subtask {
                task: 2,
                cpu: 1,
                wcet: Time::new(2),
                budget: Time::new(2),
                paid: Time::ZERO,
                deadline: Time::new(6)
            }
        );
    }

    #[test]
    fn a_split_job_pays_for_each_piece_and_each_move_by_hand() {
        // Two of 60 in 100 with delay 10, and one of 58 in 100 that pays 10 for either of them, and 5 for its move. Beside
        // the first 40 are left: 30 of work. The rest is 28, 5 to reload and 10 to pay: 43, more than what is left.
        let set = implicit(2, &[(60, 100), (60, 100), (58, 100)]);
        let bill = Bill {
            resumed: vec![Time::new(10), Time::new(10), Time::ZERO],
            moved: vec![Time::ZERO, Time::ZERO, Time::new(5)],
            overheads: None,
            own: false,
        };
        let system = System { bill: Some(&bill), ..System::of(&set) };
        assert_eq!(c_equals_d(system), Err(2));
        let less = implicit(2, &[(60, 100), (60, 100), (55, 100)]);
        let pieces = c_equals_d(System { bill: Some(&bill), ..System::of(&less) }).unwrap();
        let head = Subtask {
            task: 2,
            cpu: 0,
            wcet: Time::new(30),
            budget: Time::new(30),
            paid: Time::new(10),
            deadline: Time::new(40),
        };
        let tail = Subtask {
            task: 2,
            cpu: 1,
            wcet: Time::new(25),
            budget: Time::new(30),
            paid: Time::new(10),
            deadline: Time::new(60),
        };
        assert_eq!(pieces[2..], [head, tail]);
    }

    #[test]
    fn beside_a_set_that_already_fails_there_is_no_head_and_no_abort() {
        let full = implicit(1, &[(5, 9), (5, 9)]);
        let load = CpuLoad { tasks: full.tasks().to_vec(), resumed: vec![Time::ZERO; 2] };
        let rest = TaskRemainder { task: full.tasks()[0], resumed: Time::ZERO, reload: Time::ZERO };
        assert_eq!(rest.largest(&load, None, Time::new(3)), None);
        assert_eq!(c_equals_d(System::of(&implicit(2, &[(9, 10), (9, 10), (9, 10)]))), Err(2));
    }
}
