// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies of random task sets: counting, merging and showing.

mod preemption;
mod text;

use std::path::{Path, PathBuf};

use corehop_decide::validation::{task_set_studies, task_set_study};
use corehop_plan::shown;
use corehop_report::study::{page, picture};
use corehop_sched::study::cost::CostStudy;
use corehop_sched::study::{
    Progress, SchedulabilityStudy, Shard, StudyCounts, StudyCountsError, StudyRunError,
    run as carry_out,
};

use crate::answer::Answer;
use crate::costs::CostRequest;
use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::input;
use crate::layout::TerminalLayout;
use crate::voice::warn;
pub use text::{sentence, text};

/// A request to count a study, or to show counts.
#[derive(Debug, Clone)]
pub struct StudyRequest {
    /// A study, its folder, or the counts of an earlier run (`*.parquet`).
    pub what: PathBuf,
    /// The shard to count; `None` counts all sets.
    pub shard: Option<Shard>,
    /// The number of sets per cap; `None` selects the study's number.
    pub sets: Option<u64>,
    /// The random seed; `None` selects the study's seed.
    pub seed: Option<u64>,
    /// The number of threads; `None` uses one per CPU.
    pub threads: Option<u32>,
    /// The output forms of the counts.
    pub forms: StudyForms,
}

/// The requested output forms of the counts.
#[derive(Debug, Clone)]
pub struct StudyForms {
    /// The output file for the counts.
    pub output: Option<PathBuf>,
    /// The cost model that converts delays to working-set sizes.
    pub costs: CostRequest,
    /// The output file for a page.
    pub page: Option<PathBuf>,
    /// The output file for a drawing of the curves.
    pub picture: Option<PathBuf>,
    /// Whether existing files may be replaced.
    pub force: bool,
    /// The layout of the text.
    pub layout: TerminalLayout,
    /// The command line that prints the counts as JSON.
    pub command: String,
}

/// The output files of counts, page and picture.
type StudyFiles = [Option<OutputFile>; 3];

/// Counts a study, or shows its counts. `begins` creates the progress display for a number of sets, which ends when
/// it is dropped.
///
/// # Errors
/// Fails with exit code 2 for an invalid request, with exit code 4 for a damaged study, and with exit code 130 if the
/// progress display stops the work.
pub fn count<P: Progress>(
    request: &StudyRequest,
    begins: impl FnOnce(u64) -> P,
) -> Result<Answer, Failure> {
    if let Some(study) = of_costs(&request.what)? {
        return preemption::run(request, study);
    }
    let files = request.forms.files(&[&request.what])?;
    request.forms.answer(&request.counts(begins)?, files)
}

/// Merges the counts of shards.
///
/// # Errors
/// Fails with exit code 2 for shards that do not belong together, and with exit code 4 for damaged shards.
pub fn merge(shards: &[PathBuf], forms: &StudyForms) -> Result<Answer, Failure> {
    let inputs: Vec<&Path> = shards.iter().map(PathBuf::as_path).collect();
    let files = forms.files(&inputs)?;
    let parts = shards.iter().map(|path| input::study_counts(path));
    let merged = StudyCounts::merged(parts.collect::<Result<Vec<_>, _>>()?);
    let merged = merged.map_err(|error: StudyCountsError| Failure::new(Exit::Usage, error))?;
    forms.answer(&merged, files)
}

impl StudyRequest {
    /// The counts, read from a file or computed now.
    fn counts<P: Progress>(&self, begins: impl FnOnce(u64) -> P) -> Result<StudyCounts, Failure> {
        let what = &self.what;
        if what.extension().is_some_and(|extension| extension == "parquet") {
            if self.sets.is_some()
                || self.seed.is_some()
                || self.shard.is_some()
                || self.threads.is_some()
            {
                let why = format!(
                    "{}: this file already has the counts; --sets, --seed, --shard and --threads apply only to a study",
                    shown::path(what)
                );
                return Err(Failure::says(Exit::Usage, why));
            }
            return input::study_counts(what);
        }
        let study = described(what)?
            .with(self.seed, self.sets)
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let progress = begins(shard.sets(study.sets));
        let threads = self.threads.map(|threads| threads as usize);
        let outcome = carry_out(&study, shard, threads, &progress);
        drop(progress);
        outcome.map_err(|error| {
            let exit = match error {
                StudyRunError::Interrupted => Exit::Interrupted,
                StudyRunError::NoSet(_) => Exit::Damaged,
                StudyRunError::Threads(_) => Exit::Failed,
            };
            Failure::new(exit, error)
        })
    }
}

impl StudyForms {
    /// The files to write: the counts, the page and the picture.
    fn files(&self, inputs: &[&Path]) -> Result<StudyFiles, Failure> {
        let paths = [self.output.as_ref(), self.page.as_ref(), self.picture.as_ref()];
        OutputFile::all_asked(paths, inputs, self.force)
    }

    /// Writes the files, and returns the counts as the answer.
    fn answer(
        &self,
        outcome: &StudyCounts,
        [output, page_file, picture_file]: StudyFiles,
    ) -> Result<Answer, Failure> {
        for warning in outcome.study.warnings() {
            warn(warning);
        }
        if let Some(file) = output {
            file.fill(|out| outcome.write(out))?;
        }
        let page = page_file.map(|file| (file, page(outcome, &sentence(outcome), &self.command)));
        let drawn = picture_file.zip(picture(outcome));
        for (file, text) in page.into_iter().chain(drawn) {
            file.write(text)?;
        }
        let source = self.costs.chosen()?.source;
        let costs = source.as_ref().map(|source| source.selections(&self.costs.choice));
        let costs = costs.transpose()?.unwrap_or_default();
        let json = if source.is_some() { outcome.json_by_size(&costs) } else { outcome.json() };
        Ok(Answer {
            sentence: sentence(outcome),
            json: doubts::with(json),
            text: text(outcome, &costs, self.layout),
            exit: Exit::Done,
        })
    }
}

/// The study in a file, or in the `study.toml` of a folder.
fn described(path: &Path) -> Result<SchedulabilityStudy, Failure> {
    let (named, text) = description(path)?;
    SchedulabilityStudy::parse(&text)
        .map_err(|error| Failure::new(Exit::Damaged, error).context(named))
}

/// The study of preemption costs in a file, or in the `study.toml` of a folder; `None` for another study.
fn of_costs(path: &Path) -> Result<Option<CostStudy>, Failure> {
    if path.extension().is_some_and(|extension| extension == "parquet") {
        return Ok(None);
    }
    let (named, text) = description(path)?;
    if !CostStudy::is_described(&text) {
        return Ok(None);
    }
    let study = CostStudy::parse(&text);
    study.map(Some).map_err(|error| Failure::new(Exit::Damaged, error).context(named))
}

/// The text and the name of a study from a file, from the `study.toml` of a folder, or embedded in the program.
fn description(path: &Path) -> Result<(String, String), Failure> {
    if !path.exists() && path.components().count() == 1 && path.extension().is_none() {
        let name = path.to_string_lossy().into_owned();
        let text = task_set_study(&name).ok_or_else(|| {
            let known: Vec<&str> = task_set_studies().collect();
            let why = format!(
                "{}: there is no such file or folder, and no such study in corehop; the studies of corehop are: {}",
                shown::path(path),
                known.join(", ")
            );
            Failure::says(Exit::Usage, why)
        })?;
        return Ok((name, text.to_owned()));
    }
    let inside = path.join("study.toml");
    let file = if path.is_dir() { inside.as_path() } else { path };
    let named = shown::path(file);
    Ok((named, input::text(file)?))
}
