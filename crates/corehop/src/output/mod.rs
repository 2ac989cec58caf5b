// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a verb: the one way of text to stdout and to stderr.
//!
//! Names of threads, programs and files are in both, and any user may choose such a name. So control characters are shown,
//! and the terminal obeys none but the colours of [`TerminalLayout::paint`] and of clap. What cannot be written to stderr is lost, and
//! nothing else is: the verb goes on, and its exit code is the same.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use corehop_plan::shown;
use indicatif::ProgressBar;

pub(crate) mod answer;

pub(crate) use answer::{AnswerBody, answer, either, told};
pub(crate) use corehop_app::file::{self, OutputFile};
pub(crate) use corehop_app::words::counted;

use corehop_report::table::wrapped;

use corehop_app::failure::{Exit, Failure};

/// Whether nothing but errors is wanted on stderr.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether `--quiet` was given: from now on stderr has nothing but errors.
pub(crate) fn quiet(is_wanted: bool) {
    QUIET.store(is_wanted, Ordering::Relaxed);
}

/// Whether stderr is to have nothing but errors.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The option of every verb that writes files.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Force {
    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

impl From<Force> for bool {
    fn from(Force { force }: Force) -> Self {
        force
    }
}

/// Says an error with its causes, and gives its code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    say_headed(&format!("corehop: {}", failure.sentence()));
    failure.code().into()
}

/// A spinner for a person who waits; hidden with `--quiet`, and where stderr is no terminal.
pub(crate) fn spinner() -> ProgressBar {
    if is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
}

/// Whether a person reads standard output.
fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether a person reads standard error.
fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Says `text` that is no error on stderr. Where stderr takes no text, the text is lost.
pub(crate) fn say(text: &str) {
    if !is_quiet() {
        say_always(text);
    }
}

/// Says `text` on stderr.
fn say_always(text: &str) {
    let _lost = std::io::stderr().write_all(visible(text).as_bytes());
}

/// Says on stderr a line that is no error.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say_headed(&format!("note: {text}"));
    }
}

/// Says an error, `head: text`, on stderr: in lines that fit for a person, in one line for a log, where it can be searched.
pub(crate) fn say_headed(text: &str) {
    let text = if stderr_is_terminal() { folded(text) } else { format!("{text}\n") };
    say_always(&text);
}

/// `head: text` in lines that fit; the lines after the first of each paragraph begin below the text.
fn folded(text: &str) -> String {
    let head = text.split_once(": ").map_or(0, |(head, _)| head.chars().count() + 2);
    let page = TerminalLayout { width: width().clamp(WIDTHS.0, WIDTHS.1), colours: false };
    let paragraph = |(number, line): (usize, &str)| {
        let indent = " ".repeat(if number > 0 { head } else { 0 });
        format!("{indent}{}\n", page.wrap(line, head))
    };
    text.lines().enumerate().map(paragraph).collect()
}

/// Shows the messages of panics like all text: a message can hold a name.
pub(crate) fn show_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string();
        match shown::lines(&text) {
            Cow::Borrowed(_) => usual(panic),
            Cow::Owned(text) => say_always(&format!("{text}\n")),
        }
    }));
}

/// The beginning of an escape sequence of corehop's own. Nothing from outside can hold its number, which is random.
static OWN_ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("\x1b[{:016x};", RandomState::new().hash_one(())));

/// `text` for a terminal: its own colours, and escapes for all other control characters.
fn visible(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(OWN_ESCAPE.as_str());
    let first = shown::lines(parts.next().unwrap_or_default());
    parts.fold(first, |before, part| {
        let (colour, rest) = part.split_once('m').unwrap_or(("0", part));
        format!("{before}\x1b[{colour}m{}", shown::lines(rest)).into()
    })
}

/// The text of clap, a help or an error, on the stream that it belongs to. An error repeats `words`, and has no colours if
/// these could be taken for some.
pub(crate) fn of_clap(error: &clap::Error, words: &[std::ffi::OsString]) -> Result<Exit, Failure> {
    let plain = words.iter().any(|word| word.as_encoded_bytes().contains(&0x1b));
    let is_terminal = if error.use_stderr() { stderr_is_terminal() } else { stdout_is_terminal() };
    let text = if plain || !(is_terminal && wants_colours()) {
        error.render().to_string()
    } else {
        error.render().ansi().to_string().replace("\x1b[", &OWN_ESCAPE)
    };
    if error.use_stderr() {
        say_always(&text);
        return Ok(Exit::Usage);
    }
    print(&text).map(|()| Exit::Done)
}

/// Prints `text`. A reader that has seen enough and went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()) {
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
pub(crate) struct TerminalLayout {
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

/// Whether a terminal is to show colours.
fn wants_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && !set("NO_COLOR")
}

/// Shorter lines cannot be set, longer ones are hard to read.
const WIDTHS: (usize, usize) = (40, 100);

impl TerminalLayout {
    /// The page that stdout is. No colours where it is not a terminal, where `NO_COLOR` is set
    /// (no-color.org), and on a terminal that calls itself dumb.
    pub(crate) fn of_stdout() -> Self {
        let colours = stdout_is_terminal() && wants_colours();
        Self { width: width().clamp(WIDTHS.0, WIDTHS.1), colours }
    }

    /// `text` in a colour, where colours are wanted.
    pub(crate) fn paint(self, text: &str, paint: Paint) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let own = OWN_ESCAPE.as_str();
        format!("{own}{}m{text}{own}0m", paint.code())
    }

    /// `text` in lines of at most the width, where no colours are: a line that is too long goes on below, further in. A line
    /// with a command to copy stays whole.
    pub(crate) fn fold(self, text: &str) -> String {
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
    pub(crate) fn wrap(self, text: &str, indent: usize) -> String {
        let room = self.width.saturating_sub(indent).max(1);
        let lines = wrapped(text, room);
        lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent)))
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
        let folded = folded(&long);
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

    #[test]
    fn without_colours_paint_leaves_no_trace() {
        let plain = TerminalLayout { width: 80, colours: false };
        assert_eq!(plain.paint("x", Paint::Red), "x");
        let coloured = TerminalLayout { colours: true, ..plain };
        assert_eq!(visible(&coloured.paint("x", Paint::Red)), "\x1b[1;31mx\x1b[0m");
    }

    #[test]
    fn a_name_paints_nothing_and_what_is_painted_around_it_stays() {
        let page = TerminalLayout { width: 80, colours: true };
        let name = "\x1b[1;31mx\x1b]0;owned\x07\u{9b}2J\u{202e}";
        let painted = page.paint(name, Paint::Bold);
        let shown = r"\x1b[1;31mx\x1b]0;owned\x07\u009b2J\u202e";
        assert_eq!(
            visible(&format!("{name}\n{painted}\n")),
            format!("{shown}\n\x1b[1m{shown}\x1b[0m\n")
        );
        assert_eq!(visible("own lines\n\tstay\n"), "own lines\n\tstay\n");
    }
}
