// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of plan: from a file, bounded in time, resumed, as a stream.

use std::collections::BTreeMap;

use super::*;

/// An experiment of each kind, small.
const KINDS: [&str; 4] = [
    "synthetic --on xeon_x5650 --wss 4KiB --event none --load idle --samples 12",
    "shared-data --on xeon_e5520 --program swap --items 100 --rounds 200 --samples 20",
    "schedule-sensitive --on xeon_x5650 --tasks 2 --sets 3 --duration 50ms --wss 4KiB --load idle",
    "core-switch --on m5_cs --mechanism strong-v3,strong-v4 --samples 12 --replicates 6",
];

fn experiment(line: &str, more: &[&str]) -> Command {
    corehop(&[&["measure"], &line.split(' ').collect::<Vec<_>>()[..], more].concat())
}

/// The rows of a file, by `show`.
fn shown(file: &Path) -> Vec<serde_json::Value> {
    let output = corehop(&["report", "contents", "--rows", "100000"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn succeeds(mut command: Command) -> std::process::Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

/// The rows that experiment `line` gives, and those of its jobs where it has some.
fn whole(line: &str) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let (_directory, file) = scratch();
    succeeds(experiment(line, &["-q", "-o", file.to_str().unwrap()]));
    let jobs = file.with_extension("jobs.parquet");
    let jobs = if jobs.exists() { shown(&jobs) } else { Vec::new() };
    (shown(&file), jobs)
}

/// Rows without their place in the run: a run and a plan from a file draw other orders of the cells.
fn in_any_order(rows: Vec<serde_json::Value>) -> Vec<String> {
    let placeless = rows.into_iter().map(|mut row| {
        row.as_object_mut().unwrap().remove("batch");
        row.to_string()
    });
    let mut rows: Vec<String> = placeless.collect();
    rows.sort();
    rows
}

#[test]
fn every_kind_of_plan_that_a_dry_run_prints_runs_from_a_file_and_gives_the_same_rows() {
    for line in KINDS {
        let (directory, file) = scratch();
        let plan = directory.path().join("plan.json");
        std::fs::write(&plan, succeeds(experiment(line, &["--dry-run", "--json"])).stdout).unwrap();
        let on = line.split(' ').nth(2).unwrap();
        let asked = ["measure", "--on", on, "-q", "--plan", plan.to_str().unwrap(), "-o"];
        succeeds(corehop(&[&asked[..], &[file.to_str().unwrap()]].concat()));
        assert_eq!(in_any_order(shown(&file)), in_any_order(whole(line).0), "{line}");
        let outline = corehop(&[&asked[..6], &["--dry-run"]].concat());
        assert!(!succeeds(outline).stdout.is_empty());
    }
}

#[test]
fn a_budget_ends_every_kind_of_run_and_resuming_completes_it() {
    for line in KINDS {
        let (_directory, file) = scratch();
        let to = ["-q", "--json", "-o", file.to_str().unwrap()];
        let answer = |output: std::process::Output| -> serde_json::Value {
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let cut = answer(succeeds(experiment(line, &[&to[..], &["--budget", "1ns"]].concat())));
        assert_eq!(cut["stopped_by"], "budget", "{line}");
        let lacking = cut["cells_lacking_samples"].as_u64().unwrap();
        assert!(lacking > 0, "{line}: {cut}");
        let done = answer(succeeds(experiment(line, &[&to[..], &["--resume"]].concat())));
        assert_eq!(done["cells_lacking_samples"], 0, "{line}: {done}");
        assert_eq!(shown(&file).len(), whole(line).0.len(), "{line}");
    }
}

#[test]
fn a_precision_is_reached_by_gangs() {
    // Random numbers: the time of a run varies from run to run.
    let line = "shared-data --on xeon_e5520 --program bucket-sort --items 200 --rounds 20";
    let rows = |precision: &str| {
        let (_directory, file) = scratch();
        let to = ["-q", "--precision", precision, "-o", file.to_str().unwrap()];
        succeeds(experiment(line, &to));
        shown(&file).len()
    };
    let (coarse, fine) = (rows("40%"), rows("10%"));
    assert!(0 < coarse && coarse < fine, "{coarse}, {fine}");
    refused(experiment(line, &["--precision", "5%", "--samples", "9"]), 2, &["--samples"]);
}

#[test]
fn a_plan_from_a_file_goes_on_where_it_was_cut_off_and_another_plan_does_not() {
    for line in KINDS {
        let (directory, file) = scratch();
        let plan = directory.path().join("plan.json");
        let measure = |plan: &Path, more: &[&str]| {
            let on = line.split(' ').nth(2).unwrap();
            let (plan, file) = (plan.to_str().unwrap(), file.to_str().unwrap());
            let asked = ["measure", "--on", on, "-q", "--plan", plan, "-o", file];
            corehop(&[&asked[..], more].concat())
        };
        let print = |more: &[&str]| {
            succeeds(experiment(line, &[&["--dry-run", "--json"], more].concat())).stdout
        };
        std::fs::write(&plan, print(&[])).unwrap();
        succeeds(measure(&plan, &["--budget", "1ns"]));
        let (rows, jobs) = whole(line);
        // Those of a set that was cut off are repeated.
        let (of_sets, all) = if jobs.is_empty() { (false, rows) } else { (true, jobs) };
        let kept = if of_sets { file.with_extension("jobs.parquet") } else { file.clone() };
        let cut = shown(&kept);
        assert!(cut.len() < all.len(), "{line}: {} of {}", cut.len(), all.len());
        let other = directory.path().join("other.json");
        std::fs::write(&other, print(&["--seed", "9"])).unwrap();
        refused(measure(&other, &["--resume"]), 2, &["other parameters"]);
        succeeds(measure(&plan, &["--resume"]));
        let resumed = shown(&kept);
        assert_eq!(resumed[..cut.len()], cut[..], "{line}");
        assert!(resumed.len() == all.len() || of_sets && resumed.len() > all.len(), "{line}");
        let cells = |rows: &[serde_json::Value]| {
            rows.iter().fold(BTreeMap::<String, usize>::new(), |mut cells, row| {
                let place = |name| row.get(name).map_or(String::new(), ToString::to_string);
                *cells.entry(place("cell") + " " + &place("gang")).or_default() += 1;
                cells
            })
        };
        assert!(of_sets || cells(&resumed) == cells(&all), "{line}");
        // All of it has run: nothing is added.
        succeeds(measure(&plan, &["--resume"]));
        assert!(of_sets || shown(&kept) == resumed, "{line}");
    }
}

#[test]
fn a_plan_that_runs_as_a_whole_is_not_resumed() {
    let (directory, file) = scratch();
    let plan = directory.path().join("plan.json");
    let printed = corehop(&["record", "--dry-run", "--json", "--", "true"]);
    std::fs::write(&plan, succeeds(printed).stdout).unwrap();
    let (plan, file) = (plan.to_str().unwrap(), file.to_str().unwrap());
    let resumed = corehop(&["measure", "plan", plan, "--resume", "-o", file]);
    refused(resumed, 2, &["a plan of a program", "omit --resume"]);
}

/// The rows of jobs as a run that is killed leaves them: those of the first two sets.
#[test]
fn a_set_that_was_cut_off_is_repeated_under_another_number_and_nothing_is_dropped() {
    let line = KINDS[2];
    let (_directory, file) = scratch();
    let path = file.to_str().unwrap();
    succeeds(experiment(line, &["-q", "-o", path]));
    let jobs = file.with_extension("jobs.parquet");
    let before = shown(&jobs);
    // The last of three runs counts as cut off: nothing after it says that it had ended.
    succeeds(experiment(line, &["-q", "-o", path, "--resume"]));
    let after = shown(&jobs);
    assert_eq!(after[..before.len()], before[..]);
    let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
    for row in &after {
        *runs.entry(row["run"].as_u64().unwrap()).or_default() += 1;
    }
    let numbers: Vec<u64> = runs.keys().copied().collect();
    assert_eq!(numbers.len(), 4, "{runs:?}");
    assert_eq!((numbers[..3].to_vec(), numbers[3] % 3), (vec![0, 1, 2], 2));
    assert_eq!(runs[&numbers[3]], runs[&2], "the same set has as many releases");
}

#[test]
fn a_stream_has_the_rows_of_the_file_of_the_kind_asked_for() {
    for line in KINDS {
        let (directory, _) = scratch();
        let stream = |option: &str| {
            let file = directory.path().join("streamed.part");
            std::fs::write(&file, succeeds(experiment(line, &["-q", option])).stdout).unwrap();
            shown(&file)
        };
        let (rows, jobs) = whole(line);
        assert_eq!(stream("--stream").len(), rows.len(), "{line}");
        if !jobs.is_empty() {
            assert_eq!(stream("--stream=task_jobs"), jobs);
        }
        let unknown = experiment(line, &["-q", "--stream=rows"]);
        refused(unknown, 2, &["--stream=rows"]);
    }
}
