// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of tasks, as a file states it, and the conversion to a task set.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::columns::{self, Heading, TaskColumn};
use super::{Stated, TaskFileError, TimeUnit};
use crate::units::{Bytes, CpuList, UnitError};
use crate::workload::rt_app::Workload;
use crate::workload::set_file::{self, JsonTree};

/// A row of a table: the file's statements about one task, by heading.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskRow {
    /// The place of the row in the file, such as `line 3`.
    pub(super) place: String,
    /// The headings of the row, each with its value. An empty value of a heading states nothing.
    pub(super) cells: Vec<(String, String)>,
}

/// A chain of tasks, each of which the end of the task before activates, as a file states the chain.
#[derive(Debug, Clone, Default)]
pub(super) struct TableChain {
    /// The place of the chain in the file.
    pub(super) place: String,
    pub(super) name: String,
    /// The names of the tasks, in order.
    pub(super) tasks: Vec<String>,
    /// The end-to-end deadline from the release of the first task, as a text.
    pub(super) deadline: String,
}

/// All tasks of a file, with the file's statements about the set.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskTable {
    pub(super) rows: Vec<TaskRow>,
    /// The number of CPUs, if the file states the number.
    pub(super) cpus: Option<u32>,
    /// The scheduler of the set, if the file states a scheduler.
    pub(super) scheduler: Option<String>,
    pub(super) chains: Vec<TableChain>,
    /// The unit for times that state no unit, if the format defines one.
    pub(super) unit: Option<TimeUnit>,
    /// Sentences about the file for the user.
    pub(super) notes: Vec<String>,
}

/// The fields whose times are lower bounds, so that rounding them down is safe.
const ROUNDED_DOWN: [&str; 3] = ["period_us", "deadline_us", "bcet_us"];

impl TaskTable {
    /// Returns the task set, with sentences about the assumptions.
    pub(super) fn workload(self, stated: Stated) -> Result<Workload, TaskFileError> {
        let mut reading = TableReading {
            unit: self.unit.or(stated.unit),
            is_unit_used: false,
            is_rounded: false,
            unused: BTreeSet::new(),
            has_priorities: false,
        };
        let tasks = self.rows.iter().map(|row| reading.task(row)).collect::<Result<Vec<_>, _>>()?;
        let chains = self.chains.iter().map(|chain| reading.chain(chain));
        let chains = chains.collect::<Result<Vec<_>, _>>()?;
        if let Some(unit) = stated.unit.filter(|_| self.unit.is_some() || !reading.is_unit_used) {
            let what = format!(
                "--unit is {unit}, but the file states the unit of every time: omit --unit"
            );
            return Err(TaskFileError::Option(what));
        }
        let mut notes = self.notes;
        notes.extend(reading.notes());
        let (cpus, tasks) = served(tasks, self.cpus, stated.cpus, &mut notes)?;
        let mut set = vec![("cpus".to_owned(), JsonTree::Leaf(json!(cpus)))];
        set.push(("tasks".to_owned(), JsonTree::Array(tasks)));
        set.extend(self.scheduler.map(|it| ("scheduler".to_owned(), JsonTree::Leaf(json!(it)))));
        if !chains.is_empty() {
            set.push(("chains".to_owned(), JsonTree::Array(chains)));
        }
        Ok(Workload { set: set_file::of_fields(&set)?, notes })
    }
}

/// The fields of a task in a task set.
type TaskFields = Vec<(String, JsonTree)>;

/// Returns the number of CPUs, and the tasks; if any task states its CPUs, every task gets CPUs.
fn served(
    mut tasks: Vec<TaskFields>,
    in_file: Option<u32>,
    asked: Option<u32>,
    notes: &mut Vec<String>,
) -> Result<(u32, Vec<JsonTree>), TaskFileError> {
    if let (Some(in_file), Some(asked)) = (in_file, asked.filter(|&it| Some(it) != in_file)) {
        let what = format!(
            "--cpus is {asked}, but the file states {in_file}: omit --cpus, or change the file"
        );
        return Err(TaskFileError::Option(what));
    }
    let is_cpus = |(name, _): &&(String, JsonTree)| name == "cpus";
    let named = tasks.iter().flatten().filter(is_cpus).filter_map(|(_, list)| list.value());
    let last =
        named.filter_map(|list| list.as_array()?.iter().filter_map(Value::as_u64).max()).max();
    let cpus = in_file.or(asked).unwrap_or_else(|| {
        let cpus = last.map_or(1, |last| last as u32 + 1);
        notes.push(format!("the file states no number of CPUs, so corehop assumes {cpus} (--cpus of `corehop convert tasks` sets the number)"));
        cpus
    });
    if let Some(last) = last {
        let all = JsonTree::from(Value::from((0..cpus).collect::<Vec<_>>()));
        let lacking = tasks.iter_mut().filter(|task| !task.iter().any(|it| is_cpus(&it)));
        let lacking: Vec<_> = lacking.collect();
        if !lacking.is_empty() {
            notes.push(format!(
                "CPU {last} is the highest CPU that a task names; the tasks without CPUs ({}) may use all {cpus} CPUs",
                lacking.len()
            ));
        }
        for task in lacking {
            task.push(("cpus".to_owned(), JsonTree::from(all.value().unwrap_or_default())));
        }
    }
    Ok((cpus, tasks.into_iter().map(JsonTree::Object).collect()))
}

/// The state of the conversion of rows to tasks.
struct TableReading {
    unit: Option<TimeUnit>,
    is_unit_used: bool,
    is_rounded: bool,
    unused: BTreeSet<String>,
    has_priorities: bool,
}

impl TableReading {
    fn task(&mut self, row: &TaskRow) -> Result<TaskFields, TaskFileError> {
        let mut fields: TaskFields = Vec::new();
        for (text, value) in &row.cells {
            let wrong = |what: String| TaskFileError::row(&row.place, what);
            let Some(heading) = columns::heading(text) else {
                return Err(wrong(columns::unknown(text)));
            };
            if value.is_empty() {
                continue;
            }
            if heading.column == TaskColumn::Unused {
                self.unused.insert(text.clone());
                continue;
            }
            let expects = |what: String| wrong(format!("`{text}` is {value}: {what}"));
            let (name, field) = self.field(heading, value).map_err(expects)?;
            if fields.iter().any(|(other, _)| other == name) {
                return Err(wrong(format!(
                    "`{text}` and another column have the same meaning, {name}: remove one"
                )));
            }
            fields.push((name.to_owned(), JsonTree::from(field)));
        }
        Ok(fields)
    }

    fn chain(&mut self, chain: &TableChain) -> Result<JsonTree, TaskFileError> {
        let expects = |what: String| {
            TaskFileError::row(&chain.place, format!("`deadline` is {}: {what}", chain.deadline))
        };
        let deadline = self.time(None, &chain.deadline, "deadline_us").map_err(expects)?;
        Ok(JsonTree::from(json!({
            "name": chain.name, "tasks": chain.tasks, "activation": "event", "deadline_us": deadline
        })))
    }

    fn field(&mut self, heading: Heading, value: &str) -> Result<(&'static str, Value), String> {
        Ok(match heading.column {
            TaskColumn::Name => ("name", json!(value)),
            TaskColumn::Time(field) => (field, json!(self.time(heading.unit, value, field)?)),
            TaskColumn::Priority => {
                self.has_priorities = true;
                let rank = value.parse::<u32>();
                ("priority", json!(rank.map_err(|_| "expected a whole number from 0".to_owned())?))
            }
            TaskColumn::Cpus => ("cpus", json!(cpus(value)?)),
            TaskColumn::Wss => ("wss_kib", json!(kib(heading.unit, value)?)),
            TaskColumn::Unused => unreachable!("an unused column has no field"),
        })
    }

    /// Returns a time as text with its unit.
    fn time(&mut self, unit: Option<&str>, value: &str, field: &str) -> Result<String, String> {
        let split = value.find(|c: char| !c.is_ascii_digit() && !".eE-+".contains(c));
        let (number, own) = value.split_at(split.unwrap_or(value.len()));
        let expected =
            || "expected a time of at least 0 with its unit, for example `1.5 ms`".to_owned();
        let own = match own.trim().replace(['µ', 'μ'], "u").to_lowercase() {
            none if none.is_empty() => None,
            word => Some(word.parse::<TimeUnit>().map_err(|_| expected())?),
        };
        let heading = unit.and_then(|unit| unit.parse().ok());
        let unit = own.or(heading).or_else(|| {
            self.is_unit_used = true;
            self.unit
        });
        let unit = unit.ok_or_else(|| {
            "a time without a unit: write for example `2 ms`, or the unit into the heading (`wcet [ms]`), or name the unit by \
             `corehop convert tasks --unit`"
                .to_owned()
        })?;
        let rounded = |up| columns::nanos(number.trim(), unit, up).ok_or_else(expected);
        let (down, up) = (rounded(false)?, rounded(true)?);
        self.is_rounded |= down != up;
        Ok(format!("{} ns", if ROUNDED_DOWN.contains(&field) { down } else { up }))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.unused.is_empty() {
            let names: Vec<String> = self.unused.iter().map(|it| format!("`{it}`")).collect();
            notes.push(format!(
                "corehop ignores {}, because a sporadic task has no such parameter",
                names.join(", ")
            ));
        }
        if self.has_priorities {
            notes.push("a smaller priority is taken as more urgent".to_owned());
        }
        if self.is_rounded {
            notes.push("times finer than a nanosecond are rounded: periods, deadlines and `bcet` down, others up".to_owned());
        }
        notes
    }
}

/// Parses the CPUs of a task, such as `0`, `0-2`, or `[0, 2]`.
fn cpus(value: &str) -> Result<Vec<u32>, String> {
    let plain = value.trim_matches(['[', ']']).replace([';', ' '], ",");
    let list: Result<CpuList, UnitError> = plain.parse();
    let list = list.ok().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| "expected numbers of CPUs, for example `0-2`".to_owned())?;
    Ok(list.iter().map(|cpu| cpu.0).collect())
}

/// Parses the size of a working set in KiB, rounded up.
fn kib(unit: Option<&str>, value: &str) -> Result<u64, String> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let text = match unit.filter(|_| is_plain) {
        Some(unit) => format!("{value} {unit}"),
        None => value.to_owned(),
    };
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    Ok(size.get().div_ceil(1024))
}
