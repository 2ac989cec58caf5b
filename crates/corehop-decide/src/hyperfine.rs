// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the command times that hyperfine exports (`hyperfine --export-json FILE`), in its versions 1 and 2.
//!
//! Version 1 lists the `times` of a command in seconds, and `exit_codes` in a separate list. Version 2 has an object
//! for each run, with a unit for each value.

use serde_json::Value;

/// The number of microseconds in a second.
const MICROS: f64 = 1e6;

/// The longest run that is accepted, in seconds: corehop counts times in nanoseconds up to 10^18.
const LONGEST_S: f64 = 1e9;

/// The reason why a text is not a usable hyperfine export.
#[derive(Debug, thiserror::Error)]
pub enum HyperfineError {
    /// The text is not valid JSON.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The export contains no results.
    #[error(
        "`results` is missing, empty or not a list: write the file with `hyperfine --export-json FILE COMMAND …`"
    )]
    NoResults,
    /// A result is incomplete, or contains an invalid value.
    #[error("result {at}{command}: {what}")]
    BadResult {
        /// The index of the result in the list, from 0.
        at: usize,
        /// The command in brackets, if known.
        command: String,
        /// The fault in the result.
        what: String,
    },
}

/// The runs of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperfineCommand {
    /// The command or its name, with the parameters that are not part of the command.
    pub command: String,
    /// The wall time of each run in microseconds, in the order of the runs.
    pub us: Vec<f64>,
    /// The number of runs with an exit code other than 0, or ended by a signal; `None` if the export has no exit
    /// codes.
    pub failed: Option<usize>,
}

/// Parses an export; returns its commands in their order.
///
/// # Errors
/// Returns [`HyperfineError`], which names the result, the value, and what is expected.
pub fn parse(text: &str) -> Result<Vec<HyperfineCommand>, HyperfineError> {
    let tree: Value = serde_json::from_str(text)?;
    let results = tree["results"].as_array().filter(|list| !list.is_empty());
    let results = results.ok_or(HyperfineError::NoResults)?;
    let mut commands: Vec<HyperfineCommand> = results
        .iter()
        .enumerate()
        .map(|(at, result)| command(at, result))
        .collect::<Result<_, _>>()?;
    let is_twice = |at: usize| {
        let name = &commands[at].command;
        commands.iter().enumerate().any(|(other, it)| other != at && it.command == *name)
    };
    let twice: Vec<usize> = (0..commands.len()).filter(|&at| is_twice(at)).collect();
    for &at in &twice {
        // All parameters tell them apart, if any do.
        let name = name_of(&results[at]);
        commands[at].command = named(name.unwrap_or_default(), &results[at]["parameters"], true);
    }
    for (at, it) in commands.iter().enumerate() {
        if commands[..at].iter().any(|other| other.command == it.command) {
            let command = format!(" (`{}`)", it.command);
            let what = "another result has this name: give each command its own name with `--command-name`";
            return Err(HyperfineError::BadResult { at, command, what: what.to_owned() });
        }
    }
    Ok(commands)
}

fn command(at: usize, result: &Value) -> Result<HyperfineCommand, HyperfineError> {
    let name = name_of(result);
    let wrong = |what: String| HyperfineError::BadResult {
        at,
        command: name.map_or_else(String::new, |name| format!(" (`{name}`)")),
        what,
    };
    let name = name.ok_or_else(|| wrong("`command` is missing".to_owned()))?;
    let runs = match (result["times"].as_array(), result["measurements"].as_array()) {
        (Some(times), _) => times.iter().map(seconds).collect::<Vec<_>>(),
        (None, Some(runs)) => runs.iter().map(in_version_two).collect(),
        (None, None) => {
            let what = "`times` is missing: `--export-json` of hyperfine 1.2 and later lists the time of every run";
            return Err(wrong(what.to_owned()));
        }
    };
    if runs.is_empty() {
        return Err(wrong("`times` is empty: no run was timed".to_owned()));
    }
    let us = runs.into_iter().collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    Ok(HyperfineCommand {
        command: named(name, &result["parameters"], false),
        us,
        failed: failed(result),
    })
}

/// The name of a result, or else its command.
fn name_of(result: &Value) -> Option<&str> {
    ["name", "command"].iter().find_map(|key| result[key].as_str())
}

/// Converts a time in seconds to microseconds.
fn seconds(value: &Value) -> Result<f64, String> {
    let time = value.as_f64().filter(|time| (0.0..=LONGEST_S).contains(time));
    time.map(|time| time * MICROS).ok_or_else(|| {
        format!("a time is {value}: expected seconds as a number from 0 to {LONGEST_S}")
    })
}

/// The wall time of a run in the format of version 2.
fn in_version_two(run: &Value) -> Result<f64, String> {
    let wall = &run["time_wall_clock"];
    match wall["unit"].as_str() {
        Some("second") => seconds(&wall["value"]),
        _ => Err(format!("`time_wall_clock` is {wall}: expected a value with the unit \"second\"")),
    }
}

/// The number of runs that failed.
fn failed(result: &Value) -> Option<usize> {
    let each = result["measurements"]
        .as_array()
        .map(|runs| runs.iter().map(|run| &run["exit_code"]).collect());
    let codes: Vec<&Value> =
        each.or_else(|| Some(result["exit_codes"].as_array()?.iter().collect()))?;
    Some(codes.into_iter().filter(|code| code.as_i64() != Some(0)).count())
}

/// A command with its parameters: all of them, or only those whose values do not occur in the command.
fn named(command: &str, parameters: &Value, all: bool) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let beside: Vec<String> = parameters
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name, text(value)))
        .filter(|(_, value)| all || !command.contains(value.as_str()))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if beside.is_empty() {
        command.to_owned()
    } else {
        format!("{command} ({})", beside.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_one_name_are_told_apart_by_their_parameters_or_refused() {
        let of = |n: [&str; 2]| {
            let one = |n: &str| {
                format!(r#"{{"command": "v10", "times": [1], "parameters": {{"n": "{n}"}}}}"#)
            };
            parse(&format!(r#"{{"results": [{}, {}]}}"#, one(n[0]), one(n[1])))
        };
        let names: Vec<String> = of(["1", "0"]).unwrap().into_iter().map(|it| it.command).collect();
        assert_eq!(names, ["v10 (n=1)", "v10 (n=0)"]);
        let error = of(["1", "1"]).unwrap_err().to_string();
        assert!(error.contains("another result has this name"), "{error}");
    }

    #[test]
    fn both_versions_of_the_export_have_the_same_times_in_microseconds() {
        let first = r#"{"results": [{"command": "sleep 0.1", "mean": 0.2, "stddev": null,
            "times": [0.1, 0.3], "exit_codes": [0, 1]}]}"#;
        let run = |s: f64, code: &str| {
            format!(
                r#"{{"time_wall_clock": {{"value": {s}, "unit": "second"}}, "exit_code": {code}}}"#
            )
        };
        let second = format!(
            r#"{{"schema_version": 2, "results": [{{"command": "sleep 0.1", "measurements": [{}, {}]}}]}}"#,
            run(0.1, "0"),
            run(0.3, "null")
        );
        let read = |text: &str| parse(text).unwrap().remove(0);
        assert_eq!(read(first), read(&second));
        assert_eq!((read(first).us, read(first).failed), (vec![1e5, 3e5], Some(1)));
        let without = read(r#"{"results": [{"command": "x", "times": [1]}]}"#);
        assert_eq!(without.failed, None);
    }

    #[test]
    fn parameters_that_are_not_in_the_command_name_it() {
        let of = |command: &str| {
            let fields =
                format!(r#""command": "{command}", "times": [1], "parameters": {{"n": "12"}}"#);
            parse(&format!(r#"{{"results": [{{{fields}}}]}}"#)).unwrap().remove(0).command
        };
        assert_eq!((of("sleep 12"), of("nap")), ("sleep 12".to_owned(), "nap (n=12)".to_owned()));
    }

    #[test]
    fn a_result_without_times_is_refused_by_its_command() {
        let of = |fields: &str| format!(r#"{{"results": [{{"command": "make"{fields}}}]}}"#);
        for (text, words) in [
            (of(""), "result 0 (`make`): `times` is missing"),
            (of(r#", "times": []"#), "result 0 (`make`): `times` is empty"),
            (of(r#", "times": [-1]"#), "a time is -1: expected seconds"),
            (of(r#", "times": [null]"#), "a time is null"),
            (of(r#", "times": [1e12]"#), "a time is 1000000000000.0"),
            (
                of(r#", "measurements": [{"time_wall_clock": {"value": 1, "unit": "ms"}}]"#),
                "with the unit \"second\"",
            ),
            (r#"{"results": [{"times": [1]}]}"#.to_owned(), "result 0: `command` is missing"),
            (r#"{"results": []}"#.to_owned(), "hyperfine --export-json"),
            ("{".to_owned(), "not valid JSON"),
        ] {
            let said = parse(&text).unwrap_err().to_string();
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
