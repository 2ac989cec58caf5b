// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs, one file each in `cmd`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser, Subcommand};
use corehop_plan::words::edit_distance;

use crate::cmd;
use crate::exit::{Exit, Failure};
use crate::output;

/// Measure what preemptions and migrations cost, and compute what they do to a schedule.
///
/// Data goes to files and progress to stderr. With --json one machine-readable answer goes to stdout.
/// Exit codes: 0 done, 1 the answer is no or unknown, 2 usage, 3 not possible on this host, 4 damaged
/// input, 6 the host failed midway, 130 interrupted. `corehop explain exit-codes` explains them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Advise a scheduler: stay or move, to which CPU, at what cost.
    Advise(cmd::advise::Args),
    /// Compare two results cell by cell.
    Compare(cmd::compare::Args),
    /// Test whether a task set meets its deadlines, and list the assumptions.
    Check(cmd::check::Args),
    /// Check what this host allows, what would spoil a measurement, and how to fix it.
    Doctor(cmd::doctor::Args),
    /// Measure what preemptions and migrations cost, and why.
    Measure(Box<cmd::measure::Args>),
    /// Run a program whose system calls are made on other cores, and say what that brought.
    Offload(cmd::offload::Args),
    Place(cmd::place::Args),
    /// Rerun published experiments on the simulated machine, and report its error.
    Validate(cmd::validate::Args),
    /// Draw random task sets, and count how many each scheduler can schedule as delays grow.
    Study(cmd::study::Args),
    /// Describe a machine: CPUs, caches, their sharing, and what cannot be measured on it.
    Platform(cmd::platform::Args),
    /// Fit a cost model to samples, and report its error.
    Fit(cmd::fit::Args),
    /// Predict the cost of a preemption or migration at a size and a length, with interval.
    Predict(cmd::predict::Args),
    /// Summarise samples as a table and a page.
    Report(cmd::report::Args),
    /// Convert task sets and cost tables to and from the formats of other programs.
    Convert(cmd::convert::Args),
    /// Show what a corehop file contains.
    Show(cmd::show::Args),
    /// Print the completions of a shell: bash, elvish, fish, powershell, zsh.
    Completions(cmd::completions::Completions),
    /// Write man pages, one for each command, into a folder.
    Manual(cmd::completions::Manual),
    /// Explain a term: a column, a cause, a finding, an exit code.
    Explain(cmd::explain::Args),
}

/// Translates old command lines: recording a program was once part of `measure schedule-sensitive`.
pub(crate) fn words(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = typed.collect();
    let recorded = |word: &OsString| {
        let word = word.to_string_lossy();
        let option = word.split('=').next().unwrap_or_default();
        ["--", "--pid", "--cgroup"].contains(&option)
    };
    let asked = words.get(1).is_some_and(|verb| verb == "measure")
        && words.get(2).is_some_and(|what| what == "schedule-sensitive");
    if asked && words.iter().skip(3).any(recorded) {
        words[2] = "program".into();
    }
    words
}

/// Runs a command line. An unknown verb or experiment is answered with the nearest one and the list.
pub(crate) fn answer(words: &[OsString]) -> Result<Exit, Failure> {
    match Cli::try_parse_from(words) {
        Ok(cli) => run(cli),
        Err(error) => match unknown(&error, words) {
            Some(what) => Err(Failure::says(Exit::Usage, what)),
            None => output::of_clap(&error, words),
        },
    }
}

/// The answer to an unknown verb or experiment; None for other errors.
fn unknown(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let all = Cli::command();
    let measure = words.get(1).filter(|verb| *verb == "measure" && typed.as_str() != "measure");
    let experiments = measure.and_then(|_| all.find_subcommand("measure"));
    let (what, plural, help, of) = match experiments {
        Some(measure) => ("experiment", "experiments", "corehop measure --help", measure),
        None => ("verb", "verbs", "corehop --help", &all),
    };
    (error.kind() == ErrorKind::InvalidSubcommand).then(|| {
        let names = names(of);
        let nearest = names.iter().min_by_key(|name| edit_distance(typed, name));
        format!(
            "unknown {what} `{typed}`; the nearest is `{}`. The {plural}: {}. `{help}` describes them",
            nearest.unwrap_or(&""),
            names.join(", ")
        )
    })
}

fn names(command: &Command) -> Vec<&str> {
    command.get_subcommands().map(Command::get_name).filter(|&name| name != "help").collect()
}

/// Runs the verb that was typed.
fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        Verb::Advise(args) => cmd::advise::run(&args),
        Verb::Compare(args) => cmd::compare::run(&args),
        Verb::Check(args) => cmd::check::run(&args),
        Verb::Doctor(args) => cmd::doctor::run(&args),
        Verb::Measure(args) => cmd::measure::run(&args),
        Verb::Offload(args) => cmd::offload::run(&args),
        Verb::Place(args) => cmd::place::run(&args),
        Verb::Validate(args) => cmd::validate::run(&args),
        Verb::Study(args) => cmd::study::run(&args),
        Verb::Platform(args) => cmd::platform::run(&args),
        Verb::Fit(args) => cmd::fit::run(&args),
        Verb::Predict(args) => cmd::predict::run(&args),
        Verb::Report(args) => cmd::report::run(&args),
        Verb::Convert(args) => cmd::convert::run(&args),
        Verb::Show(args) => cmd::show::run(&args),
        Verb::Completions(args) => cmd::completions::completions(&args, Cli::command()),
        Verb::Manual(args) => cmd::completions::manual(&args, Cli::command()),
        Verb::Explain(args) => cmd::explain::run(&args, &Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_a_program_may_be_typed_as_it_once_was() {
        let now = |typed: &str| {
            let typed = typed.split(' ').map(OsString::from);
            words(typed).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        for (typed, meant) in [
            ("corehop measure schedule-sensitive -- true", "corehop measure program -- true"),
            ("corehop measure schedule-sensitive --pid=7", "corehop measure program --pid=7"),
            (
                "corehop measure schedule-sensitive --tasks 4",
                "corehop measure schedule-sensitive --tasks 4",
            ),
            (
                "corehop measure program -- measure schedule-sensitive",
                "corehop measure program -- measure schedule-sensitive",
            ),
        ] {
            assert_eq!(now(typed), meant);
        }
    }

    #[test]
    fn an_unknown_experiment_or_verb_is_answered_with_the_nearest_and_the_list() {
        let said = |typed: &str| {
            let words: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(&words).err().unwrap();
            unknown(&error, &words)
        };
        let experiment = said("corehop measure acess-time").unwrap();
        assert!(experiment.contains("nearest is `access-time`"), "{experiment}");
        for name in ["synthetic", "polluter-sweep", "shared-data", "overheads"] {
            assert!(experiment.contains(name), "{experiment}");
        }
        let verb = said("corehop mesure").unwrap();
        assert!(verb.contains("nearest is `measure`") && verb.contains("doctor"), "{verb}");
        assert_eq!(said("corehop measure synthetic --nonsense"), None);
    }

    #[test]
    fn no_verb_has_two_options_of_one_name() {
        Cli::command().debug_assert();
    }
}
