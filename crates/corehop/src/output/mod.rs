// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a verb: all text for stdout and stderr passes through this module.
//!
//! Output contains names of threads, programs and files, which any user may choose. Control characters are
//! therefore made visible, so that the terminal receives no control sequences except the colours of
//! [`TerminalLayout::paint`] and of clap. Text that cannot be written to stderr is lost, without other effects: the
//! verb continues, and its exit code does not change.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use corehop_plan::shown;
use indicatif::{ProgressBar, ProgressDrawTarget};

pub(crate) mod answer;

pub(crate) use answer::{AnswerBody, answer, either, told};
pub(crate) use corehop_app::file::{self, OutputFile};
pub(crate) use corehop_app::layout::{Paint, TerminalLayout};
pub(crate) use corehop_app::words::counted;

use corehop_app::failure::{Exit, Failure};
use corehop_app::layout::own_escape;
use corehop_report::front::shell_word;

/// Whether only errors are printed on stderr.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Stores whether `--quiet` was given; if so, only errors are printed on stderr from now on.
pub(crate) fn quiet(is_wanted: bool) {
    QUIET.store(is_wanted, Ordering::Relaxed);
}

/// Whether only errors are to be printed on stderr.
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

/// The options of verbs that write files, each with whether a value follows.
const WRITES: [(&str, bool); 6] = [
    ("-o", true),
    ("--output", true),
    ("--page", true),
    ("--picture", true),
    ("--svg", true),
    ("--force", false),
];

/// Returns this command line as words for a shell: without the files that it writes, and with `--json`.
pub(crate) fn repeated() -> String {
    let words = std::env::args_os().skip(1);
    without_files(words.map(|word| word.to_string_lossy().into_owned()))
}

fn without_files(words: impl IntoIterator<Item = String>) -> String {
    let (mut kept, mut is_value) = (vec!["corehop".to_owned()], false);
    for word in words {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        match WRITES.iter().find(|(option, _)| *option == name) {
            Some((_, takes_value)) => is_value = *takes_value && name == word,
            None if word.starts_with("-o") => {}
            None if word != "--json" => kept.push(shell_word(&word)),
            None => {}
        }
    }
    kept.push("--json".to_owned());
    kept.join(" ")
}

/// Prints an error with its causes, and returns its exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    say_headed(&format!("corehop: {}", failure.sentence()));
    failure.code().into()
}

/// The largest number of times per second that corehop draws bars, as indicatif does on stderr.
const BAR_HZ: u8 = 20;

/// The flag O_NOCTTY, which prevents an opened terminal from becoming the controlling terminal of this process.
const NO_CONTROL: i32 = 0o400;

/// The environment variable with the number of an open file, which is the terminal of the program that started corehop
/// and reads its stderr.
const BAR_FD: &str = "COREHOP_BAR_FD";

/// Returns the terminal for progress bars: stderr, or the terminal that the starting program hands over. Returns `None`
/// with `--quiet`, or if neither file is a terminal.
pub(crate) fn bars() -> Option<ProgressDrawTarget> {
    if is_quiet() {
        return None;
    }
    let Some(handed) = std::env::var_os(BAR_FD) else {
        return stderr_is_terminal().then(ProgressDrawTarget::stderr);
    };
    let number: u32 = handed.to_str()?.parse().ok()?;
    let path = format!("/proc/self/fd/{number}");
    let open = || {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(NO_CONTROL).open(&path).ok()
    };
    let (input, output) = (open()?, open()?);
    let is_terminal = output.is_terminal();
    is_terminal.then(|| ProgressDrawTarget::term(Term::read_write_pair(input, output), BAR_HZ))
}

/// A spinner for a person who waits; hidden without a terminal for bars.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(bars().unwrap_or_else(ProgressDrawTarget::hidden));
    bar
}

/// Whether a person reads standard output.
fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether a person reads standard error.
fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints `text`, which is not an error, on stderr. If stderr cannot be written, the text is lost.
pub(crate) fn say(text: &str) {
    if !is_quiet() {
        say_always(text);
    }
}

/// Prints `text` on stderr, even with `--quiet`.
fn say_always(text: &str) {
    let _lost = std::io::stderr().write_all(visible(text).as_bytes());
}

/// Prints a line that is not an error on stderr.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say_headed(&format!("note: {text}"));
    }
}

/// Prints a warning on stderr without changing its text.
pub(crate) fn warn(text: &str) {
    say(&format!("corehop: {text}\n"));
}

/// Prints an error, `head: text`, on stderr: wrapped on a terminal, in a single line in a log, so that a search
/// finds it.
pub(crate) fn say_headed(text: &str) {
    let layout = TerminalLayout::new(width(), false);
    let text = if stderr_is_terminal() { layout.headed(text) } else { format!("{text}\n") };
    say_always(&text);
}

/// Escapes the messages of panics like all other text, because a message can contain a name.
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

/// Prepares `text` for a terminal: keeps corehop's own colours, and escapes all other control characters.
fn visible(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(own_escape());
    let first = shown::lines(parts.next().unwrap_or_default());
    parts.fold(first, |before, part| {
        let (colour, rest) = part.split_once('m').unwrap_or(("0", part));
        format!("{before}\x1b[{colour}m{}", shown::lines(rest)).into()
    })
}

/// Prints a help text or an error of clap on the proper stream. An error repeats `words`; the error has no colours
/// if `words` could be mistaken for colour codes.
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

/// Prints `text`. A reader that closes the pipe early (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, error).context("standard output"))
        }
        _ => Ok(()),
    }
}

/// The width of the terminal in columns; 100 if stdout is not a terminal.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Whether to use colours on a terminal.
fn wants_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && !set("NO_COLOR")
}

/// The text layout that suits stdout. Colours are off if stdout is not a terminal, if `NO_COLOR` is set
/// (no-color.org), and on a terminal of type `dumb`.
pub(crate) fn stdout_layout() -> TerminalLayout {
    TerminalLayout::new(width(), stdout_is_terminal() && wants_colours())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_repeated_without_the_files_that_it_writes() {
        let of = |line: &str| without_files(line.split(' ').map(str::to_owned));
        let line = "compare a b -o p.html --margin 20% --output=q.html --force --json -or.html";
        assert_eq!(of(line), "corehop compare a b --margin '20%' --json");
        assert_eq!(of("advise m.json"), "corehop advise m.json --json");
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
