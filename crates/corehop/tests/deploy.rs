// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check deploy`: from a set to its threads on this host.

#![allow(clippy::print_stdout, reason = "a test program reports")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn corehop(folder: &Path, words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_corehop");
    Command::new(program).args(words).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ").replace("\n      ", " ")
}

/// A folder with a set, a stated supply of all time, and overheads of nothing: no step but the run is left.
fn ready(set: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("set.json", set);
    write("supply.json", r#"{"cpus": "0-1", "period_us": 1000, "budget_us": 1000}"#);
    write(
        "overheads.csv",
        "TASK-COUNT,SCHEDULE,CXS,TICK,RELEASE,RELEASE-LATENCY,IPI-LATENCY\n9,0,0,0,0,0,0\n",
    );
    folder
}

const GIVEN: [&str; 6] =
    ["check", "set.json", "--supply", "supply.json", "--overheads", "overheads.csv"];

#[test]
fn a_set_that_is_refused_is_not_run() {
    let full = r#"{"cpus": 1, "tasks": [{"wcet_us": 9000, "period_us": 10000, "priority": 1},
        {"wcet_us": 9000, "period_us": 20000, "priority": 2}]}"#;
    let folder = ready(full);
    let output = corehop(folder.path(), &[&GIVEN[..], &["--deploy", "out", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schedulable"], false);
    assert!(!folder.path().join("out/placed.json").exists());
}

#[test]
fn a_set_that_uses_more_than_half_of_a_cpu_is_placed_and_not_run() {
    let heavy = r#"{"cpus": 1, "tasks": [{"wcet_us": 6000, "period_us": 10000, "priority": 1}]}"#;
    let folder = ready(heavy);
    let output = corehop(folder.path(), &[&GIVEN[..], &["--deploy", "out"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("would use 60 % of CPU 0"), "{}", said(&output));
    assert!(folder.path().join("out/placed.json").exists());
}

#[test]
fn the_jobs_of_a_deployed_set_stand_beside_their_bounds() {
    // Periods far longer than any gap of a busy host, and deadlines that are never near.
    let light = r#"{"cpus": 1, "tasks": [{"name": "a", "wcet_us": 1000, "period_us": 50000, "priority": 1},
        {"name": "b", "wcet_us": 3000, "period_us": 100000, "priority": 2}]}"#;
    let folder = ready(light);
    let words = [&GIVEN[..], &["--deploy", "out", "--for", "1s", "--json"]].concat();
    let output = corehop(folder.path(), &words);
    if output.status.code() == Some(3) {
        println!("not run here: {}", said(&output));
        return;
    }
    // A host that takes a CPU away makes jobs late, which a supply of all time does not bound.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = answer["run"]["tasks"].as_array().unwrap();
    assert_eq!(
        (tasks[0]["bound_us"].as_f64(), tasks[1]["bound_us"].as_f64()),
        (Some(1000.0), Some(4000.0))
    );
    // Two loads, for a second each: 20 releases of the first, and 10 of the second.
    assert!((30..=44).contains(&tasks[0]["jobs"].as_u64().unwrap()), "{tasks:?}");
    assert!((14..=24).contains(&tasks[1]["jobs"].as_u64().unwrap()), "{tasks:?}");
    let above: u64 = tasks.iter().map(|it| it["above"].as_u64().unwrap()).sum();
    assert_eq!(above as usize, answer["run"]["exceeding"].as_array().unwrap().len());
    assert_eq!(output.status.code(), Some(i32::from(above > 0)));
    let steps = said(&output);
    assert!(
        steps.contains("corehop measure schedule-sensitive --task-set out/placed.json"),
        "{steps}"
    );
    assert!(!steps.contains("corehop measure supply"), "what is given is not measured: {steps}");
    // Nothing is left behind but the files of the steps.
    let mut left: Vec<_> = std::fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["placed.json", "run.jobs.parquet", "run.parquet"]);
}

#[test]
fn options_that_belong_to_one_way_are_refused_on_the_other() {
    let folder = ready(r#"{"cpus": 1, "tasks": [{"wcet_us": 1, "period_us": 10}]}"#);
    for words in [
        &["check", "set.json", "--for", "1s"][..],
        &["check", "set.json", "--allow-system"],
        &["check", "set.json", "--deploy", "out", "--test", "qpa"],
        &["check", "set.json", "--deploy", "out", "-o", "x.json"],
        &["check", "set.json", "--deploy", "out", "--gantt", "x.svg"],
        &["check", "-", "--deploy", "out"],
    ] {
        let output = corehop(folder.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
    }
}

#[test]
fn the_choice_of_costs_and_the_quantum_reach_the_verdict() {
    let set = r#"{"cpus": 1, "tasks": [{"wcet_us": 9000, "period_us": 10000, "priority": 1, "wss_kib": 64},
        {"wcet_us": 9000, "period_us": 20000, "priority": 2, "wss_kib": 64}]}"#;
    let folder = ready(set);
    let costs = "load,event,statistic,wss_kib,cost_us\nidle,preemption,max,64,10\nbusy,preemption,max,64,20\n";
    std::fs::write(folder.path().join("costs.csv"), costs).unwrap();
    let choice =
        ["--costs", "costs.csv", "--load", "busy", "--statistic", "max", "--quantum", "2ms"];
    let words = [&GIVEN[..], &choice, &["--deploy", "out"]].concat();
    let output = corehop(folder.path(), &words);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let step = said(&output);
    for word in ["--load busy", "--statistic max", "--quantum '2 ms'"] {
        assert!(step.contains(word), "{word}: {step}");
    }
}
