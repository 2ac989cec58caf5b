// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether a task set meets its deadlines, including the charges to its jobs.

mod asked;
mod charges;
mod deploy;
mod margin;
mod text;

use std::path::{Path, PathBuf};

use corehop_plan::shown;
use corehop_plan::workload::set_file;
use corehop_sched::margin::MarginRequest;
use corehop_sched::{TaskSet, Test, deployed};
use serde_json::Value;

use crate::answer::Answer;
use crate::doubts;
use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::input;
use crate::layout::TerminalLayout;
use crate::task_files;
use crate::voice::note;
pub use asked::{AskedSet, CheckedSet, SetAnswer, SetQuestion, SetSurvey};
pub use charges::{ChargeRequest, ChargedDelays};
pub use deploy::{DeploymentRequest, deploy};

/// A request to check the task set in a file.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    /// The file of the task set; `-` is standard input.
    pub file: PathBuf,
    /// The name of a test, or `all` for a survey; `None` for the tests of the scheduler.
    pub test: Option<String>,
    /// The charges to the jobs.
    pub charges: ChargeRequest,
    /// The machine: the name of a platform, or a file.
    pub platform: Option<String>,
    /// Whether to compute slack and changes: always, never, or only for sets of few tasks (`None`).
    pub slack: Option<bool>,
    /// The file for the picture of a schedule.
    pub gantt: Option<PathBuf>,
    /// The file for the set with its assignment.
    pub output: Option<PathBuf>,
    /// Whether existing files may be replaced.
    pub force: bool,
    /// The layout of the text.
    pub layout: TerminalLayout,
}

/// Runs the check, writes the requested files, and returns the answer.
///
/// # Errors
/// Fails with exit code 2 for an invalid request, with exit code 4 for a damaged file or set, and with exit code 6 if
/// the system failed.
pub fn check(request: &CheckRequest) -> Result<Answer, Failure> {
    let charges = &request.charges;
    let [output, gantt] = request.output_files()?;
    let platform = request.platform.as_deref().map(input::platform).transpose()?;
    let set = task_files::task_set(&request.file)?;
    let set = if charges.ignore_cpus { set.unplaced() } else { set };
    request.refuse_files_of_a_survey()?;
    let named = request.test.as_deref();
    let question = SetQuestion::of(&set, platform.as_ref(), named, charges.scheduler)?;
    let source = charges.source(&set)?;
    let delays = charges.delays(source.as_ref(), &set)?;
    delays.of(&set)?;
    let overheads = charges.overheads(&set)?;
    let supply = charges.supply(&set)?;
    if let SetQuestion::One(test) = &question {
        request.refuse_undeployable(&set, test)?;
    }
    let asked = AskedSet {
        set: &set,
        platform: platform.as_ref(),
        delays,
        overheads,
        supply: supply.as_ref(),
        accept_largest: charges.accept_largest,
        wishes: MarginRequest { slack: request.slack, schedule: gantt.is_some() },
    };
    let checked = match asked.ask(question)? {
        SetAnswer::Survey(survey) => return Ok(of_survey(&survey, request.layout)),
        SetAnswer::One(checked) => *checked,
    };
    if let Some(file) = &output {
        assign(file, &set, &checked)?;
    }
    if let Some(file) = &gantt {
        margin::draw(file, &set, &checked.margin, &checked.answered.sentence)?;
    }
    Ok(Answer {
        json: doubts::with(checked.json(&set)),
        text: text::one(&set, &checked, request.layout),
        exit: checked.exit(),
        sentence: checked.answered.sentence,
    })
}

/// The answer of a survey of all tests. The main sentence is the verdict for the scheduler that the caller named, if
/// there is one.
fn of_survey(survey: &SetSurvey, layout: TerminalLayout) -> Answer {
    let json = survey.json().into_iter().map(doubts::with).collect::<Value>();
    let (head, every) = (text::survey(survey), text::every(survey, layout));
    let (sentence, text) = match &survey.named {
        Some(named) => (named.sentence.clone(), format!("{}\n{every}", layout.wrap(&head, 0))),
        None => (head, every),
    };
    Answer { sentence, json, text, exit: survey.exit() }
}

impl CheckRequest {
    /// The output files for the set with its assignment, and for the picture of a schedule.
    fn output_files(&self) -> Result<[Option<OutputFile>; 2], Failure> {
        let set = [self.file.as_path()].into_iter();
        let inputs: Vec<&Path> = set.chain(self.charges.files()).collect();
        let paths = [self.output.as_ref(), self.gantt.as_ref()];
        OutputFile::all_asked(paths, &inputs, self.force)
    }

    /// Rejects output files that need a single answer, in a survey.
    fn refuse_files_of_a_survey(&self) -> Result<(), Failure> {
        if self.test.as_deref() != Some("all") {
            return Ok(());
        }
        let what = if self.gantt.is_some() {
            "--gantt: a survey has no schedule to draw: omit --test all, or name one test"
        } else if self.output.is_some() {
            "-o: a survey has no answer to deploy: omit --test all, or name a test that assigns CPUs, for example --test p-edf-ffd"
        } else {
            return Ok(());
        };
        Err(Failure::says(Exit::Usage, what))
    }

    /// Rejects -o for a test that does not determine where and how tasks run.
    fn refuse_undeployable(&self, set: &TaskSet, test: &Test) -> Result<(), Failure> {
        if self.output.is_none() || test.deploys() || set.cpus() == 1 {
            return Ok(());
        }
        let what = format!(
            "-o: {} assigns no CPUs to tasks: use a test that does, for example p-edf-ffd or sp-edf-c=d",
            test.name
        );
        Err(Failure::says(Exit::Usage, what))
    }
}

/// Writes the set with its scheduler, its assignment and the verdict, if the answer is yes.
fn assign(file: &OutputFile, set: &TaskSet, checked: &CheckedSet) -> Result<(), Failure> {
    let (answered, question) = (&checked.answered, checked.question);
    let accepts = answered.asked.answer.verdict.is_schedulable();
    let scheduler = question.map(|question| question.scheduler);
    let placed = deployed(set, answered.test, scheduler, &answered.asked);
    let Some(placed) = placed.map_err(asked::damaged)?.filter(|_| accepts) else {
        note(&format!(
            "corehop did not write {}, because the answer is not yes",
            shown::path(file.path())
        ));
        return Ok(());
    };
    let placed = placed.judged(&answered.sentence);
    file.write(format!("{:#}\n", set_file::write(&placed)))
}
