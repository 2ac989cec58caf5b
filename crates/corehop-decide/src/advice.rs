// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for one machine, from a model of its costs: preempt or migrate, where to, which migrations to
//! avoid, where it makes no difference (Wächtler 2012, section 6.4, for the machine at hand).
//!
//! Like is compared with like: absences of one length in one [`Company`]. A preemption during which a
//! preemptor walked 4 MiB and a migration during which nothing ran are not compared.
//!
//! A choice is preferred if its interval ends below every other interval. Two choices are equivalent if no
//! values of their intervals differ by more than the margin; a third, more expensive one does not matter.
//! Everything else is "not enough evidence": measure more, or at that size. If the curve pools a measured
//! value with its neighbours, both have to agree. A move is never advised if a preemption of that load, size
//! and length was measured to cost no more, in any company.

mod asking;
mod preference;
mod prices;
mod sure;

use serde::Serialize;

use super::simulated::Saving;
use asking::AdviceSubject;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
pub use corehop_stats::company::Company;
use corehop_stats::cpmd::{CostEstimate, DelayModel, NoAnswer};
pub use preference::Preference;

/// The options of the advice.
#[derive(Debug, Clone, PartialEq)]
pub struct AdviceQuery {
    /// The sizes; those of the preemptions that were measured where it is empty.
    pub wss: Vec<Bytes>,
    /// The preemption length; the longest measured of stays and moves where there is none.
    pub length: Option<Nanos>,
    /// The difference that does not matter, as a share of the smaller cost; never less than
    /// [`LEAST_MARGIN_US`].
    pub margin: f64,
    /// Other fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

/// Differences below this never matter, in microseconds.
pub const LEAST_MARGIN_US: f64 = 1.0;

/// The advice.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Advice {
    /// For each load, company and size, what to prefer.
    pub rules: Vec<AdviceRule>,
    /// The cost of company to a job that stays.
    pub isolation: Vec<Isolation>,
    /// The constants that schedulers ask for, by load and company.
    pub constants: Vec<Constants>,
    /// The savings of dividing the cache, if simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitioning: Vec<Saving>,
    /// For the map: for each load, company, size and preemption length what to prefer.
    pub map: Vec<MapCell>,
    /// The reasons for missing advice.
    pub silent: Vec<String>,
}

/// The advice for a working set after absences of one length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MapCell {
    /// The load.
    pub load: String,
    /// The company meanwhile.
    pub company: Company,
    /// The size.
    pub wss_bytes: u64,
    /// The preemption length, in microseconds.
    pub length_us: f64,
    /// The cost of staying.
    pub stay: AdviceChoice,
    /// The cheapest migration.
    pub migration: AdviceChoice,
    /// The advice.
    pub verdict: Preference,
}

/// The advice for one working set under one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdviceRule {
    /// The load.
    pub load: String,
    /// The company while the job was away, whether it stayed or moved.
    pub company: Company,
    /// The size.
    pub wss_bytes: u64,
    /// The preemption length that all costs are for, in microseconds: that asked for, or the longest
    /// at which staying and a migration were measured at this size.
    pub length_us: f64,
    /// The choices, the cheapest first.
    pub choices: Vec<AdviceChoice>,
    /// The advice.
    pub verdict: Preference,
    /// The difference that does not matter here, in microseconds.
    pub margin_us: f64,
    /// The preemption length at which the answer flips.
    pub flip: Option<Flip>,
}

/// Something that can be done with a job whose CPU is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdviceChoice {
    /// Wait here, or move. Where nothing else runs, an undisturbed absence stands in for a preemption.
    pub event: Event,
    /// Its cost, in the median, off the curve.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The measured cost, where the curve pools it with its neighbours to stay monotone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<CostEstimate>,
    /// Samples that it is read off: at this size, or the fewer of those at the two around it.
    pub n: usize,
    /// Their replicates; None in models of before there were any.
    pub replicates: Option<usize>,
    /// Whether it is a migration that surely costs more than staying does.
    pub avoid: bool,
}

impl AdviceChoice {
    /// The measured cost, or the curve's value where nothing was pooled.
    pub fn seen(&self) -> CostEstimate {
        self.measured.unwrap_or(self.cost)
    }

    /// Whether it surely costs less than another: off the curve, and as measured.
    fn surely_less(&self, other: &Self) -> bool {
        self.cost.surely_less(&other.cost) && self.seen().surely_less(&other.seen())
    }
}

/// Between which preemption lengths a migration becomes the cheaper choice, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Flip {
    /// The migration.
    pub to: Event,
    /// The longest length measured after which staying surely costs less; None where there is none.
    pub not_yet_us: Option<f64>,
    /// The shortest length measured after which staying surely costs more; None where there is none.
    pub by_us: Option<f64>,
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
        let companies = Company::measured(model, load, &wanted.only)?;
        if companies.is_empty() {
            let why = format!("load {load}: no preemption was measured under it");
            advice.silent.push(why);
        }
        for company in companies {
            AdviceSubject::new(model, wanted, load, company)?.advise(&mut advice)?;
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
