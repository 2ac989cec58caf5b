// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the files given to a use case.
//!
//! # Errors
//! All readers fail with exit 2 for a file that does not exist or is not a regular file. Exit 4 means that a file is
//! damaged, of a later version or of another kind; exit 6, that the system failed; exit 1, that a valid file lacks
//! the answer. Each error names the file and the remedy.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use corehop_decide::hyperfine::{self, HyperfineCommand};
use corehop_decide::placer::log::{LogError, PlacementLog};
use corehop_plan::platform::{Platform, foreign};
use corehop_plan::samples::{
    FileError, HYPERFINE, MissingFile, OverheadFacts, OverheadTime, Reader, Row, RowKind, Sample,
    seen,
};
use corehop_plan::shown;
use corehop_report::off_load::{NotAnAnswer, OffLoadAnswer};
use corehop_results::{FileNote, FileSystem, Results};
use corehop_sched::study::{StoreError, StudyCounts};
use corehop_sched::supply::{self, Supplies};
use corehop_stats::costs::{CostSource, CostTable, HostIdentity, ProgramPrices};
use corehop_stats::cpmd::DelayModel;
use corehop_stats::estimator::Estimator;
use corehop_stats::machine_gain::MachineGain;
use corehop_stats::overheads::{OverheadCollector, csv};

use serde_json::Value;

use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::voice::note;

/// The largest text that a verb reads, in bytes.
const MOST_TEXT: u64 = 64 << 20;

/// Opens a file of rows that is complete or still being written; errors name the file. Files without checksums and
/// incomplete runs are reported.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn open(path: &Path) -> Result<Reader<File>, Failure> {
    let reader = opened(path, file(path)?)?;
    doubts::of_end(path, &reader);
    Ok(reader)
}

/// Reads a file of rows that is already open.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn opened(path: &Path, file: File) -> Result<Reader<File>, Failure> {
    let reader = Reader::open(file).map_err(|error| damaged(path, error))?;
    doubts::of_checksums(path, reader.verification());
    Ok(reader)
}

/// Opens a possibly damaged file of rows, to read its valid rows.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn salvage(path: &Path) -> Result<Reader<File>, Failure> {
    let reader = Reader::salvage(file(path)?).map_err(|error| damaged(path, error))?;
    doubts::of_checksums(path, reader.verification());
    Ok(reader)
}

fn damaged(path: &Path, error: FileError) -> Failure {
    Failure::from(error).context(shown::path(path))
}

/// Opens a regular file. Other files are rejected, because a device never ends and opening a pipe waits for its
/// writer.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn file(path: &Path) -> Result<File, Failure> {
    let named = || shown::path(path);
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::says(
            Exit::Usage,
            format!("{}: no such file; `corehop measure … -o FILE` writes one", named()),
        ),
        _ => Failure::new(Exit::Failed, error).context(named()),
    })?;
    if about.is_dir() {
        let what = format!("{} is a folder: name the files in it", named());
        return Err(Failure::says(Exit::Usage, what));
    }
    if !about.is_file() {
        let what =
            format!("{} is not an ordinary file: copy its contents into an ordinary file", named());
        return Err(Failure::says(Exit::Usage, what));
    }
    File::open(path).map_err(|error| Failure::new(Exit::Failed, error).context(named()))
}

/// Opens a text: a regular file, or a pipe of the shell (`<(…)`), which already has its writer.
fn text_source(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let named = |error| Failure::new(Exit::Usage, error).context(shown::path(path));
    let is_pipe = std::fs::metadata(path).map_err(named)?.file_type().is_fifo();
    if is_pipe && (path.starts_with("/dev") || path.starts_with("/proc")) {
        return Ok(Box::new(File::open(path).map_err(named)?));
    }
    Ok(Box::new(file(path)?))
}

/// The byte-order mark that some editors and shells write before UTF-8 text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The number of bytes of a stream that corehop reads before the reader of a format sees any byte, because the first
/// bytes show the format.
const BEGINNING: u64 = 4096;

/// The contents of a text file, or of standard input (`-`), without a byte-order mark; errors name the file.
fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = text_source(path)?.take(MOST_TEXT + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Exit::Usage, error).context(shown::path(path)))?;
    if bytes.len() as u64 > MOST_TEXT {
        let most = MOST_TEXT >> 20;
        let what = format!(
            "{}: this text is larger than {most} MiB, the most that corehop reads",
            shown::path(path)
        );
        return Err(Failure::says(Exit::Damaged, what));
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    Ok(bytes)
}

/// Opens an ordinary file, or standard input (`-`), as a text of any size without a byte-order mark; the text is read
/// as far as it is needed.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn stream(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    let mut source = text_source(path)?;
    let mut first = Vec::new();
    let read = source.by_ref().take(BEGINNING).read_to_end(&mut first);
    read.map_err(|error| Failure::new(Exit::Usage, error).context(shown::path(path)))?;
    if first.starts_with(MARK) {
        first.drain(..MARK.len());
    }
    Ok(Box::new(BufReader::new(std::io::Cursor::new(first).chain(source))))
}

/// Reads the text of a file, or of standard input (`-`); errors name the file.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes(path)?).map_err(|error| {
        let bytes = error.as_bytes();
        match seen(bytes) {
            Some(seen) => Failure::says(Exit::Damaged, seen),
            None => Failure::new(Exit::Damaged, error),
        }
        .context(shown::path(path))
    })
}

/// Returns the name of a text that cannot be read as expected, with its actual format if that is known.
pub fn named_with_format(path: &Path, text: &str, wanted: &str) -> String {
    let name = shown::path(path);
    match seen(text.as_bytes()).filter(|seen| !seen.is(wanted)) {
        Some(seen) => format!("{name}: {seen}; expected {wanted}"),
        None => name.clone(),
    }
}

/// Reads the text of a table; for a file of `corehop measure overheads`, returns the table of its times.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn table(path: &Path) -> Result<String, Failure> {
    if rows_begin(path) {
        return times(path);
    }
    text(path)
}

/// Whether a file begins like a file of rows.
fn rows_begin(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = std::fs::metadata(path).is_ok_and(|about| about.is_file())
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok());
    read && (magic == *b"PAR1" || magic == [0xff; 4])
}

/// The table of the times in a file of rows.
fn times(path: &Path) -> Result<String, Failure> {
    let named = |failure: Failure| failure.context(shown::path(path));
    let mut reader = open(path)?;
    if reader.rows_kind().ok() != Some(RowKind::Overheads) {
        let what = format!("contains {}, not overheads", reader.kind().rows);
        return Err(named(Failure::says(Exit::Damaged, what)));
    }
    let facts = OverheadFacts::of(&reader.kind().provenance.machine).unwrap_or_default();
    let mut overheads = OverheadCollector::default();
    while let Some(rows) =
        reader.next_rows::<OverheadTime>().map_err(|error| named(error.into()))?
    {
        overheads.take(&rows);
    }
    Ok(csv(&overheads.summaries(), facts.table_to()))
}

/// Parses the text of a file by `parse`. Errors name the file, and its actual format if that is not the `wanted` one,
/// such as `a task set (JSON)`.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn parsed<T, E: Error + Send + Sync + 'static>(
    path: &Path,
    wanted: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Failure> {
    let text = text(path)?;
    parse(&text).map_err(|error| {
        Failure::new(Exit::Damaged, error).context(named_with_format(path, &text, wanted))
    })
}

/// Returns the platform with this name, or from this file. A name that contains a slash, or ends in `.toml`, `.json`
/// or `.xml`, is a file.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn platform(name: &str) -> Result<Platform, Failure> {
    let is_file = Path::new(name)
        .extension()
        .is_some_and(|kind| ["toml", "json", "xml"].iter().any(|&it| kind == it));
    if !is_file && !name.contains('/') {
        let Some(platform) = Platform::named(name) else {
            let known: Vec<_> = Platform::names().collect();
            let known = known.join(", ");
            let sentence = format!(
                "unknown platform `{name}`: use one of {known}, or a file whose name ends in .toml (.json of `lscpu -J`, .xml of hwloc)"
            );
            return Err(Failure::says(Exit::Usage, sentence));
        };
        return Ok(platform?);
    }
    platform_in(Path::new(name))
}

/// Reads the platform from a platform file, or from another program's description.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn platform_in(path: &Path) -> Result<Platform, Failure> {
    let text = text(path).map_err(|error| error.context("reading the platform file"))?;
    let described = seen(text.as_bytes()).and_then(|format| foreign::read(format.what, &text));
    if let Some(described) = described {
        let described = described
            .map_err(|error| Failure::new(Exit::Damaged, error).context(shown::path(path)))?;
        described.notes.iter().for_each(|sentence| note(sentence));
        return Ok(described.platform);
    }
    Platform::from_toml(&text).map_err(|error| {
        Failure::from(error).context(named_with_format(path, &text, "a platform file (TOML)"))
    })
}

/// Adds the exchange times of a core-to-core-latency table to the platform of the table.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn exchanges(path: &Path, platform: &mut Platform) -> Result<(), Failure> {
    let online = platform.online().clone();
    let read = |text: &str| foreign::core_to_core::exchanges(text, &online);
    platform.exchange = Some(parsed(path, "a table of core-to-core-latency (CSV)", read)?);
    Ok(())
}

/// Reads the samples of delays in a file.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn samples(path: &Path) -> Result<Vec<Sample>, Failure> {
    of_samples(path)?.all::<Sample>().map_err(|error| damaged(path, error))
}

/// Opens a file of samples of delays.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn of_samples(path: &Path) -> Result<Reader<File>, Failure> {
    let reader = open(path)?;
    let rows = reader.kind().rows.clone();
    if rows != Sample::KIND {
        let what = format!("{} contains {rows}, not samples of delays", shown::path(path));
        return Err(Failure::says(Exit::Usage, what));
    }
    Ok(reader)
}

/// Reads files of this host; doubts about the files are reported.
struct HostFiles;

impl FileSystem for HostFiles {
    type Content = File;
    type Error = Failure;

    fn open(&self, path: &Path) -> Result<Reader<File>, Failure> {
        open(path)
    }

    fn error(&self, path: &Path, error: FileError) -> Failure {
        damaged(path, error)
    }

    fn is_there(&self, path: &Path) -> bool {
        path.exists()
    }

    fn left_out(&self, error: Failure) {
        doubts::of_unreadable(&error);
    }
}

/// Reads the results in `files`: rows, and what platform files state about their machines.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn gather(files: &[PathBuf], estimator: Estimator) -> Result<Results, Failure> {
    let is_platform = |path: &&PathBuf| path.extension().is_some_and(|it| it == "toml");
    let (platforms, rows): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_platform);
    refuse_twice(&rows)?;
    let rows: Vec<&Path> = rows.into_iter().map(PathBuf::as_path).collect();
    let mut gather = corehop_results::gathered(&rows, estimator, &HostFiles)?;
    for path in platforms {
        let platform = platform_in(path)?;
        gather
            .platform(platform)
            .map_err(|error| Failure::new(Exit::Usage, error).context(shown::path(path)))?;
    }
    let results = gather.finish();
    results.missing.iter().for_each(doubts::of_missing);
    Ok(results)
}

/// Returns the file with the jobs of the task sets whose samples are in `path`; `None` if `path` contains other rows.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn jobs_of(path: &Path) -> Result<Option<Result<PathBuf, MissingFile>>, Failure> {
    let expects = corehop_results::expects_jobs(&open(path)?);
    let jobs = RowKind::TaskJobs.beside(path);
    let found = || MissingFile::jobs_beside(path, Path::exists).map_or(Ok(jobs), Err);
    Ok(expects.then(found))
}

/// Returns whether a file contains rows of a recorded program.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn is_recording(path: &Path) -> Result<bool, Failure> {
    Ok(corehop_results::is_recording(&open(path)?))
}

/// Rejects a file that is given twice, because every sample would count twice.
fn refuse_twice(files: &[&PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    // Opening a missing file reports it later.
    let real = |path: &&&PathBuf| std::fs::canonicalize(path).is_ok_and(|real| !seen.insert(real));
    match files.iter().find(real) {
        Some(path) => {
            let what = format!(
                "{} is named twice, so its samples would count twice: name each file once",
                shown::path(path)
            );
            Err(Failure::says(Exit::Usage, what))
        }
        None => Ok(()),
    }
}

/// Fits a model to the samples in `files`.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn fitted(files: &[PathBuf], estimator: Estimator) -> Result<DelayModel, Failure> {
    fitted_to(gather(files, estimator)?)
}

/// Fits a model to samples that were already read.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn fitted_to(data: Results) -> Result<DelayModel, Failure> {
    let model = data.fit.finish();
    if model.curves.is_empty() {
        let what = "these files have no valid sample of a delay: `corehop report contents FILE` shows what a file contains";
        return Err(Failure::says(Exit::No, what));
    }
    Ok(model)
}

/// Reads the model in a file: written by `fit`, or fitted now to the samples.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn model(path: &Path) -> Result<DelayModel, Failure> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        let what = named_with_format(path, &text(path)?, "samples or a cost model (JSON)");
        return Err(Failure::says(Exit::Damaged, what));
    }
    if path.extension().is_none_or(|extension| extension != "json") {
        return fitted(&[path.to_owned()], Estimator::Difference);
    }
    parsed(path, "a cost model (JSON)", DelayModel::from_json)
}

/// Reads the gain of sharing in a file: written by `fit`, or fitted now to the runs.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn gain(path: &Path) -> Result<MachineGain, Failure> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return gain_of(&gather(&[path.to_owned()], Estimator::Difference)?);
    }
    parsed(path, "a model of shared data (JSON)", MachineGain::from_json)
}

/// Fits the gain of sharing to runs that were already read.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn gain_of(data: &Results) -> Result<MachineGain, Failure> {
    if !data.jobs.summaries.is_empty() {
        let what = "these files have both delays and runs of threads that share data: fit each kind separately";
        return Err(Failure::says(Exit::Usage, what));
    }
    let machine = data.gangs.first().map(|it| it.machine.as_str());
    let described = data.machines.iter().find(|it| Some(it.id.as_str()) == machine);
    let platform = described.and_then(|it| it.platform.clone()).ok_or_else(|| {
        let what = "these files have no runs of `corehop measure shared-data` with the description of the machine: `corehop report contents FILE` shows what a file contains";
        Failure::says(Exit::No, what)
    })?;
    let about = |file: &FileNote| file.provenance.machine.clone();
    let live = |it: &FileNote| about(it).get("kind").and_then(Value::as_str) == Some("live");
    let identity =
        |it: &FileNote| Some(about(it).get("host")?.get("identity")?.as_str()?.to_owned());
    let host = HostIdentity { platform, identity: data.files.iter().find_map(identity) };
    let date = data.files.iter().map(|it| it.provenance.date.clone()).min().unwrap_or_default();
    let simulated = !data.files.iter().any(live);
    MachineGain::fit(&data.gangs, host, simulated, date)
        .map_err(|error| Failure::new(Exit::No, error))
}

/// Reads the costs in a file, as a table if its name ends in `.csv`.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn costs(path: &Path) -> Result<CostSource, Failure> {
    if path.extension().is_none_or(|extension| extension != "csv") {
        return match program_costs(path)? {
            Some(prices) => Ok(CostSource::Program(prices)),
            None => model(path).map(CostSource::Model),
        };
    }
    parsed(path, "a cost table (CSV)", CostTable::parse).map(CostSource::Table)
}

/// Returns the costs of events that were caused in a program; `None` if the file contains other rows or no rows.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn program_costs(path: &Path) -> Result<Option<ProgramPrices>, Failure> {
    if !rows_begin(path) || open(path)?.rows_kind().ok() != Some(RowKind::ProgramCosts) {
        return Ok(None);
    }
    let results = gather(&[path.to_owned()], Estimator::Difference)?.program_costs;
    let nothing = || {
        let what = format!(
            "{}: no block of this file is sufficient to compute the cost of an event",
            shown::path(path)
        );
        Failure::says(Exit::No, what)
    };
    ProgramPrices::of(results).map(Some).ok_or_else(nothing)
}

/// Reads the supply of CPUs in a file: rows of `measure supply`, or stated resources.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn supplies(path: &Path) -> Result<Supplies, Failure> {
    if !rows_begin(path) {
        return parsed(path, "a supply (JSON)", supply::resources);
    }
    supply::read(&mut open(path)?)
        .map_err(|error| Failure::new(Exit::Damaged, error).context(shown::path(path)))
}

/// Reads the counts of a study in a file.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn study_counts(path: &Path) -> Result<StudyCounts, Failure> {
    let named = || shown::path(path);
    let (counts, verification) = StudyCounts::read(file(path)?).map_err(|error| {
        let exit = if matches!(error, StoreError::Io(_)) { Exit::Failed } else { Exit::Damaged };
        Failure::new(exit, error).context(named())
    })?;
    doubts::of_checksums(path, verification);
    Ok(counts)
}

/// Reads the log of a placer; `None` if the file is something else.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn placement(path: &Path) -> Result<Option<PlacementLog>, Failure> {
    // The next open reports a missing or foreign file.
    let Ok(file) = file(path) else { return Ok(None) };
    match PlacementLog::read(std::io::BufReader::new(file)) {
        Ok(log) => Ok(Some(log)),
        Err(LogError::NotOurs | LogError::Io(_)) => Ok(None),
        Err(error) => Err(Failure::new(Exit::Damaged, error).context(shown::path(path))),
    }
}

/// Reads the answer of off-load; `None` if the file is something else.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn off_load(path: &Path) -> Result<Option<OffLoadAnswer>, Failure> {
    // The next open reports a missing or foreign file. Rows can be large, and are told by their first bytes.
    if rows_begin(path) {
        return Ok(None);
    }
    let Ok(text) = text(path) else { return Ok(None) };
    match OffLoadAnswer::parse(&text) {
        Ok(answer) => Ok(Some(answer)),
        Err(NotAnAnswer::NotOurs) => Ok(None),
        Err(error) => Err(Failure::new(Exit::Damaged, error).context(shown::path(path))),
    }
}

/// Reads the commands that hyperfine timed; `None` if the file is not an export of hyperfine.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn timed_commands(path: &Path) -> Result<Option<Vec<HyperfineCommand>>, Failure> {
    if rows_begin(path) {
        return Ok(None);
    }
    // The next open reports a missing or foreign file.
    let Ok(text) = text(path) else { return Ok(None) };
    if seen(text.as_bytes()).is_none_or(|format| format.what != HYPERFINE) {
        return Ok(None);
    }
    let commands = hyperfine::parse(&text)
        .map_err(|error| Failure::new(Exit::Damaged, error).context(shown::path(path)))?;
    let failed = |it: &&HyperfineCommand| it.failed == Some(it.us.len());
    if let Some(command) = commands.iter().find(failed) {
        let what = format!(
            "every run of `{}` failed (exit code other than 0), so the times are not those of the intended work",
            command.command
        );
        return Err(Failure::says(Exit::Damaged, what).context(shown::path(path)));
    }
    Ok(Some(commands))
}

/// Reads the counts of a study; `None` if the file contains none.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn counts(path: &Path) -> Result<Option<StudyCounts>, Failure> {
    // The next open reports a missing or foreign file.
    let Ok(file) = file(path) else { return Ok(None) };
    match StudyCounts::read(file) {
        Ok((outcome, verification)) => {
            doubts::of_checksums(path, verification);
            Ok(Some(outcome))
        }
        Err(StoreError::NotOurs | StoreError::Io(_)) => Ok(None),
        Err(error) => Err(Failure::new(Exit::Damaged, error).context(shown::path(path))),
    }
}
