// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for one machine, from a model of its costs: let a thread whose CPU is wanted wait for that CPU, or move it
//! (Wächtler 2012, section 6.4, for the machine at hand).
//!
//! To stay costs the wait and a preemption of that length. To move at once costs a migration, and no wait. So the answer is
//! the expected wait from which a move pays, by working set and class of migration ([`AdvisedMove::pays_from`]). Both costs
//! have intervals, and so has that wait: below its low end staying surely costs less, above its high end moving does, and
//! between the two the samples do not tell.
//!
//! The preemptions are those in one [`Company`]. A migration at once needs none: the one after the shortest absence
//! that was measured is taken, if possible one during which nothing ran. An absence in company costs a migration more
//! than none does, so such a migration bounds a move at once from above only.

mod asking;
mod prices;
mod program;
mod sure;
mod waiting;

use serde::Serialize;

use super::simulated::Saving;
use asking::AdviceSubject;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
pub use corehop_stats::company::Company;
use corehop_stats::cpmd::{CostEstimate, DelayModel, NoAnswer};
pub use program::ProgramAdvice;
pub use waiting::WaitOrigin;

/// The options of the advice.
#[derive(Debug, Clone, PartialEq)]
pub struct AdviceQuery {
    /// The sizes; those of the preemptions that were measured where it is empty.
    pub wss: Vec<Bytes>,
    /// The expected wait: the preemption length if the thread stays. Advice on the usual waits where there is none.
    pub length: Option<Nanos>,
    /// Other fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

/// The advice.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Advice {
    /// For each load, company and size, from which wait on to move.
    pub rules: Vec<AdviceRule>,
    /// The cost of company to a job that stays.
    pub isolation: Vec<Isolation>,
    /// The constants that schedulers ask for, by load and company.
    pub constants: Vec<Constants>,
    /// The savings of dividing the cache, if simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitioning: Vec<Saving>,
    /// The reasons for missing advice.
    pub silent: Vec<String>,
    /// The measurements whose lack leaves an answer wide, with the commands that take them.
    pub lacking: Vec<String>,
}

/// The advice for one working set under one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceRule {
    /// The load.
    pub load: String,
    /// The company that has the CPU while the thread waits for it.
    pub company: Company,
    /// The size.
    pub wss_bytes: u64,
    /// The migrations that were measured, from near to far.
    pub moves: Vec<AdvisedMove>,
    /// The advice for the wait that was asked for, or for the usual ones, ascending.
    pub waits: Vec<AdvisedWait>,
}

/// A migration at once, in place of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvisedMove {
    /// The migration.
    pub event: Event,
    /// Its cost, in the median.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The absence after which it was measured, in microseconds; 0 where the thread moved at once.
    pub length_us: f64,
    /// Whether the thread was away in company that long, so that a move at once costs at most this.
    pub at_most: bool,
    /// Samples that it is read off: at this size, or the fewer of those at the two around it.
    pub n: usize,
    /// Their replicates; None in models of before there were any.
    pub replicates: Option<usize>,
    /// The expected wait from which the move pays, in microseconds.
    pub pays_from: CostEstimate,
    /// The place of that wait among the measured preemptions.
    pub known_by: WaitOrigin,
}

/// The advice for an expected wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvisedWait {
    /// The wait, in microseconds.
    pub wait_us: f64,
    /// The cost of staying beyond the wait: that of a preemption of that length, in the median.
    pub stay: CostEstimate,
    /// The advice.
    pub verdict: Preference,
}

/// The preference by the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// Every move surely costs more than staying.
    Stay,
    /// This move surely costs less than staying, and does so from a shorter wait on than any other.
    Move(Event),
    /// It cannot be told.
    Unknown,
}

/// The greatest saving of keeping company out of the job's cache lines: a preemption in that company less an
/// absence of the same length in which nothing else runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Isolation {
    /// The load.
    pub load: String,
    /// The company while the job was away.
    pub company: Company,
    /// The size.
    pub wss_bytes: u64,
    /// The preemption length of both, in microseconds.
    pub length_us: f64,
    /// The saving, in the median.
    pub saves: CostEstimate,
    /// Samples of the cell with fewer.
    pub n: usize,
    /// Replicates of the cell with fewer.
    pub replicates: Option<usize>,
}

/// Constants for schedulers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constants {
    /// The load.
    pub load: String,
    /// The company while jobs were away.
    pub company: Company,
    /// The size they are for: the largest measured that the job's own caches hold.
    pub wss_bytes: u64,
    /// The cost of a migration beyond staying; None where it is not known to be above zero.
    pub migration: Option<Extra>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The time after which a job that was switched out still finds half of its lines, in microseconds: the
    /// warm budget of a sched_ext scheduler; None where the measured lengths do not tell.
    pub warm_budget_us: Option<f64>,
    /// The fewest samples and replicates of a length that the budget is read off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_budget_n: Option<(usize, Option<usize>)>,
}

/// The cost of the nearest measured migration beyond resuming in place after an absence of the same length in
/// the same company: the meaning of Linux's `sched_migration_cost_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Extra {
    /// The migration.
    pub event: Event,
    /// The event that was subtracted: `idle_leave` where nothing else runs, otherwise the preemption.
    pub beyond: Event,
    /// The preemption length of both, in microseconds.
    pub length_us: f64,
    /// The difference, as measured; its interval excludes zero.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// Samples of the cell with fewer.
    pub n: usize,
    /// Replicates of the cell with fewer.
    pub replicates: Option<usize>,
}

/// The advice that `model` carries.
///
/// # Errors
/// [`NoAnswer::Several`] where several series fit, or whatever else makes a question of `wanted` unclear;
/// what was simply not measured goes to [`Advice::silent`].
pub fn advise(model: &DelayModel, wanted: &AdviceQuery) -> Result<Advice, NoAnswer> {
    let mut loads: Vec<&str> = Vec::new();
    for curve in &model.curves {
        let load = curve.series.key.load.as_str();
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let mut advice = Advice::default();
    for load in loads {
        let mut preempted = false;
        for company in Company::measured(model, load, &wanted.only)? {
            let subject = AdviceSubject::new(model, wanted, load, company)?;
            preempted |= subject.series(Event::Preemption).is_some();
            subject.advise(&mut advice)?;
        }
        if !preempted {
            let why = format!("load {load}: no preemption was measured under it");
            advice.silent.push(format!("{why}; {}", asking::remedy(load, "preemption", "1ms")));
        }
    }
    Ok(advice)
}

/// `60 in 20`: samples, and in how many replicates.
pub fn counted(n: usize, replicates: Option<usize>) -> String {
    replicates.map_or_else(|| n.to_string(), |replicates| format!("{n} in {replicates}"))
}

#[cfg(test)]
mod tests;
