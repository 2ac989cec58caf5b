// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two results, compared in process.

use std::path::PathBuf;

use corehop_app::compare::{ComparisonRequest, compare as compared};
use corehop_app::doubts;
use corehop_plan::units::Nanos;
use corehop_stats::estimator::Estimator;
use pyo3::prelude::*;

use crate::errors;

/// The columns of a text that no terminal asked for.
const COLUMNS: usize = 100;

/// Two results, two folders of results, or the arms of one recording, compared; as JSON.
#[pyfunction]
#[pyo3(signature = (a, b, margin, least, fail_on, confidence, estimator, output, force))]
#[expect(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "those of the command line, as Python hands them over"
)]
pub(crate) fn compare(
    py: Python<'_>,
    a: PathBuf,
    b: Option<PathBuf>,
    margin: f64,
    least: Option<&str>,
    fail_on: Vec<String>,
    confidence: f64,
    estimator: Option<&str>,
    output: Option<PathBuf>,
    force: bool,
) -> PyResult<String> {
    let least = least.map(str::parse::<Nanos>).transpose().map_err(errors::usage)?;
    let fail_on = fail_on.iter().map(|word| word.parse()).collect::<Result<_, _>>();
    let estimator = estimator.map(str::parse::<Estimator>).transpose().map_err(errors::usage)?;
    let request = ComparisonRequest {
        a,
        b,
        margin,
        least,
        fail_on: fail_on.map_err(|error: corehop_plan::words::UnknownWord| errors::usage(error))?,
        confidence,
        estimator,
        width: COLUMNS,
        output,
        force,
        command: String::new(),
    };
    // Those of an earlier call are not about these files.
    doubts::forget();
    let answer = py.detach(|| compared(&request)).map_err(errors::failure)?;
    Ok(answer.json.to_string())
}
