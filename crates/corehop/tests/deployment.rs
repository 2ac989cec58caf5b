// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a verdict to threads: what `check -o` writes, what `convert` makes of it, and what Linux does not run as analysed.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn corehop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

fn check(set: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    std::fs::write(&file, set).unwrap();
    run(&file, options)
}

fn run(file: &Path, options: &[&str]) -> Output {
    corehop(&[&["check", file.to_str().unwrap()], options].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The text on stderr, unfolded.
fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

#[test]
fn a_global_yes_is_written_with_its_scheduler_priorities_and_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let set = r#"{"cpus": 2, "tasks": [{"wcet_us": 2000, "period_us": 10000}, {"wcet_us": 3000, "period_us": 20000},
        {"wcet_us": 1000, "period_us": 40000}]}"#;
    for (scheduler, ranked) in [("g-edf", false), ("g-fp", true)] {
        let out = folder.path().join(format!("{scheduler}.json"));
        let options = ["--scheduler", scheduler, "--json", "-o", out.to_str().unwrap()];
        let answer = check(set, &options);
        assert_eq!(answer.status.code(), Some(0), "{}", error_of(&answer));
        let written: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        assert_eq!(written["scheduler"], scheduler);
        assert_eq!(written["verdict"], json(&answer)["sentence"]);
        let task = &written["tasks"][0];
        assert!(task["cpus"].is_null() && task["priority"].is_u64() == ranked, "{written}");
        // The file asks its own question, and is answered alike.
        let again = run(&out, &["--json"]);
        assert_eq!(
            json(&again)["question"],
            serde_json::json!({"scheduler": scheduler, "assumed": false})
        );
        assert_eq!(again.status.code(), Some(0));
    }
    // What is not accepted is not written, and said.
    let never = folder.path().join("never.json");
    let over = set.replace("2000, \"period_us\": 10000", "9000, \"period_us\": 9000");
    let over = over.replace("3000, \"period_us\": 20000", "9000, \"period_us\": 9000");
    let output = check(&over, &["--scheduler", "g-edf", "-o", never.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = error_of(&output);
    assert!(
        said.contains("never.json, because the answer is not yes") && !never.exists(),
        "{said}"
    );
}

#[test]
fn a_yes_for_threads_that_linux_throttles_says_so() {
    let set = r#"{"cpus": 1, "tasks": [{"wcet_us": 9700, "period_us": 10000, "priority": 1}]}"#;
    let output = check(set, &[]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("on Linux threads under SCHED_FIFO use 97.0 % of CPU 0"), "{text}");
    let limits = |set: &str| json(&check(set, &["--json"]))["deployment"].clone();
    assert!(limits(set)[0].as_str().unwrap().contains("kernel.sched_rt_runtime_us"));
    assert!(
        limits(&set.replace(", \"priority\": 1", ""))[0].as_str().unwrap().contains("admits 0.95")
    );
    assert!(limits(&set.replace("9700", "9400")).is_null());
}

#[test]
fn what_was_asked_goes_to_threads_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Constrained deadlines, equal priorities on two CPUs, the smallest rank 0.
    let set = r#"{"cpus": 2, "scheduler": "p-fp", "tasks": [
        {"name": "a", "wcet_us": 1000, "period_us": 10000, "deadline_us": 8000, "priority": 0, "cpus": [0]},
        {"name": "b", "wcet_us": 2000, "period_us": 20000, "priority": 7, "cpus": [0], "jitter_us": 5},
        {"name": "c", "wcet_us": 1000, "period_us": 10000, "priority": 7, "cpus": [1], "wss_kib": 64}]}"#;
    std::fs::write(path("set.json"), set).unwrap();
    let out = corehop(&["convert", "rt-app", &path("set.json"), "-o", &path("w.json")]);
    assert_eq!(out.status.code(), Some(0), "{}", error_of(&out));
    let said = error_of(&out).replace("\n      ", " ");
    assert!(said.contains("deadline_us, jitter_us, wss_kib"), "{said}");
    let workload: Value = serde_json::from_slice(&std::fs::read(path("w.json")).unwrap()).unwrap();
    let priority = |name: &str| workload["tasks"][name]["priority"].as_u64().unwrap();
    assert_eq!((priority("a"), priority("b"), priority("c")), (98, 97, 97));
    let back = corehop(&["convert", "tasks", &path("w.json")]);
    assert_eq!(json(&back), serde_json::from_str::<Value>(set).unwrap());
}

#[test]
fn a_number_of_cpus_that_does_not_fit_is_a_mistake_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.json");
    let pinned = r#"{"tasks": {"x": {"run": 5, "policy": "SCHED_FIFO", "cpus": [7], "timer": {"ref": "unique", "period": 7}}}}"#;
    std::fs::write(&file, pinned).unwrap();
    let converted =
        |cpus: &str| corehop(&["convert", "tasks", file.to_str().unwrap(), "--cpus", cpus]);
    for (cpus, words) in
        [("0", "--cpus"), ("4", "--cpus is 4, but a thread names CPU 7"), ("99999", "--cpus")]
    {
        let output = converted(cpus);
        let said = error_of(&output);
        assert!(output.status.code() == Some(2) && said.contains(words), "{cpus}: {said}");
    }
    assert_eq!(converted("8").status.code(), Some(0));
}

/// The first bytes of files of other kinds, the name that an error gives them, and their reader.
const KINDS: [(&str, &[u8], &str, &str); 11] = [
    ("a.xml", b"<?xml version=\"1.0\"?><a/>", "XML", "SchedCAT"),
    ("a.html", b"<!doctype html><html>", "an HTML page", "browser"),
    ("a.yaml", b"cpus: 2\ntasks:\n  - wcet_us: 3\n", "YAML", "tables of tasks as YAML"),
    ("a.gz", b"\x1f\x8b\x08\x00rest", "gzip", "gunzip"),
    ("a.elf", b"\x7fELF\x02\x01", "a program (ELF)", "corehop record"),
    ("a.parquet", b"PAR1....PAR1", "Parquet", "corehop report contents"),
    ("a.empty", b"\n", "an empty file", ""),
    ("a.csv", b"load,event,preemption_length\n", "a cost table (CSV)", "--costs"),
    ("a.toml", b"schema = 1\nid = \"a\"\n", "a platform file (TOML)", "corehop sim platform"),
    ("model.json", b"{\"curves\": []}", "a cost model (JSON)", "corehop advise predict"),
    ("own.toml", b"[tool]\nx = 1\n", "TOML", "corehop check study"),
];

#[test]
fn a_file_of_another_kind_is_named_with_what_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], what: &str, reader: &str| {
        let output = corehop(words);
        let said = error_of(&output);
        let is_named = said.contains(&format!("this is {what}")) && said.contains(reader);
        assert!(output.status.code() == Some(4) && is_named, "{words:?}: {said}");
        assert!(
            said.lines().all(|line| !line.contains("EOF") || what == "an empty file"),
            "{said}"
        );
    };
    for (name, bytes, what, reader) in KINDS {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        refused(&["check", path], what, reader);
        refused(&["convert", "tasks", path], what, reader);
        refused(&["convert", "rt-app", path], what, reader);
    }
    let set = folder.path().join("set.json");
    let workload = folder.path().join("workload.json");
    std::fs::write(&set, r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 5000}]}"#)
        .unwrap();
    let text =
        r#"/* mine */ {"tasks": {"x": {"run": 5, "timer": {"ref": "unique", "period": 70}}}}"#;
    std::fs::write(&workload, text).unwrap();
    let [set, workload] = [&set, &workload].map(|path| path.to_str().unwrap());
    refused(&["convert", "tasks", set], "a task set (JSON)", "corehop check");
    refused(&["check", workload], "an rt-app workload (JSON)", "corehop convert");
    refused(&["check", set, "--costs", set], "a task set (JSON)", "corehop check");
    let platform = folder.path().join("a.toml");
    let platform = platform.to_str().unwrap();
    refused(&["check", set, "--costs", platform], "a platform file (TOML)", "corehop sim platform");
}

#[test]
fn a_column_or_field_that_is_not_understood_is_refused_with_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let set = path(
        "set.json",
        r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 5000, "wss_kib": 4}]}"#,
    );
    let costs = |head: &str, row: &str| path("costs.csv", &format!("{head}\n{row}\n"));
    let head = "load,event,statistic,wss_kib,cost_us";
    for (head, row, words) in [
        (format!("{head},hihg_us"), "idle,preemption,max,64,1,3", "column `hihg_us`"),
        (format!("{head},wss"), "idle,preemption,max,64,1,3", "`wss` (the nearest is `wss_kib`)"),
        (format!("{head},load"), "idle,preemption,max,64,1,idle", "column `load` twice"),
        (
            head.to_owned(),
            "idle,preemption,max,64",
            "this line has 4 fields, but the first line names 5",
        ),
        ("WSS,L1,L2,LLC".to_owned(), "64,1,2,3", "column `LLC`"),
    ] {
        let costs = costs(&head, row);
        let output = corehop(&["check", &set, "--costs", &costs, "--load", "idle"]);
        let said = error_of(&output);
        assert!(output.status.code() == Some(4) && said.contains(words), "{head}: {said}");
    }
    let typo = path(
        "typo.json",
        r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 5000, "deadline": 4000}]}"#,
    );
    let said = error_of(&corehop(&["check", &typo]));
    assert!(said.contains("`deadline` (the nearest is `deadline_us`)"), "{said}");
    let text = r#"{"tasks": {"x": {"run": 5, "polisy": "SCHED_FIFO", "timer": {"ref": "unique", "period": 70}}}}"#;
    let said = error_of(&corehop(&["convert", "tasks", &path("w.json", text)]));
    assert!(said.contains("`polisy`") && said.contains("(the nearest is `policy`)"), "{said}");
}
