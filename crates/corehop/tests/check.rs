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
    error_of(output)
}

/// The text on stderr, unfolded.
fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
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
    let output = check(FITS, &["--test", "all", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let answers = json(&output);
    let answers = answers.as_array().unwrap();
    assert!(answers.len() > 20);
    let rta = answers.iter().find(|answer| answer["test"] == "rta").unwrap();
    assert_eq!(rta["schedulable"], "unknown");
    let text = String::from_utf8(check(FITS, &["--test", "all"]).stdout).unwrap();
    assert!(text.starts_with("survey: "), "{text}");
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
    // A charge is a bound: a job may lose less.
    assert_eq!((output.status.code(), &json(&output)["schedulable"]), (Some(1), &"unknown".into()));
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
        (task(r#""wcet_us": 1.00025, "period_us": 4"#), ["`x`", "wcet_us"]),
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
    // dearest, 935.29 us (936): 25 tasks of 8,664 in 10,000 on 24 CPUs bear the others, of 8,665 they do not. As many tasks as
    // CPUs are not preempted.
    let costs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5/costs.csv");
    let of = |count: usize, wcet: u32, test: &str| {
        let task = format!(r#"{{"wcet_us": {wcet}, "period_us": 10000, "wss_kib": 1024}}"#);
        let set = format!(r#"{{"cpus": 24, "tasks": [{}]}}"#, vec![task; count].join(", "));
        check(&set, &["--test", test, "--costs", costs, "--load", "idle", "--json"])
    };
    let yes = |output: &Output| json(output)["schedulable"] == true;
    assert!(yes(&of(25, 8_664, "soft-g-edf")) && !yes(&of(25, 8_665, "soft-g-edf")));
    // Each has a CPU of its own, and preempts no other job.
    for test in ["p-edf-wfd", "soft-g-edf", "g-edf", "g-fp"] {
        assert!(yes(&of(24, 10_000, test)), "{test}");
    }
    // On one CPU the shorter one pays for the longer one; in the answer with C, T and D.
    let pair = |wcet: u32| {
        format!(
            r#"{{"cpus": 1, "tasks": [{{"wcet_us": {wcet}, "period_us": 10000, "wss_kib": 64}},
                {{"wcet_us": 1000, "period_us": 20000, "wss_kib": 1024}}]}}"#
        )
    };
    let options = ["--costs", costs, "--load", "idle", "--json"];
    let ask =
        |wcet, test: &str| json(&check(&pair(wcet), &[&options[..], &["--test", test]].concat()));
    for test in ["qpa", "p-edf-ffd"] {
        let answer = ask(9_469, test);
        assert_eq!(answer["schedulable"], true, "{answer}");
        assert_eq!(answer["delays_us"], serde_json::json!([31, 0]));
        let first = serde_json::json!({"wcet_us": 9500, "period_us": 10000, "deadline_us": 10000});
        assert_eq!(answer["charged"][0], first);
        // What is refused with a charge may hold: the charge is a bound.
        assert_eq!(ask(9_470, test)["schedulable"], "unknown");
    }
    // Pairs that share a level-2 cache: 52.63 us for the third task, of twice the length and period, which only the others preempt:
    // 2 (6631 + 53) + 6631 in 20,000. Without the machine, anything could happen in them.
    let machine = ["--platform", "xeon_l7455"];
    let three = |wcet: u32, more: &[&str]| {
        let task = |by: u32| {
            let (wcet, period) = (by * wcet, by * 10_000);
            format!(r#"{{"wcet_us": {wcet}, "period_us": {period}, "wss_kib": 1024}}"#)
        };
        let set = format!(r#"{{"cpus": 2, "tasks": [{}, {}, {}]}}"#, task(1), task(1), task(2));
        let test = if more.is_empty() { "soft-c-edf-2" } else { "soft-c-edf-l2" };
        check(&set, &[&options[..], &["--test", test], more].concat())
    };
    assert!(yes(&three(6_631, &machine)) && !yes(&three(6_632, &machine)));
    assert!(!yes(&three(6_631, &[])));
    let output = check(&pair(1), &["--test", "soft-c-edf-l2", "--costs", costs, "--load", "idle"]);
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
        let answers = json(&check(set, &[options, &["--test", "all"]].concat()));
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
    // What ignores reloads does not say yes, unless a delay is charged in their place.
    for test in ["qpa", "p-fp-rta", "p-edf-ffd", "gfb", "soft-g-edf"] {
        let answer = json(&check(set, &["--test", test, "--json"]));
        assert_eq!(answer["schedulable"], "unknown", "{answer}");
        assert!(answer["why"].as_str().unwrap().contains("does not charge reloads"), "{answer}");
        let answer = json(&check(set, &["--test", test, "--json", "--delay", "0us"]));
        assert_eq!(answer["schedulable"], true, "{answer}");
    }
    let heavy = set.replace("\"wcet_us\": 17", "\"wcet_us\": 55");
    assert_eq!(json(&check(&heavy, &["--test", "qpa", "--json"]))["schedulable"], false);
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
    // Three tasks: 2 to schedule and 0.5 to switch, twice for each job: 10, and 15 + 2 (10) for the second; the third has no
    // time left.
    assert_eq!(json(&of(&[]))["schedulable"], "unknown");
    let two = FITS.replace("40, \"period_us\": 80", "1, \"period_us\": 800");
    let options = ["--test", "p-fp-rta", "--json", "--overheads", file.to_str().unwrap()];
    assert_eq!(json(&check(&two, &options))["bounds_us"].as_array().unwrap().len(), 3);
    assert_eq!(json(&check(&two, &options))["bounds_us"][1], 35);
    let many = format!(
        r#"{{"cpus": 1, "tasks": [{}]}}"#,
        [r#"{"wcet_us": 1, "period_us": 90}"#; 5].join(",")
    );
    let output = check(&many, &options);
    assert!(output.status.code() == Some(4) && error(&output).contains("up to 4 tasks"));
}

#[test]
fn a_table_without_scheduling_overheads_is_no_table_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overheads.csv");
    std::fs::write(&file, "TASK-COUNT,LOCK,UNLOCK,SYSCALL-IN\n2,0.1,0.1,3.7\n4,0.1,0.1,3.2\n")
        .unwrap();
    let options = ["--test", "edf-rta", "--overheads", file.to_str().unwrap()];
    let output = check(FITS, &options);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        error(&output).contains("this table has no scheduling overheads"),
        "{}",
        error(&output)
    );
    // A column that is missing beside others is named.
    std::fs::write(&file, "TASK-COUNT,CXS,SCHEDULE,TICK\n4,0.1,0.1,0.1\n").unwrap();
    let output = check(FITS, &options);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("charges nothing for IPI-LATENCY, RELEASE, RELEASE-LATENCY"), "{said}");
}

#[test]
fn overheads_are_charged_in_nanoseconds_and_by_partition() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overheads.csv");
    std::fs::write(&file, "TASK-COUNT,SCHEDULE,CXS,RELEASE,TICK\n64,1.1,1.1,2.1,0.1\n").unwrap();
    let tasks = [r#"{"wcet_us": 2000, "period_us": 10000}"#; 32].join(",");
    let set = format!(r#"{{"cpus": 8, "tasks": [{tasks}]}}"#);
    let options = ["--overheads", file.to_str().unwrap(), "--json", "--test"];
    let charged = |test: &str| {
        let answer = json(&check(&set, &[&options[..], &[test]].concat()));
        answer["charged"][0]["wcet_us"].as_f64().unwrap()
    };
    // Four of a CPU: Ut = 0.1 / 1000, Ur = 4 (2.1) / 10000; (2000 + 4.4 + 2 (0.1 + 4 (2.1))) / (1 - Ut - Ur) = 2023.302.
    assert!((charged("p-edf-wfd") - 2023.302).abs() < 1e-9);
    // All 32 on eight: Ur = 32 (2.1) / 10000, and 2 (0.1 + 32 (2.1)).
    let global = (2_000.0 + 4.4 + 2.0 * (0.1 + 67.2)) / (1.0 - 0.0001 - 0.00672);
    assert!((charged("soft-g-edf") - global).abs() < 0.002, "{}", charged("soft-g-edf"));
}

/// Three tasks that need both CPUs once each job is charged 200 us.
const DEPLOYED: &str = r#"{"cpus": 2, "tasks": [
    {"name": "a", "wcet_us": 5000, "period_us": 10000, "priority": 7},
    {"name": "b", "wcet_us": 9000, "period_us": 20000, "priority": 7},
    {"name": "c", "wcet_us": 6000, "period_us": 20000, "priority": 7}]}"#;

/// The threads of rt-app that a test deploys, by name.
fn threads(test: &str, set: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("placed.json");
    let options = ["--test", test, "--delay", "200us", "-o", out.to_str().unwrap()];
    let output = check(set, &[&options[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let program = env!("CARGO_BIN_EXE_corehop");
    let convert = |to: &str, file: &Path| {
        Command::new(program).args(["convert", "--to", to]).arg(file).output().unwrap()
    };
    let workload = convert("rt-app", &out);
    let back = folder.path().join("workload.json");
    std::fs::write(&back, &workload.stdout).unwrap();
    // The way back to a task set loses nothing of what was deployed.
    let placed = std::fs::read_to_string(&out).unwrap();
    assert_eq!(String::from_utf8(convert("tasks", &back).stdout).unwrap(), placed);
    json(&workload)["tasks"].clone()
}

#[test]
fn what_is_deployed_runs_as_it_was_analysed() {
    // Under fixed priorities: SCHED_FIFO. Tasks of one priority were analysed as equals, and are deployed as equals.
    let equals = threads("p-fp-ffd", DEPLOYED, &[]);
    for name in ["a", "b", "c"] {
        let thread = &equals[name];
        assert_eq!(
            (&thread["policy"], &thread["priority"]),
            (&Value::from("SCHED_FIFO"), &Value::from(98))
        );
    }
    // Priorities that the test assigned differ.
    let unranked = DEPLOYED.replace(", \"priority\": 7", "");
    let fifo = threads("p-fp-ffd", &unranked, &[]);
    let priority = |name: &str| fifo[name]["priority"].as_u64().unwrap();
    assert!(priority("a") > priority("b") && priority("b") > priority("c"), "{fifo}");
    // Under EDF: budgets with what the verdict charged, and no priorities that EDF did not look at.
    let edf = threads("p-edf-ffd", DEPLOYED, &[]);
    // `a` can preempt `b` twice.
    for (name, reloads) in [("a", 200), ("b", 400), ("c", 200)] {
        assert_eq!(edf[name]["policy"], "SCHED_DEADLINE");
        let work = edf[name]["run"].as_u64().unwrap();
        assert_eq!(edf[name]["dl-runtime"], work + reloads);
    }
}

const HALVES: &str = r#"{"cpus": 2, "tasks": [
    {"name": "a", "wcet_us": 6, "period_us": 10},
    {"name": "b", "wcet_us": 6, "period_us": 10},
    {"name": "c", "wcet_us": 4, "period_us": 10}]}"#;

#[test]
fn a_yes_can_be_deployed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("placed.json");
    let written = ["-o", out.to_str().unwrap()];
    let output = check(HALVES, &[&["--test", "p-fp-ffd", "--json"][..], &written].concat());
    assert_eq!(output.status.code(), Some(0));
    let answer = json(&output);
    assert_eq!(
        answer["assignment"],
        serde_json::json!([{"cpus": [0]}, {"cpus": [1]}, {"cpus": [0]}])
    );
    assert_eq!(answer["bounds_us"], serde_json::json!([6, 6, 10]));
    let placed: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(placed["tasks"][1]["cpus"], serde_json::json!([1]));
    assert_eq!(json(&run(&out, &["--test", "sp-edf-given", "--json"]))["schedulable"], true);
    let program = env!("CARGO_BIN_EXE_corehop");
    let convert = |file: &Path| {
        Command::new(program).args(["convert", "--to", "rt-app"]).arg(file).output().unwrap()
    };
    assert_eq!(json(&convert(&out))["tasks"]["c"]["cpus"], serde_json::json!([0]));
    // Three of 6 are split, and their budgets are checked as they stand; no thread of rt-app runs in pieces.
    let split = HALVES.replace("\"wcet_us\": 4", "\"wcet_us\": 6");
    let out = folder.path().join("split.json");
    let written = ["-o", out.to_str().unwrap()];
    let answer =
        json(&check(&split, &[&["--test", "sp-edf-c=d", "--json"][..], &written].concat()));
    let pieces = serde_json::json!([
        {"cpu": 0, "wcet_us": 4, "budget_us": 4, "deadline_us": 4},
        {"cpu": 1, "wcet_us": 2, "budget_us": 2, "deadline_us": 6}]);
    assert_eq!(answer["assignment"][2]["pieces"], pieces);
    assert_eq!(json(&run(&out, &["--test", "sp-edf-given", "--json"]))["schedulable"], true);
    let charged = run(&out, &["--test", "sp-edf-given", "--json", "--delay", "1us"]);
    assert_eq!(json(&charged)["schedulable"], "unknown");
    let output = convert(&out);
    assert_eq!(output.status.code(), Some(3));
    assert!(error(&output).contains("task 2") && error(&output).contains("pieces"));
    // EDF-os has shares.
    let answer = json(&check(&split, &["--test", "sp-edf-os", "--json"]));
    assert_eq!(answer["assignment"][2]["shares"].as_array().unwrap().len(), 2);
    // Only one test, and one that assigns CPUs; what is not accepted is not written.
    let never = folder.path().join("never.json");
    let written = ["-o", never.to_str().unwrap()];
    for (set, options, code, words) in [
        (HALVES, vec!["--test", "all"], 2, "--test"),
        (HALVES, vec!["--test", "soft-g-edf"], 2, "assigns no CPUs"),
        (&split, vec!["--test", "p-edf-ffd"], 1, ""),
    ] {
        let output = check(set, &[&options[..], &written].concat());
        assert_eq!(output.status.code(), Some(code), "{options:?}");
        assert!(error_of(&output).contains(words), "{options:?}");
        assert!(!never.exists());
    }
}

#[test]
fn an_assignment_that_makes_no_sense_is_an_error() {
    for (place, words) in [
        (r#""cpus": [0, 0]"#, "cpus is on CPUs [0, 0]"),
        (r#""cpus": []"#, "cpus is on CPUs []"),
        (r#""pieces": [{"cpu": 0, "wcet_us": 3, "deadline_us": 3}]"#, "pieces is 3 us of work"),
    ] {
        let set = format!(
            r#"{{"cpus": 2, "tasks": [{{"name": "x", "wcet_us": 4, "period_us": 10, {place}}}]}}"#
        );
        let output = check(&set, &[]);
        assert_eq!(output.status.code(), Some(4), "{place}");
        assert!(error(&output).contains("`x`") && error(&output).contains(words), "{place}");
    }
}

#[test]
fn one_task_and_more_work_than_cpus_are_answered() {
    let one = r#"{"cpus": 1, "tasks": [{"wcet_us": 5, "period_us": 5}]}"#;
    let answers = json(&check(one, &["--json", "--delay", "0us", "--test", "all"]));
    let yes = |name: &str| {
        let all = answers.as_array().unwrap();
        all.iter().find(|it| it["test"] == name).unwrap()["schedulable"] == true
    };
    assert!(
        ["qpa", "p-fp-rta", "own-cpu", "p-fp-wfd", "sp-edf-c=d", "sp-edf-os"].into_iter().all(yes)
    );
    // bcl is the published test, which has no clause for at most m tasks.
    assert!(!yes("bcl"));
    let over = HALVES.replace("\"wcet_us\": 4", "\"wcet_us\": 10");
    assert_eq!(check(&over, &[]).status.code(), Some(1));
    let answers = json(&check(&over, &["--json", "--test", "all"]));
    let necessary =
        answers.as_array().unwrap().iter().find(|it| it["test"] == "necessary").unwrap();
    assert_eq!(necessary["schedulable"], false);
}

#[test]
fn on_a_terminal_those_that_accept_come_first_and_the_rest_by_reason() {
    let text = String::from_utf8(check(HALVES, &["--test", "all"]).stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let first_other = lines.iter().position(|line| line.starts_with("unknown")).unwrap();
    assert!(
        lines[..first_other]
            .iter()
            .any(|line| line.starts_with("p-fp-ffd") && line.contains("yes"))
    );
    let reason = "the test applies to one CPU, but the set has 2";
    assert_eq!(text.matches("the test applies to one").count(), 1, "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(reason) && flat.contains("qpa, edf-rta"), "{text}");
}

/// The first line, and the exit code.
fn said(set: &str, options: &[&str]) -> (String, Option<i32>) {
    let output = check(set, options);
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().next().unwrap_or_default().to_owned(), output.status.code())
}

const PINNED: &str = r#"{"cpus": 2, "tasks": [
    {"wcet_us": 6000, "period_us": 10000, "priority": 1, "cpus": [0]},
    {"wcet_us": 7000, "period_us": 12000, "priority": 2, "cpus": [0]},
    {"wcet_us": 1000, "period_us": 20000, "priority": 3, "cpus": [1]}]}"#;

#[test]
fn the_question_is_that_of_the_set() {
    // On CPU 0 as pinned, 118 %; any test that moves the tasks would accept.
    let expected = "no: CPU 0 is needed for 118.4 % of the time, by task 0, task 1";
    for options in [&[][..], &["--scheduler", "p-edf"], &["--scheduler", "g-edf"]] {
        let (first, code) = said(PINNED, options);
        assert!(first.starts_with(expected) && code == Some(1), "{options:?}: {first}");
    }
    let equals = r#"{"cpus": 1, "tasks": [
        {"name": "fast", "wcet_us": 1000, "period_us": 5000, "priority": 10},
        {"name": "slow", "wcet_us": 20000, "period_us": 100000, "priority": 10}]}"#;
    let late = "no: `fast` can take 21 ms and has 5 ms";
    let (first, code) = said(equals, &[]);
    assert!(first.starts_with(&format!("{late} under partitioned fixed priorities")), "{first}");
    assert_eq!(code, Some(1));
    assert_eq!(said(equals, &["--test", "p-fp-rta"]), (late.to_owned(), Some(1)));
    assert_eq!(said(equals, &["--scheduler", "p-edf"]).1, Some(0));
    let stated = equals.replacen("{\"cpus\"", "{\"scheduler\": \"p-edf\", \"cpus\"", 1);
    let (first, code) = said(&stated, &[]);
    assert_eq!(code, Some(0));
    assert_eq!(
        first,
        "yes: every deadline holds under partitioned EDF; the tightest is `slow`, 75 ms of 100 ms left"
    );
    let answer = json(&check(equals, &["--json"]));
    assert_eq!(answer["question"], serde_json::json!({"scheduler": "p-fp", "assumed": true}));
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(sentence.starts_with(late) && sentence.contains("assumed"), "{sentence}");
}

#[test]
fn a_survey_answers_for_the_scheduler_that_is_named() {
    let (first, code) = said(PINNED, &["--test", "all"]);
    assert!(first.starts_with("survey: ") && code == Some(0), "{first}");
    let (first, code) = said(PINNED, &["--test", "all", "--scheduler", "p-fp"]);
    assert!(first.starts_with("no: CPU 0") && code == Some(1), "{first}");
    assert_eq!(said(FITS, &["--test", "all", "--scheduler", "p-edf"]).1, Some(0));
    // No test of the survey says yes to what the set does not allow.
    let answers = json(&check(PINNED, &["--test", "all", "--json"]));
    for answer in answers.as_array().unwrap() {
        assert_ne!(answer["schedulable"], true, "{answer}");
    }
}

#[test]
fn clusters_are_printed_as_the_caches_make_them() {
    // Every second CPU shares a last level with CPU 0.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("interleaved.toml");
    let platform = corehop_fixtures::text("platforms/xeon_e5520.toml");
    assert_eq!(platform.matches("\"0-7 by 4\"").count(), 2, "packages and level 3");
    let platform = platform.replace("\"0-7 by 4\"", "\"0-7 by 4 stride 2\"");
    std::fs::write(&file, platform.replace("\"xeon_e5520\"", "\"interleaved\"")).unwrap();
    let task = r#"{"wcet_us": 4, "period_us": 10}"#;
    let set = format!(r#"{{"cpus": 8, "tasks": [{}]}}"#, [task; 10].join(", "));
    let options = ["--test", "c-edf-l3", "--platform", file.to_str().unwrap()];
    let output = check(&set, &options);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        text.contains("CPUs 0,2,4,6: task 0") && text.contains("CPUs 1,3,5,7: task 1"),
        "{text}"
    );
    let answer = json(&check(&set, &[&options[..], &["--json"]].concat()));
    assert_eq!(answer["assignment"][0]["cpus"], serde_json::json!([0, 2, 4, 6]));
    // A set that states them is asked about them, and one that states others is not accepted.
    let on = |cpus: &str| {
        let pinned =
            set.replace("\"period_us\": 10", &format!("\"period_us\": 10, \"cpus\": {cpus}"));
        json(&check(&pinned, &[&options[..], &["--json"]].concat()))
    };
    assert_eq!(on("[0, 1, 2, 3, 4, 5, 6, 7]")["schedulable"], true);
    assert_eq!(on("[0, 1, 2, 3]")["schedulable"], "unknown");
}

#[test]
fn a_scheduler_that_is_no_question_is_refused_or_unknown() {
    let output = check(FITS, &["--test", "qpa", "--scheduler", "p-edf"]);
    assert!(output.status.code() == Some(2) && error(&output).contains("--scheduler"));
    assert_eq!(check(FITS, &["--scheduler", "edf"]).status.code(), Some(2));
    let (first, code) = said(HALVES, &["--scheduler", "eevdf"]);
    assert!(first.starts_with("unknown: no analysis") && code == Some(1), "{first}");
    let output = check(HALVES, &["--scheduler", "c-edf"]);
    assert!(output.status.code() == Some(2) && error(&output).contains("--platform"));
}
