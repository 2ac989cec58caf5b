// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedules of the simulated machine against a plain one that sorts whatever is ready: who runs when and
//! where, and who preempts whom; and against what theory knows of one CPU.

use corehop_sched::System;
use corehop_sched::Time;
use std::collections::VecDeque;
use std::sync::OnceLock;

use corehop_plan::experiment::{Plan, PlannedTask, TaskRun, Tasks};
use corehop_plan::machine::{Machine, Records, RunEnd};
use corehop_plan::platform::Platform;
use corehop_plan::samples::TaskJobRecord;
use corehop_plan::units::{Bytes, Cpu, Nanos};
use corehop_plan::workload::scheduler::{JobPreference, Scheduler};
use corehop_plan::workload::{Load, WorkingSet};
use corehop_sched::{TaskParameters, TaskSet, Verdict, test};
use corehop_sim::SimMachine;
use proptest::prelude::*;

/// The unit of all times, in nanoseconds: enough for a few touches of the working sets.
const TICK: u64 = 20_000;

fn x5650() -> &'static Platform {
    static PLATFORM: OnceLock<Platform> = OnceLock::new();
    PLATFORM.get_or_init(|| Platform::named("xeon_x5650").unwrap().unwrap())
}

/// The compared facts of a job.
#[derive(Debug, Clone, PartialEq, Default)]
struct Seen {
    task: usize,
    number: u64,
    release: u64,
    began: u64,
    ended: u64,
    preemptions: u32,
    migrations: u32,
    /// Its first absence: from where to where, how long, and the job that preempted it.
    away: Option<(Cpu, Cpu, u64, usize)>,
}

/// A job that is ready.
#[derive(Debug, Clone)]
struct Ready {
    /// The deadline or the rank.
    by: u64,
    /// When its task queued up, for ranks.
    since: u64,
    left: u64,
    begun: bool,
    /// The CPU that it lost, when, and to whose job.
    lost: Option<(Cpu, u64, usize)>,
    seen: Seen,
}

/// A CPU, its cluster, and the task that has it.
#[derive(Debug, Clone)]
struct Seat {
    cluster: usize,
    cpu: Cpu,
    task: Option<usize>,
}

/// A schedule that is made anew at every instant at which anything happens.
struct Plain<'a> {
    plan: &'a Tasks,
    /// By task the releases that are to come, with the numbers of their jobs.
    pending: Vec<VecDeque<(u64, u64)>>,
    /// By task its job, as far as it is ready.
    ready: Vec<Option<Ready>>,
    /// By task when it queued up: a job that is late already when the one before it ends follows at once.
    queued: Vec<u64>,
    seats: Vec<Seat>,
    /// By task the CPU that it had last.
    last: Vec<Cpu>,
    done: Vec<Seen>,
}

impl<'a> Plain<'a> {
    fn new(plan: &'a Tasks) -> Self {
        let run = &plan.runs[0];
        let mut seats = Vec::new();
        for (cluster, cpus) in run.clusters.iter().enumerate() {
            seats.extend(cpus.iter().map(|cpu| Seat { cluster, cpu, task: None }));
        }
        let first = |(at, task): (usize, &PlannedTask)| {
            let cpus: Vec<Cpu> = run.clusters[task.cluster].iter().collect();
            cpus[at % cpus.len()]
        };
        let numbered = |task| (0..).zip(plan.releases(SEED, 0, task)).collect();
        Self {
            plan,
            pending: (0..run.tasks.len()).map(numbered).collect(),
            ready: vec![None; run.tasks.len()],
            queued: vec![0; run.tasks.len()],
            seats,
            last: run.tasks.iter().enumerate().map(first).collect(),
            done: Vec::new(),
        }
    }

    /// All jobs, by task and number.
    fn all(mut self) -> Vec<Seen> {
        let mut now = 0;
        loop {
            (0..self.ready.len()).for_each(|task| self.end_and_release(task, now));
            (0..self.plan.runs[0].clusters.len()).for_each(|cluster| self.choose(cluster, now));
            let running: Vec<usize> = self.seats.iter().filter_map(|seat| seat.task).collect();
            let ends = running.iter().map(|&task| now + self.ready[task].as_ref().unwrap().left);
            let idle = (0..self.ready.len()).filter(|&task| self.ready[task].is_none());
            let releases = idle.filter_map(|task| self.pending[task].front().map(|it| it.1));
            let Some(next) = ends.chain(releases).min() else { break };
            for task in running {
                self.ready[task].as_mut().unwrap().left -= next - now;
            }
            now = next;
        }
        self.done.sort_by_key(|seen| (seen.task, seen.number));
        self.done
    }

    fn end_and_release(&mut self, task: usize, now: u64) {
        if let Some(job) = self.ready[task].take_if(|job| job.left == 0) {
            self.done.push(Seen { ended: now, ..job.seen });
            self.seats.iter_mut().filter(|it| it.task == Some(task)).for_each(|it| it.task = None);
        }
        if self.ready[task].is_none()
            && let Some((number, release)) = self.pending[task].pop_front_if(|it| it.1 <= now)
        {
            let planned = &self.plan.runs[0].tasks[task];
            if release == now {
                self.queued[task] = now;
            }
            let (by, since) = match self.plan.scheduler.order() {
                JobPreference::Rank => (u64::from(planned.rank), self.queued[task]),
                JobPreference::Deadline | JobPreference::Fair => {
                    (release + planned.deadline.get(), 0)
                }
            };
            let seen = Seen { task, number, release, ..Seen::default() };
            let left = planned.wcet.get();
            self.ready[task] = Some(Ready { by, since, left, begun: false, lost: None, seen });
        }
    }

    /// Gives the CPUs of a cluster to the most urgent of all that are ready there.
    fn choose(&mut self, cluster: usize, now: u64) {
        let of_cluster = |&task: &usize| self.plan.runs[0].tasks[task].cluster == cluster;
        let urgency = |task: usize| self.ready[task].as_ref().map(|job| (job.by, job.since, task));
        let mut order: Vec<(u64, u64, usize)> =
            (0..self.ready.len()).filter(of_cluster).filter_map(urgency).collect();
        order.sort_unstable();
        order.truncate(self.seats.iter().filter(|seat| seat.cluster == cluster).count());
        let chosen: Vec<usize> = order.iter().map(|it| it.2).collect();
        let kept = |seat: &Seat| seat.task.is_some_and(|task| chosen.contains(&task));
        let mut open: Vec<usize> = (0..self.seats.len())
            .filter(|&at| self.seats[at].cluster == cluster && !kept(&self.seats[at]))
            .collect();
        let sits = |task: usize| self.seats.iter().any(|seat| seat.task == Some(task));
        let come: Vec<usize> = chosen.iter().copied().filter(|&task| !sits(task)).collect();
        let mut places = Vec::new();
        // Jobs that can go home, and then the others go where they may.
        for home in [true, false] {
            for &task in &come {
                let last = self.last[task];
                let at_home = open.iter().position(|&at| self.seats[at].cpu == last);
                let place = if home { at_home } else { self.next_best(&open, last) };
                if places.iter().all(|&(_, it)| it != task)
                    && let Some(place) = place
                {
                    places.push((open.remove(place), task));
                }
            }
        }
        for &(at, task) in &places {
            if let Some(loser) = self.seats[at].task {
                let lost = (self.seats[at].cpu, now, task);
                self.ready[loser].as_mut().unwrap().lost = Some(lost);
            }
        }
        for (at, task) in places {
            self.seat(at, task, now);
        }
    }

    /// Of these seats the free one that is nearest, otherwise that of the least urgent job.
    fn next_best(&self, open: &[usize], last: Cpu) -> Option<usize> {
        let far = |cpu: Cpu| x5650().affinity(last, cpu) as u8;
        let free = |&place: &usize| self.seats[open[place]].task.is_none();
        let near = |&place: &usize| {
            let cpu = self.seats[open[place]].cpu;
            (far(cpu), cpu)
        };
        let urgency = |&place: &usize| {
            let task = self.seats[open[place]].task.unwrap();
            (self.ready[task].as_ref().unwrap().by, task)
        };
        let nearest = (0..open.len()).filter(free).min_by_key(near);
        nearest.or_else(|| (0..open.len()).max_by_key(urgency))
    }

    fn seat(&mut self, at: usize, task: usize, now: u64) {
        let cpu = self.seats[at].cpu;
        self.seats[at].task = Some(task);
        self.last[task] = cpu;
        let job = self.ready[task].as_mut().unwrap();
        if !std::mem::replace(&mut job.begun, true) {
            job.seen.began = now;
        }
        if let Some((from, since, by)) = job.lost.take() {
            job.seen.away.get_or_insert((from, cpu, now - since, by));
            *(if from == cpu { &mut job.seen.preemptions } else { &mut job.seen.migrations }) += 1;
        }
    }
}

fn seen(record: &TaskJobRecord) -> Seen {
    Seen {
        task: record.task,
        number: record.job,
        release: record.release_ns,
        began: record.began_ns,
        ended: record.ended_ns,
        preemptions: record.preemptions,
        migrations: record.migrations,
        away: record.away.map(|it| (it.from, it.to, it.length_ns.round() as u64, it.by.unwrap())),
    }
}

/// The seed of its releases.
const SEED: u64 = 3;

/// The records of a plan on the simulated machine, by task and number.
fn simulated(plan: &Tasks) -> Vec<TaskJobRecord> {
    let mut records = Records::default();
    let mut machine = SimMachine::new(x5650().clone()).unwrap();
    let plan = Plan::new("schedule-sensitive", SEED, plan.clone());
    assert_eq!(machine.run(&plan, &mut records).unwrap(), RunEnd::Complete);
    let mut records = records.tasks;
    records.sort_by_key(|record| (record.task, record.job));
    records
}

/// A task by its times in ticks: execution, period, deadline, offset.
fn task([wcet, period, deadline, offset]: [u64; 4]) -> PlannedTask {
    let ticks = |count: u64| Nanos::new(count * TICK);
    PlannedTask {
        budget: None,
        name: None,
        wcet: ticks(wcet),
        period: ticks(period),
        deadline: ticks(deadline),
        rank: 0,
        cluster: 0,
        offset: ticks(offset),
        longest_delay: Nanos::new(0),
        set: WorkingSet::list(Bytes::from_kib(1), 0.5),
    }
}

/// A plan of one run, ranked by deadline.
fn plan(scheduler: Scheduler, clusters: &[&str], mut tasks: Vec<PlannedTask>, ticks: u64) -> Tasks {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&at| tasks[at].deadline);
    (0..).zip(order).for_each(|(rank, at)| tasks[at].rank = rank);
    let run = TaskRun {
        number: None,
        index: 0,
        load: Load::Idle,
        duration: Nanos::new(ticks * TICK),
        watched: true,
        scale: 1.0,
        clusters: clusters.iter().map(|cpus| cpus.parse().unwrap()).collect(),
        tasks,
    };
    Tasks { scheduler, sched_ext: None, runs: vec![run] }
}

/// Tasks with deadlines before and after their periods, some of which ask for more than there is; the
/// fifth number is a delay in hundredths of a tick, the sixth the cluster.
fn tasks() -> impl Strategy<Value = Vec<(u64, u64, u64, u64, u64, usize)>> {
    let task =
        (1..8_u64, 0..20_u64, 0..30_u64, 0..12_u64, prop_oneof![Just(0), 1..500_u64], 0..12_usize);
    prop::collection::vec(task, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_scheduler_gives_the_cpus_to_those_that_a_plain_one_gives_them(
        drawn in tasks(),
        of in prop::sample::select(vec![
            (Scheduler::GEdf, vec!["0-2"]),
            (Scheduler::GEdf, vec!["0,1,6,7"]),
            (Scheduler::GFp, vec!["0-1"]),
            (Scheduler::GFp, vec!["1,3,5,7"]),
            (Scheduler::CEdf, vec!["0-1", "6-8"]),
            (Scheduler::PEdf, vec!["2", "0"]),
            (Scheduler::PFp, vec!["0", "7", "1"]),
        ]),
        a_rank in 1..4_u32,
    ) {
        let (scheduler, clusters) = of;
        let of = |&(wcet, more, due, offset, delay, cluster): &(u64, u64, u64, u64, u64, usize)| PlannedTask {
            longest_delay: Nanos::new(delay * TICK / 100),
            cluster: cluster % clusters.len(),
            ..task([wcet, wcet + more, wcet + due, offset])
        };
        let mut plan = plan(scheduler, &clusters, drawn.iter().map(of).collect(), 60);
        // So many tasks have one rank.
        plan.runs[0].tasks.iter_mut().for_each(|task| task.rank /= a_rank);
        let records = simulated(&plan);
        let seen: Vec<Seen> = records.iter().map(seen).collect();
        prop_assert_eq!(seen, Plain::new(&plan).all());
        for record in &records {
            prop_assert_eq!(record.executed_ns, plan.runs[0].tasks[record.task].wcet.get());
        }
    }

    #[test]
    fn of_jobs_released_together_on_one_cpu_each_task_responds_as_late_as_its_exact_bound(
        drawn in prop::collection::vec((1..5_u64, 0..20_u64, 0..20_u64), 1..6),
    ) {
        let set = constrained(&drawn.iter().map(|&(c, t, d)| (c, c + t, c + d.min(t))).collect::<Vec<_>>());
        let answer = test("p-fp-rta").unwrap().run(System::of(&set));
        prop_assume!(answer.verdict == Verdict::Schedulable);
        let records = simulated(&plan(Scheduler::PFp, &["0"], synchronous(&set), 30));
        let worst = |task: usize| {
            let of_task = records.iter().filter(|record| record.task == task);
            of_task.map(|it| (it.ended_ns - it.release_ns) / TICK).max().unwrap()
        };
        let worst: Vec<u64> = (0..set.tasks().len()).map(worst).collect();
        let bounds = answer.bounds.map(|all| all.into_iter().map(Time::ticks).collect::<Vec<_>>());
        prop_assert_eq!(Some(worst), bounds);
    }

    #[test]
    fn earliest_deadline_first_on_one_cpu_misses_a_deadline_only_where_every_schedule_does(
        drawn in prop::collection::vec((1..5_u64, prop::sample::select(vec![4, 6, 8, 12_u64]), 0..8_u64), 1..5),
    ) {
        let of = |&(c, t, early): &(u64, u64, u64)| (c.min(t), t, t - early.min(t - c.min(t)));
        let set = constrained(&drawn.iter().map(of).collect::<Vec<_>>());
        let fits = test("qpa").unwrap().run(System::of(&set)).verdict == Verdict::Schedulable;
        // All periods divide 24.
        let records = simulated(&plan(Scheduler::PEdf, &["0"], synchronous(&set), 24));
        let late = |it: &TaskJobRecord| {
            it.ended_ns - it.release_ns > (set.tasks()[it.task].deadline() * TICK).ticks()
        };
        prop_assert_eq!(records.iter().any(late), !fits);
    }
}

/// A set of (C, T, D) in ticks, for one CPU.
fn constrained(tasks: &[(u64, u64, u64)]) -> TaskSet {
    let of = |&(wcet, period, deadline): &(u64, u64, u64)| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        deadline: Some(Time::new(deadline)),
        ..TaskParameters::default()
    };
    TaskSet::new(1, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap()
}

/// Its tasks, all released at once.
fn synchronous(set: &TaskSet) -> Vec<PlannedTask> {
    set.tasks()
        .iter()
        .map(|it| task([it.wcet().ticks(), it.period().ticks(), it.deadline().ticks(), 0]))
        .collect()
}
