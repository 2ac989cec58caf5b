// SPDX-License-Identifier: MIT OR Apache-2.0
//! `measure conditions` as users meet it: plan, file, table, and cells that it cannot take apart.

use super::{corehop, refused, rows, said, scratch};
use serde_json::Value;

const ON: [&str; 2] = ["--on", "xeon_x5650"];
const CELL: [&str; 6] = ["--wss", "96KiB", "--event", "preemption", "--length", "30us"];
const FEW: [&str; 8] =
    ["--replicates", "50", "--samples", "54", "--load", "idle", "--preemptor", "64KiB"];

fn conditions(more: &[&str]) -> std::process::Command {
    corehop(&[&["measure", "conditions"][..], &ON, &CELL, &FEW, more].concat())
}

#[test]
fn each_step_of_the_plan_says_what_it_renews_and_rounds_are_whole() {
    let output = conditions(&["--dry-run", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let phases = plan["jobs"]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 54, "fifty in rounds of six");
    for word in ["nothing", "frames", "order", "others", "threads"] {
        let count = phases.iter().filter(|it| it["condition"]["renewed"] == word).count();
        assert!((8..=9).contains(&count), "{word}: {count}");
    }
}

#[test]
fn the_report_says_what_makes_the_spread_and_no_cell_has_an_interval() {
    let (_directory, file) = scratch();
    let path = file.to_str().unwrap();
    let output = conditions(&["-q", "-o", path]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(rows(&file).0.iter().all(|row| row.renewed.is_some()));
    let table = corehop(&["report", path]).output().unwrap();
    let text = String::from_utf8(table.stdout).unwrap();
    for words in ["causes of the spread", "the job's page frames", "the measured threads"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(text.contains("[…, …]"), "{text}");
    let json = corehop(&["report", path, "--table", "json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(all["conditions"][0]["steps"], 54);
    assert_eq!(all["cells"].as_array().unwrap().len(), 1);
    let fit = corehop(&["advise", "fit", path, "-o", "/dev/null"]).output().unwrap();
    assert!(!fit.status.success(), "steps that are alike are no source of costs");
}

#[test]
fn what_is_no_single_cell_or_has_too_few_samples_is_refused_with_the_remedy() {
    for (more, words) in [
        (&["--event", "none,flush"][..], "one event"),
        (&["--wss", "4KiB,8KiB"], "one working set"),
        (&["--write-ratio", "0,0.5"], "one write ratio"),
        (&["--samples", "10"], "--samples 180 or more"),
    ] {
        let asked = [&["measure", "conditions", "--dry-run"][..], &ON, more].concat();
        refused(corehop(&asked), 2, &[words]);
    }
}

#[test]
fn too_few_rounds_are_measured_and_said_to_be_too_few() {
    let (_directory, file) = scratch();
    let path = file.to_str().unwrap();
    let few = ["--replicates", "12", "--samples", "12", "--load", "idle", "--preemptor", "64KiB"];
    let run = [&["measure", "conditions"][..], &ON, &CELL, &few, &["-q", "-o", path]].concat();
    assert!(corehop(&run).output().unwrap().status.success());
    let page = file.with_extension("html");
    let report = ["report", path, "-o", page.to_str().unwrap()];
    assert!(corehop(&report).output().unwrap().status.success());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("2 rounds; shares of the spread need 8"), "no reason on the page");
}
