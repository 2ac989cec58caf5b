// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of text for people: lines of a width, and colours where they are wanted.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use corehop_report::table::wrapped;

/// The beginning of an escape sequence of corehop's own. Nothing from outside can hold its number, which is random.
static OWN_ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("\x1b[{:016x};", RandomState::new().hash_one(())));

/// The beginning of an escape sequence of corehop's own, for who brings its text to a terminal.
pub fn own_escape() -> &'static str {
    OWN_ESCAPE.as_str()
}

/// The layout of text for people: width and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalLayout {
    /// Columns.
    pub width: usize,
    /// Whether colours are wanted.
    pub colours: bool,
}

/// The colour of a piece of text (the parameter of ANSI's SGR sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Names.
    Bold,
    /// Labels.
    Dim,
    /// A no, an obstacle.
    Red,
    /// An unknown, a warning.
    Yellow,
    /// A note.
    Blue,
    /// A yes.
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

/// Shorter lines cannot be set, longer ones are hard to read.
const WIDTHS: (usize, usize) = (40, 100);

impl TerminalLayout {
    /// The layout for a terminal of so many columns.
    pub fn new(columns: usize, colours: bool) -> Self {
        Self { width: columns.clamp(WIDTHS.0, WIDTHS.1), colours }
    }

    /// `text` in a colour, where colours are wanted.
    pub fn paint(self, text: &str, paint: Paint) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let own = own_escape();
        format!("{own}{}m{text}{own}0m", paint.code())
    }

    /// `text` in lines of at most the width, where no colours are: a line that is too long goes on below, further in. A line
    /// with a command to copy stays whole.
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

    /// A line broken at spaces, with the columns of a table as they are.
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

    /// `text` broken into lines that fit beside `indent` columns; lines after the first begin with
    /// so many spaces. A word that is longer than a line stays whole.
    pub fn wrap(self, text: &str, indent: usize) -> String {
        let room = self.width.saturating_sub(indent).max(1);
        let lines = wrapped(text, room);
        lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent)))
    }

    /// `head: text` in lines that fit; the lines after the first of each paragraph begin below the text.
    pub fn headed(self, text: &str) -> String {
        let head = text.split_once(": ").map_or(0, |(head, _)| head.chars().count() + 2);
        let paragraph = |(number, line): (usize, &str)| {
            let indent = " ".repeat(if number > 0 { head } else { 0 });
            format!("{indent}{}\n", self.wrap(line, head))
        };
        text.lines().enumerate().map(paragraph).collect()
    }
}

/// The last space in this part of a line that is not within backticks: a command to copy stays whole.
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
