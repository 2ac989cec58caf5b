// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running task set on its own machine: chooses the next event and the task concerned.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use corehop_plan::experiment::{DrawStream, TaskRun, Tasks};
use corehop_plan::machine::MachineError;
use corehop_plan::samples::{JobAbsence, JobRecord, Leave, TaskJobRecord};
use corehop_plan::units::Cpu;
use corehop_plan::workload::Page;
use corehop_plan::workload::scheduler::JobPreference;

use super::super::machine_state::MachineState;
use super::super::recipe::Recipe;
use super::super::stays::User;
use super::super::system_data::{SystemData, footprints};
use super::super::times::Picos;
use super::super::turns::EventQueue;
use super::super::walker::Walker;
use super::dispatch::{Cluster, Places, Urgency};
use super::job::SimulatedJob;
use super::{KEEP_WARM, LEAST_PAUSE, STREAMS};

/// The next event time of a CPU on which nothing happens.
const NEVER: Picos = Picos::MAX;
/// The number of events between two checks whether the run has to end.
const EVENTS: u64 = 4_096;
/// The number of picoseconds in a nanosecond.
const NANO: Picos = 1_000;

/// The kinds of events; events at the same time happen in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TaskEvent {
    /// The job on this CPU ends.
    End(usize),
    /// A job of this task is released.
    Release(usize),
    /// The job on this CPU visits a line.
    Act(usize),
}

/// The state of a task, with its current job.
struct TaskRuntime {
    walker: Option<Walker>,
    releases: Box<dyn Iterator<Item = u64> + Send>,
    /// The release times of jobs that wait for an earlier job of the task to end.
    late: VecDeque<Picos>,
    /// The time at which the task's thread queued for a CPU, at the end of its priority's queue.
    queued: Picos,
    job: Option<SimulatedJob>,
    /// The number of jobs that the task has begun.
    count: u64,
}

/// The last CPUs of tasks, and the distances between CPUs.
struct Homes {
    /// The last CPU of each task.
    last: Vec<usize>,
    /// The distance between each pair of CPUs.
    distances: Vec<Vec<u8>>,
}

impl Places for Homes {
    fn last(&self, task: usize) -> usize {
        self.last[task]
    }
    fn distance(&self, from: usize, to: usize) -> u8 {
        self.distances[from][to]
    }
}

/// The simulation of a task set.
pub(super) struct TaskSimulation<'a> {
    recipe: &'a Recipe,
    plan: &'a Tasks,
    number: usize,
    state: MachineState,
    /// The start of the run, by the machine state's clock.
    began: Picos,
    draw: DrawStream,
    system: SystemData,
    tasks: Vec<TaskRuntime>,
    homes: Homes,
    clusters: Vec<Cluster>,
    /// The next release of each task that has one.
    releases: BinaryHeap<Reverse<(Picos, usize)>>,
    /// For each CPU: the task on the CPU, the time of its next event, and whether the job then ends.
    has: Vec<Option<usize>>,
    clocks: Vec<Picos>,
    ends: Vec<bool>,
    /// The CPUs with an expected event, by event time; [`TaskSimulation::number`] distinguishes the CPUs.
    turns: EventQueue,
    /// Whether event times have changed since the queue was sorted.
    stale: bool,
    done: Vec<TaskJobRecord>,
}

impl<'a> TaskSimulation<'a> {
    /// Creates run `number` of `plan` on a copy of the machine `base`.
    pub(super) fn new(
        recipe: &'a Recipe,
        plan: &'a Tasks,
        seed: u64,
        number: usize,
        base: &MachineState,
    ) -> Self {
        let run = &plan.runs[number];
        let stream = STREAMS | number as u64;
        let mut state = base.clone();
        state.redraw(seed, stream);
        let cpus: Vec<Cpu> = recipe.platform.cpus.value.iter().collect();
        let distance = |&from: &Cpu| {
            let to = |&to: &Cpu| recipe.platform.affinity(from, to) as u8;
            cpus.iter().map(to).collect()
        };
        let places = |cluster: usize| -> Vec<usize> {
            run.clusters[cluster].iter().map(|cpu| recipe.place(cpu)).collect()
        };
        let of_clusters: Vec<Vec<usize>> = (0..run.clusters.len()).map(places).collect();
        // The threads of tasks start on the CPUs in turn.
        let first = |(at, cluster): (usize, usize)| {
            let cpus = &of_clusters[cluster];
            cpus[at % cpus.len()]
        };
        let last = run.tasks.iter().map(|task| task.cluster).enumerate().map(first).collect();
        let mut this = Self {
            recipe,
            plan,
            number,
            began: state.now(),
            state,
            draw: DrawStream::new(seed, stream),
            system: SystemData::default(),
            tasks: (0..run.tasks.len())
                .map(|at| TaskRuntime::new(plan.releases(seed, number, at)))
                .collect(),
            homes: Homes { last, distances: cpus.iter().map(distance).collect() },
            clusters: of_clusters.into_iter().map(Cluster::new).collect(),
            releases: BinaryHeap::new(),
            has: vec![None; cpus.len()],
            clocks: vec![NEVER; cpus.len()],
            ends: vec![false; cpus.len()],
            turns: EventQueue::default(),
            stale: false,
            done: Vec::new(),
        };
        (0..run.tasks.len()).for_each(|task| this.expect_release(task));
        this
    }

    fn set(&self) -> &'a TaskRun {
        &self.plan.runs[self.number]
    }

    /// Simulates until the time `until` after the start, or until the run has to end. Returns whether the run has
    /// more to simulate.
    ///
    /// # Errors
    /// Returns [`MachineError`] if the simulated memory is full.
    pub(super) fn advance(&mut self, until: Picos) -> Result<bool, MachineError> {
        let until = self.began + until;
        for number in 0_u64.. {
            let Some((at, event)) = self.next() else { break };
            if at >= until || (number.is_multiple_of(EVENTS) && self.state.is_over()) {
                return Ok(true);
            }
            let done = self.done.len();
            match event {
                TaskEvent::Act(cpu) => self.act(cpu, at),
                TaskEvent::End(_) | TaskEvent::Release(_) => self.change(at)?,
            }
            if self.state.is_cut() {
                self.done.truncate(done);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The records of the jobs that have ended since the last call.
    pub(super) fn take_done(&mut self) -> Vec<TaskJobRecord> {
        std::mem::take(&mut self.done)
    }

    /// The next event, and its time.
    fn next(&mut self) -> Option<(Picos, TaskEvent)> {
        if std::mem::take(&mut self.stale) {
            let busy = (0..self.clocks.len()).filter(|&cpu| self.clocks[cpu] < NEVER);
            self.turns = EventQueue::of(busy.map(|cpu| (self.clocks[cpu], self.number(cpu))));
        }
        let release =
            self.releases.peek().map(|&Reverse((at, task))| (at, TaskEvent::Release(task)));
        let Some((at, number)) = self.turns.first() else { return release };
        let (kind, cpu) = (number / self.clocks.len(), number % self.clocks.len());
        let here = (at, if kind == 0 { TaskEvent::End(cpu) } else { TaskEvent::Act(cpu) });
        Some(release.map_or(here, |release| release.min(here)))
    }

    /// The sort number of a CPU in the event queue: at one instant, jobs that end come first.
    fn number(&self, cpu: usize) -> usize {
        if self.ends[cpu] { cpu } else { self.clocks.len() + cpu }
    }

    /// Processes all job ends and releases at this time, and then assigns the CPUs.
    fn change(&mut self, now: Picos) -> Result<(), MachineError> {
        let mut left = Vec::new();
        while let Some((at, event)) = self.next() {
            match event {
                _ if at > now => break,
                TaskEvent::End(cpu) => {
                    self.end(cpu, now);
                    left.push(cpu);
                }
                TaskEvent::Release(task) => self.release(task, now),
                TaskEvent::Act(_) => break,
            }
        }
        self.dispatch(&left, now)
    }

    /// Schedules the next release of `task`.
    fn expect_release(&mut self, task: usize) {
        if let Some(release) = self.tasks[task].releases.next() {
            self.releases.push(Reverse((self.began + release * NANO, task)));
        }
    }

    fn release(&mut self, task: usize, now: Picos) {
        self.releases.pop();
        self.expect_release(task);
        if self.tasks[task].job.is_some() {
            self.tasks[task].late.push_back(now);
        } else {
            self.tasks[task].queued = now;
            self.begin(task, now);
        }
    }

    /// Makes the job with this release time ready. A late job follows the previous job at once, without queueing
    /// again.
    fn begin(&mut self, task: usize, release: Picos) {
        let planned = &self.set().tasks[task];
        let it = &mut self.tasks[task];
        let (by, since) = match self.plan.scheduler.order() {
            JobPreference::Rank => (u64::from(planned.rank), it.queued),
            JobPreference::Deadline | JobPreference::Fair => {
                (release + planned.deadline.get() * NANO, 0)
            }
        };
        it.job = Some(SimulatedJob::new(it.count, release, planned.wcet.get() * NANO));
        it.count += 1;
        self.clusters[planned.cluster].ready(Urgency { by, since, task });
    }

    /// Ends the job on `cpu`, and makes the task's next job ready if its release time has passed.
    fn end(&mut self, cpu: usize, now: Picos) {
        (self.clocks[cpu], self.stale) = (NEVER, true);
        let Some(task) = self.has[cpu].take() else { return };
        let cluster = self.set().tasks[task].cluster;
        self.clusters[cluster].ended(cpu);
        if let Some(job) = self.tasks[task].job.take() {
            let record = self.record(task, job, now);
            self.done.push(record);
        }
        if let Some(release) = self.tasks[task].late.pop_front() {
            if release == now {
                self.tasks[task].queued = now;
            }
            self.begin(task, release);
        }
    }

    /// Assigns CPUs to the most urgent jobs. A CPU in `left`, whose job has ended, becomes free for best effort if
    /// it gets no job.
    fn dispatch(&mut self, left: &[usize], now: Picos) -> Result<(), MachineError> {
        let [leaving, switching] = footprints(&self.recipe.platform);
        let homes = &self.homes;
        let decided = self.clusters.iter_mut().map(|cluster| cluster.decide(homes));
        let changes = decided.collect::<Vec<_>>().concat();
        for change in &changes {
            if let Some(job) = change.loses.and_then(|task| self.tasks[task].job.as_mut()) {
                job.lose(now, Some(change.gains));
            }
        }
        for change in &changes {
            if change.loses.is_none() && !left.contains(&change.cpu) {
                self.state.occupy(change.cpu, now);
            } else {
                self.state.run_until(now);
            }
            self.state.switch(change.cpu, User::Task(change.gains));
            self.touch_system(change.cpu, switching)?;
            self.seat(change.cpu, change.gains, now)?;
        }
        for &cpu in left {
            if self.has[cpu].is_none() {
                self.state.vacate(cpu, now);
                self.touch_system(cpu, leaving)?;
            }
        }
        Ok(())
    }

    fn touch_system(
        &mut self,
        cpu: usize,
        footprint: Option<corehop_plan::units::Bytes>,
    ) -> Result<(), MachineError> {
        self.system.touch(self.recipe, &mut self.state, &mut self.draw, cpu, footprint)
    }

    /// Starts the job of `task` on `cpu`.
    fn seat(&mut self, cpu: usize, task: usize, now: Picos) -> Result<(), MachineError> {
        let set = &self.set().tasks[task].set;
        let it = &mut self.tasks[task];
        let walker = match it.walker.take() {
            Some(walker) => walker,
            None => self.recipe.set_on(&mut self.state, cpu, set, &mut self.draw)?,
        };
        if let Some(job) = &mut it.job {
            if let Some(picos) = job.away_until(now) {
                let loses = !self.recipe.platform.losses.is_empty();
                let at = if loses { self.draw.unit() } else { 0.0 };
                let share = self.recipe.lost(set.wss, picos, at);
                self.state.lose(walker.memory(), share, &mut self.draw);
            }
            job.gain(cpu, now, walker.visits());
        }
        it.walker = Some(walker);
        self.homes.last[task] = cpu;
        self.has[cpu] = Some(task);
        self.set_clock(cpu, task);
        self.stale = true;
        Ok(())
    }

    /// Sets the time of the next event on `cpu`, which runs the job of `task`.
    fn set_clock(&mut self, cpu: usize, task: usize) {
        let event = self.tasks[task].job.as_ref().and_then(SimulatedJob::event);
        (self.clocks[cpu], self.ends[cpu]) = event.unwrap_or((NEVER, false));
    }

    /// Makes the job on `cpu` visit a line: a line of its pass, or any line to keep its working set warm.
    fn act(&mut self, cpu: usize, now: Picos) {
        let Some(task) = self.has[cpu] else { return };
        let TaskRuntime { walker: Some(walker), job: Some(job), .. } = &mut self.tasks[task] else {
            return;
        };
        let passes = job.passes(now);
        let by = (cpu, User::Task(task));
        if passes && job.is_at_start() {
            walker.restart();
            self.state.begin_walk(by);
        }
        let before = self.state.misses(cpu);
        let mut took = self.state.act_as(by, walker.visit(), walker.manner(), now);
        if !passes {
            took = took.max(KEEP_WARM / walker.visits() as Picos).max(LEAST_PAUSE);
        }
        job.visited(now, took, self.state.misses(cpu) - before);
        self.set_clock(cpu, task);
        if self.clocks[cpu] < NEVER {
            self.turns.instead_of_first(self.clocks[cpu], self.number(cpu));
        } else {
            self.stale = true;
        }
    }

    fn cpu(&self, place: usize) -> Cpu {
        self.recipe.platform.cpus.value.iter().nth(place).unwrap_or_default()
    }

    /// Creates the record of a job that ends now.
    fn record(&self, task: usize, mut job: SimulatedJob, now: Picos) -> TaskJobRecord {
        let course = job.end(now);
        let nanos = |at: Picos| (at - self.began) / NANO;
        let began_ns = nanos(job.began.unwrap_or(now));
        let away = job.away.map(|away| JobAbsence {
            from: self.cpu(away.from),
            to: self.cpu(away.to),
            length_ns: away.picos as f64 / NANO as f64,
            by: away.by,
        });
        let set = &self.set().tasks[task].set;
        let touched = away.filter(|_| job.over.len() == 3).map(|away| JobRecord {
            draw: None,
            exchange: None,
            llc_share: None,
            phase: 0,
            job: 0,
            start_ns: began_ns,
            policy: self.plan.scheduler.to_string(),
            huge_share: if set.page == Page::Base { 0.0 } else { 1.0 },
            touches: job.over.iter().map(|pass| pass.touch(set, |at| self.cpu(at))).collect(),
            leaves: vec![leave(away)],
        });
        TaskJobRecord {
            run: self.number,
            task,
            job: job.number,
            release_ns: nanos(job.release),
            began_ns,
            ended_ns: nanos(now),
            executed_ns: job.executed / NANO,
            course,
            preemptions: job.preemptions,
            migrations: job.migrations,
            away,
            touched,
        }
    }
}

impl TaskRuntime {
    fn new(releases: impl Iterator<Item = u64> + Send + 'static) -> Self {
        Self {
            walker: None,
            releases: Box::new(releases),
            late: VecDeque::new(),
            queued: 0,
            job: None,
            count: 0,
        }
    }
}

fn leave(away: JobAbsence) -> Leave {
    Leave {
        from: away.from,
        to: away.to,
        requested_ns: away.length_ns as u64,
        length_ns: away.length_ns,
        bound_ns: 0.0,
        switch_ns: None,
        preemptor_lines: None,
        load_bytes: None,
        switches: None,
    }
}
