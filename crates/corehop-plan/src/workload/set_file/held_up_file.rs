// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes the locks and chains of a task set: `locks` of each task with `locking` of the set, and `chains`
//! with `bcet_us` of tasks.

use serde_json::{Map, Value, json};

use super::placement_file::object;
use super::tree::JsonTree;
use super::{ObjectFields, SetFileError, find, wrong};
use crate::workload::chains::{Activation, Chain, Chains};
use crate::workload::locks::{Locking, Locks};
use crate::workload::task::{Task, TaskSet, Tick, Time};

/// Adds the locks and chains that a file states to a task set.
pub(super) fn held_up(
    set: TaskSet,
    fields: &[(String, JsonTree)],
    tasks: &[JsonTree],
) -> Result<TaskSet, SetFileError> {
    let set = match locks(&set, fields, tasks)? {
        Some(locks) => set.locking(locks),
        None => set,
    };
    match chains(&set, fields, tasks)? {
        Some(chains) => Ok(set.chained(chains)?),
        None => Ok(set),
    }
}

/// Returns the value of a field that allows only certain words.
fn word<T: std::str::FromStr<Err = crate::words::UnknownWord>>(
    place: &str,
    fields: &[(String, JsonTree)],
    name: &str,
) -> Result<Option<T>, SetFileError> {
    match find(fields, name) {
        None => Ok(None),
        Some(JsonTree::Leaf(Value::String(text))) => match text.parse() {
            Ok(word) => Ok(Some(word)),
            Err(error) => Err(wrong(place, format!("{name} is \"{text}\": {error}"))),
        },
        Some(other) => Err(wrong(place, format!("{name} is {other}: expected a text"))),
    }
}

fn locks(
    set: &TaskSet,
    fields: &[(String, JsonTree)],
    tasks: &[JsonTree],
) -> Result<Option<Locks>, SetFileError> {
    let sections: Vec<Vec<(String, Time)>> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| sections(set.tick(), at, task))
        .collect::<Result<_, _>>()?;
    let protocol = word::<Locking>("", fields, "locking")?;
    let has_some = sections.iter().any(|own| !own.is_empty());
    match protocol {
        Some(protocol) if has_some => {
            let wcets: Vec<Time> = set.tasks().iter().map(Task::wcet).collect();
            Ok(Some(Locks::new(protocol, &sections, &wcets)?))
        }
        Some(protocol) => {
            Err(wrong("", format!("locking is \"{protocol}\", but no task has locks")))
        }
        None if has_some => {
            Err(wrong("", "locking is missing: state the protocol of the locks, pcp, pi or srp"))
        }
        None => Ok(None),
    }
}

/// Returns the critical sections of a task.
fn sections(tick: Tick, at: usize, task: &JsonTree) -> Result<Vec<(String, Time)>, SetFileError> {
    let JsonTree::Object(fields) = task else { return Ok(Vec::new()) };
    let place = format!("task {at}: ");
    match find(fields, "locks") {
        None => Ok(Vec::new()),
        Some(JsonTree::Array(items)) => {
            items.iter().map(|item| section(tick, &place, item)).collect()
        }
        Some(other) => Err(wrong(&place, format!("locks is {other}: expected a list"))),
    }
}

fn section(tick: Tick, place: &str, item: &JsonTree) -> Result<(String, Time), SetFileError> {
    let fields = object(place, item, "locks", &["resource", "longest_us"])?;
    let Some(JsonTree::Leaf(Value::String(resource))) = find(fields, "resource") else {
        return Err(wrong(place, "resource of locks is missing, or is not a text"));
    };
    Ok((resource.clone(), ObjectFields { place, fields }.needed("longest_us", tick)?))
}

fn chains(
    set: &TaskSet,
    fields: &[(String, JsonTree)],
    tasks: &[JsonTree],
) -> Result<Option<Chains>, SetFileError> {
    let least: Vec<Option<Time>> =
        tasks.iter().enumerate().map(|(at, task)| bcet(set, at, task)).collect::<Result<_, _>>()?;
    let all = match find(fields, "chains") {
        None if least.iter().all(Option::is_none) => return Ok(None),
        None => {
            return Err(wrong(
                "",
                "tasks have bcet_us, but the set has no chains: remove bcet_us, or add chains",
            ));
        }
        Some(JsonTree::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(at, item)| chain(set, &format!("chain {at}: "), item))
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong("", format!("chains is {other}: expected a list"))),
    };
    Ok(Some(Chains { all, least: least.into_iter().map(Option::unwrap_or_default).collect() }))
}

/// Returns the shortest execution time of a task, if stated.
fn bcet(set: &TaskSet, at: usize, task: &JsonTree) -> Result<Option<Time>, SetFileError> {
    let JsonTree::Object(fields) = task else { return Ok(None) };
    let place = format!("task {at}: ");
    let (least, wcet) = (
        ObjectFields { place: &place, fields }.time("bcet_us", Time::ZERO, set.tick())?,
        set.tasks()[at].wcet(),
    );
    match least {
        Some(least) if least > wcet => Err(wrong(
            &place,
            format!(
                "bcet_us is {}: expected at most wcet_us, which is {}",
                set.tick().us(least),
                set.tick().us(wcet)
            ),
        )),
        least => Ok(least),
    }
}

fn chain(set: &TaskSet, place: &str, item: &JsonTree) -> Result<Chain, SetFileError> {
    let fields = object(place, item, "chains", &["name", "tasks", "activation", "deadline_us"])?;
    let name = match find(fields, "name") {
        Some(JsonTree::Leaf(Value::String(name))) => name.clone(),
        _ => return Err(wrong(place, "name is missing, or is not a text")),
    };
    let Some(JsonTree::Array(items)) = find(fields, "tasks") else {
        return Err(wrong(place, "tasks is missing, or is not a list of names"));
    };
    let named = |item: &JsonTree| {
        let JsonTree::Leaf(Value::String(task)) = item else {
            return Err(wrong(place, format!("tasks has {item}: expected names of tasks")));
        };
        let at = set.names().iter().position(|name| name.as_ref() == Some(task));
        at.ok_or_else(|| wrong(place, format!("tasks names \"{task}\", but no task has that name")))
    };
    let tasks: Vec<usize> = items.iter().map(named).collect::<Result<_, _>>()?;
    if tasks.is_empty() {
        return Err(wrong(place, "tasks is empty: expected names of tasks"));
    }
    let activation = word(place, fields, "activation")?.unwrap_or(Activation::Periodic);
    let deadline = ObjectFields { place, fields }.needed("deadline_us", set.tick())?;
    Ok(Chain { name, tasks, activation, deadline })
}

/// Returns the critical sections and the shortest execution time of task `at`, as fields.
pub(super) fn task_json(set: &TaskSet, at: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    let section = |locks: &Locks, it: &crate::workload::locks::CriticalSection| json!({ "resource": locks.names[it.resource], "longest_us": set.tick().json(it.longest) });
    if let Some(locks) = set.locks().filter(|locks| !locks.sections[at].is_empty()) {
        let all = locks.sections[at].iter().map(|it| section(locks, it)).collect();
        fields.insert("locks".to_owned(), all);
    }
    let least = set.chains().map_or(Time::ZERO, |chains| chains.least[at]);
    if least > Time::ZERO {
        fields.insert("bcet_us".to_owned(), set.tick().json(least));
    }
    fields
}

/// Returns the locking protocol and the chains of a set, as fields.
pub(super) fn set_json(set: &TaskSet) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(locks) = set.locks() {
        fields.insert("locking".to_owned(), json!(locks.protocol));
    }
    let name = |&at: &usize| set.names()[at].clone().unwrap_or_default();
    let chain = |it: &Chain| {
        let tasks: Vec<String> = it.tasks.iter().map(name).collect();
        json!({ "name": it.name, "tasks": tasks, "activation": it.activation, "deadline_us": set.tick().json(it.deadline) })
    };
    if let Some(chains) = set.chains() {
        fields.insert("chains".to_owned(), chains.all.iter().map(chain).collect());
    }
    fields
}

#[cfg(test)]
mod tests {
    use crate::workload::set_file::{parse, write};

    fn of(set: &str, first: &str, second: &str) -> String {
        format!(
            r#"{{"cpus": 1{set}, "tasks": [{{"name": "a", "wcet_us": 6, "period_us": 20{first}}},
                {{"name": "b", "wcet_us": 6, "period_us": 20{second}}}]}}"#
        )
    }

    #[test]
    fn locks_chains_and_suspension_come_back() {
        let bus = r#", "locks": [{"resource": "bus", "longest_us": 2}]"#;
        let chain = |activation: &str| {
            format!(
                r#", "chains": [{{"name": "c", "tasks": ["b", "a"], "deadline_us": 90{activation}}}]"#
            )
        };
        for text in [
            of(r#", "locking": "pi""#, bus, ""),
            of(r#", "locking": "srp""#, bus, bus),
            of("", r#", "suspension_us": 7"#, ""),
            of(&chain(""), "", r#", "bcet_us": 3"#),
            of(&chain(r#", "activation": "event""#), "", ""),
        ] {
            let set = parse(&text).unwrap();
            assert_eq!(parse(&write(&set).to_string()).unwrap(), set, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let lock = |it: &str| format!(r#", "locks": [{it}]"#);
        let chain = |it: &str| format!(r#", "chains": [{{"name": "c", "deadline_us": 90, {it}}}]"#);
        let (pi, bus) = (r#", "locking": "pi""#, lock(r#"{"resource": "bus", "longest_us": 2}"#));
        let event = |tasks: &str| chain(&format!(r#""tasks": {tasks}, "activation": "event""#));
        for (text, words) in [
            (of("", &bus, ""), "locking is missing"),
            (of(pi, "", ""), "no task has locks"),
            (of(r#", "locking": "pip""#, &bus, ""), "locking is \"pip\""),
            (of(pi, &lock(r#"{"resource": "bus", "longest_us": 7}"#), ""), "longest_us is 7"),
            (of(pi, &lock(r#"{"resource": "bus"}"#), ""), "longest_us is missing"),
            (of(pi, &lock(r#"{"resource": 1, "longest_us": 2}"#), ""), "resource of locks"),
            (of(pi, &lock(r#"{"resource": "b", "longest_us": 2, "x": 1}"#), ""), "no field `x`"),
            (of("", r#", "suspension_us": -1"#, ""), "suspension_us is -1"),
            (of("", r#", "bcet_us": 1"#, ""), "no chains"),
            (of(&chain(r#""tasks": ["a", "z"]"#), "", ""), "no task has that name"),
            (of(&chain(r#""tasks": []"#), "", ""), "tasks is empty"),
            (of(&chain(r#""tasks": ["a", "a"]"#), "", ""), "duplicated"),
            (of(&event(r#"["a", "b"]"#), "", r#", "jitter_us": 2"#), "jitter"),
            (of(&chain(r#""tasks": ["a", "b"]"#), r#", "bcet_us": 7"#, ""), "bcet_us is 7"),
            (of(&chain(r#""tasks": ["a"], "activation": "x""#), "", ""), "activation is \"x\""),
        ] {
            let error = parse(&text).expect_err(&text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let periods = r#"{"cpus": 1, "chains": [{"name": "c", "tasks": ["a", "b"], "activation": "event",
            "deadline_us": 9}], "tasks": [{"name": "a", "wcet_us": 1, "period_us": 5}, {"name": "b", "wcet_us": 1, "period_us": 6}]}"#;
        assert!(parse(periods).unwrap_err().to_string().contains("expected equal periods"));
        let circle = event(r#"["a", "b"]"#).replace(r#""activation": "event"}]"#, r#""activation": "event"}, {"name": "d", "tasks": ["b", "a"], "deadline_us": 90, "activation": "event"}]"#);
        assert!(parse(&of(&circle, "", "")).unwrap_err().to_string().contains("activates itself"));
    }
}
