// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results: what files say together, computed once, for the program, for pages and for Python alike.
//!
//! [`Gather`] takes the files, and the models do the arithmetic. A report turns [`Results`] into text; a cost model is fitted
//! to them; nothing behind them reads rows again.
#![forbid(unsafe_code)]

mod files;
mod gather;
mod kinds;
mod program;

use corehop_plan::finding::Finding;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Provenance, Verification};
use corehop_stats::access::Edge;
use corehop_stats::balance::{Balance, LevelLatencies};
use corehop_stats::verdict::ClaimVerdict;

pub use files::{FileSystem, expects_jobs, gathered, is_recording};
pub use gather::{Gather, StrangePlatform, incomplete};
pub use kinds::Results;
pub use program::Recorded;

/// A file of results.
#[derive(Debug, Clone, PartialEq)]
pub struct FileNote {
    /// Its name.
    pub name: String,
    /// The kind of its rows.
    pub rows: String,
    /// The version of the row types.
    pub schema: u32,
    /// The number of rows read.
    pub n_rows: u64,
    /// Why it is not a whole run, if it is not.
    pub incomplete: Option<String>,
    /// Whether checksums vouch for its rows.
    pub verification: Verification,
    /// The origin of its rows.
    pub provenance: Provenance,
}

/// A machine of results.
#[derive(Debug, Clone)]
pub struct MachineNote {
    /// Its id.
    pub id: String,
    /// Its description; None where a file carries no platform that can be read.
    pub platform: Option<Platform>,
    /// The findings of the doctor before the run.
    pub findings: Vec<Finding>,
    /// The observations of the studies, each with a verdict.
    pub verdicts: Vec<ClaimVerdict>,
    /// Declared caches beside the access-time curve.
    pub edges: Vec<Edge>,
    /// The times of its levels.
    pub levels: Option<LevelLatencies>,
    /// The part of its delays that they explain.
    pub balances: Vec<Balance>,
}
