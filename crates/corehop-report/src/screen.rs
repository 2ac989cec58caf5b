// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report for one screen of a terminal, which shows the tables that fit.

use super::sections;
use super::table::{self, paragraph, plain};
use corehop_results::Results;

/// The most lines of tables that a screen shows.
const LINES: usize = 46;

/// Writes as many tables as fit on a screen, in lines of `width` columns; `whole` adds tables of kinds
/// other than cells.
pub fn screen(data: &Results, width: usize, whole: bool) -> String {
    let (first, later) =
        if whole { sections::tables_around_cells(data) } else { Default::default() };
    let mut blocks: Vec<String> = first.iter().map(plain).collect();
    let mut cells = table::medians(&data.jobs.summaries, width);
    blocks.append(&mut cells);
    blocks.extend(later.iter().map(plain));
    let (mut text, left) = fitting(&blocks);
    if left > 0 {
        let s = if left == 1 { "" } else { "s" };
        text.push_str(&paragraph(
            &format!("--table text prints {left} more table{s}, maxima, counts and replicates; -o PAGE.html shows everything."),
            width,
        ));
        text.push('\n');
    }
    if whole {
        text.extend(sections::notes(data).into_iter().flat_map(|note| [note, "\n".to_owned()]));
    }
    text
}

/// Returns the blocks that fit as a whole, and the number of blocks that do not; the first block loses
/// its end if it is too long.
fn fitting(blocks: &[String]) -> (String, usize) {
    let (mut text, mut used, mut left) = (String::new(), 0, 0);
    for (place, block) in blocks.iter().enumerate() {
        let lines = block.lines().count();
        if used + lines <= LINES {
            text.push_str(block);
            used += lines;
        } else if place == 0 {
            text.extend(block.lines().take(LINES - 1).flat_map(|line| [line, "\n"]));
            text.push_str("…\n");
            (used, left) = (LINES, 1);
        } else {
            left += 1;
        }
    }
    (text, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_shown_whole_up_to_a_screen_and_the_rest_is_counted() {
        let block = |lines: usize| "x\n".repeat(lines);
        let (text, left) = fitting(&[block(20), block(30), block(10)]);
        assert_eq!((text.lines().count(), left), (30, 1));
        let (text, left) = fitting(&[block(80), block(2)]);
        assert_eq!((text.lines().count(), left), (LINES, 2));
        assert!(text.ends_with("…\n"));
        assert_eq!(fitting(&[]), (String::new(), 0));
    }
}
