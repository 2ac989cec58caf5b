// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment `schedule-sensitive` with task sets: drawn ones (Bastoni et al., section 4.1), or
//! given ones, placed on clusters of CPUs and scaled to a share of them.

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

/// The task sets that run, the duration, and the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSets {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The scheduler loaded with sched_ext that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<String>,
    /// The tasks.
    pub source: TaskOrigin,
    /// For how long each set runs.
    pub duration: Nanos,
    /// The loads under which each runs.
    pub loads: Vec<Load>,
    /// The most that the tasks may use of each CPU, 0 to 1: execution times are scaled down to it.
    pub share: f64,
    /// The CPUs to use; all usable ones if none are named.
    #[serde(default)]
    pub cpus: CpuList,
    /// Whether each set also runs without being watched, in turn before and after.
    #[serde(default)]
    pub paired: bool,
    /// The cache level whose sharing makes clusters; the outermost that makes more than one if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_level: Option<u32>,
}

/// The origin of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOrigin {
    /// Drawn at random.
    Drawn(RandomSets),
    /// As they are.
    Given(Vec<GivenTask>),
}

/// Random task sets: for each number of tasks and each working set, so many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSets {
    /// Numbers of tasks.
    pub task_counts: Vec<u32>,
    /// Sets of each kind.
    pub sets: u32,
    /// Utilisations are drawn uniformly from the first to the second.
    pub utilisation: (f64, f64),
    /// Periods are drawn uniformly from the first to the second, in whole microseconds.
    pub period: (Nanos, Nanos),
    /// The longest delay of a release as a share of the period: 0 makes periodic tasks.
    pub sporadic: f64,
    /// The working sets; all tasks of a set have the same.
    pub working_sets: Vec<WorkingSet>,
}

impl RandomSets {
    /// The parameters of a preset.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::Bastoni => Self::bastoni(),
            Preset::Quick | Preset::Waechtler => Self::quick(),
        }
    }

    /// 10 and 20 tasks of 64 and 256 KiB; six sets of each, since fewer replicates have no interval.
    fn quick() -> Self {
        let set = |kib| WorkingSet::list(Bytes::from_kib(kib), 0.5);
        let working_sets = vec![set(64), set(256)];
        Self { task_counts: vec![10, 20], sets: 6, working_sets, ..Self::bastoni() }
    }

    /// 25 to 250 tasks, utilisations U[0.001, 0.1], periods U[10, 100] ms, 4 to 2048 KiB, write ratios
    /// 1/2 and 1/4, ten sets of each (Bastoni et al., section 4.1).
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

/// A task as a file of tasks gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenTask {
    /// Its name.
    pub name: Option<String>,
    /// Its execution time.
    pub wcet: Nanos,
    /// The time after which the kernel stops a job under SCHED_DEADLINE; the execution time if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// Its period.
    pub period: Nanos,
    /// Its relative deadline.
    pub deadline: Nanos,
    /// Its rank for fixed priorities; the smaller is served first. By deadline if left out.
    pub priority: Option<u32>,
    /// The CPU that it was assigned, by its place among those of the set; the largest task goes where most
    /// is free if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The several CPUs that it was assigned, by their places among those of the set: those of a cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// The working set of its jobs.
    pub set: WorkingSet,
}

impl GivenTask {
    /// The CPUs that it was assigned, by their places among those of the set; none where it has no CPU of its own.
    fn places(&self) -> Vec<usize> {
        if self.cpus.is_empty() { self.cpu.into_iter().collect() } else { self.cpus.clone() }
    }

    /// `task 3 (`video`)`.
    fn called(&self, at: usize) -> String {
        let name = self.name.as_ref().map(|name| format!(" (`{name}`)"));
        format!("task {at}{}", name.unwrap_or_default())
    }
}

impl TaskSets {
    /// For how long a preset runs each set.
    pub const fn duration(preset: Preset) -> Nanos {
        match preset {
            Preset::Bastoni => Nanos::from_secs(60),
            Preset::Quick | Preset::Waechtler => Nanos::from_secs(2),
        }
    }

    /// The runs: every set under every load.
    ///
    /// # Errors
    /// [`TasksError`] for clusters that the platform does not have, and parameters that make no
    /// sense.
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

    /// The runs of set `index`: each load, watched, or both ways in an order that changes from set to set.
    /// The loads take turns in going first, so that what a machine does slowly favours none.
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

    /// The groups of CPUs among which tasks migrate.
    fn clusters(&self, platform: &Platform) -> Result<Vec<CpuList>, String> {
        let cpus = self.used(platform);
        Ok(match self.scheduler.reach() {
            MigrationReach::Global => vec![cpus],
            MigrationReach::Partitioned => cpus.iter().map(|cpu| CpuList::new([cpu])).collect(),
            MigrationReach::Clustered => clusters::of_cpus(platform, &cpus, self.cluster_level)?,
        })
    }

    /// The cluster that each task was assigned by its CPUs, where any was.
    ///
    /// # Errors
    /// The first task whose CPUs are no cluster of the scheduler.
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
                return Err(format!("{task} has CPU {place} of {count}, but CPUs count from 0"));
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

    /// The CPUs of the runs.
    fn used(&self, platform: &Platform) -> CpuList {
        if self.cpus.is_empty() { platform.usable() } else { self.cpus.clone() }
    }

    /// The tasks of every set with its number, not placed yet. Neither scheduler, load nor working set
    /// change what is drawn, so that all of them see the same tasks.
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
            Some(count) => Err(format!("{count} tasks: 1 to {MOST_TASKS} can run")),
            None => Ok(()),
        }
    }

    /// Set `index` of those with `count` tasks.
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

/// Given tasks, all released together at the start. What makes no sense is refused before scaling
/// could make it look sensible.
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

/// Ranks by the priorities given: equal ones are equal ranks. Where there are none, by deadline, ties by place.
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

/// The tasks with a cluster each, the largest first to where most is free.
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

/// The tasks in these clusters.
fn in_clusters(mut tasks: Vec<PlannedTask>, places: &[usize]) -> Vec<PlannedTask> {
    tasks.iter_mut().zip(places).for_each(|(task, &place)| task.cluster = place);
    tasks
}

/// The tasks with all execution times scaled by one factor, so that no cluster, and no task, uses more
/// than `share` of its CPUs.
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

    /// Every run starts its threads and maps its memory anew: one replicate of the plan is enough.
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
