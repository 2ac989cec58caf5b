// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remedies: which task to make non-preemptive for how long, and the savings.
//!
//! A job pays for each preemption that it suffers what its own working set costs to reload. How many it suffers
//! depends on its region, the regions depend on the slack, and the slack on what is paid: the least solution is
//! found from below, starting with no preemption at all.

use serde::Serialize;
use serde_json::{Value, json};

use super::threshold::{Thresholds, largest};
use super::{NoRegions, edf, fixed};
use crate::ranking::Ranking;
use crate::uni::fixed::response_time_analysis;
use crate::verdict::Verdict;
use corehop_plan::words::words;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{Task, TaskError, TaskSet, Tick, Time};
use corehop_stats::costs::{Cost, EventCosts, Highest};

words! {
    /// The way to limit preemptions.
    Limit, "a way to limit preemptions" {
        /// Jobs have floating non-preemptive regions under EDF.
        EdfRegions = "edf_regions",
        /// Jobs have floating non-preemptive regions under fixed priorities.
        FpRegions = "fp_regions",
        /// Tasks have preemption thresholds under fixed priorities.
        FpThresholds = "fp_thresholds",
    }
}

/// The effect of limiting preemptions for a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The way.
    pub limit: Limit,
    /// Whether the set is schedulable fully preemptive, each job paying for all preemptions that it may
    /// suffer then; None where the test does not know.
    pub preemptive: Option<bool>,
    /// For each task, in the order of the set.
    pub tasks: Vec<Treated>,
    /// The share of the CPU that is saved: the sum over the tasks of the saving of a job over its period.
    pub saves_share: Cost,
}

/// The treatment of a task, and the savings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Treated {
    /// For how long it may run on once something more urgent came, in microseconds. With thresholds its whole
    /// WCET for tasks that may not preempt it.
    pub region_us: Time,
    /// The tasks that may preempt it with its threshold, by index; None for regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_by: Option<Vec<usize>>,
    /// The most preemptions that a job may suffer fully preemptive.
    pub preemptions: u64,
    /// The most that remain.
    pub remaining: u64,
    /// The cost of one to the job, in microseconds.
    pub delay: Cost,
    /// The greatest saving of a job, in microseconds.
    pub saves: Cost,
}

/// The effect of each way to limit preemptions for a set on one CPU, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedies {
    /// Each way with its effect.
    pub ways: Vec<(Limit, Result<Remedy, NoRegions>)>,
    /// The quantile whose upper end a preemption is taken to cost, with its number of samples; None where the statistic was
    /// named, or no quantile has an upper end for all tasks.
    pub charged_by: Option<String>,
}

impl Remedies {
    /// Of a set whose tasks say the sizes of their working sets, by the highest quantile whose upper end the samples give
    /// for every task (as a verdict on deadlines charges them), or else by the costs as they stand. Times are whole microseconds,
    /// rounded so that no answer gets better.
    ///
    /// # Errors
    /// [`TaskError`] where the set is not for one CPU, or a task has no size, or one whose cost is not known.
    pub fn of(set: &TaskSet, costs: &dyn EventCosts) -> Result<Self, TaskError> {
        if set.cpus() != 1 {
            return Err(TaskError {
                task: None,
                name: None,
                field: "cpus",
                value: set.cpus().to_string(),
                expected: "1: preemptions are limited on one CPU; pass the tasks of one CPU"
                    .to_owned(),
            });
        }
        let beside = [("locks", set.locks().is_some()), ("chains", set.chains().is_some())];
        if let Some((field, _)) = beside.into_iter().find(|it| it.1) {
            let expected = "none: non-preemptive regions are not analysed with them".to_owned();
            return Err(TaskError {
                task: None,
                name: None,
                field,
                value: "stated".to_owned(),
                expected,
            });
        }
        let sizes: Vec<f64> = set.wss_kib().iter().flatten().map(|&wss| wss as f64).collect();
        let highest = Highest::of(costs, &[Event::Preemption], &sizes);
        let delays = delays(set, highest.as_ref().map_or(costs, |it| it.costs))?;
        let tasks = set.in_whole_microseconds();
        let of = |&limit: &Limit| (limit, remedy(&tasks, limit, &delays));
        let ways = Limit::ALL.iter().map(of).collect();
        Ok(Self { ways, charged_by: highest.map(|it| it.by) })
    }

    /// Whether some way meets all deadlines.
    pub fn is_some(&self) -> bool {
        self.ways.iter().any(|(_, remedy)| remedy.is_ok())
    }

    /// A list, with `why_none` where nothing is known.
    pub fn json(&self) -> Value {
        let one = |(limit, remedy): &(Limit, Result<_, NoRegions>)| {
            let mut one = match remedy {
                Ok(remedy) => json!(remedy),
                Err(why) => json!({ "limit": limit, "why_none": format!("{why}") }),
            };
            if let Some(by) = &self.charged_by {
                one["charged_by"] = json!(by);
            }
            one
        };
        self.ways.iter().map(one).collect()
    }
}

/// The cost of a preemption to each task, by its working set.
fn delays(set: &TaskSet, costs: &dyn EventCosts) -> Result<Vec<Cost>, TaskError> {
    let of = |(at, wss): (usize, &Option<u64>)| {
        let wrong = |value: String, expected: String| {
            let name = set.names()[at].clone();
            TaskError { task: Some(at), name, field: "wss_kib", value, expected }
        };
        let absent = || wrong("absent".to_owned(), "the size of its working set".to_owned());
        let wss = wss.ok_or_else(absent)?;
        let cost = costs.cost(Event::Preemption, wss as f64);
        cost.map_err(|why| wrong(wss.to_string(), format!("a size whose cost is known ({why})")))
    };
    set.wss_kib().iter().enumerate().map(of).collect()
}

/// The effect of limiting preemptions in this way for `tasks` on one CPU, of which a preemption costs each
/// its `delays`. The upper end of each, rounded up to whole microseconds, is charged.
///
/// # Errors
/// [`NoRegions`] where deadlines are missed whatever is done, or the analysis does not cover the tasks.
///
/// # Panics
/// If there are not as many delays as tasks.
pub fn remedy(tasks: &[Task], limit: Limit, delays: &[Cost]) -> Result<Remedy, NoRegions> {
    assert_eq!(tasks.len(), delays.len(), "a delay for each task");
    let preemptions = arrivals(tasks, limit);
    let mut paid = vec![0; tasks.len()];
    let (regions, preempted_by, remaining) = loop {
        let charged = charged(tasks, delays, &paid, limit)?;
        let limited = Limited::of(&charged, limit)?;
        let remaining: Vec<u64> = (0..tasks.len())
            .map(|i| limited.preemptions(&charged, i).min(preemptions[i]))
            .collect();
        if remaining.iter().zip(&paid).all(|(needed, paid)| needed <= paid) {
            break (limited.regions, limited.preempted_by, remaining);
        }
        for (paid, needed) in paid.iter_mut().zip(&remaining) {
            *paid = needed.max(paid).to_owned();
        }
    };
    let treated = |i: usize| Treated {
        region_us: regions[i].min(tasks[i].wcet),
        preempted_by: preempted_by.as_ref().map(|by| by[i].clone()),
        preemptions: preemptions[i],
        remaining: remaining[i],
        delay: delays[i],
        saves: times(delays[i], (preemptions[i] - remaining[i]) as f64),
    };
    let treated: Vec<Treated> = (0..tasks.len()).map(treated).collect();
    let shares =
        treated.iter().zip(tasks).map(|(it, task)| times(it.saves, 1.0 / task.period.as_f64()));
    let nothing = Cost { us: 0.0, low_us: Some(0.0), high_us: Some(0.0) };
    Ok(Remedy {
        limit,
        preemptive: preemptive(tasks, delays, &preemptions, limit),
        saves_share: shares.fold(nothing, |sum, it| Cost {
            us: sum.us + it.us,
            low_us: sum.low_us.zip(it.low_us).map(|(a, b)| a + b),
            high_us: sum.high_us.zip(it.high_us).map(|(a, b)| a + b),
        }),
        tasks: treated,
    })
}

fn times(cost: Cost, by: f64) -> Cost {
    let end = |end: Option<f64>| end.map(|us| us * by);
    Cost { us: cost.us * by, low_us: end(cost.low_us), high_us: end(cost.high_us) }
}

/// The greatest number of preemptions of a job, if nothing limits it: one by each release of a more urgent
/// task before its deadline.
fn arrivals(tasks: &[Task], limit: Limit) -> Vec<u64> {
    let ranking = Ranking::of(tasks);
    let order = ranking.order();
    let of = |i: usize| -> u64 {
        let own = &tasks[i];
        if limit == Limit::EdfRegions {
            // Only jobs that are due earlier preempt, so they come by D_i - D_j.
            let ahead =
                tasks.iter().map(|it| (own.deadline.saturating_sub(it.deadline), it.period));
            return ahead.map(|(ahead, period)| ahead.div_ceil(period)).sum();
        }
        let place = order.iter().position(|&j| j == i).unwrap_or(0);
        ranking.above(place).iter().map(|&j| own.deadline.div_ceil(tasks[j].period)).sum()
    };
    (0..tasks.len()).map(of).collect()
}

/// The tasks, each paying for so many preemptions of a job.
fn charged(
    tasks: &[Task],
    delays: &[Cost],
    paid: &[u64],
    limit: Limit,
) -> Result<Vec<Task>, NoRegions> {
    let of = |(i, task): (usize, &Task)| {
        let each = Tick::Micro.up_from_us(delays[i].high_us.unwrap_or(delays[i].us));
        let wcet = each.checked_mul(paid[i]).and_then(|all| all.checked_add(task.wcet));
        let wcet = wcet.filter(|&wcet| wcet <= task.deadline.min(task.period));
        wcet.map(|wcet| Task { wcet, ..*task }).ok_or(NoRegions::Misses { policy: limit.word() })
    };
    tasks.iter().enumerate().map(of).collect()
}

/// Whether the set is schedulable where all preemptions are paid for.
fn preemptive(tasks: &[Task], delays: &[Cost], all: &[u64], limit: Limit) -> Option<bool> {
    let Ok(charged) = charged(tasks, delays, all, limit) else { return Some(false) };
    let verdict = match limit {
        Limit::EdfRegions => crate::uni::edf::qpa(&charged),
        Limit::FpRegions | Limit::FpThresholds => response_time_analysis(&charged, None),
    };
    match verdict {
        Verdict::Schedulable => Some(true),
        Verdict::Unschedulable => Some(false),
        Verdict::Unknown => None,
    }
}

/// Regions, or thresholds.
struct Limited {
    regions: Vec<Time>,
    preempted_by: Option<Vec<Vec<usize>>>,
}

impl Limited {
    fn of(tasks: &[Task], limit: Limit) -> Result<Self, NoRegions> {
        Ok(match limit {
            Limit::EdfRegions => Self { regions: edf::regions(tasks)?, preempted_by: None },
            Limit::FpRegions => Self { regions: fixed::regions(tasks)?, preempted_by: None },
            Limit::FpThresholds => {
                let Thresholds { order, thresholds, .. } = largest(tasks)?;
                let mut preempted_by = vec![Vec::new(); tasks.len()];
                for (at, &i) in order.iter().enumerate() {
                    preempted_by[i] = order[..thresholds[at]].to_vec();
                }
                let regions = tasks.iter().map(|task| task.wcet).collect();
                Self { regions, preempted_by: Some(preempted_by) }
            }
        })
    }

    /// The greatest number of preemptions of a job: between two preemptions lies a region, and none comes
    /// before a region has passed; with a threshold, one by each release of a task above it.
    fn preemptions(&self, tasks: &[Task], i: usize) -> u64 {
        let own = &tasks[i];
        match &self.preempted_by {
            Some(by) => by[i].iter().map(|&j| own.deadline.div_ceil(tasks[j].period)).sum(),
            None if self.regions[i] == Time::ZERO => u64::MAX,
            None => own.wcet.div_ceil(self.regions[i]) - 1,
        }
    }
}
