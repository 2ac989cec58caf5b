// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of what preemptions and migrations cost, and what follows from them.

use corehop_app::advise::SimulatedAdvice;
use corehop_decide::advice::{AdviceQuery, advise as advised};
use corehop_plan::platform;
use corehop_plan::samples::{Row, Sample};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_stats::balance::LevelLatencies;
use corehop_stats::costs::{CostSource, CostTable, Selection};
use corehop_stats::cpmd::{DelayFitter, DelayQuery, Method, Statistic};
use corehop_stats::estimator::Estimator;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors;
use crate::file::File;
use crate::platform::PlatformDescription;

/// A fitted model of costs.
#[pyclass(frozen, module = "corehop._corehop")]
#[derive(Debug)]
pub(crate) struct Model(pub(crate) corehop_stats::cpmd::DelayModel);

/// Fields of series, as names and values.
type Only = Vec<(String, String)>;

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> PyResult<T> {
    text.parse().map_err(errors::usage)
}

fn length_of(length: Option<&str>) -> PyResult<Option<Nanos>> {
    length.map(parsed).transpose()
}

#[pymethods]
impl Model {
    /// A model of the delays in files of samples.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "that is how Python hands them over")]
    fn fit(py: Python<'_>, files: Vec<Py<File>>, estimator: &str) -> PyResult<Self> {
        let mut fit = DelayFitter::new(parsed::<Estimator>(estimator)?);
        for file in &files {
            let file = file.get();
            if file.kind() != Sample::KIND {
                return Err(file.lacks("delay"));
            }
            fit.take(&file.rows::<Sample>()?);
            if let Some(platform) = file.platform() {
                fit.machine(&platform, &LevelLatencies::of(&platform, &[]));
            }
        }
        let model = py.detach(|| fit.finish());
        if model.curves.is_empty() {
            return Err(errors::usage("no valid sample of a delay: there is nothing to fit"));
        }
        Ok(Self(model))
    }

    /// A model of delays that are known: event, load, size in bytes, length and delay in microseconds.
    #[staticmethod]
    fn fit_known(rows: Vec<(String, String, u64, f64, f64)>) -> PyResult<Self> {
        let mut fit = DelayFitter::new(Estimator::Difference);
        for (event, load, wss, length_us, delay_us) in rows {
            fit.known(parsed::<Event>(&event)?, &load, Bytes::new(wss), length_us, delay_us);
        }
        let model = fit.finish();
        if model.curves.is_empty() {
            return Err(errors::usage("no delay that is a number: there is nothing to fit"));
        }
        Ok(Self(model))
    }

    /// Reads the output of `corehop advise fit -o`.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let model = corehop_stats::cpmd::DelayModel::from_json(text);
        model.map(Self).map_err(errors::damaged)
    }

    /// It as `corehop advise fit -o` writes it.
    fn json(&self) -> String {
        self.0.to_json()
    }

    /// The cost of an event at a size, with its interval, as JSON.
    #[pyo3(signature = (wss, event, load, length=None, statistic="mean", method=None, only=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "those of the command line")]
    fn predict(
        &self,
        wss: &str,
        event: &str,
        load: &str,
        length: Option<&str>,
        statistic: &str,
        method: Option<&str>,
        only: Only,
    ) -> PyResult<String> {
        let asked = DelayQuery {
            event: parsed(event)?,
            load: load.to_owned(),
            wss: parsed(wss)?,
            length: length_of(length)?,
            statistic: parsed::<Statistic>(statistic)?,
            method: method.map(parsed::<Method>).transpose()?,
            only,
        };
        let answer = self.0.predict(&asked).map_err(errors::usage)?;
        Ok(json!(answer).to_string())
    }

    /// The advice to a scheduler, as JSON.
    #[pyo3(signature = (wss, length=None, only=Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "that is how Python hands them over")]
    fn advise(&self, wss: Vec<String>, length: Option<&str>, only: Only) -> PyResult<String> {
        let advice = advised(&self.0, &wanted(&wss, length, only)?);
        Ok(json!(advice.map_err(errors::usage)?).to_string())
    }
}

fn wanted(wss: &[String], length: Option<&str>, only: Only) -> PyResult<AdviceQuery> {
    let wss = wss.iter().map(|size| parsed(size)).collect::<PyResult<Vec<Bytes>>>()?;
    Ok(AdviceQuery { wss, length: length_of(length)?, only })
}

/// Advice from a simulation of a platform, as `corehop advise simulate --on` gives it, as JSON.
#[pyfunction]
#[pyo3(signature = (on, wss, length=None, samples=16, seed=1, loaded=true))]
#[expect(clippy::needless_pass_by_value, reason = "that is how Python hands them over")]
pub(crate) fn advise_on(
    py: Python<'_>,
    on: &PlatformDescription,
    wss: Vec<String>,
    length: Option<&str>,
    samples: u32,
    seed: u64,
    loaded: bool,
) -> PyResult<String> {
    let wanted = wanted(&wss, length, Vec::new())?;
    let simulation = SimulatedAdvice { wanted, loaded, samples, seed };
    let platform: &platform::Platform = &on.0;
    let advice = py.detach(|| simulation.on(platform)).map_err(errors::failure)?;
    Ok(json!(advice).to_string())
}

/// A source of costs.
#[pyclass(frozen, module = "corehop._corehop")]
#[derive(Debug)]
pub(crate) struct Costs {
    pub(crate) source: CostSource,
    pub(crate) selection: Selection,
}

#[pymethods]
impl Costs {
    /// A table of costs (CSV), or a model; and which of its costs are meant.
    #[new]
    #[pyo3(signature = (table=None, model=None, load=None, statistic=None, length=None, only=Vec::new()))]
    fn new(
        table: Option<&str>,
        model: Option<&Model>,
        load: Option<String>,
        statistic: Option<String>,
        length: Option<&str>,
        only: Only,
    ) -> PyResult<Self> {
        let source = match (table, model) {
            (Some(table), _) => {
                CostSource::Table(CostTable::parse(table).map_err(errors::damaged)?)
            }
            (None, Some(model)) => CostSource::Model(model.0.clone()),
            (None, None) => return Err(errors::usage("costs are missing")),
        };
        let selection = Selection { load, statistic, length: length_of(length)?, only };
        source.selections(&selection).map_err(errors::usage)?;
        Ok(Self { source, selection })
    }
}

/// The readings of an outcome with costs, as JSON.
pub(crate) fn by_size(
    outcome: &corehop_sched::study::StudyCounts,
    costs: &Costs,
) -> PyResult<Value> {
    let selected = costs.source.selections(&costs.selection).map_err(errors::usage)?;
    Ok(outcome.json_by_size(&selected))
}
