// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a placer.

use serde::{Deserialize, Serialize};

/// The settings of a placer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The number of windows with evidence before a proposal.
    pub evidence: u32,
    /// The half-life of evidence, in seconds.
    pub half_life_s: f64,
    /// The smallest saving worth a proposal, as CPU time per second, in CPUs.
    pub least_gain: f64,
    /// The cost of moving a thread, in nanoseconds.
    pub move_cost_ns: f64,
    /// The time in which a move must pay for itself, in seconds.
    pub horizon_s: f64,
    /// Whether threads may be moved; otherwise the placer only proposes.
    pub may_move: bool,
    /// Whether to try placements without evidence in their favour.
    pub search: bool,
    /// The time after which all threads are put back, in seconds; `None` if the run ends with the
    /// program.
    #[serde(default)]
    pub ends_after_s: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            evidence: 5,
            half_life_s: 2.0,
            least_gain: 0.01,
            move_cost_ns: 200_000.0,
            horizon_s: 10.0,
            may_move: false,
            search: false,
            ends_after_s: None,
        }
    }
}
