// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes a platform as a TOML file with one line per fact.

use std::fmt::Write as _;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::Platform;
use super::consistency::{self, Disagreement};
use super::workings;
use crate::bounds;

/// The reason why a text or a set of facts is not a valid platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// The text is not TOML, or a key or a value has a wrong form.
    #[error("line {line}{}: {problem}", named(.fact))]
    Text {
        /// The line of the error, counted from 1.
        line: usize,
        /// The key of the fact, such as `cache[2].size`; empty if the text is not TOML.
        fact: String,
        /// The problem, with the correct form.
        problem: String,
    },
    /// The platform states two facts that contradict each other.
    #[error("{}`{fact}` contradicts the rest of the platform: {problem}", at_line(*.line))]
    Contradiction {
        /// The line of the fact, counted from 1, or `None` for a platform that was not read from a
        /// file.
        line: Option<usize>,
        /// The key of the fact, such as `cache[2].size`.
        fact: String,
        /// The other fact, with which the fact in `fact` disagrees.
        problem: String,
    },
}

fn named(fact: &str) -> String {
    if fact.is_empty() { String::new() } else { format!(", `{fact}`") }
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}, ")).unwrap_or_default()
}

/// Checks whether all facts agree, including the facts for simulation.
fn checked(platform: &Platform) -> consistency::ConsistencyResult {
    consistency::check(platform)?;
    workings::check(platform)
}

impl Platform {
    /// Reads a platform file and checks that its facts agree.
    ///
    /// # Errors
    /// Returns [`PlatformError`] with the line and the key of the first fact that is malformed,
    /// unknown, or contradicts another fact.
    pub fn from_toml(text: &str) -> Result<Self, PlatformError> {
        let platform: Self = bounds::from_toml(text).map_err(|error| malformed(text, &error))?;
        let agree = checked(&platform).and_then(|()| consistency::usable(&platform));
        agree.map_err(|disagreement| {
            let line = DeTable::parse(text).ok().and_then(|table| {
                Some(line_of(text, span_of(table.get_ref(), &disagreement.fact)?.start))
            });
            contradiction(disagreement, line)
        })?;
        Ok(platform)
    }

    /// Checks that the facts agree: every CPU in a package and a core, no cache with a CPU that
    /// the machine lacks, no CPU in two instances, each size a whole number of sets.
    ///
    /// # Errors
    /// Returns [`PlatformError`] with the first fact that does not fit.
    pub fn validate(&self) -> Result<(), PlatformError> {
        checked(self).map_err(|disagreement| contradiction(disagreement, None))
    }

    /// Returns the platform as a file, one line per fact; [`Platform::from_toml`] reads it back.
    ///
    /// # Panics
    /// The function does not panic, because every value is a string, a number, a list, or a table
    /// of strings, numbers and lists.
    pub fn to_toml(&self) -> String {
        let table = toml::Table::try_from(self).expect("facts are strings, numbers and lists");
        let mut text = String::new();
        write_table(&mut text, "", &table);
        text
    }
}

fn contradiction(disagreement: Disagreement, line: Option<usize>) -> PlatformError {
    let Disagreement { fact, problem } = disagreement;
    PlatformError::Contradiction { line, fact, problem }
}

fn malformed(text: &str, error: &toml::de::Error) -> PlatformError {
    let start = error.span().map_or(0, |span| span.start);
    let fact = DeTable::parse(text).map(|table| key_at(table.get_ref(), start)).unwrap_or_default();
    PlatformError::Text { line: line_of(text, start), fact, problem: error.message().to_owned() }
}

/// Returns the number of the line that contains the byte at `offset`, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// Returns the byte range of the value with this key in the text.
fn span_of(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    let (name, place) = match first.split_once('[') {
        Some((name, place)) => (name, place.trim_end_matches(']').parse::<usize>().ok()),
        None => (first, None),
    };
    let mut value = table.get(name)?;
    if let Some(place) = place {
        value = value.get_ref().as_array()?.get(place)?;
    }
    match value.get_ref().as_table() {
        Some(inner) if !rest.is_empty() => span_of(inner, rest).or_else(|| Some(value.span())),
        _ => Some(value.span()),
    }
}

/// Returns the key of the innermost value that covers byte `offset`, or the empty key.
fn key_at(table: &DeTable<'_>, offset: usize) -> String {
    for (name, value) in table {
        if name.span().contains(&offset) {
            return name.get_ref().to_string();
        }
        if let Some(rest) = key_inside(value.get_ref(), value.span(), offset) {
            return format!("{}{rest}", name.get_ref());
        }
    }
    String::new()
}

/// Returns the rest of the key below a value, if `offset` is inside the value. The span of a table
/// that a header opens covers only the header, so the function always searches inside the table.
fn key_inside(value: &DeValue<'_>, span: Range<usize>, offset: usize) -> Option<String> {
    let own = span.contains(&offset).then(String::new);
    match value {
        DeValue::Table(inner) => {
            let rest = key_at(inner, offset);
            if rest.is_empty() { own } else { Some(format!(".{rest}")) }
        }
        DeValue::Array(items) => {
            let item = items.iter().enumerate().find_map(|(place, item)| {
                let rest = key_inside(item.get_ref(), item.span(), offset)?;
                Some(format!("[{place}]{rest}"))
            });
            item.or(own)
        }
        _ => own,
    }
}

/// Writes values and facts first, one line each; then tables and lists of tables, each under a
/// header.
fn write_table(text: &mut String, path: &str, table: &toml::Table) {
    for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    }
    for (key, value) in table.iter().filter(|(_, value)| is_section(value)) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(inner) => section(text, &format!("[{path}]"), &path, inner),
            toml::Value::Array(items) => {
                for inner in items.iter().filter_map(toml::Value::as_table) {
                    section(text, &format!("[[{path}]]"), &path, inner);
                }
            }
            _ => {}
        }
    }
}

fn section(text: &mut String, header: &str, path: &str, table: &toml::Table) {
    let _ = writeln!(text, "\n{header}");
    write_table(text, path, table);
}

/// Returns whether a value needs a header: a table that is not a fact, or a list of tables that are
/// not facts.
fn is_section(value: &toml::Value) -> bool {
    match value {
        toml::Value::Table(table) => !table.contains_key("source") || !table.contains_key("value"),
        toml::Value::Array(items) => items.iter().any(is_section),
        _ => false,
    }
}
