// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure shared-data` on this host: threads that share data, as a user runs them.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn corehop(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn has_two_cpus() -> bool {
    let two = corehop_system::thread::affinity().is_ok_and(|cpus| cpus.len() > 1);
    if !two {
        println!("skipped: threads on several CPUs need two");
    }
    two
}

/// The rows of an experiment.
fn rows(folder: &Path, options: &str) -> Vec<Value> {
    let file = folder.join("gangs.parquet");
    let file = file.to_str().unwrap();
    let options: Vec<&str> = options.split_whitespace().collect();
    let whole = [&["measure", "shared-data", "-q", "--force", "-o", file], &options[..]].concat();
    let output = corehop(&whole);
    assert!(output.status.success(), "{}", said(&output));
    let shown = corehop(&["report", "contents", "--rows", "100000", file]);
    assert!(shown.status.success(), "{}", said(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_program_runs_on_one_cpu_and_on_several_and_its_data_come_out_right() {
    let folder = tempfile::tempdir().unwrap();
    // Of data that are not right at the end, the run fails.
    let small = "--items 64 --fibonacci 8 --threads 3 --rounds 200 --samples 2 --placing same";
    let rows = rows(folder.path(), small);
    let of = |program: &str| rows.iter().filter(|row| row["program"] == program).count();
    // Three sharings, two runs, three threads; an exchange in three ways.
    let programs = ["swap", "bucket-sort", "linear-regression", "exchange", "fork-join"];
    assert_eq!(programs.map(of), [18, 18, 18, 54, 18]);
    for row in &rows {
        assert_eq!((&row["cpu"], &row["placing"]), (&rows[0]["cpu"], &"same".into()));
        assert!(row["time_ns"].as_f64().unwrap() > 0.0 && row["preempted"].is_u64(), "{row}");
        // There are no counters: nothing is known, which is not nothing.
        assert!(row.get("llc_misses").is_none_or(Value::is_null), "{row}");
    }
}

#[test]
fn two_that_hand_words_over_in_turn_do_so_on_two_cpus_and_say_how_far_apart_those_were() {
    if !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path(), "--program exchange --sharing write --samples 24");
    let cpus = |row: &&Value| row["placing"] == "shared";
    let shared: Vec<&Value> = rows.iter().filter(cpus).collect();
    if shared.is_empty() {
        println!("skipped: no two CPUs of this host share a cache");
        return;
    }
    assert!(shared.iter().any(|row| row["cpu"] != shared[0]["cpu"]));
    assert!(shared.iter().all(|row| row["exchange_ns"].as_f64().is_none_or(|ns| ns > 1.0)));
    // Each replicate has one run of each gang.
    let replicates: std::collections::BTreeSet<u64> =
        rows.iter().map(|row| row["replicate"].as_u64().unwrap()).collect();
    assert_eq!(replicates, (0..24).collect());
}

/// The shortest time of the slowest thread of a run, of rows with this sharing.
fn least_ns(rows: &[Value], sharing: &str) -> f64 {
    let mut runs: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    for row in rows.iter().filter(|row| row["sharing"] == sharing) {
        let slowest = runs.entry(row["run"].as_u64().unwrap()).or_default();
        *slowest = slowest.max(row["time_ns"].as_f64().unwrap());
    }
    runs.into_values().fold(f64::INFINITY, f64::min)
}

#[test]
fn two_that_join_what_they_fork_do_together_what_each_does_without_sharing() {
    let folder = tempfile::tempdir().unwrap();
    let options = "--program fork-join --fibonacci 14 --sharing write,none --placing same";
    let rows = rows(folder.path(), &format!("{options} --samples 48"));
    let [together, each] = ["write", "none"].map(|sharing| least_ns(&rows, sharing));
    // Half of the work on the same CPU.
    assert!(together < 0.8 * each, "{together} {each}");
}

#[test]
fn threads_that_a_plan_moves_say_where_they_ended_and_their_data_come_out_right() {
    if !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(
        folder.path(),
        "--program swap,bucket-sort,fork-join --items 100 --fibonacci 8 --sharing write --placing moved,same --samples 4",
    );
    let (moved, same): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["placing"] == "moved");
    assert_eq!((moved.len(), same.len()), (24, 24));
    for row in moved {
        let (from, to) = (row["cpu"].as_u64(), row["moved_to"].as_u64());
        assert!(to.is_some() && (row["member"] == 0 || from != to), "{row}");
    }
    assert!(same.iter().all(|row| row.get("moved_to").is_none_or(Value::is_null)));
}

#[test]
fn gangs_that_cannot_be_are_refused_by_name() {
    let refused = |options: &str, code, words: &[&str]| {
        let options: Vec<&str> = options.split_whitespace().collect();
        let output = corehop(&[&["measure", "shared-data", "-q"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{options:?}: {}", said(&output));
        assert!(words.iter().all(|word| said(&output).contains(word)), "{}", said(&output));
    };
    refused("--threads 1", 2, &["--threads", "2..=64"]);
    refused("--threads 65", 2, &["--threads", "2..=64"]);
    refused("--rounds 0", 2, &["--rounds"]);
    refused("--samples 0", 2, &["--samples 0"]);
    refused("--program fork-join --fibonacci 21", 2, &["number 21", "at most 20"]);
    refused("--program exchange --items 164", 2, &["164 messages", "163"]);
    refused("--program exchange --through post", 2, &["post"]);
    refused("--placing separate --on phenom_9550", 2, &["separate", "no cache in common"]);
}
