// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads models of MAST 1.x (González Harbour et al., "MAST: Modeling and Analysis Suite for Real Time Applications",
//! ECRTS 2001): processors under fixed priorities or EDF, and transactions whose activities follow one another.
//!
//! A transaction with one activity becomes a task, and a transaction with several activities becomes tasks in a chain,
//! where the end of each task activates the next task. Times have no unit.

use std::collections::BTreeSet;

use super::TaskFileError;
use super::table::{TableChain, TaskRow, TaskTable};

mod fields;
mod flow;
mod parts;
mod text;
mod time;
#[cfg(test)]
mod tests;

use flow::{MastActivity, MastTransaction};
use parts::{MastParts, MastUrgency};
use time::MastTime;

/// The most activities of a transaction; a chain with a deadline at every event names all activities before.
const MOST_ACTIVITIES: usize = 100;

/// Reads a model of MAST.
pub(super) fn read(text: &str) -> Result<TaskTable, TaskFileError> {
    let (mut parts, mut flows) = (MastParts::default(), Vec::new());
    let mut elements = text::elements(text)?;
    // Stable: the parts of each kind stay in the order of the file.
    elements.sort_by_key(|element| rank_of_keyword(&element.name));
    for element in elements {
        match fields::plain(&element.name).as_str() {
            // The name and the date of a model are no properties of its tasks.
            "model" => {}
            "processing_resource" => parts.processor(element)?,
            "scheduler" => parts.scheduler(element)?,
            "scheduling_server" => parts.server(element)?,
            "operation" => parts.operation(element)?,
            "transaction" => flows.push(flow::transaction(&mut parts, element)?),
            "shared_resource" => {
                let place = format!("line {}, {}", element.line, element.name);
                let what = "the reader has no locks: state `locks` and `locking` in JSON";
                return Err(TaskFileError::row(&place, what));
            }
            _ => {
                let place = format!("line {}, {}", element.line, element.name);
                return Err(TaskFileError::row(&place, "not known as an element of a model"));
            }
        }
    }
    if flows.is_empty() {
        let what = "there is no Transaction, so the set would have no tasks";
        return Err(TaskFileError::row("the model", what));
    }
    table(parts, &flows)
}

/// Returns the position of an element in the order of reading: references point to earlier positions.
fn rank_of_keyword(keyword: &str) -> usize {
    let order =
        ["processing_resource", "scheduler", "scheduling_server", "operation", "transaction"];
    let keyword = fields::plain(keyword);
    order.iter().position(|it| *it == keyword).unwrap_or(0)
}

/// Returns the table of the tasks of all transactions.
fn table(mut parts: MastParts, flows: &[MastTransaction]) -> Result<TaskTable, TaskFileError> {
    let is_edf = policy(flows)?;
    let has_chains = flows.iter().any(|flow| flow.activities.len() > 1);
    let mut reading = FlowReading { has_chains, ..FlowReading::default() };
    for flow in flows {
        reading.flow(flow, &mut parts)?;
    }
    let mut notes = Vec::new();
    if is_edf {
        notes.push("all processors run under EDF: the scheduler is p-edf".to_owned());
    } else if let Some(note) = reading.rank(flows)? {
        notes.push(note);
    }
    if reading.undue > 0 {
        notes.push(format!(
            "transactions without a hard deadline ({}): corehop takes the period as the deadline, or the server's deadline under EDF",
            reading.undue
        ));
    }
    if reading.has_late_chains {
        notes.push("the deadline of a chain counts from the release, after the jitter: corehop subtracts the jitter from the deadlines of such chains".to_owned());
    }
    let listed = |names: Vec<String>| names.join(", ");
    if !parts.unread.is_empty() {
        let names = listed(parts.unread.iter().cloned().collect());
        notes.push(format!("entries of the model that are not read: {names}"));
    }
    let idle = parts.idle();
    if !idle.is_empty() {
        notes.push(format!("parts of the model that no transaction uses: {}", listed(idle)));
    }
    let cpus = u32::try_from(parts.processors.len()).ok().filter(|&cpus| cpus > 0);
    let scheduler = Some(if is_edf { "p-edf" } else { "p-fp" }.to_owned());
    let FlowReading { rows, chains, .. } = reading;
    Ok(TaskTable { rows, cpus, scheduler, chains, notes, ..TaskTable::default() })
}

/// Returns whether the activities run under EDF; all of them need the same policy.
fn policy(flows: &[MastTransaction]) -> Result<bool, TaskFileError> {
    let mut first = None;
    for flow in flows {
        for activity in &flow.activities {
            let is_edf = matches!(activity.server.urgency, MastUrgency::Deadline(_));
            if *first.get_or_insert(is_edf) != is_edf {
                let what = "a task set has one scheduler: this transaction runs under another policy than the first one";
                return Err(TaskFileError::row(&flow.place, what));
            }
        }
    }
    Ok(first.unwrap_or(false))
}

/// Returns the earlier of two deadlines, if there is one.
fn earlier(one: Option<MastTime>, other: Option<MastTime>) -> Option<MastTime> {
    one.into_iter().chain(other).min()
}

/// The state of the conversion of transactions to tasks.
#[derive(Debug, Default)]
struct FlowReading {
    rows: Vec<TaskRow>,
    chains: Vec<TableChain>,
    /// Whether any transaction of the model has several activities.
    has_chains: bool,
    /// Whether any chain starts with a jitter.
    has_late_chains: bool,
    /// The number of transactions without a hard deadline.
    undue: usize,
}

impl FlowReading {
    fn flow(&mut self, flow: &MastTransaction, parts: &mut MastParts) -> Result<(), TaskFileError> {
        match flow.activities.as_slice() {
            [only] => {
                let due = self.only_deadline(flow, only)?;
                self.row(flow, only, flow.name.clone(), due, parts);
                Ok(())
            }
            all => self.chain(flow, all, parts),
        }
    }

    /// Returns the deadline of a transaction's only activity.
    fn only_deadline(
        &mut self,
        flow: &MastTransaction,
        only: &MastActivity,
    ) -> Result<Option<MastTime>, TaskFileError> {
        let due = earlier(only.global, only.local);
        self.undue += usize::from(due.is_none());
        let MastUrgency::Deadline(by_server) = only.server.urgency else { return Ok(due) };
        if flow.jitter > MastTime::ZERO {
            let what = "`Max_Jitter` is above 0: under EDF, corehop reads no jitter, because the server's deadline counts from the release";
            return Err(TaskFileError::row(&flow.place, what));
        }
        if due.is_some_and(|due| due != by_server) {
            let what = format!(
                "the deadline of the server is {by_server}, but the deadline of the event is another: a task has one deadline"
            );
            return Err(TaskFileError::row(&flow.place, what));
        }
        Ok(Some(by_server))
    }

    /// Reads a transaction with several activities.
    fn chain(
        &mut self,
        flow: &MastTransaction,
        all: &[MastActivity],
        parts: &mut MastParts,
    ) -> Result<(), TaskFileError> {
        let refused = |what: &str| Err(TaskFileError::row(&flow.place, what));
        if all.len() > MOST_ACTIVITIES {
            return refused(&format!(
                "more than {MOST_ACTIVITIES} activities: split the transaction"
            ));
        }
        if all.iter().any(|it| matches!(it.server.urgency, MastUrgency::Deadline(_))) {
            return refused("several activities under EDF: no test here is for such chains");
        }
        let Some(end) = all.last().and_then(|last| last.global) else {
            return refused(
                "the last event of several activities has no Hard_Global_Deadline, which a chain needs",
            );
        };
        self.has_late_chains |= flow.jitter > MastTime::ZERO;
        let mut names = Vec::new();
        for (at, activity) in all.iter().enumerate() {
            let mut name = format!("{}.{}", flow.name, activity.operation_name);
            if names.contains(&name) {
                name = format!("{name}.{}", at + 1);
            }
            // The first activity is activated by the external event; no job may end after the chain's deadline.
            let global = if at == 0 { activity.global } else { None };
            let due = earlier(earlier(global, activity.local), Some(end));
            self.row(flow, activity, name.clone(), due, parts);
            names.push(name);
            let is_last = at + 1 == all.len();
            let Some(due) = activity.global.filter(|_| at > 0) else { continue };
            // The latency of a chain counts from the release of its first job.
            let Some(due) = due.minus(flow.jitter) else {
                return refused("a Hard_Global_Deadline is not longer than Max_Jitter");
            };
            let name = if is_last {
                flow.name.clone()
            } else {
                format!("{} to {}", flow.name, activity.event)
            };
            let deadline = due.to_string();
            let place = flow.place.clone();
            self.chains.push(TableChain { place, name, tasks: names.clone(), deadline });
        }
        Ok(())
    }

    /// Adds the row of an activity; a rank is added later.
    fn row(
        &mut self,
        flow: &MastTransaction,
        activity: &MastActivity,
        name: String,
        due: Option<MastTime>,
        parts: &mut MastParts,
    ) {
        let MastActivity { operation, server, .. } = activity;
        let mut cells = vec![("name", name), ("wcet", operation.wcet.to_string())];
        cells.push(("period", flow.period.to_string()));
        cells.extend(due.map(|due| ("deadline", due.to_string())));
        if operation.bcet > MastTime::ZERO {
            // Only chains ask for the least execution time.
            if self.has_chains {
                cells.push(("bcet", operation.bcet.to_string()));
            } else {
                parts.unread.insert("Best_Case_Execution_Time".to_owned());
            }
        }
        let is_first = flow.activities.first().is_some_and(|first| first.event == activity.event);
        if flow.jitter > MastTime::ZERO && is_first {
            cells.push(("jitter", flow.jitter.to_string()));
        }
        cells.push(("cpu", server.cpu.to_string()));
        let cells = cells.into_iter().map(|(heading, value)| (heading.to_owned(), value));
        self.rows.push(TaskRow { place: flow.place.clone(), cells: cells.collect() });
    }

    /// Adds a rank to each row: interrupts come first, and then the larger priority. Returns the note about the order.
    fn rank(&mut self, flows: &[MastTransaction]) -> Result<Option<String>, TaskFileError> {
        let all = flows.iter().flat_map(|flow| flow.activities.iter().map(move |it| (flow, it)));
        let fixed = |activity: &MastActivity| match activity.server.urgency {
            MastUrgency::Fixed { is_interrupt, priority } => (is_interrupt, priority),
            MastUrgency::Deadline(_) => (false, 0),
        };
        let levels: BTreeSet<(bool, u32)> = all.clone().map(|(_, it)| fixed(it)).collect();
        let seen: BTreeSet<(usize, (bool, u32))> =
            all.clone().map(|(_, it)| (it.server.cpu, fixed(it))).collect();
        for (flow, activity) in all.clone() {
            let (is_interrupt, priority) = fixed(activity);
            let is_above = |(cpu, (other, above)): &(usize, (bool, u32))| {
                *cpu == activity.server.cpu && !other && *above >= priority
            };
            if is_interrupt && seen.iter().any(is_above) {
                let what = format!(
                    "`The_Priority` {priority} of an interrupt is not above the priorities of the other servers of its processor"
                );
                return Err(TaskFileError::row(&flow.place, what));
            }
        }
        let order: Vec<(bool, u32)> = levels.into_iter().rev().collect();
        for (row, (_, activity)) in self.rows.iter_mut().zip(all) {
            let rank = order.iter().position(|it| *it == fixed(activity)).unwrap_or_default();
            row.cells.push(("priority".to_owned(), rank.to_string()));
        }
        Ok(order.first().map(|(_, largest)| {
            format!("in MAST a larger priority is more urgent: rank 0 is priority {largest}")
        }))
    }
}
