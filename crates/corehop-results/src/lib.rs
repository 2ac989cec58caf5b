// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results: what files say together, computed once, for the program, for pages and for Python alike.
//!
//! [`Gather`] takes the files, and the models do the arithmetic. A report turns [`Results`] into text; a cost model is fitted
//! to them; nothing behind them reads rows again.
#![forbid(unsafe_code)]

mod files;
mod gather;

use corehop_decide::program_runs::RunComparison;
use corehop_decide::run_cost::RunCost;
use corehop_plan::finding::Finding;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{MissingFile, OverheadFacts, Provenance, Recording, Verification};
use corehop_sched::supply::SupplySummary;
use corehop_stats::access::{Curve, Edge};
use corehop_stats::balance::{Balance, Levels, Translation};
use corehop_stats::budget::Budget;
use corehop_stats::conditions::Spreading;
use corehop_stats::cpmd::Fit;
use corehop_stats::estimator::Estimator;
use corehop_stats::lengths::LengthSummary;
use corehop_stats::overheads::OverheadSummary;
use corehop_stats::saturation::Saturation;
use corehop_stats::scatter::Cloud;
use corehop_stats::sharing::SharingSummary;
use corehop_stats::summary::CellSummary;
use corehop_stats::switching::{NotMeasured, SwitchSummary};
use corehop_stats::tasks::TaskReport;
use corehop_stats::verdict::Verdict;

pub use files::{Files, gathered};
pub use gather::{Gather, StrangePlatform, incomplete};

/// All that files say together.
#[derive(Debug, Clone)]
pub struct Results {
    /// The estimator of delays.
    pub estimator: Estimator,
    /// The files it is made of.
    pub files: Vec<FileNote>,
    /// The machines they were made on.
    pub machines: Vec<MachineNote>,
    /// The cells.
    pub summaries: Vec<CellSummary>,
    /// The causes of the spread of a cell.
    pub spreads: Vec<Spreading>,
    /// Delays against preemption lengths.
    pub clouds: Vec<Cloud>,
    /// Access times.
    pub curves: Vec<Curve>,
    /// Preemption lengths, got against asked for.
    pub lengths: Vec<LengthSummary>,
    /// The gain of threads with common data from a common cache.
    pub sharings: Vec<SharingSummary>,
    /// The results of task sets under their schedulers.
    pub tasks: Option<TaskReport>,
    /// Scheduling overheads.
    pub overheads: Vec<OverheadSummary>,
    /// The cost of core switches.
    pub switches: Vec<SwitchSummary>,
    /// The mechanisms of core switches without a valid batch.
    pub switches_not_measured: Vec<NotMeasured>,
    /// The time that CPUs did not supply.
    pub supply: Vec<SupplySummary>,
    /// The facts of the measurements of overheads, one for each file.
    pub overhead_facts: Vec<OverheadFacts>,
    /// Recorded programs.
    pub recorded: Vec<Recorded>,
    /// Files that belong beside these and are not there.
    pub missing: Vec<MissingFile>,
    /// The lost samples, and the causes.
    pub budget: Budget,
    /// The share of translation.
    pub translations: Vec<Translation>,
    /// The lengths at which delays stop growing.
    pub saturations: Vec<Saturation>,
    /// All that a model of the delays is fitted from. It is fitted on demand, as that takes time.
    pub fit: Fit,
}

/// A recorded program, without the cost of its events.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The comparison of its arms, if it has some.
    pub comparison: Option<RunComparison>,
    /// The recording.
    pub recording: Recording,
    /// Its events by class, thread and preempter.
    pub cost: RunCost,
    /// The machine that it ran on.
    pub platform: Platform,
}

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
    pub verdicts: Vec<Verdict>,
    /// Declared caches beside the access-time curve.
    pub edges: Vec<Edge>,
    /// The times of its levels.
    pub levels: Option<Levels>,
    /// The part of its delays that they explain.
    pub balances: Vec<Balance>,
}
