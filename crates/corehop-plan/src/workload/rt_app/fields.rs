// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of JSON objects in a workload, in the order of the file.

use std::collections::HashSet;

use serde_json::Value;

use super::super::set_file::JsonTree;
use super::super::time::{Tick, Time};

/// The fields of a JSON object, names with values, in the order of the file.
pub(super) type JsonFields = [(String, JsonTree)];

/// The largest number that rt-app can store; rt-app reduces every larger number to this limit.
pub(super) const MOST: u64 = i32::MAX as u64;

/// Checks that no name occurs twice, because rt-app keeps only the last value and `workgen` keeps
/// both.
pub(super) fn once(fields: &JsonFields, what: &str) -> Result<(), String> {
    let mut names = HashSet::new();
    match fields.iter().find(|(name, _)| !names.insert(name)) {
        None => Ok(()),
        Some((name, _)) => Err(format!("{what}`{name}` is duplicated: expected distinct names")),
    }
}

/// Returns the value of the field `name`, or `None` if the field is absent.
pub(super) fn find<'a>(fields: &'a JsonFields, name: &str) -> Option<&'a JsonTree> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Returns the value of the field `name`, which must be an object, or `None` if the field is
/// absent.
pub(super) fn object<'a>(
    fields: &'a JsonFields,
    name: &str,
) -> Result<Option<&'a JsonFields>, String> {
    match find(fields, name) {
        None => Ok(None),
        Some(JsonTree::Object(fields)) => Ok(Some(fields)),
        Some(other) => Err(format!("`{name}` is {other}: expected a table")),
    }
}

/// Returns the value of the field `name`, which must be a text, or `None` if the field is absent.
pub(super) fn text<'a>(fields: &'a JsonFields, name: &str) -> Result<Option<&'a str>, String> {
    match find(fields, name) {
        None => Ok(None),
        Some(JsonTree::Leaf(Value::String(text))) => Ok(Some(text)),
        Some(other) => Err(format!("`{name}` is {other}: expected a text")),
    }
}

/// Converts a number of microseconds, rt-app's unit, to a time.
pub(super) const fn micros(us: u64) -> Time {
    Tick::Micro.of_us(us)
}

/// Returns the value of the field `name`, which must be a whole number, or `None` if the field is
/// absent.
pub(super) fn number(fields: &JsonFields, name: &str) -> Result<Option<u64>, String> {
    find(fields, name).map(|value| whole(name, value)).transpose()
}

/// Returns the value as a whole number that rt-app can store.
pub(super) fn whole(name: &str, value: &JsonTree) -> Result<u64, String> {
    let number = if let JsonTree::Leaf(value) = value { value.as_u64() } else { None };
    number
        .filter(|&number| number <= MOST)
        .ok_or_else(|| format!("`{name}` is {value}: expected a whole number, 0 to {MOST}"))
}

/// Returns the whole numbers of the list in the field `name`, ascending and without repetitions.
pub(super) fn numbers(fields: &JsonFields, name: &str) -> Result<Option<Vec<usize>>, String> {
    let Some(value) = find(fields, name) else { return Ok(None) };
    let JsonTree::Array(list) = value else {
        return Err(format!("`{name}` is {value}: expected a list"));
    };
    let mut numbers = list
        .iter()
        .map(|number| whole(name, number).map(|number| number as usize))
        .collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Some(numbers))
}
