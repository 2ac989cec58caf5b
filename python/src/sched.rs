// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability tests and studies, computed in process.

use corehop_plan::samples::Reader;
use corehop_plan::units::Nanos;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::set_file;
use corehop_plan::workload::task::Time;
use corehop_report::study::page;
use corehop_sched::charge::{ChargedSet, DelayCharge};
use corehop_sched::deployment;
use corehop_sched::limited::remedy::Remedies;
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::question::Answered;
use corehop_sched::sentence::with_bounds;
use corehop_sched::study::{
    Progress, SchedulabilityStudy as Described, Shard, StudyCounts, StudyRunError, run,
};
use corehop_sched::supply::{self, InUnits, Supplies};
use corehop_sched::{
    SchedulabilityQuestion, TaskError, TaskSet, Test, all, answer_json, sentence, test,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors;
use crate::model::{Costs, by_size};
use crate::platform::PlatformDescription;
use crate::table::Table;

/// The answer to a task set's own question, of a test, or of every one (`all`), both as JSON.
#[pyfunction]
#[pyo3(signature = (set, name=None, scheduler=None, delay_us=None, costs=None, platform=None, accept_largest=false, supply=None, slack=None))]
#[expect(clippy::too_many_arguments, reason = "one for each of the keywords in Python")]
pub(crate) fn check(
    py: Python<'_>,
    set: &str,
    name: Option<&str>,
    scheduler: Option<&str>,
    delay_us: Option<f64>,
    costs: Option<&Costs>,
    platform: Option<&PlatformDescription>,
    accept_largest: bool,
    supply: Option<PathBuf>,
    slack: Option<bool>,
) -> PyResult<String> {
    let set = set_file::parse(set).map_err(errors::damaged)?;
    let scheduler: Option<Scheduler> =
        scheduler.map(str::parse).transpose().map_err(errors::usage)?;
    let platform = platform.map(|platform| &platform.0);
    let question = SchedulabilityQuestion::of(&set, scheduler);
    let tests: Vec<&'static Test> = match name {
        None => question.tests(&set, platform).map_err(errors::usage)?,
        Some("all") => all().collect(),
        Some(name) => vec![test(name).map_err(errors::usage)?],
    };
    let selected = costs.map(|costs| costs.source.for_a_verdict(&costs.selection));
    selected.transpose().map_err(errors::usage)?;
    if delay_us.is_none() && costs.is_none() && set.wss_kib().iter().any(Option::is_some) {
        return Err(errors::usage(
            "wss_kib is given, and nothing says what a working set costs: give costs, or \
             delay_us (0 to charge none)",
        ));
    }
    let delay = delay_us.map(microseconds).transpose()?.map(|delay| set.tick().up(delay));
    let supply = supply.map(|path| supplies(&path)).transpose()?;
    if let Some(supply) = &supply {
        supply.check(&set).map_err(errors::usage)?;
    }
    let supply = supply.as_ref().map(InUnits::of);
    let supply = supply.as_ref();
    let as_asked = As { set: &set, platform, delay, costs, accept_largest, supply, slack };
    let answers: Result<Value, TaskError> = py.detach(|| {
        if name.is_none() {
            return Ok(Value::Array(vec![as_asked.question(question, &tests)?]));
        }
        let each = |&test: &&'static Test| as_asked.test(test, name != Some("all"));
        tests.iter().map(each).collect::<Result<Vec<_>, _>>().map(Value::Array)
    });
    Ok(answers.map_err(errors::damaged)?.to_string())
}

/// A set as a caller asks about it.
struct As<'a> {
    set: &'a TaskSet,
    platform: Option<&'a corehop_plan::platform::Platform>,
    /// In ticks of the set.
    delay: Option<Time>,
    costs: Option<&'a Costs>,
    accept_largest: bool,
    supply: Option<&'a InUnits>,
    slack: Option<bool>,
}

/// A delay in microseconds as a span, rounded up.
fn microseconds(us: f64) -> PyResult<Nanos> {
    // What is left of 1.1 us in binary is no picosecond.
    let ns = us.mul_add(1e3, -1e-6).ceil();
    if us >= 0.0 && ns <= 1e18 {
        return Ok(Nanos::new(ns as u64));
    }
    Err(errors::usage(format!("delay_us is {us}: expected a number of microseconds from 0 on")))
}

/// The supply in a file: rows of `measure supply`, or resources as JSON.
fn supplies(path: &Path) -> PyResult<Supplies> {
    let bytes = std::fs::read(path)?;
    if bytes.starts_with(b"PAR1") || bytes.starts_with(&[0xff; 4]) {
        let mut reader = Reader::open(File::open(path)?).map_err(errors::damaged)?;
        return supply::read(&mut reader).map_err(errors::damaged);
    }
    let text = String::from_utf8(bytes).map_err(errors::damaged)?;
    supply::resources(&text).map_err(errors::damaged)
}

impl As<'_> {
    /// The delay that is charged to any set; None where costs cannot be chosen from.
    fn delay(&self) -> Option<DelayCharge<'_>> {
        match (self.delay, self.costs) {
            (Some(delay), _) => Some(DelayCharge::Each(delay)),
            (None, Some(costs)) => {
                let selected = costs.source.for_a_verdict(&costs.selection).ok()?;
                Some(DelayCharge::Costs(selected.costs))
            }
            (None, None) => Some(DelayCharge::Nothing),
        }
    }

    fn charged(&self) -> ChargedSet<'_> {
        let delay = self.delay().unwrap_or(DelayCharge::Nothing);
        let charged = ChargedSet::new(self.set, self.platform, delay, None);
        charged.accepting_largest(self.accept_largest).supplied_by(self.supply)
    }

    /// The answer to the question of the set.
    fn question(
        &self,
        question: SchedulabilityQuestion,
        tests: &[&'static Test],
    ) -> Result<Value, TaskError> {
        let answered = question.ask(self.set, tests, &mut self.charged())?;
        let scheduler = Some(question.scheduler);
        let limits = deployment::limits(self.set, answered.test, scheduler, &answered.asked);
        let mut answer = with_limits(answered.json(question), limits);
        self.put_margin(&answered, Some(question), &mut answer);
        Ok(answer)
    }

    /// The answer of a test, with its margin where it is asked alone.
    fn test(&self, test: &'static Test, alone: bool) -> Result<Value, TaskError> {
        let asked = with_bounds(self.set, test, self.charged().ask(test)?);
        let sentence = sentence(self.set, test.scheduler, test, &asked);
        let mut answer = answer_json(test, &asked);
        answer["sentence"] = Value::String(sentence.clone());
        let mut answer = with_limits(answer, deployment::limits(self.set, test, None, &asked));
        if alone {
            self.put_margin(&Answered { test, asked, sentence }, None, &mut answer);
        }
        Ok(answer)
    }

    /// Adds how far the answer is from the other one.
    fn put_margin(
        &self,
        answered: &Answered,
        question: Option<SchedulabilityQuestion>,
        answer: &mut Value,
    ) {
        let delay = |_: &TaskSet| self.delay();
        let (platform, accept_largest) = (self.platform, self.accept_largest);
        let (supply, overheads) = (self.supply, None);
        let asking = TestSettings { platform, delay: &delay, overheads, supply, accept_largest };
        let wishes = MarginRequest { slack: self.slack, schedule: false };
        Margin::of(self.set, answered, question, &asking, wishes).put(self.set, answer);
    }
}

/// An answer with what Linux does not run as analysed.
fn with_limits(mut answer: Value, limits: Vec<String>) -> Value {
    if !limits.is_empty() {
        answer["deployment"] = limits.into();
    }
    answer
}

/// The effect of limiting preemptions for a task set on one CPU, both as JSON.
#[pyfunction]
pub(crate) fn limit_preemptions(set: &str, costs: &Costs) -> PyResult<String> {
    let set = set_file::parse(set).map_err(errors::damaged)?;
    let selected = costs.source.for_a_verdict(&costs.selection).map_err(errors::usage)?;
    let all = Remedies::of(&set, selected.costs.as_ref()).map_err(|error| {
        if error.field == "cpus" { errors::usage(error) } else { errors::damaged(error) }
    })?;
    Ok(all.json().to_string())
}

/// A schedulability study.
#[pyclass(frozen, module = "corehop._corehop")]
#[derive(Debug)]
pub(crate) struct Study(Described);

/// The counts of a study, or of a part of it.
#[pyclass(frozen, module = "corehop._corehop")]
#[derive(Debug)]
pub(crate) struct Outcome {
    counts: StudyCounts,
    /// The doubt about the file that the counts come from, if any.
    doubt: Option<&'static str>,
}

impl From<StudyCounts> for Outcome {
    fn from(counts: StudyCounts) -> Self {
        Self { counts, doubt: None }
    }
}

#[pymethods]
impl Study {
    /// A study from its description (TOML), perhaps with another seed or number of sets.
    #[new]
    #[pyo3(signature = (text, seed=None, sets=None))]
    fn new(text: &str, seed: Option<u64>, sets: Option<u64>) -> PyResult<Self> {
        let study = Described::parse(text).map_err(errors::damaged)?;
        Ok(Self(study.with(seed, sets).map_err(errors::usage)?))
    }

    /// The number of sets drawn for each cap.
    #[getter]
    fn sets(&self) -> u64 {
        self.0.sets
    }

    /// Carries out a part of it, on so many threads; `advance` is told of every so many sets.
    #[pyo3(signature = (shard=None, threads=None, advance=None))]
    fn run(
        &self,
        py: Python<'_>,
        shard: Option<&str>,
        threads: Option<usize>,
        advance: Option<Py<PyAny>>,
    ) -> PyResult<Outcome> {
        let shard: Shard = shard.map_or(Ok(Shard::WHOLE), str::parse).map_err(errors::usage)?;
        let watch =
            StudyListener { advance, raised: Mutex::new(None), stop: AtomicBool::new(false) };
        // Other threads of Python go on meanwhile: a worker's heartbeat among them.
        let counts = py.detach(|| run(&self.0, shard, threads, &watch));
        if let Some(raised) = watch.raised.into_inner().ok().flatten() {
            return Err(raised);
        }
        counts.map(Outcome::from).map_err(|error| match error {
            StudyRunError::NoSet(error) => errors::damaged(error),
            other => PyValueError::new_err(other.to_string()),
        })
    }
}

/// Tells Python how far a study is, and hears of Ctrl-C.
struct StudyListener {
    advance: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
    stop: AtomicBool,
}

impl Progress for StudyListener {
    fn advance(&self, sets: u64) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.advance.as_ref().map_or(Ok(()), |advance| advance.call1(py, (sets,)).map(drop))
        });
        let Err(raised) = told else { return true };
        self.stop.store(true, Ordering::Relaxed);
        if let Ok(mut first) = self.raised.lock() {
            first.get_or_insert(raised);
        }
        false
    }
}

#[pymethods]
impl Outcome {
    /// Reads the output of `to_bytes`, or a file of the program.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let read = StudyCounts::read(bytes::Bytes::copy_from_slice(bytes));
        let (counts, verification) = read.map_err(errors::damaged)?;
        Ok(Self { counts, doubt: verification.doubt() })
    }

    /// The doubt about the file, as a sentence: it has no checksums.
    #[getter]
    const fn doubt(&self) -> Option<&'static str> {
        self.doubt
    }

    /// It as Parquet.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        self.counts.write(&mut bytes).map_err(errors::damaged)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// It with another part of the same study.
    fn merged(&self, other: &Self) -> PyResult<Self> {
        let mut both = self.counts.clone();
        both.merge(&other.counts).map_err(errors::usage)?;
        Ok(both.into())
    }

    /// Whether every set of the study is in.
    #[getter]
    fn complete(&self) -> bool {
        self.counts.is_whole()
    }

    /// The number of sets of each cap so far.
    #[getter]
    fn sets(&self) -> u64 {
        self.counts.sets()
    }

    /// The outcome, as `corehop check study --json` prints it; with costs also by size.
    #[pyo3(signature = (costs=None))]
    fn json(&self, costs: Option<&Costs>) -> PyResult<String> {
        let answer =
            costs.map_or_else(|| Ok(self.counts.json()), |costs| by_size(&self.counts, costs));
        Ok(answer?.to_string())
    }

    /// A row for each count.
    fn table(&self) -> PyResult<Table> {
        let batch = self.counts.batch().map_err(errors::damaged)?;
        Ok(Table::new(batch.schema(), vec![batch]))
    }

    /// The page of the study.
    fn page(&self) -> String {
        page(&self.counts)
    }
}
