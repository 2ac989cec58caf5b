// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability tests and studies, computed in process.

use corehop_app::check::{AskedSet, ChargedDelays, SetAnswer, SetQuestion};
use corehop_plan::samples::Reader;
use corehop_plan::units::Nanos;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::set_file;
use corehop_report::study::page;
use corehop_sched::limited::remedy::Remedies;
use corehop_sched::margin::MarginRequest;
use corehop_sched::study::{
    Progress, SchedulabilityStudy as Described, Shard, StudyCounts, StudyRunError, run,
};
use corehop_sched::supply::{self, InUnits, Supplies};
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
    let question = SetQuestion::of(&set, platform, name, scheduler).map_err(errors::failure)?;
    let selected = costs.map(|costs| costs.source.for_a_verdict(&costs.selection));
    selected.transpose().map_err(errors::usage)?;
    if delay_us.is_none() && costs.is_none() && set.wss_kib().iter().any(Option::is_some) {
        return Err(errors::usage(
            "wss_kib is given, and nothing says what a working set costs: give costs, or \
             delay_us (0 to charge none)",
        ));
    }
    let delays = match (delay_us.map(microseconds).transpose()?, costs) {
        (Some(delay), _) => ChargedDelays::Each(delay),
        (None, Some(costs)) => ChargedDelays::Costs(&costs.source, &costs.selection),
        (None, None) => ChargedDelays::Nothing,
    };
    let supply = supply.map(|path| supplies(&path)).transpose()?;
    if let Some(supply) = &supply {
        supply.check(&set).map_err(errors::usage)?;
    }
    let supply = supply.as_ref().map(InUnits::of);
    let asked = AskedSet {
        set: &set,
        platform,
        delays,
        overheads: None,
        supply: supply.as_ref(),
        accept_largest,
        wishes: MarginRequest { slack, schedule: false },
    };
    let answers = py.detach(|| {
        asked.ask(question).map(|answer| match answer {
            SetAnswer::One(checked) => vec![checked.json(&set)],
            SetAnswer::Survey(survey) => survey.json_at_length(&set),
        })
    });
    Ok(Value::Array(answers.map_err(errors::failure)?).to_string())
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

    /// The page of the study. A table that is too long for the page is cut, and all rows are in Python.
    fn page(&self) -> String {
        page(&self.counts, &corehop_app::study::sentence(&self.counts), "")
    }
}
