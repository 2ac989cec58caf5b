// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides, for each scheduler, which jobs are charged for a preemption or migration.
//!
//! A job that resumes reloads its lost cache contents. Each reload takes up to the delay `d` of the task, however
//! little the job ran since the reload before. Schedulability tests do not model reloads, so delays are charged to
//! execution times. The preempted job executes for longer, but the number of its preemptions is not known. Each job
//! is released once and preempts at most one other job, so the preempting job pays (Liu 2000, section 4.8; Devi 2006,
//! section 3.2; Brandenburg 2011, chapter 3).
//!
//! **Theorem.** Jobs have fixed priorities, and m CPUs run the m jobs of highest priority. Let each job execute for
//! `d` longer than its own work, where `d` is at least the delay of every job that the first job may keep waiting
//! after that other job began. Then no job ends later in the schedule with reloads than in the schedule with these
//! additions.
//!
//! *Proof.* Let `p(J, t)` be the work that job `J` still has at `t` in the first schedule (with reloads), not
//! counting reloads. Let `p'(J, t)` be the same work in the second schedule (with additions), where additions do not
//! count and are executed last. Claim: `p <= p'` always. Otherwise, look at the first instant at which `J` makes
//! progress in the second schedule only. Either `J` does not run in the first schedule. Then m jobs of higher
//! priority run (or an earlier job of the task of `J`), and by the claim all of them are unfinished in the second
//! schedule too, so `J` does not run there either. Or `J` reloads, because `J` resumed at `s`: then at `s - 1` m jobs
//! of higher priority were running. By the claim each of these m jobs had one unit of work and its whole addition
//! left in the second schedule, so none of them ends before `s + d`. By then `J` has reloaded. ∎ So bounds on
//! response times and on tardiness carry over from any test, and so do met deadlines.
//!
//! The scheduler decides which jobs keep `J` waiting after `J` began. On one CPU these are jobs released after `J`
//! began. Under EDF these jobs are due no later than `J`: [`Payer::LaterDeadline`]. Under fixed priorities these jobs
//! have a higher priority than `J`: [`Payer::LowerPriority`]. For the response of one task, the delays of tasks with
//! lower priority do not matter (`aff(i, j) = hep(i) ∩ lp(j)`, Altmeyer, Davis and Maiza 2012, section 2). On m CPUs
//! a job released long before `J` may occupy one of the other CPUs when `J` is preempted. That job may have the
//! earlier deadline although its `D` is longer. Charging only for tasks with later relative deadlines would therefore
//! accept sets that miss deadlines, so the delays of all other tasks count: [`Payer::Others`].
//!
//! No job pays for a task that is never preempted. On m CPUs a job that began waits only while m jobs of other tasks
//! are ready with higher priorities, so a task with fewer than m tasks above it is never preempted. Under EDF a job
//! that is released later and due no later has a shorter relative deadline, so the tasks with the shortest relative
//! deadline are never preempted ([`Payer::Deadlines`]). Response-time analyses with their own windows charge less
//! than this module: [`victims`](super::global::victims).

use super::overhead::system::{SystemOverheads, fixed_priority, job_level};
use super::ranking::Ranking;
use super::verdict::Charges;
use corehop_plan::workload::task::{Task, Time};

/// The jobs whose delays a job may have to pay for, under each scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payer {
    /// A job pays nothing, because no job is preempted after it began, or because the test itself charges reloads.
    NoJob,
    /// Under EDF on one CPU, a job pays the largest delay among tasks with a later relative deadline.
    LaterDeadline,
    /// Under fixed priorities in the order of the set, a job pays the largest delay among tasks of lower priority.
    LowerPriority,
    /// A job pays the largest delay among all other tasks. This payer is for job priorities on several CPUs with one
    /// shared queue, and for priority orders that the test itself finds.
    Others,
    /// A job pays the largest delay among all other tasks, on whatever CPUs these tasks run.
    Anybody,
    /// Under EDF on several CPUs, a job pays the largest delay among all other tasks that can be preempted.
    Deadlines,
    /// The test combines several tests, each with its own payer.
    EachTest,
    /// A job pays as under [`Payer::LaterDeadline`] or [`Payer::Others`] among the tasks of its CPU or cluster, which
    /// the test assigns.
    EachGroup,
    /// Each task's response bound includes the delays of `aff(i, j)`, on each CPU.
    Affected,
    /// Each piece of a split task pays as under [`Payer::LaterDeadline`] on its CPU, and each piece but the first
    /// also pays for its migration.
    EachPiece,
}

/// The charges to a task set: delays, overheads, or both, in the unit of the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bill {
    /// For each task, the longest reload of a job that resumes on the job's previous CPU.
    pub resumed: Vec<Time>,
    /// For each task, the longest reload of a job that the scheduler migrates to another CPU.
    pub moved: Vec<Time>,
    /// The overheads of the operating system.
    pub overheads: Option<SystemOverheads>,
    /// Whether each job pays its own delay, once, because one value is charged to all tasks (`e' = e + D_c`).
    pub own: bool,
}

impl Bill {
    /// Returns the delay that each job of a whole set or group pays for; `resumed` holds the reload times of these
    /// tasks.
    pub fn paid(&self, payer: Payer, tasks: &[Task], resumed: &[Time]) -> Vec<Time> {
        if self.own && self.overheads.is_none() {
            return resumed.to_vec();
        }
        match payer {
            Payer::NoJob => vec![Time::ZERO; tasks.len()],
            // Releases come late by different latencies: a shorter deadline may begin first.
            Payer::LaterDeadline if self.overheads.is_some() => others(resumed),
            Payer::LaterDeadline => later_deadline(tasks, resumed),
            Payer::LowerPriority | Payer::Affected => lower_priority(tasks, resumed),
            Payer::Others
            | Payer::Anybody
            | Payer::Deadlines
            | Payer::EachTest
            | Payer::EachGroup
            | Payer::EachPiece => others(resumed),
        }
    }

    /// Returns the charges to a whole set, or to the tasks of a CPU or cluster, where each job pays once.
    pub fn jobs(&self, payer: Payer, cpus: u32, tasks: &[Task], resumed: &[Time]) -> Charges {
        let paid = self.paid(payer, tasks, &self.preempted(payer, cpus, tasks, resumed));
        let tasks = match &self.overheads {
            Some(costs) => job_level(tasks, cpus, costs, &paid),
            _ => tasks.iter().zip(&paid).map(|(task, &delay)| task.longer(delay)).collect(),
        };
        Charges { tasks, paid }
    }

    /// Returns the delays of tasks that a job can preempt, and 0 for the other tasks. If one value is charged to all
    /// tasks (`own`) or anybody pays, the delays are returned unchanged.
    fn preempted(&self, payer: Payer, cpus: u32, tasks: &[Task], resumed: &[Time]) -> Vec<Time> {
        if self.own || payer == Payer::Anybody {
            return resumed.to_vec();
        }
        let by_deadline = payer == Payer::Deadlines && self.overheads.is_none();
        let shortest = tasks.iter().map(|task| task.deadline).min();
        let ranking = (payer == Payer::LowerPriority).then(|| Ranking::of(tasks));
        let higher = |at: usize| match &ranking {
            Some(ranking) => ranking.others_before(at),
            None => tasks.len() - 1,
        };
        let is_preempted = |at: usize| {
            higher(at) >= cpus as usize && !(by_deadline && Some(tasks[at].deadline) == shortest)
        };
        let of = |(at, &delay)| if is_preempted(at) { delay } else { Time::ZERO };
        resumed.iter().enumerate().map(of).collect()
    }

    /// Returns the charges to the tasks `group` of the set, where each job pays once.
    pub fn group(&self, payer: Payer, cpus: u32, tasks: &[Task], group: &[usize]) -> Charges {
        let own: Vec<Task> = group.iter().map(|&at| tasks[at]).collect();
        self.jobs(payer, cpus, &own, &self.of(group))
    }

    /// Returns the bill for the tasks `group`, as if these tasks were a set of their own.
    #[must_use]
    pub fn alone(&self, group: &[usize]) -> Self {
        let moved = group.iter().filter_map(|&at| self.moved.get(at).copied()).collect();
        Self { resumed: self.of(group), moved, ..*self }
    }

    /// Returns the delays of the tasks `group`.
    pub fn of(&self, group: &[usize]) -> Vec<Time> {
        group.iter().map(|&at| self.resumed[at]).collect()
    }

    /// Returns the tasks of one CPU under fixed priorities with the interrupts after them, and the delays that are
    /// still to be charged to preemptions within a busy window ([`Payer::Affected`]).
    pub fn priorities(&self, tasks: &[Task], resumed: &[Time]) -> (Vec<Task>, Vec<Time>) {
        let (paid, affected) = if self.own {
            (resumed.to_vec(), vec![Time::ZERO; resumed.len()])
        } else {
            (vec![Time::ZERO; resumed.len()], resumed.to_vec())
        };
        let tasks = match &self.overheads {
            Some(costs) => fixed_priority(tasks, 1, costs, &paid),
            None => tasks.iter().zip(&paid).map(|(task, &delay)| task.longer(delay)).collect(),
        };
        (tasks, affected)
    }

    /// Returns the longest lateness of a release. Response times are counted from the arrival.
    pub fn latency(&self) -> Time {
        self.overheads.map_or(Time::ZERO, |costs| costs.latency())
    }
}

/// For each task, the largest delay among all other tasks.
fn others(delays: &[Time]) -> Vec<Time> {
    let most = |from: &mut dyn Iterator<Item = usize>| from.max_by_key(|&at| delays[at]);
    let Some(first) = most(&mut (0..delays.len())) else { return Vec::new() };
    let second =
        most(&mut (0..delays.len()).filter(|&at| at != first)).map_or(Time::ZERO, |at| delays[at]);
    (0..delays.len()).map(|at| if at == first { second } else { delays[first] }).collect()
}

/// For each task, the largest delay among tasks with a later relative deadline. A job that is released late can
/// preempt a job that arrived after it, so the late job's own jitter is subtracted from its deadline.
fn later_deadline(tasks: &[Task], delays: &[Time]) -> Vec<Time> {
    if tasks.iter().any(|task| task.jitter > Time::ZERO) {
        let of = |at: usize| {
            let first = tasks[at].deadline.saturating_sub(tasks[at].jitter);
            let later = (0..tasks.len()).filter(|&it| it != at && tasks[it].deadline > first);
            later.map(|it| delays[it]).max().unwrap_or(Time::ZERO)
        };
        return (0..tasks.len()).map(of).collect();
    }
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(tasks[at].deadline));
    let mut paid = vec![Time::ZERO; tasks.len()];
    let mut most = Time::ZERO;
    for equal in order.chunk_by(|&a, &b| tasks[a].deadline == tasks[b].deadline) {
        for &at in equal {
            paid[at] = most;
        }
        most = equal.iter().map(|&at| delays[at]).fold(most, Time::max);
    }
    paid
}

/// For each task, the largest delay among tasks of lower priority. Tasks of equal priority count too: on several CPUs a
/// job may delay a job of equal priority that was released later and has already begun.
fn lower_priority(tasks: &[Task], delays: &[Time]) -> Vec<Time> {
    let mut paid = vec![Time::ZERO; tasks.len()];
    let mut most = Time::ZERO;
    for level in Ranking::of(tasks).levels().rev() {
        let of_level: Vec<Time> = level.iter().map(|&at| delays[at]).collect();
        for (&at, equals) in level.iter().zip(others(&of_level)) {
            paid[at] = equals.max(most);
        }
        most = of_level.into_iter().fold(most, Time::max);
    }
    paid
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    fn bill(resumed: &[Time]) -> Bill {
        Bill { resumed: resumed.to_vec(), moved: Vec::new(), overheads: None, own: false }
    }

    #[test]
    fn each_scheduler_has_its_own_payer_by_hand() {
        // Deadlines 9, 5, 9, 20; delays 7, 1, 3, 2.
        let set = set(1, &[(1, 20, 9), (1, 20, 5), (1, 20, 9), (1, 20, 20)]);
        let bill = bill(&[Time::new(7), Time::new(1), Time::new(3), Time::new(2)]);
        let paid = |payer| bill.paid(payer, set.tasks(), &bill.resumed);
        assert_eq!(paid(Payer::NoJob), [0, 0, 0, 0].map(Time::new));
        // A job does not preempt another one with the same relative deadline.
        assert_eq!(paid(Payer::LaterDeadline), [2, 7, 2, 0].map(Time::new));
        // The order is 1, 0, 2, 3.
        assert_eq!(paid(Payer::LowerPriority), [3, 7, 2, 0].map(Time::new));
        assert_eq!(paid(Payer::Others), [3, 7, 7, 7].map(Time::new));
        // Task 1 has the shortest deadline: on two CPUs nothing preempts it, and on four nothing preempts any.
        let on = |cpus, payer, delays: &[Time]| bill.jobs(payer, cpus, set.tasks(), delays).paid;
        assert_eq!(
            on(2, Payer::Deadlines, &[Time::new(1), Time::new(9), Time::new(3), Time::new(2)]),
            [3, 3, 2, 3].map(Time::new)
        );
        assert_eq!(
            on(2, Payer::Others, &[Time::new(1), Time::new(9), Time::new(3), Time::new(2)]),
            [9, 3, 9, 9].map(Time::new)
        );
        assert_eq!(
            on(4, Payer::Deadlines, &[Time::new(1), Time::new(9), Time::new(3), Time::new(2)]),
            [0, 0, 0, 0].map(Time::new)
        );
        assert_eq!(
            on(4, Payer::Others, &[Time::new(1), Time::new(9), Time::new(3), Time::new(2)]),
            [0, 0, 0, 0].map(Time::new)
        );
        // Where tasks are assigned to CPUs, some of them may share one.
        assert_eq!(
            on(4, Payer::Anybody, &[Time::new(1), Time::new(9), Time::new(3), Time::new(2)]),
            [9, 3, 9, 9].map(Time::new)
        );
        // By rank 1, 0, 2, 3: the first two always have one of two CPUs.
        assert_eq!(
            on(2, Payer::LowerPriority, &[Time::new(9), Time::new(9), Time::new(3), Time::new(2)]),
            [3, 3, 2, 0].map(Time::new)
        );
    }

    #[test]
    fn a_job_that_is_released_late_preempts_more() {
        // Deadlines 9, 5 and 12. Released up to 4 late, the last can be due before a job of the first that arrived later.
        let mut tasks = set(1, &[(1, 20, 9), (1, 20, 5), (1, 20, 12)]).tasks().to_vec();
        tasks[2].jitter = Time::new(4);
        let bill = bill(&[Time::new(7), Time::new(9), Time::new(3)]);
        assert_eq!(
            bill.paid(Payer::LaterDeadline, &tasks, &bill.resumed),
            [3, 7, 7].map(Time::new)
        );
        tasks[2].jitter = Time::new(3);
        assert_eq!(
            bill.paid(Payer::LaterDeadline, &tasks, &bill.resumed),
            [3, 7, 0].map(Time::new)
        );
    }

    #[test]
    fn one_value_for_all_is_paid_once_by_each() {
        let set = implicit(1, &[(10, 100), (20, 200)]);
        let bill = Bill { own: true, ..bill(&[Time::new(5), Time::new(5)]) };
        for payer in [Payer::LaterDeadline, Payer::LowerPriority, Payer::Others] {
            assert_eq!(bill.paid(payer, set.tasks(), &bill.resumed), [5, 5].map(Time::new));
        }
        let (tasks, affected) = bill.priorities(set.tasks(), &bill.resumed);
        assert_eq!((tasks[1].wcet, affected), (Time::new(25), [0, 0].map(Time::new).to_vec()));
    }

    #[test]
    fn a_task_alone_pays_nothing_and_a_huge_delay_fits_nowhere() {
        let alone = implicit(1, &[(10, 100)]);
        assert_eq!(
            bill(&[Time::new(9)]).paid(Payer::Others, alone.tasks(), &[Time::new(9)]),
            [0].map(Time::new)
        );
        let two = implicit(1, &[(10, 100), (10, 100)]);
        let bill = bill(&[Time::MAX, Time::ZERO]);
        let charged = bill.jobs(Payer::Others, 1, two.tasks(), &bill.resumed);
        assert_eq!(charged.tasks[1].wcet, 2 * corehop_plan::workload::task::LONGEST);
    }
}
