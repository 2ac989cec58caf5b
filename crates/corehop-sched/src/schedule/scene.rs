// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of CPUs that are simulated together, with the tasks that only these CPUs run.

use crate::Test;
use crate::charge::{ChargedAnswer, ChargedSet};
use crate::deployment::ranks;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::{JobPreference, MigrationReach, Scheduler};
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// The rule by which a scheduler prefers one job to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityRule {
    /// The job with the earlier deadline runs first.
    Deadline,
    /// The job with the smaller rank runs first, and among equal ranks the job that was released
    /// earlier.
    Rank,
}

/// A group of CPUs, and the tasks that only these CPUs run.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The CPUs of the group.
    pub cpus: Vec<usize>,
    /// The indexes of the tasks in the set.
    pub tasks: Vec<usize>,
    pub(super) parameters: Vec<Task>,
    pub(super) by: PriorityRule,
    pub(super) ranks: Vec<u32>,
    /// The reload time of a job of each task: when it resumes on the CPU that it left, and when it
    /// resumes on another CPU.
    pub(super) resumed: Vec<Time>,
    pub(super) moved: Vec<Time>,
}

impl Scene {
    /// Whether jobs reload when they resume.
    pub(super) fn with_delays(&self) -> bool {
        self.resumed.iter().chain(&self.moved).any(|&delay| delay > Time::ZERO)
    }

    /// A copy of the scene whose jobs lose nothing when they are preempted.
    #[must_use]
    pub(super) fn without_delays(&self) -> Self {
        let none = vec![Time::ZERO; self.tasks.len()];
        Self { resumed: none.clone(), moved: none, ..self.clone() }
    }
}

/// A set in the form that the simulation runs.
#[derive(Debug, Clone)]
pub struct Scenes {
    /// The groups of CPUs.
    pub all: Vec<Scene>,
    /// Whether the simulation chose the CPUs of tasks, because neither the set nor the answer
    /// states them.
    pub assigned: bool,
    /// The costs that the verdict includes and the simulation does not, as nouns.
    pub without: Vec<&'static str>,
}

/// Returns the groups of CPUs on which the set's scheduler runs the tasks.
///
/// # Errors
/// Returns the reason why the set cannot be simulated.
pub fn scenes(
    set: &TaskSet,
    scheduler: Scheduler,
    test: &Test,
    asked: &ChargedAnswer,
    charged: &mut ChargedSet<'_>,
) -> Result<Scenes, String> {
    let by = match scheduler.order() {
        JobPreference::Deadline => PriorityRule::Deadline,
        JobPreference::Rank => PriorityRule::Rank,
        JobPreference::Fair => return Err(format!("schedules of {scheduler} are not simulated")),
    };
    if set.chains().is_some_and(|it| (0..set.tasks().len()).any(|at| it.activator(at).is_some())) {
        return Err("schedules of tasks that activate each other are not simulated".to_owned());
    }
    let (groups, assigned) = groups(set, scheduler, test, asked, charged)?;
    let delays = charged.simulated_delays(test).ok().flatten();
    let known = delays.is_some();
    let none = || vec![Time::ZERO; set.tasks().len()];
    let [resumed, moved] = delays.unwrap_or_else(|| [none(), none()]);
    let ranks = ranks(set, asked);
    let scene = |(cpus, tasks): (Vec<usize>, Vec<usize>)| Scene {
        parameters: tasks.iter().map(|&at| set.tasks()[at]).collect(),
        by,
        ranks: tasks.iter().map(|&at| ranks[at]).collect(),
        resumed: tasks.iter().map(|&at| resumed[at]).collect(),
        moved: tasks.iter().map(|&at| moved[at]).collect(),
        cpus,
        tasks,
    };
    let blocked = set.tasks().iter().any(|task| task.blocking > Time::ZERO);
    let without = [
        (blocked, "blocking"),
        (set.tasks().iter().any(|task| task.suspension > Time::ZERO), "suspension"),
        (set.locks().is_some(), "locks"),
        (asked.supply.is_some(), "gaps of the supply"),
        (charged.has_overheads(), "the overheads of the operating system"),
        (charged.has_slow_cpus(), "slower CPUs"),
        (!known, "delays"),
        (set.cache().is_some(), "reloads of cache blocks"),
    ];
    let without = without.into_iter().filter(|it| it.0).map(|it| it.1).collect();
    let all = groups.into_iter().filter(|it| !it.1.is_empty()).map(scene).collect();
    Ok(Scenes { all, assigned, without })
}

/// CPUs with their tasks.
type ClusterTasks = (Vec<usize>, Vec<usize>);

/// The groups of CPUs with their tasks, and whether this function chose the groups.
fn groups(
    set: &TaskSet,
    scheduler: Scheduler,
    test: &Test,
    asked: &ChargedAnswer,
    charged: &ChargedSet<'_>,
) -> Result<(Vec<ClusterTasks>, bool), String> {
    let all: Vec<usize> = (0..set.cpus() as usize).collect();
    let reach = if set.cpus() == 1 { MigrationReach::Global } else { scheduler.reach() };
    let found = asked.answer.placement.as_deref().or_else(|| set.placement());
    let Some(places) = found else {
        return Ok(match reach {
            MigrationReach::Global => (vec![(all, (0..set.tasks().len()).collect())], false),
            MigrationReach::Partitioned => (by_worst_fit(set, singles(set.cpus())), true),
            MigrationReach::Clustered => (by_worst_fit(set, charged.clusters_of(test)?), true),
        });
    };
    let mut masks = Vec::new();
    for place in places {
        match place {
            TaskPlacement::Cpus(cpus) => masks.push(cpus.clone()),
            _ => return Err("tasks that run in pieces or by shares are not simulated".to_owned()),
        }
    }
    if reach == MigrationReach::Partitioned && masks.iter().any(|mask| mask.len() > 1) {
        if masks.iter().all(|mask| mask.len() == all.len()) {
            return Ok((by_worst_fit(set, singles(set.cpus())), true));
        }
        return Err(
            "tasks may run on several CPUs, but a simulation needs one CPU for each task (`cpus`)"
                .to_owned(),
        );
    }
    let mut groups: Vec<ClusterTasks> = Vec::new();
    for (at, mask) in masks.into_iter().enumerate() {
        if let Some(group) = groups.iter_mut().find(|it| it.0 == mask) {
            group.1.push(at);
        } else if groups.iter().any(|it| it.0.iter().any(|cpu| mask.contains(cpu))) {
            return Err("tasks whose CPUs overlap and differ are not simulated".to_owned());
        } else {
            groups.push((mask, vec![at]));
        }
    }
    groups.sort();
    Ok((groups, false))
}

fn singles(cpus: u32) -> Vec<Vec<usize>> {
    (0..cpus as usize).map(|cpu| vec![cpu]).collect()
}

/// Assigns tasks by falling utilisation, each to the bin with the most capacity left.
fn by_worst_fit(set: &TaskSet, bins: Vec<Vec<usize>>) -> Vec<ClusterTasks> {
    let u = |at: usize| set.tasks()[at].wcet.as_f64() / set.tasks()[at].period.as_f64();
    let mut order: Vec<usize> = (0..set.tasks().len()).collect();
    order.sort_by(|&a, &b| u(b).total_cmp(&u(a)).then(a.cmp(&b)));
    let mut groups: Vec<ClusterTasks> = bins.into_iter().map(|cpus| (cpus, Vec::new())).collect();
    let mut loads = vec![0.0_f64; groups.len()];
    for at in order {
        let emptiest = (0..groups.len()).min_by(|&a, &b| loads[a].total_cmp(&loads[b]));
        let Some(bin) = emptiest else { break };
        loads[bin] += u(at) / groups[bin].0.len() as f64;
        groups[bin].1.push(at);
    }
    for group in &mut groups {
        group.1.sort_unstable();
    }
    groups
}
