// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates a scheduler event by event.
//!
//! At each instant, jobs end first, then other jobs are released, then the CPUs are assigned: the most urgent jobs
//! get one CPU each, and a running job stays on its CPU. A job waits for the previous job of its task. A job that
//! resumes reloads for its whole delay, however little it executed since the last resume.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use super::pattern::Pattern;
use super::scene::{PriorityRule, Scene};
use super::{CpuActivity, Schedule, ScheduledJob, Stretch};
use corehop_plan::workload::task::Time;

/// The event for which a simulation looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulationGoal {
    /// The first missed deadline.
    Miss,
    /// The longest response of a task of the scene, by index.
    Longest(usize),
}

/// The conditions that stop a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// The simulation stops after this many jobs at the latest.
    pub jobs: u64,
    /// Whether the simulation stops as soon as no job is left and all tasks have released a job.
    pub idle: bool,
}

/// The result of a simulation.
#[derive(Debug, Clone)]
pub struct Played {
    /// The schedule that the simulation looked for, if one was found.
    pub schedule: Option<Schedule>,
    /// The number of released jobs.
    pub jobs: u64,
}

/// The position of a job in the order of its scheduler; the smallest key runs first.
type UrgencyKey = (u64, Time, bool, usize, usize);

/// The progress of an unfinished job.
#[derive(Debug, Clone, Copy)]
struct JobProgress {
    left: Time,
    reload: Time,
    doing: CpuActivity,
    /// The last CPU of the job, by its index in the scene.
    last: Option<usize>,
}

struct Play<'a> {
    scene: &'a Scene,
    pattern: Pattern,
    goal: SimulationGoal,
    now: Time,
    /// The beginning of the window, at which no earlier job was left.
    began: Time,
    /// The next release of each task, with the arrival of the released job.
    next: BinaryHeap<Reverse<(Time, usize, Time)>>,
    /// The number of releases so far, by task.
    count: Vec<u64>,
    released: u64,
    /// The jobs of the window by index, with their tasks' indexes in the scene.
    jobs: Vec<ScheduledJob>,
    states: Vec<JobProgress>,
    stretches: Vec<Stretch>,
    /// The last interval of each CPU.
    open: Vec<Option<usize>>,
    /// For each task, the current job and the jobs that wait for it.
    queues: Vec<VecDeque<usize>>,
    waiting: BTreeSet<UrgencyKey>,
    seats: Vec<Option<UrgencyKey>>,
    dues: BinaryHeap<Reverse<(Time, usize)>>,
    missed: Option<usize>,
    best: Option<(Time, Schedule)>,
}

/// Simulates the jobs of a release pattern.
pub fn play(scene: &Scene, pattern: Pattern, goal: SimulationGoal, until: Until) -> Played {
    let mut play = Play::new(scene, pattern, goal);
    while play.step(until) {}
    let jobs = play.released;
    let schedule = match play.missed {
        Some(job) => Some(play.schedule(job)),
        None => play.best.map(|it| it.1),
    };
    Played { schedule, jobs }
}

impl<'a> Play<'a> {
    fn new(scene: &'a Scene, pattern: Pattern, goal: SimulationGoal) -> Self {
        let n = scene.tasks.len();
        let mut play = Self {
            scene,
            pattern,
            goal,
            now: Time::ZERO,
            began: Time::ZERO,
            next: BinaryHeap::new(),
            count: vec![0; n],
            released: 0,
            jobs: Vec::new(),
            states: Vec::new(),
            stretches: Vec::new(),
            open: vec![None; scene.cpus.len()],
            queues: vec![VecDeque::new(); n],
            waiting: BTreeSet::new(),
            seats: vec![None; scene.cpus.len()],
            dues: BinaryHeap::new(),
            missed: None,
            best: None,
        };
        // The jobs that are released first have arrived before.
        let start = scene.parameters.iter().map(|it| it.jitter).max().unwrap_or(Time::ZERO);
        for at in 0..n {
            let task = &scene.parameters[at];
            let begin = start + play.pattern.begins[at];
            let jitter = play.pattern.jitter(task, true);
            play.next.push(Reverse((begin, at, begin - jitter)));
        }
        play
    }

    /// Simulates one event, and returns whether more events follow.
    fn step(&mut self, until: Until) -> bool {
        let release = self.next.peek().map_or(Time::MAX, |it| it.0.0);
        let ends = self.seats.iter().flatten().map(|running| {
            let state = self.states[running.4];
            self.now + state.reload + state.left
        });
        let next = ends.min().unwrap_or(Time::MAX).min(release);
        self.run(next);
        self.retire();
        self.look_for_misses();
        if let Some(job) = self.missed {
            let ScheduledJob { ended_us, due_us, task, .. } = self.jobs[job];
            let patience = self.scene.parameters[task].period;
            if ended_us.is_some() || self.now > due_us + patience {
                return false;
            }
        }
        let all = self.count.iter().all(|&count| count > 0);
        let idle = self.queues.iter().all(VecDeque::is_empty);
        if self.released >= until.jobs || (until.idle && idle && all) {
            return false;
        }
        self.release(idle);
        self.dispatch();
        true
    }

    /// Advances the time to `to`, while the CPUs run their jobs.
    fn run(&mut self, to: Time) {
        for seat in 0..self.seats.len() {
            let Some(urgency) = self.seats[seat] else { continue };
            let job = urgency.4;
            let state = &mut self.states[job];
            let (span, doing) = (to - self.now, state.doing);
            let reloads = state.reload.min(span);
            state.reload -= reloads;
            state.left -= span - reloads;
            let middle = self.now + reloads;
            self.keep(seat, job, self.now, middle, doing);
            self.keep(seat, job, middle, to, CpuActivity::Work);
        }
        self.now = to;
    }

    /// Records an interval, or extends the interval before it.
    fn keep(&mut self, seat: usize, job: usize, from_us: Time, to_us: Time, doing: CpuActivity) {
        if from_us == to_us {
            return;
        }
        let cpu = self.scene.cpus[seat];
        match self.open[seat].and_then(|at| self.stretches.get_mut(at)) {
            Some(it) if (it.job, it.to_us, it.doing) == (job, from_us, doing) => it.to_us = to_us,
            _ => {
                self.open[seat] = Some(self.stretches.len());
                self.stretches.push(Stretch { cpu, job, from_us, to_us, doing });
            }
        }
    }

    /// Removes finished jobs, and makes the next jobs of their tasks ready.
    fn retire(&mut self) {
        for seat in 0..self.seats.len() {
            let Some(urgency) = self.seats[seat] else { continue };
            let job = urgency.4;
            if self.states[job].reload + self.states[job].left > Time::ZERO {
                continue;
            }
            self.seats[seat] = None;
            self.jobs[job].ended_us = Some(self.now);
            let task = self.jobs[job].task;
            self.queues[task].pop_front();
            if let Some(&next) = self.queues[task].front() {
                self.waiting.insert(self.urgency(next));
            }
            self.compare(job);
        }
    }

    /// Stores the schedule if its response is the longest so far.
    fn compare(&mut self, job: usize) {
        let response = self.now - self.jobs[job].arrival_us;
        let longer = self.best.as_ref().is_none_or(|(best, _)| response > *best);
        if self.goal == SimulationGoal::Longest(self.jobs[job].task) && longer {
            self.best = Some((response, self.schedule(job)));
        }
    }

    fn look_for_misses(&mut self) {
        while let Some(&Reverse((due, job))) = self.dues.peek() {
            if due > self.now {
                return;
            }
            self.dues.pop();
            let in_time = self.jobs[job].ended_us.is_some_and(|end| end <= due);
            if !in_time && self.goal == SimulationGoal::Miss && self.missed.is_none() {
                self.missed = Some(job);
            }
        }
    }

    /// Releases jobs. After an idle time a new window begins.
    fn release(&mut self, idle: bool) {
        while let Some(&Reverse((release, task, arrival))) = self.next.peek() {
            if release > self.now {
                return;
            }
            self.next.pop();
            if idle && self.queues.iter().all(VecDeque::is_empty) && self.missed.is_none() {
                self.begin_window();
            }
            self.admit(task, arrival);
        }
    }

    fn begin_window(&mut self) {
        self.began = self.now;
        self.jobs.clear();
        self.states.clear();
        self.stretches.clear();
        self.open.fill(None);
        self.dues.clear();
    }

    /// Makes a job of a task ready, and schedules the task's next release.
    fn admit(&mut self, task: usize, arrival: Time) {
        let own = self.scene.parameters[task];
        let (work, job) = (self.pattern.work(&own), self.jobs.len());
        let due = arrival + own.deadline;
        self.jobs.push(ScheduledJob {
            task,
            arrival_us: arrival,
            release_us: self.now,
            due_us: due,
            work_us: work,
            ended_us: None,
        });
        self.states.push(JobProgress {
            left: work,
            reload: Time::ZERO,
            doing: CpuActivity::Work,
            last: None,
        });
        self.dues.push(Reverse((due, job)));
        (self.count[task], self.released) = (self.count[task] + 1, self.released + 1);
        self.queues[task].push_back(job);
        if self.queues[task].len() == 1 {
            self.waiting.insert(self.urgency(job));
        }
        let arrival = arrival + own.period + self.pattern.gap(&own);
        let release = (arrival + self.pattern.jitter(&own, false)).max(self.now);
        self.next.push(Reverse((release, task, arrival)));
    }

    fn urgency(&self, job: usize) -> UrgencyKey {
        let ScheduledJob { task, release_us, due_us, .. } = self.jobs[job];
        let goes_last = self.pattern.last == Some(task);
        match self.scene.by {
            PriorityRule::Deadline => (due_us.ticks(), Time::ZERO, goes_last, task, job),
            PriorityRule::Rank => (self.scene.ranks[task].into(), release_us, goes_last, task, job),
        }
    }

    /// Assigns the CPUs to the most urgent jobs.
    fn dispatch(&mut self) {
        while let Some(&first) = self.waiting.first() {
            let free = self.seats.iter().any(Option::is_none);
            let worst = (0..self.seats.len()).max_by_key(|&seat| self.seats[seat]);
            match worst {
                _ if free => {}
                Some(seat) if self.seats[seat].is_some_and(|it| it > first) => {
                    self.waiting.extend(self.seats[seat].take());
                }
                _ => return,
            }
            self.waiting.remove(&first);
            self.seat(first);
        }
    }

    /// Starts or resumes a job on a free CPU.
    fn seat(&mut self, urgency: UrgencyKey) {
        let job = urgency.4;
        let last = self.states[job].last;
        let mut free = (0..self.seats.len()).filter(|&seat| self.seats[seat].is_none());
        let wanted = free.clone().find(|&seat| (last == Some(seat)) != self.pattern.restless);
        let Some(seat) = wanted.or_else(|| free.next()) else { return };
        let task = self.jobs[job].task;
        let state = &mut self.states[job];
        (state.reload, state.doing) = match last {
            None => (Time::ZERO, CpuActivity::Work),
            Some(last) if last == seat => (self.scene.resumed[task], CpuActivity::Preemption),
            Some(_) => (self.scene.moved[task], CpuActivity::Migration),
        };
        state.last = Some(seat);
        self.seats[seat] = Some(urgency);
    }

    /// The window so far as a schedule with subject `subject`. Times count from the first arrival in the window.
    fn schedule(&self, subject: usize) -> Schedule {
        let jobs = self.jobs.iter().filter(|job| job.release_us < self.now);
        let zero =
            self.jobs.iter().map(|job| job.arrival_us).min().unwrap_or(Time::ZERO).min(self.began);
        let job = |job: &ScheduledJob| ScheduledJob {
            task: self.scene.tasks[job.task],
            arrival_us: job.arrival_us - zero,
            release_us: job.release_us - zero,
            due_us: job.due_us - zero,
            work_us: job.work_us,
            ended_us: job.ended_us.map(|end| end - zero),
        };
        let stretch =
            |it: &Stretch| Stretch { from_us: it.from_us - zero, to_us: it.to_us - zero, ..*it };
        Schedule {
            cpus: self.scene.cpus.clone(),
            from_us: Time::ZERO,
            to_us: self.now - zero,
            jobs: jobs.map(job).collect(),
            stretches: self.stretches.iter().map(stretch).collect(),
            subject,
            with_delays: self.scene.with_delays(),
        }
    }
}
