// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread of an rt-app workload: its events, its phases, and the jobs that they form.
//!
//! An event is a key that begins with the name of a kind of event. A job is the work of a thread between two waits for
//! its timer. A thread repeats its phases, so a job can begin in one phase and end in a later phase.

use super::super::set_file::JsonTree;
use super::super::task::Time;
use super::fields::{JsonFields, find, micros, number, object, once, text, whole};
use crate::words::nearest_of;

/// The names of the kinds of events. A key of a workload is an event of the first kind whose name is a prefix of the
/// key.
const EVENTS: [&str; 20] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer",
    "suspend", "resume", "memrun", "mem", "iorun", "yield", "barrier", "fork", "sem_post",
    "sem_wait",
];

/// The keys of a thread or a phase that state its scheduling.
pub(super) const SCHEDULING: [&str; 5] =
    ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline"];

/// The keys of a thread or a phase that do not affect any schedulability test, each with the reason.
pub(super) const BESIDE: [(&str, &str); 3] = [
    ("nodes_membind", "a task set cannot state where memory is"),
    ("util_min", "a task set cannot state clock rates"),
    ("util_max", "a task set cannot state clock rates"),
];

/// The keys that only a thread can have. A delay, or a limited number of loops, only makes jobs fewer or later.
const OF_THREAD: [&str; 5] = ["instance", "phases", "delay", "period", "deadline"];

/// Returns the kind of event to which a key belongs, found as rt-app finds it.
pub(super) fn kind(key: &str) -> Option<&'static str> {
    EVENTS.into_iter().find(|kind| key.starts_with(kind))
}

/// A timer for which a thread waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timer {
    /// The name of the timer; threads that use one name share the timer, unless the name begins with `unique`.
    pub(super) name: String,
    pub(super) period: Time,
}

/// A step that a thread executes in a phase.
enum PhaseStep {
    Run(Time),
    Wait(Timer),
}

/// A phase of a thread: its fields, and its steps, which are repeated.
pub(super) struct RtAppPhase<'a> {
    pub(super) fields: &'a JsonFields,
    /// The number of repetitions, or `None` for endless repetition.
    loops: Option<u64>,
    steps: Vec<PhaseStep>,
}

/// The jobs of a thread of rt-app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadJobs {
    /// The longest work between two waits, or the work of all phases if the thread never waits.
    pub(super) work: Time,
    /// The timer with the shortest period.
    pub(super) timer: Option<Timer>,
    /// A note on jobs that differ from this work and this period, or on the parts of which the work is the sum.
    pub(super) note: Option<String>,
}

/// Returns the phases of a thread; a thread without `phases` is its own only phase.
///
/// # Errors
/// Returns an error that names a key that a sporadic task cannot have, or a repeated key.
pub(super) fn phases(fields: &JsonFields) -> Result<Vec<RtAppPhase<'_>>, String> {
    let Some(listed) = object(fields, "phases")? else {
        known(fields, &OF_THREAD)?;
        let only = RtAppPhase::of(fields)?;
        once(fields, "")?;
        return Ok(vec![only]);
    };
    if listed.is_empty() {
        return Err("`phases` has no phase".to_owned());
    }
    let outside = |key: &str| kind(key).is_some() && key != "runtime";
    if let Some((event, _)) = fields.iter().find(|(key, _)| outside(key)) {
        let where_to = "rt-app reads only the events inside `phases`";
        return Err(format!("`{event}` is outside of `phases`: {where_to}"));
    }
    known(fields, &OF_THREAD)?;
    let mut phases = Vec::new();
    for (name, phase) in listed {
        let at = |what| format!("phase `{name}`: {what}");
        let JsonTree::Object(fields) = phase else { return Err(at("expected a table".to_owned())) };
        known(fields, &[]).map_err(at)?;
        phases.push(RtAppPhase::of(fields).map_err(at)?);
        once(fields, "").map_err(at)?;
    }
    once(fields, "")?;
    once(listed, "phase ")?;
    Ok(phases)
}

/// Checks that a task set can express every key.
fn known(fields: &JsonFields, beside: &[&str]) -> Result<(), String> {
    let named = |key: &str| BESIDE.iter().any(|(name, _)| *name == key);
    for (key, value) in fields {
        let key = key.as_str();
        let is_known = kind(key).is_some()
            || SCHEDULING.contains(&key)
            || beside.contains(&key)
            || named(key)
            || ["loop", "cpus"].contains(&key)
            // An empty name is no group.
            || key == "taskgroup" && text(fields, key)?.is_none_or(str::is_empty);
        if !is_known {
            let all = SCHEDULING.iter().chain(&EVENTS).chain(beside).chain(&["loop", "cpus"]);
            let near = nearest_of(key, all.copied());
            return Err(format!("`{key}` is {value}, which a task set cannot express{near}"));
        }
    }
    Ok(())
}

impl<'a> RtAppPhase<'a> {
    fn of(fields: &'a JsonFields) -> Result<Self, String> {
        let mut steps = Vec::new();
        for (key, value) in fields {
            match kind(key) {
                None => {}
                Some("run" | "runtime") => steps.push(PhaseStep::Run(micros(whole(key, value)?))),
                Some("timer") => steps.extend(timer(key, value)?.map(PhaseStep::Wait)),
                // Programs that edit workloads leave such events behind; nothing waits for them.
                Some("sleep") if whole(key, value)? == 0 => {}
                Some(_) => {
                    let what = "a sporadic task has no event except one run in each period";
                    return Err(format!("it has `{key}`: {what}"));
                }
            }
        }
        let loops = match find(fields, "loop") {
            None => Some(1),
            Some(JsonTree::Leaf(value)) if value.as_i64().is_some_and(|loops| loops <= 0) => None,
            Some(value) => Some(whole("loop", value)?),
        };
        Ok(Self { fields, loops, steps })
    }

    fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.steps.iter().filter_map(|step| match step {
            PhaseStep::Wait(timer) => Some(timer),
            PhaseStep::Run(_) => None,
        })
    }
}

fn timer(key: &str, value: &JsonTree) -> Result<Option<Timer>, String> {
    let JsonTree::Object(timer) = value else {
        return Err(format!("`{key}` is {value}: expected a table"));
    };
    if let Some((name, _)) =
        timer.iter().find(|(name, _)| !["ref", "period", "mode"].contains(&name.as_str()))
    {
        return Err(format!("`{key}` has `{name}`: expected only ref, period and mode"));
    }
    once(timer, &format!("`{key}`: "))?;
    let mode = text(timer, "mode")?.unwrap_or("relative");
    if !["relative", "absolute"].contains(&mode) {
        return Err(format!("the mode of `{key}` is {mode}: expected relative or absolute"));
    }
    let name = text(timer, "ref")?.unwrap_or("unknown").to_owned();
    let period = number(timer, "period")?.map_or(Time::ZERO, micros);
    // Nothing waits for a timer of 0.
    Ok((period > Time::ZERO).then_some(Timer { name, period }))
}

impl ThreadJobs {
    /// Returns the jobs of a thread that has the given phases.
    ///
    /// # Errors
    /// Returns the reason why no period or no work bounds the jobs.
    pub(super) fn of(phases: &[RtAppPhase<'_>]) -> Result<Self, String> {
        let timers: Vec<&Timer> = phases.iter().flat_map(RtAppPhase::timers).collect();
        let timer = timers.iter().min_by_key(|timer| timer.period).map(|&timer| timer.clone());
        if let Some(other) = timers.iter().find(|timer| timer.name != timers[0].name) {
            let (one, other) = (&timers[0].name, &other.name);
            let what = "one timer releases a sporadic task";
            return Err(format!("it waits for the timers `{one}` and `{other}`: {what}"));
        }
        let lengths = lengths(phases)?;
        let work = lengths.iter().copied().max().unwrap_or(Time::ZERO);
        let note = Self::note(phases, &timers, &lengths);
        Ok(Self { work, timer, note })
    }

    fn note(phases: &[RtAppPhase<'_>], timers: &[&Timer], lengths: &[Time]) -> Option<String> {
        let runs = |it: &RtAppPhase<'_>| {
            it.steps.iter().filter(|it| matches!(it, PhaseStep::Run(_))).count()
        };
        let differ = lengths.iter().any(|length| *length != lengths[0])
            || timers.iter().any(|timer| timer.period != timers[0].period);
        if differ {
            let phases = phases.len();
            let what = "its WCET is the longest work between two waits for the timer";
            return Some(format!(
                "has {phases} phases: {what}, and its period is the shortest period"
            ));
        }
        let runs: usize = phases.iter().map(runs).sum();
        let one = phases.len() == 1 && runs > 1;
        one.then(|| format!("has {runs} runs: its WCET is their sum"))
    }
}

/// Returns the work between consecutive waits of a thread that repeats its phases; without waits, the work of all
/// phases.
fn lengths(phases: &[RtAppPhase<'_>]) -> Result<Vec<Time>, String> {
    const TOO_LONG: &str = "the runs of a job are longer than any job";
    let add = |a: Time, b: Time| a.checked_add(b).ok_or(TOO_LONG);
    let (mut lengths, mut work) = (Vec::new(), Time::ZERO);
    // The job that begins in the last phase ends in the first.
    for phase in phases.iter().chain(phases) {
        if phase.timers().next().is_none() {
            let each: Time = phase.steps.iter().map(PhaseStep::work).sum();
            let loops = phase.loops.unwrap_or(if each.is_zero() { 1 } else { u64::MAX });
            work = add(work, each.checked_mul(loops).ok_or(TOO_LONG)?)?;
            continue;
        }
        // The second time stands for all later ones.
        for _ in 0..if phase.loops == Some(1) { 1 } else { 2 } {
            for step in &phase.steps {
                match step {
                    PhaseStep::Run(run) => work = add(work, *run)?,
                    PhaseStep::Wait(_) => lengths.push(std::mem::take(&mut work)),
                }
            }
        }
    }
    if lengths.is_empty() {
        lengths.push(work / 2);
        return Ok(lengths);
    }
    // The first job lacks what an earlier round leaves behind.
    lengths.remove(0);
    Ok(lengths)
}

impl PhaseStep {
    fn work(&self) -> Time {
        match self {
            Self::Run(run) => *run,
            Self::Wait(_) => Time::ZERO,
        }
    }
}
