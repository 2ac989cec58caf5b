// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads task sets as XML: SchedCAT and SimSo use attributes, Cheddar uses elements.

use std::collections::BTreeSet;

use roxmltree::{Document, Node, ParsingOptions};

use super::table::{TaskRow, TaskTable};
use super::{TaskFileError, TimeUnit};

/// Parses a text as XML; a document type is allowed, and nothing outside the text is read.
fn document(text: &str) -> Result<Document<'_>, TaskFileError> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .map_err(|error| TaskFileError::Syntax { format: "XML", what: error.to_string() })
}

/// Returns the place of a node in its file.
fn place(node: Node<'_, '_>) -> String {
    let line = node.document().text_pos_at(node.range().start).row;
    format!("line {line}, <{}>", node.tag_name().name())
}

fn elements<'a, 'b>(node: Node<'a, 'b>, name: &'static str) -> impl Iterator<Item = Node<'a, 'b>> {
    node.descendants().filter(move |it| it.is_element() && it.tag_name().name() == name)
}

/// Returns the attributes of a task that are columns; `other` decides about each attribute that is not a column.
fn row(
    task: Node<'_, '_>,
    known: &[(&str, &str)],
    other: impl Fn(&str, &str) -> Option<String>,
) -> Result<TaskRow, TaskFileError> {
    let mut cells = Vec::new();
    for attribute in task.attributes() {
        let (name, value) = (attribute.name(), attribute.value().trim());
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, heading)) => cells.push(((*heading).to_owned(), value.to_owned())),
            None => {
                if let Some(what) = other(name, value) {
                    let what = format!("`{name}` is {value}: {what}");
                    return Err(TaskFileError::row(&place(task), what));
                }
            }
        }
    }
    Ok(TaskRow { place: place(task), cells })
}

/// Reads a task set of SchedCAT. The times have no unit; this reader assumes microseconds, as SchedCAT's own overheads
/// and generators do.
pub(super) fn schedcat(text: &str) -> Result<TaskTable, TaskFileError> {
    let document = document(text)?;
    let root = document.root_element();
    let sets: Vec<Node<'_, '_>> = elements(root, "taskset").collect();
    if sets.len() > 1 {
        let what = format!(
            "the file has {} task sets: write each <taskset> to a separate file",
            sets.len()
        );
        return Err(TaskFileError::row(&place(root), what));
    }
    let known = [
        ("id", "name"),
        ("wcet", "wcet"),
        ("period", "period"),
        ("deadline", "deadline"),
        ("partition", "cpu"),
        ("wss", "wss_kib"),
    ];
    // A response time is a result.
    let other = |name: &str, _: &str| {
        (name != "response_time").then(|| "no task set has such a parameter".to_owned())
    };
    let mut rows = Vec::new();
    for task in elements(root, "task") {
        if let Some(resources) = elements(task, "resources").next() {
            let what = "resources of SchedCAT have reads and writes, and no protocol: state `locks` and `locking` in JSON";
            return Err(TaskFileError::row(&place(resources), what));
        }
        if let Some(child) = task.children().find(Node::is_element) {
            let what = "a task of SchedCAT has no such element";
            return Err(TaskFileError::row(&place(child), what));
        }
        rows.push(row(task, &known, other)?);
    }
    let notes = vec!["the file has no unit: times are taken as microseconds, and `wss` as KiB, as SchedCAT's own overheads are".to_owned()];
    Ok(TaskTable { rows, unit: Some(TimeUnit::Micro), notes, ..TaskTable::default() })
}

/// Reads a simulation of SimSo, whose times are in milliseconds.
pub(super) fn simso(text: &str) -> Result<TaskTable, TaskFileError> {
    let document = document(text)?;
    let root = document.root_element();
    let known = [
        ("name", "name"),
        ("WCET", "wcet"),
        ("period", "period"),
        ("deadline", "deadline"),
        ("activationDate", "offset"),
    ];
    // Of the caches and the execution times of a simulation, and of its display.
    let of_simulation = [
        "id",
        "ACET",
        "et_stddev",
        "instructions",
        "mix",
        "stack",
        "base_cpi",
        "abort_on_miss",
        "preemption_cost",
        "list_activation_dates",
    ];
    let fields: Vec<&str> =
        elements(root, "field").filter_map(|field| field.attribute("name")).collect();
    let other = |name: &str, value: &str| match (name, value) {
        ("task_type", "Periodic" | "Sporadic") | ("periodic", "yes") | ("followed_by", "") => None,
        ("task_type" | "periodic", _) => {
            Some("expected Periodic or Sporadic: a task set has no other tasks".to_owned())
        }
        ("followed_by", _) => {
            Some("a task that starts another task: state `chains` in JSON".to_owned())
        }
        _ if of_simulation.contains(&name) || fields.contains(&name) => None,
        _ => Some("not known as an attribute of a task".to_owned()),
    };
    let rows: Vec<TaskRow> =
        elements(root, "task").map(|task| row(task, &known, other)).collect::<Result<_, _>>()?;
    let cpus = elements(root, "processor").count();
    for node in elements(root, "processor").chain(elements(root, "sched")) {
        refuse_other(node, "speed", 1.0, "a task set has no speeds: scale the WCETs")?;
        for overhead in
            ["overhead", "overhead_activate", "overhead_terminate", "cs_overhead", "cl_overhead"]
        {
            refuse_other(
                node,
                overhead,
                0.0,
                "set the overhead to 0 here: `corehop check --overheads` charges overheads",
            )?;
        }
    }
    let scheduler = elements(root, "sched").next();
    let scheduler = scheduler.and_then(|it| it.attribute("class").or(it.attribute("className")));
    let mut notes = vec!["times are milliseconds, as SimSo defines them; caches, costs of preemptions and data fields are not read".to_owned()];
    notes.extend(scheduler.map(|name| {
        format!("corehop does not read the scheduler `{name}`: name a scheduler with `corehop check --scheduler`")
    }));
    let cpus = u32::try_from(cpus).ok().filter(|&cpus| cpus > 0);
    Ok(TaskTable { rows, cpus, unit: Some(TimeUnit::Milli), notes, ..TaskTable::default() })
}

/// Rejects an attribute whose value differs from `usual`.
fn refuse_other(
    node: Node<'_, '_>,
    name: &str,
    usual: f64,
    remedy: &str,
) -> Result<(), TaskFileError> {
    let Some(value) = node.attribute(name) else { return Ok(()) };
    if value.trim().parse().is_ok_and(|it: f64| (it - usual).abs() < 1e-12) {
        return Ok(());
    }
    Err(TaskFileError::row(&place(node), format!("`{name}` is {value}: {remedy}")))
}

/// Rejects the parts of a Cheddar model that no task set can express.
fn refuse_parts(root: Node<'_, '_>) -> Result<(), TaskFileError> {
    let refused = |node, what: &str| Err(TaskFileError::row(&place(node), what));
    for node in root.descendants().filter(Node::is_element) {
        let (name, value) = (node.tag_name().name(), node.text().unwrap_or_default().trim());
        let is_list = ["resources", "dependencies", "buffers", "messages"].contains(&name);
        let is_part = name.ends_with("resource") || name.ends_with("dependency");
        if is_part
            || name.starts_with("multi_core")
            || is_list && node.has_children() && node.children().any(|it| it.is_element())
        {
            return refused(
                node,
                "no task set has this part: state `chains`, `locks` or the CPUs of tasks in JSON",
            );
        }
        let is_number = |usual: f64| value.parse().is_ok_and(|it: f64| (it - usual).abs() < 1e-12);
        match name {
            "preemptive_type" if !value.eq_ignore_ascii_case("preemptive") => {
                return refused(
                    node,
                    "no test here is for such a processor: only preemptive ones are read",
                );
            }
            "speed" if !is_number(1.0) && !is_number(0.0) => {
                return refused(node, "a task set has no speeds: scale the capacities");
            }
            "context_switch_overhead" if !is_number(0.0) => {
                return refused(
                    node,
                    "set the overhead to 0 here: `corehop check --overheads` charges overheads",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads a model of Cheddar (version 3). The times of a Cheddar model have no unit.
pub(super) fn cheddar(text: &str) -> Result<TaskTable, TaskFileError> {
    let document = document(text)?;
    let root = document.root_element();
    refuse_parts(root)?;
    let named = |node: Node<'_, '_>| {
        let name = node.children().find(|it| it.has_tag_name("name"));
        name.and_then(|it| it.text()).unwrap_or_default().trim().to_owned()
    };
    let processors: Vec<String> = elements(root, "mono_core_processor").map(named).collect();
    let mut reading = CheddarReading { processors, unused: BTreeSet::new() };
    let is_task = |it: &Node<'_, '_>| it.is_element() && it.tag_name().name().ends_with("_task");
    let rows: Vec<TaskRow> = root
        .descendants()
        .filter(is_task)
        .map(|task| reading.task(task))
        .collect::<Result<_, _>>()?;
    let mut notes = vec![
        "corehop does not read schedulers of processors: name a scheduler with `corehop check --scheduler`".to_owned(),
    ];
    if !reading.unused.is_empty() {
        let names: Vec<&str> = reading.unused.iter().map(String::as_str).collect();
        notes.push(format!("elements of tasks that are not read: {}", names.join(", ")));
    }
    let cpus = u32::try_from(reading.processors.len()).ok().filter(|&cpus| cpus > 0);
    Ok(TaskTable { rows: ranked(rows, &mut notes), cpus, notes, ..TaskTable::default() })
}

/// The state of reading a Cheddar model.
struct CheddarReading {
    /// The names of the processors with one core, in the order of their CPU numbers.
    processors: Vec<String>,
    /// The names of elements of tasks that are not read.
    unused: BTreeSet<String>,
}

impl CheddarReading {
    /// Reads a task from its elements.
    fn task(&mut self, task: Node<'_, '_>) -> Result<TaskRow, TaskFileError> {
        if !["periodic_task", "sporadic_task"].contains(&task.tag_name().name()) {
            let what = "expected <periodic_task> or <sporadic_task>: a task set has no other tasks";
            return Err(TaskFileError::row(&place(task), what));
        }
        let mut cells = Vec::new();
        for part in task.children().filter(Node::is_element) {
            let (name, value) = (part.tag_name().name(), part.text().unwrap_or_default().trim());
            let heading = match name {
                "name" | "period" | "deadline" | "jitter" | "priority" => name,
                "capacity" => "wcet",
                "blocking_time" => "blocking",
                "cpu_name" => {
                    let cpu =
                        self.processors.iter().position(|it| it == value).ok_or_else(|| {
                            TaskFileError::row(
                                &place(part),
                                format!("there is no mono_core_processor `{value}`"),
                            )
                        })?;
                    cells.push(("cpu".to_owned(), cpu.to_string()));
                    continue;
                }
                _ => {
                    self.unused.insert(name.to_owned());
                    continue;
                }
            };
            cells.push((heading.to_owned(), value.to_owned()));
        }
        Ok(TaskRow { place: place(task), cells })
    }
}

/// Replaces priorities by ranks; the task with the largest priority is the most urgent. If all priorities are equal,
/// the function drops the priorities, because they state no order.
fn ranked(mut rows: Vec<TaskRow>, notes: &mut Vec<String>) -> Vec<TaskRow> {
    let is_priority = |cell: &(String, String)| cell.0 == "priority";
    let cells = rows.iter().flat_map(|row| &row.cells).filter(|cell| is_priority(cell));
    let values: BTreeSet<u32> = cells.filter_map(|cell| cell.1.parse().ok()).collect();
    let Some(&largest) = values.last() else { return rows };
    if values.len() == 1 {
        notes.push("all tasks have one priority, which states no order and is not read".to_owned());
        for row in &mut rows {
            row.cells.retain(|cell| !is_priority(cell));
        }
        return rows;
    }
    notes
        .push(format!("in Cheddar a larger priority is more urgent: rank 0 is priority {largest}"));
    for cell in rows.iter_mut().flat_map(|row| &mut row.cells).filter(|cell| is_priority(cell)) {
        if let Ok(priority) = cell.1.parse::<u32>() {
            cell.1 = (largest - priority).to_string();
        }
    }
    rows
}
