// SPDX-License-Identifier: MIT OR Apache-2.0
//! Semi-partitioned EDF whose tasks migrate between jobs only: EDF-os (Anderson, Erickson, Devi and Casses, "Optimal
//! semi-partitioned scheduling in soft real-time systems", RTCSA 2014), for implicit deadlines.
//!
//! *Assignment.* Tasks are packed by falling utilisation, each onto the emptiest CPU, until a task does not fit. The
//! packed tasks are the *fixed* tasks. The remaining tasks fill the CPUs one after the other, and a task is cut where
//! a CPU is full. A cut task has a share `s` of each of several CPUs, and the first of these is the task's *first*
//! CPU.
//!
//! *Execution.* A CPU with share `s` of a task of utilisation `u` gets `f v` of the task's first `v` jobs, rounded up
//! or down, with `f = s / u`. No job changes its CPU. A CPU first runs jobs of the cut task for which it is not the
//! first CPU, then jobs of the cut task for which it is, then its fixed tasks by EDF.
//!
//! *Bounds.* Tardiness of all tasks is bounded whenever `U <= m` and each `u <= 1`, so the test is exact. The bounds
//! follow from these rules: a CPU has at most one cut task of each kind, and only fixed tasks that are at least as
//! heavy as the cut tasks.
//! 1. In `t` time units, a CPU executes a cut task `h` for at most `s t + w`, where `w = s D + 2 e (f + 1)` and `D`
//!    bounds the tardiness of `h`. The reason: jobs that run then were released within `t + T + D`, and of `x`
//!    consecutive jobs at most `f x + 2` belong to the CPU.
//! 2. A cut task runs immediately on a CPU that is not its first CPU. While the cut task is behind, it runs or waits
//!    for `h` on its first CPU. Because `u + s_h <= 1`, its tardiness is at most `w_h / (1 - s_h)`, and zero without
//!    such an `h`.
//! 3. The tardiness of a fixed task is at most `w / (1 - s)`, where `w` and `s` are summed over the cut tasks of its
//!    CPU, because EDF gets the rest of the CPU.

use std::cmp::Ordering;

use super::admission::Admission;
use super::packing::{Fit, Packing};
use crate::exact::{self, Term};
use crate::soft;
use crate::system::System;
use corehop_plan::workload::task::{Task, Time};

/// A cut task's share of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Portion {
    /// The index of the task.
    pub task: usize,
    /// The index of the CPU.
    pub cpu: usize,
    /// The share of the CPU, rounded.
    pub share: f64,
}

/// The CPUs assigned to every task.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitAssignment {
    /// The fixed tasks of each CPU.
    pub fixed: Vec<Vec<usize>>,
    /// The portions of the cut tasks. Portions of one task are adjacent, its first CPU first.
    pub cut: Vec<Portion>,
}

/// Assigns CPUs to every task; `None` if tardiness is not bounded.
pub fn assign(system: System<'_>) -> Option<SplitAssignment> {
    if !soft::bounded(system).is_schedulable() {
        return None;
    }
    let packing = Packing {
        fit: Fit::Worst,
        decreasing: true,
        admission: Admission::Utilisation,
        cluster: 1,
    };
    let (mut fixed, rest) = packing.pack_as_far(system);
    let u = |at: usize| -> Term {
        let task: &Task = &system.tasks[at];
        (i128::from(task.wcet), task.period.ticks())
    };
    // What is filled so far, and the room up to the end of this CPU: both exact.
    let (mut filled, mut room): (Vec<Term>, Vec<Term>) = (Vec::new(), Vec::new());
    let compare = |filled: &[Term], room: &[Term]| {
        let less = room.iter().map(|&(numerator, denominator)| (-numerator, denominator));
        exact::sign(filled.iter().copied().chain(less).collect::<Vec<_>>().into_iter())
    };
    let open = |cpu: usize, fixed: &[Vec<usize>], room: &mut Vec<Term>| {
        let used = fixed.get(cpu)?.iter().map(|&at| (-u(at).0, u(at).1));
        room.extend(used.chain([(1, 1)]));
        Some(room_of(system, &fixed[cpu]))
    };
    let (mut cpu, mut cut) = (0, Vec::new());
    let mut left = open(cpu, &fixed, &mut room)?;
    for at in rest {
        let mut portions = Vec::new();
        let mut needs = utilisation(&system.tasks[at]);
        loop {
            // A CPU that is exactly full has nothing for this task.
            if compare(&filled, &room) != Ordering::Less && portions.is_empty() {
                cpu += 1;
                left = open(cpu, &fixed, &mut room)?;
                continue;
            }
            let all = [filled.as_slice(), &[u(at)]].concat();
            let ends_here = compare(&all, &room) != Ordering::Greater;
            let share = if ends_here { needs } else { left.min(needs) };
            if share > 0.0 {
                portions.push(Portion { task: at, cpu, share });
            }
            needs -= share;
            left -= share;
            if ends_here {
                filled = all;
                break;
            }
            cpu += 1;
            left = open(cpu, &fixed, &mut room)?;
        }
        match portions.as_slice() {
            [whole] => fixed[whole.cpu].push(at),
            _ => cut.extend(portions),
        }
    }
    Some(SplitAssignment { fixed, cut })
}

fn utilisation(task: &Task) -> f64 {
    task.wcet.as_f64() / task.period.as_f64()
}

/// The capacity that the fixed tasks leave on their CPU; zero if they fill the CPU exactly.
fn room_of(system: System<'_>, fixed: &[usize]) -> f64 {
    let fixed = fixed.iter().map(|&at| &system.tasks[at]);
    let full = exact::compare_sum(fixed.clone().map(Task::u).collect::<Vec<_>>().into_iter(), 1);
    if full.is_lt() { (1.0 - fixed.map(utilisation).sum::<f64>()).max(0.0) } else { 0.0 }
}

/// Returns response bounds `T + D` by the rules of the module; `None` if tardiness is not bounded.
pub fn responses(system: System<'_>) -> Option<Vec<Time>> {
    let assignment = assign(system)?;
    let mut late = vec![0.0_f64; system.tasks.len()];
    // Of each CPU: shares and bursts of the tasks that were cut into it.
    let mut taken = vec![(0.0, 0.0); system.cpus as usize];
    for portions in assignment.cut.chunk_by(|a, b| a.task == b.task) {
        let (at, first) = (portions[0].task, portions[0].cpu);
        // Those before it in the order have this CPU as their last one.
        let (share, burst) = taken[first];
        late[at] = burst / (1.0 - share);
        let task = &system.tasks[at];
        for portion in portions {
            let fraction = portion.share / utilisation(task);
            let burst = portion.share * late[at] + 2.0 * task.wcet.as_f64() * (fraction + 1.0);
            taken[portion.cpu].0 += portion.share;
            taken[portion.cpu].1 += burst;
        }
    }
    for (tasks, (share, burst)) in assignment.fixed.iter().zip(&taken) {
        for &at in tasks {
            late[at] = burst / (1.0 - share);
        }
    }
    let bound = |(task, late): (&Task, f64)| {
        // Jobs end at whole times, and sums are off by far less than what is added.
        task.period.saturating_add(Time::new((late * (1.0 + 1e-9) + 1e-6).floor() as u64))
    };
    Some(system.tasks.iter().zip(late).map(bound).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;
    use corehop_plan::workload::draw::DrawStream;
    use corehop_plan::workload::task::TaskSet;

    #[test]
    fn three_tasks_that_no_partition_places_share_two_cpus_by_hand() {
        let set = implicit(2, &[(2, 3), (2, 3), (2, 3)]);
        let assignment = assign(System::of(&set)).unwrap();
        assert_eq!(assignment.fixed, [[0], [1]]);
        let portions: Vec<(usize, usize)> =
            assignment.cut.iter().map(|portion| (portion.task, portion.cpu)).collect();
        assert_eq!(portions, [(2, 0), (2, 1)]);
        // The third is never late; of either CPU it has s = 1/3 with f = 1/2: w = 2 * 2 * 3/2 = 6, and the
        // fixed tasks are at most 6 / (2/3) = 9 late.
        assert_eq!(responses(System::of(&set)), Some([12, 12, 3].map(Time::new).to_vec()));
    }

    #[test]
    fn what_can_be_partitioned_is_and_what_is_too_much_is_not_bounded() {
        let set = implicit(2, &[(1, 2), (1, 2), (1, 2), (1, 2)]);
        assert_eq!(assign(System::of(&set)).unwrap().cut, []);
        assert_eq!(responses(System::of(&set)), Some(vec![Time::new(2); 4]));
        assert_eq!(responses(System::of(&implicit(2, &[(2, 3), (2, 3), (3, 4)]))), None);
    }

    fn drawn(stream: &mut DrawStream) -> TaskSet {
        let cpus = 2 + stream.below(3);
        loop {
            let tasks: Vec<(u64, u64)> = (0..cpus + 1 + stream.below(3))
                .map(|_| {
                    let period = 2 + stream.below(11);
                    (1 + stream.below(period), period)
                })
                .collect();
            let set = implicit(cpus as u32, &tasks);
            let cut = assign(System::of(&set)).is_some_and(|it| !it.cut.is_empty());
            if cut {
                return set;
            }
        }
    }

    #[test]
    fn shares_add_up_and_a_cpu_has_at_most_one_cut_task_of_each_kind() {
        for index in 0..300 {
            let set = drawn(&mut DrawStream::of_set(11, index));
            let assignment = assign(System::of(&set)).unwrap();
            let u = |at: usize| utilisation(&set.tasks()[at]);
            for portions in assignment.cut.chunk_by(|a, b| a.task == b.task) {
                let sum: f64 = portions.iter().map(|portion| portion.share).sum();
                assert!((sum - u(portions[0].task)).abs() < 1e-9 && portions.len() > 1);
            }
            for (cpu, fixed) in assignment.fixed.iter().enumerate() {
                let here = |first: bool| {
                    let parts = assignment.cut.chunk_by(|a, b| a.task == b.task);
                    parts
                        .filter(|it| it.iter().any(|it| it.cpu == cpu))
                        .filter(|it| (it[0].cpu == cpu) == first)
                        .count()
                };
                assert!(here(true) <= 1 && here(false) <= 1);
                let shares = assignment.cut.iter().filter(|it| it.cpu == cpu).map(|it| it.share);
                let sum = shares.sum::<f64>() + fixed.iter().map(|&at| u(at)).sum::<f64>();
                assert!(sum < 1.0 + 1e-9, "{sum}");
            }
        }
    }

    /// Simulates synchronous periodic jobs by the rules of the module, and returns the tardiness of each task.
    fn simulated(set: &TaskSet, until: Time) -> Vec<Time> {
        let (tasks, assignment) = (set.tasks(), assign(System::of(set)).unwrap());
        let portions = |at: usize| assignment.cut.iter().filter(move |it| it.task == at);
        let fixed_on = |at: usize| assignment.fixed.iter().position(|fixed| fixed.contains(&at));
        let mut given = vec![vec![0_u64; set.cpus() as usize]; tasks.len()];
        // The job of each task that is being served: how many came before it, what is left, where.
        let mut now: Vec<(u64, Time, usize)> = vec![(0, Time::ZERO, 0); tasks.len()];
        let place = |at: usize, job: u64, given: &mut Vec<Vec<u64>>| {
            let cpu = fixed_on(at).unwrap_or_else(|| {
                // Of the CPUs whose next turn has begun, the one whose turn ends first.
                let turn = |it: &Portion| {
                    let f = it.share / utilisation(&tasks[at]);
                    let count = given[at][it.cpu] as f64;
                    (count / f < job as f64 + 1.0 - 1e-9, ((count + 1.0) / f - 1e-9).ceil(), it.cpu)
                };
                let turns = portions(at).map(turn).filter(|turn| turn.0);
                turns.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().2
            });
            given[at][cpu] += 1;
            cpu
        };
        for (at, task) in tasks.iter().enumerate() {
            now[at] = (0, task.wcet, place(at, 0, &mut given));
        }
        let mut late = vec![Time::ZERO; tasks.len()];
        for t in (0..until.ticks()).map(Time::new) {
            for cpu in 0..set.cpus() as usize {
                let ready = |&at: &usize| now[at].2 == cpu && now[at].0 * tasks[at].period <= t;
                let rank = |&at: &usize| {
                    let kind = portions(at).next().map_or(2, |first| usize::from(first.cpu == cpu));
                    (kind, (now[at].0 + 1) * tasks[at].period)
                };
                let Some(at) = (0..tasks.len()).filter(ready).min_by_key(rank) else { continue };
                now[at].1 -= Time::new(1);
                if now[at].1 == Time::ZERO {
                    let job = now[at].0;
                    late[at] = late[at]
                        .max((t + Time::new(1)).saturating_sub((job + 1) * tasks[at].period));
                    // Its next job is not served in this time unit again, wherever it is.
                    now[at] = (job + 1, tasks[at].wcet, usize::MAX);
                }
            }
            for (at, job) in now.iter_mut().enumerate().filter(|(_, job)| job.2 == usize::MAX) {
                job.2 = place(at, job.0, &mut given);
            }
        }
        late
    }

    #[test]
    fn no_simulated_job_is_later_than_its_bound() {
        let (mut late, mut tight) = (0, 0.0_f64);
        for index in 0..150 {
            let set = drawn(&mut DrawStream::of_set(12, index));
            let bounds = responses(System::of(&set)).unwrap();
            for (at, seen) in simulated(&set, Time::new(3_000)).into_iter().enumerate() {
                let bound = bounds[at] - set.tasks()[at].period();
                assert!(seen <= bound, "set {index}, task {at}: {seen} of {bound}");
                late += usize::from(seen > Time::ZERO);
                tight = tight.max(seen.as_f64() / bound.max(Time::new(1)).as_f64());
            }
        }
        // The bound is put to the test: tasks are late, and some come near it.
        assert!(late > 20 && tight > 0.2, "{late} {tight}");
    }
}
