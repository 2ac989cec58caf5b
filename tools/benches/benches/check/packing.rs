// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that packing by exact response times takes for each task, beyond analysing the CPUs that come of
//! it.

use corehop_sched::System;
use corehop_sched::uni::fixed;
use corehop_sched::{TaskParameters, TaskSet, TestAnswer, test};
use serde_json::{Value, json};

use super::{micros, named};
use crate::Fallible;

/// The packings, and the same with delays by pair where no delay is charged.
const PACKINGS: [&str; 3] = ["p-fp-ffd", "p-fp-bfd", "p-fp-wfd"];

/// One figure for each packing.
pub(super) fn figures(suite: &str, sets: &[TaskSet]) -> Fallible<Vec<Value>> {
    PACKINGS.iter().map(|name| figure(name, suite, sets)).collect()
}

fn figure(name: &'static str, suite: &str, sets: &[TaskSet]) -> Fallible<Value> {
    let ask = |set: &TaskSet| {
        Ok::<TestAnswer, Box<dyn std::error::Error>>(test(name)?.run(System::of(set)))
    };
    let (mut packed, mut cpus) = (Vec::new(), Vec::new());
    for set in sets {
        if let Some(bins) = ask(set)?.partition {
            cpus.extend(bins.iter().filter_map(|bin| alone(set, bin)));
            packed.push(set);
        }
    }
    let tasks = |sets: &[&TaskSet]| sets.iter().map(|set| set.tasks().len()).sum::<usize>().max(1);
    let all: Vec<&TaskSet> = sets.iter().collect();
    let cpus: Vec<&TaskSet> = cpus.iter().collect();
    let of = |sets: &[&TaskSet]| match name {
        "p-fp-ffd" => micros(|s| named("p-fp-ffd", s), sets),
        "p-fp-bfd" => micros(|s| named("p-fp-bfd", s), sets),
        _ => micros(|s| named("p-fp-wfd", s), sets),
    };
    let per_task = |us: f64, sets: &[&TaskSet]| us * sets.len() as f64 / tasks(sets) as f64;
    let plain = |s: corehop_sched::System<'_>| {
        fixed::response_time_analysis(s.tasks(), None).is_schedulable()
    };
    let mut figure = json!({
        "name": format!("check/{name}-{suite}"),
        "value": of(&all),
        "unit": "us per set",
        "accepted": packed.len(),
    });
    if !packed.is_empty() {
        let [packing, rta] =
            [per_task(of(&packed), &packed), per_task(micros(plain, &cpus), &cpus)];
        figure["us_per_task"] = json!(packing);
        figure["rta_us_per_task"] = json!(rta);
        figure["us_per_task_beyond_rta"] = json!(packing - rta);
    }
    Ok(figure)
}

/// The tasks of one CPU as a set of their own.
fn alone(set: &TaskSet, bin: &[usize]) -> Option<TaskSet> {
    let of = |&at: &usize| {
        let task = &set.tasks()[at];
        let (wcet, period, deadline) = (task.wcet(), task.period(), Some(task.deadline()));
        TaskParameters { wcet, period, deadline, ..TaskParameters::default() }
    };
    TaskSet::new(1, &bin.iter().map(of).collect::<Vec<_>>()).ok()
}
