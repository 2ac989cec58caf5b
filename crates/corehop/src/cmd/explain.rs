// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop explain`

use corehop_core::report::glossary::{Entry, entries, look_up, nearest};
use corehop_core::sched::{Test, all as all_tests};
use corehop_linux::preflight;

use crate::exit::{Exit, Failure};
use crate::output::{Page, Paint, print};

/// Explain a term: a term of the field, a column, a value, a finding, an exit code.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The term, as printed in a file, a table, a report or a message; several words form one term.
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

/// The exit codes, by number.
const CODES: [(Exit, &str); 7] = [
    (Exit::Done, "Done."),
    (Exit::No, "It ran, but the answer is no or unknown: unschedulable, not measured, not stored."),
    (Exit::Usage, "The command line is invalid, or names a file that does not exist."),
    (
        Exit::NotPossible,
        "Not possible on this host; the message names the missing privilege or feature, and how to get it.",
    ),
    (Exit::Damaged, "An input file is damaged, of a later version, or not of the kind expected."),
    (
        Exit::Failed,
        "The host failed midway (a full disk, a CPU taken offline); the recorded data is kept.",
    ),
    (Exit::Interrupted, "Interrupted (SIGINT, SIGTERM, SIGHUP); the recorded data is kept."),
];

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let word = args.words.join(" ");
    let known = all();
    let found = look_up(&known, &word);
    if found.is_empty() {
        let near = nearest(&known, &word).join(", ");
        let hint = match near.as_str() {
            "" => "docs/reference lists the terms, and `corehop --help` the verbs".to_owned(),
            near => format!("the nearest are {near}"),
        };
        let sentence = format!("unknown term `{word}`: {hint}");
        return Err(Failure::says(Exit::Usage, sentence));
    }
    let page = Page::of_stdout();
    let text: String = found.into_iter().map(|entry| paragraph(entry, page)).collect();
    print(&text)?;
    Ok(Exit::Done)
}

/// The glossary, the doctor's concerns, the schedulability tests, and the exit codes.
fn all() -> Vec<Entry> {
    let mut all = entries();
    all.extend(
        preflight::reasons().map(|(id, why)| Entry::new(id, "a finding of the doctor", why)),
    );
    all.extend(
        all_tests().map(|test| Entry::new(test.name, "a schedulability test", &meaning(test))),
    );
    all.extend(
        CODES.map(|(code, meaning)| Entry::new(&code.code().to_string(), "an exit code", meaning)),
    );
    all
}

/// The question of a test, its kind, and its source.
fn meaning(test: &Test) -> String {
    let kind = test.kind.meaning();
    format!("For {}: {}. It is {kind}. {}.", test.scheduler, test.title, test.citation)
}

fn paragraph(entry: &Entry, page: Page) -> String {
    let head = format!("{} ({})", page.paint(&entry.word, Paint::Bold), entry.kind);
    let meaning = page.wrap(&entry.meaning, 4);
    format!("{head}\n    {meaning}\n")
}
