// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads` as a user types it.

use std::process::{Command, Output};

fn corehop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

#[test]
fn what_the_kernel_takes_is_measured_and_check_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (table, set) = (path("overheads.csv"), path("set.json"));
    let output = corehop(&["measure", "overheads", "--json", "-o", &table]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["overheads"].as_array().unwrap();
    for column in ["SCHEDULE", "RELEASE-LATENCY"] {
        assert!(rows.iter().any(|row| row["column"] == column), "{column}: {answer}");
    }
    for row in rows {
        let us = |name: &str| row[name].as_f64().unwrap();
        assert!(
            us("p50_us") >= 0.0 && us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us")
        );
    }
    let one = r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 1000000}]}"#;
    std::fs::write(&set, one).unwrap();
    let checked = corehop(&["check", &set, "--test", "g-edf", "--overheads", &table, "--json"]);
    assert!(
        matches!(checked.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn what_has_no_meaning_for_it_is_refused() {
    for (words, part) in [
        (["--on", "xeon_l7455"], "--on"),
        (["--wss", "64KiB"], "--wss"),
        (["--cpus", "4000"], "--cpus"),
    ] {
        let output = corehop(&[&["measure", "overheads"][..], &words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(part)), (Some(2), true), "{said}");
    }
}
