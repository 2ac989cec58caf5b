// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prediction that tells programs that gain by a common cache from those that do not.

use corehop_decide::validation::regression::RegressionStudy;
use serde_json::{Value, json};

use crate::Fallible;

/// False alarms over the printed rows, one benchmark left out at a time.
pub(crate) fn figure() -> Fallible<Value> {
    let study = RegressionStudy::named("kamali-regression").ok_or("no such study")??;
    let (form, judged) = study.taken().ok_or("the rows do not determine a form")?;
    Ok(json!({
        "name": "place/model-false-alarms", "value": judged.false_alarms, "unit": "rows", "of": judged.without_gain,
        "form": form, "found": judged.found, "gains": judged.with_gain, "mean_error": judged.mean_error,
    }))
}
