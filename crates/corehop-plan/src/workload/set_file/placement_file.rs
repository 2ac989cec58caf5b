// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes the placement of tasks in a file: every task has `cpus`, `pieces` or `shares`,
//! or no task has.

use serde_json::{Value, json};

use super::tree::JsonTree;
use super::{ObjectFields, SetFileError, check_names, find, wrong};
use crate::workload::placement::{PlacedPiece, PlacedShare, TaskPlacement};
use crate::workload::task::{MOST_CPUS, Tick, Time};

/// The fields that state a placement.
const WAYS: [&str; 3] = ["cpus", "pieces", "shares"];

/// Returns the placement of each task, or `None` if no task states a placement.
pub(super) fn places(
    tasks: &[JsonTree],
    tick: Tick,
) -> Result<Option<Vec<TaskPlacement>>, SetFileError> {
    let places: Vec<Option<TaskPlacement>> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| place(at, task, tick))
        .collect::<Result<_, _>>()?;
    if places.iter().all(Option::is_none) {
        return Ok(None);
    }
    let absent = places.iter().position(Option::is_none);
    match absent {
        None => Ok(Some(places.into_iter().flatten().collect())),
        Some(at) => {
            let what = "cpus is absent, but other tasks have a place: state the place (cpus, pieces or shares) of each task, or of no task";
            Err(wrong(&format!("task {at}: "), what))
        }
    }
}

fn place(at: usize, task: &JsonTree, tick: Tick) -> Result<Option<TaskPlacement>, SetFileError> {
    let JsonTree::Object(fields) = task else { return Ok(None) };
    let at = format!("task {at}: ");
    let stated: Vec<&str> = WAYS.into_iter().filter(|way| find(fields, way).is_some()).collect();
    let [way] = stated.as_slice() else {
        return match stated.as_slice() {
            [] => Ok(None),
            several => {
                Err(wrong(&at, format!("the task has {}: state only one", several.join(" and "))))
            }
        };
    };
    let Some(JsonTree::Array(items)) = find(fields, way) else {
        return Err(wrong(&at, format!("{way} is not a list")));
    };
    let place = match *way {
        "cpus" => {
            TaskPlacement::Cpus(items.iter().map(|item| cpu(&at, item)).collect::<Result<_, _>>()?)
        }
        "pieces" => TaskPlacement::Pieces(
            items.iter().map(|item| piece(&at, item, tick)).collect::<Result<_, _>>()?,
        ),
        _ => TaskPlacement::Shares(
            items.iter().map(|item| share(&at, item)).collect::<Result<_, _>>()?,
        ),
    };
    Ok(Some(place))
}

fn cpu(place: &str, item: &JsonTree) -> Result<usize, SetFileError> {
    let number =
        if let JsonTree::Leaf(Value::Number(number)) = item { number.as_u64() } else { None };
    number
        .filter(|&cpu| cpu < u64::from(MOST_CPUS))
        .map(|cpu| cpu as usize)
        .ok_or_else(|| wrong(place, format!("cpus has {item}: expected numbers of CPUs, from 0")))
}

fn piece(place: &str, item: &JsonTree, tick: Tick) -> Result<PlacedPiece, SetFileError> {
    let fields = object(place, item, "pieces", &["cpu", "wcet_us", "budget_us", "deadline_us"])?;
    let fields = ObjectFields { place, fields };
    let wcet = fields.needed("wcet_us", tick)?;
    Ok(PlacedPiece {
        cpu: named_cpu(&fields)?,
        wcet,
        budget: fields.time("budget_us", Time::TICK, tick)?.unwrap_or(wcet),
        deadline: fields.needed("deadline_us", tick)?,
    })
}

fn share(place: &str, item: &JsonTree) -> Result<PlacedShare, SetFileError> {
    let fields = object(place, item, "shares", &["cpu", "share"])?;
    let share = match find(fields, "share") {
        Some(JsonTree::Leaf(Value::Number(number))) => number.as_f64(),
        _ => None,
    };
    let share = share.ok_or_else(|| wrong(place, "share is missing, or is not a number"))?;
    Ok(PlacedShare { cpu: named_cpu(&ObjectFields { place, fields })?, share })
}

fn named_cpu(fields: &ObjectFields<'_>) -> Result<usize, SetFileError> {
    let cpu = fields.number("cpu", 0, u64::from(MOST_CPUS) - 1)?;
    cpu.map(|cpu| cpu as usize).ok_or_else(|| wrong(fields.place, "cpu is missing"))
}

pub(super) fn object<'a>(
    place: &str,
    item: &'a JsonTree,
    what: &str,
    known: &[&str],
) -> Result<&'a [(String, JsonTree)], SetFileError> {
    let JsonTree::Object(fields) = item else {
        return Err(wrong(
            place,
            format!("{what} has {item}: expected objects with {}", known.join(", ")),
        ));
    };
    check_names(place, fields, known)?;
    Ok(fields)
}

/// Returns the placement of a task as the field `cpus`, `pieces` or `shares` of a file.
pub fn place_json(place: &TaskPlacement, tick: Tick) -> Value {
    let us = |time| tick.json(time);
    let piece = |it: &PlacedPiece| json!({ "cpu": it.cpu, "wcet_us": us(it.wcet), "budget_us": us(it.budget), "deadline_us": us(it.deadline) });
    let share = |it: &PlacedShare| json!({ "cpu": it.cpu, "share": it.share });
    match place {
        TaskPlacement::Cpus(cpus) => json!({ "cpus": cpus }),
        TaskPlacement::Pieces(pieces) => {
            json!({ "pieces": pieces.iter().map(piece).collect::<Vec<_>>() })
        }
        TaskPlacement::Shares(shares) => {
            json!({ "shares": shares.iter().map(share).collect::<Vec<_>>() })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::set_file::{parse, write};

    fn of(place: &str) -> String {
        format!(
            r#"{{"cpus": 2, "tasks": [{{"wcet_us": 6, "period_us": 10, "cpus": [1]}}, {{"wcet_us": 6, "period_us": 10{place}}}]}}"#
        )
    }

    #[test]
    fn an_assignment_comes_back() {
        for place in [
            r#", "cpus": [0, 1]"#,
            r#", "shares": [{"cpu": 0, "share": 0.25}, {"cpu": 1, "share": 0.35}]"#,
            r#", "pieces": [{"cpu": 0, "wcet_us": 4, "budget_us": 4, "deadline_us": 4}, {"cpu": 1, "wcet_us": 2, "budget_us": 3, "deadline_us": 6}]"#,
        ] {
            let set = parse(&of(place)).unwrap();
            assert!(set.placement().is_some());
            assert_eq!(parse(&write(&set).to_string()).unwrap(), set);
        }
    }

    #[test]
    fn an_assignment_that_makes_no_sense_is_refused_by_task_and_field() {
        let piece = |cpu: u32, wcet: u32, deadline: u32| {
            format!(r#"{{"cpu": {cpu}, "wcet_us": {wcet}, "deadline_us": {deadline}}}"#)
        };
        let pieces = |a: String, b: String| format!(r#", "pieces": [{a}, {b}]"#);
        for (place, words) in [
            (String::new(), ["task 1", "cpus is absent"]),
            (r#", "cpus": []"#.into(), ["task 1", "cpus is on CPUs []"]),
            (r#", "cpus": [1, 1]"#.into(), ["task 1", "cpus is on CPUs [1, 1]"]),
            (r#", "cpus": [2]"#.into(), ["task 1", "from 0 to 1"]),
            (r#", "cpus": [-1]"#.into(), ["task 1", "cpus has -1"]),
            (r#", "cpus": 1"#.into(), ["task 1", "not a list"]),
            (r#", "cpus": [0], "shares": []"#.into(), ["task 1", "cpus and shares"]),
            (pieces(piece(0, 4, 4), piece(1, 1, 6)), ["pieces is 5 us of work", "which is 6"]),
            (pieces(piece(0, 4, 4), piece(0, 2, 6)), ["task 1", "on CPUs [0, 0]"]),
            (pieces(piece(0, 4, 4), piece(1, 2, 7)), ["due after 11 us", "which is 10"]),
            (pieces(piece(0, 4, 3), piece(1, 2, 6)), ["4, 4, 3 on CPU 0", "<= deadline_us"]),
            (pieces(piece(0, 0, 4), piece(1, 6, 6)), ["task 1", "wcet_us is 0"]),
            (r#", "shares": [{"cpu": 0, "share": 0.1}]"#.into(), ["shares is 0.1", "0.6"]),
            (r#", "shares": [{"cpu": 0, "share": -1}]"#.into(), ["shares is -1", "above 0"]),
        ] {
            let error = parse(&of(&place)).expect_err(&place).to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{place}: {error}");
        }
    }
}
