// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replicates as users meet them: options, plans, files, and what is said where there are too few.

use super::{corehop, refused, rows, said, scratch, small};
use serde_json::Value;
use std::collections::BTreeSet;

const ON: [&str; 2] = ["--on", "xeon_x5650"];

fn numbers(file: &std::path::Path) -> BTreeSet<Option<u64>> {
    rows(file).0.iter().map(|row| row.replicate).collect()
}

#[test]
fn a_number_of_replicates_that_makes_no_sense_is_refused_with_what_does() {
    for (options, words) in [
        (&["--replicates", "0"][..], "6 or more"),
        (&["--replicates", "50", "--samples", "10"], "--samples 50 or more"),
    ] {
        refused(
            corehop(&[&["measure", "synthetic", "--dry-run"], &ON[..], options].concat()),
            2,
            &[words],
        );
    }
    let with_plan = ["measure", "plan", "x.json", "--replicates", "7"];
    refused(corehop(&with_plan), 2, &["--replicates"]);
}

#[test]
fn a_run_has_as_many_replicates_as_asked_for_and_ten_at_least_where_samples_allow_it() {
    for (options, count) in [
        (&["--samples", "12"][..], 10),
        (&["--samples", "60"], 20),
        (&["--samples", "4"], 4),
        (&["--samples", "9", "--replicates", "7"], 7),
    ] {
        let (_directory, file) = scratch();
        let options = [&ON[..], options, &["--event", "none,preemption", "--length", "50us"]];
        let output = small(&file, &options.concat()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let wanted: BTreeSet<Option<u64>> = (0..count).map(Some).collect();
        assert_eq!(numbers(&file), wanted, "{options:?}");
    }
}

#[test]
fn a_plan_says_its_replicates_and_runs_from_a_file_as_it_does_from_options() {
    let (directory, file) = scratch();
    let options = ["--event", "none,preemption", "--length", "50us", "--samples", "12"];
    let wss = ["--wss", "4KiB", "--load", "idle"];
    let whole = [&["measure", "synthetic", "--dry-run", "--json"][..], &ON, &options, &wss];
    let output = corehop(&whole.concat()).output().unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |phase: &Value| phase["replicate"].as_u64();
    let phases = plan["jobs"]["phases"].as_array().unwrap();
    assert_eq!(phases.iter().filter_map(of).collect::<BTreeSet<_>>().len(), 10);
    let saved = directory.path().join("plan.json");
    std::fs::write(&saved, &output.stdout).unwrap();
    let run = ["measure", "plan", saved.to_str().unwrap(), "-q"];
    let again = directory.path().join("again.parquet");
    let command = [&run[..], &ON, &["-o", again.to_str().unwrap()]].concat();
    assert!(corehop(&command).output().unwrap().status.success());
    assert!(small(&file, &[&ON[..], &options].concat()).output().unwrap().status.success());
    let by_cell = |file: &std::path::Path| {
        let mut all: Vec<_> = rows(file)
            .0
            .iter()
            .map(|row| (row.replicate, row.cell, row.resumed_ns.to_bits()))
            .collect();
        all.sort_unstable();
        all
    };
    assert_eq!(by_cell(&file), by_cell(&again));
}

#[test]
fn one_replicate_has_medians_and_no_intervals_and_every_table_says_so() {
    let (directory, file) = scratch();
    let options = ["--event", "preemption", "--length", "50us", "--samples", "20"];
    let one = [&ON[..], &options, &["--replicates", "1"]].concat();
    assert!(small(&file, &one).output().unwrap().status.success());
    assert_eq!(numbers(&file), BTreeSet::from([Some(0)]));
    let path = file.to_str().unwrap();
    let page = directory.path().join("page.html");
    let command = ["report", path, "--table", "text", "-o", page.to_str().unwrap()];
    let output = corehop(&command).output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("[…, …]") && table.contains("1 replicate"), "{table}");
    assert!(std::fs::read_to_string(page).unwrap().contains("fewer than 6 replicates"));
    let csv = corehop(&["report", path, "--table", "csv"]).output().unwrap();
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert!(csv.contains(",p50,") && !csv.contains("p50_low"), "{csv}");
}

#[test]
fn a_run_that_is_resumed_goes_on_with_a_replicate_of_its_own() {
    let (_directory, file) = scratch();
    let options = ["--event", "preemption", "--length", "50us"];
    let first = [&ON[..], &options, &["--samples", "12"]].concat();
    assert!(small(&file, &first).output().unwrap().status.success());
    // All that was asked for is there: nothing is left to do, and nothing is lost.
    let again = [&first[..], &["--resume"]].concat();
    let before = rows(&file).0;
    assert!(small(&file, &again).output().unwrap().status.success());
    assert_eq!(rows(&file).0.len(), before.len());
}
