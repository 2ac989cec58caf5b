// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop help`

mod shells;

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use corehop_linux::preflight;
use corehop_plan::platform::Platform;
use corehop_plan::workload::set_file::FIELDS;
use corehop_report::glossary::{GlossaryEntry, entries, look_up, nearest};
use corehop_sched::{Test, all as all_tests};

use serde_json::{Value, json};

use crate::output::{Force, Paint, TerminalLayout, either, stdout_layout};
use corehop_app::failure::{Exit, Failure, refuse};

/// Explain a term: print the help of a verb, or the meaning of any other term. If a term is a verb and has another
/// meaning, that meaning comes first.
///
/// Type the term as it appears in a file, a table, a report or a message.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("of").args(["words", "man", "completions"]))]
pub(crate) struct Args {
    /// The term to explain; several words form one term, or name a mode of a verb
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Write one man page for each command to this folder, for example `/usr/local/share/man/man1`
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
    /// Print the command-line completions for this shell, for example for `/etc/bash_completion.d/corehop`
    #[arg(long, value_name = "SHELL")]
    completions: Option<Shell>,
    #[command(flatten)]
    force: Force,
    /// Print each meaning of the term, or the written files, as JSON
    #[arg(long, conflicts_with = "completions")]
    json: bool,
}

/// The exit codes with their meanings, by number.
const CODES: [(Exit, &str); 7] = [
    (Exit::Done, "The command succeeded; if it answers a question, the answer is yes."),
    (
        Exit::No,
        "The command ran, but the answer is no or unknown: unschedulable, not measured, not stored.",
    ),
    (Exit::Usage, "The command line is invalid, or names a file that does not exist."),
    (
        Exit::NotPossible,
        "The command is not possible on this host; the message names the missing privilege or feature, and how to get it.",
    ),
    (Exit::Damaged, "An input file is damaged, has a later version, or is of the wrong kind."),
    (
        Exit::Failed,
        "The host failed midway (a full disk, a CPU taken offline); the recorded data is kept.",
    ),
    (
        Exit::Interrupted,
        "A signal (SIGINT, SIGTERM, SIGHUP) interrupted the command; the recorded data is kept.",
    ),
];

pub(crate) fn run(args: &Args, command: Command) -> Result<Exit, Failure> {
    let files = args.man.is_some();
    refuse("no file is written", &[("--force", args.force.force && !files)])?;
    if let Some(shell) = args.completions {
        return shells::completions(shell, command);
    }
    if let Some(folder) = &args.man {
        return shells::manual(folder, args.force, args.json, command);
    }
    if args.words.is_empty() {
        let text = help(&mut command.clone());
        let json = args.json.then(|| meanings(&commands(&command)));
        return either("`corehop VERB --help` lists the options of a verb; `corehop help WORD` explains a term.", json.as_ref(), || text).map(|()| Exit::Done);
    }
    explain(args, &command)
}

/// The help of a command for a terminal.
fn help(command: &mut Command) -> String {
    command.render_help().to_string()
}

/// Explains a word.
fn explain(args: &Args, command: &Command) -> Result<Exit, Failure> {
    let word = args.words.join(" ");
    let mut known = all();
    known.extend(commands(command));
    let found = look_up(&known, &word);
    let verb = named(command, &args.words);
    if found.is_empty() && verb.is_none() {
        let near = nearest(&known, &word).join(", ");
        let hint = match near.as_str() {
            "" => "docs/reference lists the terms, and `corehop --help` the verbs".to_owned(),
            near => format!("the nearest are {near}"),
        };
        let sentence = format!("unknown term `{word}`: {hint}");
        return Err(Failure::says(Exit::Usage, sentence));
    }
    let page = stdout_layout();
    let mut text: String = found.iter().map(|entry| paragraph(entry, page)).collect();
    let mut kinds: Vec<&str> = found.iter().map(|entry| entry.kind.as_str()).collect();
    if let Some(mut verb) = verb {
        if found.is_empty() {
            kinds.push("a command");
        }
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(&help(&mut verb));
    }
    let json = args.json.then(|| json!({ "word": word, "meanings": meanings(found) }));
    either(&format!("`{word}` is {}.", listed(&kinds)), json.as_ref(), || text)?;
    Ok(Exit::Done)
}

/// Glossary entries as JSON.
fn meanings<'a>(entries: impl IntoIterator<Item = &'a GlossaryEntry>) -> Value {
    let entry =
        |it: &GlossaryEntry| json!({ "word": it.word, "kind": it.kind, "meaning": it.meaning });
    entries.into_iter().map(entry).collect()
}

/// The command that these words name, below `command`.
fn named(command: &Command, words: &[String]) -> Option<Command> {
    let mut whole = command.clone();
    whole.build();
    let last = words.iter().try_fold(&whole, |at, word| at.find_subcommand(word))?;
    Some(last.clone())
}

/// All entries that `corehop help` can explain: the glossary, the doctor's concerns, the schedulability tests, and
/// the exit codes.
fn all() -> Vec<GlossaryEntry> {
    let mut all = entries();
    all.extend(
        preflight::reasons()
            .map(|(id, why)| GlossaryEntry::new(id, "a finding of the doctor", why)),
    );
    all.extend(
        all_tests()
            .map(|test| GlossaryEntry::new(test.name, "a schedulability test", &meaning(test))),
    );
    all.extend(Platform::names().map(|name| {
        let meaning = format!(
            "A machine that `corehop sim platform {name}` describes and `--on {name}` simulates."
        );
        GlossaryEntry::new(name, "a built-in platform", &meaning)
    }));
    all.extend(
        FIELDS.map(|(name, meaning)| GlossaryEntry::new(name, "a field of a task set", meaning)),
    );
    all.extend(CODES.map(|(code, meaning)| {
        GlossaryEntry::new(&code.code().to_string(), "an exit code", meaning)
    }));
    all
}

/// The verbs, the experiments of `measure`, and their options.
fn commands(command: &Command) -> Vec<GlossaryEntry> {
    let mut all = Vec::new();
    let mut options: Vec<GlossaryEntry> = Vec::new();
    for verb in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        all.push(of_command(verb, "a verb", "corehop"));
        options.extend(of_options(verb, "corehop"));
        for inner in verb.get_subcommands() {
            let above = format!("corehop {}", verb.get_name());
            let what = if verb.get_name() == "measure" { "an experiment" } else { "a mode" };
            all.push(of_command(inner, &format!("{what} of `{above}`"), &above));
            options.extend(of_options(inner, &above));
        }
    }
    for option in options {
        let is_known = |it: &GlossaryEntry| it.word == option.word && it.meaning == option.meaning;
        if !all.iter().any(is_known) {
            all.push(option);
        }
    }
    all
}

fn of_command(command: &Command, kind: &str, above: &str) -> GlossaryEntry {
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let dot = if about.ends_with('.') { "" } else { "." };
    GlossaryEntry::new(
        name,
        kind,
        &format!("{about}{dot} `{above} {name} --help` lists its options."),
    )
}

fn of_options(command: &Command, above: &str) -> Vec<GlossaryEntry> {
    let kind = format!("an option of `{above} {}`", command.get_name());
    let option = |it: &clap::Arg| {
        let help = it.get_long_help().or(it.get_help())?.to_string();
        Some(GlossaryEntry::new(it.get_long()?, &kind, &help))
    };
    command.get_arguments().filter_map(option).collect()
}

/// Joins the kinds of a term to a clause such as `a column and a heading`.
fn listed(kinds: &[&str]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    kinds.iter().filter(|kind| !kind.is_empty()).for_each(|kind| {
        if !distinct.contains(kind) {
            distinct.push(kind);
        }
    });
    match distinct.as_slice() {
        [several @ .., last] if !several.is_empty() => format!("{} and {last}", several.join(", ")),
        _ => distinct.concat(),
    }
}

/// The description of a schedulability test: its question, kind and source.
fn meaning(test: &Test) -> String {
    let kind = test.kind.meaning();
    format!(
        "A test for {}: {}. The test is {kind}. Source: {}.",
        test.scheduler, test.title, test.citation
    )
}

fn paragraph(entry: &GlossaryEntry, page: TerminalLayout) -> String {
    let head = format!("{} ({})", page.paint(&entry.word, Paint::Bold), entry.kind);
    let meaning = page.wrap(&entry.meaning, 4);
    format!("{head}\n    {meaning}\n")
}
