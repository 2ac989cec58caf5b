// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads tables of tasks as CSV: a head with the columns, then one line for each task.

use super::TaskFileError;
use super::table::{TaskRow, TaskTable};

/// Reads a table whose cells are separated by commas, semicolons or tabs; the head determines the separator. Lines that
/// begin with `#` are comments. A line below the head that begins with `#` and has as many cells as the head is an
/// error, because the line may be meant as a task.
pub(super) fn read(text: &str) -> Result<TaskTable, TaskFileError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let syntax = |line: usize, what: String| TaskFileError::Syntax {
        format: "CSV",
        what: format!("line {line}: {what}"),
    };
    let Some((_, head)) = lines.find(|(_, line)| !line.starts_with('#')) else {
        return Err(syntax(1, "there is no head with the names of the columns".to_owned()));
    };
    let separator = separator(head);
    let head = cells(head, separator);
    let mut rows = Vec::new();
    for (number, line) in lines {
        let cells = cells(line, separator);
        if line.starts_with('#') {
            if head.len() > 1 && cells.len() == head.len() {
                let what =
                    "begins with `#` and has the cells of a task: remove the `#`, or the line";
                return Err(syntax(number, what.to_owned()));
            }
            continue;
        }
        if cells.len() != head.len() {
            let (has, expected) = (cells.len(), head.len());
            return Err(syntax(
                number,
                format!("this line has {has} cells, but the header has {expected} columns"),
            ));
        }
        let place = format!("line {number}");
        rows.push(TaskRow { place, cells: head.iter().cloned().zip(cells).collect() });
    }
    Ok(TaskTable { rows, ..TaskTable::default() })
}

/// Returns the separator that occurs most often in a line.
pub(super) fn separator(line: &str) -> char {
    let count = |separator: &char| line.matches(*separator).count();
    // Of equal counts `max_by_key` returns the last: a comma, where the line has no separator.
    [';', '\t', ','].into_iter().max_by_key(count).unwrap_or(',')
}

/// Returns the cells of a line without surrounding spaces. A quoted cell can contain separators, and `""` in a quoted
/// cell stands for a quote.
pub(super) fn cells(line: &str, separator: char) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if is_quoted || cell.trim().is_empty() => is_quoted = !is_quoted,
            _ if letter == separator && !is_quoted => {
                cells.push(std::mem::take(&mut cell).trim().to_owned());
            }
            _ => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_outside_of_quotes() {
        assert_eq!(cells(r#" a , "b, ""c""",,"#, ','), ["a", "b, \"c\"", "", ""]);
        assert_eq!(cells("x\t y", separator("a\tb")), ["x", "y"]);
        assert_eq!(cells("a;1,5", separator("a;b")), ["a", "1,5"]);
    }
}
