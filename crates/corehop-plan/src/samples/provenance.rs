// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provenance of a result, which suffices to reproduce and to question it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::experiment::{Plan, digest};

/// The provenance of a result, stored in its metadata as one JSON object.
///
/// The named fields occur in every result; facts that a machine adds (kernel, governor, findings,
/// calibration) are in [`Provenance::machine`], under keys of the machine's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of corehop that wrote the result.
    pub corehop: String,
    /// The command line that produced the result.
    pub command: Vec<String>,
    /// The start of the run, as UTC in ISO 8601.
    pub date: String,
    /// The seed of all random draws of the run.
    pub seed: u64,
    /// The name of the experiment that was run.
    pub experiment: String,
    /// The parameters of the experiment, which determine the plan.
    #[serde(default)]
    pub parameters: Value,
    /// The digests of all plans of the run, joined by `+`.
    pub plan_digest: String,
    /// The plan of the first run in the file; `None` if the plan is too large to store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The description of the platform, in TOML.
    pub platform: String,
    /// The machine's description of itself and of its runs.
    #[serde(default)]
    pub machine: Map<String, Value>,
    /// The cause that stopped the run early, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// The number of cells that lack requested samples.
    #[serde(default)]
    pub cells_lacking_samples: u64,
}

impl Provenance {
    /// Adds the digest of a plan that is about to run, and the first plan itself if it is small.
    pub fn note_plan(&mut self, plan: &Plan) {
        const SMALL: usize = 64 << 10;
        let plan = plan.to_json();
        if !self.plan_digest.is_empty() {
            self.plan_digest.push('+');
        } else if plan.len() <= SMALL {
            self.plan = serde_json::from_str(&plan).ok();
        }
        self.plan_digest.push_str(&digest(&plan));
    }

    /// Returns the provenance as JSON.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}
