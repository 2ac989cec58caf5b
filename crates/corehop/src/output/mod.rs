// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a verb on standard output.

use std::io::{ErrorKind, IsTerminal, Write};

pub(crate) mod file;

pub(crate) use file::{Force, OutputFile};

use crate::exit::{Exit, Failure};

/// Says something on stderr that is no error.
#[expect(clippy::print_stderr, reason = "stdout is the answer's, or the program's own")]
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// Prints `text`. A reader that has seen enough and went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, error).context("standard output"))
        }
        _ => Ok(()),
    }
}

/// The columns of the terminal; 100 where standard output is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// The layout of text for people: width and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    /// Columns.
    pub(crate) width: usize,
    /// Whether colours are wanted.
    pub(crate) colours: bool,
}

/// The colour of a piece of text (the parameter of ANSI's SGR sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Bold,
    Dim,
    Red,
    Yellow,
    Blue,
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

impl Page {
    /// The page that stdout is. No colours where it is not a terminal, where `NO_COLOR` is set
    /// (no-color.org), and on a terminal that calls itself dumb.
    pub(crate) fn of_stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_terminal = std::io::stdout().is_terminal();
        let colours = is_terminal && !dumb && !set("NO_COLOR");
        Self { width: width().clamp(WIDTHS.0, WIDTHS.1), colours }
    }

    /// `text` in a colour, where colours are wanted.
    pub(crate) fn paint(self, text: &str, paint: Paint) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", paint.code()) } else { text.to_owned() }
    }

    /// `text` broken into lines that fit beside `indent` columns; lines after the first begin with
    /// so many spaces. A word that is longer than a line stays whole.
    pub(crate) fn wrap(self, text: &str, indent: usize) -> String {
        let room = self.width.saturating_sub(indent).max(1);
        let (mut lines, mut line) = (Vec::new(), String::new());
        for word in text.split_whitespace() {
            let length = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && length > room {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        lines.join(&format!("\n{}", " ".repeat(indent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_long_words_stay_whole() {
        let page = Page { width: 12, colours: false };
        assert_eq!(page.wrap("one two three four", 2), "one two\n  three four");
        assert_eq!(page.wrap("a unbreakable-command b", 2), "a\n  unbreakable-command\n  b");
        assert_eq!(page.wrap("", 2), "");
        assert_eq!(page.wrap("ten µs now", 2), "ten µs now");
    }

    #[test]
    fn without_colours_paint_leaves_no_trace() {
        let plain = Page { width: 80, colours: false };
        assert_eq!(plain.paint("x", Paint::Red), "x");
        let coloured = Page { colours: true, ..plain };
        assert_eq!(coloured.paint("x", Paint::Red), "\x1b[1;31mx\x1b[0m");
    }
}
