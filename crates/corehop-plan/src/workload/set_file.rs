// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes task sets as JSON: `{"cpus": m, "tasks": [{"wcet_us", "period_us", …}]}`.
//!
//! Times are in microseconds, with a resolution of 0.001, or texts with a unit (`"500 ns"`); the time to reload a cache
//! block is in nanoseconds. Cache blocks are a list of numbers, or a text with ranges: `"0-31,64"`. A field that is
//! unknown, missing, repeated or out of range is an error that names the task and the field, because an unread
//! `deadline` would make a verdict wrong.

use std::fmt;

use serde_json::{Value, json};

use super::blocks::{CacheBlockSet, Footprint, LAST_BLOCK, Reload};
use super::scheduler::Scheduler;
use super::task::{MOST_CPUS, TaskError, TaskParameters, TaskSet, Tick, Time};
use crate::units::Nanos;
use crate::words::nearest_of;

mod held_up_file;
mod placement_file;
mod times;
mod tree;

pub use placement_file::place_json;
pub(super) use tree::JsonTree;

/// The largest working set, in KiB.
const MOST_KIB: u64 = 1 << 40;

/// The reason why a text is not a task set.
#[derive(Debug, thiserror::Error)]
pub enum SetFileError {
    /// The text is not valid JSON.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A field is missing, unknown, repeated, or of the wrong type.
    #[error("{place}{what}")]
    Field {
        /// The number and the name of the task, followed by a colon and a space; an empty text for the set itself.
        place: String,
        /// The problem with the field, in words.
        what: String,
    },
    /// A parameter of the set is invalid.
    #[error(transparent)]
    Parameter(#[from] TaskError),
}

/// The fields of a task set.
const SET_FIELDS: [&str; 7] =
    ["cpus", "tasks", "scheduler", "verdict", "block_reload_ns", "locking", "chains"];

/// The longest valid time to reload a block.
const LONGEST_RELOAD: Nanos = Nanos::from_secs(1);

/// The names of all fields that a task can have in a file.
pub const TASK_FIELDS: [&str; 17] = [
    "name",
    "wcet_us",
    "budget_us",
    "period_us",
    "deadline_us",
    "priority",
    "wss_kib",
    "jitter_us",
    "blocking_us",
    "suspension_us",
    "locks",
    "bcet_us",
    "ucb",
    "ecb",
    "cpus",
    "pieces",
    "shares",
];

/// The meaning of each field of a set and of a task.
pub const FIELDS: [(&str, &str); 23] = [
    (
        "cpus",
        "Beside `tasks`: the number of CPUs that serve the set. In a task: the CPUs on which the task may run, as [0, 2].",
    ),
    ("tasks", "The tasks of the set."),
    (
        "scheduler",
        "The scheduler of the set: p-edf, p-fp, g-edf, g-fp, c-edf, eevdf or sched_ext; the last two have no analysis.",
    ),
    (
        "verdict",
        "The sentence of the verdict with which `check -o` wrote the set. No verb reads the sentence; `check` computes a new verdict.",
    ),
    (
        "block_reload_ns",
        "The time to reload a cache block, in nanoseconds, or with its unit, if tasks have `ucb` and `ecb`.",
    ),
    ("name", "The name of a task, in messages and tables. Names are unique."),
    (
        "wcet_us",
        "The worst-case execution time of each job, in microseconds with up to three decimals, or as text with its unit: `\"1.5 ms\"`.",
    ),
    (
        "budget_us",
        "The longest time that a job may run before the kernel stops the job (SCHED_DEADLINE): from `wcet_us` to the deadline. `check -o` writes the WCET plus all charges, `convert` turns the budget into `dl-runtime`, and `check` accepts no set whose tasks exceed the budget with all charges.",
    ),
    (
        "period_us",
        "The minimum time between two releases of a task, in microseconds, or with its unit.",
    ),
    (
        "deadline_us",
        "The time from the release of a job to its deadline, in microseconds, or with its unit; default: the period.",
    ),
    (
        "priority",
        "The rank of a task under fixed priorities; a smaller rank is more urgent. For all tasks or for none.",
    ),
    (
        "wss_kib",
        "The size of the working set of a task in KiB, for which `--costs` charges delays.",
    ),
    (
        "jitter_us",
        "The longest time from the arrival of a job to its release, in microseconds, or with its unit.",
    ),
    (
        "blocking_us",
        "The longest time for which jobs of lower priority block a job, in microseconds, or with its unit.",
    ),
    (
        "suspension_us",
        "The longest total time for which a job, after its start, waits for something other than the CPU and locks, in microseconds.",
    ),
    (
        "locks",
        "The critical sections of a task: for each the name of its `resource`, and `longest_us`, the longest time for which a job holds the lock.",
    ),
    (
        "locking",
        "Beside `cpus`: the protocol of the locks: pcp (priority ceiling, PTHREAD_PRIO_PROTECT), pi (priority inheritance, as rt_mutex) or srp (stack resource policy, also under EDF).",
    ),
    (
        "chains",
        "Beside `cpus`: chains of tasks, each with `name`, `tasks` (names, in order), `activation` (periodic, or event: each job is activated by the end of one of the task before) and `deadline_us` from end to end.",
    ),
    (
        "bcet_us",
        "The minimum execution time of a job, in microseconds; default: 0. Only chains use this field: the spread of responses is the jitter of the next task.",
    ),
    ("ucb", "The cache blocks that a task may use again after a preemption, as numbers or ranges."),
    ("ecb", "All cache blocks that a task touches, as numbers or ranges."),
    ("pieces", "The parts of a task, which run one after the other on different CPUs."),
    ("shares", "The shares of CPUs that a task has from job to job."),
];

/// Parses a task set from the text of a file.
///
/// # Errors
/// Returns [`SetFileError`] if the text is not a task set; the error names the problem, its place,
/// and the expected form.
pub fn parse(text: &str) -> Result<TaskSet, SetFileError> {
    let JsonTree::Object(fields) = serde_json::from_str(text)? else {
        return Err(wrong("", "a task set is an object {\"cpus\": …, \"tasks\": […]}"));
    };
    of_fields(&fields)
}

/// Returns the task set of a parsed object.
pub(super) fn of_fields(fields: &[(String, JsonTree)]) -> Result<TaskSet, SetFileError> {
    check_names("", fields, &SET_FIELDS)?;
    let of_set = ObjectFields { place: "", fields };
    let cpus = of_set.number("cpus", 1, u64::from(MOST_CPUS))?;
    let cpus = cpus
        .ok_or_else(|| wrong("", "cpus is missing: state the number of CPUs that serve the set"))?;
    let Some(JsonTree::Array(given)) = find(fields, "tasks") else {
        return Err(wrong("", "tasks is missing, or is not a list"));
    };
    let tick = times::tick(given, find(fields, "chains"))?;
    let places = placement_file::places(given, tick)?;
    let tasks: Vec<TaskParameters> = given
        .iter()
        .enumerate()
        .map(|(at, task)| parameters(at, task, tick))
        .collect::<Result<_, _>>()?;
    let set = TaskSet::in_ticks(tick, cpus as u32, &tasks)?;
    let set = match places {
        Some(places) => set.placed(places)?,
        None => set,
    };
    let set = match scheduler(fields)? {
        Some(scheduler) => set.scheduled_by(scheduler),
        None => set,
    };
    let set = match verdict(fields)? {
        Some(sentence) => set.judged(sentence),
        None => set,
    };
    let set = held_up_file::held_up(set, fields, given)?;
    match of_set.span("block_reload_ns", Tick::Nano, LONGEST_RELOAD)? {
        Some(each) => Ok(set.sharing(&tasks, Reload::nanos(each.get()))?),
        None if tasks.iter().all(|task| task.footprint.is_none()) => Ok(set),
        None => {
            Err(wrong("", "block_reload_ns is missing: state the time to reload a cache block"))
        }
    }
}

/// Returns the scheduler that a set states.
fn scheduler(fields: &[(String, JsonTree)]) -> Result<Option<Scheduler>, SetFileError> {
    let refused = |value: &JsonTree, why: String| wrong("", format!("scheduler is {value}: {why}"));
    match find(fields, "scheduler") {
        None => Ok(None),
        Some(value @ JsonTree::Leaf(Value::String(name))) => {
            let scheduler = name.parse::<Scheduler>();
            scheduler.map(Some).map_err(|error| refused(value, error.to_string()))
        }
        Some(other) => Err(refused(other, "expected a text, for instance \"p-edf\"".to_owned())),
    }
}

/// Returns the verdict with which a set was written, as a sentence.
fn verdict(fields: &[(String, JsonTree)]) -> Result<Option<&str>, SetFileError> {
    match find(fields, "verdict") {
        None => Ok(None),
        Some(JsonTree::Leaf(Value::String(sentence))) => Ok(Some(sentence)),
        Some(other) => Err(wrong("", format!("verdict is {other}: expected a text"))),
    }
}

/// Returns a task set in the form that [`parse`] reads; fields with default values are left out.
pub fn write(set: &TaskSet) -> Value {
    let tasks = set.tasks().iter().enumerate().map(|(at, task)| {
        let tick = set.tick();
        let us = |time| tick.json(time);
        let mut fields = json!({ "wcet_us": us(task.wcet()), "period_us": us(task.period()) });
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields[name] = value;
            }
        };
        let unless = |value: Time, default: Time| (value != default).then(|| us(value));
        add("name", set.names()[at].as_ref().map(|name| json!(name)));
        add("deadline_us", unless(task.deadline(), task.period()));
        add("budget_us", unless(set.budget(at), task.wcet()));
        add("priority", task.priority().map(|rank| json!(rank)));
        add("wss_kib", set.wss_kib()[at].map(|wss| json!(wss)));
        add("jitter_us", unless(task.jitter(), Time::ZERO));
        add("blocking_us", unless(task.blocking(), Time::ZERO));
        add("suspension_us", unless(task.suspension(), Time::ZERO));
        held_up_file::task_json(set, at).into_iter().for_each(|(name, it)| add(&name, Some(it)));
        let footprint = set.cache().map(|cache| &cache.footprints[at]);
        add("ucb", footprint.map(|it| json!(it.ucb.to_string())));
        add("ecb", footprint.map(|it| json!(it.ecb.to_string())));
        if let Some(Value::Object(place)) = set.placement().map(|all| place_json(&all[at], tick)) {
            place.into_iter().for_each(|(name, value)| add(&name, Some(value)));
        }
        fields
    });
    let mut written = json!({ "cpus": set.cpus(), "tasks": tasks.collect::<Value>() });
    if let Some(scheduler) = set.scheduler() {
        written["scheduler"] = json!(scheduler);
    }
    for (name, value) in held_up_file::set_json(set) {
        written[&name] = value;
    }
    if let Some(sentence) = set.verdict() {
        written["verdict"] = json!(sentence);
    }
    if let Some(cache) = set.cache() {
        written["block_reload_ns"] = json!(cache.reload.of(1_000 / set.tick().per_us()));
    }
    written
}

fn parameters(at: usize, task: &JsonTree, tick: Tick) -> Result<TaskParameters, SetFileError> {
    let place = format!("task {at}: ");
    let JsonTree::Object(fields) = task else {
        return Err(wrong(&place, "a task is an object {\"wcet_us\": …, \"period_us\": …}"));
    };
    let name = match find(fields, "name") {
        None => None,
        Some(JsonTree::Leaf(Value::String(name))) => Some(name.clone()),
        Some(other) => return Err(wrong(&place, format!("name is {other}: expected a text"))),
    };
    let place = place_of(at, fields);
    check_names(&place, fields, &TASK_FIELDS)?;
    let fields = ObjectFields { place: &place, fields };
    Ok(TaskParameters {
        wcet: fields.needed("wcet_us", tick)?,
        period: fields.needed("period_us", tick)?,
        deadline: fields.time("deadline_us", Time::TICK, tick)?,
        priority: fields.number("priority", 0, u64::from(u32::MAX))?.map(|rank| rank as u32),
        jitter: fields.time("jitter_us", Time::ZERO, tick)?.unwrap_or(Time::ZERO),
        blocking: fields.time("blocking_us", Time::ZERO, tick)?.unwrap_or(Time::ZERO),
        suspension: fields.time("suspension_us", Time::ZERO, tick)?.unwrap_or(Time::ZERO),
        wss_kib: fields.number("wss_kib", 0, MOST_KIB)?,
        budget: fields.time("budget_us", Time::TICK, tick)?,
        footprint: fields.footprint()?,
        name,
    })
}

/// Returns the text that names a task in errors: its number, and its name if it has one.
fn place_of(at: usize, fields: &[(String, JsonTree)]) -> String {
    match find(fields, "name") {
        Some(JsonTree::Leaf(Value::String(name))) => format!("task {at} (`{name}`): "),
        _ => format!("task {at}: "),
    }
}

fn wrong(place: &str, what: impl Into<String>) -> SetFileError {
    SetFileError::Field { place: place.to_owned(), what: what.into() }
}

fn find<'a>(fields: &'a [(String, JsonTree)], name: &str) -> Option<&'a JsonTree> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn check_names(
    place: &str,
    fields: &[(String, JsonTree)],
    known: &[&str],
) -> Result<(), SetFileError> {
    for (at, (name, _)) in fields.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let near = nearest_of(name, known.iter().copied());
            let known = known.join(", ");
            return Err(wrong(
                place,
                format!("there is no field `{name}`{near}: use one of {known}"),
            ));
        }
        if fields[..at].iter().any(|(other, _)| other == name) {
            return Err(wrong(place, format!("{name} is there twice")));
        }
    }
    Ok(())
}

/// The fields of one JSON object.
struct ObjectFields<'a> {
    place: &'a str,
    fields: &'a [(String, JsonTree)],
}

impl ObjectFields<'_> {
    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, SetFileError> {
        let Some(value) = find(self.fields, name) else { return Ok(None) };
        let number =
            if let JsonTree::Leaf(Value::Number(number)) = value { number.as_u64() } else { None };
        match number {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("a whole number, {least} to {most}");
                Err(wrong(self.place, format!("{name} is {value}: expected {expected}")))
            }
        }
    }

    /// Returns the useful and the evicting blocks of a task, or `None` if the task states neither.
    fn footprint(&self) -> Result<Option<Footprint>, SetFileError> {
        match (self.blocks("ucb")?, self.blocks("ecb")?) {
            (None, None) => Ok(None),
            (Some(ucb), Some(ecb)) => Ok(Some(Footprint { ucb, ecb })),
            (None, Some(_)) => Err(wrong(
                self.place,
                "ucb is missing: state the cache blocks that the task uses again",
            )),
            (Some(_), None) => Err(wrong(
                self.place,
                "ecb is missing: state all cache blocks that the task touches",
            )),
        }
    }

    fn blocks(&self, name: &str) -> Result<Option<CacheBlockSet>, SetFileError> {
        let refused = |value: &dyn fmt::Display, why: &str| {
            Err(wrong(self.place, format!("{name} is {value}: {why}")))
        };
        let number = |item: &JsonTree| {
            let JsonTree::Leaf(Value::Number(number)) = item else { return None };
            number.as_u64().filter(|&it| it <= LAST_BLOCK.into()).map(|it| it as u32)
        };
        match find(self.fields, name) {
            None => Ok(None),
            Some(JsonTree::Leaf(Value::String(text))) => match text.parse() {
                Ok(blocks) => Ok(Some(blocks)),
                Err(why) => refused(&format!("\"{text}\""), &why),
            },
            Some(JsonTree::Array(items)) => match items.iter().find(|it| number(it).is_none()) {
                None => Ok(Some(items.iter().filter_map(number).collect())),
                Some(item) => {
                    refused(&format!("a list with {item}"), &format!("expected 0 to {LAST_BLOCK}"))
                }
            },
            Some(other) => refused(other, "expected numbers of blocks, for instance \"0-31,64\""),
        }
    }

    fn needed(&self, name: &str, tick: Tick) -> Result<Time, SetFileError> {
        let value = self.time(name, Time::TICK, tick)?;
        value.ok_or_else(|| wrong(self.place, format!("{name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, words: &[&str]) {
        let error = parse(text).expect_err(text).to_string();
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_set_is_read_with_what_it_leaves_out() {
        let set = parse(
            r#"{"cpus": 2, "tasks": [
                {"name": "video", "wcet_us": 3, "period_us": 10, "deadline_us": 8, "wss_kib": 64},
                {"wcet_us": 1, "period_us": 5, "jitter_us": 2, "blocking_us": 1}]}"#,
        )
        .unwrap();
        assert_eq!(set.cpus(), 2);
        let [video, other] = set.tasks() else { panic!() };
        assert_eq!(
            (video.wcet(), video.period(), video.deadline()),
            (Time::new(3), Time::new(10), Time::new(8))
        );
        assert_eq!(
            (other.deadline(), other.jitter(), other.blocking()),
            (Time::new(5), Time::new(2), Time::new(1))
        );
        assert_eq!(set.names(), [Some("video".to_owned()), None]);
        assert_eq!(set.wss_kib(), [Some(64), None]);
        assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
    }

    #[test]
    fn blocks_are_numbers_or_ranges_and_come_back() {
        let of = |set: &str, task: &str| {
            format!(r#"{{"cpus": 1{set}, "tasks": [{{"wcet_us": 1, "period_us": 2{task}}}]}}"#)
        };
        let reload = r#", "block_reload_ns": 150"#;
        let blocks = r#", "ucb": [3, 1, 2], "ecb": "0-3,8""#;
        let set = parse(&of(reload, blocks)).unwrap();
        let cache = set.cache().unwrap();
        assert_eq!((cache.footprints[0].ucb.count(), cache.footprints[0].ecb.count()), (3, 5));
        assert_eq!((cache.reload.of(1_000), cache.reload.of(1)), (Time::new(150), Time::new(1)));
        assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        refused(&of("", blocks), &["block_reload_ns is missing"]);
        refused(&of(reload, ""), &["task 0", "ecb is absent"]);
        refused(&of(reload, r#", "ecb": "1""#), &["task 0", "ucb is missing"]);
        refused(&of(reload, r#", "ucb": "1""#), &["task 0", "ecb is missing"]);
        refused(&of(reload, r#", "ucb": "4", "ecb": "0-3""#), &["task 0", "ucb is 4"]);
        refused(&of(reload, r#", "ucb": "x", "ecb": "0-3""#), &["task 0", r#"ucb is "x""#]);
        refused(&of(reload, r#", "ucb": [-1], "ecb": "0-3""#), &["task 0", "a list with -1"]);
        refused(&of(reload, r#", "ucb": 1, "ecb": "0-3""#), &["task 0", "ucb is 1"]);
        refused(&of(r#", "block_reload_ns": 1.5"#, blocks), &["block_reload_ns is 1.5"]);
    }

    #[test]
    fn times_are_microseconds_with_decimals_or_have_a_unit() {
        let of = |wcet: &str, period: &str| {
            let tasks = format!(r#"{{"wcet_us": {wcet}, "period_us": {period}}}"#);
            parse(&format!(r#"{{"cpus": 1, "tasks": [{tasks}]}}"#)).unwrap()
        };
        let whole = of("500", "1000");
        for (wcet, period) in [
            (r#""500 us""#, r#""1 ms""#),
            ("500.0", r#""1ms""#),
            (r#""500000ns""#, "1e3"),
            (r#""0.5 ms""#, "1000.000"),
        ] {
            assert_eq!(of(wcet, period), whole, "{wcet}, {period}");
        }
        // One time that is no whole number of microseconds makes all of them nanoseconds.
        for (wcet, period) in
            [("0.5", "1.501"), (r#""500 ns""#, r#""1501ns""#), ("5e-1", r#""1.501us""#)]
        {
            let set = of(wcet, period);
            let task = &set.tasks()[0];
            assert_eq!(
                (set.tick(), task.wcet(), task.period()),
                (Tick::Nano, Time::new(500), Time::new(1_501))
            );
            assert_eq!(write(&set)["tasks"][0], json!({ "wcet_us": 0.5, "period_us": 1.501 }));
            assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        }
    }

    #[test]
    fn a_time_too_long_for_nanoseconds_says_why() {
        let of = |wcet: &str| {
            format!(r#"{{"cpus": 1, "tasks": [{{"wcet_us": {wcet}, "period_us": "1 h"}}]}}"#)
        };
        assert!(parse(&of("1")).is_ok());
        let words =
            ["task 0", "period_us is 3600000000", "to 1099511627.776", "not a whole number"];
        refused(&of("1.5"), &words);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_task_and_field() {
        let of = |fields: &str| {
            format!(
                r#"{{"cpus": 1, "tasks": [{{"wcet_us": 1, "period_us": 2}}, {{"name": "x", {fields}}}]}}"#
            )
        };
        for (fields, words) in [
            (r#""wcet_us": 0, "period_us": 5"#, ["task 1 (`x`)", "wcet_us is 0"]),
            (r#""wcet_us": 1, "period_us": 0"#, ["task 1 (`x`)", "period_us is 0"]),
            (r#""wcet_us": -1, "period_us": 5"#, ["task 1 (`x`)", "wcet_us is -1"]),
            (
                r#""wcet_us": 1, "period_us": 9223372036854775808"#,
                ["period_us", "9223372036854775808"],
            ),
            (r#""wcet_us": 1, "period_us": 1e300"#, ["period_us", "e+300"]),
            (r#""wcet_us": 1.0005, "period_us": 5"#, ["wcet_us is 1.0005", "three decimals"]),
            (r#""wcet_us": "1.5", "period_us": 5"#, ["wcet_us is \"1.5\"", "no unit"]),
            (r#""wcet_us": "1.5 KiB", "period_us": 5"#, ["wcet_us is \"1.5 KiB\"", "4 ms"]),
            (r#""wcet_us": 6.5, "period_us": 5"#, ["wcet_us is 6.5", "period_us, which is 5"]),
            (r#""wcet_us": 6, "period_us": 5"#, ["task 1 (`x`)", "wcet_us is 6"]),
            (r#""wcet_us": 1, "period_us": 5, "deadline_us": 0"#, ["task 1", "deadline_us is 0"]),
            (
                r#""wcet_us": 1, "period_us": 5, "deadline": 3"#,
                ["task 1", "no field `deadline` (the nearest is `deadline_us`)"],
            ),
            (r#""wcet_us": 1, "wcet_us": 2, "period_us": 5"#, ["task 1", "wcet_us is there twice"]),
            (r#""period_us": 5"#, ["task 1", "wcet_us is missing"]),
            (r#""wcet_us": "1", "period_us": 5"#, ["task 1", "wcet_us is \"1\""]),
            (r#""wcet_us": 1, "period_us": 5, "wss_kib": null"#, ["task 1", "wss_kib is null"]),
            (r#""wcet_us": 1, "period_us": 5, "priority": 1"#, ["task 0", "priority is absent"]),
        ] {
            refused(&of(fields), &words);
        }
    }

    #[test]
    fn a_budget_is_no_less_than_the_work_and_comes_back() {
        let of = |budget: &str| {
            let first = format!(r#"{{"wcet_us": 4, "period_us": 9, "budget_us": {budget}}}"#);
            format!(r#"{{"cpus": 1, "tasks": [{first}, {{"wcet_us": 1, "period_us": 9}}]}}"#)
        };
        let set = parse(&of("6")).unwrap();
        assert_eq!(set.budgets().unwrap(), [6, 1].map(Time::new));
        assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        refused(&of("3"), &["task 0", "budget_us is 3", "4 to 9"]);
        refused(&of("10"), &["task 0", "budget_us is 10"]);
    }

    #[test]
    fn every_field_has_its_meaning_once() {
        let mut known: Vec<&str> = SET_FIELDS.into_iter().chain(TASK_FIELDS).collect();
        let mut explained: Vec<&str> = FIELDS.iter().map(|&(name, _)| name).collect();
        known.sort_unstable();
        known.dedup();
        explained.sort_unstable();
        assert_eq!(known, explained);
    }

    #[test]
    fn a_verdict_comes_back_and_is_a_text() {
        let of = |verdict: &str| {
            format!(
                r#"{{"cpus": 1, "tasks": [{{"wcet_us": 1, "period_us": 2}}], "verdict": {verdict}}}"#
            )
        };
        let set = parse(&of(r#""yes: every deadline holds""#)).unwrap();
        assert_eq!(set.verdict(), Some("yes: every deadline holds"));
        assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        refused(&of("true"), &["verdict is true"]);
    }

    #[test]
    fn a_set_may_state_its_scheduler() {
        let of = |scheduler: &str| {
            let tasks = r#"[{"wcet_us": 1, "period_us": 2}]"#;
            format!(r#"{{"cpus": 1, "tasks": {tasks}, "scheduler": {scheduler}}}"#)
        };
        let set = parse(&of(r#""p-fp""#)).unwrap();
        assert_eq!(set.scheduler(), Some(Scheduler::PFp));
        assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        refused(&of(r#""edf""#), &["scheduler is", "edf", "p-edf"]);
        refused(&of("7"), &["scheduler is 7"]);
    }

    #[test]
    fn a_set_without_cpus_or_tasks_is_refused() {
        refused(r#"{"cpus": 0, "tasks": [{"wcet_us": 1, "period_us": 2}]}"#, &["cpus is 0"]);
        refused(r#"{"tasks": [{"wcet_us": 1, "period_us": 2}]}"#, &["cpus is missing"]);
        refused(r#"{"cpus": 1, "tasks": []}"#, &["length of tasks is 0"]);
        refused(r#"{"cpus": 1}"#, &["tasks is missing"]);
        refused(r#"{"cpus": 1, "tasks": [7]}"#, &["task 0", "object"]);
        refused("[]", &["object"]);
        refused("{", &["not valid JSON"]);
        refused("", &["not valid JSON"]);
    }
}
