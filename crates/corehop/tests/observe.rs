// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop record` as a user types it.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

const TABLE: &str = "load,event,statistic,wss_kib,cost_us\n\
    idle,preemption,avg,64,10\nidle,preemption,avg,256,30\nidle,l2_migration,avg,64,5\n\
    idle,l2_migration,avg,256,20\nidle,l3_migration,avg,64,7\nidle,l3_migration,avg,256,40\n\
    idle,smt_migration,avg,64,1\nidle,smt_migration,avg,256,2\nidle,memory_migration,avg,64,9\n\
    idle,memory_migration,avg,256,50\n";
const TURNS: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done & \
                     i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; wait; echo said";

fn program(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

fn corehop(words: &[&str]) -> Output {
    program(&[&["measure", "program"], words].concat())
}

/// The answer, or None with the reason where this host does not let programs be recorded.
fn answered(words: &[&str]) -> Option<Output> {
    let output = corehop(words);
    if output.status.code() == Some(3) {
        let why = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        assert!(why.contains("BPF") && why.contains("setcap"), "{why}");
        assert!(why.contains("perf_event_open") && why.contains("sysctl"), "{why}");
        eprintln!("skipped: {why}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

#[test]
fn a_programs_run_is_priced_and_kept_and_its_output_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (table, trace, kept) = (path("costs.csv"), path("trace.json"), path("run.parquet"));
    std::fs::write(&table, TABLE).unwrap();
    let page = path("run.html");
    let words = ["--json", "--costs", &table, "--wss", "64KiB", "--trace", &trace, "-o", &kept];
    let words = [&words[..], &["--timeline", &page]].concat();
    let words = [&words[..], &["--", "sh", "-c", TURNS]].concat();
    let Some(output) = answered(&words) else { return };
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).replace("\n         ", " ").contains("said"),
        "the program's own output"
    );
    let by_bpf = answer["rung"] == "bpf";
    assert!(answer["status"] == 0 && by_bpf == answer["why_not_bpf"].is_null(), "{answer}");
    let total = &answer["cost"]["total"];
    // One size has one cost in a table; an absence soon after another one may leave no room for all of it.
    let [low, high] = ["low_us", "high_us"].map(|end| total[end].as_f64().unwrap());
    assert!(low <= high, "{total}");
    let classes = answer["cost"]["classes"].as_array().unwrap();
    let sum: f64 = classes.iter().filter_map(|class| class["cost"]["low_us"].as_f64()).sum();
    assert!((sum - total["low_us"].as_f64().unwrap()).abs() < 1e-6, "{answer}");
    let trace: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    // The tracks of CPUs have bars of their own.
    let is_absence = |it: &&serde_json::Value| it["ph"] == "X" && it["cat"] != "cpu";
    let bars = trace["traceEvents"].as_array().unwrap().iter().filter(is_absence).count();
    assert_eq!(bars as u64, answer["absences"].as_u64().unwrap());
    let threads = answer["threads"].as_array().unwrap().len();
    assert_eq!((rows(&kept), rows(&path("run.threads.parquet"))), (bars, threads));
    // What the end of the run said stays in the file.
    let told = program(&["report", &kept]);
    let told = String::from_utf8_lossy(&told.stdout).replace("\n  ", " ");
    let origin = answer["costs"].as_str().unwrap();
    assert!(told.contains(origin) && told.contains("cache affinity cost"), "{origin}: {told}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("When threads were away") && page.contains("preempted by") == by_bpf);
}

/// The number of rows that `corehop report contents` prints.
fn rows(path: &str) -> usize {
    let output = program(&["report", "contents", path, "--rows", "10000000"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().count()
}

#[test]
fn a_recording_is_a_result_that_the_other_verbs_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (kept, threads, page) =
        (path("run.parquet"), path("run.threads.parquet"), path("run.html"));
    let Some(output) = answered(&["-o", &kept, "--", "sh", "-c", TURNS]) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n", "stdout is the program's alone");
    let answer = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    let shown = program(&["report", "contents", &kept]);
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        said.contains("rows of `absences`") && said.contains("experiment    program"),
        "{said}"
    );
    let reported = program(&["report", &kept, &threads, "--table", "text", "-o", &page]);
    let text = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert_eq!(reported.status.code(), Some(0), "{}", String::from_utf8_lossy(&reported.stderr));
    // The report says of the file what the run itself said, head and losses.
    for line in answer.lines().filter(|line| line.contains("recorded by") || line.contains("lost"))
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("When threads were away"));
    let alone = program(&["report", &kept]);
    assert_eq!(alone.status.code(), Some(0), "the file of threads is found beside it");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), text);
}

#[test]
fn a_recorded_program_keeps_its_exit_status_its_input_and_its_signals() {
    let Some(_) = answered(&["--", "true"]) else { return };
    for (script, code) in [("exit 7", 7), ("kill -KILL $$", 137), ("exit 0", 0)] {
        let output = corehop(&["--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(["record", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cat = command.stderr(Stdio::null()).spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through");
    // A signal to the recorder reaches the program, whose answer to it is recorded and passed on.
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let script =
        "trap 'echo ended; exit 9' TERM; echo ready; for _ in $(seq 400); do sleep 0.05; done";
    command.args(["record", "--", "sh", "-c", script]).stdin(Stdio::null());
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    // SAFETY: signals a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id().cast_signed(), libc::SIGTERM) }, 0);
    assert_eq!(lines.next().unwrap().unwrap(), "ended");
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

#[test]
fn the_plan_of_a_recording_runs_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (plan, kept) = (path("plan.json"), path("run.parquet"));
    let printed = corehop(&["--dry-run", "--json", "--", "sh", "-c", "echo said; exit 0"]);
    assert_eq!(printed.status.code(), Some(0), "{}", String::from_utf8_lossy(&printed.stderr));
    std::fs::write(&plan, &printed.stdout).unwrap();
    let ran = program(&["measure", "plan", &plan, "-o", &kept]);
    let why = String::from_utf8_lossy(&ran.stderr).replace("\n         ", " ");
    if ran.status.code() == Some(3) {
        return eprintln!("skipped: {why}");
    }
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(text.contains("said\n") && text.contains("recorded by "), "{text}{why}");
    assert!(std::fs::exists(path("run.threads.parquet")).unwrap());
    let simulated =
        program(&["measure", "plan", &plan, "--on", "xeon_l7455", "-o", &path("sim.parquet")]);
    let said = String::from_utf8_lossy(&simulated.stderr).replace("\n         ", " ");
    assert!(simulated.status.code() == Some(3) && said.contains("--on live"), "{said}");
}

#[test]
fn without_a_size_the_answer_is_a_range_that_begins_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("costs.csv");
    std::fs::write(&table, TABLE).unwrap();
    let table = table.to_string_lossy().into_owned();
    let Some(output) = answered(&["--costs", &table, "--", "sh", "-c", TURNS]) else { return };
    let text = String::from_utf8(output.stderr).unwrap().replace("\n         ", " ");
    for part in ["recorded by ", "working set: between 0", "recording took"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_working_set_is_estimated_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("costs.csv");
    std::fs::write(&table, TABLE).unwrap();
    let table = table.to_string_lossy().into_owned();
    // Five seconds are some twenty samples.
    let busy = "end=$(($(date +%s)+5)); while [ $(date +%s) -lt $end ]; do :; done";
    let words = ["--json", "--costs", &table, "--estimate-wss", "--", "sh", "-c", busy];
    let Some(output) = answered(&words) else { return };
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = answer["touched_bytes"].as_array().unwrap();
    assert!(samples.len() >= 6, "{samples:?}");
    let bytes = |it: &serde_json::Value| it.as_u64().unwrap();
    let smallest = samples.iter().map(bytes).min().unwrap();
    assert!(smallest % 4096 == 0 && smallest > 0, "pages: {smallest}");
    let low = answer["cost"]["wss"]["low"].as_str().unwrap().to_owned();
    assert_ne!(low, "0 B", "an estimate, not the whole range");
    let refused = corehop(&["--estimate-wss", "--wss", "64KiB", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn without_bpf_a_run_is_recorded_by_switch_records_and_priced_alike() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("costs.csv");
    std::fs::write(&table, TABLE).unwrap();
    let capabilities = "-bpf,-perfmon,-sys_admin";
    let ran = Command::new("setpriv")
        .args(["--bounding-set", capabilities, "--inh-caps", capabilities])
        .args([env!("CARGO_BIN_EXE_corehop"), "measure", "schedule-sensitive", "--wss", "64KiB"])
        .arg("--costs")
        .arg(&table)
        .args(["--", "sh", "-c", TURNS])
        .output();
    let output = match ran {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: setpriv: {error}"),
    };
    let why = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    if output.status.code() == Some(3) {
        assert!(why.contains("perf_event_paranoid"), "{why}");
        return eprintln!("skipped: {why}");
    }
    if !output.status.success() && why.contains("setpriv:") {
        return eprintln!("skipped: {why}");
    }
    assert_eq!(output.status.code(), Some(0), "{why}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n");
    for part in ["recorded by perf_records", "preemption", "without BPF"] {
        assert!(why.contains(part), "{part} in {why}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason() {
    for (words, code, part) in [
        (&["--trace", "x.json"][..], 2, "--pid PID"),
        (&[], 2, "missing program"),
        (&["--pid", "1", "--", "true"], 2, "use either"),
        (&["--samples", "5", "--", "true"], 2, "--samples"),
        (&["--wss", "64KiB,1MiB", "--", "true"], 2, "--wss"),
        (&["--on", "xeon_l7455", "--", "true"], 2, "--on"),
        (&["--costs", "/no/such.csv", "--", "true"], 2, "no/such.csv"),
    ] {
        let output = corehop(words);
        let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
    let missing = corehop(&["--", "/no/such/program"]);
    assert!(matches!(missing.status.code(), Some(2 | 3)), "{missing:?}");
}

#[test]
fn options_of_it_are_refused_elsewhere() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output =
        command.args(["measure", "synthetic", "--dry-run", "--pid", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).replace("\n         ", " ").contains("--pid"));
}
