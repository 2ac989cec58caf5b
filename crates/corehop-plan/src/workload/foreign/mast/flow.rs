// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transactions of a MAST model: an external event, and the activities that follow one another.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{self, MastFields, plain};
use super::parts::{MastOperation, MastParts, MastServer};
use super::text::MastEntry;
use super::time::MastTime;
use crate::workload::foreign::TaskFileError;

/// An activity of a transaction: an operation that a server executes after the activity before has ended.
#[derive(Debug, Clone)]
pub(super) struct MastActivity {
    /// The name of the operation, as the transaction writes the name.
    pub(super) operation_name: String,
    /// The name of the event that the activity's end generates.
    pub(super) event: String,
    pub(super) operation: MastOperation,
    pub(super) server: MastServer,
    /// The earliest deadline of the end, from the external event's arrival.
    pub(super) global: Option<MastTime>,
    /// The earliest deadline of the end, from the activation of the activity.
    pub(super) local: Option<MastTime>,
}

/// A transaction with one external event and a chain of activities.
#[derive(Debug, Clone)]
pub(super) struct MastTransaction {
    /// The place of the transaction, for errors.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) period: MastTime,
    pub(super) jitter: MastTime,
    /// The activities in order, at least one.
    pub(super) activities: Vec<MastActivity>,
}

/// The external event of a transaction.
struct MastArrival {
    name: String,
    period: MastTime,
    jitter: MastTime,
}

/// The deadlines of an internal event.
#[derive(Debug, Default)]
struct MastRequirements {
    global: Option<MastTime>,
    local: Option<MastTime>,
}

/// An event handler, before the order of the handlers is known.
struct MastHandler {
    place: String,
    input: String,
    output: String,
    operation: String,
    server: String,
}

/// The requirements of events that a task set can express.
const HARD: [&str; 2] = ["Hard_Global_Deadline", "Hard_Local_Deadline"];
const HARD_ONLY: &str = "a task set has hard deadlines only";

/// Reads a transaction.
pub(super) fn transaction(
    parts: &mut MastParts,
    entry: MastEntry,
) -> Result<MastTransaction, TaskFileError> {
    let mut fields = MastFields::of(entry)?;
    fields.kind(&["Regular"], "a task set has no other transactions")?;
    let name = fields.needed_word("Name")?;
    let place = format!("{} `{name}`", fields.place);
    let arrival = arrival(parts, &place, fields.need("External_Events")?)?;
    let mut events = BTreeMap::new();
    for event in fields::groups(fields.need("Internal_Events")?)? {
        let at = event.place.clone();
        let (event, requirements) = internal_event(parts, event, &arrival.name)?;
        let is_known = plain(&event) == plain(&arrival.name);
        if is_known || events.insert(plain(&event), requirements).is_some() {
            let what = format!("`Name` is {event}: expected a name that no event before has");
            return Err(TaskFileError::row(&at, what));
        }
    }
    let handlers = fields::groups(fields.need("Event_Handlers")?)?;
    let handlers =
        handlers.into_iter().map(|it| handler(parts, it)).collect::<Result<Vec<_>, _>>()?;
    let handlers = ordered(&place, &arrival.name, handlers)?;
    let mut activities = Vec::new();
    for handler in handlers {
        let Some(requirements) = events.remove(&plain(&handler.output)) else {
            let what = format!("there is no event `{}` in Internal_Events", handler.output);
            return Err(TaskFileError::row(&handler.place, what));
        };
        activities.push(MastActivity {
            operation: parts.operation_of(&handler.place, &handler.operation)?,
            server: parts.server_of(&handler.place, &handler.server)?,
            operation_name: handler.operation,
            event: handler.output,
            global: requirements.global,
            local: requirements.local,
        });
    }
    if let Some(event) = events.keys().next() {
        let what = format!("no event handler generates the event `{event}`");
        return Err(TaskFileError::row(&place, what));
    }
    fields.finish(&[], &mut parts.unread)?;
    let (period, jitter) = (arrival.period, arrival.jitter);
    Ok(MastTransaction { place, name, period, jitter, activities })
}

/// Reads the external event of a transaction.
fn arrival(
    parts: &mut MastParts,
    place: &str,
    list: MastEntry,
) -> Result<MastArrival, TaskFileError> {
    let mut all = fields::groups(list)?;
    if all.len() != 1 {
        let what = format!("expected one external event, found {}", all.len());
        return Err(TaskFileError::row(place, what));
    }
    let mut event = all.remove(0);
    let why = "a task set bounds the distance of arrivals by one period";
    let kind = event.kind(&["Periodic", "Sporadic"], why)?;
    let name = event.needed_word("Name")?;
    let arrival = match kind.as_str() {
        "periodic" => MastArrival {
            name,
            period: event.needed_time("Period")?,
            jitter: event.time("Max_Jitter")?.unwrap_or_default(),
        },
        _ => MastArrival {
            name,
            period: event.needed_time("Min_Interarrival")?,
            jitter: MastTime::ZERO,
        },
    };
    let unread: &[&str] =
        if kind == "periodic" { &["Phase"] } else { &["Avg_Interarrival", "Distribution"] };
    event.finish(unread, &mut parts.unread)?;
    Ok(arrival)
}

/// Reads an internal event: its name and its deadlines.
fn internal_event(
    parts: &mut MastParts,
    mut event: MastFields,
    external: &str,
) -> Result<(String, MastRequirements), TaskFileError> {
    event.kind(&["Regular"], "a task set has no other events")?;
    let name = event.needed_word("Name")?;
    let mut requirements = MastRequirements::default();
    if let Some(entry) = event.take("Timing_Requirements") {
        let mut group = MastFields::of(entry)?;
        let kind = group.kind(&["Composite", HARD[0], HARD[1]], HARD_ONLY)?;
        if kind == "composite" {
            for mut simple in fields::groups(group.need("Requirements_List")?)? {
                let kind = simple.kind(&HARD, HARD_ONLY)?;
                deadline(parts, &kind, simple, external, &mut requirements)?;
            }
            group.finish(&[], &mut parts.unread)?;
        } else {
            deadline(parts, &kind, group, external, &mut requirements)?;
        }
    }
    event.finish(&[], &mut parts.unread)?;
    Ok((name, requirements))
}

/// Reads a deadline of this kind.
fn deadline(
    parts: &mut MastParts,
    kind: &str,
    mut simple: MastFields,
    external: &str,
    requirements: &mut MastRequirements,
) -> Result<(), TaskFileError> {
    let time = simple.needed_time("Deadline")?;
    let kept = if kind == "hard_global_deadline" {
        let from = simple.needed_word("Referenced_Event")?;
        if plain(&from) != plain(external) {
            let what = format!(
                "`Referenced_Event` is {from}: expected the external event {external}, from which a chain's deadline counts"
            );
            return Err(TaskFileError::row(&simple.place, what));
        }
        &mut requirements.global
    } else {
        &mut requirements.local
    };
    *kept = Some(kept.map_or(time, |other| other.min(time)));
    simple.finish(&[], &mut parts.unread)
}

/// Reads an event handler.
fn handler(parts: &mut MastParts, mut fields: MastFields) -> Result<MastHandler, TaskFileError> {
    let why =
        "only activities that follow one another are read, without timers, delays, and branches";
    fields.kind(&["Activity"], why)?;
    let handler = MastHandler {
        place: fields.place.clone(),
        input: fields.needed_word("Input_Event")?,
        output: fields.needed_word("Output_Event")?,
        operation: fields.needed_word("Activity_Operation")?,
        server: fields.needed_word("Activity_Server")?,
    };
    fields.finish(&[], &mut parts.unread)?;
    Ok(handler)
}

/// Returns the handlers in the order of their activation, from the external event on.
fn ordered(
    place: &str,
    external: &str,
    handlers: Vec<MastHandler>,
) -> Result<Vec<MastHandler>, TaskFileError> {
    let mut outputs = BTreeSet::new();
    let mut by_input = BTreeMap::new();
    for handler in handlers {
        let (input, output) = (handler.input.clone(), handler.output.clone());
        let place = handler.place.clone();
        if by_input.insert(plain(&input), handler).is_some() {
            let what =
                format!("two event handlers have the input `{input}`: a chain has no branches");
            return Err(TaskFileError::row(&place, what));
        }
        if !outputs.insert(plain(&output)) {
            let what =
                format!("two event handlers have the output `{output}`: a chain has no joins");
            return Err(TaskFileError::row(&place, what));
        }
    }
    let mut order: Vec<MastHandler> = Vec::new();
    let mut event = plain(external);
    while let Some(handler) = by_input.remove(&event) {
        event = plain(&handler.output);
        order.push(handler);
    }
    if let Some(handler) = by_input.values().next() {
        let what = format!("the input `{}` does not follow from the external event", handler.input);
        return Err(TaskFileError::row(&handler.place, what));
    }
    if order.is_empty() {
        let what = format!("no event handler has the input `{external}`");
        return Err(TaskFileError::row(place, what));
    }
    Ok(order)
}
