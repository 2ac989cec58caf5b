// SPDX-License-Identifier: MIT OR Apache-2.0
//! An answer as JSON.

use serde_json::{Value, json};

use super::catalogue::Test;
use super::task::{System, Time};
use super::verdict::{Answer, Verdict};

/// `{"test", "schedulable": true | false | "unknown", "bounds_us"?, "assumptions": […], …}`, where
/// `bounds_us` bounds each task's response time in the order of the tasks, and `delays_us` is what each
/// was charged, where something was.
pub fn answer_json(
    test: &Test,
    answer: &Answer,
    system: System<'_>,
    delays: Option<&[Time]>,
) -> Value {
    let mut value = json!({
        "test": test.name,
        "scheduler": test.scheduler,
        "schedulable": schedulable(answer.verdict),
        "assumptions": test.assumptions(),
        "citation": test.citation,
    });
    let mut add = |name: &str, content: Option<Value>| {
        if let (Some(fields), Some(content)) = (value.as_object_mut(), content) {
            fields.insert(name.to_owned(), content);
        }
    };
    add("bounds_us", answer.bounds.as_ref().map(|bounds| json!(bounds)));
    add("delays_us", delays.map(|delays| json!(delays)));
    add("longest_preemption_us", longest_preemptions(answer, system).map(|most| json!(most)));
    add("why", answer.why.as_ref().map(|why| json!(why)));
    add("accepted_by", answer.accepted_by.map(|by| json!(by)));
    add("priorities", answer.priorities.as_ref().map(|order| json!(order)));
    add("partition", answer.partition.as_ref().map(|parts| json!(parts)));
    value
}

fn schedulable(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Schedulable => json!(true),
        Verdict::Unschedulable => json!(false),
        Verdict::Unknown => json!("unknown"),
    }
}

/// For how long a job of each task can be off the CPU once it began, at most: what its response leaves
/// beside its execution. A job that needs less than its WCET waits no longer.
pub fn longest_preemptions(answer: &Answer, system: System<'_>) -> Option<Vec<Time>> {
    let bounds = answer.bounds.as_ref()?;
    Some(
        bounds
            .iter()
            .zip(system.tasks)
            .map(|(bound, task)| bound.saturating_sub(task.wcet))
            .collect(),
    )
}
