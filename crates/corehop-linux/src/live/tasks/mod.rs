// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets under the kernel's schedulers: the schedule-sensitive method (Bastoni et al., section 3.1).
//!
//! Every task is a thread. All of them wait, ready, until their policies are set and the first release is
//! near; then the coordinator (the caller) sleeps, and passes records on four times a second.

mod cpusets;
mod policy;
mod share;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use corehop_core::experiment::{Draw, TaskRun, Tasks};
use corehop_core::machine::{MachineError, RunEnd, Sink};
use corehop_core::samples::{Batch, TaskJobRecord};
use corehop_core::units::CpuList;
use corehop_core::workload::scheduler::{Order, Scheduler};
use corehop_core::workload::{Load, WorkingSet};
use serde_json::json;

use super::calibrate::Calibration;
use super::counters::Counters;
use super::{LiveMachine, failed, not_possible};
use crate::bpf::control::{ControlPages, Mode};
use crate::bpf::sched_ext::{self, Loaded};
use crate::clock::{Clock, monotonic_ns};
use crate::control_page::{Method, Notice};
use crate::memory::{SetMemory, available_memory};
use crate::rseq::Rseq;
use crate::thread::{best_ordinary_policy, set_affinity, set_affinity_everywhere};
use crate::walk::{StampCost, Walk};

use cpusets::{Partitions, Permission};
use policy::Policy;
use worker::{Peers, Worker};

/// The time from the last thread's readiness to the first possible release.
const LEAD: Duration = Duration::from_millis(50);

/// The interval at which records are passed on.
const PASS_ON: Duration = Duration::from_millis(250);

/// The interval at which a thread looks whether the run is to end, where its next release is far away.
const LOOK: Duration = Duration::from_millis(250);

const PANIC: &str = "a panic, whose message is above; please report it";

/// The data that the threads of a set share.
#[derive(Debug, Default)]
struct Shared {
    records: Mutex<Vec<TaskJobRecord>>,
    stop: AtomicBool,
    peers: Peers,
    running: AtomicU32,
    /// Whether a thread of the set has panicked.
    panicked: AtomicBool,
    /// By which ways threads notice absences.
    methods: Mutex<Vec<Method>>,
}

impl Shared {
    /// Counts a thread as running while it lives. Its panic must not leave the coordinator waiting, for its
    /// report or for its end.
    fn carry_out(&self, report: &Sender<Report>, life: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(life)).is_err() {
            self.panicked.store(true, Ordering::Release);
            // After the start there is no receiver any more.
            let _started = report.send(Err(PANIC.to_owned()));
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The message of a thread that has set itself up: ready, or the reason why not.
type Report = Result<(), String>;

/// The reply to a thread: the start of the run, or None if there is none.
type Start = Option<u64>;

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
}

impl LiveMachine {
    /// Runs one task set to its end.
    fn run_set(
        &mut self,
        (plan, seed): (&Tasks, u64),
        run: usize,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let it = &plan.runs[run];
        let mut load = self.start_load(&it.load, &it.cpus(), seed)?;
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
            return Err(failed(what, "the kernel put the scheduler off before the set had ended"));
        }
        let ended = partitions.map_or(Ok(()), Partitions::end);
        outcome.and_then(|outcome| ended.map(|()| outcome))
    }

    /// Clusters of CPUs that the kernel has to know of: those of `SCHED_DEADLINE`, unless there is one of
    /// all CPUs.
    fn partitions(
        &self,
        scheduler: Scheduler,
        run: &TaskRun,
    ) -> Result<Option<Partitions>, MachineError> {
        let all = run.clusters.len() == 1 && run.cpus() == *self.platform.online();
        if scheduler.order() != Order::Deadline || all {
            return Ok(None);
        }
        let (allow_system, duration) = (self.options.allow_system, run.duration);
        let permission = Permission { allow_system, duration };
        Partitions::make(&run.clusters, &self.guard, permission).map(Some)
    }

    /// The scheduler of the class `sched_ext` that the plan means, where it means one: one that is loaded, or
    /// ours, which is loaded for as long as the value lives.
    fn sched_ext(&self, plan: &Tasks) -> Result<Option<Loaded>, MachineError> {
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
                Err(refused(why, "load it first, or leave its name out"))
            }
            (None, Some(_)) => Ok(None),
            (None, None) if !self.options.allow_system => Err(refused(
                "none is loaded, and loading one makes it schedule all ordinary threads of the machine".to_owned(),
                "load one, or allow that for as long as the sets run with --allow-system",
            )),
            (None, None) => sched_ext::load()
                .map(Some)
                .map_err(|error| refused(error.to_string(), "or use --scheduler eevdf")),
        }
    }

    /// Starts the threads of a set and waits until each has set itself up.
    fn muster(
        &mut self,
        (plan, seed): (&Tasks, u64),
        run: usize,
        partitions: Option<&Partitions>,
    ) -> Result<Crew, MachineError> {
        let it = &plan.runs[run];
        let calibration = self.calibrated(&it.load, it)?;
        let pages = self.control_pages(it.watched);
        let stamps = stamp_costs(it)?;
        let shared = Arc::new(Shared {
            records: Mutex::new(room(it)),
            peers: Arc::new(it.tasks.iter().map(|_| AtomicU32::new(0)).collect()),
            running: AtomicU32::new(it.tasks.len() as u32),
            ..Shared::default()
        });
        let (own_plan, (report, reports)) = (Arc::new(plan.of_run(run)), channel());
        let mut crew = Crew { shared: shared.clone(), starts: Vec::new(), threads: Vec::new() };
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
                policy: Policy::of(plan.scheduler, it, planned),
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

    /// The findings of a load's first thread about time stamps and holes.
    fn calibrated(&mut self, load: &Load, run: &TaskRun) -> Result<Calibration, MachineError> {
        if let Some(known) = self.calibration(load) {
            return Ok(known);
        }
        let (clock, cpu) = (self.clock, run.cpus().first().unwrap_or_default());
        let measure = move || {
            best_ordinary_policy();
            let _anywhere_else = set_affinity([cpu]);
            Calibration::measure(&clock)
        };
        let measured = std::thread::spawn(measure).join();
        let measured = measured.map_err(|_| failed("calibrating", "its thread ended"))?;
        let calibration = measured.map_err(|error| not_possible(&error))?;
        self.calibrations.push((load.clone(), calibration));
        Ok(calibration)
    }

    /// The control pages, or why there are none. While nobody watches, none of our programs is in the
    /// kernel.
    fn control_pages(&mut self, watched: bool) -> Pages {
        if !watched {
            self.pages = None;
            self.counters = Arc::new(Counters::default());
            return Err("nobody watches".to_owned());
        }
        self.open_counters();
        let open = || ControlPages::open(Mode::Own).map_err(|error| error.to_string());
        self.pages.get_or_insert_with(open).clone()
    }

    /// Keeps what the provenance is to say of a set.
    fn note_tasks(
        &mut self,
        plan: &Tasks,
        run: &TaskRun,
        methods: &[Method],
        progress: super::load::Progress,
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
                    Order::Rank => Some(policy::shared_priorities(run)),
                    _ => None,
                },
            }),
        );
        self.note_load(&run.load, progress);
    }
}

/// Threads whose CPU goes offline run elsewhere without a word: that is another experiment.
fn all_online(cpus: &CpuList) -> Result<(), MachineError> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match offline(cpus, &online) {
        None => Ok(()),
        Some(gone) => Err(failed(
            "running a task set",
            format!(
                "CPUs {gone} were taken offline, and its tasks run elsewhere since; see `corehop platform`"
            ),
        )),
    }
}

/// The part of `cpus` that is missing in the kernel's list of CPUs; None where the list is unknown.
fn offline(cpus: &CpuList, online: &str) -> Option<CpuList> {
    let online: CpuList = online.parse().ok()?;
    let gone = CpuList::new(cpus.iter().filter(|&cpu| !online.contains(cpu)));
    (!gone.is_empty() && !online.is_empty()).then_some(gone)
}

/// The control pages, or why there are none.
pub(super) type Pages = Result<Arc<ControlPages>, String>;

/// The cost of time stamps for each different working set.
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

/// The CPUs that the thread of a task binds itself to; none for `SCHED_DEADLINE`, which must be allowed on
/// all of its partition.
fn bound(scheduler: Scheduler, run: &TaskRun, task: usize) -> Option<CpuList> {
    let itself = scheduler.order() != Order::Deadline;
    itself.then(|| run.clusters[run.tasks[task].cluster].clone())
}

/// The threads of a set.
#[derive(Debug)]
struct Crew {
    shared: Arc<Shared>,
    starts: Vec<Sender<Start>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    /// Waits until every thread is ready.
    fn all_ready(self, reports: &Receiver<Report>) -> Result<Self, MachineError> {
        for _ in 0..self.threads.len() {
            let report = reports.recv().unwrap_or_else(|_| Err("it ended".to_owned()));
            if let Err(why) = report {
                self.end();
                return Err(MachineError::NotPossible {
                    what: "a task's thread".to_owned(),
                    why,
                    remedy: "see `corehop doctor`, or run fewer or smaller tasks".to_owned(),
                });
            }
        }
        Ok(self)
    }

    /// Puts every thread under its policy, while all of them wait.
    fn set_policies(&self, scheduler: Scheduler, run: &TaskRun) -> Result<(), MachineError> {
        for (task, planned) in run.tasks.iter().enumerate() {
            let tid = self.shared.peers[task].load(Ordering::Acquire);
            let policy = Policy::of(scheduler, run, planned);
            if let Err(error) = policy.apply(tid) {
                self.dismiss();
                return Err(policy::refused(run, task, tid, policy, &error));
            }
        }
        Ok(())
    }

    /// Puts every thread back under the ordinary policy: none has to wait for what it has reserved in order to
    /// end, or holds something then that the caller waits for.
    fn dismiss(&self) {
        let alive = self.threads.iter().zip(self.shared.peers.iter());
        for (_, peer) in alive.filter(|(thread, _)| !thread.is_finished()) {
            let tid = peer.load(Ordering::Acquire);
            if tid != 0 {
                // One that is gone by now needs nothing.
                let _gone = Policy::Other.apply(tid);
            }
        }
    }

    fn start(&self, origin_ns: u64) {
        for start in &self.starts {
            // A thread that has ended needs no start.
            let _ended = start.send(Some(origin_ns));
        }
    }

    /// Passes records on until all threads have ended, or no more are wanted.
    fn drain(
        &self,
        run: &TaskRun,
        sink: &mut dyn Sink,
        check: impl Fn() -> Result<(), MachineError>,
    ) -> Result<RunEnd, MachineError> {
        let give_up = monotonic_ns() + run.duration.get() * 2 + 60_000_000_000;
        let (mut wanted, mut records) = (true, room(run));
        loop {
            let last = self.shared.running.load(Ordering::Acquire) == 0;
            std::thread::sleep(if last { Duration::ZERO } else { PASS_ON });
            records.clear();
            std::mem::swap(&mut records, &mut lock(&self.shared.records));
            let more = records.is_empty()
                || sink.take(Batch::Tasks(&records)).map_err(MachineError::Sink)?;
            wanted &= more;
            check()?;
            let panicked = self.shared.panicked.load(Ordering::Acquire);
            if panicked && last {
                return Err(failed("a task's thread", PANIC));
            }
            if !wanted || panicked {
                self.shared.stop.store(true, Ordering::Release);
            }
            if last {
                return Ok(if wanted { RunEnd::Complete } else { RunEnd::Stopped });
            }
            if monotonic_ns() > give_up {
                return Err(failed("running a task set", "its tasks do not come to an end"));
            }
        }
    }

    /// Ends the threads; by which ways they noticed absences.
    fn end(self) -> Vec<Method> {
        self.shared.stop.store(true, Ordering::Release);
        self.dismiss();
        for start in &self.starts {
            // Those that have been started already, or have ended, do not listen.
            let _not_listening = start.send(None);
        }
        for thread in self.threads {
            // A panic of a task is on stderr already.
            let _panicked = thread.join();
        }
        lock(&self.shared.methods).clone()
    }
}

/// Room for the records between two times when they are passed on, and touched already: a task that found
/// no room would make some within its execution time.
fn room(run: &TaskRun) -> Vec<TaskJobRecord> {
    // Below this periods are too short for jobs to come as often.
    const MOST: u64 = 100_000;
    let jobs = |period: u64| 4 * (PASS_ON.as_nanos() as u64 / period + 1);
    let most: u64 = run.tasks.iter().map(|task| jobs(task.period.get())).sum();
    let mut room = vec![TaskJobRecord::default(); most.min(MOST) as usize];
    room.clear();
    room
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data that a new thread gets.
struct Recruit {
    /// The plan of this run alone.
    plan: Arc<Tasks>,
    seed: u64,
    run: usize,
    task: usize,
    clock: Clock,
    calibration: Calibration,
    stamps: StampCost,
    pages: Pages,
    counters: Arc<Counters>,
    door: Option<PathBuf>,
    cpus: Option<CpuList>,
    policy: Policy,
    shared: Arc<Shared>,
}

impl Recruit {
    /// The thread's life.
    fn serve(self, report: &Sender<Report>, started: &Receiver<Start>) {
        let shared = self.shared.clone();
        shared.carry_out(report, || self.live(report, started));
    }

    fn live(self, report: &Sender<Report>, started: &Receiver<Start>) {
        let shared = self.shared.clone();
        let worker = self.set_up();
        let ready = worker.as_ref().map(|_| ()).map_err(Clone::clone);
        // Nobody listens where another thread has failed before.
        let _gone = report.send(ready);
        if let Ok((mut worker, releases)) = worker
            && let Ok(Some(origin_ns)) = started.recv()
        {
            work(&mut worker, releases, origin_ns, &shared);
        }
    }

    /// Joins its CPUs, and gets its memory and its ways of noticing, as an ordinary thread.
    fn set_up(self) -> Result<(Worker, impl Iterator<Item = u64> + use<>), String> {
        // SAFETY: asks a number of the kernel.
        let tid = unsafe { libc::gettid() }.cast_unsigned();
        self.shared.peers[self.task].store(tid, Ordering::Release);
        if let Some(door) = &self.door {
            let entering = |error| format!("{}: {error}", door.display());
            Partitions::enter(door, tid).map_err(entering)?;
        }
        let allowed = match &self.cpus {
            Some(cpus) => set_affinity(cpus.iter()),
            None => set_affinity_everywhere(),
        };
        allowed.map_err(|error| format!("its CPUs: {error}"))?;
        crate::thread::punctual();
        let planned = &self.plan.runs[0].tasks[self.task];
        let mut draw = Draw::new(self.seed, 10_000 + self.task as u64);
        let memory = SetMemory::new(&planned.set, &mut draw).map_err(|error| error.to_string())?;
        let pages = self.pages.as_ref().map_err(String::as_str);
        let watched = self.plan.runs[0].watched;
        // Why no better one is said once, of the control pages: the others take no rights.
        let notice = watched.then(|| Notice::best(pages)).transpose()?.map(|(notice, _)| notice);
        lock(&self.shared.methods).extend(notice.as_ref().map(Notice::method));
        let worker = Worker {
            run: self.run,
            task: self.task,
            wcet_ns: planned.wcet.get() as f64,
            clock: self.clock,
            calibration: self.calibration,
            stamps: self.stamps,
            walk: Walk::new(&planned.set, memory.linked()),
            memory,
            lines: planned.set.lines(),
            rseq: Rseq::of_this_thread().ok(),
            notice,
            counters: self.counters.clone(),
            peers: self.shared.peers.clone(),
            policy: self.policy.to_string(),
            warm_chunk: None,
            cpu_before: 0,
            word: 0,
        };
        Ok((worker, self.plan.releases(self.seed, 0, self.task)))
    }
}

/// Sleeps until a release; far from it, not for so long that the end of the run would have to wait. Whether the run
/// goes on.
fn await_release(worker: &mut Worker, release_ns: u64, stop: &AtomicBool) -> bool {
    while release_ns.saturating_sub(monotonic_ns()) > 2 * LOOK.as_nanos() as u64 {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    worker.sleep_until(release_ns);
    !stop.load(Ordering::Acquire)
}

/// Runs the jobs of a task, each when it is released, or when the one before has ended.
fn work(worker: &mut Worker, releases: impl Iterator<Item = u64>, origin_ns: u64, shared: &Shared) {
    let mut kept = Kept { records: Vec::with_capacity(64), shared };
    for (number, release_ns) in releases.enumerate() {
        if !await_release(worker, origin_ns + release_ns, &shared.stop) {
            break;
        }
        kept.records.push(worker.job(number as u64, release_ns, origin_ns));
        match shared.records.try_lock() {
            Ok(mut records) => records.append(&mut kept.records),
            Err(TryLockError::Poisoned(records)) => records.into_inner().append(&mut kept.records),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Records that wait while the coordinator has the list; they reach it at the end, whatever the end.
struct Kept<'a> {
    records: Vec<TaskJobRecord>,
    shared: &'a Shared,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        lock(&self.shared.records).append(&mut self.records);
    }
}

#[cfg(test)]
mod tests {
    use corehop_core::machine::Records;
    use corehop_core::units::Nanos;

    use super::*;

    #[test]
    fn a_panic_of_a_task_ends_the_run_with_an_error_and_keeps_its_records() {
        let shared = Arc::new(Shared { running: AtomicU32::new(1), ..Shared::default() });
        let (report, reports) = channel();
        let its = shared.clone();
        let life = move || {
            its.carry_out(&report, || {
                let records = vec![TaskJobRecord::default()];
                let _kept = Kept { records, shared: &its };
                panic!("a test");
            });
        };
        let threads = vec![std::thread::spawn(life)];
        let crew = Crew { shared, starts: Vec::new(), threads };
        assert_eq!(reports.recv(), Ok(Err(PANIC.to_owned())), "it is not waited for");
        let mut records = Records::default();
        let run = TaskRun {
            number: None,
            index: 0,
            load: Load::Idle,
            duration: Nanos::from_millis(1),
            watched: false,
            scale: 1.0,
            clusters: Vec::new(),
            tasks: Vec::new(),
        };
        let error = crew.drain(&run, &mut records, || Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("a task's thread failed: a panic"), "{error}");
        assert_eq!(records.tasks.len(), 1);
        crew.end();
    }

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
