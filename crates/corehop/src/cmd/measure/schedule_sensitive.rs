// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure schedule-sensitive`: task sets, their scheduler, and the duration of runs.

use std::path::{Path, PathBuf};

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::{
    GivenTask, Length, Preset, RandomSets, TaskOrigin, TaskSets, UnknownPreset,
};
use corehop_plan::platform::Platform;
use corehop_plan::shown;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::{JobPreference, MigrationReach, Scheduler};
use corehop_plan::workload::task::{Task, TaskSet};
use corehop_plan::workload::{Load, Page, Pattern, WorkingSet};

use super::jobs::{SetArgs, some_cpus};
use super::loads::LoadArgs;
use super::on;
use super::partitioning::SetSamplingOptions;
use super::to::{Extent, SeedOptions, To};
use crate::output::note;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::quantities::{length, percent, ratio};
use corehop_app::run::LIVE_SHARE;
use corehop_app::task_files;

/// The heading of these options in the help.
const HEADING: &str = "Task sets (schedule-sensitive, overheads)";

/// The defaults for overheads: the numbers of tasks, the number of sets (replicates) for each, and the duration of
/// each set.
const OVERHEADS_COUNTS: [u32; 4] = [2, 10, 25, 50];
const OVERHEADS_SETS: u32 = 8;
const OVERHEADS_DURATION: Nanos = Nanos::from_millis(400);

/// The options of `corehop measure schedule-sensitive`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take the task sets and the duration of each run from this preset: quick, or bastoni (section 4.1)
    #[arg(long, default_value = "quick")]
    preset: Preset,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    draws: SeedOptions,
    #[command(flatten)]
    sampled: SetSamplingOptions,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    #[command(flatten)]
    tasks: TaskArgs,
    /// Run each set alternately with and without observation, and report the effect of observation
    #[arg(long, help_heading = HEADING)]
    paired: bool,
    #[command(flatten)]
    sets: SetArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        if self.preset == Preset::Waechtler {
            let what = "--preset waechtler has no task sets: expected quick or bastoni";
            return Err(Failure::says(Exit::Usage, what));
        }
        self.load.refuse_without_load()?;
        let platform = self.to.platform()?;
        let asked = TaskSetRequest {
            platform: &platform,
            live: self.to.on == on::LIVE,
            preset: self.preset,
            loads: self
                .load
                .load(&platform)?
                .map_or_else(|| self.usual_loads(&platform), |load| vec![load]),
            cpus: self.cpus.clone().unwrap_or_default(),
            like: WorkingSet {
                pattern: self.sets.pattern.unwrap_or(Pattern::Shuffled),
                page: self.sets.page.unwrap_or(Page::Base),
                chains: self.sets.chains.unwrap_or(1),
                node: self.sets.node,
                ..WorkingSet::list(Bytes::from_kib(64), 0.5)
            },
            sizes: &self.sets.wss,
            ratios: &self.sets.write_ratio,
        };
        let experiment = TaskSets { paired: self.paired, ..self.tasks.experiment(&asked)? };
        let options = LiveMachineOptions {
            allow_system: self.tasks.allow_system,
            ..LiveMachineOptions::default()
        };
        let extent = Extent { sampling: self.sampled.sampling(), ..Extent::WHOLE };
        self.to.carry_out(platform, &experiment, &self.draws, extent, options)
    }

    /// The default loads: idle, and a polluter on each CPU, as in Bastoni et al., section 4.1.
    fn usual_loads(&self, platform: &Platform) -> Vec<Load> {
        let polluter = self.load.polluter.clone().unwrap_or_else(|| Preset::polluter(platform));
        let cpus = self.load.load_cpus.clone().unwrap_or_default();
        vec![Load::Idle, Load::Constructed { polluter, cpus }]
    }
}

/// The options for the task sets and their scheduler.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TaskArgs {
    /// Run the task sets under this scheduler: g-edf, c-edf, p-edf, g-fp, p-fp, eevdf, or sched_ext (`sched_ext:NAME`
    /// for the loaded scheduler NAME). By default, corehop takes the `scheduler` of --task-set, otherwise g-edf
    #[arg(long, value_name = "NAME", value_parser = scheduler, help_heading = HEADING)]
    scheduler: Option<NamedScheduler>,
    /// Draw task sets with these numbers of tasks, for example `25,50,75`
    #[arg(long = "tasks", value_name = "N", value_delimiter = ',', help_heading = HEADING)]
    counts: Vec<u32>,
    /// Run the tasks of this file, in the format of `corehop check`, instead of drawn tasks
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["counts", "sets", "utilisation", "period", "sporadic"], help_heading = HEADING)]
    task_set: Option<PathBuf>,
    /// Draw this many task sets for each number of tasks, working set and write ratio
    #[arg(long, value_name = "N", help_heading = HEADING)]
    sets: Option<u32>,
    /// Run each task set for this long
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    duration: Option<Nanos>,
    /// Draw utilisations uniformly from this range, for example `0.001..0.1`
    #[arg(long, value_name = "LOW..HIGH", value_parser = range, help_heading = HEADING)]
    utilisation: Option<(f64, f64)>,
    /// Draw periods uniformly from this range, for example `10..100ms`
    #[arg(long, value_name = "LOW..HIGH", value_parser = times, help_heading = HEADING)]
    period: Option<(Nanos, Nanos)>,
    /// Make tasks sporadic: delay each release by up to this share of the period
    #[arg(long, value_name = "SHARE", value_parser = ratio, help_heading = HEADING)]
    sporadic: Option<f64>,
    /// Let a set use at most this share of each CPU; corehop scales execution times down to this share. Real-time
    /// tasks on this host may use at most 50%
    #[arg(long, value_name = "PERCENT%", value_parser = percent, help_heading = HEADING)]
    share: Option<f64>,
    /// Form the clusters of c-edf at this cache level; default: the outermost level with more than one cluster
    #[arg(long, value_name = "LEVEL", help_heading = HEADING)]
    cluster_level: Option<u32>,
    /// Allow changes that affect the whole machine for seconds. With cgroup v1, clusters and partitions of CPUs
    /// switch off the load balancing of the machine
    #[arg(long, help_heading = HEADING)]
    pub(super) allow_system: bool,
}

/// A scheduler, with its name if several schedulers of that kind could be loaded.
type NamedScheduler = (Scheduler, Option<String>);

/// The facts that [`TaskArgs`] needs from the other options of the command.
#[derive(Debug)]
struct TaskSetRequest<'a> {
    platform: &'a Platform,
    live: bool,
    preset: Preset,
    loads: Vec<Load>,
    cpus: CpuList,
    /// The working set to copy with other sizes and write ratios.
    like: WorkingSet,
    sizes: &'a [Bytes],
    ratios: &'a [f64],
}

impl TaskArgs {
    /// The requested experiment.
    fn experiment(&self, asked: &TaskSetRequest<'_>) -> Result<TaskSets, Failure> {
        let (source, cpus, stated) = match &self.task_set {
            Some(path) => of_file(path, asked)?,
            None => (TaskOrigin::Drawn(self.drawn(asked)), asked.cpus.clone(), None),
        };
        let usual = (stated.unwrap_or(Scheduler::GEdf), None);
        let (scheduler, sched_ext) = self.scheduler.clone().unwrap_or(usual);
        let clusters = scheduler.reach() == MigrationReach::Clustered;
        let what = format!("{scheduler} has no clusters: use --scheduler c-edf");
        refuse(&what, &[("--cluster-level", self.cluster_level.is_some() && !clusters)])?;
        let usual = match scheduler.order() {
            JobPreference::Fair => 1.0,
            _ if asked.live => LIVE_SHARE,
            _ => 1.0,
        };
        Ok(TaskSets {
            scheduler,
            sched_ext,
            source,
            duration: self.duration.unwrap_or_else(|| TaskSets::duration(asked.preset)),
            loads: asked.loads.clone(),
            share: self.share.unwrap_or(usual),
            paired: false,
            cpus,
            cluster_level: self.cluster_level,
        })
    }

    /// The task sets for measuring overheads: one small set for each number of tasks.
    pub(super) fn of_overheads(
        &self,
        platform: &Platform,
        cpus: CpuList,
    ) -> Result<TaskSets, Failure> {
        let mut own = self.clone();
        if own.counts.is_empty() && own.task_set.is_none() {
            own.counts = OVERHEADS_COUNTS.to_vec();
        }
        own.scheduler = own.scheduler.or(Some((Scheduler::Eevdf, None)));
        own.sets = own.sets.or_else(|| self.task_set.is_none().then_some(OVERHEADS_SETS));
        own.duration = own.duration.or(Some(OVERHEADS_DURATION));
        own.share = own.share.or(Some(LIVE_SHARE));
        let wss = Bytes::from_kib(64);
        own.experiment(&TaskSetRequest {
            platform,
            live: true,
            preset: Preset::Quick,
            loads: vec![Load::Idle],
            cpus,
            like: WorkingSet::list(wss, 0.5),
            sizes: &[wss],
            ratios: &[],
        })
    }

    fn drawn(&self, asked: &TaskSetRequest<'_>) -> RandomSets {
        let usual = RandomSets::preset(asked.preset);
        let or = |given: &[u32], usual| if given.is_empty() { usual } else { given.to_vec() };
        RandomSets {
            task_counts: or(&self.counts, usual.task_counts),
            sets: self.sets.unwrap_or(usual.sets),
            utilisation: self.utilisation.unwrap_or(usual.utilisation),
            period: self.period.unwrap_or(usual.period),
            sporadic: self.sporadic.unwrap_or(usual.sporadic),
            working_sets: like(asked, &usual.working_sets),
        }
    }
}

/// The tasks of a file, with the number of CPUs and the scheduler that the file states.
fn of_file(
    path: &Path,
    asked: &TaskSetRequest<'_>,
) -> Result<(TaskOrigin, CpuList, Option<Scheduler>), Failure> {
    let set = task_files::task_set(path)?;
    let usable = asked.platform.usable();
    let count = set.cpus() as usize;
    let cpus = if asked.cpus.is_empty() {
        CpuList::new(usable.iter().take(count))
    } else {
        asked.cpus.clone()
    };
    if cpus.len() != count {
        let what = format!(
            "{} needs {count} CPUs, but there are {}: name {count} CPUs with --cpus, or change the file",
            shown::path(path),
            cpus.len()
        );
        return Err(Failure::says(Exit::Usage, what));
    }
    let unused = not_produced(&set);
    if !unused.is_empty() {
        let unused = unused.join(", ");
        note(&format!("{}: the runs do not produce {unused}", shown::path(path)));
    }
    Ok((TaskOrigin::Given(given(&set, asked)?), cpus, set.scheduler()))
}

/// The fields of a task set that a run of the set does not show.
fn not_produced(set: &TaskSet) -> Vec<&'static str> {
    let fields = [("ucb, ecb", set.cache().is_some())];
    let others = fields.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name);
    set.unshown().into_iter().chain(others).collect()
}

/// The tasks of a set, each with a working set of its own size.
fn given(set: &TaskSet, asked: &TaskSetRequest<'_>) -> Result<Vec<GivenTask>, Failure> {
    let places: Vec<Vec<usize>> = match set.placement() {
        None => vec![Vec::new(); set.tasks().len()],
        Some(all) => {
            all.iter().map(|place| cpus_of(place, set.cpus())).collect::<Result<_, _>>()?
        }
    };
    let usual = asked.sizes.first().copied().unwrap_or(Bytes::from_kib(64));
    let ratio = asked.ratios.first().copied().unwrap_or(asked.like.write_ratio);
    let task = |(at, task): (usize, &Task)| GivenTask {
        name: set.names()[at].clone(),
        wcet: set.tick().nanos(task.wcet()),
        budget: set.budgets().map(|_| set.tick().nanos(set.budget(at))),
        period: set.tick().nanos(task.period()),
        deadline: set.tick().nanos(task.deadline()),
        priority: task.priority(),
        cpu: places[at].first().copied().filter(|_| places[at].len() == 1),
        cpus: if places[at].len() > 1 { places[at].clone() } else { Vec::new() },
        set: WorkingSet {
            wss: set.wss_kib()[at].map_or(usual, Bytes::from_kib),
            write_ratio: ratio,
            ..asked.like.clone()
        },
    };
    Ok(set.tasks().iter().enumerate().map(task).collect())
}

/// The CPUs assigned to a task; empty if the task may run on all of several CPUs.
fn cpus_of(place: &TaskPlacement, all: u32) -> Result<Vec<usize>, Failure> {
    match place {
        TaskPlacement::Cpus(cpus) if cpus.len() > 1 && cpus.len() == all as usize => Ok(Vec::new()),
        TaskPlacement::Cpus(cpus) => Ok(cpus.clone()),
        TaskPlacement::Pieces(_) | TaskPlacement::Shares(_) => Err(Failure::says(
            Exit::NotPossible,
            "Linux cannot move a job at a given point of its execution, so pieces and shares cannot run: assign each task one CPU, for example with `corehop check --test p-fp-ffd -o FILE.json`",
        )),
    }
}

/// The requested working sets; default: sizes and write ratios of the preset.
fn like(asked: &TaskSetRequest<'_>, usual: &[WorkingSet]) -> Vec<WorkingSet> {
    let mut all = Vec::new();
    for set in usual {
        let sizes =
            if asked.sizes.is_empty() { std::slice::from_ref(&set.wss) } else { asked.sizes };
        let ratio = std::slice::from_ref(&set.write_ratio);
        let ratios = if asked.ratios.is_empty() { ratio } else { asked.ratios };
        for &wss in sizes {
            for &write_ratio in ratios {
                let set = WorkingSet { wss, write_ratio, ..asked.like.clone() };
                if !all.contains(&set) {
                    all.push(set);
                }
            }
        }
    }
    all
}

/// `g-edf`, `sched_ext:NAME`.
fn scheduler(text: &str) -> Result<NamedScheduler, String> {
    match text.split_once(':') {
        Some(("sched_ext", name)) if !name.is_empty() => {
            Ok((Scheduler::SchedExt, Some(name.to_owned())))
        }
        _ => text.parse().map(|it| (it, None)).map_err(|error: UnknownPreset| error.to_string()),
    }
}

/// `0.001..0.1`
fn range(text: &str) -> Result<(f64, f64), String> {
    let wrong = || "write for example `0.001..0.1`".to_owned();
    let (low, high) = text.split_once("..").ok_or_else(wrong)?;
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) => Ok((low, high)),
        _ => Err(wrong()),
    }
}

/// Parses a range of times such as `10..100ms`, or a single time such as `50ms`.
fn times(text: &str) -> Result<(Nanos, Nanos), String> {
    match length(text)? {
        Length::Fixed(time) => Ok((time, time)),
        Length::Uniform(low, high) => Ok((low, high)),
        Length::Mean25 => Err("write for example `10..100ms`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_a_word_or_one_that_is_loaded_by_name() {
        assert_eq!(scheduler("p-edf"), Ok((Scheduler::PEdf, None)));
        assert_eq!(scheduler("sched_ext"), Ok((Scheduler::SchedExt, None)));
        let named = Ok((Scheduler::SchedExt, Some("scx_simple".to_owned())));
        assert_eq!(scheduler("sched_ext:scx_simple"), named);
        assert!(scheduler("edf").unwrap_err().contains("g-edf"));
        assert!(scheduler("g-edf:x").unwrap_err().contains("g-edf"));
    }

    #[test]
    fn ranges_are_two_numbers_or_times() {
        assert_eq!(range("0.001..0.1"), Ok((0.001, 0.1)));
        assert!(range("0.1").is_err() && range("a..b").is_err());
        let ms = Nanos::from_millis;
        assert_eq!(times("10..100ms"), Ok((ms(10), ms(100))));
        assert_eq!(times("50ms"), Ok((ms(50), ms(50))));
        assert!(times("uniform").is_err());
    }
}
