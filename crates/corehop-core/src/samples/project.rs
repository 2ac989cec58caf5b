// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a machine reports to rows.

use super::column::Text;
use super::record::{Cause, JobRecord, Leave, Touch};
use super::row::{AccessTime, PreemptionLength, Sample};
use crate::experiment::{Cell, Job, Plan};
use crate::platform::Platform;
use crate::units::Cpu;
use crate::workload::{Absence, Load, WorkingSet};

/// The largest relative change of the core's speed between two touches that are compared.
///
/// A core that wakes from an idle state runs up to a fifth slower for some microseconds; that is part
/// of what being off the CPU costs. A larger change is another clock rate, or a sibling that has
/// become busy (or idle) in between.
const SPEED_DRIFT: f64 = 0.25;

/// The shortest absence in which a preemptor or a load must have made progress, in nanoseconds: in
/// less the system may not even get to switch to it.
const SHORTEST_PROGRESS_NS: f64 = 200e3;

/// The longest that a line takes a preemptor, in nanoseconds: several times what memory takes, with a
/// page walk and a write-back. One that walked fewer lines had the CPU for a part of the absence only.
const SLOWEST_LINE_NS: f64 = 2_000.0;

/// The same for loads that wait by themselves: for a device, or to the end of a pause between bursts.
const SHORTEST_PROGRESS_OF_WAITING_NS: f64 = 25e6;

/// What all rows of a run share.
#[derive(Debug, Clone)]
pub struct RunContext {
    experiment: Text,
    machine: Text,
    memory_architecture: crate::platform::MemoryArchitecture,
    /// The number of jobs in earlier blocks of the run.
    first_job: u64,
    /// The number of jobs before each phase of the plan.
    before: Vec<u64>,
}

impl RunContext {
    /// The context of `plan` on `platform`, as a block of a run that has had `first_job` jobs.
    pub fn new(plan: &Plan, platform: &Platform, first_job: u64) -> Self {
        let counts = plan.phases.iter().scan(0, |before, phase| {
            let first = *before;
            *before += phase.jobs.len() as u64;
            Some(first)
        });
        Self {
            experiment: plan.experiment.as_str().into(),
            machine: platform.id.as_str().into(),
            memory_architecture: platform.memory_architecture(),
            first_job,
            before: counts.collect(),
        }
    }

    fn job(&self, record: &JobRecord) -> u64 {
        self.first_job
            + self.before.get(record.phase).copied().unwrap_or_default()
            + record.job as u64
    }
}

/// A row as far as it matters to how many more are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The cell it is of.
    pub cell: u64,
    /// Whether it is valid.
    pub valid: bool,
    /// What is to be known precisely, in nanoseconds: a delay, or a time.
    pub value_ns: f64,
    /// What the precision is relative to, in nanoseconds.
    pub scale_ns: f64,
    /// The replicate it belongs to, where that is known.
    pub replicate: Option<u64>,
}

/// A row made of a job's record; `None` where the job's script does not lead to such a row.
pub trait Project: Sized {
    /// The row of `record`, which is of a job of `plan`.
    fn project(context: &RunContext, plan: &Plan, record: &JobRecord) -> Option<Self>;

    /// The row as far as deciding how many more to take needs it.
    fn observation(&self) -> Observation;
}

/// The replicate of a record: that of its phase, or else the draw that the machine names.
fn replicate(plan: &Plan, record: &JobRecord) -> Option<u64> {
    let planned = plan.phases.get(record.phase).and_then(|phase| phase.replicate);
    planned.map(u64::from).or(record.draw)
}

/// The job, its cell and its working set.
fn origin<'a>(plan: &'a Plan, record: &JobRecord) -> Option<(&'a Job, &'a Cell, &'a WorkingSet)> {
    let job = plan.phases.get(record.phase)?.jobs.get(record.job)?;
    let cell = plan.cells.get(job.cell)?;
    Some((job, cell, plan.sets.get(cell.set)?))
}

impl Project for Sample {
    fn observation(&self) -> Observation {
        let value_ns = self.resumed_ns - self.warm_ns;
        Observation {
            cell: self.cell,
            valid: self.valid,
            value_ns,
            scale_ns: self.warm_ns,
            replicate: self.replicate,
        }
    }

    /// Cold, warm and resumed are the job's first, second and last touch.
    fn project(context: &RunContext, plan: &Plan, record: &JobRecord) -> Option<Self> {
        let (job, cell, set) = origin(plan, record)?;
        let [cold, warm, .., resumed] = record.touches.as_slice() else { return None };
        let leave = record.leaves.first();
        let disturbed_by = sample_causes(cell, warm, resumed, leave);
        let usable = |touch: &Touch| touch.certified_ns().unwrap_or(touch.ns);
        Some(Self {
            experiment: context.experiment.clone(),
            machine: context.machine.clone(),
            seed: plan.seed,
            job: context.job(record),
            cell: job.cell as u64,
            wss_bytes: set.wss.get(),
            pattern: set.pattern,
            page: set.page,
            write_ratio: set.write_ratio,
            load: cell.load.word().into(),
            event: cell.event,
            memory_architecture: context.memory_architecture,
            from_cpu: u64::from(warm.cpu.0),
            to_cpu: u64::from(resumed.cpu.0),
            start_ns: record.start_ns,
            requested_length_ns: leave.map_or(0, |leave| leave.requested_ns),
            length_ns: leave.map_or(0.0, |leave| leave.length_ns),
            cold_ns: usable(cold),
            warm_ns: usable(warm),
            resumed_ns: usable(resumed),
            policy: record.policy.as_str().into(),
            cache_state: cell.state,
            chains: u64::from(set.chains),
            polluter: polluter_text(plan, job, cell).map(Into::into),
            preempted_by: cell.absence,
            task: None,
            task_count: None,
            lines: set.lines(),
            lines_certified: warm.lines_certified.min(resumed.lines_certified),
            valid: disturbed_by.is_empty(),
            repaired: repaired(&disturbed_by, &[warm, resumed]),
            repaired_ns: if disturbed_by.is_empty() {
                warm.uncertified_ns + resumed.uncertified_ns
            } else {
                0.0
            },
            disturbed_by,
            certificate: resumed.certificate.max(warm.certificate),
            cold_valid: cold.disturbances().is_empty(),
            preemption_length: length_text(cell, job),
            length_bound_ns: leave.map_or(0.0, |leave| leave.bound_ns),
            mover: plan.mover,
            switch_ns: leave.and_then(|leave| leave.switch_ns),
            preemptor_lines: leave.and_then(|leave| leave.preemptor_lines),
            load_bytes_per_s: leave.and_then(load_rate),
            huge_share: record.huge_share,
            spin_warm_ns: warm.spin_ns,
            spin_resumed_ns: resumed.spin_ns,
            steal_ns: warm.steal_ns + resumed.steal_ns,
            interrupts: warm
                .interrupts
                .zip(resumed.interrupts)
                .map(|(a, b)| u64::from(a) + u64::from(b)),
            misses_warm: warm.misses,
            misses_resumed: resumed.misses,
            sibling_busy: warm.sibling_busy.zip(resumed.sibling_busy).map(|(a, b)| a || b),
            workload: set.workload.as_deref().map(Into::into),
            node: set.node.map(u64::from),
            fresh_frames: Some(set.fresh_frames),
            absence_switches: leave.and_then(|leave| leave.switches).map(u64::from),
            replicate: replicate(plan, record),
            exchange_cpu: record.exchange.map(|exchange| u64::from(exchange.with.0)),
            exchange_ns: record.exchange.and_then(|exchange| exchange.before_ns),
            exchange_after_ns: record.exchange.and_then(|exchange| exchange.after_ns),
            declared_event: Some(cell.event),
            pair_class: None,
            renewed: plan.phases[record.phase].condition.map(|condition| condition.renewed),
            llc_share: record.llc_share,
        })
    }
}

/// What disturbed a sample: its two timed touches, and an absence that was not what it should be.
fn sample_causes(cell: &Cell, warm: &Touch, resumed: &Touch, leave: Option<&Leave>) -> Vec<Cause> {
    let mut causes = [warm.disturbances(), resumed.disturbances()].concat();
    let drift = (resumed.spin_ns / warm.spin_ns - 1.0).abs();
    if drift > SPEED_DRIFT {
        causes.push(Cause::Frequency);
    }
    let idle = |leave: &Leave| match cell.absence {
        Absence::Preemptor => leave
            .preemptor_lines
            .is_some_and(|lines| (lines as f64) < least_walked(leave.length_ns)),
        Absence::Load => leave.load_bytes == Some(0),
        Absence::Nothing => false,
    };
    let shortest = match (cell.absence, &cell.load) {
        (Absence::Load, Load::Dma { .. } | Load::Buslock { .. }) => SHORTEST_PROGRESS_OF_WAITING_NS,
        _ => SHORTEST_PROGRESS_NS,
    };
    if leave.is_some_and(|leave| leave.length_ns > shortest && idle(leave)) {
        causes.push(Cause::LoadAbsent);
    }
    causes.sort_unstable();
    causes.dedup();
    causes
}

/// The lines that a preemptor walks at the very least in an absence of `length_ns`, if it has the CPU.
fn least_walked(length_ns: f64) -> f64 {
    (length_ns / SLOWEST_LINE_NS).max(1.0)
}

/// What was cut out of touches that are usable all the same.
fn repaired(disturbed_by: &[Cause], touches: &[&Touch]) -> Vec<Cause> {
    if !disturbed_by.is_empty() {
        return Vec::new();
    }
    let mut causes: Vec<Cause> = touches.iter().filter_map(|touch| touch.gap_cause()).collect();
    causes.sort_unstable();
    causes.dedup();
    causes
}

fn load_rate(leave: &Leave) -> Option<f64> {
    let seconds = leave.length_ns / 1e9;
    leave.load_bytes.filter(|_| seconds > 0.0).map(|bytes| bytes as f64 / seconds)
}

/// The label of the cell's preemption lengths; `none` where the job stays on its CPU.
fn length_text(cell: &Cell, job: &Job) -> Text {
    let leaves = job.steps.iter().any(|step| matches!(step, crate::experiment::Step::Leave(_)));
    if leaves { cell.length.to_string().into() } else { "none".into() }
}

/// What the preemptor walked, or what the load ran.
fn polluter_text(plan: &Plan, job: &Job, cell: &Cell) -> Option<String> {
    let preemptor = plan.preemptor_of(job).filter(|_| cell.absence == Absence::Preemptor);
    cell.load.runs().or_else(|| preemptor.map(ToString::to_string))
}

impl Project for AccessTime {
    fn observation(&self) -> Observation {
        Observation {
            cell: self.cell,
            valid: self.valid,
            value_ns: self.walk_ns,
            scale_ns: self.walk_ns,
            replicate: self.replicate,
        }
    }

    /// The job's only touch.
    fn project(context: &RunContext, plan: &Plan, record: &JobRecord) -> Option<Self> {
        let (job, cell, set) = origin(plan, record)?;
        let walk = record.touches.last()?;
        let disturbed_by = walk.disturbances();
        let walk_ns = walk.certified_ns().unwrap_or(walk.ns);
        Some(Self {
            machine: context.machine.clone(),
            seed: plan.seed,
            job: context.job(record),
            cell: job.cell as u64,
            wss_bytes: set.wss.get(),
            pattern: set.pattern,
            page: set.page,
            write_ratio: set.write_ratio,
            chains: u64::from(set.chains),
            cache_state: cell.state,
            node: set.node.map(u64::from),
            cpu: u64::from(walk.cpu.0),
            start_ns: record.start_ns,
            walk_ns,
            access_ns: walk_ns / set.lines() as f64,
            policy: record.policy.as_str().into(),
            lines: set.lines(),
            lines_certified: walk.lines_certified,
            valid: disturbed_by.is_empty(),
            repaired: repaired(&disturbed_by, &[walk]),
            disturbed_by,
            certificate: walk.certificate,
            huge_share: record.huge_share,
            replicate: replicate(plan, record),
        })
    }
}

impl Project for PreemptionLength {
    fn observation(&self) -> Observation {
        Observation {
            cell: self.cell,
            valid: true,
            value_ns: self.length_ns,
            scale_ns: self.length_ns,
            replicate: self.replicate,
        }
    }

    /// The job's only absence.
    fn project(context: &RunContext, plan: &Plan, record: &JobRecord) -> Option<Self> {
        let (job, cell, _) = origin(plan, record)?;
        let leave = record.leaves.first()?;
        let Cpu(cpu) = leave.from;
        Some(Self {
            machine: context.machine.clone(),
            seed: plan.seed,
            job: context.job(record),
            cell: job.cell as u64,
            load: cell.load.word().into(),
            cpu: u64::from(cpu),
            start_ns: record.start_ns,
            requested_length_ns: leave.requested_ns,
            length_ns: leave.length_ns,
            policy: record.policy.as_str().into(),
            replicate: replicate(plan, record),
        })
    }
}
