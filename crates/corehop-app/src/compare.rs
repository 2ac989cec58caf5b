// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two results, or two folders of results, quantity by quantity.

mod commands;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use corehop_decide::comparison::{self, EquivalenceMargin, Quantities};
use corehop_decide::gate::{FailOn, Gate};
use corehop_decide::program_runs::{self, RunComparison, RunFigures};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{FileError, RowKind, Rows};
use corehop_plan::shown;
use corehop_plan::units::Nanos;
use corehop_report::compared;
use corehop_report::compared_page::{self, ComparisonHeading};
use corehop_stats::estimator::Estimator;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::answers::AnswerFile;
use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::input;
use crate::voice::note;

/// A request to compare results.
#[derive(Debug, Clone)]
pub struct ComparisonRequest {
    /// The baseline: a file, or a folder.
    pub a: PathBuf,
    /// The second result; `None` to compare the arms of one recording.
    pub b: Option<PathBuf>,
    /// Differences below this share of A's median do not count.
    pub margin: f64,
    /// Differences below this time do not count.
    pub least: Option<Nanos>,
    /// The outcomes that turn the answer into a no.
    pub fail_on: Vec<FailOn>,
    /// The probability that two equal results show nothing slower or faster.
    pub confidence: f64,
    /// The estimator of delays; `None` selects the difference.
    pub estimator: Option<Estimator>,
    /// The number of columns of the text.
    pub width: usize,
    /// The output file for a page.
    pub output: Option<PathBuf>,
    /// Whether an existing file may be replaced.
    pub force: bool,
    /// The command line that prints the comparison as JSON; empty if no command line asked.
    pub command: String,
}

impl ComparisonRequest {
    fn margin(&self) -> EquivalenceMargin {
        let least_us = self.least.map(|least| least.get() as f64 / 1e3);
        EquivalenceMargin { share: self.margin, least_us }
    }

    /// The probability that two equal results show a difference.
    fn alpha(&self) -> f64 {
        1.0 - self.confidence
    }

    /// The output file of the page, which is none of the files that are read: the results, the files in a folder, and
    /// the second file of a run.
    fn page(&self) -> Result<Option<OutputFile>, Failure> {
        let Some(output) = &self.output else { return Ok(None) };
        let inputs: Vec<&Path> = self.results().map(PathBuf::as_path).collect();
        let is_read = |folder: &&&Path| {
            folder.is_dir() && output.parent() == Some(folder) && is_result(output)
        };
        let is_second = |file: &&&Path| {
            let first = |kind: &RowKind| kind.suffix().and_then(|_| kind.first_of(output));
            RowKind::ALL.iter().filter_map(first).any(|first| first == **file)
        };
        if inputs.iter().any(|it| is_read(&it) || is_second(&it)) {
            let what = format!(
                "{} is one of the compared results: name another file",
                shown::path(output)
            );
            return Err(Failure::says(Exit::Usage, what));
        }
        OutputFile::new(output, &inputs, self.force).map(Some)
    }

    /// The one or two results that are compared.
    fn results(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.a).chain(&self.b)
    }

    /// Writes the page, if requested, from `page` and the words on its first screen.
    fn write(
        &self,
        file: Option<OutputFile>,
        answer: &str,
        page: impl FnOnce(&ComparisonHeading<'_>) -> String,
    ) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        let names: Vec<String> = self.results().map(|path| shown::path(path)).collect();
        file.write(page(&ComparisonHeading { names: &names, answer, everything: &self.command }))
    }

    /// Rejects a delay estimator if there are no delays.
    fn estimates(&self, delays: bool) -> Result<(), Failure> {
        match self.estimator {
            Some(_) if !delays => Err(Failure::says(
                Exit::Usage,
                "these results have no delays to estimate: omit --estimator",
            )),
            _ => Ok(()),
        }
    }
}

/// Compares two results, two folders of results, or the arms of one recording.
///
/// # Errors
/// Fails with exit code 2 for results that cannot be compared, and with the errors of all [readers](crate::input).
pub fn compare(args: &ComparisonRequest) -> Result<Answer, Failure> {
    let page = args.page()?;
    let folders = args.b.as_ref().map(|b| (args.a.is_dir(), b.is_dir()));
    let estimator = args.estimator.unwrap_or(Estimator::Difference);
    match (&args.b, folders) {
        (Some(b), Some((true, true))) => {
            let [a, b] = [folder(&args.a, estimator)?, folder(b, estimator)?];
            results(args, [&a, &b], None, page)
        }
        (Some(_), Some((true, false) | (false, true))) => {
            let what = "compare two folders or two files, not a folder with a file";
            Err(Failure::says(Exit::Usage, what))
        }
        (Some(b), _) => {
            if let Some([a, b]) = commands::of_two_exports(&args.a, b)? {
                return results(args, [&a, &b], None, page);
            }
            let [a, from] = [file(&args.a, estimator)?, file(b, estimator)?];
            results(args, [&a, &from], beside(args, b)?.as_ref(), page)
        }
        (None, _) => alone(args, page),
    }
}

/// Compares the parts of one file: the arms of a recording, or the commands in a hyperfine export.
fn alone(args: &ComparisonRequest, page: Option<OutputFile>) -> Result<Answer, Failure> {
    if let Some([a, b]) = commands::of_one_export(&args.a)? {
        return results(args, [&a, &b], None, page);
    }
    if recording(&args.a)? {
        return arms(args, page);
    }
    let what = format!(
        "missing second result: only a recording with arms, or an export of hyperfine with two commands, can be compared \
         alone, and {} has no arms",
        shown::path(&args.a)
    );
    Err(Failure::says(Exit::Usage, what))
}

/// Compares the quantities of two results; `beside` contains the comparison of two recordings, which is shown but not
/// tested.
fn results(
    args: &ComparisonRequest,
    [a, b]: [&Quantities; 2],
    beside: Option<&RunComparison>,
    page: Option<OutputFile>,
) -> Result<Answer, Failure> {
    args.estimates(a.has_delays() || b.has_delays())?;
    let comparison = comparison::compare(a, b, args.margin(), args.alpha())
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let gate = comparison.gate(&args.fail_on);
    let sentence = compared::answer(&comparison, &args.fail_on);
    args.write(page, &sentence, |heading| compared_page::page(&comparison, beside, heading))?;
    let mut json = as_json(json!(comparison), &sentence, json!(gate));
    if let Some(Value::Object(runs)) = beside.map(|runs| json!(runs)) {
        runs.into_iter().for_each(|(key, value)| json[key] = value);
    }
    let mut text = compared::comparison(&comparison, args.width);
    text.extend(beside.map(|runs| corehop_report::program_runs::beside(runs, args.width)));
    Ok(Answer { sentence, json, text, exit: exit(gate) })
}

fn exit(gate: Gate) -> Exit {
    if gate == Gate::Passes { Exit::Done } else { Exit::No }
}

/// The answer as JSON, with its sentence and the result of the gate.
fn as_json(mut comparison: Value, answer: &str, gate: Value) -> Value {
    comparison["answer"] = answer.into();
    comparison["gate"] = gate;
    doubts::with(comparison)
}

/// The comparison of the runs in two recordings; `None` for other results.
fn beside(args: &ComparisonRequest, b: &Path) -> Result<Option<RunComparison>, Failure> {
    if !(recording(&args.a)? && recording(b)?) {
        return Ok(None);
    }
    let names = [&args.a, b].map(shown::path);
    let names = [names[0].as_str(), names[1].as_str()];
    program_runs::recordings([&runs(&args.a)?, &runs(b)?], names, args.alpha())
        .map(Some)
        .map_err(|error| Failure::new(Exit::Usage, error))
}

/// Compares the arms of one recording.
fn arms(args: &ComparisonRequest, page: Option<OutputFile>) -> Result<Answer, Failure> {
    args.estimates(false)?;
    let usage = |error| Failure::new(Exit::Usage, error);
    let comparison = program_runs::arms(&runs(&args.a)?, args.alpha()).map_err(usage)?;
    if comparison.arms.iter().all(|arm| arm.effects.is_empty()) {
        let what = "nothing to compare: name two recordings, or one with arms \
                    (`corehop record --arm`) whose runs succeeded";
        return Err(Failure::says(Exit::No, what));
    }
    let judged = comparison.judged(&args.fail_on, args.margin()).map_err(usage)?;
    let sentence = corehop_report::program_runs::verdict(&judged);
    args.write(page, &sentence, |heading| compared_page::arms(&comparison, &judged, heading))?;
    let json = as_json(json!(comparison), &sentence, json!(judged));
    let text = corehop_report::program_runs::gated(&comparison, args.width);
    Ok(Answer { sentence, json, text, exit: exit(judged.gate) })
}

/// The runs of a recording, given any of its files.
fn runs(path: &Path) -> Result<Vec<RunFigures>, Failure> {
    let files = [path.to_owned()];
    let recorded = input::gather(&files, Estimator::Difference)?.program;
    let Some(it) = recorded.first() else {
        let what = format!(
            "{} is not the recording of a program, but the other file is: compare two recordings",
            shown::path(path)
        );
        return Err(Failure::says(Exit::Usage, what));
    };
    Ok(RunFigures::of_recording(&it.recording, &BTreeMap::new()))
}

/// Whether a file contains the rows of a recorded program. Answer files contain no rows.
fn recording(path: &Path) -> Result<bool, Failure> {
    let is_other = AnswerFile::read(path)?.is_some() || input::timed_commands(path)?.is_some();
    Ok(!is_other && input::is_recording(path)?)
}

/// The quantities of a file.
fn file(path: &Path, estimator: Estimator) -> Result<Quantities, Failure> {
    let mut results = Quantities::new(estimator);
    take(&mut results, path)?;
    Ok(results)
}

/// Adds the quantities of a file.
fn take(results: &mut Quantities, path: &Path) -> Result<(), Failure> {
    let nothing = |what: &str| Failure::says(Exit::Usage, format!("{}: {what}", shown::path(path)));
    if let Some(timed) = input::timed_commands(path)? {
        commands::take_all(results, path, &timed);
        return Ok(());
    }
    match AnswerFile::read(path)? {
        Some(AnswerFile::Placement(log)) if !results.take_placement(&log) => Err(nothing(
            "no window has the program's progress, so nothing can be compared: name a source of progress (`corehop place --progress`)",
        )),
        Some(AnswerFile::Offload(answer)) if !results.take_offload(answer.json()) => {
            Err(nothing("no call was timed, so nothing can be compared"))
        }
        Some(AnswerFile::Placement(log)) => {
            doubts::of_log(path, &log);
            Ok(())
        }
        Some(AnswerFile::Offload(_)) => Ok(()),
        None => take_rows(results, path),
    }
}

/// Adds the rows of a file.
fn take_rows(results: &mut Quantities, path: &Path) -> Result<(), Failure> {
    if input::is_recording(path)? {
        results.take_runs(&runs(path)?);
        return Ok(());
    }
    match input::jobs_of(path)? {
        Some(Ok(jobs)) => rows_of(results, &jobs)?,
        Some(Err(missing)) => doubts::of_missing(&missing),
        None => {}
    }
    rows_of(results, path)
}

fn rows_of(results: &mut Quantities, path: &Path) -> Result<(), Failure> {
    let named = |failure: Failure| failure.context(shown::path(path));
    let mut reader = input::open(path)?;
    let kind = reader.rows_kind().map_err(|error| named(error.into()))?;
    if let Ok(platform) = Platform::from_toml(&reader.kind().provenance.platform) {
        results.of_packages(&platform.packages.value);
    }
    while let Some(batch) = reader.next_batch().map_err(|error| named(error.into()))? {
        results.take_rows(
            &Rows::read(kind, &batch).map_err(|error| named(FileError::from(error).into()))?,
        );
    }
    Ok(())
}

/// The quantities of the results in a folder. Files of other kinds in the folder are ignored.
fn folder(path: &Path, estimator: Estimator) -> Result<Quantities, Failure> {
    let failed = |error| Failure::new(Exit::Failed, error).context(shown::path(path));
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let files: BTreeSet<PathBuf> =
        entries.map(|entry| entry.map(|it| it.path())).collect::<Result<_, _>>().map_err(failed)?;
    let mut results = Quantities::new(estimator);
    for file in files.iter().filter(|it| is_result(it)) {
        let of_rows = file.extension().is_some_and(|it| it == "parquet");
        // Other files are told by their contents.
        let is_answer = |file: &Path| -> Result<bool, Failure> {
            Ok(AnswerFile::read(file)?.is_some() || input::timed_commands(file)?.is_some())
        };
        if !of_rows && !is_answer(file)? {
            note(&format!("{} is not a result, and is ignored", shown::path(file)));
            continue;
        }
        results.begin(&series(file));
        take(&mut results, file)?;
    }
    if results.is_empty() {
        let what = format!(
            "{} contains no result: `corehop measure … -o` writes a result",
            shown::path(path)
        );
        return Err(Failure::says(Exit::Usage, what));
    }
    Ok(results)
}

/// Whether the name of a file in a folder belongs to a result, and not to the second file of a run, which is read with
/// the first file.
fn is_result(path: &Path) -> bool {
    let is_second = |kind: &RowKind| {
        kind.suffix().is_some() && kind.first_of(path).is_some_and(|first| first.exists())
    };
    let known = path
        .extension()
        .is_some_and(|it| ["parquet", "json", "jsonl", "log"].iter().any(|&is| it == is));
    path.is_file() && known && !RowKind::ALL.iter().any(is_second)
}

/// The name of a file without its number: `get` for `get-1.json`.
fn series(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    match name.strip_suffix(['-', '_']) {
        Some(name) if name.len() + 1 < stem.len() && !name.is_empty() => name.to_owned(),
        _ if name.is_empty() => String::new(),
        _ => stem.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_a_number_at_the_end_are_one_series() {
        let of = |name: &str| series(Path::new(name));
        assert_eq!(["get-1.json", "get_12.json", "7.json"].map(of), ["get", "get", ""]);
        assert_eq!(
            ["quick.parquet", "kernel-6.1.parquet", "l2.parquet", "x-.json"].map(of),
            ["quick", "kernel-6.1", "l2", "x-"]
        );
    }
}
