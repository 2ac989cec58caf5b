// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a test's answer as JSON.

use serde_json::{Value, json};

use super::catalogue::Test;
use super::charge::ChargedAnswer;
use super::verdict::Verdict;
use corehop_plan::workload::set_file::place_json;

/// Returns `{"test", "schedulable": true | false | "unknown", "bounds_us"?, "assumptions": […], …}`. `bounds_us`
/// bounds each task's response time, in the order of the tasks, and `latencies_us` each chain's latency. If the test
/// charged anything, `delays_us` is each job's charge for delays, and `charged` holds C, T and D with all charges.
/// `assignment` says where each task runs. `supply` describes the observations behind an observed CPU supply.
pub fn answer_json(test: &Test, asked: &ChargedAnswer) -> Value {
    let answer = &asked.answer;
    let mut value = json!({
        "test": test.name,
        "scheduler": test.scheduler,
        "schedulable": schedulable(answer.verdict),
        "assumptions": test.assumptions().into_iter().chain(asked.note.as_deref()).collect::<Vec<_>>(),
        "citation": test.citation,
    });
    let mut add = |name: &str, content: Option<Value>| {
        if let (Some(fields), Some(content)) = (value.as_object_mut(), content) {
            fields.insert(name.to_owned(), content);
        }
    };
    let tick = asked.tick;
    let us = |times: &Vec<_>| times.iter().map(|&time| tick.json(time)).collect::<Value>();
    let number = |time: f64| number(time / tick.per_us() as f64);
    let charged = |&[wcet, period, deadline]: &[f64; 3]| json!({ "wcet_us": number(wcet), "period_us": number(period), "deadline_us": number(deadline) });
    add("bounds_us", answer.bounds.as_ref().map(us));
    add("latencies_us", answer.latencies.as_ref().map(us));
    add("delays_us", asked.delays.as_ref().map(us));
    add("charged", asked.charged.as_ref().map(|all| all.iter().map(charged).collect()));
    add("longest_preemption_us", asked.longest_preemptions.as_ref().map(us));
    add("supply", asked.supply.as_ref().and_then(|it| it.claim).map(|it| it.json()));
    add("why", answer.why.as_ref().map(|why| json!(why)));
    add("accepted_by", answer.accepted_by.map(|by| json!(by)));
    add("priorities", answer.priorities.as_ref().map(|order| json!(order)));
    add("partition", answer.partition.as_ref().map(|parts| json!(parts)));
    add(
        "assignment",
        answer.placement.as_ref().map(|all| all.iter().map(|it| place_json(it, tick)).collect()),
    );
    value
}

/// Writes a whole number without a fractional part.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

fn schedulable(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Schedulable => json!(true),
        Verdict::Unschedulable => json!(false),
        Verdict::Unknown => json!("unknown"),
    }
}
