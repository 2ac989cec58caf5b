// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop place --evidence`: sources that are there, that are not, and what is said of them.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use corehop_linux::bpf::sharing::WakeGraph;
use serde_json::Value;

fn place(more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).arg("place").args(more).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn has_bpf() -> bool {
    WakeGraph::open().inspect_err(|error| eprintln!("skipped: {error}")).is_ok()
}

/// The environment variable that makes a test the program to be placed.
const PROGRAM: &str = "COREHOP_TEST_LOCKS";

/// Two locks of two threads each, for some seconds, as `name` asks. The names of threads say which lock they use.
fn program() {
    let locks = [Mutex::new(()), Mutex::new(())];
    let end = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for (thread, lock) in [1, 0, 0, 1].into_iter().enumerate() {
            let (name, lock) = (format!("lock-{lock}-{thread}"), &locks[lock]);
            let body = move || {
                while Instant::now() < end {
                    let _held = lock.lock().unwrap();
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(20) {}
                }
            };
            std::thread::Builder::new().name(name).spawn_scoped(scope, body).unwrap();
        }
    });
}

#[test]
fn threads_that_contend_for_a_lock_are_paired_in_the_log_and_its_head_names_the_sources() {
    if std::env::var_os(PROGRAM).is_some() {
        return program();
    }
    if !has_bpf() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let test =
        "threads_that_contend_for_a_lock_are_paired_in_the_log_and_its_head_names_the_sources";
    let own = std::env::current_exe().unwrap();
    let words = ["--evidence", "locks", "-o", log.to_str().unwrap(), "--", own.to_str().unwrap()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.arg("place").args(words).args(["--exact", test]).env(PROGRAM, "1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["sources"], serde_json::json!(["wakes", "locks"]));
    let mut names = BTreeMap::new();
    let mut pairs: BTreeMap<[String; 2], u64> = BTreeMap::new();
    let mut counted = 0;
    for line in &lines[1..] {
        for it in line["window"]["threads"].as_array().into_iter().flatten() {
            names.insert(it["tid"].as_u64().unwrap(), it["name"].as_str().unwrap().to_owned());
        }
        let shared = line["window"]["shared"].as_array().into_iter().flatten();
        counted += usize::from(shared.clone().next().is_some());
        for it in shared {
            assert_eq!(it["by"], "locks");
            let name = |end: &str| names[&it[end].as_u64().unwrap()].clone();
            *pairs.entry([name("a"), name("b")]).or_default() += it["seen"].as_u64().unwrap();
        }
    }
    // The threads of the test's own harness may contend, too.
    pairs.retain(|pair, _| pair.iter().any(|name| name.starts_with("lock-")));
    let lock_of = |name: &str| name.split('-').nth(1).map(str::to_owned);
    let locks: Vec<_> = pairs.keys().map(|pair| pair.each_ref().map(|it| lock_of(it))).collect();
    assert!(locks.iter().all(|[a, b]| a.is_some() && a == b), "{pairs:?}");
    assert_eq!(pairs.len(), 2, "{pairs:?}");
    // A window of a tenth of a second in ten, for four seconds.
    let windows = lines.iter().filter(|it| it["window"].is_object()).count();
    assert!(counted >= 1 && counted <= windows.div_ceil(10), "{counted} of {windows}");
}

#[test]
fn a_source_that_is_not_there_is_said_with_its_remedy_and_the_others_go_on() {
    if !has_bpf() {
        return;
    }
    let output = place(&["--evidence", "counters", "--for", "700ms", "--", "sleep", "1"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    if text.contains("--evidence counters is off: ") {
        assert!(
            text.contains("corehop cannot read ") && text.matches("--evidence").count() == 1,
            "{text}"
        );
    } else {
        eprintln!("the counters count here");
    }
}

#[test]
fn what_makes_no_sense_as_evidence_is_refused_with_what_would() {
    let pid = std::process::id().to_string();
    for (words, parts) in [
        (&["--evidence", "rumours", &pid][..], &["`rumours`", "wakes, locks, pages, counters"][..]),
        (&["--evidence", "wakes,,locks", &pid], &["``"]),
        (&["--evidence", "pages", &pid], &["--evidence pages", "after `--`"]),
        (&["--evidence", "wakes,pages", "--cgroup", "/sys/fs/cgroup"], &["after `--`"]),
        (&["--on", "xeon_e5520", "--evidence", "locks"], &["unexpected argument '--evidence'"]),
    ] {
        let output = place(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(parts.iter().all(|it| said(&output).contains(it)), "{words:?}: {}", said(&output));
    }
}

/// `corehop place` without the rights that BPF takes; None, with the reason, where they cannot be dropped.
fn without_bpf(words: &[&str]) -> Option<Output> {
    let capabilities = "-bpf,-perfmon,-sys_admin";
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", capabilities, "--inh-caps", capabilities]);
    command.args([env!("CARGO_BIN_EXE_corehop"), "place"]).args(words);
    match command.output() {
        Ok(output) if said(&output).contains("setpriv:") => {
            eprintln!("skipped: {}", said(&output));
            None
        }
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: setpriv: {error}");
            None
        }
    }
}

#[test]
fn without_the_right_to_bpf_it_says_what_gives_it_and_a_search_goes_on() {
    let Some(refused) = without_bpf(&["--evidence", "wakes,locks", "--", "sleep", "1"]) else {
        return;
    };
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(3), "{text}");
    for part in [
        "no source of evidence shows which threads share data",
        "wakes,locks is off",
        "setcap cap_bpf",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    std::fs::write(&count, "0").unwrap();
    let words = ["--search", "--progress", count.to_str().unwrap(), "--", "sleep", "1"];
    let Some(searched) = without_bpf(&words) else { return };
    assert_eq!(searched.status.code(), Some(0), "{}", said(&searched));
    assert!(said(&searched).contains("--evidence wakes is off: "), "{}", said(&searched));
}

#[test]
fn of_more_than_ten_thousand_threads_it_says_how_many_are_left_alone() {
    if !has_bpf() {
        return;
    }
    let script = "import threading, sys\n\
        threading.stack_size(32768)\n\
        end = threading.Event()\n\
        try:\n    \
            for _ in range(10050): threading.Thread(target=end.wait, daemon=True).start()\n\
        except RuntimeError: print('refused', flush=True)\n\
        else: print('started', flush=True)\n\
        sys.stdin.readline()\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(std::process::Stdio::piped());
    let mut program = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = program.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let output = place(&["--for", "600ms", &program.id().to_string()]);
    program.kill().unwrap();
    program.wait().unwrap();
    if line != "started\n" {
        return eprintln!("skipped: this host does not let a process have 10,000 threads");
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("moves at most 10000 threads, and ignores 51 more"), "{text}");
}
