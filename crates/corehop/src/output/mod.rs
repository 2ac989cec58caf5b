// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a verb: the one way of text to stdout and to stderr.
//!
//! Names of threads, programs and files are in both, and any user may choose such a name. So control characters are shown,
//! and the terminal obeys none but the colours of [`TerminalLayout::paint`] and of clap. What cannot be written to stderr is lost, and
//! nothing else is: the verb goes on, and its exit code is the same.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use corehop_plan::shown;
use indicatif::ProgressBar;

pub(crate) mod answer;

pub(crate) use answer::{AnswerBody, answer, either, told};
pub(crate) use corehop_app::file::{self, OutputFile};
pub(crate) use corehop_app::layout::{Paint, TerminalLayout};
pub(crate) use corehop_app::words::counted;

use corehop_app::failure::{Exit, Failure};
use corehop_app::layout::own_escape;

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

/// Says on stderr a warning, which is no error, as it is.
pub(crate) fn warn(text: &str) {
    say(&format!("corehop: {text}\n"));
}

/// Says an error, `head: text`, on stderr: in lines that fit for a person, in one line for a log, where it can be searched.
pub(crate) fn say_headed(text: &str) {
    let layout = TerminalLayout::new(width(), false);
    let text = if stderr_is_terminal() { layout.headed(text) } else { format!("{text}\n") };
    say_always(&text);
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

/// `text` for a terminal: its own colours, and escapes for all other control characters.
fn visible(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(own_escape());
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
        error.render().ansi().to_string().replace("\x1b[", own_escape())
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

/// Whether a terminal is to show colours.
fn wants_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && !set("NO_COLOR")
}

/// The layout of what stdout is. No colours where it is not a terminal, where `NO_COLOR` is set
/// (no-color.org), and on a terminal that calls itself dumb.
pub(crate) fn stdout_layout() -> TerminalLayout {
    TerminalLayout::new(width(), stdout_is_terminal() && wants_colours())
}

#[cfg(test)]
mod tests {
    use super::*;

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
