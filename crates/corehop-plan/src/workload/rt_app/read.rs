// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads workloads of rt-app as task sets.

use super::super::placement::TaskPlacement;
use super::super::scheduler::Scheduler;
use super::super::set_file::{self, JsonTree};
use super::super::task::{MOST_TASKS, TaskParameters, TaskSet, Time};
use super::fields::{JsonFields, find, number, numbers, object, once};
use super::plain::plain;
use super::policy::{Reservation, RtAppPolicy, Scheduling};
use super::thread::{BESIDE, RtAppPhase, ThreadJobs, phases};
use super::{OWN, RtAppError, Workload, write};
use crate::bounds;
use crate::words::nearest_of;

/// The keys of `global` that control how rt-app runs and logs.
const GLOBAL: [&str; 14] = [
    "default_policy",
    "duration",
    "calibration",
    "gnuplot",
    "lock_pages",
    "pi_enabled",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "frag",
];

/// A thread of rt-app as a sporadic task.
struct SporadicThread {
    name: String,
    task: TaskParameters,
    scheduling: Scheduling,
    jobs: ThreadJobs,
    cpus: Option<Vec<usize>>,
    instances: u64,
    is_delayed: bool,
    notes: Vec<String>,
}

/// Converts a workload to a task set on `cpus` CPUs. The set has the CPUs that the workload names if `cpus` is
/// `None`.
///
/// # Errors
/// Returns [`RtAppError`] with the thread, and the event or field that a task set cannot express.
pub fn read(text: &str, cpus: Option<u32>) -> Result<Workload, RtAppError> {
    let plain = plain(text);
    // Checks the numbers; a tree keeps a name that is there twice.
    let _: serde_json::Value = bounds::from_json(&plain)?;
    let JsonTree::Object(top) = serde_json::from_str(&plain)? else {
        return Err(RtAppError::NoTasks);
    };
    let wrong = RtAppError::Global;
    once(&top, "").map_err(wrong)?;
    let known = ["tasks", "global", "resources", OWN];
    if let Some((name, _)) = top.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let near = nearest_of(name, known);
        return Err(wrong(format!(
            "`{name}` is not a known table{near}: use one of {}",
            known.join(", ")
        )));
    }
    let Some(listed) = object(&top, "tasks").map_err(wrong)? else {
        return Err(RtAppError::NoTasks);
    };
    if let Some(own) = object(&top, OWN).map_err(wrong)? {
        let set = own_set(own, cpus)?;
        if threads_are_those_of(&set, &top) {
            return Ok(Workload { set, notes: Vec::new() });
        }
        let what = "the threads differ from those that corehop wrote";
        let mut read = of_threads(&top, listed, cpus)?;
        read.notes.push(format!("{what}, so corehop ignores the table `{OWN}`"));
        return Ok(read);
    }
    of_threads(&top, listed, cpus)
}

/// Returns the task set that [`write`](super::write()) stored beside the threads.
fn own_set(own: &JsonFields, cpus: Option<u32>) -> Result<TaskSet, RtAppError> {
    let set = set_file::of_fields(own).map_err(|error| RtAppError::Own(Box::new(error)))?;
    match cpus.filter(|&cpus| cpus != set.cpus()) {
        None => Ok(set),
        Some(cpus) => {
            let there = set.cpus();
            let what = "remove that table to read the threads for other CPUs";
            let why = format!("--cpus is {cpus}, but the table `{OWN}` is for {there}: {what}");
            Err(RtAppError::Cpus(why))
        }
    }
}

/// Returns whether the threads of a file equal the threads that corehop writes for `set`.
fn threads_are_those_of(set: &TaskSet, top: &JsonFields) -> bool {
    let there = find(top, "tasks").and_then(JsonTree::value);
    let written = write::threads(set).map(|threads| JsonTree::Object(threads).value());
    written.is_ok_and(|written| written.is_some() && written == there)
}

fn of_threads(
    top: &JsonFields,
    listed: &JsonFields,
    cpus: Option<u32>,
) -> Result<Workload, RtAppError> {
    once(listed, "thread ").map_err(RtAppError::Global)?;
    let global = object(top, "global").map_err(RtAppError::Global)?.unwrap_or(&[]);
    once(global, "`global`: ").map_err(RtAppError::Global)?;
    let default_policy =
        RtAppPolicy::in_field(global, "default_policy").map_err(RtAppError::Global)?;
    let default_policy = default_policy.unwrap_or(RtAppPolicy::Other);
    one_policy(listed, default_policy)?;
    let mut threads = Vec::new();
    for (name, thread) in listed {
        let wrong = |what: String| RtAppError::Thread { thread: name.clone(), what };
        let JsonTree::Object(fields) = thread else {
            return Err(wrong(format!("is {thread}: expected a table")));
        };
        threads.push(SporadicThread::of(name, fields, default_policy).map_err(wrong)?);
    }
    threads.iter().try_for_each(|thread| takes_no_turns(thread, &threads))?;
    let mut notes = Vec::new();
    for thread in &threads {
        notes.extend(shared_timer(thread, &threads)?);
    }
    let unknown = global.iter().filter(|(name, _)| !GLOBAL.contains(&name.as_str()));
    notes.extend(unknown.map(|(name, _)| {
        format!(
            "corehop ignores `{name}` in `global`, which is not a known key{}",
            nearest_of(name, GLOBAL)
        )
    }));
    let set = set(&threads, cpus, &mut notes)?;
    notes.extend(threads.iter().flat_map(SporadicThread::said));
    notes.extend(fair(&threads));
    Ok(Workload { set, notes })
}

/// Returns the task set with all instances of all threads.
fn set(
    threads: &[SporadicThread],
    cpus: Option<u32>,
    notes: &mut Vec<String>,
) -> Result<TaskSet, RtAppError> {
    let pinned = threads.iter().filter_map(|thread| thread.cpus.as_deref());
    let last = pinned.flatten().max().map(|&cpu| cpu as u32);
    if let (Some(cpus), Some(last)) = (cpus, last.filter(|&last| cpus.is_some_and(|it| it <= last)))
    {
        let what = format!("--cpus is {cpus}, but a thread names CPU {last}");
        return Err(RtAppError::Cpus(format!(
            "{what}: expected {} or more",
            last.saturating_add(1)
        )));
    }
    let cpus = cpus.unwrap_or(last.map_or(1, |last| last.saturating_add(1)));
    if let Some(last) = last.filter(|_| threads.iter().any(|thread| thread.cpus.is_none())) {
        let what = format!("threads without `cpus` get CPUs 0 to {}", cpus.saturating_sub(1));
        notes.push(format!("CPU {last} is the highest CPU that a thread names; {what} (--cpus)"));
    }
    let all: Vec<usize> = (0..cpus as usize).collect();
    let (mut tasks, mut places) = (Vec::new(), Vec::new());
    for thread in threads {
        let (name, instances) = (&thread.name, thread.instances);
        if instances + tasks.len() as u64 > MOST_TASKS as u64 {
            let what =
                format!("`instance` is {instances}: a task set has at most {MOST_TASKS} tasks");
            return Err(RtAppError::Thread { thread: name.clone(), what });
        }
        for instance in 0..instances {
            let name = if instances > 1 { format!("{name}-{instance}") } else { name.clone() };
            tasks.push(TaskParameters { name: Some(name), ..thread.task.clone() });
            let cpus = thread.cpus.as_ref().unwrap_or(&all);
            places.push(TaskPlacement::Cpus(cpus.clone()));
        }
    }
    if tasks.is_empty() {
        return Err(RtAppError::NoTasks);
    }
    let set = TaskSet::new(cpus, &tasks)?;
    let is_pinned = threads.iter().any(|thread| thread.cpus.is_some());
    let set = if is_pinned { set.placed(places)? } else { set };
    Ok(set.scheduled_by(scheduler(threads, cpus)))
}

/// Returns the scheduler for the threads, which all have one policy.
fn scheduler(threads: &[SporadicThread], cpus: u32) -> Scheduler {
    let has_one =
        |thread: &SporadicThread| thread.cpus.as_ref().is_some_and(|cpus| cpus.len() == 1);
    let is_partitioned = cpus == 1 || threads.iter().all(has_one);
    match threads.first().map(|thread| thread.scheduling.policy) {
        Some(RtAppPolicy::Fifo | RtAppPolicy::RoundRobin) if is_partitioned => Scheduler::PFp,
        Some(RtAppPolicy::Fifo | RtAppPolicy::RoundRobin) => Scheduler::GFp,
        Some(RtAppPolicy::Deadline) if is_partitioned => Scheduler::PEdf,
        Some(RtAppPolicy::Deadline) => Scheduler::GEdf,
        _ => Scheduler::Eevdf,
    }
}

/// Checks that all threads have one policy, because no test analyses a mixture.
fn one_policy(listed: &JsonFields, default_policy: RtAppPolicy) -> Result<(), RtAppError> {
    let mut first: Option<(&str, RtAppPolicy)> = None;
    for (name, thread) in listed {
        let JsonTree::Object(fields) = thread else { continue };
        let of_phase = object(fields, "phases").ok().flatten().and_then(|phases| {
            phases.iter().find_map(|(_, phase)| match phase {
                JsonTree::Object(fields) => RtAppPolicy::in_field(fields, "policy").ok().flatten(),
                _ => None,
            })
        });
        let own = of_phase.or(RtAppPolicy::in_field(fields, "policy").ok().flatten());
        let own = own.unwrap_or(default_policy);
        match first {
            None => first = Some((name, own)),
            Some((_, policy)) if policy == own => {}
            Some((other, policy)) => {
                let both = format!("`{other}` runs under {policy} and `{name}` under {own}");
                let what = "one scheduler serves a task set";
                return Err(RtAppError::Global(format!("policies are mixed: {both}; {what}")));
            }
        }
    }
    Ok(())
}

/// Checks that no thread under SCHED_RR takes turns with another thread, because no test of corehop analyses turns.
fn takes_no_turns(thread: &SporadicThread, all: &[SporadicThread]) -> Result<(), RtAppError> {
    if thread.scheduling.policy != RtAppPolicy::RoundRobin {
        return Ok(());
    }
    let alike = |other: &&SporadicThread| other.task.priority == thread.task.priority;
    let equals: u64 = all.iter().filter(alike).map(|other| other.instances).sum();
    if equals < 2 {
        return Ok(());
    }
    let what = "threads of equal `priority` take turns under SCHED_RR, which a task set cannot \
                express: expected SCHED_FIFO, or priorities that differ";
    Err(RtAppError::Thread { thread: thread.name.clone(), what: what.to_owned() })
}

/// Returns a sentence about a timer that a thread shares with other threads. The timer moves on by a period each time
/// that a thread waits for it, so that the period is still the least time between two jobs. But a thread that starts
/// later than the timer runs overdue jobs at once.
fn shared_timer(
    thread: &SporadicThread,
    all: &[SporadicThread],
) -> Result<Option<String>, RtAppError> {
    let Some(timer) = thread.jobs.timer.as_ref() else { return Ok(None) };
    let name = &timer.name;
    if name.starts_with("unique") {
        return Ok(None);
    }
    let alike =
        |it: &&SporadicThread| it.jobs.timer.as_ref().is_some_and(|timer| timer.name == *name);
    let users = || all.iter().filter(alike);
    let count: u64 = users().map(|it| it.instances).sum();
    if count < 2 {
        return Ok(None);
    }
    if users().any(|it| it.is_delayed) {
        let what =
            format!("it has a `delay` and the timer `{name}`, which {count} threads share: a late");
        let what = format!("{what} thread runs jobs at once (expected a ref that begins `unique`)");
        return Err(RtAppError::Thread { thread: thread.name.clone(), what });
    }
    let what = "the period of the thread is the least time between two of its jobs";
    let of = &thread.name;
    Ok(Some(format!("`{of}` shares the timer `{name}` among {count} threads: {what}")))
}

/// Returns a sentence about threads under a policy that no test analyses.
fn fair(threads: &[SporadicThread]) -> Option<String> {
    let policy = threads.first()?.scheduling.policy;
    let what = "which no schedulability test analyses: the set contains only the work and the periods of the threads";
    policy.is_fair().then(|| format!("the threads run under {policy}, {what}"))
}

impl SporadicThread {
    fn of(name: &str, fields: &JsonFields, default_policy: RtAppPolicy) -> Result<Self, String> {
        let phases = phases(fields)?;
        let scheduling = Scheduling::of(fields, &phases, default_policy)?;
        let jobs = ThreadJobs::of(&phases)?;
        let mut notes: Vec<String> = jobs.note.iter().cloned().collect();
        let task = match scheduling.reservation {
            Some(reservation) => reserved(reservation, &jobs, &mut notes)?,
            None => periodic(&jobs)?,
        };
        // The larger priority is served first, and the smaller rank.
        let priority = scheduling.priority.map(|priority| (99 - priority) as u32);
        let all = || phases.iter().map(|phase| phase.fields).chain([fields]);
        for (key, why) in BESIDE {
            let there = all().any(|fields| find(fields, key).is_some());
            notes.extend(there.then(|| format!("has `{key}`, which is ignored: {why}")));
        }
        for key in &scheduling.beside {
            let policy = scheduling.policy;
            let what = "changes neither work nor period";
            notes.push(format!("has `{key}`, which is ignored: under {policy} it {what}"));
        }
        Ok(Self {
            name: name.to_owned(),
            task: TaskParameters { priority, ..task },
            cpus: pins(fields, &phases)?,
            instances: number(fields, "instance")?.unwrap_or(1),
            is_delayed: number(fields, "delay")?.unwrap_or(0) > 0,
            scheduling,
            jobs,
            notes,
        })
    }

    /// Returns the sentences that corehop states about a thread.
    fn said(&self) -> impl Iterator<Item = String> {
        let none = (self.instances == 0).then(|| "has no instance, and is not a task".to_owned());
        none.into_iter()
            .chain(self.notes.iter().cloned())
            .map(|what| format!("`{}` {what}", self.name))
    }
}

/// Returns the task of a thread whose timer releases its jobs.
fn periodic(jobs: &ThreadJobs) -> Result<TaskParameters, String> {
    if jobs.work.is_zero() {
        return Err("no `run` states the run time".to_owned());
    }
    let Some(timer) = &jobs.timer else {
        return Err("no `timer` states the period".to_owned());
    };
    Ok(TaskParameters { wcet: jobs.work, period: timer.period, ..TaskParameters::default() })
}

/// Returns the task of a thread under SCHED_DEADLINE, whose reservation bounds the thread's work.
fn reserved(
    reservation: Reservation,
    jobs: &ThreadJobs,
    notes: &mut Vec<String>,
) -> Result<TaskParameters, String> {
    let Reservation { runtime, period, deadline } = reservation;
    let work = jobs.work;
    if work > runtime {
        let what = format!("it runs {work} us, but its budget `dl-runtime` is {runtime} us");
        return Err(format!("{what}: a job takes several periods"));
    }
    if let Some(timer) = jobs.timer.as_ref().filter(|timer| timer.period < period) {
        let every: Time = timer.period;
        let what = format!("its `timer` releases a job every {every} us");
        return Err(format!("{what}, but `dl-period` is {period} us: a job takes several periods"));
    }
    if jobs.timer.is_none() {
        notes.push("waits for no timer: its budget in each period counts as one job".to_owned());
    } else if work < runtime {
        let what = format!("runs {work} us of a budget of {runtime} us");
        notes.push(format!("{what}, which counts as its WCET"));
    }
    Ok(TaskParameters {
        wcet: runtime,
        period,
        deadline: Some(deadline),
        ..TaskParameters::default()
    })
}

/// Returns the CPUs of a thread, which must be equal in all its phases.
fn pins(thread: &JsonFields, phases: &[RtAppPhase<'_>]) -> Result<Option<Vec<usize>>, String> {
    let of_thread = numbers(thread, "cpus")?;
    let mut of_phases = Vec::new();
    for phase in phases {
        of_phases.push(numbers(phase.fields, "cpus")?.or_else(|| of_thread.clone()));
    }
    if of_phases.iter().any(|cpus| *cpus != of_phases[0]) {
        let what = "all jobs of a task need the same CPUs";
        return Err(format!("its phases differ in `cpus`: {what}"));
    }
    Ok(of_phases.pop().flatten())
}
