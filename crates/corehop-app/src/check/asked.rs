// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks about a set including its charges: its default question, one test, or a survey of all tests.

use corehop_plan::platform::Platform;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_sched::charge::{ChargedAnswer, ChargedSet};
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::question::Answered;
use corehop_sched::sentence::with_bounds;
use corehop_sched::supply::InUnits;
use corehop_sched::{
    SchedulabilityQuestion, Suffers, TaskError, TaskSet, Test, Verdict, all, answer_json, clusters,
    deployment, sentence, test,
};
use serde_json::{Value, json};

use super::charges::ChargedDelays;
use crate::failure::{Exit, Failure};

type Tests = Vec<&'static Test>;

/// The question that is asked about a set.
#[derive(Debug)]
pub enum SetQuestion {
    /// The set's default question, and the tests that can answer it.
    Question(SchedulabilityQuestion, Vec<&'static Test>),
    /// Whether a single test accepts the set.
    One(&'static Test),
    /// All tests, and the default question if a scheduler is named.
    Survey(Vec<&'static Test>, Option<(SchedulabilityQuestion, Vec<&'static Test>)>),
}

impl SetQuestion {
    /// Creates the question from the name of a test, from `all`, or from neither.
    ///
    /// # Errors
    /// Fails with exit code 2 for an unknown test, for clusters that the machine lacks, for a scheduler without an
    /// analysis, and for a scheduler together with a test.
    pub fn of(
        set: &TaskSet,
        platform: Option<&Platform>,
        named: Option<&str>,
        scheduler: Option<Scheduler>,
    ) -> Result<Self, Failure> {
        let question = SchedulabilityQuestion::of(set, scheduler);
        let tests = || {
            let tests = question.tests(set, platform);
            tests.map_err(|error| Failure::new(Exit::Usage, error))
        };
        match (named, scheduler) {
            (None, _) => Ok(Self::Question(question, tests()?)),
            (Some("all"), _) => {
                let named = (!question.assumed).then(tests).transpose()?;
                let named = named.map(|tests| (question, tests));
                Ok(Self::Survey(requested("all", platform)?, named))
            }
            (Some(name), Some(scheduler)) => Err(Failure::says(
                Exit::Usage,
                format!(
                    "--test {name} already determines the scheduler: omit --scheduler {scheduler}"
                ),
            )),
            (Some(name), None) => Ok(Self::One(requested(name, platform)?[0])),
        }
    }
}

/// The tests that the user requested by `name`. The caches of a named machine define the clusters.
fn requested(name: &str, platform: Option<&Platform>) -> Result<Tests, Failure> {
    let usage = |what: String| Failure::says(Exit::Usage, what);
    if name == "all" {
        let sizes = platform.map(clusters::sizes);
        let there = |test: &&Test| match (test.suffers, &sizes) {
            (Suffers::Within(size), Some(sizes)) => sizes.iter().any(|&(it, _)| it == size),
            _ => true,
        };
        return Ok(all().filter(there).collect());
    }
    let by_cache = name.rsplit_once("c-edf-").filter(|(_, cache)| cache.starts_with(['l', 'L']));
    let Some((soft, cache)) = by_cache else {
        return Ok(vec![test(name).map_err(|error| Failure::new(Exit::Usage, error))?]);
    };
    let platform = platform.ok_or_else(|| {
        usage(format!(
            "{name}: a machine defines which CPUs share a cache: name the machine with --platform"
        ))
    })?;
    let (size, _) = clusters::by_cache(platform, cache).map_err(usage)?;
    let name = format!("{soft}c-edf-{size}");
    Ok(vec![test(&name).map_err(|error| Failure::new(Exit::Usage, error))?])
}

/// A set with its charges, and the requested additions to the verdict.
#[derive(Debug)]
pub struct AskedSet<'a> {
    /// The task set in question.
    pub set: &'a TaskSet,
    /// The machine on which the set runs, if the user named a machine.
    pub platform: Option<&'a Platform>,
    /// The delays of preemptions and migrations.
    pub delays: ChargedDelays<'a>,
    /// The overheads of the operating system.
    pub overheads: Option<SystemOverheads>,
    /// The supply of the CPUs; `None` if they are always available.
    pub supply: Option<&'a InUnits>,
    /// Whether the largest observed cost is accepted as a bound.
    pub accept_largest: bool,
    /// The requested additions to the answer.
    pub wishes: MarginRequest,
}

/// The answer to a question about a task set.
#[derive(Debug)]
pub enum SetAnswer {
    /// The answer to the default question, or of one test.
    One(Box<CheckedSet>),
    /// The answers of all tests.
    Survey(Box<SetSurvey>),
}

/// The verdict on a task set, with the limits of the analysis and the margin of the verdict.
#[derive(Debug)]
pub struct CheckedSet {
    /// The verdict with the deciding test.
    pub answered: Answered,
    /// The set's default question if the user asked it, and `None` if the user named a test.
    pub question: Option<SchedulabilityQuestion>,
    /// Sentences about differences between Linux and the analysis.
    pub limits: Vec<String>,
    /// The distance of the answer from the opposite answer.
    pub margin: Margin,
}

/// The verdicts of all tests on a task set.
#[derive(Debug)]
pub struct SetSurvey {
    /// The answer for the named scheduler, if a scheduler is named.
    pub named: Option<Answered>,
    /// Each test with its answer.
    pub answers: Vec<(&'static Test, ChargedAnswer)>,
}

pub(super) fn damaged(error: TaskError) -> Failure {
    Failure::new(Exit::Damaged, error)
}

impl AskedSet<'_> {
    /// Runs the tests and returns the answer.
    ///
    /// # Errors
    /// Fails with exit code 2 if the selection of costs is ambiguous, and with exit code 4 for an invalid set or a set
    /// whose working sets have no known costs.
    pub fn ask(&self, question: SetQuestion) -> Result<SetAnswer, Failure> {
        let delay = |set: &TaskSet| self.delays.of(set).ok();
        let settings = TestSettings {
            platform: self.platform,
            delay: &delay,
            overheads: self.overheads,
            supply: self.supply,
            accept_largest: self.accept_largest,
        };
        let mut charged = settings.charged(self.set, self.delays.of(self.set)?);
        let (answered, question) = match question {
            SetQuestion::Survey(tests, named) => {
                return surveyed(self.set, &mut charged, &tests, named)
                    .map(|survey| SetAnswer::Survey(Box::new(survey)));
            }
            SetQuestion::Question(question, tests) => {
                let answered = question.ask(self.set, &tests, &mut charged).map_err(damaged)?;
                (answered, Some(question))
            }
            SetQuestion::One(test) => {
                let asked = charged.ask(test).map_err(damaged)?;
                (alone(self.set, test, asked), None)
            }
        };
        let margin = Margin::of(self.set, &answered, question, &settings, self.wishes);
        let limits = limits(self.set, &answered, question);
        Ok(SetAnswer::One(Box::new(CheckedSet { answered, question, limits, margin })))
    }
}

/// The answer of one test, with its sentence.
fn alone(set: &TaskSet, test: &'static Test, asked: ChargedAnswer) -> Answered {
    let asked = with_bounds(set, test, asked);
    let sentence = sentence(set, test.scheduler, test, &asked);
    Answered { test, asked, sentence }
}

/// Sentences about differences between Linux and the analysis.
fn limits(
    set: &TaskSet,
    answered: &Answered,
    question: Option<SchedulabilityQuestion>,
) -> Vec<String> {
    let scheduler = question.map(|question| question.scheduler);
    deployment::limits(set, answered.test, scheduler, &answered.asked)
}

/// The answers of every test, and the answer for the named scheduler, if there is one.
fn surveyed(
    set: &TaskSet,
    charged: &mut ChargedSet<'_>,
    tests: &[&'static Test],
    named: Option<(SchedulabilityQuestion, Tests)>,
) -> Result<SetSurvey, Failure> {
    let named = named.map(|(question, tests)| question.ask(set, &tests, charged)).transpose();
    let named = named.map_err(damaged)?;
    let mut answers = Vec::new();
    for &test in tests {
        answers.push((test, charged.ask(test).map_err(damaged)?));
    }
    Ok(SetSurvey { named, answers })
}

impl CheckedSet {
    /// Returns the answer about the set as JSON.
    pub fn json(&self, set: &TaskSet) -> Value {
        let mut value = in_json(&self.answered, self.question, &self.limits);
        self.margin.put(set, &mut value);
        value
    }

    /// Returns the exit code: 0 for yes, 1 for no and unknown.
    pub fn exit(&self) -> Exit {
        exit(self.answered.asked.answer.verdict)
    }
}

impl SetSurvey {
    /// Returns a list with the answer of each test.
    pub fn json(&self) -> Vec<Value> {
        self.answers.iter().map(|(test, asked)| answer_json(test, asked)).collect()
    }

    /// Returns a list with the answer of each test, as detailed as for a single test except for the margin.
    pub fn json_at_length(self, set: &TaskSet) -> Vec<Value> {
        let each = |(test, asked): (&'static Test, ChargedAnswer)| {
            let answered = alone(set, test, asked);
            in_json(&answered, None, &limits(set, &answered, None))
        };
        self.answers.into_iter().map(each).collect()
    }

    /// Returns the exit code of the named scheduler's answer; for a survey without a named scheduler, the exit code is
    /// [`Exit::Done`].
    pub fn exit(&self) -> Exit {
        self.named.as_ref().map_or(Exit::Done, |named| exit(named.asked.answer.verdict))
    }
}

/// An answer as JSON, with its sentence and the differences between Linux and the analysis.
fn in_json(
    answered: &Answered,
    question: Option<SchedulabilityQuestion>,
    limits: &[String],
) -> Value {
    let mut value = question.map_or_else(
        || answer_json(answered.test, &answered.asked),
        |question| answered.json(question),
    );
    value["sentence"] = json!(answered.sentence);
    if !limits.is_empty() {
        value["deployment"] = json!(limits);
    }
    value
}

fn exit(verdict: Verdict) -> Exit {
    if verdict.is_schedulable() { Exit::Done } else { Exit::No }
}
