// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time in which `check` says how far its answer is from the other one, for sets of 20 tasks by the tests of each scheduler.

use std::hint::black_box;

use corehop_plan::workload::scheduler::Scheduler;
use corehop_sched::charge::DelayCharge;
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::{SchedulabilityQuestion, TaskParameters, TaskSet, Time};
use serde_json::{Value, json};

use super::cpu_time;
use crate::Fallible;

/// The most that a set may take, in milliseconds of CPU time: a user waits for it.
const LIMIT_MS: f64 = 1_000.0;
const SCHEDULERS: [Scheduler; 4] =
    [Scheduler::PEdf, Scheduler::PFp, Scheduler::GEdf, Scheduler::GFp];
/// The parts of four CPUs that sets ask for, in percent.
const LOADS: [u64; 4] = [40, 70, 95, 105];

/// The longest of all, with a delay that is charged and without.
pub(super) fn figure() -> Fallible<Value> {
    let mut longest: (f64, String) = (0.0, String::new());
    for scheduler in SCHEDULERS {
        for load in LOADS {
            for delay in [0, 20] {
                let set = set(load)?;
                let before = cpu_time();
                black_box(margin(&set, scheduler, delay)?);
                let took = cpu_time().saturating_sub(before).as_secs_f64() * 1e3;
                if took > longest.0 {
                    longest = (took, format!("{scheduler}, {load} %, a delay of {delay} us"));
                }
            }
        }
    }
    let (value, of) = longest;
    let within = value <= LIMIT_MS;
    Ok(json!({"name": "check/slack-20", "value": value, "unit": "ms of the slowest set", "of": of,
              "limit": LIMIT_MS, "within": within}))
}

/// Twenty tasks with periods of 5 to 195 ms on four CPUs.
fn set(load: u64) -> Result<TaskSet, corehop_sched::TaskError> {
    let task = |at: u64| {
        let period = 5_000 + 10_000 * (at * 7 % 20);
        let share = 4 * load * (10 + at * 3 % 11);
        TaskParameters {
            wcet: Time::new(period * share / 30_000),
            period: Time::new(period),
            ..TaskParameters::default()
        }
    };
    TaskSet::new(4, &(0..20).map(task).collect::<Vec<_>>())
}

fn margin(set: &TaskSet, scheduler: Scheduler, delay: u64) -> Fallible<Margin> {
    let each = |_: &TaskSet| {
        Some(if delay > 0 { DelayCharge::Each(Time::new(delay)) } else { DelayCharge::Nothing })
    };
    let (platform, overheads, supply) = (None, None, None);
    let asking = TestSettings { platform, delay: &each, overheads, supply, accept_largest: false };
    let question = SchedulabilityQuestion { scheduler, assumed: false };
    let tests = question.tests(set, None)?;
    let mut charged = asking.charged(set, each(set).unwrap_or(DelayCharge::Nothing));
    let answered = question.ask(set, &tests, &mut charged)?;
    let wishes = MarginRequest { slack: Some(true), schedule: true };
    Ok(Margin::of(set, &answered, Some(question), &asking, wishes))
}
