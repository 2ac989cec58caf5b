// SPDX-License-Identifier: MIT OR Apache-2.0
//! Projects the records of a machine to rows.

use super::count::By;
use super::gang::GangRecord;
use super::observed::ProgramRecord;
use super::origin::{Observation, Origin, RunContext};
use super::overhead::OverheadRecord;
use super::record::{Cause, JobRecord, Leave, Touch};
use super::row::{
    AccessTime, PreemptionLength, RecordedAbsence, RecordedRun, RecordedThread, Sample, SharedData,
    SwitchBatch,
};
use super::supply::SupplyRecord;
use super::switch::SwitchRecord;
use super::table::{RowKind, Rows};
use super::task_job::{TaskJobRecord, TaskRows};
use crate::experiment::{
    Body, Cell, Gangs, JobRows, Jobs, Overheads, Plan, Program, Switches, Tasks, Watch,
};
use crate::kinds::for_each_kind;
use crate::platform::Platform;
use crate::units::Cpu;
use crate::workload::{Absence, Load};

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

/// The way from the records of a kind to rows.
pub(super) trait ToRows {
    /// The records that a machine hands over.
    type Record;

    /// The kinds of rows that they become; the first is what `-o FILE` names.
    fn row_kinds(&self) -> &'static [RowKind];

    /// The rows of some records.
    fn to_rows(&self, records: &[Self::Record], at: &mut Place<'_>, rows: &mut Rows);

    /// The way in which rows are counted, where an experiment counts so many units.
    fn counted(&self, units: u64) -> By;
}

/// The place of a plan's records in a run, and how far they have come.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    context: RunContext,
    platform: &'a Platform,
    of_tasks: Option<TaskRows<'a>>,
    /// By phase the number of jobs in the run before it; empty for a plan without phases.
    before: Vec<u64>,
    /// The number of jobs, or runs of a program, before the first of the plan.
    first_job: u64,
    /// The number of jobs of task sets before the next.
    jobs: u64,
    /// The run of a program that is under way.
    run: usize,
}

macro_rules! projected {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty, $record:ty;)+) => {
        /// Some records of a plan, as a machine hands them over.
        #[derive(Debug, Clone, Copy)]
        pub enum Batch<'a> {
            $(
                #[doc = concat!("Of ", $what, ".")]
                $kind(&'a [$record])
            ),+
        }

        impl Plan {
            /// The kinds of rows that its records become; the first is what `-o FILE` names.
            pub fn kinds(&self) -> &'static [RowKind] {
                match &self.body { $(Body::$kind(body) => body.row_kinds()),+ }
            }

            /// The way in which its rows are counted.
            pub(super) fn counted(&self, units: u64) -> By {
                match &self.body { $(Body::$kind(body) => body.counted(units)),+ }
            }
        }

        impl Projector<'_> {
            /// The rows of some records; none of records that are not of such a plan.
            pub fn rows(&mut self, batch: Batch<'_>) -> Rows {
                let mut rows = Rows::default();
                match (batch, &self.plan.body) {
                    $((Batch::$kind(records), Body::$kind(body)) => {
                        body.to_rows(records, &mut self.place, &mut rows);
                    })+
                    _ => {}
                }
                rows
            }
        }
    };
}

for_each_kind!(projected);

/// Makes rows of the records of a plan.
#[derive(Debug, Clone)]
pub struct Projector<'a> {
    plan: &'a Plan,
    place: Place<'a>,
}

impl<'a> Projector<'a> {
    /// For the records of `plan` on `platform`, a block of a run that has had `first_job` jobs.
    pub fn new(plan: &'a Plan, platform: &'a Platform, first_job: u64) -> Self {
        let context = RunContext::new(plan, platform);
        let of_tasks = plan.tasks().map(|tasks| TaskRows::new(tasks, platform, context.clone()));
        let phases = plan.jobs().map_or(&[][..], |jobs| &jobs.phases);
        let counts = phases.iter().scan(first_job, |before, phase| {
            let first = *before;
            *before += phase.jobs.len() as u64;
            Some(first)
        });
        let before = counts.collect();
        let place =
            Place { context, platform, of_tasks, before, first_job, jobs: first_job, run: 0 };
        Self { plan, place }
    }
}

impl ToRows for Jobs {
    type Record = JobRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        match self.rows {
            JobRows::Samples => &[RowKind::Samples],
            JobRows::AccessTimes => &[RowKind::AccessTimes],
            JobRows::PreemptionLengths => &[RowKind::PreemptionLengths],
        }
    }

    fn to_rows(&self, records: &[JobRecord], at: &mut Place<'_>, rows: &mut Rows) {
        for record in records {
            let Some(origin) = Origin::of(self, record, &at.before) else { continue };
            let context = &at.context;
            match self.rows {
                JobRows::Samples => rows.samples.extend(Sample::of(context, &origin, record)),
                JobRows::AccessTimes => {
                    rows.access_times.extend(AccessTime::of(context, &origin, record));
                }
                JobRows::PreemptionLengths => {
                    rows.preemption_lengths.extend(PreemptionLength::of(context, &origin, record));
                }
            }
        }
    }

    fn counted(&self, _: u64) -> By {
        By::Job
    }
}

impl ToRows for Tasks {
    type Record = TaskJobRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Samples, RowKind::TaskJobs]
    }

    fn to_rows(&self, records: &[TaskJobRecord], at: &mut Place<'_>, rows: &mut Rows) {
        let Some(of_tasks) = &at.of_tasks else { return };
        for record in records {
            rows.samples.extend(of_tasks.sample(record, at.jobs));
            rows.task_jobs.push(of_tasks.job(record));
            at.jobs += 1;
        }
    }

    fn counted(&self, units: u64) -> By {
        By::TaskRun { planned: units, under_way: None }
    }
}

impl ToRows for Gangs {
    type Record = GangRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::SharedData]
    }

    fn to_rows(&self, records: &[GangRecord], at: &mut Place<'_>, rows: &mut Rows) {
        let of = |record| SharedData::of(self, at.context.seed, at.platform, record);
        rows.shared_data.extend(records.iter().flat_map(of));
    }

    fn counted(&self, _: u64) -> By {
        By::GangRun
    }
}

impl ToRows for Program {
    type Record = ProgramRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &RowKind::OF_RECORDING
    }

    fn to_rows(&self, records: &[ProgramRecord], at: &mut Place<'_>, rows: &mut Rows) {
        let (platform, seed) = (at.platform, at.context.seed);
        for record in records {
            let run = at.first_job + at.run as u64;
            match record {
                ProgramRecord::Begin(run) => at.run = *run,
                ProgramRecord::Absence(it) => {
                    rows.absences.push(RecordedAbsence::of(platform, seed, run, it));
                }
                ProgramRecord::Thread(it) => {
                    rows.threads.push(RecordedThread::of(platform, seed, run, it));
                }
                ProgramRecord::End(it) => {
                    let (arm, block) = self.place(at.run);
                    rows.runs.push(RecordedRun::of(platform, seed, (run, arm, block), it));
                }
            }
        }
    }

    fn counted(&self, _: u64) -> By {
        if self.arms.is_empty() {
            return By::Plan;
        }
        By::ProgramRun(self.arms.iter().map(|arm| arm.name.clone()).collect())
    }
}

impl ToRows for Overheads {
    type Record = OverheadRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Overheads]
    }

    fn to_rows(&self, records: &[OverheadRecord], at: &mut Place<'_>, rows: &mut Rows) {
        for record in records {
            rows.overheads.extend(record.rows(at.platform, at.context.seed));
        }
    }

    fn counted(&self, _: u64) -> By {
        By::Plan
    }
}

impl ToRows for Switches {
    type Record = SwitchRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Switches]
    }

    fn to_rows(&self, records: &[SwitchRecord], at: &mut Place<'_>, rows: &mut Rows) {
        let of = |it| SwitchBatch::of(&at.context, self, at.first_job, it);
        rows.switches.extend(records.iter().filter_map(of));
    }

    fn counted(&self, _: u64) -> By {
        By::SwitchBatch
    }
}

impl ToRows for Watch {
    type Record = SupplyRecord;

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Supply]
    }

    fn to_rows(&self, records: &[SupplyRecord], at: &mut Place<'_>, rows: &mut Rows) {
        for record in records {
            rows.supply.extend(record.rows(&at.context, self, at.first_job));
        }
    }

    fn counted(&self, _: u64) -> By {
        By::SupplyWindow(self.cpus.iter().map(|cpu| u64::from(cpu.0)).collect())
    }
}

impl Sample {
    fn observation(&self) -> Observation {
        let value_ns = self.resumed_ns - self.warm_ns;
        Observation {
            cell: self.cell,
            valid: self.valid,
            measured: true,
            value_ns,
            scale_ns: self.warm_ns,
            replicate: self.replicate,
        }
    }

    /// Cold, warm and resumed are the job's first, second and last touch; no row where its script does
    /// not lead to such.
    pub(super) fn of(
        context: &RunContext,
        origin: &Origin<'_>,
        record: &JobRecord,
    ) -> Option<Self> {
        let Origin { cell, set, .. } = *origin;
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

/// The causes that disturbed a sample: those of its two timed touches, and of an absence that was not as
/// planned.
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

/// The causes that were cut out of touches that remain usable.
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
    fn observation(&self) -> Observation {
        Observation {
            cell: self.cell,
            valid: self.valid,
            measured: true,
            value_ns: self.walk_ns,
            scale_ns: self.walk_ns,
            replicate: self.replicate,
        }
    }

    /// The job's only touch.
    fn of(context: &RunContext, origin: &Origin<'_>, record: &JobRecord) -> Option<Self> {
        let Origin { cell, set, .. } = *origin;
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
    fn observation(&self) -> Observation {
        Observation {
            cell: self.cell,
            valid: true,
            measured: true,
            value_ns: self.length_ns,
            scale_ns: self.length_ns,
            replicate: self.replicate,
        }
    }

    /// The job's only absence.
    fn of(context: &RunContext, origin: &Origin<'_>, record: &JobRecord) -> Option<Self> {
        let Origin { cell, .. } = *origin;
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
    /// The values that decide how many more samples to take, from the rows of scripted jobs.
    pub fn observations(&self) -> Vec<Observation> {
        let samples = self.samples.iter().map(Sample::observation);
        let access_times = self.access_times.iter().map(AccessTime::observation);
        let lengths = self.preemption_lengths.iter().map(PreemptionLength::observation);
        samples.chain(access_times).chain(lengths).collect()
    }
}
