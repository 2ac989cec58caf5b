// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets as workloads of rt-app (<https://github.com/scheduler-tools/rt-app>), which runs them on Linux.
//!
//! A task is a thread that runs for its WCET once in a period. With priorities it runs under SCHED_FIFO, without
//! under SCHED_DEADLINE, whose parameters are those of a sporadic task. Where the set says which CPUs a task has, so does
//! the thread; Linux takes that from a thread under SCHED_DEADLINE only where a cpuset with a root domain of its own has
//! just these CPUs.

use serde_json::{Map, Value, json};

use super::placement::TaskPlacement;
use super::task::{Parameters, TaskError, TaskSet, Time};
use crate::bounds;

/// The highest priority that is given away: 99 is the kernel's own threads'.
const HIGHEST: u64 = 98;

/// Why a text is no workload that can be read as a task set.
#[derive(Debug, thiserror::Error)]
pub enum RtAppError {
    /// It is not valid JSON, apart from comments and trailing commas.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A thread does something that is no sporadic task, or lacks something.
    #[error("thread `{thread}`: {what}")]
    Thread {
        /// The thread.
        thread: String,
        /// The error in it.
        what: String,
    },
    /// There are no threads.
    #[error("the table `tasks` of threads is missing")]
    NoTasks,
    /// The resulting parameters make no sense.
    #[error(transparent)]
    Parameter(#[from] TaskError),
}

/// Why a set cannot be run by rt-app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// The kernel takes no deadline beyond the period.
    #[error(
        "task {0}: its deadline exceeds its period, which SCHED_DEADLINE rejects; give priorities"
    )]
    Deadline(usize),
    /// There are too few priorities.
    #[error("the tasks have more than the {HIGHEST} priorities of SCHED_FIFO")]
    Priorities,
    /// A thread has no pieces.
    #[error(
        "task {0} runs in pieces or by shares, which rt-app cannot do: give it CPUs (check -o with a \
         test that splits no task)"
    )]
    InParts(usize),
}

/// The workload that runs a task set for so many seconds.
///
/// # Errors
/// [`NotRunnable`] where Linux has no such tasks.
pub fn write(set: &TaskSet, seconds: u32) -> Result<Value, NotRunnable> {
    let mut ranks: Vec<u32> = set.tasks().iter().filter_map(super::task::Task::priority).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() as u64 > HIGHEST {
        return Err(NotRunnable::Priorities);
    }
    let mut threads = Map::new();
    for (at, task) in set.tasks().iter().enumerate() {
        let name = set.names()[at].clone().unwrap_or_else(|| format!("task{at}"));
        let mut thread = json!({
            "instance": 1,
            "loop": -1,
            "run": task.wcet(),
            "timer": { "ref": "unique", "period": task.period() },
        });
        if let Some(rank) = task.priority() {
            let place = ranks.binary_search(&rank).unwrap_or(0) as u64;
            thread["policy"] = json!("SCHED_FIFO");
            thread["priority"] = json!(HIGHEST - place);
        } else if task.deadline() > task.period() {
            return Err(NotRunnable::Deadline(at));
        } else {
            thread["policy"] = json!("SCHED_DEADLINE");
            thread["dl-runtime"] = json!(task.wcet());
            thread["dl-period"] = json!(task.period());
            thread["dl-deadline"] = json!(task.deadline());
        }
        match set.placement().map(|places| &places[at]) {
            None => {}
            Some(TaskPlacement::Cpus(cpus)) => thread["cpus"] = json!(cpus),
            Some(TaskPlacement::Pieces(_) | TaskPlacement::Shares(_)) => {
                return Err(NotRunnable::InParts(at));
            }
        }
        // Threads of one name would be one thread.
        let taken = threads.contains_key(&name);
        threads.insert(if taken { format!("{name}-{at}") } else { name }, thread);
    }
    Ok(json!({
        "tasks": threads,
        "global": {
            "duration": seconds,
            "calibration": "CPU0",
            "default_policy": "SCHED_OTHER",
            "lock_pages": true,
            "logdir": "./",
            "log_basename": "corehop",
        },
    }))
}

/// The task set that a workload is, on so many CPUs.
///
/// # Errors
/// [`RtAppError`] names the thread that is no sporadic task, and why.
pub fn read(text: &str, cpus: u32) -> Result<TaskSet, RtAppError> {
    let value: Value = bounds::from_json(&plain(text))?;
    let threads = value.get("tasks").and_then(Value::as_object).ok_or(RtAppError::NoTasks)?;
    let global = value.pointer("/global/default_policy").and_then(Value::as_str);
    let mut tasks = Vec::new();
    for (name, thread) in threads {
        let wrong = |what: String| RtAppError::Thread { thread: name.clone(), what };
        let fields = thread.as_object().ok_or_else(|| wrong("expected a table".to_owned()))?;
        let task = task(fields, global).map_err(wrong)?;
        let instances = number(fields, "instance").map_err(wrong)?.unwrap_or(1);
        for instance in 0..instances.min(1 << 14) {
            let name = if instances > 1 { format!("{name}-{instance}") } else { name.clone() };
            tasks.push(Parameters { name: Some(name), ..task.clone() });
        }
    }
    Ok(TaskSet::new(cpus, &tasks)?)
}

fn task(fields: &Map<String, Value>, default_policy: Option<&str>) -> Result<Parameters, String> {
    let begins = |key: &str, with: &str| {
        key.strip_prefix(with).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
    };
    // rt-app numbers events of one kind: run0, run1.
    let waits = [
        "phases", "sleep", "suspend", "lock", "wait", "sync", "mem", "iorun", "barrier", "fork",
        "resume", "signal",
    ];
    for key in fields.keys() {
        if let Some(wait) = waits.iter().find(|wait| begins(key, wait)) {
            return Err(format!("it has `{wait}`: a sporadic task only runs, once in a period"));
        }
    }
    let mut runs: Time = 0;
    for key in fields.keys().filter(|key| begins(key, "run") || begins(key, "runtime")) {
        // A longer time than any is refused later.
        runs = runs.saturating_add(number(fields, key)?.unwrap_or(0));
    }
    let timer = fields.iter().find(|(key, _)| begins(key, "timer")).map(|(_, timer)| timer);
    let timer =
        timer.and_then(Value::as_object).map(|timer| number(timer, "period")).transpose()?;
    let policy = fields.get("policy").and_then(Value::as_str).or(default_policy);
    let wcet = number(fields, "dl-runtime")?.or((runs > 0).then_some(runs));
    let period = number(fields, "dl-period")?.or(timer.flatten());
    let priority = number(fields, "priority")?
        .filter(|_| matches!(policy, Some("SCHED_FIFO" | "SCHED_RR")))
        .map(|priority| 99 - priority.min(99) as u32);
    Ok(Parameters {
        wcet: wcet.ok_or("neither `dl-runtime` nor `run` says how long it runs")?,
        period: period.ok_or("neither `dl-period` nor a `timer` says how often it runs")?,
        deadline: number(fields, "dl-deadline")?,
        priority,
        ..Parameters::default()
    })
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let number = value.as_u64();
    number.map(Some).ok_or_else(|| format!("{name} is {value}: expected a whole number"))
}

/// The text without comments, and without commas before a closing bracket: rt-app takes both.
fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string(rest),
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
                continue;
            }
            '/' if rest.starts_with("//") => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
                continue;
            }
            '}' | ']' => {
                let end = kept.trim_end().len();
                if kept[..end].ends_with(',') {
                    kept.truncate(end - 1);
                }
                1
            }
            c => c.len_utf8(),
        };
        kept.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    kept
}

/// The length of the string that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::placement::PlacedShare;

    fn set() -> Vec<Parameters> {
        vec![
            Parameters {
                name: Some("a".into()),
                wcet: 2,
                period: 10,
                deadline: Some(8),
                ..Parameters::default()
            },
            Parameters { wcet: 3, period: 12, ..Parameters::default() },
        ]
    }

    #[test]
    fn what_is_written_is_read_again() {
        let edf = TaskSet::new(2, &set()).unwrap();
        let read = read(&write(&edf, 5).unwrap().to_string(), 2).unwrap();
        assert_eq!(read.tasks(), edf.tasks());
        assert_eq!(read.names(), [Some("a".to_owned()), Some("task1".to_owned())]);
        let ranked: Vec<_> = set()
            .into_iter()
            .zip([7, 3])
            .map(|(task, rank)| Parameters { priority: Some(rank), ..task })
            .collect();
        let workload = write(&TaskSet::new(2, &ranked).unwrap(), 5).unwrap();
        // The smaller rank is served first, as is the larger priority.
        assert_eq!(workload.pointer("/tasks/a/priority"), Some(&json!(97)));
        assert_eq!(workload.pointer("/tasks/task1/priority"), Some(&json!(98)));
    }

    #[test]
    fn an_assignment_pins_the_threads_and_pieces_are_refused() {
        let set = TaskSet::new(2, &set()).unwrap();
        let places = vec![TaskPlacement::Cpus(vec![1]), TaskPlacement::Cpus(vec![0, 1])];
        let workload = write(&set.clone().placed(places).unwrap(), 5).unwrap();
        assert_eq!(workload.pointer("/tasks/a/cpus"), Some(&json!([1])));
        assert_eq!(workload.pointer("/tasks/task1/cpus"), Some(&json!([0, 1])));
        let share = |cpu| PlacedShare { cpu, share: 0.5 };
        let places =
            vec![TaskPlacement::Cpus(vec![1]), TaskPlacement::Shares(vec![share(0), share(1)])];
        let error = write(&set.placed(places).unwrap(), 5).unwrap_err().to_string();
        assert!(error.contains("task 1") && error.contains("shares"), "{error}");
    }

    #[test]
    fn a_workload_with_comments_and_trailing_commas_is_read() {
        let text = r#"{
            /* ten per cent, /twice/ */
            "tasks" : { "thread // 0" : {
                "instance" : 2, "loop" : -1, "run" : 10000, // in us
                "timer" : { "ref" : "unique", "period" : 100000 },
                "dl-runtime" : 12000, "dl-period" : 100000,
            } },
            "global" : { "default_policy" : "SCHED_DEADLINE" }
        }"#;
        let set = read(text, 4).unwrap();
        assert_eq!(set.names()[1].as_deref(), Some("thread // 0-1"));
        assert_eq!((set.tasks()[0].wcet(), set.tasks()[0].period()), (12_000, 100_000));
        assert_eq!(set.cpus(), 4);
    }

    #[test]
    fn what_is_no_sporadic_task_is_refused_by_thread() {
        for (thread, words) in [
            (r#"{"run": 5, "sleep": 7}"#, "`sleep`"),
            (r#"{"phases": {}}"#, "`phases`"),
            (r#"{"timer": {"period": 7}}"#, "`run`"),
            (r#"{"run": 5}"#, "`timer`"),
            (r#"{"run": -5, "timer": {"period": 7}}"#, "run is -5"),
        ] {
            let error =
                read(&format!(r#"{{"tasks": {{"x": {thread}}}}}"#), 1).unwrap_err().to_string();
            assert!(error.contains("`x`") && error.contains(words), "{error}");
        }
        assert!(matches!(read("{}", 1), Err(RtAppError::NoTasks)));
        assert!(matches!(read("{", 1), Err(RtAppError::Syntax(_))));
        let late = [Parameters { wcet: 1, period: 5, deadline: Some(9), ..Parameters::default() }];
        assert_eq!(write(&TaskSet::new(1, &late).unwrap(), 1), Err(NotRunnable::Deadline(0)));
    }
}
