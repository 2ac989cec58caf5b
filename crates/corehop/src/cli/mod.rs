// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: dispatches to the verbs, each of which has its own file in `cmd`.

mod words;

pub(crate) use words::words;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser, Subcommand};
use corehop_plan::words::edit_distance;

use crate::cmd;
use crate::output;
use corehop_app::failure::{Exit, Failure};

/// Measure the cost of preemptions and migrations, and compute their effect on a schedule.
///
/// corehop writes data to files and progress to stderr. With --json, corehop prints one machine-readable answer on
/// stdout. The exit codes are 0 (done), 1 (the answer is no or unknown), 2 (wrong usage), 3 (not possible on this
/// host), 4 (damaged input), 6 (the host failed midway) and 130 (interrupted). `corehop help exit-codes` explains the
/// exit codes.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    /// Print only errors on stderr, without progress, notes and answers
    #[arg(id = QUIET, short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// The option that every verb and mode accepts.
pub(crate) const QUIET: &str = "quiet";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check this host for obstacles to a measurement, and print how to remove the obstacles.
    Doctor(cmd::doctor::Args),
    /// Measure the cost of preemptions and migrations, and the causes of the cost.
    Measure(Box<cmd::measure::Args>),
    /// Record a program's preemptions and migrations, the preempting threads, and the cost of these events.
    Record(Box<cmd::record::Args>),
    /// Summarise results as a table and a page, or list the contents of a file.
    Report(cmd::report::Args),
    /// Compare two results of measurements cell by cell.
    Compare(cmd::compare::Args),
    /// Advise a scheduler whether a preempted job should stay or move, to which CPU, and at what cost. Fit cost
    /// models, and predict costs.
    Advise(cmd::advise::Args),
    /// Test whether a task set meets its deadlines, and list the assumptions of the test. Compare schedulers on
    /// random task sets.
    Check(Box<cmd::check::Args>),
    Place(Box<cmd::place::Args>),
    Try(cmd::try_::Args),
    /// Run a program, execute its system calls on other cores, and print the effect.
    Offload(cmd::offload::Args),
    /// Describe and calibrate simulated machines, and report the error of the simulation against published results.
    Sim(cmd::sim::Args),
    /// Convert task sets and cost tables to and from the formats of other programs.
    Convert(cmd::convert::Args),
    /// Explain a term: a verb, an option, a column, a cause, a finding, an exit code.
    Help(cmd::help::Args),
}

/// Runs a command line. For an unknown verb, mode or experiment, the error names the nearest known word and lists
/// all of them.
pub(crate) fn answer(words: &[OsString]) -> Result<Exit, Failure> {
    match Cli::try_parse_from(words) {
        Ok(cli) => run(cli),
        Err(error) => match unknown(&error, words) {
            Some(what) => Err(Failure::says(Exit::Usage, what)),
            None => output::of_clap(&error, words),
        },
    }
}

/// The error message for an unknown verb, mode or experiment; None for other errors.
fn unknown(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let ContextValue::String(typed) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let all = Cli::command();
    let (mut of, mut path) = (&all, String::new());
    for word in words.iter().skip(1).take_while(|word| *word != typed.as_str()) {
        let Some(below) = of.find_subcommand(word) else { continue };
        path = format!("{path} {}", below.get_name());
        of = below;
    }
    let what = match path.trim() {
        "" => "verb",
        "measure" => "experiment",
        "convert" => "form",
        _ => "mode",
    };
    let names: Vec<&str> = of.get_subcommands().map(Command::get_name).collect();
    let nearest = names.iter().min_by_key(|name| edit_distance(typed, name));
    Some(format!(
        "unknown {what} `{typed}`; the nearest is `{}`. The {what}s are: {}. `corehop{path} --help` describes each {what}",
        nearest.unwrap_or(&""),
        names.join(", ")
    ))
}

/// Runs the verb that was typed.
fn run(cli: Cli) -> Result<Exit, Failure> {
    output::quiet(cli.quiet);
    match cli.verb {
        Verb::Doctor(args) => cmd::doctor::run(&args),
        Verb::Measure(args) => cmd::measure::run(&args),
        Verb::Record(args) => cmd::record::run(&args),
        Verb::Report(args) => cmd::report::run(&args),
        Verb::Compare(args) => cmd::compare::run(&args),
        Verb::Advise(args) => cmd::advise::run(&args),
        Verb::Check(args) => cmd::check::run(&args),
        Verb::Place(args) => cmd::place::run(&args),
        Verb::Try(args) => cmd::try_::run(&args),
        Verb::Offload(args) => cmd::offload::run(&args),
        Verb::Sim(args) => cmd::sim::run(&args),
        Verb::Convert(args) => cmd::convert::run(&args),
        Verb::Help(args) => cmd::help::run(&args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mode = said("corehop sim valdate").unwrap();
        assert!(mode.contains("unknown mode `valdate`; the nearest is `validate`"), "{mode}");
        assert!(mode.contains("calibrate") && !mode.contains("doctor"), "{mode}");
        let form = said("corehop convert set.json").unwrap();
        assert!(
            form.contains("The forms are: tasks, rt-app")
                && form.contains("corehop convert --help")
        );
        let verb = said("corehop mesure").unwrap();
        assert!(verb.contains("nearest is `measure`") && verb.contains("doctor"), "{verb}");
        assert_eq!(said("corehop measure synthetic --nonsense"), None);
    }

    #[test]
    fn no_verb_has_two_options_of_one_name() {
        Cli::command().debug_assert();
    }
}
