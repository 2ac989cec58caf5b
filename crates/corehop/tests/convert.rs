// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop convert`, as a script sees it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn convert(file: &Path, options: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_corehop");
    Command::new(program).arg("convert").arg(file).args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_task_set_goes_to_rt_app_and_back() {
    let scratch = tempfile::tempdir().unwrap();
    let (set, workload) = (scratch.path().join("set.json"), scratch.path().join("workload.json"));
    let given = r#"{"cpus": 2, "tasks": [
        {"name": "a", "wcet_us": 2000, "period_us": 10000, "deadline_us": 8000},
        {"name": "b", "wcet_us": 3000, "period_us": 12000}]}"#;
    fs::write(&set, given).unwrap();
    text(&convert(&set, &["--to", "rt-app", "-o", workload.to_str().unwrap()]));
    let back = text(&convert(&workload, &["--to", "tasks", "--cpus", "2"]));
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&back), json(given));
    fs::write(&workload, r#"{"tasks": {"x": {"run": 5, "sleep": 7}}}"#).unwrap();
    let output = convert(&workload, &["--to", "tasks"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && said.contains("`sleep`"), "{said}");
}

#[test]
fn costs_go_to_schedcat_and_back() {
    let scratch = tempfile::tempdir().unwrap();
    let there = scratch.path().join("pmo.csv");
    let costs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5/costs.csv");
    let chosen = ["--load", "constructed", "--statistic", "avg"];
    let pmo = text(&convert(Path::new(costs), &[&["--to", "schedcat"], &chosen[..]].concat()));
    // Table 3 of the paper, in the columns that SchedCAT reads.
    assert!(pmo.starts_with("WSS,L1,L2,L3,MEM\n4,5.24,5.37,5.66,5.77\n"), "{pmo}");
    fs::write(&there, &pmo).unwrap();
    let back = text(&convert(&there, &[&["--to", "costs"], &chosen[..]].concat()));
    assert!(back.contains("\nconstructed,l3_migration,avg,64,70.72\n"), "{back}");
    let output = convert(Path::new(costs), &["--to", "schedcat", "--statistic", "median"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("idle max"), "{said}");
}

#[test]
fn overheads_by_the_number_of_tasks_are_read_and_written() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("overheads.csv");
    std::fs::write(&file, "CXS, TASK-COUNT\n2.5,20\n1.5,10\n").unwrap();
    let written = text(&convert(&file, &["--to", "schedcat"]));
    assert_eq!(written, "TASK-COUNT,CXS\n10,1.5\n20,2.5\n");
    std::fs::write(&file, "CXS,TASK-COUNT\n-1,20\n").unwrap();
    assert_eq!(convert(&file, &["--to", "schedcat"]).status.code(), Some(4));
}
