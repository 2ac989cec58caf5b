// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes task sets as workloads of rt-app.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::linux::{self, LEAST_RUNTIME, PERIODS};
use super::super::placement::TaskPlacement;
use super::super::scheduler::Scheduler;
use super::super::set_file::{self, JsonTree};
use super::super::task::{Task, TaskSet, Tick, Time};
use super::fields::MOST;
use super::{HIGHEST, NotRunnable, OWN};
use crate::units::Nanos;

/// A workload that corehop wrote for rt-app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtAppWorkload {
    /// The text of the workload file.
    pub text: String,
    /// Sentences about properties of the set that no thread can show, and about settings that Linux needs for the
    /// threads.
    pub notes: Vec<String>,
}

/// Returns the workload that runs a task set for `seconds` seconds. The workload contains the task set itself in a
/// table that rt-app ignores and [`read`](super::read()) uses.
///
/// # Errors
/// Returns [`NotRunnable`] if Linux or rt-app cannot run the threads of the set.
pub fn write(set: &TaskSet, seconds: u32) -> Result<RtAppWorkload, NotRunnable> {
    let threads = threads(set)?;
    let own = set_file::write(set);
    let fields = [
        ("tasks", JsonTree::Object(threads)),
        ("global", global(seconds).into()),
        (OWN, own.into()),
    ];
    let file = JsonTree::Object(fields.map(|(name, value)| (name.to_owned(), value)).into());
    // A tree of plain values is always JSON.
    let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
    Ok(RtAppWorkload { text, notes: notes(set) })
}

fn global(seconds: u32) -> Value {
    json!({
        "duration": seconds,
        "calibration": "CPU0",
        "default_policy": "SCHED_OTHER",
        "lock_pages": true,
        "logdir": "./",
        "log_basename": "corehop",
    })
}

/// Returns whether the threads run under SCHED_FIFO; otherwise they run under SCHED_DEADLINE.
///
/// # Errors
/// Returns [`NotRunnable::Scheduler`] if the set lacks a property that its scheduler needs.
fn is_fifo(set: &TaskSet) -> Result<bool, NotRunnable> {
    let ranked = set.tasks().iter().all(|task| task.priority().is_some());
    let Some(scheduler) = set.scheduler() else { return Ok(ranked) };
    let refused = |why| Err(NotRunnable::Scheduler { scheduler, why });
    let unplaced = set.cpus() > 1 && set.placement().is_none();
    match scheduler {
        Scheduler::Eevdf | Scheduler::SchedExt => {
            refused("no deadline holds under it; expected g-edf, c-edf, p-edf, g-fp or p-fp")
        }
        Scheduler::PEdf | Scheduler::PFp | Scheduler::CEdf if unplaced => refused(
            "its tasks have no `cpus`, which `corehop check SET.json -o PLACED.json` assigns",
        ),
        Scheduler::PFp | Scheduler::GFp if !ranked => refused(
            "its tasks have no priorities, which `corehop check SET.json -o PLACED.json` assigns",
        ),
        Scheduler::PFp | Scheduler::GFp => Ok(true),
        Scheduler::PEdf | Scheduler::CEdf | Scheduler::GEdf => Ok(false),
    }
}

/// Returns the threads of the workload, in the order of the tasks.
pub(super) fn threads(set: &TaskSet) -> Result<Vec<(String, JsonTree)>, NotRunnable> {
    let fifo = is_fifo(set)?;
    let priorities = if fifo { priorities(set)? } else { Vec::new() };
    let mut threads: Vec<(String, JsonTree)> = Vec::new();
    let mut refused = Vec::new();
    // Work is rounded up; other times that rt-app cannot tell are refused.
    let us = |time| json!(set.tick().whole_us(time));
    for ((at, task), name) in set.tasks().iter().enumerate().zip(names(set)) {
        let budget = set.budget(at);
        refused.extend(
            refusals(task, (!fifo).then_some(budget), &name, set.tick())
                .map(|what| format!("`{name}`: {what}")),
        );
        let mut fields = vec![
            ("instance", json!(1)),
            ("loop", json!(-1)),
            ("run", us(task.wcet())),
            ("timer", json!({ "ref": "unique", "period": us(task.period()) })),
        ];
        if let Some(priority) = priorities.get(at) {
            fields.push(("policy", json!("SCHED_FIFO")));
            fields.push(("priority", json!(priority)));
        } else {
            fields.push(("policy", json!("SCHED_DEADLINE")));
            fields.push(("dl-runtime", us(budget)));
            fields.push(("dl-deadline", us(task.deadline())));
            fields.push(("dl-period", us(task.period())));
        }
        match set.placement().map(|places| &places[at]) {
            None => {}
            Some(TaskPlacement::Cpus(cpus)) => fields.push(("cpus", json!(cpus))),
            Some(TaskPlacement::Pieces(_) | TaskPlacement::Shares(_)) => {
                return Err(NotRunnable::InParts(at));
            }
        }
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value.into()));
        threads.push((name, JsonTree::Object(fields.collect())));
    }
    if refused.is_empty() { Ok(threads) } else { Err(NotRunnable::Refused(refused)) }
}

/// Returns the priority of each thread under SCHED_FIFO: the order of all ranks if there are enough priorities,
/// otherwise the order among the tasks that can meet on a CPU.
///
/// # Errors
/// Returns [`NotRunnable::Priorities`] if tasks that can meet have too many ranks.
fn priorities(set: &TaskSet) -> Result<Vec<u64>, NotRunnable> {
    let all: Vec<usize> = (0..set.tasks().len()).collect();
    let mut priorities = vec![0; all.len()];
    let is_one = distinct(set, &all).len() as u64 <= HIGHEST;
    for group in if is_one { vec![all] } else { meeting(set) } {
        let ranks = distinct(set, &group);
        if ranks.len() as u64 > HIGHEST {
            return Err(NotRunnable::Priorities);
        }
        for at in group {
            let rank = set.tasks()[at].priority().unwrap_or(0);
            priorities[at] = HIGHEST - ranks.binary_search(&rank).unwrap_or(0) as u64;
        }
    }
    Ok(priorities)
}

/// Returns the ranks of the given tasks, ascending and without repetitions.
fn distinct(set: &TaskSet, tasks: &[usize]) -> Vec<u32> {
    let mut ranks: Vec<u32> = tasks.iter().filter_map(|&at| set.tasks()[at].priority()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Returns the tasks in groups; tasks of different groups have no CPU in common.
fn meeting(set: &TaskSet) -> Vec<Vec<usize>> {
    let mut groups: Vec<(HashSet<usize>, Vec<usize>)> = Vec::new();
    for at in 0..set.tasks().len() {
        let mut joined = (set.cpus_of(at).into_iter().collect::<HashSet<_>>(), vec![at]);
        groups.retain_mut(|(there, tasks)| {
            let is_apart = there.is_disjoint(&joined.0);
            if !is_apart {
                joined.0.extend(there.drain());
                joined.1.append(tasks);
            }
            is_apart
        });
        groups.push(joined);
    }
    groups.into_iter().map(|(_, tasks)| tasks).collect()
}

/// Returns the name of each thread: the name of its task, or a name that no task has. The names must differ, because
/// rt-app would treat two threads of one name as one thread.
fn names(set: &TaskSet) -> Vec<String> {
    let given: HashSet<&str> = set.names().iter().flatten().map(String::as_str).collect();
    let own = |at: usize| {
        let mut name = format!("task{at}");
        while given.contains(name.as_str()) {
            name.push('_');
        }
        name
    };
    let names = set.names().iter().enumerate();
    names.map(|(at, name)| name.clone().unwrap_or_else(|| own(at))).collect()
}

/// Returns sentences about the properties of a thread that Linux or rt-app rejects.
fn refusals(
    task: &Task,
    budget: Option<Time>,
    name: &str,
    tick: Tick,
) -> impl Iterator<Item = String> {
    let (period, deadline) = (task.period(), task.deadline());
    let mut refused = Vec::new();
    let finer = [("period", period), ("deadline", deadline)];
    let finer = finer
        .into_iter()
        .filter(|&(what, time)| !tick.is_whole_us(time) && (what == "period" || budget.is_some()));
    refused.extend(finer.map(|(what, time)| {
        format!("a {what} of {} us: rt-app supports only whole microseconds", tick.us(time))
    }));
    if name.contains('/') {
        refused.push("rt-app writes a log file of this name: expected a name without `/`".into());
    }
    let Some(budget) = budget else {
        let longest = tick.whole_us(period.max(task.wcet()));
        if longest > MOST {
            refused.push(format!("a time of {longest} us: rt-app supports at most {MOST} us"));
        }
        return refused.into_iter();
    };
    let [least, most] = PERIODS;
    let with = "SCHED_DEADLINE supports";
    let us = |time| tick.us(time);
    let micros = |span: Nanos| span.get() / 1_000;
    // What rt-app gives to Linux are whole microseconds.
    if Nanos::from_micros(tick.whole_us(budget)) < LEAST_RUNTIME {
        let least = LEAST_RUNTIME.get().div_ceil(1_000);
        refused.push(format!("a budget of {} us: {with} {least} us or more", us(budget)));
    }
    if !(least..=most).contains(&tick.nanos(period)) {
        let range = format!("{} to {} us", micros(least), micros(most));
        refused.push(format!("a period of {} us: {with} {range}", us(period)));
    }
    if deadline > period {
        let what =
            format!("a deadline of {} us is beyond the period of {} us", us(deadline), us(period));
        refused.push(format!("{what}: {with} no such times"));
    }
    if tick.whole_us(budget) > tick.full_us(deadline) {
        let (budget, deadline) = (us(budget), us(deadline));
        let what = format!("a budget of {budget} us is beyond the deadline of {deadline} us");
        refused.push(format!("{what}: {with} no such times"));
    }
    refused.into_iter()
}

/// Returns the sentences about the differences between the set and its threads.
fn notes(set: &TaskSet) -> Vec<String> {
    let mut notes = Vec::new();
    let tasks = set.tasks();
    let ranked = is_fifo(set).unwrap_or(false);
    let due = ranked && tasks.iter().any(|task| task.deadline() != task.period());
    let others = [
        ("wss_kib", set.wss_kib().iter().any(Option::is_some)),
        ("ucb and ecb", set.cache().is_some()),
        ("budget_us", ranked && set.budgets().is_some()),
    ];
    let others = others.into_iter().filter(|(_, there)| *there).map(|(name, _)| name);
    let kept = due.then_some("deadline_us").into_iter().chain(set.unshown()).chain(others);
    let kept: Vec<&str> = kept.collect();
    if !kept.is_empty() {
        let what = "only the table `corehop` contains the parameters that rt-app does not support";
        notes.push(format!("{what}: {}", kept.join(", ")));
    }
    notes.extend(everywhere(set, ranked));
    if ranked {
        notes.extend(linux::throttled(set));
    } else {
        notes.extend(linux::admission(set));
        notes.extend(linux::unlike_edf(set));
        if set.placement().is_some() {
            let what = "Linux takes `cpus` of a thread under SCHED_DEADLINE only in a cpuset whose \
                        root domain has just these CPUs";
            notes.push(what.to_owned());
        }
    }
    notes
}

/// Returns a sentence about threads that can run on any CPU, although `check` assumes that tasks stay on their CPUs.
fn everywhere(set: &TaskSet, fifo: bool) -> Option<String> {
    let unstated = set.scheduler().is_none() && set.placement().is_none() && set.cpus() > 1;
    let under = if fifo { "g-fp" } else { "g-edf" };
    unstated.then(|| {
        format!(
            "the set states neither a scheduler nor `cpus`: its threads go to any CPU, as under {under}; \
             `corehop check SET.json -o PLACED.json` assigns CPUs"
        )
    })
}
