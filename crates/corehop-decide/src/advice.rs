// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advises, for one machine and from a model of its costs, whether a thread should wait for its CPU when another
//! thread has it, or move to another CPU (Wächtler 2012, section 6.4, applied to this machine).
//!
//! Staying costs the wait plus a preemption of the wait's length. Moving immediately costs a migration without a
//! wait. So the answer is the expected wait from which a move costs less, by working set size and class of migration
//! ([`AdvisedMove::pays_from`]). Both costs have intervals, and so does this wait. Below the low end staying surely
//! costs less, and above the high end moving surely costs less. Between the two ends the samples do not decide.
//!
//! The preemption costs are measured in one [`Company`], the activity on the CPU while the thread is away. An
//! immediate migration has no absence, so the advice uses the migration after the shortest measured absence, if
//! possible one during which nothing ran. A migration after an absence in company costs at least as much as an
//! immediate migration, so its cost is only an upper bound.

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

/// The options for advice.
#[derive(Debug, Clone, PartialEq)]
pub struct AdviceQuery {
    /// The working set sizes; if empty, the sizes of the measured preemptions.
    pub wss: Vec<Bytes>,
    /// The expected wait, which is the preemption length if the thread stays. If `None`, the advice covers the usual
    /// waits.
    pub length: Option<Nanos>,
    /// Filters on further fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

/// The advice for one machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Advice {
    /// The wait from which moving costs less than staying, for each load, company and size.
    pub rules: Vec<AdviceRule>,
    /// The cost of company to a job that stays on its CPU.
    pub isolation: Vec<Isolation>,
    /// Constants for the configuration of schedulers, by load and company.
    pub constants: Vec<Constants>,
    /// The savings of partitioning the cache, if the costs were simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitioning: Vec<Saving>,
    /// The reasons why some advice is missing.
    pub silent: Vec<String>,
    /// The missing measurements that leave an answer wide, with the commands that take them.
    pub lacking: Vec<String>,
}

/// The advice for one working set under one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceRule {
    /// The background load to which the advice applies.
    pub load: String,
    /// The activity on the CPU while the thread waits for it.
    pub company: Company,
    /// The working set size in bytes.
    pub wss_bytes: u64,
    /// The measured classes of migration, from near to far.
    pub moves: Vec<AdvisedMove>,
    /// The advice for the requested wait, or for the usual waits, ascending.
    pub waits: Vec<AdvisedWait>,
}

/// An immediate migration instead of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvisedMove {
    /// The class of the migration.
    pub event: Event,
    /// The median cost of the migration.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The absence after which the migration was measured, in microseconds; 0 if the thread moved immediately.
    pub length_us: f64,
    /// Whether the thread was away in company for `length_us`, so that `cost` is an upper bound for an immediate
    /// migration.
    pub at_most: bool,
    /// The number of samples behind the cost: at this size, or the smaller number of the two neighbouring sizes.
    pub n: usize,
    /// The number of replicates of these samples; `None` in models from versions without replicates.
    pub replicates: Option<usize>,
    /// The expected wait from which the move costs less than staying, in microseconds.
    pub pays_from: CostEstimate,
    /// The relation of the wait `pays_from` to the lengths of the measured preemptions.
    pub known_by: WaitOrigin,
}

/// The advice for one expected wait.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdvisedWait {
    /// The wait, in microseconds.
    pub wait_us: f64,
    /// The cost of staying beyond the wait: the median cost of a preemption of the wait's length.
    pub stay: CostEstimate,
    /// The advice: stay, move, or unknown.
    pub verdict: Preference,
}

/// The choice that costs less according to the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// Every move surely costs more than staying.
    Stay,
    /// A migration of this class surely costs less than staying, and from a shorter wait than a migration of any other
    /// class.
    Move(Event),
    /// The samples do not decide.
    Unknown,
}

/// The largest possible saving if other activity does not evict the job's cache lines: the cost of a preemption in
/// company minus the cost of an equally long absence in which nothing else runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Isolation {
    /// The background load of the measurement.
    pub load: String,
    /// The activity on the CPU while the job was away.
    pub company: Company,
    /// The working set size in bytes.
    pub wss_bytes: u64,
    /// The length of both absences, in microseconds.
    pub length_us: f64,
    /// The median saving per preemption.
    pub saves: CostEstimate,
    /// The number of samples in the smaller of both cells.
    pub n: usize,
    /// The number of replicates in the smaller of both cells.
    pub replicates: Option<usize>,
}

/// Constants that schedulers use as parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constants {
    /// The background load under which the constants were measured.
    pub load: String,
    /// The activity on the CPU while jobs were away.
    pub company: Company,
    /// The working set size in bytes: the largest measured size that fits into the core's private caches.
    pub wss_bytes: u64,
    /// The additional cost of a migration compared with staying; `None` if that cost is not known to be above zero.
    pub migration: Option<Extra>,
    /// The reason why there is no migration constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The time for which a job that was switched out still finds half of its cache lines, in microseconds. A sched_ext
    /// scheduler can use this time as its warm budget. The value is `None` if the measured lengths do not show that
    /// time.
    pub warm_budget_us: Option<f64>,
    /// The smallest numbers of samples and replicates among the lengths that determine the warm budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_budget_n: Option<(usize, Option<usize>)>,
}

/// The additional cost of the nearest measured migration, compared with resuming in place after an equally long
/// absence in the same company. Linux calls this cost `sched_migration_cost_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Extra {
    /// The class of the migration.
    pub event: Event,
    /// The event whose cost was subtracted: `idle_leave` if nothing else runs, otherwise the preemption.
    pub beyond: Event,
    /// The length of both absences, in microseconds.
    pub length_us: f64,
    /// The measured difference; its interval excludes zero.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The number of samples in the smaller of both cells.
    pub n: usize,
    /// The number of replicates in the smaller of both cells.
    pub replicates: Option<usize>,
}

/// Returns the advice that `model` supports.
///
/// # Errors
/// Returns [`NoAnswer::Several`] if several series match, or another error if `wanted` is unclear. Missing measurements
/// are no error, but are listed in [`Advice::silent`].
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
            let why = format!("no preemption was measured under the load {load}");
            advice.silent.push(format!("{why}; {}", asking::remedy(load, "preemption", "1ms")));
        }
    }
    Ok(advice)
}

/// Formats numbers of samples and replicates as `60 in 20`.
pub fn counted(n: usize, replicates: Option<usize>) -> String {
    replicates.map_or_else(|| n.to_string(), |replicates| format!("{n} in {replicates}"))
}

#[cfg(test)]
mod tests;
