// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes the scripts of jobs one after the other, on whichever thread has the runner.

mod budget;
mod touch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corehop_plan::experiment::{Absent, Job, Jobs, Step};
use corehop_plan::machine::MachineError;
use corehop_plan::samples::{JobRecord, Leave};
use corehop_plan::stop::Stop;
use corehop_plan::units::Cpu;
use corehop_plan::workload::{Absence, LineState};
use serde_json::{Value, json};

use super::calibrate::TickCalibration;
use super::counters::{HostCounters, Sight};
use super::evict::Eviction;
use super::load::RunningLoad;
use super::offsets::Offsets;
use super::polluter::Preemptor;
use super::seat::ThreadResources;
use super::set::SetState;
use corehop_system::clock::{self, TickClock, Ticks, now, sleep_until};
use corehop_system::thread::{Usage, current_cpu, set_affinity, usage};

/// The interval at which a job with a long absence checks whether the run was stopped.
const LOOK_NS: i64 = 250_000_000;

/// The way in which the wall time of a run was used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WallTimeUse {
    absences_ns: f64,
    touches_ns: f64,
    duty_ns: f64,
    prepare_ns: f64,
    jobs: u64,
}

impl WallTimeUse {
    pub(crate) fn add(&mut self, other: &Self) {
        self.absences_ns += other.absences_ns;
        self.touches_ns += other.touches_ns;
        self.duty_ns += other.duty_ns;
        self.prepare_ns += other.prepare_ns;
        self.jobs += other.jobs;
    }

    /// Describes the use of the wall time. The physical minimum is what no machine can avoid: absences, touches, and
    /// the waits that the duty budget requires.
    pub(crate) fn describe(&self, wall: Duration) -> Value {
        let minimum = self.absences_ns + self.touches_ns + self.duty_ns;
        json!({
            "jobs": self.jobs,
            "wall_ns": wall.as_nanos() as u64,
            "absences_ns": self.absences_ns as u64,
            "touches_ns": self.touches_ns as u64,
            "duty_waits_ns": self.duty_ns as u64,
            "preparations_ns": self.prepare_ns as u64,
            "wall_over_minimum": wall.as_nanos() as f64 / minimum,
        })
    }
}

/// The next action of a thread whose runner cannot continue on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerAction {
    /// Hand the runner to the thread that is parked on this CPU.
    HandTo(Cpu),
    /// Return the runner to the coordinator.
    Done,
}

/// A job that was handed over in the middle of an absence.
#[derive(Debug, Clone, Copy)]
struct MigrationHandover {
    away: Absent,
    from: Cpu,
    left: Ticks,
    resume_at: i64,
    load_bytes: Option<u64>,
    /// The counters of the CPU on which the job resumes, read when it leaves.
    sight: Sight,
}

/// The resources with which a phase begins; the next phase reuses some of them.
#[derive(Debug)]
pub(crate) struct PhaseSetup {
    pub(crate) plan: Jobs,
    pub(crate) phase: usize,
    pub(crate) clock: TickClock,
    pub(crate) started: Instant,
    pub(crate) sets: Vec<SetState>,
    /// The preemptors by CPU, and by their index among the plan's preemptors.
    pub(crate) preemptors: BTreeMap<(Cpu, usize), Preemptor>,
    pub(crate) load: RunningLoad,
    pub(crate) offsets: Offsets,
    pub(crate) calibration: Option<TickCalibration>,
    pub(crate) eviction: Option<Eviction>,
    pub(crate) counters: Arc<HostCounters>,
    /// The share of the last level that a probe measured before the phase.
    pub(crate) llc_share: Option<f64>,
    /// Tells whether the run was stopped.
    pub(crate) stop: Stop,
}

#[cfg(test)]
impl PhaseSetup {
    /// The setup of a plan without jobs, on an idle machine.
    pub(crate) fn without_jobs() -> Self {
        Self {
            plan: Jobs {
                rows: corehop_plan::experiment::JobRows::Samples,
                mover: corehop_plan::workload::Mover::Affinity,
                preemptor: None,
                sets: Vec::new(),
                cells: Vec::new(),
                phases: Vec::new(),
            },
            phase: 0,
            clock: TickClock::of_rate(1.0),
            started: Instant::now(),
            sets: Vec::new(),
            preemptors: BTreeMap::new(),
            load: RunningLoad::idle(),
            offsets: Offsets::default(),
            calibration: None,
            eviction: None,
            counters: Arc::default(),
            llc_share: None,
            stop: Stop::never(),
        }
    }
}

/// The execution state of a phase. One thread at a time has the runner.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(super) setup: PhaseSetup,
    /// Whether the job's absence ended early because the run was stopped.
    is_cut: bool,
    /// The index of the job's preemptor among the plan's preemptors.
    which: Option<usize>,
    /// For each CPU, the busy time in nanoseconds after which the job must give up.
    left: Vec<(Cpu, f64)>,
    /// Whether the job and its preemptor fit into the planned part of the budget.
    roomy: bool,
    /// The CPU that a preemptor had, and when, until the ledger is updated.
    preempted: Option<(Cpu, Ticks, Ticks)>,
    pub(super) jobs: Range<usize>,
    step: usize,
    here: Cpu,
    busy_since: Ticks,
    crossing: Option<MigrationHandover>,
    /// The kernel's counts for this thread when it received the job.
    usage: Usage,
    /// The kernel's counts for the job on threads that have handed it over.
    used: Usage,
    /// The start of the job's awake time that is not yet recorded.
    awake_since: Ticks,
    /// The time that the job has been awake, in nanoseconds.
    awake_ns: f64,
    /// The counters of the first CPU when the job began.
    at_begin: (Cpu, Sight),
    record: JobRecord,
    records: Vec<JobRecord>,
    pub(super) error: Option<MachineError>,
    tally: WallTimeUse,
}

impl Runner {
    /// Begins a phase without any ordered job.
    pub(crate) fn new(setup: PhaseSetup) -> Self {
        Self {
            setup,
            is_cut: false,
            which: None,
            left: Vec::new(),
            roomy: true,
            preempted: None,
            jobs: 0..0,
            step: 0,
            here: Cpu::default(),
            busy_since: 0,
            crossing: None,
            usage: Usage::default(),
            used: Usage::default(),
            awake_since: 0,
            awake_ns: 0.0,
            at_begin: Default::default(),
            record: JobRecord::default(),
            records: Vec::new(),
            error: None,
            tally: WallTimeUse::default(),
        }
    }

    /// Sets the jobs to run next.
    pub(crate) fn order(&mut self, jobs: Range<usize>) {
        self.records.reserve(jobs.len());
        self.jobs = jobs;
        self.step = 0;
    }

    pub(crate) fn take_records(&mut self) -> Vec<JobRecord> {
        std::mem::take(&mut self.records)
    }

    pub(crate) fn take_error(&mut self) -> Option<MachineError> {
        self.error.take()
    }

    /// Returns the parts of the phase for the next phase.
    pub(crate) fn into_setup(self: Box<Self>) -> PhaseSetup {
        self.setup
    }

    pub(crate) const fn load(&self) -> &RunningLoad {
        &self.setup.load
    }

    pub(crate) const fn tally(&self) -> &WallTimeUse {
        &self.tally
    }

    pub(crate) fn describe_calibration(&self) -> Value {
        let calibration =
            self.setup.calibration.map_or(Value::Null, |it| it.describe(&self.setup.clock));
        let stamps: Vec<f64> = self
            .setup
            .sets
            .iter()
            .map(|set| set.stamps.unwrap_or_default().per_chunk / self.setup.clock.hertz() * 1e9)
            .collect();
        json!({"walk": calibration, "stamp_ns_per_chunk_by_set": stamps})
    }

    /// The expected time of `job`, including the waits of the duty budget.
    pub(crate) fn expected_ns(&self, job: &Job) -> f64 {
        let busy = self.need_ns(job);
        let away: f64 = job
            .steps
            .iter()
            .map(|step| if let Step::Leave(away) = step { away.length.get() as f64 } else { 0.0 })
            .sum();
        (busy * 2.0).max(busy + away)
    }

    fn job(&self) -> &Job {
        &self.setup.plan.phases[self.setup.phase].jobs[self.jobs.start]
    }

    fn set(&mut self) -> &mut SetState {
        let index = self.setup.plan.cells[self.job().cell].set;
        &mut self.setup.sets[index]
    }

    /// Executes the orders as far as this thread can.
    pub(crate) fn go_on(&mut self, seat: &mut ThreadResources) -> RunnerAction {
        if self.crossing.is_none() {
            // Awake from here on, whatever it does first.
            self.here = current_cpu();
            self.busy_since = now();
            self.awake_since = self.busy_since;
        }
        match self.advance(seat) {
            Ok(next) => {
                if self.crossing.is_none() {
                    self.enter();
                }
                next
            }
            Err(error) => self.give_up(error),
        }
    }

    /// Stops because of an error; recorded samples are kept.
    pub(crate) fn give_up(&mut self, error: MachineError) -> RunnerAction {
        self.error = Some(error);
        self.leave_off()
    }

    /// Stops because the run was stopped.
    fn leave_off(&mut self) -> RunnerAction {
        self.jobs = self.jobs.end..self.jobs.end;
        self.crossing = None;
        RunnerAction::Done
    }

    fn advance(&mut self, seat: &mut ThreadResources) -> Result<RunnerAction, MachineError> {
        self.calibrate().map_err(|error| super::failed("calibrating", error))?;
        if let Some(crossing) = self.crossing.take() {
            self.usage = usage();
            self.arrive(&crossing, now());
        }
        while !self.jobs.is_empty() {
            if self.step == 0 {
                if self.setup.stop.is_asked() {
                    return Ok(self.leave_off());
                }
                let start = self.job().start;
                if seat.parked && current_cpu() != start {
                    return Ok(RunnerAction::HandTo(start));
                }
                self.begin(seat, start)?;
            }
            while let Some(step) = self.job().steps.get(self.step).cloned() {
                if self.is_cut {
                    return Ok(self.leave_off());
                }
                self.step += 1;
                match step {
                    Step::Prepare(state) => self.prepare(seat, state),
                    Step::Passes(passes) => self.pass(seat, passes),
                    Step::Touch => self.touch(seat),
                    Step::Leave(away) => {
                        if let Some(next) = self.leave(seat, away)? {
                            return Ok(next);
                        }
                    }
                }
            }
            self.finish();
        }
        Ok(RunnerAction::Done)
    }

    /// Moves to the job's first CPU, waits until the duty budget allows the job, and sets its policy.
    fn begin(&mut self, seat: &mut ThreadResources, start: Cpu) -> Result<(), MachineError> {
        // What the thread has done since the job before counts for the CPU on which it did it.
        self.enter();
        if !seat.parked {
            move_to(start)?;
        }
        self.here = start;
        self.which = self.setup.plan.which_preemptor(self.job());
        let policy = if self.is_long() { seat.ordinary } else { seat.best };
        seat.change_to(policy).map_err(|error| super::failed("changing the policy", error))?;
        self.renew()?;
        self.wait_for_job();
        let huge_share = self.set().huge_share;
        self.record = JobRecord {
            phase: self.setup.phase,
            job: self.jobs.start,
            // Without replicates in the plan all of it is one.
            draw: Some(0),
            exchange: None,
            llc_share: self.setup.llc_share,
            start_ns: self.setup.started.elapsed().as_nanos() as u64,
            policy: policy.to_string(),
            huge_share,
            touches: Vec::with_capacity(self.job().steps.len()),
            leaves: Vec::with_capacity(1),
        };
        self.at_begin = (start, self.setup.counters.look(start, None));
        self.used = Usage::default();
        self.awake_ns = 0.0;
        self.usage = usage();
        self.awake_since = now();
        Ok(())
    }

    fn finish(&mut self) {
        self.enter();
        self.blame();
        self.records.push(std::mem::take(&mut self.record));
        self.tally.jobs += 1;
        self.jobs.start += 1;
        self.step = 0;
    }

    fn prepare(&mut self, seat: &ThreadResources, state: LineState) {
        if now() >= self.deadline(seat) {
            // The touch that follows is given up as well.
            return;
        }
        let (begin, waited) = (now(), self.tally.duty_ns);
        match state {
            LineState::Invalid => self.set().memory.flush(),
            LineState::Valid => {
                let (clock, deadline) = (self.setup.clock, self.deadline(seat));
                self.set().settle(&clock, deadline);
                self.tally.touches_ns += self.setup.clock.between(begin, now());
                return;
            }
            LineState::Modified => self.fill_with_modified(),
        }
        let rested = self.tally.duty_ns - waited;
        self.tally.prepare_ns += self.setup.clock.between(begin, now()) - rested;
    }

    /// Walks `passes` times like a touch, without timing.
    fn pass(&mut self, seat: &ThreadResources, passes: u32) {
        let begin = now();
        let (clock, deadline) = (self.setup.clock, self.deadline(seat));
        self.set().pass(passes, &clock, deadline);
        self.tally.touches_ns += self.setup.clock.between(begin, now());
    }

    /// Leaves the CPU for the length of an absence. If a thread is parked on the target CPU, the runner is handed over
    /// in the middle of the absence.
    fn leave(
        &mut self,
        seat: &ThreadResources,
        away: Absent,
    ) -> Result<Option<RunnerAction>, MachineError> {
        let handed_over = away.to != self.here && seat.parked;
        if handed_over {
            self.used = self.used.plus(usage().since(self.usage));
        }
        let load_bytes = self.setup.load.bytes();
        let preemptor_lines = self.preemptor(away).map(Preemptor::lines);
        let length = away.length.get();
        let left = now();
        let resume_at = clock::read(libc::CLOCK_MONOTONIC) + length.cast_signed();
        self.was_busy(left);
        let sight = self.setup.counters.look(away.to, None);
        let crossing =
            MigrationHandover { away, from: self.here, left, resume_at, load_bytes, sight };
        if handed_over {
            self.crossing = Some(crossing);
            return Ok(Some(RunnerAction::HandTo(away.to)));
        }
        if let Some(preemptor) = self.preemptor(away) {
            preemptor.go(left + self.setup.clock.ticks(length as f64));
        }
        if away.to != self.here {
            move_to(away.to)?;
        }
        self.arrive(&crossing, now());
        let ran = self.preemptor(away).map(Preemptor::lines);
        if let (Some(leave), Some(ran), Some(before)) =
            (self.record.leaves.last_mut(), ran, preemptor_lines)
        {
            leave.preemptor_lines = Some(ran - before);
        }
        Ok(None)
    }

    fn preemptor(&self, away: Absent) -> Option<&Preemptor> {
        let wanted = away.to_whom == Absence::Preemptor;
        let which = self.which.filter(|_| wanted)?;
        self.setup
            .preemptors
            .get(&(self.here, which))
            .filter(|preemptor| preemptor.cpu == self.here)
    }

    /// Sleeps until the given time, in intervals short enough that a stop does not have to wait.
    fn rest_until(&mut self, resume_at: i64) {
        while resume_at - clock::read(libc::CLOCK_MONOTONIC) > 2 * LOOK_NS && !self.is_cut {
            sleep_until(clock::read(libc::CLOCK_MONOTONIC) + LOOK_NS);
            self.is_cut = self.setup.stop.is_asked();
        }
        if !self.is_cut {
            sleep_until(resume_at);
        }
    }

    /// Sleeps for the rest of an absence on the CPU on which the job resumes; the stamp `on_cpu` was taken on
    /// arrival.
    fn arrive(&mut self, crossing: &MigrationHandover, on_cpu: Ticks) {
        let MigrationHandover { away, from, left, resume_at, load_bytes, sight } = *crossing;
        self.rest_until(resume_at);
        let resumed = now();
        let seen = self.setup.counters.between(&sight, &self.setup.counters.look(away.to, None));
        if let Some(preemptor) = self.preemptor(away) {
            preemptor.stop();
            self.was_preempted(from, left, resumed);
        }
        let moved = away.to != from;
        let to = away.to;
        let (switch_ns, _) =
            self.setup.offsets.between(&self.setup.clock, (from, left), (to, on_cpu));
        let (length_ns, bound_ns) =
            self.setup.offsets.between(&self.setup.clock, (from, left), (to, resumed));
        self.record.leaves.push(Leave {
            from,
            to,
            requested_ns: away.length.get(),
            length_ns,
            bound_ns,
            switch_ns: moved.then_some(switch_ns),
            preemptor_lines: None,
            load_bytes: self
                .setup
                .load
                .bytes()
                .zip(load_bytes)
                .map(|(after, before)| after - before),
            switches: seen.switches,
        });
        self.tally.absences_ns += away.length.get() as f64;
        self.here = to;
        (self.busy_since, self.awake_since) = (resumed, resumed);
        self.replenish();
    }
}

fn move_to(cpu: Cpu) -> Result<(), MachineError> {
    set_affinity([cpu]).map_err(|error| MachineError::Failed {
        what: format!("moving to {cpu}"),
        why: format!(
            "{error}: the CPU went offline, or left this process's cpuset; see `corehop sim platform`"
        ),
    })
}
