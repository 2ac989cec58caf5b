// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`, as a script sees it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn check(set: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    std::fs::write(&file, set).unwrap();
    run(&file, options)
}

fn run(file: &Path, options: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_corehop");
    Command::new(program).arg("check").arg(file).args(options).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "a verdict beside an error");
    String::from_utf8(output.stderr.clone()).unwrap()
}

const FITS: &str = r#"{"cpus": 1, "tasks": [
    {"name": "a", "wcet_us": 5, "period_us": 20},
    {"name": "b", "wcet_us": 10, "period_us": 40},
    {"name": "c", "wcet_us": 40, "period_us": 80}]}"#;

#[test]
fn yes_comes_with_bounds_assumptions_and_exit_code_0() {
    let output = check(FITS, &["--test", "p-fp-rta", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answer = json(&output);
    assert_eq!(answer["test"], "p-fp-rta");
    assert_eq!(answer["schedulable"], true);
    assert_eq!(answer["bounds_us"], serde_json::json!([5, 15, 80]));
    assert_eq!(answer["longest_preemption_us"], serde_json::json!([0, 5, 40]));
    assert!(answer["assumptions"].as_array().unwrap().len() >= 4);
}

#[test]
fn no_and_unknown_are_told_apart_and_have_exit_code_1() {
    let over =
        r#"{"cpus": 1, "tasks": [{"wcet_us": 2, "period_us": 3}, {"wcet_us": 2, "period_us": 3}]}"#;
    let output = check(over, &["--test", "qpa", "--json"]);
    assert_eq!((output.status.code(), &json(&output)["schedulable"]), (Some(1), &false.into()));
    let output = check(over, &["--test", "density", "--json"]);
    assert_eq!((output.status.code(), &json(&output)["schedulable"]), (Some(1), &"unknown".into()));
}

#[test]
fn all_answers_a_list_of_every_test() {
    let output = check(FITS, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answers = json(&output);
    let answers = answers.as_array().unwrap();
    assert!(answers.len() > 20);
    let rta = answers.iter().find(|answer| answer["test"] == "rta").unwrap();
    assert_eq!(rta["schedulable"], "unknown");
    let text = String::from_utf8(check(FITS, &[]).stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("qpa") && line.contains("yes")), "{text}");
}

#[test]
fn one_test_in_words_says_what_it_rests_on() {
    let text = String::from_utf8(check(FITS, &["--test", "p-fp-rta"]).stdout).unwrap();
    for word in ["p-fp-rta: yes", "Lehoczky", "c: within 80 us, deadline 80 us", "1. Tasks are"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_delay_is_charged_to_each_job() {
    // 5 + 10 + 40 with one unit more each: the last one would respond in 95.
    let output = check(FITS, &["--test", "p-fp-rta", "--delay", "1us", "--json"]);
    assert_eq!((output.status.code(), &json(&output)["schedulable"]), (Some(1), &false.into()));
    let output = check(FITS, &["--test", "p-fp-rta", "--delay", "0us", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    // Rounded up, so never understated.
    let output = check(FITS, &["--test", "p-fp-rta", "--delay", "1ns", "--json"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_cannot_be_checked_is_an_error_and_never_a_verdict() {
    let task = |fields: &str| format!(r#"{{"cpus": 2, "tasks": [{{"name": "x", {fields}}}]}}"#);
    for (set, words) in [
        (task(r#""wcet_us": 0, "period_us": 4"#), ["`x`", "wcet_us"]),
        (task(r#""wcet_us": -3, "period_us": 4"#), ["`x`", "wcet_us"]),
        (task(r#""wcet_us": 1, "period_us": 9223372036854775808"#), ["`x`", "period_us"]),
        (task(r#""wcet_us": 1.25, "period_us": 4"#), ["`x`", "wcet_us"]),
        (task(r#""wcet_us": 5, "period_us": 4"#), ["`x`", "wcet_us"]),
        (r#"{"cpus": 0, "tasks": [{"wcet_us": 1, "period_us": 4}]}"#.into(), ["cpus", "0"]),
        (r#"{"cpus": 2, "tasks": []}"#.into(), ["tasks", "0"]),
        (
            r#"{"cpus": 1, "tasks": [{"name": "x", "wcet_us": 1, "period_us": 9}, {"name": "x", "wcet_us": 1,
            "period_us": 9}]}"#
                .into(),
            ["task 1", "name is `x`"],
        ),
        ("{\"cpus\": 2".into(), ["JSON", "set.json"]),
    ] {
        for options in [&["--json"][..], &["--test", "gfb"]] {
            let output = check(&set, options);
            assert_eq!(output.status.code(), Some(4), "{set}");
            let error = error(&output);
            assert!(words.iter().all(|word| error.contains(word)), "{set}: {error}");
            assert!(error.matches("EOF").count() <= 1, "said twice: {error}");
        }
    }
}

#[test]
fn usage_is_told_from_damage() {
    let output = check(FITS, &["--test", "gbf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("gfb"));
    let output = run(Path::new("nowhere.json"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("nowhere.json"));
    // A working set, and nothing that says what it costs.
    let set =
        r#"{"cpus": 1, "tasks": [{"name": "x", "wcet_us": 1, "period_us": 4, "wss_kib": 64}]}"#;
    let output = check(set, &["--test", "qpa"]);
    assert_eq!(output.status.code(), Some(2));
    let error = error(&output);
    assert!(
        error.contains("`x`") && error.contains("wss_kib") && error.contains("--delay"),
        "{error}"
    );
    assert_eq!(check(set, &["--test", "qpa", "--delay", "2us"]).status.code(), Some(0));
}

#[test]
fn each_scheduler_is_charged_what_it_may_suffer() {
    // Of 1,024 KiB, in an idle system, a preemption costs 30.03 us (31, rounded up), an L3-migration, the
    // dearest, 935.29 us (936): two tasks of 9,000 in 10,000 on two CPUs bear the one and the other, of
    // 9,065 only the first.
    let costs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5/costs.csv");
    let of = |wcet: u32, test: &str, more: &[&str]| {
        let task = format!(r#"{{"wcet_us": {wcet}, "period_us": 10000, "wss_kib": 1024}}"#);
        let set = format!(r#"{{"cpus": 24, "tasks": [{task}, {task}]}}"#);
        let options = ["--test", test, "--costs", costs, "--load", "idle", "--json"];
        check(&set, &[&options[..], more].concat())
    };
    let yes = |output: &Output| json(output)["schedulable"] == true;
    assert!(yes(&of(9_064, "soft-g-edf", &[])) && !yes(&of(9_065, "soft-g-edf", &[])));
    assert!(yes(&of(9_969, "p-edf-ffd", &[])) && !yes(&of(9_970, "p-edf-ffd", &[])));
    // Pairs that share a level-2 cache: 52.63 us; without the machine, anything could happen in them.
    let machine = ["--platform", "xeon_l7455"];
    assert!(
        yes(&of(9_947, "soft-c-edf-l2", &machine)) && !yes(&of(9_948, "soft-c-edf-l2", &machine))
    );
    assert!(!yes(&of(9_947, "soft-c-edf-2", &[])));
    let output = of(9_000, "soft-c-edf-l2", &[]);
    assert!(output.status.code() == Some(2) && error(&output).contains("--platform"));
    // Without a load the table is ambiguous; without a working set nothing says what a task costs.
    let set = r#"{"cpus": 1, "tasks": [{"name": "x", "wcet_us": 1, "period_us": 9000}]}"#;
    let output = check(set, &["--costs", costs]);
    assert!(output.status.code() == Some(2) && error(&output).contains("constructed, idle"));
    let output = check(set, &["--costs", costs, "--load", "idle"]);
    assert!(output.status.code() == Some(4) && error(&output).contains("`x`"));
    let huge = set.replace("9000}", "9000, \"wss_kib\": 99999}");
    let output = check(&huge, &["--costs", costs, "--load", "idle"]);
    assert!(output.status.code() == Some(4) && error(&output).contains("99999"));
}

#[test]
fn the_caches_of_a_machine_make_the_clusters() {
    let set = r#"{"cpus": 24, "tasks": [{"wcet_us": 1, "period_us": 4}]}"#;
    let names = |options: &[&str]| {
        let answers = json(&check(set, options));
        let names = answers.as_array().unwrap().iter().map(|it| it["test"].to_string());
        names.filter(|name| name.contains("c-edf-")).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--json", "--platform", "xeon_l7455"]).len(), 4);
    assert!(names(&["--json"]).len() > 4);
    let output = check(set, &["--test", "c-edf-l4", "--platform", "xeon_l7455"]);
    assert!(output.status.code() == Some(2) && error(&output).contains("level-4"));
}

#[test]
fn cache_aware_tests_take_the_blocks_of_a_task_set_file() {
    // One preempter with blocks 1-4, one task that finds 3-7 useful; a block takes a microsecond.
    let set = r#"{"cpus": 1, "block_reload_ns": 1000, "tasks": [
        {"wcet_us": 2, "period_us": 20, "ucb": "", "ecb": "1-4"},
        {"wcet_us": 17, "period_us": 60, "ucb": "3-7", "ecb": [3, 4, 5, 6, 7, 8]}]}"#;
    let bound = |test: &str| json(&check(set, &["--test", test, "--json"]))["bounds_us"][1].clone();
    assert_eq!(bound("p-fp-ecb-only"), 29);
    assert_eq!(bound("p-fp-ucb-only"), 31);
    assert_eq!(bound("p-fp-multiset-combined"), 25);
    // In nanoseconds: one preemption, two blocks of 100 ns, rounded up to 1 us.
    let quick = set.replace("1000", "100");
    let answer = json(&check(&quick, &["--test", "p-fp-ucb-union", "--json"]));
    assert_eq!(answer["bounds_us"][1], 20);
    assert_eq!(json(&check(set, &["--test", "edf-ucb-union", "--json"]))["schedulable"], true);
    let without = json(&check(FITS, &["--test", "edf-ucb-union", "--json"]));
    assert_eq!(without["schedulable"], "unknown");
    assert!(without["why"].as_str().unwrap().contains("block_reload_ns"), "{without}");
    let output = check(&set.replace("3-7", "2-7"), &["--test", "all"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(error(&output).contains("task 1: ucb is 2-7"));
}

#[test]
fn overheads_are_charged_by_the_number_of_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overheads.csv");
    std::fs::write(&file, "TASK-COUNT,SCHEDULE,CXS,RELEASE\n2,1,0.5,0\n4,3,0.5,0\n").unwrap();
    let of = |more: &[&str]| {
        let options = ["--test", "p-fp-rta", "--json", "--overheads", file.to_str().unwrap()];
        check(FITS, &[&options[..], more].concat())
    };
    // Three tasks: 2 to schedule and 1 to switch, twice for each job: 11, and 16 + 2 (11) for the second; the third has no time left.
    assert_eq!(json(&of(&[]))["schedulable"], false);
    let two = FITS.replace("40, \"period_us\": 80", "1, \"period_us\": 800");
    let options = ["--test", "p-fp-rta", "--json", "--overheads", file.to_str().unwrap()];
    assert_eq!(json(&check(&two, &options))["bounds_us"].as_array().unwrap().len(), 3);
    assert_eq!(json(&check(&two, &options))["bounds_us"][1], 38);
    let many = format!(
        r#"{{"cpus": 1, "tasks": [{}]}}"#,
        [r#"{"wcet_us": 1, "period_us": 90}"#; 5].join(",")
    );
    let output = check(&many, &options);
    assert!(output.status.code() == Some(4) && error(&output).contains("up to 4 tasks"));
}
