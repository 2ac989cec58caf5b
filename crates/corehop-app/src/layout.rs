// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of text for readers: the width of lines, and optional colours.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use corehop_report::table::wrapped;

/// The beginning of corehop's own escape sequences. The beginning contains a random number, so no external text can
/// contain it.
static OWN_ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("\x1b[{:016x};", RandomState::new().hash_one(())));

/// Returns the beginning of corehop's own escape sequences, for code that prints corehop's text on a terminal.
pub fn own_escape() -> &'static str {
    OWN_ESCAPE.as_str()
}

/// The width and the colours of text for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalLayout {
    /// The number of columns.
    pub width: usize,
    /// Whether colours are wanted.
    pub colours: bool,
}

/// The colour of a piece of text (the parameter of ANSI's SGR sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// The style of names.
    Bold,
    /// The style of labels.
    Dim,
    /// The colour of a no or an obstacle.
    Red,
    /// The colour of an unknown answer or a warning.
    Yellow,
    /// The colour of a note.
    Blue,
    /// The colour of a yes.
    Green,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "1;31",
            Self::Yellow => "1;33",
            Self::Blue => "1;34",
            Self::Green => "1;32",
        }
    }
}

/// The smallest and the largest width: text does not fit into shorter lines, and longer lines are hard to read.
const WIDTHS: (usize, usize) = (40, 100);

impl TerminalLayout {
    /// Creates the layout for a terminal with `columns` columns.
    pub fn new(columns: usize, colours: bool) -> Self {
        Self { width: columns.clamp(WIDTHS.0, WIDTHS.1), colours }
    }

    /// Returns `text` in a colour, if colours are wanted.
    pub fn paint(self, text: &str, paint: Paint) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let own = own_escape();
        format!("{own}{}m{text}{own}0m", paint.code())
    }

    /// Returns `text` in lines of at most the width, if colours are off. A line that is too long continues below with
    /// more indentation. A line with a command to copy is not broken.
    pub fn fold(self, text: &str) -> String {
        let fits = |line: &str| line.chars().count() <= self.width;
        if self.colours || text.lines().all(fits) {
            return text.to_owned();
        }
        let folded = |line: &str| {
            let whole = fits(line) || line.trim_start().starts_with("corehop ");
            if whole { line.to_owned() } else { self.folded(line) }
        };
        text.split('\n').map(folded).collect::<Vec<_>>().join("\n")
    }

    /// Breaks a line at spaces, and keeps the columns of a table.
    fn folded(self, line: &str) -> String {
        let indent = line.chars().take_while(|it| *it == ' ').count() + 2;
        let (mut lines, mut rest) = (Vec::new(), line.to_owned());
        while rest.chars().count() > self.width {
            let end = rest.char_indices().nth(self.width + 1).map_or(rest.len(), |(at, _)| at);
            let begin = rest.len() - rest.trim_start().len();
            let Some(space) = last_break(&rest, begin, end) else { break };
            let next = format!("{}{}", " ".repeat(indent), rest[space..].trim_start());
            lines.push(rest[..space].trim_end().to_owned());
            rest = next;
        }
        lines.push(rest);
        lines.join("\n")
    }

    /// Breaks `text` into lines that fit beside `indent` columns; lines after the first begin with `indent` spaces. A
    /// word that is longer than a line is not broken.
    pub fn wrap(self, text: &str, indent: usize) -> String {
        let room = self.width.saturating_sub(indent).max(1);
        let lines = wrapped(text, room);
        lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent)))
    }

    /// Formats `head: text` in lines that fit; the further lines of each paragraph begin below the text.
    pub fn headed(self, text: &str) -> String {
        let head = text.split_once(": ").map_or(0, |(head, _)| head.chars().count() + 2);
        let paragraph = |(number, line): (usize, &str)| {
            let indent = " ".repeat(if number > 0 { head } else { 0 });
            format!("{indent}{}\n", self.wrap(line, head))
        };
        text.lines().enumerate().map(paragraph).collect()
    }
}

/// The last space in this part of a line that is not within backticks, so that a command to copy is not broken.
fn last_break(line: &str, begin: usize, end: usize) -> Option<usize> {
    let mut in_code = false;
    let spaces = line.char_indices().filter(|&(_, it)| {
        in_code ^= it == '`';
        it == ' ' && !in_code
    });
    spaces.map(|(at, _)| at).filter(|at| (begin..end).contains(at)).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_long_words_stay_whole() {
        let page = TerminalLayout { width: 12, colours: false };
        assert_eq!(page.wrap("one two three four", 2), "one two\n  three four");
        assert_eq!(page.wrap("a unbreakable-command b", 2), "a\n  unbreakable-command\n  b");
        assert_eq!(page.wrap("", 2), "");
        assert_eq!(page.wrap("ten µs now", 2), "ten µs now");
    }

    #[test]
    fn an_error_is_folded_below_its_text_and_a_command_stays_whole() {
        let long = format!(
            "corehop: {}`corehop check SET.json -o PLACED.json` assigns\nthe rest",
            "many words ".repeat(7)
        );
        let page = TerminalLayout { width: 100, colours: false };
        let folded = page.headed(&long);
        let lines: Vec<&str> = folded.lines().collect();
        assert_eq!(lines[0], format!("corehop: {}", "many words ".repeat(7)).trim_end());
        assert_eq!(lines[1], "         `corehop check SET.json -o PLACED.json` assigns");
        assert_eq!(lines[2..], ["         the rest"]);
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_further_in_and_commands_stay_whole() {
        let page = TerminalLayout { width: 12, colours: false };
        assert_eq!(page.fold("name     1   22\nshort\n"), "name     1\n  22\nshort\n");
        assert_eq!(page.fold("  abcdef abcdef"), "  abcdef\n    abcdef");
        assert_eq!(page.fold("  corehop report a file"), "  corehop report a file");
        assert_eq!(page.fold("an-unbreakable-word"), "an-unbreakable-word");
        assert_eq!(page.fold("abcdefghijkl mn"), "abcdefghijkl\n  mn");
        assert_eq!(page.fold("try `a b c d` then"), "try\n  `a b c d`\n  then");
    }
}
