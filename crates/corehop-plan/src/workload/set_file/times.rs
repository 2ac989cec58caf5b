// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads times in a file: a number of microseconds with up to three decimals, or a text with a unit.

use serde_json::{Number, Value};

use super::tree::JsonTree;
use super::{ObjectFields, SetFileError, find, place_of, wrong};
use crate::units::{Nanos, scaled};
use crate::workload::task::{LONGEST, Tick, Time};

/// The longest span that every tick can represent.
const LONGEST_SPAN: Nanos = Tick::Micro.nanos(LONGEST);

/// Returns the tick for all times of the given tasks and of the chains: the times of all fields whose names end in
/// `_us`, including fields of pieces.
///
/// # Errors
/// Returns [`SetFileError`] for a time that cannot be read.
pub(super) fn tick(tasks: &[JsonTree], chains: Option<&JsonTree>) -> Result<Tick, SetFileError> {
    let mut spans = Vec::new();
    if let Some(chains) = chains {
        collect("chains: ", chains, &mut spans)?;
    }
    for (at, task) in tasks.iter().enumerate() {
        let place = match task {
            JsonTree::Object(fields) => place_of(at, fields),
            _ => format!("task {at}: "),
        };
        collect(&place, task, &mut spans)?;
    }
    Ok(Tick::of(spans))
}

/// Collects the times of an object and of all objects inside.
fn collect(place: &str, tree: &JsonTree, spans: &mut Vec<Nanos>) -> Result<(), SetFileError> {
    match tree {
        JsonTree::Leaf(_) => Ok(()),
        JsonTree::Array(items) => items.iter().try_for_each(|item| collect(place, item, spans)),
        JsonTree::Object(fields) => {
            let of = ObjectFields { place, fields };
            for (name, value) in fields {
                if name.ends_with("_us") {
                    spans.extend(of.span(name, Tick::Micro, LONGEST_SPAN)?);
                } else {
                    collect(place, value, spans)?;
                }
            }
            Ok(())
        }
    }
}

impl ObjectFields<'_> {
    /// Reads a time of at least `least` ticks; returns `None` if the object lacks the field.
    ///
    /// # Errors
    /// Returns [`SetFileError`] for a time that cannot be read or is out of range.
    pub(super) fn time(
        &self,
        name: &str,
        least: Time,
        tick: Tick,
    ) -> Result<Option<Time>, SetFileError> {
        let Some(span) = self.span(name, Tick::Micro, LONGEST_SPAN)? else { return Ok(None) };
        let time = tick.up(span);
        if time >= least {
            return Ok(Some(time));
        }
        let [value, least] = [time, least].map(|it| tick.us(it));
        Err(wrong(self.place, format!("{name} is {value}: expected at least {least}")))
    }

    /// Reads a span; returns `None` if the object lacks the field. A number without a unit is in `unit`.
    pub(super) fn span(
        &self,
        name: &str,
        unit: Tick,
        most: Nanos,
    ) -> Result<Option<Nanos>, SetFileError> {
        let Some(value) = find(self.fields, name) else { return Ok(None) };
        let refused = |why: &str| Err(wrong(self.place, format!("{name} is {value}: {why}")));
        let span = match value {
            JsonTree::Leaf(Value::String(text)) => match text.parse::<Nanos>() {
                Ok(span) => Some(span),
                Err(why) => return refused(&why.to_string()),
            },
            JsonTree::Leaf(Value::Number(number)) => numbered(number, unit),
            _ => None,
        };
        match span {
            Some(span) if span <= most => Ok(Some(span)),
            _ => refused(&expected(unit, most)),
        }
    }
}

/// Converts a number of `unit` to an exact span; returns `None` if the number is negative or finer than a
/// nanosecond.
fn numbered(number: &Number, unit: Tick) -> Option<Nanos> {
    let ns = unit.nanos(Time::TICK).get();
    // A number is as its shortest digits say: 0.1 is a tenth.
    let digits = number.to_string();
    number.as_u64().map_or_else(|| scaled(&digits, ns), |it| it.checked_mul(ns)).map(Nanos::new)
}

fn expected(unit: Tick, most: Nanos) -> String {
    match unit {
        Tick::Micro => format!(
            "expected a number of microseconds from 0 to {}, with up to three decimals, or text with a unit, for example \
             \"1.5 ms\"",
            most.get() / 1_000
        ),
        Tick::Nano => format!(
            "expected a whole number of nanoseconds, 0 to {}, or text with a unit, for example \"150 ns\"",
            most.get()
        ),
    }
}
