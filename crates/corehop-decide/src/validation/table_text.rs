// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printed tables as CSV without quoted commas.

use std::fmt::Display;
use std::str::FromStr;

use super::PublishedStudyError;

/// A line of a table.
pub(super) struct TableLine<'a> {
    /// Counted from 1.
    number: usize,
    header: &'a str,
    text: &'a str,
}

/// The lines of a table that has at least these columns.
pub(super) fn lines<'a>(
    table: &'a str,
    columns: &[&str],
) -> Result<Vec<TableLine<'a>>, PublishedStudyError> {
    let (header, rest) = table.split_once('\n').unwrap_or((table, ""));
    if let Some(name) = columns.iter().find(|name| !header.split(',').any(|it| it == **name)) {
        return Err(PublishedStudyError::Table { line: 1, what: format!("no column `{name}`") });
    }
    let line = |(at, text)| TableLine { number: at + 2, header, text };
    Ok(rest.lines().enumerate().map(line).collect())
}

impl<'a> TableLine<'a> {
    /// The value in a column; empty if it is missing.
    pub(super) fn cell(&self, column: &str) -> &'a str {
        let place = self.header.split(',').position(|name| name == column);
        place.and_then(|place| self.text.split(',').nth(place)).unwrap_or_default()
    }

    pub(super) fn number(&self, column: &str) -> Result<f64, PublishedStudyError> {
        let text = self.cell(column);
        text.parse().map_err(|_| self.wrong(format!("`{text}` is not a number")))
    }

    pub(super) fn word<T: FromStr<Err: Display>>(
        &self,
        column: &str,
    ) -> Result<T, PublishedStudyError> {
        self.cell(column).parse().map_err(|error| self.wrong(format!("{error}")))
    }

    pub(super) fn wrong(&self, what: String) -> PublishedStudyError {
        PublishedStudyError::Table { line: self.number, what }
    }
}
