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

/// An error in one line.
fn unfolded(said: &str) -> String {
    said.replace("\n         ", " ")
}

/// The exit code, stdout and stderr of a conversion of `text`.
fn converted(text: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("workload.json");
    fs::write(&file, text).unwrap();
    let output = convert(&file, options);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_workload_is_read_as_rt_app_reads_it_and_what_is_a_bound_is_said() {
    let ordinary = r#"/* the slice of an ordinary thread is no budget */ {"tasks": {
        "a": {"loop": -1, "policy": "SCHED_OTHER", "run_a": 15000, "runtime": 5000, "dl-runtime": 3000,
              "timer0": {"ref": "unique", "period": 40000}},
        "b": {"phases": {"only": {"loop": -1, "run": 30000, "cpus": [1],
              "timer": {"ref": "unique", "period": 40000}}}}}}"#;
    let (exit, set, said) = converted(ordinary, &["--to", "tasks"]);
    assert_eq!(exit, Some(0), "{said}");
    let set: serde_json::Value = serde_json::from_str(&set).unwrap();
    let wcets = [&set["tasks"][0]["wcet_us"], &set["tasks"][1]["wcet_us"]];
    assert_eq!((wcets, &set["cpus"]), ([&20_000.into(), &30_000.into()], &2.into()));
    assert_eq!(set["tasks"][1]["cpus"], serde_json::json!([1]));
    for word in ["dl-runtime", "SCHED_OTHER", "2 runs", "--cpus"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let (notes, sentence) = said.trim_end().rsplit_once('\n').unwrap();
    assert!(sentence.starts_with("corehop converted "), "{said}");
    assert!(sentence.ends_with(" to tasks."), "{said}");
    assert!(
        notes.lines().all(|line| line.starts_with("note: ") || line.starts_with("      ")),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 106), "{said}");
}

#[test]
fn what_a_task_set_cannot_express_is_refused_by_name() {
    let timer = r#""timer": {"ref": "unique", "period": 40000}"#;
    let fifo = |more: &str| format!(r#"{{"policy": "SCHED_FIFO", "run": 2000, {more}, {timer}}}"#);
    for (threads, words) in [
        (format!(r#""a": {}"#, fifo(r#""memrun_a": {"type": "chase"}"#)), "`memrun_a`"),
        (
            format!(r#""a": {}, "a": {}"#, fifo(r#""loop": 1"#), fifo(r#""loop": 1"#)),
            "is duplicated",
        ),
        (format!(r#""a": {}"#, fifo(r#""run": 3000"#)), "is duplicated"),
        (format!(r#""t": {}"#, fifo(r#""instance": 20000"#)), "`instance` is 20000"),
        (
            format!(
                r#""dl": {{"policy": "SCHED_DEADLINE", "dl-runtime": 9, "dl-period": 90}}, "f": {}"#,
                fifo(r#""priority": 10"#)
            ),
            "policies are mixed: `dl` runs under SCHED_DEADLINE and `f` under SCHED_FIFO",
        ),
    ] {
        let (exit, set, said) =
            converted(&format!(r#"{{"tasks": {{{threads}}}}}"#), &["--to", "tasks"]);
        assert_eq!((exit, set.as_str()), (Some(4), ""), "{said}");
        assert!(unfolded(&said).contains(words), "{words}: {said}");
    }
    let set = r#"{"cpus": 2, "tasks": [{"wcet_us": 1, "period_us": 50},
        {"name": "slow", "wcet_us": 1000, "period_us": 1099511627776}]}"#;
    let (exit, workload, said) = converted(set, &["--to", "rt-app"]);
    assert_eq!((exit, workload.as_str()), (Some(3), ""), "{said}");
    for word in
        ["`task0`: a budget of 1 us", "a period of 50 us", "`slow`: a period of 1099511627776"]
    {
        assert!(unfolded(&said).contains(word), "{word}: {said}");
    }
}

#[test]
fn an_option_of_another_form_is_refused() {
    let set = r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 5000}]}"#;
    for (form, option) in [
        ("rt-app", ["--cpus", "2"]),
        ("rt-app", ["--load", "idle"]),
        ("tasks", ["--duration", "2"]),
        ("tasks", ["--statistic", "max"]),
        ("rows", ["--cpus", "2"]),
        ("costs", ["--duration", "2"]),
    ] {
        let (exit, _, said) = converted(set, &["--to", form, option[0], option[1]]);
        assert!(exit == Some(2) && said.contains(option[0]), "{form} {option:?}: {said}");
    }
    let (exit, _, said) = converted(set, &["--to", "tasks", "--salvage"]);
    assert!(exit == Some(2) && said.contains("--salvage"), "{said}");
    let costs = "load,event,statistic,wss_kib,cost_us\nidle,preemption,max,64,10\n";
    let (exit, _, said) = converted(costs, &["--to", "costs", "--load", "idle"]);
    assert!(exit == Some(2) && said.contains("--load"), "{said}");
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

#[test]
fn a_table_of_tasks_is_converted_and_checked_directly() {
    let scratch = tempfile::tempdir().unwrap();
    let csv = scratch.path().join("tasks.txt");
    fs::write(&csv, "name,C [ms],T [ms]\nvideo,2,10\naudio,1,5\n").unwrap();
    let set = text(&convert(&csv, &["--to", "tasks", "--cpus", "2"]));
    let json = serde_json::from_str::<serde_json::Value>(&set).unwrap();
    assert_eq!((&json["cpus"], &json["tasks"][1]["wcet_us"]), (&2.into(), &1000.into()));
    let mut check = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output = check.arg("check").arg(&csv).output().unwrap();
    let said = unfolded(&String::from_utf8(output.stderr).unwrap());
    assert!(output.status.code() == Some(0) && said.contains("corehop assumes 1"), "{said}");
}

#[test]
fn a_time_without_a_unit_needs_the_option_and_no_other_form_takes_the_option() {
    let table = "tasks:\n  - C: 1\n    T: 4\n";
    let (exit, set, said) = converted(table, &["--to", "tasks"]);
    let said = unfolded(&said);
    assert!(exit == Some(4) && set.is_empty() && said.contains("task 0: `C` is 1"), "{said}");
    let (exit, set, said) = converted(table, &["--to", "tasks", "--unit", "ms"]);
    assert!(exit == Some(0) && set.contains("\"wcet_us\": 1000"), "{said}");
    let workload = r#"{"tasks": {"a": {"run": 1, "timer": {"ref": "unique", "period": 4}}}}"#;
    for (text, form) in [(workload, "tasks"), (table, "rt-app")] {
        let (exit, _, said) = converted(text, &["--to", form, "--unit", "ms"]);
        assert!(exit == Some(2) && said.contains("--unit"), "{form}: {said}");
    }
    let (exit, _, said) = converted(table, &["--to", "tasks", "--unit", "minutes"]);
    assert!(exit == Some(2) && said.contains("use one of: ns, us, ms, s"), "{said}");
}

/// A model of MAST in which a thread of 6 in 10 and a more urgent interrupt of `wcet` in 10 share a processor.
fn model(wcet: &str) -> String {
    let server = |name: &str, policy: &str| {
        format!(
            "Scheduling_Server (Type => Fixed_Priority, Name => {name}, Server_Processing_Resource => p, Server_Sched_Parameters => (Type => {policy}));"
        )
    };
    let flow = |name: &str, wcet: &str| {
        format!(
            "Operation (Type => Simple, Name => {name}, Worst_Case_Execution_Time => {wcet});
            Transaction (Type => Regular, Name => {name}, External_Events => ((Type => Periodic, Name => e, Period => 10)),
               Internal_Events => ((Type => Regular, Name => o)), Event_Handlers => ((Type => Activity, Input_Event => e,
               Output_Event => o, Activity_Operation => {name}, Activity_Server => {name})));"
        )
    };
    let servers = server("thread", "Fixed_Priority_Policy, The_Priority => 3")
        + &server("irq", "Interrupt_FP_Policy, The_Priority => 9");
    let flows = flow("thread", "6") + &flow("irq", wcet);
    format!(
        "-- mine\nProcessing_Resource (Type => Fixed_Priority_Processor, Name => p);\n{servers}{flows}"
    )
}

#[test]
fn a_model_of_mast_is_checked_after_the_conversion_and_an_overload_is_a_no() {
    let scratch = tempfile::tempdir().unwrap();
    let set = scratch.path().join("set.json");
    for (wcet, answer, words) in [("4", 0, "yes"), ("4.001", 1, "no")] {
        let (exit, json, said) = converted(&model(wcet), &["--to", "tasks", "--unit", "ms"]);
        assert_eq!(exit, Some(0), "{said}");
        assert!(unfolded(&said).contains("rank 0 is priority 9"), "{said}");
        fs::write(&set, json).unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_corehop")).arg("check").arg(&set).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(answer) && stdout.starts_with(words), "{stdout}");
    }
    let (exit, set, said) = converted(&model("4"), &["--to", "tasks"]);
    assert!(exit == Some(4) && set.is_empty(), "{said}");
    assert!(unfolded(&said).contains("`wcet` is 6: a time without a unit"), "{said}");
    let (exit, _, said) = converted(&model("4").replace("=> 10))", "=> 10);"), &["--to", "tasks"]);
    assert!(exit == Some(4) && said.contains("not valid MAST: line"), "{said}");
}

#[test]
fn a_file_of_no_known_format_is_refused_with_the_formats_that_are_read() {
    for text in ["a,b,c\n1,2,3\n", "<a/>", "dear reader\n", "#!/bin/sh\n"] {
        let (exit, _, said) = converted(text, &["--to", "tasks"]);
        let said = unfolded(&said);
        assert!(exit == Some(4) && said.contains("a table of tasks (CSV), or"), "{text}: {said}");
        assert!(said.contains("an rt-app workload (JSON)"), "{text}: {said}");
    }
}
