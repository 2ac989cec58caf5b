// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes which task to make non-preemptive and for how long, and what that saves.
//!
//! For each preemption, the preempted job pays the cost of reloading its own working set. The number of preemptions
//! depends on the region, the region on the slack, and the slack on the payments. The least solution is found from
//! below, starting without any preemption.

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

/// The result of limiting preemptions for a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remedy {
    /// The way in which preemptions are limited.
    pub limit: Limit,
    /// Whether the set is schedulable with full preemption if each job pays for every preemption that it may suffer;
    /// `None` if the test cannot decide.
    pub preemptive: Option<bool>,
    /// The limit and the savings of each task, in the order of the set.
    pub tasks: Vec<Treated>,
    /// The share of the CPU that is saved: the sum over the tasks of a job's saving divided by the task's period.
    pub saves_share: Cost,
}

/// The preemption limit of one task, and the savings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Treated {
    /// The time for which the task may continue after a more urgent job arrives, in microseconds. With thresholds,
    /// this is the whole WCET with respect to tasks that may not preempt this task.
    pub region_us: Time,
    /// The indexes of the tasks that may preempt this task under its threshold; `None` for regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_by: Option<Vec<usize>>,
    /// The largest number of preemptions of a job with full preemption.
    pub preemptions: u64,
    /// The largest number of preemptions of a job that remain.
    pub remaining: u64,
    /// The cost of one preemption to the job, in microseconds.
    pub delay: Cost,
    /// The largest saving per job, in microseconds.
    pub saves: Cost,
}

/// The results of all ways to limit preemptions for a set on one CPU, or why a result is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedies {
    /// Each way to limit preemptions, with its result.
    pub ways: Vec<(Limit, Result<Remedy, NoRegions>)>,
    /// The quantile whose upper end is charged per preemption, with its number of samples; `None` if the user named
    /// the statistic, or no quantile has an upper end for all tasks.
    pub charged_by: Option<String>,
}

impl Remedies {
    /// Computes all results for a set whose tasks state their working set sizes. The charge is the highest quantile
    /// for which the samples give every task an upper end (as in a verdict on deadlines), or else the costs as given.
    /// Times are whole microseconds, rounded to the pessimistic side.
    ///
    /// # Errors
    /// Returns [`TaskError`] if the set is for several CPUs, a task states no working set size, or the cost of a size
    /// is not known.
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
            let expected = format!(
                "no {field}, because corehop does not analyse them with limited preemption"
            );
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

    /// The results as a JSON list, with `why_none` for each unknown result.
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

/// The cost of a preemption to each task, by its working set size.
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

/// Computes the result of limiting preemptions in this way for `tasks` on one CPU, where `delays` holds the cost of a
/// preemption to each task. The upper end of each cost, rounded up to whole microseconds, is charged.
///
/// # Errors
/// Returns [`NoRegions`] if deadlines are missed with every limit, or the analysis does not cover the tasks.
///
/// # Panics
/// Panics if there are not as many delays as tasks.
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

/// The largest number of preemptions of a job without any limit: one by each release of a more urgent task before the
/// job's deadline.
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

/// The tasks, with each task charged for this many preemptions per job.
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

/// Whether the set is schedulable if all preemptions are charged.
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

/// The regions or thresholds of all tasks.
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

    /// The largest number of preemptions of a job. With regions, a region passes before each preemption. With a
    /// threshold, each release of a task above it preempts once.
    fn preemptions(&self, tasks: &[Task], i: usize) -> u64 {
        let own = &tasks[i];
        match &self.preempted_by {
            Some(by) => by[i].iter().map(|&j| own.deadline.div_ceil(tasks[j].period)).sum(),
            None if self.regions[i] == Time::ZERO => u64::MAX,
            None => own.wcet.div_ceil(self.regions[i]) - 1,
        }
    }
}
