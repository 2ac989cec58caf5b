// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs task sets under the kernel's schedulers: the schedule-sensitive method (Bastoni et al., section 3.1).
//!
//! Every task is a thread. All threads wait until their policies are set and the first release is near. Then the
//! coordinator (the calling thread) sleeps, and passes records on four times per second.

mod cpusets;
mod crew;
mod policy;
mod recruit;
mod share;
mod worker;

use std::sync::atomic::AtomicU32;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehop_plan::experiment::{TaskRun, Tasks};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::units::CpuList;
use corehop_plan::workload::scheduler::{JobPreference, Scheduler};
use corehop_plan::workload::{Load, WorkingSet};
use serde_json::json;

use super::calibrate::TickCalibration;
use super::counters::HostCounters;
use super::{LiveMachine, failed, not_possible};
use crate::bpf::control::{ControlPages, PagePurpose};
use crate::bpf::sched_ext::{self, SchedulerAttachment};
use crate::control_page::AbsenceMethod;
use crate::memory::available_memory;
use crate::walk::StampCost;
use corehop_system::clock::monotonic_ns;
use corehop_system::proc;
use corehop_system::thread::{apart, best_ordinary_policy, set_affinity};

use cpusets::{Partitions, Permission};
use crew::{CrewState, TaskCrew, room};
use policy::KernelPolicy;
use recruit::Recruit;

/// The time from the moment when the last thread is ready to the first possible release.
const LEAD: Duration = Duration::from_millis(50);

impl LiveMachine {
    /// Runs every task set, one after the other.
    pub(crate) fn run_tasks(
        &mut self,
        plan: &Tasks,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let available = available_memory();
        for run in 0..plan.runs.len() {
            share::fits(plan, run)?;
            share::fits_memory(&plan.runs[run], available)?;
        }
        for run in 0..plan.runs.len() {
            if self.run_set((plan, seed), run, sink)? == RunEnd::Stopped {
                return Ok(RunEnd::Stopped);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Runs one task set to its end.
    fn run_set(
        &mut self,
        (plan, seed): (&Tasks, u64),
        run: usize,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let it = &plan.runs[run];
        let mut load = self.start_load((&it.load, false), &it.cpus(), seed)?;
        let partitions = self.partitions(plan.scheduler, it)?;
        let scheduler = self.sched_ext(plan)?;
        let crew = self.muster((plan, seed), run, partitions.as_ref())?;
        let policies = crew.set_policies(plan.scheduler, it);
        let outcome = match policies {
            Ok(()) => {
                if let Some(events) = &self.events {
                    events.begin();
                }
                crew.start(monotonic_ns() + LEAD.as_nanos() as u64);
                crew.drain(it, sink, || load.check().and_then(|()| all_online(&it.cpus())))
            }
            Err(error) => Err(error),
        };
        let methods = crew.end();
        if it.watched {
            self.note_tasks(plan, it, &methods, load.progress());
        }
        if outcome.is_ok() && scheduler.is_some_and(|it| !it.is_in_charge()) {
            let what = "scheduling by sched_ext";
            return Err(failed(
                what,
                "the kernel unloaded the scheduler before the task set had ended",
            ));
        }
        let ended = partitions.map_or(Ok(()), Partitions::end);
        outcome.and_then(|outcome| ended.map(|()| outcome))
    }

    /// The cpuset partitions that the kernel needs for the clusters of `SCHED_DEADLINE`; none if a single cluster has
    /// all CPUs.
    fn partitions(
        &self,
        scheduler: Scheduler,
        run: &TaskRun,
    ) -> Result<Option<Partitions>, MachineError> {
        let all = run.clusters.len() == 1 && run.cpus() == *self.platform.online();
        if scheduler.order() != JobPreference::Deadline || all {
            return Ok(None);
        }
        let (allow_system, duration) = (self.options.allow_system, run.duration);
        let permission = Permission { allow_system, duration };
        Partitions::make(&run.clusters, &self.guard, permission).map(Some)
    }

    /// The `sched_ext` scheduler that the plan requires, if it requires one: a scheduler that is already loaded, or
    /// corehop's own, which stays loaded as long as the returned value.
    fn sched_ext(&self, plan: &Tasks) -> Result<Option<SchedulerAttachment>, MachineError> {
        if plan.scheduler != Scheduler::SchedExt {
            return Ok(None);
        }
        let refused = |why: String, remedy: &str| MachineError::NotPossible {
            what: "scheduling by sched_ext".to_owned(),
            why,
            remedy: remedy.to_owned(),
        };
        match (&plan.sched_ext, sched_ext::loaded_name()) {
            (Some(meant), Some(loaded)) if *meant == loaded => Ok(None),
            (Some(meant), loaded) => {
                let instead = loaded.map_or("no other is".to_owned(), |it| format!("`{it}` is"));
                let why = format!("`{meant}` is not loaded: {instead}");
                Err(refused(why, "load this scheduler first, or omit its name"))
            }
            (None, Some(_)) => Ok(None),
            (None, None) if !self.options.allow_system => Err(refused(
                "no sched_ext scheduler is loaded, and a loaded scheduler schedules all ordinary threads of the machine".to_owned(),
                "load a scheduler, or let corehop load a scheduler while the sets run (--allow-system)",
            )),
            (None, None) => sched_ext::load()
                .map(Some)
                .map_err(|error| refused(error.to_string(), "or use --scheduler eevdf")),
        }
    }

    /// Starts the threads of a set and waits until each is set up.
    fn muster(
        &mut self,
        (plan, seed): (&Tasks, u64),
        run: usize,
        partitions: Option<&Partitions>,
    ) -> Result<TaskCrew, MachineError> {
        let it = &plan.runs[run];
        let calibration = self.calibrated(&it.load, it)?;
        let pages = self.control_pages(it.watched);
        let stamps = stamp_costs(it)?;
        let shared = Arc::new(CrewState {
            records: Mutex::new(room(it)),
            peers: Arc::new(it.tasks.iter().map(|_| AtomicU32::new(0)).collect()),
            running: AtomicU32::new(it.tasks.len() as u32),
            ..CrewState::default()
        });
        let (own_plan, (report, reports)) = (Arc::new(plan.of_run(run)), channel());
        let mut crew = TaskCrew { shared: shared.clone(), starts: Vec::new(), threads: Vec::new() };
        for (task, planned) in it.tasks.iter().enumerate() {
            let of_set = stamps.iter().find(|(set, _)| *set == planned.set);
            let recruit = Recruit {
                plan: own_plan.clone(),
                seed,
                run,
                task,
                clock: self.clock,
                calibration,
                stamps: of_set.map_or(StampCost::default(), |(_, cost)| *cost),
                pages: pages.clone(),
                counters: self.counters.clone(),
                door: partitions.map(|it| it.door(planned.cluster)),
                cpus: bound(plan.scheduler, it, task),
                policy: KernelPolicy::of(plan.scheduler, it, planned),
                shared: shared.clone(),
            };
            let (start, started) = channel();
            crew.starts.push(start);
            let report = report.clone();
            let thread = std::thread::Builder::new()
                .name(format!("task-{task}"))
                .spawn(move || recruit.serve(&report, &started));
            match thread {
                Ok(thread) => crew.threads.push(thread),
                Err(error) => {
                    crew.end();
                    return Err(failed("starting the threads of a task set", error));
                }
            }
        }
        drop(report);
        crew.all_ready(&reports)
    }

    /// The calibration of time stamps and holes by the first thread under a load.
    fn calibrated(&mut self, load: &Load, run: &TaskRun) -> Result<TickCalibration, MachineError> {
        if let Some(known) = self.calibration(load) {
            return Ok(known);
        }
        let (clock, cpu) = (self.clock, run.cpus().first().unwrap_or_default());
        let measure = move || {
            best_ordinary_policy();
            let _anywhere_else = set_affinity([cpu]);
            TickCalibration::measure(&clock, |_| ())
        };
        let measured = apart(measure).map_err(|error| failed("calibrating", error))?;
        let calibration = measured.map_err(|error| not_possible(&error))?;
        self.calibrations.push((load.clone(), calibration));
        Ok(calibration)
    }

    /// The control pages, or the reason why there are none. A run without detection loads none of the BPF programs.
    fn control_pages(&mut self, watched: bool) -> ControlPagesResult {
        if !watched {
            self.pages = None;
            self.counters = Arc::new(HostCounters::default());
            return Err("the run is not watched".to_owned());
        }
        self.open_counters();
        let open = || ControlPages::open(PagePurpose::Own).map_err(|error| error.to_string());
        self.pages.get_or_insert_with(open).clone()
    }

    /// Stores what the provenance says about a set.
    fn note_tasks(
        &mut self,
        plan: &Tasks,
        run: &TaskRun,
        methods: &[AbsenceMethod],
        progress: super::load::LoadProgress,
    ) {
        let mut noticed: Vec<&str> = methods.iter().map(|method| method.name()).collect();
        noticed.sort_unstable();
        noticed.dedup();
        let why_not = match &self.pages {
            Some(Err(why)) => Some(why.clone()),
            _ => None,
        };
        self.facts.insert(
            "tasks".to_owned(),
            json!({
                "scheduler": plan.scheduler,
                "sched_ext": plan.sched_ext.clone().or_else(sched_ext::loaded_name),
                "absences_noticed_by": noticed,
                "why_no_control_page": why_not,
                "ranks_that_share_a_priority": match plan.scheduler.order() {
                    JobPreference::Rank => Some(policy::shared_priorities(run)),
                    _ => None,
                },
            }),
        );
        self.note_load(&run.load, progress);
    }
}

/// Checks that all CPUs are online, because a thread whose CPU goes offline silently runs on another CPU, which would
/// be another experiment.
fn all_online(cpus: &CpuList) -> Result<(), MachineError> {
    let online = proc::text("/sys/devices/system/cpu/online").unwrap_or_default();
    match offline(cpus, &online) {
        None => Ok(()),
        Some(gone) => Err(failed(
            "running a task set",
            format!(
                "CPUs {gone} went offline, and the tasks now run on other CPUs; see `corehop sim platform`"
            ),
        )),
    }
}

/// The part of `cpus` that is missing in the kernel's list of CPUs; `None` if the list is unknown.
fn offline(cpus: &CpuList, online: &str) -> Option<CpuList> {
    let online: CpuList = online.parse().ok()?;
    let gone = CpuList::new(cpus.iter().filter(|&cpu| !online.contains(cpu)));
    (!gone.is_empty() && !online.is_empty()).then_some(gone)
}

/// The control pages, or the reason why there are none.
pub(super) type ControlPagesResult = Result<Arc<ControlPages>, String>;

/// The cost of time stamps for each distinct working set.
fn stamp_costs(run: &TaskRun) -> Result<Vec<(WorkingSet, StampCost)>, MachineError> {
    let mut costs: Vec<(WorkingSet, StampCost)> = Vec::new();
    for task in &run.tasks {
        if costs.iter().all(|(set, _)| *set != task.set) {
            let cost = StampCost::measure(&task.set).map_err(|error| not_possible(&error))?;
            costs.push((task.set.clone(), cost));
        }
    }
    Ok(costs)
}

/// The CPUs to which the thread of a task binds itself; `None` for `SCHED_DEADLINE`, whose threads must be allowed on
/// all of their partition.
fn bound(scheduler: Scheduler, run: &TaskRun, task: usize) -> Option<CpuList> {
    let itself = scheduler.order() != JobPreference::Deadline;
    itself.then(|| run.clusters[run.tasks[task].cluster].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_of_the_set_that_is_not_online_any_more_is_named() {
        let set: CpuList = "0,4-5".parse().unwrap();
        let gone = |online| offline(&set, online).map(|cpus| cpus.to_string());
        assert_eq!(gone("0-3,5-7\n").as_deref(), Some("4"));
        assert_eq!(gone("0-7\n"), None);
        assert_eq!(gone("0,4-5\n"), None, "others may go");
        assert_eq!(gone(""), None, "no such file says nothing");
    }
}
