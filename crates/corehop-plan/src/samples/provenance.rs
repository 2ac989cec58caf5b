// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provenance of a result: enough to reproduce and to question it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::experiment::{Plan, digest};

/// The provenance block in a result's metadata, as one JSON object.
///
/// The fields that every result has are named here; what a machine adds of its own (kernel,
/// governor, findings, calibration) stands under [`Provenance::machine`], in its own words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of corehop that wrote it.
    pub corehop: String,
    /// The command that made it.
    pub command: Vec<String>,
    /// When the run began, as UTC in ISO 8601.
    pub date: String,
    /// The seed.
    pub seed: u64,
    /// The experiment.
    pub experiment: String,
    /// Its parameters, from which the plan follows.
    #[serde(default)]
    pub parameters: Value,
    /// The plan's digest.
    pub plan_digest: String,
    /// The plan itself, where it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The platform, in TOML.
    pub platform: String,
    /// The machine's description of itself and of the run.
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
    /// Enters a plan that is about to run: the digests of all, and the first one whole if it is small.
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

    /// The block as JSON.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }
}
