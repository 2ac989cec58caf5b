// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results: the common conclusions from several files, computed once for the program, for pages and for Python.
//!
//! [`Gather`] reads the files, and the statistical models compute the results. A report turns [`Results`] into text,
//! and a cost model is fitted to them; no later stage reads rows again.
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

/// A file of results that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct FileNote {
    /// The name of the file with the rows.
    pub name: String,
    /// The kind of the file's rows.
    pub rows: String,
    /// The version of the row types.
    pub schema: u32,
    /// The number of rows that were read from the file.
    pub n_rows: u64,
    /// The reason why the file is not a complete run, or `None` for a complete run.
    pub incomplete: Option<String>,
    /// Whether checksums verified the file's rows.
    pub verification: Verification,
    /// The provenance of the file's rows.
    pub provenance: Provenance,
}

/// A machine on which results were measured.
#[derive(Debug, Clone)]
pub struct MachineNote {
    /// The id of the machine that took the rows.
    pub id: String,
    /// The description of the machine, or `None` if no file has a readable platform.
    pub platform: Option<Platform>,
    /// The findings of `corehop doctor` before the run.
    pub findings: Vec<Finding>,
    /// The verdicts on the observations of the studies.
    pub verdicts: Vec<ClaimVerdict>,
    /// The declared caches, compared with the access-time curve.
    pub edges: Vec<Edge>,
    /// The access times of the machine's cache levels.
    pub levels: Option<LevelLatencies>,
    /// The part of each delay that the access times explain.
    pub balances: Vec<Balance>,
}
