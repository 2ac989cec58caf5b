// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of scripted jobs on working sets, in phases that each have one background load.

mod cell;
mod condition;
mod length;
mod project;
mod record;
mod rows;

pub use cell::{Cell, names};
pub use condition::{Condition, Renewed};
pub use length::Length;
pub use record::{BatchExchange, Cause, Certificate, JobRecord, Leave, REPAIRABLE, Touch};
pub use rows::{AccessTime, PreemptionLength, Sample};

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit,
};
use crate::platform::{Affinity, Platform};
use crate::units::{Cpu, Nanos};
use crate::workload::{
    Absence, ChangingError, Event, LineState, Load, Mover, Polluter, WorkingSet, WorkloadError,
};

/// A plan of scripted jobs on working sets, in phases that each have one background load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Jobs {
    /// The kind of rows that the plan's jobs produce.
    #[serde(default, skip_serializing_if = "JobRows::are_samples")]
    pub rows: JobRows,
    /// The way in which a job moves to another CPU.
    #[serde(default = "by_affinity")]
    pub mover: Mover,
    /// The walk of the preemptor, or `None` if no preemptor preempts a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<Polluter>,
    /// The working sets to which cells refer by index.
    pub sets: Vec<WorkingSet>,
    /// The cells to which the samples of the jobs belong.
    pub cells: Vec<Cell>,
    /// The jobs, grouped by the load under which they run.
    pub phases: Vec<Phase>,
}

/// The kind of rows that scripted jobs produce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobRows {
    /// Rows with the cold, warm and resumed touch of each job.
    #[default]
    Samples,
    /// Rows with the only touch of each job.
    AccessTimes,
    /// Rows with the only absence of each job.
    PreemptionLengths,
}

impl JobRows {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    const fn are_samples(&self) -> bool {
        matches!(self, Self::Samples)
    }
}

const fn by_affinity() -> Mover {
    Mover::Affinity
}

/// Jobs that run one after the other under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The replicate of the run, counted from 0. If the previous phase has another replicate, the machine draws anew
    /// what a process draws when it starts. A process draws the page frames of job, preemptors, polluters and eviction
    /// buffer, the order of the accesses, and the threads. If the number of the replicate is `None`, the machine
    /// decides when to draw anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<u32>,
    /// The draws with which the phase runs, if its replicate keeps some draws of earlier replicates. If
    /// the condition is `None`, the machine draws everything anew in each replicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The background load of the phase.
    pub load: Load,
    /// The jobs of the phase, in order.
    pub jobs: Vec<Job>,
}

/// A scripted job, as in Fig. 1 of Bastoni et al.; corehop times every touch of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The index of the cell to which the job's samples belong.
    pub cell: usize,
    /// The CPU on which the job starts.
    pub start: Cpu,
    /// The steps of the job, in order.
    pub steps: Vec<Step>,
}

/// A step of a scripted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The job puts the lines of its working set into a cache state, without timing.
    Prepare(LineState),
    /// The job accesses its working set once, in the order of the set, and corehop times the access.
    Touch,
    /// The job accesses its working set this many times, each time in the order of the set, without
    /// timing.
    Passes(u32),
    /// The job leaves the CPU and later resumes.
    Leave(Absent),
}

/// An absence of a job from its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// The CPU on which the job resumes.
    pub to: Cpu,
    /// The length of the job's absence.
    pub length: Nanos,
    /// The occupant of the CPU during the absence.
    pub to_whom: Absence,
}

/// The reason why a plan of jobs cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JobsError {
    /// A job refers by index to a thing that the plan does not have.
    #[error("phase {phase}, job {job}: {what} {index} does not exist (there are {count})")]
    Index {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
        /// The kind of thing to which the index refers.
        what: &'static str,
        /// The index that the job uses.
        index: usize,
        /// The number of things of this kind that the plan has.
        count: usize,
    },
    /// A job names a CPU that the platform lacks or that corehop may not use.
    #[error(
        "phase {phase}, job {job}: {cpu} is not among the usable CPUs of {platform} ({usable})"
    )]
    Cpu {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
        /// The CPU that the job names.
        cpu: Cpu,
        /// The name of the platform that lacks the CPU.
        platform: String,
        /// The usable CPUs of the platform.
        usable: String,
    },
    /// A job cannot touch a working set as described.
    #[error("working set {set}: {error}")]
    Workload {
        /// The index of the working set.
        set: usize,
        /// The error in the working set.
        error: WorkloadError,
    },
    /// The programs of a load cannot change their working sets as described.
    #[error("phase {phase}: {error}")]
    Changing {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The error in the description of the load's program.
        error: ChangingError,
    },
    /// The plan has no jobs, or a job that does nothing.
    #[error("{0}: such a plan measures nothing")]
    Nothing(String),
    /// The steps of a job do not make the event of the job's cell.
    #[error(
        "phase {phase}, job {job}: the cell says {event}, but the steps are {found}: change one of the two"
    )]
    Event {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
        /// The event that the cell states.
        event: Event,
        /// The event that the job's steps make.
        found: String,
    },
    /// A job leaves its CPU to a preemptor, but the plan describes no preemptor.
    #[error(
        "phase {phase}, job {job}: the job leaves its CPU to a preemptor, but the plan describes no preemptor: add `preemptor`"
    )]
    NoPreemptor {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
    },
    /// A job's cell states a preemption, but no other thread takes the job's CPU.
    #[error(
        "phase {phase}, job {job}: the cell says preemption, but no thread takes the CPU, because the load `{load}` waits for its device or its locks and evicts almost nothing: change `to_whom` and the cell's `absence` to `preemptor`, or the cell's event to idle_leave"
    )]
    NothingPreempts {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
        /// The word for the load that the phase has.
        load: &'static str,
    },
    /// A load would have to run on the CPU of the job or of its preemptor.
    #[error(
        "phase {phase}, job {job}: the load `{load}` has only {cpu}, which the preemptor takes, so nothing runs beside the preemption: let the load run on another CPU (`--load-cpus`), or omit the load (`--load idle`)"
    )]
    NothingBeside {
        /// The number of the phase that has the error, counted from 0.
        phase: usize,
        /// The job in its phase, counted from 0.
        job: usize,
        /// The word for the load that the phase has.
        load: &'static str,
        /// The only CPU of the load.
        cpu: Cpu,
    },
}

impl Phase {
    /// Returns the draws with which the phase runs, or `None` if the machine decides.
    pub fn draws(&self) -> Option<Condition> {
        self.condition.or(self.replicate.map(Condition::whole))
    }
}

impl Jobs {
    /// The largest number of jobs in one plan; corehop runs a longer experiment in blocks.
    pub const MOST_JOBS: u64 = 1_000_000;

    /// Returns the walk of this job's preemptor: the walk that the job's cell states, or else the plan's.
    pub fn preemptor_of(&self, job: &Job) -> Option<&Polluter> {
        let own = self.cells.get(job.cell).and_then(|cell| cell.preemptor.as_ref());
        own.or(self.preemptor.as_ref())
    }

    /// Returns the different walks of all preemptors; the plan's own walk comes first.
    pub fn preemptors(&self) -> Vec<&Polluter> {
        let mut all: Vec<&Polluter> = Vec::new();
        let of_cells = self.cells.iter().filter_map(|cell| cell.preemptor.as_ref());
        for polluter in self.preemptor.iter().chain(of_cells) {
            if !all.contains(&polluter) {
                all.push(polluter);
            }
        }
        all
    }

    /// Returns the index of a job's preemptor in [`Jobs::preemptors`].
    pub fn which_preemptor(&self, job: &Job) -> Option<usize> {
        let own = self.preemptor_of(job)?;
        self.preemptors().iter().position(|&it| it == own)
    }

    /// Returns the number of jobs in all phases.
    pub fn count(&self) -> usize {
        self.phases.iter().map(|phase| phase.jobs.len()).sum()
    }

    /// Returns the number of different replicates among the phases, or `None` if a phase names no
    /// replicate.
    pub fn replicates(&self) -> Option<usize> {
        let mut numbers: Vec<u32> =
            self.phases.iter().map(|phase| phase.replicate).collect::<Option<_>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Some(numbers.len())
    }

    /// Returns the sum of all preemption lengths, which is the part of the wall time that no machine can
    /// shorten.
    pub fn absences(&self) -> Nanos {
        let steps = self.phases.iter().flat_map(|phase| &phase.jobs).flat_map(|job| &job.steps);
        let away = |step: &Step| if let Step::Leave(away) = step { away.length.get() } else { 0 };
        Nanos::new(steps.map(away).fold(0, u64::saturating_add))
    }

    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`JobsError`] for the first part of the plan that does not fit the platform.
    pub fn check(&self, platform: &Platform) -> Result<(), JobsError> {
        for (set, working_set) in self.sets.iter().enumerate() {
            working_set.check().map_err(|error| JobsError::Workload { set, error })?;
        }
        for (phase, jobs) in self.phases.iter().enumerate() {
            if let Load::Changing { program, .. } = &jobs.load {
                program.check().map_err(|error| JobsError::Changing { phase, error })?;
            }
            for (job, it) in jobs.jobs.iter().enumerate() {
                self.check_job(platform, phase, job, it)?;
                self.check_event(platform, phase, job, it)?;
                self.check_company((platform, &jobs.load), phase, job, it)?;
            }
        }
        Ok(())
    }

    /// Returns a rough estimate of the plan's run time; see [`Cell::projected`].
    pub fn projected(&self) -> Nanos {
        let of_job = |job: &Job| {
            let cell = self.cells.get(job.cell)?;
            Some(cell.projected(self.sets.get(cell.set)?).get())
        };
        let jobs = self.phases.iter().flat_map(|phase| &phase.jobs);
        Nanos::new(jobs.filter_map(of_job).fold(0, u64::saturating_add))
    }

    /// Checks that the steps of a job make the event that the job's cell states.
    fn check_event(
        &self,
        platform: &Platform,
        phase: usize,
        job: usize,
        it: &Job,
    ) -> Result<(), JobsError> {
        if !it.steps.iter().any(|step| !matches!(step, Step::Prepare(_) | Step::Passes(_))) {
            return Err(JobsError::Nothing(format!(
                "phase {phase}, job {job} neither touches its working set nor leaves its CPU"
            )));
        }
        let event = self.cells[it.cell].event;
        let mismatch = |found| Err(JobsError::Event { phase, job, event, found });
        let mut here = it.start;
        let mut leaves = 0;
        for step in &it.steps {
            let Step::Leave(away) = step else { continue };
            leaves += 1;
            let class = platform.affinity(here, away.to);
            let fits = match class {
                Affinity::SameCpu => matches!(event, Event::IdleLeave | Event::Preemption),
                _ => event.word() == class.event(),
            };
            if !fits {
                let found = format!("an absence from {here} to {} ({})", away.to, class.event());
                return mismatch(found);
            }
            here = away.to;
        }
        let stays = matches!(event, Event::None | Event::Flush);
        match leaves {
            0 if !stays => mismatch("touches only, without an absence".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks that another thread has the CPU of a preempted job during its absence, and that a load
    /// beside that thread can run.
    fn check_company(
        &self,
        (platform, load): (&Platform, &Load),
        phase: usize,
        job: usize,
        it: &Job,
    ) -> Result<(), JobsError> {
        let event = self.cells[it.cell].event;
        let word = load.word();
        // How long an absence lasts beside a load is a question of its own.
        let preempts = self.rows == JobRows::Samples && event == Event::Preemption;
        let waits = *load != Load::Idle && load.absence() == Absence::Preemptor;
        let mut here = it.start;
        for step in &it.steps {
            let Step::Leave(away) = step else { continue };
            match away.to_whom {
                Absence::Load if preempts && waits => {
                    return Err(JobsError::NothingPreempts { phase, job, load: word });
                }
                Absence::Preemptor if load.only_cpu(platform) == Some(here) => {
                    return Err(JobsError::NothingBeside { phase, job, load: word, cpu: here });
                }
                _ => here = away.to,
            }
        }
        Ok(())
    }

    fn check_job(
        &self,
        platform: &Platform,
        phase: usize,
        job: usize,
        it: &Job,
    ) -> Result<(), JobsError> {
        let missing = |what, index, count| Err(JobsError::Index { phase, job, what, index, count });
        let Some(cell) = self.cells.get(it.cell) else {
            return missing("cell", it.cell, self.cells.len());
        };
        if cell.set >= self.sets.len() {
            return missing("working set", cell.set, self.sets.len());
        }
        let leaves = it.steps.iter().filter_map(|step| match step {
            Step::Leave(away) => Some(away),
            _ => None,
        });
        if self.preemptor_of(it).is_none()
            && leaves.clone().any(|away| away.to_whom == Absence::Preemptor)
        {
            return Err(JobsError::NoPreemptor { phase, job });
        }
        let usable = platform.usable();
        match leaves.map(|away| away.to).chain([it.start]).find(|&cpu| !usable.contains(cpu)) {
            Some(cpu) => Err(JobsError::Cpu {
                phase,
                job,
                cpu,
                platform: platform.name.clone(),
                usable: usable.to_string(),
            }),
            None => Ok(()),
        }
    }
}

impl Kind for Jobs {
    type Record = JobRecord;
    type Error = JobsError;

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("jobs", self.count() as u64))
    }

    fn units(&self) -> Vec<SamplingUnit> {
        let mut counts = vec![0; self.cells.len()];
        for job in self.phases.iter().flat_map(|phase| &phase.jobs) {
            // A plan by hand may name a cell that is not there.
            counts.get_mut(job.cell).into_iter().for_each(|count| *count += 1);
        }
        let cells: Vec<(Cell, u32)> = self.cells.iter().cloned().zip(counts).collect();
        SamplingUnit::of_cells(&cells, &self.sets)
    }

    fn leave_out(&mut self, mut done: u64, _: u64) {
        for phase in &mut self.phases {
            let skipped = phase.jobs.len().min(done as usize);
            phase.jobs.drain(..skipped);
            done -= skipped as u64;
        }
        self.phases.retain(|phase| !phase.jobs.is_empty());
    }

    fn go_on(&mut self, more: Self) {
        self.phases.extend(more.phases);
    }

    fn working_sets(&self) -> Vec<&WorkingSet> {
        self.sets.iter().collect()
    }

    fn outline(&self, units: &[SamplingUnit], replicates: Option<usize>) -> String {
        let replicates = match replicates {
            None | Some(0) => "no replicates of its own".to_owned(),
            Some(1) => "1 replicate, so no intervals".to_owned(),
            Some(several) => format!("{several} replicates"),
        };
        format!(": {} cells, {} samples, {replicates}", units.len(), samples(units))
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        match self.rows {
            JobRows::Samples => &[RowKind::Samples],
            JobRows::AccessTimes => &[RowKind::AccessTimes],
            JobRows::PreemptionLengths => &[RowKind::PreemptionLengths],
        }
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, JobRecord> {
        project::projection(self, at)
    }

    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        Box::new(Rows::observations)
    }

    /// Returns the times of valid walks and of absences. Samples have no row time because the delay of a
    /// sample depends on the estimator.
    fn times(rows: &Rows) -> Vec<RowTime> {
        let access_times = rows.access_times.iter().filter(|it| it.valid).map(AccessTime::time);
        access_times.chain(rows.preemption_lengths.iter().map(PreemptionLength::time)).collect()
    }
}
