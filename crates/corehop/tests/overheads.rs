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
    let sets = ["--tasks", "5,2", "--duration", "300ms"];
    let output = corehop(&[&["measure", "overheads", "--json", "-o", &table][..], &sets].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["overheads"].as_array().unwrap();
    for column in ["SCHEDULE", "RELEASE-LATENCY"] {
        assert!(rows.iter().any(|row| row["column"] == column), "{column}: {answer}");
    }
    // What is not measured in the kernel is said, and where it is, no column holds another one's time.
    let in_kernel =
        |column: &str| rows.iter().any(|row| row["column"] == column && row["how"] == "kernel");
    let refused = answer["missing"].to_string().contains("in the kernel");
    assert!(refused || in_kernel("SCHEDULE") && in_kernel("RELEASE"), "{answer}");
    assert_eq!(in_kernel("RELEASE"), in_kernel("RELEASE-LATENCY"), "{answer}");
    let text = std::fs::read_to_string(&table).unwrap();
    let head = text.lines().next().unwrap();
    assert_eq!(head.contains(",RELEASE,"), in_kernel("RELEASE"), "{head}");
    let counts: Vec<&str> = text.lines().map(|line| line.split(',').next().unwrap()).collect();
    let measured = if answer["recording"].is_null() { ["2", "250"] } else { ["2", "5"] };
    assert_eq!(counts[1..], measured, "{text}");
    for row in rows {
        let us = |name: &str| row[name].as_f64().unwrap();
        assert!(
            us("p50_us") >= 0.0 && us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us")
        );
    }
    let of = |count: usize| {
        let task = r#"{"wcet_us": 1000, "period_us": 1000000}"#;
        let tasks = vec![task; count].join(",");
        std::fs::write(&set, format!(r#"{{"cpus": 1, "tasks": [{tasks}]}}"#)).unwrap();
        corehop(&["check", &set, "--test", "g-edf", "--overheads", &table, "--json"])
    };
    let checked = of(3);
    let said = String::from_utf8_lossy(&checked.stderr).replace("\n         ", " ");
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{said}");
    if !answer["recording"].is_null() {
        let said = String::from_utf8_lossy(&of(6).stderr).replace("\n         ", " ");
        assert!(said.contains("up to 5 tasks"), "{said}");
    }
}

#[test]
fn the_times_are_kept_and_the_table_follows_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (times, set) = (path("times.parquet"), path("set.json"));
    let output = corehop(&["measure", "overheads", "--no-bpf", "--json", "-o", &times]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let n: u64 =
        answer["overheads"].as_array().unwrap().iter().map(|it| it["n"].as_u64().unwrap()).sum();
    let shown = corehop(&["report", "contents", &times, "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["rows"], shown["n_rows"].as_u64()), (&"overheads".into(), Some(n)));
    let reported = corehop(&["report", &times]);
    let text = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert!(text.contains("scheduling decision") && text.contains("CXS"), "{text}");
    std::fs::write(&set, r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 1000000}]}"#)
        .unwrap();
    let checked = corehop(&["check", &set, "--test", "g-edf", "--overheads", &times, "--json"]);
    let said = String::from_utf8_lossy(&checked.stderr).replace("\n         ", " ");
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{said}");
    let simulated = corehop(&["measure", "overheads", "--dry-run", "--json"]);
    std::fs::write(path("plan.json"), &simulated.stdout).unwrap();
    let on = ["--on", "xeon_e5520", "-o", &path("x.parquet")];
    let refused = corehop(&[&["measure", "plan", &path("plan.json")][..], &on].concat());
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
}

#[test]
fn real_time_sets_run_where_they_may() {
    for scheduler in ["g-edf", "g-fp"] {
        let sets = ["--scheduler", scheduler, "--tasks", "4", "--duration", "300ms", "--json"];
        let output = corehop(&[&["measure", "overheads"][..], &sets].concat());
        let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        match output.status.code() {
            Some(0) => {
                let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                if answer["recording"].is_null() {
                    continue;
                }
                assert_eq!(answer["scheduler"], scheduler, "{answer}");
                let rows = answer["overheads"].as_array().unwrap();
                let of_sets = |row: &&serde_json::Value| row["tasks"] == 4;
                assert!(rows.iter().filter(of_sets).all(|row| row["how"] == "kernel"));
                assert!(rows.iter().any(|row| row["tasks"] == 4), "{answer}");
            }
            // Without the right, or within other reservations, and with the remedy.
            code => assert!(code == Some(3) && said.contains("; "), "{code:?} {said}"),
        }
    }
}

#[test]
fn without_bpf_threads_say_what_they_can() {
    let output = corehop(&["measure", "overheads", "--no-bpf", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["overheads"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["how"] == "threads"), "{answer}");
    assert!(rows.iter().all(|row| row["column"] != "RELEASE"), "{answer}");
    assert!(answer["recording"].is_null());
}

#[test]
fn what_is_an_option_of_overheads_is_one_of_nothing_else() {
    let output = corehop(&["measure", "synthetic", "--no-bpf", "--dry-run"]);
    let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    assert_eq!((output.status.code(), said.contains("--no-bpf")), (Some(2), true), "{said}");
}

#[test]
fn what_has_no_meaning_for_it_is_refused() {
    for (words, part) in [
        (["--on", "xeon_l7455"], "--on"),
        (["--wss", "64KiB"], "--wss"),
        (["--cpus", "4000"], "--cpus"),
        (["--tasks", "0"], "0 tasks"),
        (["--no-bpf", "--tasks=3"], "--no-bpf"),
        (["--seed=2", "--paired"], "--paired"),
    ] {
        let output = corehop(&[&["measure", "overheads"][..], &words].concat());
        let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        assert_eq!((output.status.code(), said.contains(part)), (Some(2), true), "{said}");
    }
}
