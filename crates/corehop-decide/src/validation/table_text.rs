// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads printed tables from CSV without quoted commas.

use std::fmt::Display;
use std::str::FromStr;

use super::PublishedStudyError;

/// A line of a table.
pub(super) struct TableLine<'a> {
    /// The line number, counted from 1.
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

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::Event;

    const TABLE: &str = "event,x,cost_us\nl2_migration,7,1.5\npreemption,,many\nwait,8\n";

    #[test]
    fn a_cell_is_found_by_its_column_and_a_missing_one_is_empty() {
        let all = lines(TABLE, &["cost_us", "event"]).unwrap();
        let cells: Vec<[&str; 3]> =
            all.iter().map(|it| ["x", "cost_us", "y"].map(|name| it.cell(name))).collect();
        assert_eq!(cells, [["7", "1.5", ""], ["", "many", ""], ["8", "", ""]]);
        assert_eq!(all[0].number("cost_us").ok(), Some(1.5));
        assert_eq!(all[0].word::<Event>("event").unwrap(), Event::L2Migration);
    }

    #[test]
    fn what_is_wrong_in_a_table_is_told_with_its_line() {
        let told = |error: PublishedStudyError| match error {
            PublishedStudyError::Table { line, what } => (line, what),
            PublishedStudyError::Form(what) => panic!("{what}"),
        };
        let missing = lines(TABLE, &["event", "cost"]).err().map(told);
        assert_eq!(missing, Some((1, "no column `cost`".to_owned())));
        let all = lines(TABLE, &[]).unwrap();
        assert_eq!(
            told(all[1].number("cost_us").unwrap_err()),
            (3, "`many` is not a number".to_owned())
        );
        let (line, what) = told(all[2].word::<Event>("event").unwrap_err());
        assert!(line == 4 && what.contains("wait"), "{line}: {what}");
        assert!(lines("event", &["event"]).unwrap().is_empty());
    }
}
