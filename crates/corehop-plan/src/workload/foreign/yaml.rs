// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads tables of tasks as YAML: `tasks` has a mapping for each task; the number of CPUs and the scheduler stand
//! beside `tasks`.

use saphyr_parser::{Event, Parser};

use super::TaskFileError;
use super::table::{TaskRow, TaskTable};

/// A node of a YAML document; scalars stay texts as written, so that no floating-point number rounds a time.
#[derive(Debug)]
enum YamlNode {
    Scalar(String),
    List(Vec<YamlNode>),
    Mapping(Vec<(String, YamlNode)>),
}

/// The deepest allowed nesting of lists and mappings.
const DEEPEST: usize = 16;

fn syntax(what: impl Into<String>) -> TaskFileError {
    TaskFileError::Syntax { format: "YAML", what: what.into() }
}

/// Reads `cpus`, `scheduler` and `tasks`, which is a list of tasks or a mapping from names to tasks. A document that is
/// only a list is a list of tasks.
pub(super) fn read(text: &str) -> Result<TaskTable, TaskFileError> {
    let (mut table, mut tasks) = (TaskTable::default(), None);
    match document(text)? {
        YamlNode::Mapping(fields) => {
            for (name, node) in fields {
                let is_twice = match name.to_lowercase().as_str() {
                    "tasks" | "taskset" | "task_set" => tasks.is_some(),
                    "cpus" | "cores" | "processors" => table.cpus.is_some(),
                    _ => table.scheduler.is_some() && name.eq_ignore_ascii_case("scheduler"),
                };
                if is_twice {
                    let what = "has the meaning of an earlier key: keep only one of the two";
                    return Err(TaskFileError::row(&format!("`{name}`"), what));
                }
                match (name.to_lowercase().as_str(), node) {
                    ("tasks" | "taskset" | "task_set", node) => tasks = Some(node),
                    ("cpus" | "cores" | "processors", YamlNode::Scalar(number)) => {
                        table.cpus = Some(number.parse().map_err(|_| {
                            TaskFileError::row(
                                &name,
                                format!("is {number}: expected a number of CPUs"),
                            )
                        })?);
                    }
                    ("scheduler", YamlNode::Scalar(scheduler)) => table.scheduler = Some(scheduler),
                    _ => {
                        let what = "is not a known key, or does not have a single value: use cpus, scheduler and tasks";
                        return Err(TaskFileError::row(&format!("`{name}`"), what));
                    }
                }
            }
        }
        list => tasks = Some(list),
    }
    table.rows = match tasks {
        Some(YamlNode::List(tasks)) => {
            let rows = tasks.into_iter().enumerate();
            rows.map(|(at, task)| row(format!("task {at}"), task)).collect::<Result<_, _>>()?
        }
        Some(YamlNode::Mapping(tasks)) => {
            tasks.into_iter().map(named_row).collect::<Result<_, _>>()?
        }
        _ => return Err(syntax("`tasks` is missing, or neither a list nor a mapping of tasks")),
    };
    Ok(table)
}

/// Reads a task whose key is its name.
fn named_row((name, task): (String, YamlNode)) -> Result<TaskRow, TaskFileError> {
    let mut row = row(format!("task `{name}`"), task)?;
    row.cells.push(("name".to_owned(), name));
    Ok(row)
}

fn row(place: String, task: YamlNode) -> Result<TaskRow, TaskFileError> {
    let YamlNode::Mapping(fields) = task else {
        return Err(TaskFileError::row(&place, "expected a mapping, as `wcet: 2 ms`"));
    };
    let mut cells = Vec::new();
    for (name, node) in fields {
        let value = match node {
            YamlNode::Scalar(text) => text,
            YamlNode::List(items) => joined(&items).ok_or_else(|| {
                TaskFileError::row(&place, format!("`{name}` is a list of lists: expected a value"))
            })?,
            YamlNode::Mapping(_) => {
                return Err(TaskFileError::row(
                    &place,
                    format!("`{name}` is a mapping: expected a value"),
                ));
            }
        };
        cells.push((name, value));
    }
    Ok(TaskRow { place, cells })
}

/// Joins a list of scalars to one text, for lists of CPUs.
fn joined(items: &[YamlNode]) -> Option<String> {
    let text =
        |item: &YamlNode| if let YamlNode::Scalar(text) = item { Some(text.clone()) } else { None };
    Some(items.iter().map(text).collect::<Option<Vec<_>>>()?.join(","))
}

/// Parses the only document of a text.
fn document(text: &str) -> Result<YamlNode, TaskFileError> {
    let mut events = Parser::new_from_str(text);
    let mut next = move || -> Result<Event<'_>, TaskFileError> {
        match events.next() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(syntax(error.to_string())),
            None => Ok(Event::StreamEnd),
        }
    };
    let mut root = None;
    loop {
        match next()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => break,
            _ if root.is_some() => return Err(syntax("a second document: expected one")),
            event => root = Some(node(event, &mut next, 0)?),
        }
    }
    root.ok_or_else(|| syntax("the document is empty"))
}

/// Parses the node that begins with `event`.
fn node<'a>(
    event: Event<'a>,
    next: &mut dyn FnMut() -> Result<Event<'a>, TaskFileError>,
    depth: usize,
) -> Result<YamlNode, TaskFileError> {
    if depth > DEEPEST {
        return Err(syntax(format!(
            "the file has more than {DEEPEST} levels of lists and mappings"
        )));
    }
    match event {
        Event::Scalar(text, ..) => Ok(YamlNode::Scalar(text.trim().to_owned())),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next()? {
                    Event::SequenceEnd => return Ok(YamlNode::List(items)),
                    event => items.push(node(event, next, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) => mapping(next, depth),
        Event::Alias(_) => Err(syntax("an alias (`*name`): write the value out")),
        other => Err(syntax(format!("{other:?} is not expected here"))),
    }
}

fn mapping<'a>(
    next: &mut dyn FnMut() -> Result<Event<'a>, TaskFileError>,
    depth: usize,
) -> Result<YamlNode, TaskFileError> {
    let mut fields: Vec<(String, YamlNode)> = Vec::new();
    loop {
        let name = match next()? {
            Event::MappingEnd => return Ok(YamlNode::Mapping(fields)),
            Event::Scalar(name, ..) => name.into_owned(),
            _ => return Err(syntax("a key is a list or a mapping: expected a name")),
        };
        if fields.iter().any(|(other, _)| *other == name) {
            return Err(syntax(format!("`{name}` is there twice")));
        }
        let value = next()?;
        fields.push((name, node(value, next, depth + 1)?));
    }
}
