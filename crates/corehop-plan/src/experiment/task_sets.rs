// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment `schedule-sensitive`: task sets that are drawn (Bastoni et al., section 4.1) or given, placed on
//! clusters of CPUs, and scaled to a share of the CPUs.

use serde::{Deserialize, Serialize};

use super::DrawStream;
use super::Preset;
use super::{Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Kind, MOST_TASKS, Plan, PlannedTask, TaskRun, Tasks, TasksError};
use crate::platform::{Platform, clusters};
use crate::units::{Bytes, Cpu, CpuList, Nanos};
use crate::workload::generate::{Period, Utilisation};
use crate::workload::scheduler::{MigrationReach, Scheduler};
use crate::workload::task::{Tick, Time};
use crate::workload::{Load, WorkingSet};

/// The task sets to run, with their duration and scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSets {
    /// The scheduler of the task sets.
    pub scheduler: Scheduler,
    /// The name of the sched_ext scheduler that must be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<String>,
    /// The source from which the experiment takes its tasks.
    pub source: TaskOrigin,
    /// The time for which each set runs.
    pub duration: Nanos,
    /// The loads under which each set runs.
    pub loads: Vec<Load>,
    /// The largest share of each CPU that the tasks can use, 0 to 1; corehop scales execution times down to this
    /// share.
    pub share: f64,
    /// The CPUs to use; empty for all usable CPUs.
    #[serde(default)]
    pub cpus: CpuList,
    /// Whether each set also runs unwatched; the unwatched run alternately comes before and after the watched run.
    #[serde(default)]
    pub paired: bool,
    /// The level of the cache whose sharing CPUs form a cluster, or `None` for the outermost level that forms more
    /// than one cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_level: Option<u32>,
}

/// The origin of the tasks of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOrigin {
    /// The experiment draws the tasks at random.
    Drawn(RandomSets),
    /// The user gives the tasks, and the experiment does not change them.
    Given(Vec<GivenTask>),
}

/// Parameters of random task sets; each number of tasks is combined with each working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSets {
    /// The numbers of tasks in a set.
    pub task_counts: Vec<u32>,
    /// The number of sets for each number of tasks and each working set.
    pub sets: u32,
    /// The bounds of the utilisations, which are drawn uniformly.
    pub utilisation: (f64, f64),
    /// The bounds of the periods, which are drawn uniformly in whole microseconds.
    pub period: (Nanos, Nanos),
    /// The longest delay of a release as a share of the period; 0 makes periodic tasks.
    pub sporadic: f64,
    /// The working sets; all tasks of a set have equal working sets.
    pub working_sets: Vec<WorkingSet>,
}

impl RandomSets {
    /// Returns the parameters of the random sets that a preset uses.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Bastoni => Self::bastoni(),
            Preset::Quick | Preset::Waechtler => Self::quick(),
        }
    }

    /// Makes sets of 10 and 20 tasks with 64 and 256 KiB; six sets of each kind, because fewer replicates yield no
    /// interval.
    fn quick() -> Self {
        let set = |kib| WorkingSet::list(Bytes::from_kib(kib), 0.5);
        let working_sets = vec![set(64), set(256)];
        Self { task_counts: vec![10, 20], sets: 6, working_sets, ..Self::bastoni() }
    }

    /// Makes sets of 25 to 250 tasks, with utilisations U[0.001, 0.1], periods U[10, 100] ms, 4 to 2048 KiB and
    /// write ratios 1/2 and 1/4, ten sets of each kind (Bastoni et al., section 4.1).
    pub fn bastoni() -> Self {
        let sizes = [4, 32, 64, 128, 256, 512, 1024, 2048];
        let ratios = [0.5, 0.25];
        let set = |kib, ratio| WorkingSet::list(Bytes::from_kib(kib), ratio);
        let of_size = |kib| ratios.iter().map(move |&ratio| set(kib, ratio));
        Self {
            task_counts: vec![25, 50, 75, 100, 125, 150, 175, 200, 225, 250],
            sets: 10,
            utilisation: (0.001, 0.1),
            period: (Nanos::from_millis(10), Nanos::from_millis(100)),
            sporadic: 0.0,
            working_sets: sizes.into_iter().flat_map(of_size).collect(),
        }
    }
}

/// A task as a task-set file states it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenTask {
    /// The name of the task, if the file states one.
    pub name: Option<String>,
    /// The execution time of each job.
    pub wcet: Nanos,
    /// The time after which the kernel stops a job under SCHED_DEADLINE, or `None` for the execution time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// The period between two releases of the task.
    pub period: Nanos,
    /// The relative deadline of the task.
    pub deadline: Nanos,
    /// The rank of the task for fixed priorities; the scheduler serves the smaller rank first. The deadline
    /// determines the rank of a task whose rank is `None`.
    pub priority: Option<u32>,
    /// The CPU assigned to the task, as an index into the CPUs of the set; if the CPU is `None`, corehop places the
    /// largest tasks first, each on the cluster with the most free share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The CPUs of the cluster assigned to the task, as indices into the CPUs of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// The working set of the task's jobs.
    pub set: WorkingSet,
}

impl GivenTask {
    /// Returns the CPUs assigned to the task, as indices into the CPUs of the set; empty if the task has no assigned
    /// CPU.
    fn places(&self) -> Vec<usize> {
        if self.cpus.is_empty() { self.cpu.into_iter().collect() } else { self.cpus.clone() }
    }

    /// Returns the task as errors name it: its position, followed by its name if the task has one.
    fn called(&self, at: usize) -> String {
        let name = self.name.as_ref().map(|name| format!(" (`{name}`)"));
        format!("task {at}{}", name.unwrap_or_default())
    }
}

impl TaskSets {
    /// Returns the time for which a preset runs each set.
    pub const fn duration(preset: Preset) -> Nanos {
        match preset {
            Preset::Bastoni => Nanos::from_secs(60),
            Preset::Quick | Preset::Waechtler => Nanos::from_secs(2),
        }
    }

    /// Returns the runs of the experiment: every set under every load.
    ///
    /// # Errors
    /// Returns [`TasksError`] if the platform lacks a cluster, or if a parameter is invalid.
    pub fn tasks(&self, platform: &Platform, seed: u64) -> Result<Tasks, TasksError> {
        let wrong = |what: String| TasksError::Run { run: 0, what };
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(wrong(format!("a share of {} is outside 0 to 1", self.share)));
        }
        let clusters = self.clusters(platform).map_err(wrong)?;
        let mut runs = Vec::new();
        for (index, tasks) in self.sets(seed).map_err(wrong)? {
            let tasks = match self.assigned(platform, &clusters).map_err(wrong)? {
                Some(places) => in_clusters(tasks, &places),
                None => placed(tasks, &clusters),
            };
            let (tasks, scale) = scaled(tasks, &clusters, self.share);
            for (load, watched) in self.turns(index) {
                let (clusters, tasks, duration) = (clusters.clone(), tasks.clone(), self.duration);
                let number = None;
                runs.push(TaskRun {
                    number,
                    index,
                    load,
                    duration,
                    watched,
                    scale,
                    clusters,
                    tasks,
                });
            }
        }
        let sched_ext = self.sched_ext.clone();
        let tasks = Tasks { scheduler: self.scheduler, sched_ext, runs };
        tasks.check(platform)?;
        Ok(tasks)
    }

    /// Returns the runs of set `index`: for each load a watched run, or a watched and an unwatched run in an order
    /// that alternates from set to set. The first load changes from set to set, so that a slow change of the
    /// machine favours no load.
    fn turns(&self, index: u32) -> Vec<(Load, bool)> {
        let ways: &[bool] = match (self.paired, index.is_multiple_of(2)) {
            (false, _) => &[true],
            (true, true) => &[false, true],
            (true, false) => &[true, false],
        };
        let of_load = |load: &Load| ways.iter().map(|&way| (load.clone(), way)).collect::<Vec<_>>();
        let first = index as usize % self.loads.len().max(1);
        let (before, after) = self.loads.split_at(first);
        after.iter().chain(before).flat_map(of_load).collect()
    }

    /// Returns the groups of CPUs among which tasks migrate.
    fn clusters(&self, platform: &Platform) -> Result<Vec<CpuList>, String> {
        let cpus = self.used(platform);
        Ok(match self.scheduler.reach() {
            MigrationReach::Global => vec![cpus],
            MigrationReach::Partitioned => cpus.iter().map(|cpu| CpuList::new([cpu])).collect(),
            MigrationReach::Clustered => clusters::of_cpus(platform, &cpus, self.cluster_level)?,
        })
    }

    /// Returns the cluster assigned to each task by the task's CPUs, or `None` if no task has assigned CPUs.
    ///
    /// # Errors
    /// Returns an error that names the first task whose CPUs are not a cluster of the scheduler.
    fn assigned(
        &self,
        platform: &Platform,
        clusters: &[CpuList],
    ) -> Result<Option<Vec<usize>>, String> {
        let TaskOrigin::Given(tasks) = &self.source else { return Ok(None) };
        if tasks.iter().all(|task| task.places().is_empty()) {
            return Ok(None);
        }
        let cpus: Vec<Cpu> = self.used(platform).iter().collect();
        let cluster_of = |(at, task): (usize, &GivenTask)| {
            let places = task.places();
            if let Some(place) = places.iter().find(|&&place| place >= cpus.len()) {
                let (task, count) = (task.called(at), cpus.len());
                return Err(format!(
                    "{task} is placed on CPU {place}, but the set has {count} CPUs, counted from 0"
                ));
            }
            let own = CpuList::new(places.iter().map(|&place| cpus[place]));
            if places.is_empty() && clusters.len() == 1 {
                return Ok(0);
            }
            let found = clusters.iter().position(|cluster| *cluster == own);
            found.ok_or_else(|| {
                let there: Vec<String> = clusters.iter().map(ToString::to_string).collect();
                let has = match places.as_slice() {
                    [] => "all CPUs".to_owned(),
                    _ => format!("CPUs {own}"),
                };
                let (task, scheduler, there) = (task.called(at), self.scheduler, there.join(" | "));
                format!(
                    "{task} may run on {has}, but {scheduler} serves the CPUs {there}: give each task the CPUs of one group, use another scheduler (p-edf or p-fp for one CPU each), or omit `cpus`"
                )
            })
        };
        tasks.iter().enumerate().map(cluster_of).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the CPUs that the runs use.
    fn used(&self, platform: &Platform) -> CpuList {
        if self.cpus.is_empty() { platform.usable() } else { self.cpus.clone() }
    }

    /// Returns the tasks of every set, with the set's number, before the tasks are placed. Scheduler, load and
    /// working set do not influence the drawn tasks, so that runs with different schedulers, loads and working
    /// sets have equal tasks.
    fn sets(&self, seed: u64) -> Result<Vec<(u32, Vec<PlannedTask>)>, String> {
        let drawn = match &self.source {
            TaskOrigin::Given(tasks) => return given(tasks).map(|tasks| vec![(0, tasks)]),
            TaskOrigin::Drawn(drawn) => drawn,
        };
        drawn.check()?;
        let mut all = Vec::new();
        for set in &drawn.working_sets {
            for &count in &drawn.task_counts {
                all.extend(
                    (0..drawn.sets).map(|index| (index, drawn.set(seed, count, index, set))),
                );
            }
        }
        Ok(all)
    }
}

impl RandomSets {
    fn check(&self) -> Result<(), String> {
        let (low, high) = self.utilisation;
        if !(0.0 < low && low <= high && high <= 1.0) {
            return Err(format!(
                "utilisations from {low} to {high}: expected values from 0 to 1, the lower first"
            ));
        }
        let (low, high) = self.period;
        if low.get() < 1_000 || low > high {
            return Err(format!(
                "periods from {low} to {high}: expected at least 1 us, the lower first"
            ));
        }
        if !(0.0..=1.0).contains(&self.sporadic) {
            return Err(format!("a sporadic share of {} is outside 0 to 1", self.sporadic));
        }
        if self.sets == 0 {
            return Err("0 sets of each kind: draw at least 1".to_owned());
        }
        let wrong = self.task_counts.iter().find(|&&it| it == 0 || it as usize > MOST_TASKS);
        match wrong {
            Some(count) => Err(format!("a set of {count} tasks: expected 1 to {MOST_TASKS} tasks")),
            None => Ok(()),
        }
    }

    /// Draws set number `index` of the sets with `count` tasks.
    fn set(&self, seed: u64, count: u32, index: u32, set: &WorkingSet) -> Vec<PlannedTask> {
        let mut draw = DrawStream::new(seed, u64::from(count) << 32 | u64::from(index));
        let utilisation = Utilisation::Uniform(self.utilisation.0, self.utilisation.1);
        let [low, high] =
            [self.period.0, self.period.1].map(|it| Tick::Micro.of_us(it.get() / 1_000));
        let period = Period::Uniform { low, high, granularity: Time::TICK };
        let mut task = || {
            let u = utilisation.draw(&mut draw);
            let period = Tick::Micro.nanos(period.draw(&mut draw));
            let wcet = Nanos::new((u * period.get() as f64) as u64);
            let offset = Nanos::from_micros(draw.below(period.get() / 1_000));
            let longest_delay = Nanos::new((self.sporadic * period.get() as f64) as u64);
            PlannedTask {
                name: None,
                wcet,
                budget: None,
                period,
                deadline: period,
                rank: 0,
                cluster: 0,
                offset,
                longest_delay,
                set: set.clone(),
            }
        };
        ranked((0..count).map(|_| task()).collect(), |_| None)
    }
}

/// Returns the given tasks, all released together at the start. An invalid task is rejected here, before scaling
/// can make its values look valid.
fn given(tasks: &[GivenTask]) -> Result<Vec<PlannedTask>, String> {
    let wrong =
        tasks.iter().position(|it| it.wcet.get() == 0 || it.wcet > it.period.min(it.deadline));
    if let Some(at) = wrong {
        let GivenTask { wcet, period, deadline, .. } = &tasks[at];
        let what = format!("task {at}: an execution time of {wcet} must be positive and at most");
        return Err(format!("{what} the period {period} and the deadline {deadline}"));
    }
    let planned = tasks.iter().map(|task| PlannedTask {
        name: task.name.clone(),
        wcet: task.wcet,
        budget: task.budget,
        period: task.period,
        deadline: task.deadline,
        rank: 0,
        cluster: 0,
        offset: Nanos::new(0),
        longest_delay: Nanos::new(0),
        set: task.set.clone(),
    });
    Ok(ranked(planned.collect(), |at| tasks[at].priority))
}

/// Assigns ranks by the given priorities; equal priorities become equal ranks. Tasks without priorities are ranked
/// by deadline, and tasks with equal deadlines by their position.
fn ranked(
    mut tasks: Vec<PlannedTask>,
    priority: impl Fn(usize) -> Option<u32>,
) -> Vec<PlannedTask> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&at| (priority(at).unwrap_or(0), tasks[at].deadline, at));
    let equal = |&a: &usize, &b: &usize| priority(a).is_some() && priority(a) == priority(b);
    for (rank, level) in order.chunk_by(equal).enumerate() {
        for &at in level {
            tasks[at].rank = rank as u32;
        }
    }
    tasks
}

/// Assigns a cluster to each task; the largest task comes first and goes to the cluster with most free share.
fn placed(mut tasks: Vec<PlannedTask>, clusters: &[CpuList]) -> Vec<PlannedTask> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    let falling =
        |&a: &usize, &b: &usize| tasks[b].utilisation().total_cmp(&tasks[a].utilisation());
    order.sort_by(falling);
    let mut used = vec![0.0; clusters.len()];
    for at in order {
        let per_cpu = |cluster: usize| used[cluster] / clusters[cluster].len() as f64;
        let freest = (0..clusters.len()).min_by(|&a, &b| per_cpu(a).total_cmp(&per_cpu(b)));
        tasks[at].cluster = freest.unwrap_or(0);
        used[tasks[at].cluster] += tasks[at].utilisation();
    }
    tasks
}

/// Assigns each task to the cluster at `places`.
fn in_clusters(mut tasks: Vec<PlannedTask>, places: &[usize]) -> Vec<PlannedTask> {
    tasks.iter_mut().zip(places).for_each(|(task, &place)| task.cluster = place);
    tasks
}

/// Scales all execution times by one factor so that no cluster, and no task, uses more than `share` of its CPUs.
fn scaled(
    mut tasks: Vec<PlannedTask>,
    clusters: &[CpuList],
    share: f64,
) -> (Vec<PlannedTask>, f64) {
    let mut used = vec![0.0; clusters.len()];
    for task in &tasks {
        used[task.cluster] += task.utilisation();
    }
    let fullest = (0..clusters.len()).map(|it| used[it] / clusters[it].len().max(1) as f64);
    let largest = tasks.iter().map(PlannedTask::utilisation);
    let most = fullest.chain(largest).fold(0.0, f64::max);
    let scale = if most > share { share / most } else { 1.0 };
    for task in &mut tasks {
        task.wcet = Nanos::new(((task.wcet.get() as f64 * scale) as u64).max(1));
        // What was charged to a job does not shrink with the job.
        let charged = |budget: Nanos| Nanos::new(budget.get().max(task.wcet.get()));
        task.budget = task.budget.map(charged);
    }
    (tasks, scale)
}

impl Experiment for TaskSets {
    fn name(&self) -> &'static str {
        "schedule-sensitive"
    }

    /// The plan has one replicate because every run starts its threads and maps its memory anew.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(self.tasks(platform, seed)?.units())
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let mut tasks = self.tasks(platform, seed)?;
        tasks.renumber(turn.block);
        let mut wanted = quota.iter().map(|&samples| samples > 0);
        tasks.runs.retain(|_| wanted.next().unwrap_or(false));
        Ok(Plan::new(self.name(), seed, tasks))
    }
}

#[cfg(test)]
mod tests;
