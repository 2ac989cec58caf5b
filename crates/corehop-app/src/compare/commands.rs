// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares commands that hyperfine timed: the two commands of one export, or the commands of two exports by name.

use std::path::Path;

use corehop_decide::comparison::Quantities;
use corehop_decide::hyperfine::HyperfineCommand;
use corehop_plan::shown;
use corehop_stats::estimator::Estimator;

use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::input;

/// The two commands of one export as two results; `None` if the file is not a hyperfine export.
pub(super) fn of_one_export(path: &Path) -> Result<Option<[Quantities; 2]>, Failure> {
    let Some(commands) = input::timed_commands(path)? else { return Ok(None) };
    let [a, b] = commands.as_slice() else {
        let names: Vec<String> = commands.iter().map(|it| format!("`{}`", it.command)).collect();
        let what = format!(
            "{} has times of {} commands, {}: compare two exports, or an export with two commands",
            shown::path(path),
            names.len(),
            names.join(", ")
        );
        return Err(Failure::says(Exit::Usage, what));
    };
    Ok(Some(one_by_one(path, path, a, b)))
}

/// Two exports of one command each as two results, whatever the commands are; `None` for other exports, whose
/// commands are compared by name.
pub(super) fn of_two_exports(a: &Path, b: &Path) -> Result<Option<[Quantities; 2]>, Failure> {
    let commands = (input::timed_commands(a)?, input::timed_commands(b)?);
    let (Some(of_a), Some(of_b)) = commands else { return Ok(None) };
    match (of_a.as_slice(), of_b.as_slice()) {
        ([one], [other]) => Ok(Some(one_by_one(a, b, one, other))),
        _ => Ok(None),
    }
}

/// Two commands as two results with one cell, named after both if the names differ.
fn one_by_one(
    a: &Path,
    b: &Path,
    one: &HyperfineCommand,
    other: &HyperfineCommand,
) -> [Quantities; 2] {
    let name = if one.command == other.command {
        one.command.clone()
    } else {
        format!("{} -> {}", one.command, other.command)
    };
    [(a, one), (b, other)].map(|(path, command)| {
        let mut of = Quantities::new(Estimator::Difference);
        take(&mut of, path, command, &name);
        of
    })
}

/// Adds all commands of an export by their names.
pub(super) fn take_all(results: &mut Quantities, path: &Path, commands: &[HyperfineCommand]) {
    for command in commands {
        take(results, path, command, &command.command);
    }
}

/// Adds a command, and reports that some of its runs failed.
fn take(results: &mut Quantities, path: &Path, command: &HyperfineCommand, name: &str) {
    doubts::of_failed_runs(path, command);
    results.take_command(command, name);
}
