// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a placer.

use serde::{Deserialize, Serialize};

/// The settings of a placer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Windows of evidence before a proposal.
    pub evidence: u32,
    /// The half-life of evidence, in seconds.
    pub half_life_s: f64,
    /// The least gain that is proposed: CPU time per second, in CPUs.
    pub least_gain: f64,
    /// The cost of moving a thread, in nanoseconds.
    pub move_cost_ns: f64,
    /// The time in which a move has to pay for itself, in seconds.
    pub horizon_s: f64,
    /// Whether threads may be moved; else it proposes and moves nothing.
    pub may_move: bool,
    /// Whether placements are tried that no evidence speaks for.
    pub search: bool,
    /// The time after which everything is put back, in seconds; None where the program ends it.
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
