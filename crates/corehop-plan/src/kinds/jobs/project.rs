// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the records of scripted jobs to rows.

use super::rows::{AccessTime, PreemptionLength, Sample};
use super::{Cell, JobRows, Jobs};
use crate::kinds::RowTime;
use crate::kinds::origin::{JobProvenance, RunContext};
use crate::kinds::{
    Cause, JobRecord, Leave, Projection, ProjectionContext, RowObservation, Rows, Touch,
};
use crate::units::{Bytes, Cpu};
use crate::workload::{Absence, Load};

/// The largest relative change of the core's speed between two touches that are compared.
///
/// A core that wakes from an idle state runs up to a fifth slower for some microseconds, which is part
/// of the cost of being off the CPU. A larger change means another clock rate, or an SMT sibling that
/// became busy or idle in between.
const SPEED_DRIFT: f64 = 0.25;

/// The shortest absence in which a preemptor or a load must have made progress, in nanoseconds; in a shorter absence
/// the system may not even switch to the preemptor or the load.
const SHORTEST_PROGRESS_NS: f64 = 200e3;

/// The longest time that a preemptor needs for a line, in nanoseconds: several times the latency of
/// memory, with a page walk and a write-back. A preemptor that walked fewer lines had the CPU for only a
/// part of the absence.
const SLOWEST_LINE_NS: f64 = 2_000.0;

/// The shortest absence in which a waiting load must have made progress, in nanoseconds; a waiting load
/// waits for a device, or for the end of a pause between bursts.
const SHORTEST_PROGRESS_OF_WAITING_NS: f64 = 25e6;

/// Returns the rows of the records of `jobs`, of the kind that the plan states.
pub(super) fn projection<'a>(
    jobs: &'a Jobs,
    at: ProjectionContext<'a>,
) -> Projection<'a, JobRecord> {
    // By phase the number of jobs in the run before it.
    let counts = jobs.phases.iter().scan(at.first, |before, phase| {
        let first = *before;
        *before += phase.jobs.len() as u64;
        Some(first)
    });
    let before: Vec<u64> = counts.collect();
    Box::new(move |records, rows| {
        for record in records {
            let Some(origin) = JobProvenance::of(jobs, record, &before) else { continue };
            let context = &at.context;
            match jobs.rows {
                JobRows::Samples => rows.samples.extend(Sample::of(context, &origin, record)),
                JobRows::AccessTimes => {
                    rows.access_times.extend(AccessTime::of(context, &origin, record));
                }
                JobRows::PreemptionLengths => {
                    rows.preemption_lengths.extend(PreemptionLength::of(context, &origin, record));
                }
            }
        }
    })
}

impl Sample {
    fn observation(&self) -> RowObservation {
        let value_ns = self.resumed_ns - self.warm_ns;
        RowObservation {
            cell: self.cell,
            valid: self.valid,
            measured: true,
            value_ns,
            scale_ns: self.warm_ns,
            replicate: self.replicate,
        }
    }

    /// Returns a sample whose cold, warm and resumed times come from the job's first, second and last
    /// touch, or `None` if the job's script has fewer touches.
    pub(in crate::kinds) fn of(
        context: &RunContext,
        origin: &JobProvenance<'_>,
        record: &JobRecord,
    ) -> Option<Self> {
        let JobProvenance { cell, set, .. } = *origin;
        let [cold, warm, .., resumed] = record.touches.as_slice() else { return None };
        let leave = record.leaves.first();
        let disturbed_by = sample_causes(cell, warm, resumed, leave);
        let usable = |touch: &Touch| touch.certified_ns().unwrap_or(touch.ns);
        Some(Self {
            experiment: context.experiment.clone(),
            machine: context.machine.clone(),
            seed: context.seed,
            job: origin.job,
            cell: origin.number as u64,
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
            polluter: origin.polluter.as_deref().map(Into::into),
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
            preemption_length: origin.length.clone(),
            length_bound_ns: leave.map_or(0.0, |leave| leave.bound_ns),
            mover: origin.mover,
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
            workload: set.job().map(Into::into),
            node: set.node.map(u64::from),
            fresh_frames: Some(set.fresh_frames),
            absence_switches: leave.and_then(|leave| leave.switches).map(u64::from),
            replicate: origin.replicate,
            exchange_cpu: record.exchange.map(|exchange| u64::from(exchange.with.0)),
            exchange_ns: record.exchange.and_then(|exchange| exchange.before_ns),
            exchange_after_ns: record.exchange.and_then(|exchange| exchange.after_ns),
            declared_event: Some(cell.event),
            pair_class: None,
            renewed: origin.renewed,
            llc_share: record.llc_share,
        })
    }
}

/// Returns the causes that disturbed a sample: disturbances of its two timed touches, and of an absence
/// that was not as planned.
fn sample_causes(cell: &Cell, warm: &Touch, resumed: &Touch, leave: Option<&Leave>) -> Vec<Cause> {
    let mut causes = [warm.disturbances(), resumed.disturbances()].concat();
    let drift = (resumed.spin_ns / warm.spin_ns - 1.0).abs();
    if drift > SPEED_DRIFT {
        causes.push(Cause::Frequency);
    }
    if leave.is_some_and(|leave| preemptor_idle(cell, leave) || load_idle(cell, leave)) {
        causes.push(Cause::LoadAbsent);
    }
    causes.sort_unstable();
    causes.dedup();
    causes
}

/// Returns whether the preemptor of the cell had the CPU for only a part of the absence.
fn preemptor_idle(cell: &Cell, leave: &Leave) -> bool {
    let few = |lines| (lines as f64) < least_walked(leave.length_ns);
    cell.absence == Absence::Preemptor
        && leave.length_ns > SHORTEST_PROGRESS_NS
        && leave.preemptor_lines.is_some_and(few)
}

/// Returns whether the load did nothing in an absence in which the load should have run, alone or beside
/// a preemptor.
fn load_idle(cell: &Cell, leave: &Leave) -> bool {
    let shortest = match cell.load {
        Load::Dma { .. } | Load::Buslock { .. } => SHORTEST_PROGRESS_OF_WAITING_NS,
        _ => SHORTEST_PROGRESS_NS,
    };
    cell.absence != Absence::Nothing && leave.length_ns > shortest && leave.load_bytes == Some(0)
}

/// Returns the smallest number of lines that a preemptor walks in an absence of `length_ns` if it has
/// the CPU.
fn least_walked(length_ns: f64) -> f64 {
    (length_ns / SLOWEST_LINE_NS).max(1.0)
}

/// Returns the causes of the disturbed segments that corehop cut out of usable touches.
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

impl AccessTime {
    fn observation(&self) -> RowObservation {
        RowObservation {
            cell: self.cell,
            valid: self.valid,
            measured: true,
            value_ns: self.walk_ns,
            scale_ns: self.walk_ns,
            replicate: self.replicate,
        }
    }

    /// Returns the access time of the job's only touch.
    fn of(context: &RunContext, origin: &JobProvenance<'_>, record: &JobRecord) -> Option<Self> {
        let JobProvenance { cell, set, .. } = *origin;
        let walk = record.touches.last()?;
        let disturbed_by = walk.disturbances();
        let walk_ns = walk.certified_ns().unwrap_or(walk.ns);
        Some(Self {
            machine: context.machine.clone(),
            seed: context.seed,
            job: origin.job,
            cell: origin.number as u64,
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
            replicate: origin.replicate,
        })
    }
}

impl PreemptionLength {
    fn observation(&self) -> RowObservation {
        RowObservation {
            cell: self.cell,
            valid: true,
            measured: true,
            value_ns: self.length_ns,
            scale_ns: self.length_ns,
            replicate: self.replicate,
        }
    }

    /// Returns the preemption length of the job's only absence.
    fn of(context: &RunContext, origin: &JobProvenance<'_>, record: &JobRecord) -> Option<Self> {
        let JobProvenance { cell, .. } = *origin;
        let leave = record.leaves.first()?;
        let Cpu(cpu) = leave.from;
        Some(Self {
            machine: context.machine.clone(),
            seed: context.seed,
            job: origin.job,
            cell: origin.number as u64,
            load: cell.load.word().into(),
            cpu: u64::from(cpu),
            start_ns: record.start_ns,
            requested_length_ns: leave.requested_ns,
            length_ns: leave.length_ns,
            policy: record.policy.as_str().into(),
            replicate: origin.replicate,
        })
    }
}

impl Rows {
    /// Returns the observations that decide how many more samples to take, from the rows of scripted
    /// jobs.
    pub fn observations(&self) -> Vec<RowObservation> {
        let samples = self.samples.iter().map(Sample::observation);
        let access_times = self.access_times.iter().map(AccessTime::observation);
        let lengths = self.preemption_lengths.iter().map(PreemptionLength::observation);
        samples.chain(access_times).chain(lengths).collect()
    }
}

impl AccessTime {
    /// Returns the time of an access, for comparisons.
    pub(super) fn time(&self) -> RowTime {
        let (page, node) = (self.page, self.node.map(|node| format!(", node {node}")));
        let group = format!(
            "time of an access, {page} pages, {}, write ratio {}, {} chains{}",
            self.pattern,
            self.write_ratio,
            self.chains,
            node.unwrap_or_default()
        );
        RowTime {
            experiment: "access-time",
            group,
            place: self.wss_bytes,
            name: format!("{} {}", self.cache_state, Bytes::new(self.wss_bytes)),
            replicate: self.replicate.unwrap_or_default(),
            ns: Ok(self.access_ns),
        }
    }
}

impl PreemptionLength {
    /// Returns the actual preemption length, for comparisons.
    pub(super) fn time(&self) -> RowTime {
        RowTime {
            experiment: "preemption-length",
            group: format!("length of an absence, load {}", self.load),
            place: self.requested_length_ns,
            name: format!("{} us asked", self.requested_length_ns as f64 / 1e3),
            replicate: self.replicate.unwrap_or_default(),
            ns: Ok(self.length_ns),
        }
    }
}
