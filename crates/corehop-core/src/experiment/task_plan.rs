// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of task sets: each runs for a while under one scheduler and one load, and its jobs are
//! watched (the schedule-sensitive method: Bastoni, Brandenburg and Anderson 2010, section 3.1).

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::{Absent, Cell, Job, Length, PLAN_SCHEMA, Phase, Plan, Step};
use crate::platform::Platform;
use crate::units::{Cpu, CpuList, Nanos};
use crate::workload::scheduler::Scheduler;
use crate::workload::{Absence, Event, LineState, Load, Mover, WorkingSet, WorkloadError};

/// The version of the plan's JSON form.
pub const TASK_SCHEMA: u32 = 1;

/// The most tasks of one set: each is a thread with a working set of its own.
pub const MOST_TASKS: usize = 1_000;

/// Task sets, to run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPlan {
    /// The version of this form: [`TASK_SCHEMA`].
    pub schema: u32,
    /// The experiment that made it, or a name of the author's.
    pub experiment: String,
    /// The seed of every draw: of release times, and of the permutations of the working sets.
    pub seed: u64,
    /// Who schedules them.
    pub scheduler: Scheduler,
    /// The scheduler loaded with sched_ext that is meant, by name; any, or one of ours, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<String>,
    /// The task sets, in the order in which they run.
    pub runs: Vec<TaskRun>,
}

/// One task set under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRun {
    /// The set's number among those drawn with the same parameters, from 0.
    pub index: u32,
    /// What else runs meanwhile.
    pub load: Load,
    /// For how long jobs are released.
    pub duration: Nanos,
    /// Whether its jobs are watched, and samples taken; otherwise they only execute, so that what watching
    /// does can be seen.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub watched: bool,
    /// The factor by which all execution times were multiplied so that the set fits its CPUs' share;
    /// 1 where it fitted.
    pub scale: f64,
    /// The CPUs among which tasks migrate: one cluster for a global scheduler, one for each CPU for
    /// a partitioned one.
    pub clusters: Vec<CpuList>,
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
}

/// A periodic or sporadic task whose jobs run Fig. 1 of Bastoni et al.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    /// Its name, where it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long each of its jobs executes, e.
    pub wcet: Nanos,
    /// The least time between two releases, p.
    pub period: Nanos,
    /// When a job is due after its release, d.
    pub deadline: Nanos,
    /// Its rank for fixed priorities; the smaller is served first. No two of a set have the same.
    pub rank: u32,
    /// The cluster that it belongs to, by number.
    pub cluster: usize,
    /// The release of its first job after the start of the run.
    pub offset: Nanos,
    /// The longest time, beyond the period, between two releases: 0 for a periodic task, otherwise
    /// a sporadic one, each of whose releases is late by a time drawn uniformly up to this.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_delay: Nanos,
    /// What its jobs touch.
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
    /// Its utilisation e/p.
    pub fn utilisation(&self) -> f64 {
        self.wcet.get() as f64 / self.period.get() as f64
    }
}

impl TaskRun {
    /// The set's utilisation, as it runs.
    pub fn utilisation(&self) -> f64 {
        self.tasks.iter().map(PlannedTask::utilisation).sum()
    }

    /// The CPUs that it runs on.
    pub fn cpus(&self) -> CpuList {
        CpuList::new(self.clusters.iter().flat_map(CpuList::iter))
    }
}

/// Why a plan of task sets cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskPlanError {
    /// Not JSON of this form.
    #[error("this is not a plan of task sets: {0}; `--dry-run --json` prints one to start from")]
    Form(String),
    /// Of another version.
    #[error("the plan's form is version {found}, this program knows {TASK_SCHEMA}: make it anew")]
    Schema {
        /// The version found.
        found: u32,
    },
    /// A working set that cannot be touched as described.
    #[error("run {run}, task {task}: {error}")]
    Workload {
        /// The run, counted from 0.
        run: usize,
        /// The task, counted from 0.
        task: usize,
        /// What is wrong with it.
        error: WorkloadError,
    },
    /// A parameter of a task that makes no sense.
    #[error("run {run}, task {task}: {what}")]
    Task {
        /// The run, counted from 0.
        run: usize,
        /// The task, counted from 0.
        task: usize,
        /// What is wrong, and what would do.
        what: String,
    },
    /// Something of a run that makes no sense.
    #[error("run {run}: {what}")]
    Run {
        /// The run, counted from 0.
        run: usize,
        /// What is wrong, and what would do.
        what: String,
    },
}

impl TaskPlan {
    /// Reads a plan from JSON.
    ///
    /// # Errors
    /// [`TaskPlanError::Form`] or [`TaskPlanError::Schema`].
    pub fn from_json(text: &str) -> Result<Self, TaskPlanError> {
        let plan: Self =
            serde_json::from_str(text).map_err(|error| TaskPlanError::Form(error.to_string()))?;
        match plan.schema {
            TASK_SCHEMA => Ok(plan),
            found => Err(TaskPlanError::Schema { found }),
        }
    }

    /// The plan as JSON.
    pub fn to_json(&self) -> String {
        format!("{:#}", serde_json::json!(self))
    }

    /// Whether `platform` can run it.
    ///
    /// # Errors
    /// [`TaskPlanError`] names the first run or task that is impossible.
    pub fn check(&self, platform: &Platform) -> Result<(), TaskPlanError> {
        let usable = platform.usable();
        for (run, it) in self.runs.iter().enumerate() {
            let wrong = |what: String| Err(TaskPlanError::Run { run, what });
            if it.tasks.is_empty() || it.tasks.len() > MOST_TASKS {
                return wrong(format!("{} tasks: 1 to {MOST_TASKS} can run", it.tasks.len()));
            }
            if it.duration.get() == 0 {
                return wrong("a duration of 0: give it a time, for instance 10s".to_owned());
            }
            let named: usize = it.clusters.iter().map(CpuList::len).sum();
            if named == 0 || named != it.cpus().len() {
                return wrong("clusters must have CPUs, and none in common".to_owned());
            }
            if let Some(cpu) = it.cpus().iter().find(|&cpu| !usable.contains(cpu)) {
                let what =
                    format!("{cpu} is not among the usable CPUs ({usable}): name one of those");
                return wrong(what);
            }
            it.check_tasks(run)?;
        }
        Ok(())
    }

    /// The plan of one of its runs alone, which is run 0 of it.
    #[must_use]
    pub fn of_run(&self, run: usize) -> Self {
        Self {
            schema: self.schema,
            experiment: self.experiment.clone(),
            seed: self.seed,
            scheduler: self.scheduler,
            sched_ext: self.sched_ext.clone(),
            runs: vec![self.runs[run].clone()],
        }
    }

    /// When the jobs of `task` of `run` are released, in nanoseconds after the start of the run, as
    /// long as the run lasts. The same for every scheduler and on every machine.
    pub fn releases(&self, run: usize, task: usize) -> impl Iterator<Item = u64> + use<> {
        let it = &self.runs[run];
        let (task, stream) = (&it.tasks[task], u64::from(it.index) << 32 | task as u64);
        let (period, delay) = (task.period.get(), task.longest_delay);
        let end = it.duration.get();
        let mut draw = Draw::new(self.seed ^ 0x7265_6c65_6173_6573, stream);
        let mut next = task.offset.get();
        std::iter::from_fn(move || {
            let now = next;
            let late = if delay.get() == 0 { 0 } else { draw.time(Nanos::new(0), delay).get() };
            next = now + period + late;
            (now < end).then_some(now)
        })
    }

    /// What the samples of its runs are samples of, and for each run and task the first of its cells, after
    /// which stand one for every way to be away, in the order of [`Event::RESUMING`]: the tasks of a run that
    /// have the same working set share them. The jobs of the plan are one for each cell, so that job and cell
    /// have the same number.
    pub fn as_scripted(&self) -> (Plan, Vec<Vec<usize>>) {
        let mut plan = Plan {
            schema: PLAN_SCHEMA,
            experiment: self.experiment.clone(),
            seed: self.seed,
            mover: Mover::Affinity,
            preemptor: None,
            sets: Vec::new(),
            cells: Vec::new(),
            phases: vec![Phase {
                replicate: None,
                condition: None,
                load: Load::Idle,
                jobs: Vec::new(),
            }],
        };
        let mut first_cells = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (sets, before) = (run.sets(), plan.cells.len());
            let place = |task: &PlannedTask| sets.iter().position(|&set| *set == task.set);
            let first = |task| before + place(task).unwrap_or(0) * Event::RESUMING.len();
            first_cells.push(run.tasks.iter().map(first).collect());
            for set in sets {
                plan.sets.push(set.clone());
                for &event in &Event::RESUMING {
                    plan.phases[0].jobs.push(Job {
                        cell: plan.cells.len(),
                        start: Cpu::default(),
                        steps: vec![Step::Leave(Absent {
                            to: Cpu::default(),
                            length: Nanos::new(0),
                            to_whom: Absence::Load,
                        })],
                    });
                    plan.cells.push(Cell {
                        load: run.load.clone(),
                        set: plan.sets.len() - 1,
                        event,
                        length: Length::ZERO,
                        absence: Absence::Nothing,
                        preemptor: None,
                        state: LineState::Invalid,
                    });
                }
            }
        }
        (plan, first_cells)
    }
}

impl TaskRun {
    /// The different working sets of its tasks, in the order of the tasks.
    fn sets(&self) -> Vec<&WorkingSet> {
        let mut sets: Vec<&WorkingSet> = Vec::new();
        for task in &self.tasks {
            if !sets.contains(&&task.set) {
                sets.push(&task.set);
            }
        }
        sets
    }

    fn check_tasks(&self, run: usize) -> Result<(), TaskPlanError> {
        let mut ranks: Vec<u32> = self.tasks.iter().map(|task| task.rank).collect();
        ranks.sort_unstable();
        if ranks.windows(2).any(|pair| pair[0] == pair[1]) {
            let what = "two tasks have the same rank: give each its own".to_owned();
            return Err(TaskPlanError::Run { run, what });
        }
        for (task, it) in self.tasks.iter().enumerate() {
            it.set.check().map_err(|error| TaskPlanError::Workload { run, task, error })?;
            let what = if it.wcet.get() == 0 || it.wcet > it.period {
                format!(
                    "an execution time of {} must be positive and at most the period {}",
                    it.wcet, it.period
                )
            } else if it.deadline < it.wcet {
                format!(
                    "a deadline of {} is before the end of the execution time {}",
                    it.deadline, it.wcet
                )
            } else if it.cluster >= self.clusters.len() {
                format!(
                    "cluster {} of {}: they are counted from 0",
                    it.cluster,
                    self.clusters.len()
                )
            } else {
                continue;
            };
            return Err(TaskPlanError::Task { run, task, what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    fn task(rank: u32, kib: u64) -> PlannedTask {
        PlannedTask {
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

    /// A run of three tasks on two CPUs.
    fn plan() -> TaskPlan {
        let run = TaskRun {
            index: 0,
            load: Load::Idle,
            duration: Nanos::from_millis(100),
            watched: true,
            scale: 1.0,
            clusters: vec![CpuList::new([Cpu(0)]), CpuList::new([Cpu(1)])],
            tasks: vec![task(0, 4), task(1, 64), task(2, 4)],
        };
        TaskPlan {
            schema: TASK_SCHEMA,
            experiment: "schedule-sensitive".to_owned(),
            seed: 1,
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
        refused(|run| run.tasks[2].rank = 0, "same rank");
        refused(|run| run.tasks[2].cluster = 2, "cluster 2 of 2");
        refused(|run| run.tasks[2].deadline = Nanos::new(999_999), "before the end");
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
        let all = |run, task| plan.releases(run, task).collect::<Vec<_>>();
        assert_ne!(all(0, 0), all(1, 0));
        assert_ne!(all(0, 0), all(0, 2));
        // The last of these would be released as the run ends.
        let mut periodic = plan.clone();
        periodic.runs[0].tasks[0].longest_delay = Nanos::new(0);
        let millis: Vec<u64> = periodic.releases(0, 0).map(|at| at / 1_000_000).collect();
        assert_eq!(millis, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }

    #[test]
    fn tasks_with_the_same_working_set_share_cells_one_for_each_way_to_be_away() {
        let (scripted, first) = plan().as_scripted();
        let ways = Event::RESUMING.len();
        assert_eq!(first, [vec![0, ways, 0], vec![2 * ways, 3 * ways, 2 * ways]]);
        assert_eq!(scripted.cells.len(), 4 * ways);
        for (number, cell) in scripted.cells.iter().enumerate() {
            assert_eq!((cell.set, cell.event), (number / ways, Event::RESUMING[number % ways]));
        }
        let sizes: Vec<u64> = scripted.sets.iter().map(|set| set.wss.get() >> 10).collect();
        assert_eq!(sizes, [4, 64, 4, 64]);
    }
}
