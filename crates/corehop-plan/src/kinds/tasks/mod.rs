// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of task sets: each set runs for a while under one scheduler and one load, and corehop watches its jobs (the
//! schedule-sensitive method: Bastoni, Brandenburg and Anderson 2010, section 3.1).

mod count;
mod record;
mod rows;
mod words;

use record::TaskRows;
pub use record::{AS_SCHEDULED, JobAbsence, TaskJobRecord};
pub use rows::TaskJob;
pub use words::JobOutcome;

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Cell, Kind, Length, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows,
    SamplingUnit,
};
use crate::platform::Platform;
use crate::units::{Bytes, CpuList, Nanos};
use crate::workload::draw::DrawStream;
use crate::workload::scheduler::Scheduler;
use crate::workload::{Absence, Event, LineState, Load, WorkingSet, WorkloadError};

/// The largest number of tasks in one set; each task is a thread with a working set of its own.
pub const MOST_TASKS: usize = 1_000;

/// A plan of task sets that run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// The scheduler of all task sets.
    pub scheduler: Scheduler,
    /// The name of the loaded sched_ext scheduler, or `None` for any loaded scheduler or corehop's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<String>,
    /// The runs of task sets, in order.
    pub runs: Vec<TaskRun>,
}

/// A run of one task set under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRun {
    /// The number of the run in the result, or `None` if the number is the run's position in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The number of the task set among the sets drawn with the same parameters, from 0.
    pub index: u32,
    /// The background load of the run.
    pub load: Load,
    /// The time for which the tasks release jobs.
    pub duration: Nanos,
    /// Whether corehop watches the jobs and takes samples; the jobs of an unwatched run only execute, so that a
    /// comparison shows the effect of watching.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub watched: bool,
    /// The factor by which all execution times were multiplied so that the set fits its share of the CPUs; 1 if the set
    /// fitted unchanged.
    pub scale: f64,
    /// The CPUs among which tasks migrate: one cluster for a global scheduler, one cluster for each CPU for a
    /// partitioned scheduler.
    pub clusters: Vec<CpuList>,
    /// The tasks of the set that the run executes.
    pub tasks: Vec<PlannedTask>,
}

/// A periodic or sporadic task whose jobs follow Fig. 1 of Bastoni et al.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    /// The name of the task, if the task set states a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The execution time e of each job of the task.
    pub wcet: Nanos,
    /// The time after which the kernel stops a job under SCHED_DEADLINE, or `None` for the execution time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// The period p of the task: the least time between two releases.
    pub period: Nanos,
    /// The relative deadline d of the task: the time from a job's release to its deadline.
    pub deadline: Nanos,
    /// The rank of the task for fixed priorities; the scheduler serves the smaller rank first. The scheduler serves
    /// jobs of equal rank in the order of their releases, as SCHED_FIFO does.
    pub rank: u32,
    /// The number of the cluster to which the task belongs.
    pub cluster: usize,
    /// The time from the start of the run to the release of the task's first job.
    pub offset: Nanos,
    /// The longest time beyond the period between two releases: 0 for a periodic task; each release of a sporadic task
    /// is late by a time drawn uniformly from 0 to this value.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_delay: Nanos,
    /// The working set of the task's jobs.
    pub set: WorkingSet,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_true(it: &bool) -> bool {
    *it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(time: &Nanos) -> bool {
    time.get() == 0
}

impl PlannedTask {
    /// Returns the time that the kernel reserves for each job of the task under SCHED_DEADLINE.
    pub fn runtime(&self) -> Nanos {
        self.budget.unwrap_or(self.wcet)
    }

    /// Returns the share of a CPU that the kernel reserves for the task under SCHED_DEADLINE.
    pub fn reserved(&self) -> f64 {
        self.runtime().get() as f64 / self.period.get() as f64
    }

    /// Returns the utilisation e/p of the task.
    pub fn utilisation(&self) -> f64 {
        self.wcet.get() as f64 / self.period.get() as f64
    }
}

impl TaskRun {
    /// Returns the utilisation of the set as it runs, with its scaled execution times.
    pub fn utilisation(&self) -> f64 {
        self.tasks.iter().map(PlannedTask::utilisation).sum()
    }

    /// Returns a short description of the run's work.
    pub fn name(&self) -> String {
        let clusters: Vec<String> = self.clusters.iter().map(ToString::to_string).collect();
        format!(
            "{} tasks of {}, utilisation {:.2} (scaled by {:.2}), set {}, {}, CPUs {}, {}{}",
            self.tasks.len(),
            self.tasks.first().map_or_else(Bytes::default, |task| task.set.wss),
            self.utilisation(),
            self.scale,
            self.index,
            self.load.word(),
            clusters.join(" | "),
            self.duration,
            if self.watched { "" } else { ", unwatched" }
        )
    }

    /// Returns the CPUs on which the set runs.
    pub fn cpus(&self) -> CpuList {
        CpuList::new(self.clusters.iter().flat_map(CpuList::iter))
    }
}

/// The reason why a plan of task sets cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TasksError {
    /// A task cannot touch its working set as described.
    #[error("run {run}, task {task}: {error}")]
    Workload {
        /// The number of the run that has the error, counted from 0.
        run: usize,
        /// The number of the task that has the error, counted from 0.
        task: usize,
        /// The error in the working set.
        error: WorkloadError,
    },
    /// A parameter of a task is invalid.
    #[error("run {run}, task {task}: {what}")]
    Task {
        /// The number of the run that has the error, counted from 0.
        run: usize,
        /// The number of the task that has the error, counted from 0.
        task: usize,
        /// The problem, with a valid value.
        what: String,
    },
    /// A property of a run is invalid.
    #[error("run {run}: {what}")]
    Run {
        /// The number of the run that has the error, counted from 0.
        run: usize,
        /// The problem, with a valid value.
        what: String,
    },
}

impl Tasks {
    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`TasksError`] for the first run or task that cannot run.
    pub fn check(&self, platform: &Platform) -> Result<(), TasksError> {
        let usable = platform.usable();
        for (run, it) in self.runs.iter().enumerate() {
            let wrong = |what: String| Err(TasksError::Run { run, what });
            if it.tasks.is_empty() || it.tasks.len() > MOST_TASKS {
                return wrong(format!(
                    "a set of {} tasks: expected 1 to {MOST_TASKS} tasks",
                    it.tasks.len()
                ));
            }
            if it.duration.get() == 0 {
                return wrong("a duration of 0: set a time, for example 10s".to_owned());
            }
            let named: usize = it.clusters.iter().map(CpuList::len).sum();
            if named == 0 || named != it.cpus().len() {
                return wrong("clusters must have CPUs, and none in common".to_owned());
            }
            if let Some(cpu) = it.cpus().iter().find(|&cpu| !usable.contains(cpu)) {
                let what =
                    format!("{cpu} is not among the usable CPUs ({usable}): name one of these");
                return wrong(what);
            }
            it.check_tasks(run)?;
        }
        Ok(())
    }

    /// Makes a plan with only the run at index `run`, which becomes run 0.
    #[must_use]
    pub fn of_run(&self, run: usize) -> Self {
        Self {
            scheduler: self.scheduler,
            sched_ext: self.sched_ext.clone(),
            runs: vec![self.runs[run].clone()],
        }
    }

    /// Numbers the runs of a resumed experiment whose result already has `jobs` jobs, so that no number is used twice
    /// and each number determines the run's position.
    pub(crate) fn renumber(&mut self, jobs: u64) {
        let whole = self.runs.len() as u64;
        if jobs > 0 {
            let number = |place: u64| Some(jobs * whole + place);
            self.runs.iter_mut().zip(0..).for_each(|(run, place)| run.number = number(place));
        }
    }

    /// Returns the releases of the jobs of `task` in `run`, in nanoseconds from the start of the run to its end. The
    /// releases are equal under every scheduler and on every machine.
    pub fn releases(
        &self,
        seed: u64,
        run: usize,
        task: usize,
    ) -> impl Iterator<Item = u64> + use<> {
        let it = &self.runs[run];
        let (task, stream) = (&it.tasks[task], u64::from(it.index) << 32 | task as u64);
        let (period, delay) = (task.period.get(), task.longest_delay);
        let end = it.duration.get();
        let mut draw = DrawStream::new(seed ^ 0x7265_6c65_6173_6573, stream);
        let mut next = task.offset.get();
        std::iter::from_fn(move || {
            let now = next;
            let late = if delay.get() == 0 { 0 } else { draw.time(Nanos::new(0), delay).get() };
            next = now + period + late;
            (now < end).then_some(now)
        })
    }

    /// Returns the cells to which the samples of the plan's runs belong.
    pub fn cells(&self) -> TaskCells {
        let mut all = TaskCells::default();
        for run in &self.runs {
            let (sets, before) = (run.sets(), all.cells.len());
            let place = |task: &PlannedTask| sets.iter().position(|&set| *set == task.set);
            let first = |task| before + place(task).unwrap_or(0) * Event::RESUMING.len();
            all.first.push(run.tasks.iter().map(first).collect());
            for set in sets {
                all.sets.push(set.clone());
                let number = all.sets.len() - 1;
                all.cells.extend(Event::RESUMING.iter().map(|&event| run.cell(number, event)));
            }
        }
        all
    }
}

/// The cells to which samples of task sets belong: for each working set of each run, one cell for each event of
/// [`Event::RESUMING`], in that order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskCells {
    /// The working sets to which the cells refer by index.
    pub sets: Vec<WorkingSet>,
    /// The cells of the tasks of all runs.
    pub cells: Vec<Cell>,
    /// The index of the first cell for each run and task; tasks of a run with equal working sets share their cells.
    pub first: Vec<Vec<usize>>,
}

impl TaskRun {
    /// Returns the cell for samples of a task on this working set after an absence of this kind.
    fn cell(&self, set: usize, event: Event) -> Cell {
        Cell {
            load: self.load.clone(),
            set,
            event,
            length: Length::ZERO,
            absence: Absence::Nothing,
            preemptor: None,
            state: LineState::Invalid,
        }
    }

    /// Returns the different working sets of the run's tasks, in the order of the tasks.
    fn sets(&self) -> Vec<&WorkingSet> {
        let mut sets: Vec<&WorkingSet> = Vec::new();
        for task in &self.tasks {
            if !sets.contains(&&task.set) {
                sets.push(&task.set);
            }
        }
        sets
    }

    fn check_tasks(&self, run: usize) -> Result<(), TasksError> {
        for (task, it) in self.tasks.iter().enumerate() {
            it.set.check().map_err(|error| TasksError::Workload { run, task, error })?;
            let what = if it.wcet.get() == 0 || it.wcet > it.period {
                format!(
                    "an execution time of {} must be positive and at most the period {}",
                    it.wcet, it.period
                )
            } else if it.deadline < it.wcet {
                format!(
                    "a deadline of {} is shorter than the execution time {}",
                    it.deadline, it.wcet
                )
            } else if it.cluster >= self.clusters.len() {
                format!(
                    "cluster {} does not exist: there are {} clusters, counted from 0",
                    it.cluster,
                    self.clusters.len()
                )
            } else {
                continue;
            };
            return Err(TasksError::Task { run, task, what });
        }
        Ok(())
    }
}

impl Kind for Tasks {
    type Record = TaskJobRecord;
    type Error = TasksError;

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("runs", self.runs.len() as u64))
    }

    fn units(&self) -> Vec<SamplingUnit> {
        let unit = |run: &TaskRun| SamplingUnit { name: run.name(), asked: 1, each: run.duration };
        self.runs.iter().map(unit).collect()
    }

    /// Repeats a run that was cut off, under another number.
    fn leave_out(&mut self, done: u64, jobs: u64) {
        self.renumber(jobs);
        self.runs.drain(..self.runs.len().min(done as usize));
    }

    fn go_on(&mut self, more: Self) {
        self.runs.extend(more.runs);
    }

    fn working_sets(&self) -> Vec<&WorkingSet> {
        self.runs.iter().flat_map(|run| &run.tasks).map(|task| &task.set).collect()
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        let (runs, whole) = (samples(units), SamplingUnit::projected(units));
        format!(": {runs} runs under {}, {whole} in all", self.scheduler)
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Samples, RowKind::TaskJobs]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, TaskJobRecord> {
        let (of_tasks, mut jobs) = (TaskRows::new(self, at.platform, at.context), at.first);
        Box::new(move |records, rows| {
            for record in records {
                rows.samples.extend(of_tasks.sample(record, jobs));
                rows.task_jobs.push(of_tasks.job(record));
                jobs += 1;
            }
        })
    }

    fn counting(&self, units: u64) -> Box<dyn RowCounting> {
        Box::new(count::TaskRunCounter::planned(units))
    }

    fn times(rows: &Rows) -> Vec<RowTime> {
        rows.task_jobs.iter().flat_map(TaskJob::times).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Cpu;

    fn task(rank: u32, kib: u64) -> PlannedTask {
        PlannedTask {
            budget: None,
            name: None,
            wcet: Nanos::from_millis(1),
            period: Nanos::from_millis(10),
            deadline: Nanos::from_millis(10),
            rank,
            cluster: 0,
            offset: Nanos::new(0),
            longest_delay: Nanos::from_millis(5),
            set: WorkingSet::list(Bytes::from_kib(kib), 0.5),
        }
    }

    /// Returns a run of three tasks on two CPUs.
    fn plan() -> Tasks {
        let run = TaskRun {
            number: None,
            index: 0,
            load: Load::Idle,
            duration: Nanos::from_millis(100),
            watched: true,
            scale: 1.0,
            clusters: vec![CpuList::new([Cpu(0)]), CpuList::new([Cpu(1)])],
            tasks: vec![task(0, 4), task(1, 64), task(2, 4)],
        };
        Tasks {
            scheduler: Scheduler::PEdf,
            sched_ext: None,
            runs: vec![run.clone(), TaskRun { index: 1, ..run }],
        }
    }

    #[test]
    fn what_cannot_run_is_refused_by_run_and_task() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        assert_eq!(plan().check(&platform), Ok(()));
        let refused = |change: fn(&mut TaskRun), part: &str| {
            let mut plan = plan();
            change(&mut plan.runs[1]);
            let error = plan.check(&platform).unwrap_err().to_string();
            assert!(error.starts_with("run 1") && error.contains(part), "{error}");
        };
        refused(|run| run.tasks[2].cluster = 2, "cluster 2 does not exist: there are 2");
        refused(
            |run| run.tasks[2].deadline = Nanos::new(999_999),
            "shorter than the execution time",
        );
        refused(|run| run.tasks[2].wcet = Nanos::from_millis(11), "at most the period");
        refused(|run| run.tasks[2].wcet = Nanos::new(0), "positive");
        refused(|run| run.clusters[1] = run.clusters[0].clone(), "none in common");
        refused(|run| run.clusters.clear(), "must have CPUs");
        refused(|run| run.clusters[1] = CpuList::new([Cpu(99)]), "CPU 99");
        refused(|run| run.tasks.clear(), "0 tasks");
        refused(|run| run.duration = Nanos::new(0), "duration of 0");
    }

    #[test]
    fn every_task_and_every_set_has_release_delays_of_its_own_until_the_run_ends() {
        let plan = plan();
        let all = |run, task| plan.releases(1, run, task).collect::<Vec<_>>();
        assert_ne!(all(0, 0), all(1, 0));
        assert_ne!(all(0, 0), all(0, 2));
        // The last of these would be released as the run ends.
        let mut periodic = plan.clone();
        periodic.runs[0].tasks[0].longest_delay = Nanos::new(0);
        let millis: Vec<u64> = periodic.releases(1, 0, 0).map(|at| at / 1_000_000).collect();
        assert_eq!(millis, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }

    #[test]
    fn tasks_with_the_same_working_set_share_cells_one_for_each_way_to_be_away() {
        let TaskCells { sets, cells, first } = plan().cells();
        let ways = Event::RESUMING.len();
        assert_eq!(first, [vec![0, ways, 0], vec![2 * ways, 3 * ways, 2 * ways]]);
        assert_eq!(cells.len(), 4 * ways);
        for (number, cell) in cells.iter().enumerate() {
            assert_eq!((cell.set, cell.event), (number / ways, Event::RESUMING[number % ways]));
        }
        let sizes: Vec<u64> = sets.iter().map(|set| set.wss.get() >> 10).collect();
        assert_eq!(sizes, [4, 64, 4, 64]);
    }
}
