// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop record from`: traces of other programs as recordings.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A minute of two threads on two CPUs, in one of the forms of the kernel's text.
const FTRACE: &str = "\
# tracer: nop
           worker-7     (     7) [000] d..2.    10.000000: sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=other next_pid=8 next_prio=120
           <idle>-0     (-----) [001] d..2.    10.000020: sched_wakeup: comm=idler pid=9 prio=120 target_cpu=001
           <idle>-0     (-----) [001] d..2.    10.000030: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=worker next_pid=7 next_prio=120
           worker-7     (     7) [001] d..2.    10.000230: sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
a line of another program
";

fn corehop(folder: &TempDir, words: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_corehop"));
    program.args(words.split(' ')).current_dir(folder.path());
    program.env("HOME", folder.path()).env("XDG_DATA_HOME", folder.path()).output().unwrap()
}

/// The exit code, stdout and stderr, with wrapped lines joined.
fn told(folder: &TempDir, words: &str) -> (Option<i32>, String, String) {
    let output = corehop(folder, words);
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.txt"), FTRACE).unwrap();
    folder
}

fn json(folder: &TempDir, words: &str) -> serde_json::Value {
    let output = corehop(folder, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_trace_is_answered_as_a_recording_and_what_it_lacks_is_said() {
    let folder = folder();
    let (code, said, notes) = told(&folder, "record from trace.txt --pid 7 --platform xeon_l7455");
    assert_eq!(code, Some(0), "{notes}");
    for words in [
        "runnable threads waited 30.0 µs for a CPU",
        "1 preemptions, and 1 returns to another CPU than before",
        "process 7 in trace.txt: 0.000 s, 1 threads; recorded by another program, as a trace",
        "no event sched_migrate_task",
        "corehop ignores 1 lines that are not events; the first is line 6",
        "the costs of this host do not apply to another machine",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("recording took"), "{said}");
}

#[test]
fn a_mark_of_the_encoding_before_a_trace_is_no_line_of_the_trace() {
    let folder = folder();
    let plain = json(&folder, "record from trace.txt --platform xeon_l7455 --json");
    let marked = FTRACE.replacen("# tracer: nop\n", "\u{feff}", 1);
    fs::write(folder.path().join("trace.txt"), marked).unwrap();
    let answer = json(&folder, "record from trace.txt --platform xeon_l7455 --json");
    assert_eq!(answer["threads"], plain["threads"]);
}

#[test]
fn the_rows_of_a_trace_are_those_of_a_recording_for_every_reader() {
    let folder = folder();
    let words = "record from trace.txt --platform xeon_l7455 -o r.parquet --trace t.json --timeline p.html --metrics m.prom --json";
    let answer = json(&folder, words);
    assert_eq!(answer["threads"].as_array().map(Vec::len), Some(3), "{answer}");
    assert!(answer["trace"].to_string().contains("sched_migrate_task") && answer["took"].is_null());
    for file in ["r.parquet", "r.threads.parquet", "r.runs.parquet", "t.json", "p.html", "m.prom"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
    let trace = fs::read_to_string(folder.path().join("t.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&trace).unwrap();
    let (code, said, _) = told(&folder, "report r.parquet --table text");
    assert!(code == Some(0) && said.contains("worker"), "{said}");
    assert!(said.contains("no event sched_migrate_task"), "{said}");
    let (code, said, _) = told(&folder, "compare r.parquet r.parquet");
    assert!(code == Some(0) && said.contains("wall time"), "{said}");
}

#[test]
fn the_same_trace_in_the_form_of_perf_has_the_same_absences() {
    let folder = folder();
    let perf: Vec<String> = FTRACE
        .lines()
        .filter(|line| line.contains(": sched_"))
        .map(|line| {
            let (thread, rest) = line.split_once('(').unwrap();
            let (name, tid) = thread.trim().rsplit_once('-').unwrap();
            let (_, rest) = rest.split_once(") ").unwrap();
            let rest = rest.replace("d..2.", "").replace(": sched_", ": sched:sched_");
            format!("{name:>16} {tid:>5} {rest}\n")
        })
        .collect();
    fs::write(folder.path().join("perf.txt"), perf.concat()).unwrap();
    let of = |file: &str| {
        json(&folder, &format!("record from {file} --pid 7 --platform xeon_l7455 --json"))
    };
    let (ftrace, perf) = (of("trace.txt"), of("perf.txt"));
    for key in ["threads", "classes"] {
        assert_eq!(ftrace[key], perf[key], "{key}");
        assert_eq!(ftrace["cost"][key], perf["cost"][key], "{key}");
    }
}

#[test]
fn a_file_that_is_no_trace_is_refused_and_no_file_is_left() {
    let folder = folder();
    fs::write(folder.path().join("x.txt"), "hello\n").unwrap();
    let (code, _, said) = told(&folder, "record from x.txt --platform xeon_l7455 -o r.parquet");
    assert!(
        code == Some(3) && said.contains("x.txt") && said.contains("perf sched script"),
        "{said}"
    );
    assert!(!Path::new(&folder.path().join("r.parquet")).exists());
    let (code, _, said) = told(&folder, "record from trace.txt --pid 99 --platform xeon_l7455");
    assert!(code == Some(3) && said.contains("no thread of the process 99"), "{said}");
    let (code, _, said) = told(&folder, "record from trace.txt --arm x=true");
    assert!(code == Some(2) && said.contains("--arm"), "{said}");
}
