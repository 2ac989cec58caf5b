// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every verb ends within a moment of SIGINT, SIGTERM and SIGHUP, and leaves nothing behind but its rows.
//!
//! `tests/signals.txt` has the command lines. `make kills` sends each signal at twenty random instants and counts seconds;
//! here each comes at one instant, and the bound is wide, because the machine may be busy.
#![expect(clippy::print_stdout, reason = "the slowest end is printed, and what is skipped")]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than a second: what does not end at all is found, and a busy machine is not.
const BOUND: Duration = Duration::from_secs(20);
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The command lines, each with its name.
fn list() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(root().join("tests/signals.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let line = |line: &str| {
        let (name, words) = line.split_once(": ").unwrap();
        (name.to_owned(), words.split(' ').map(ToOwned::to_owned).collect())
    };
    lines.map(line).collect()
}

fn output(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let after = help.split_once("Commands:\n").unwrap().1;
    let lines = after.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_verb_and_every_experiment_has_a_command_line() {
    let list = list();
    let has = |at: usize, name: &str| {
        list.iter().any(|(_, words)| words.get(at).is_some_and(|word| word == name))
    };
    let (verbs, experiments) =
        (commands(&output(&["--help"])), commands(&output(&["measure", "--help"])));
    assert!(verbs.len() > 10 && experiments.len() > 8, "{verbs:?} {experiments:?}");
    for verb in &verbs {
        assert!(has(0, verb), "tests/signals.txt has no line for the verb `{verb}`");
    }
    for experiment in &experiments {
        assert!(has(1, experiment), "tests/signals.txt has no line for `measure {experiment}`");
    }
}

/// A simulated gang whose rounds would take years.
fn plan_without_end(path: &Path) {
    let words = ["measure", "shared-data", "--on", "xeon_x5650", "--samples", "2", "--dry-run"];
    let plan = output(&[&words[..], &["--json"]].concat());
    let mut plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    for gang in plan["gangs"]["gangs"].as_array_mut().unwrap() {
        gang["rounds"] = serde_json::json!(1_u64 << 31);
    }
    std::fs::write(path, plan.to_string()).unwrap();
}

/// The variable by which helpers of a command are known: they inherit it.
const MARK: &str = "COREHOP_TEST_MARK";

/// The processes that a command line has left, with their names.
fn left_running(mark: &str) -> Vec<String> {
    let marked = format!("{MARK}={mark}");
    let is_marked = |folder: &Path| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == marked.as_bytes())
    };
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|it| it.path());
    let left = folders.filter(|folder| is_marked(folder));
    left.filter_map(|folder| std::fs::read_to_string(folder.join("comm")).ok()).collect()
}

/// The journals of changes whose owner is that process.
fn journals_of(pid: u32) -> Vec<PathBuf> {
    let entries = corehop_system::supervisor::journal_directories().into_iter();
    let entries = entries.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let owner = format!("\"pid\":{pid},");
    let is_its = |path: &PathBuf| {
        path.extension().is_some_and(|it| it == "journal")
            && std::fs::read_to_string(path).is_ok_and(|text| text.contains(&owner))
    };
    entries.map(|it| it.path()).filter(is_its).collect()
}

/// Waits until no process and no journal of a command line is left.
fn is_all_gone(mark: &str, pid: u32, name: &str) {
    let begun = Instant::now();
    loop {
        let (running, journals) = (left_running(mark), journals_of(pid));
        if running.is_empty() && journals.is_empty() {
            return;
        }
        assert!(begun.elapsed() < BOUND, "{name} left {running:?} and {journals:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a command line runs a program of the user's.
fn runs_a_program(words: &[String]) -> bool {
    words.iter().any(|word| word == "--")
}

/// The exit codes that a command line may end with after a signal. One that had ended by itself just then has its answer.
fn codes(words: &[String], signal: libc::c_int) -> Vec<i32> {
    // A program of the user's ends by the signal, and its status is passed on.
    let of_program = runs_a_program(words).then_some(128 + signal);
    of_program.into_iter().chain([130, 0, 1]).collect()
}

/// Starts a command line in `folder`, whose standard input never says anything.
fn start(words: &[String], folder: &Path, mark: &str) -> Child {
    let path = |name: &str| folder.join(name).display().to_string();
    let filled = words.iter().map(|word| {
        word.replace("{root}", &root().display().to_string())
            .replace("{out}", &path("out"))
            .replace("{pipe}", &path("pipe"))
            .replace("{plan}", &path("plan.json"))
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command
        .args(filled)
        .env(MARK, mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let heeds = || {
        for signal in SIGNALS {
            // SAFETY: sets a disposition; async-signal-safe.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure calls nothing that is not async-signal-safe.
    unsafe { command.pre_exec(heeds) };
    command.spawn().unwrap()
}

/// Waits for the end; how long that took, and the exit code.
fn end_of(child: &mut Child, name: &str) -> (Duration, Option<i32>, Option<i32>) {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (begun.elapsed(), status.code(), status.signal());
        }
        if begun.elapsed() > BOUND {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{name}: runs on after the signal");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_verb_ends_soon_after_each_signal_and_leaves_nothing_but_rows() {
    let folder = tempfile::tempdir().unwrap();
    plan_without_end(&folder.path().join("plan.json"));
    let pipe = CString::new(folder.path().join("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: mkfifo reads a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let out = folder.path().join("out");
    let (mut slowest, mut name_of_it) = (Duration::ZERO, String::new());
    for (at, (name, words)) in list().iter().enumerate() {
        for (turn, &signal) in SIGNALS.iter().enumerate() {
            std::fs::create_dir(&out).unwrap();
            let mark = format!("{}-{at}-{turn}", std::process::id());
            let mut child = start(words, folder.path(), &mark);
            // One instant of each, in no order that a loop could be in step with.
            std::thread::sleep(Duration::from_millis((97 * (3 * at + turn) as u64) % 700 + 30));
            let early = child.try_wait().unwrap().is_some();
            if !early {
                // SAFETY: signals a child of this process that has not been waited for.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
            }
            let (took, code, by) = end_of(&mut child, name);
            assert_ne!(code, Some(2), "{name}: the command line is wrong");
            // Before `main` has begun, signals end the program as they end others.
            let ended = code.is_some_and(|code| codes(words, signal).contains(&code));
            assert!(early || ended || by == Some(signal), "{name}: {code:?} {by:?}");
            if early && code == Some(3) {
                println!("skipped: {name}: not possible on this host");
            }
            is_all_gone(&mark, child.id(), name);
            if took > slowest {
                (slowest, name_of_it) = (took, name.clone());
            }
            let left = std::fs::read_dir(&out).unwrap().flatten();
            let left: Vec<PathBuf> = left.map(|it| it.path()).collect();
            let is_temporary = |it: &PathBuf| it.extension().is_some_and(|it| it == "tmp");
            assert!(!left.iter().any(is_temporary), "{name} left {left:?}");
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
    println!("the slowest end: {} ms, {name_of_it}", slowest.as_millis());
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.parquet").display().to_string();
    let words = format!(
        "measure shared-data --on xeon_x5650 --samples 1000000 --budget 3s --quiet -o {file}"
    );
    for signal in SIGNALS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        command.args(words.split(' ')).arg("--force").stdout(Stdio::null());
        let ignores = move || {
            // SAFETY: sets a disposition; async-signal-safe.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
            Ok(())
        };
        // SAFETY: the closure calls nothing that is not async-signal-safe.
        unsafe { command.pre_exec(ignores) };
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(800));
        // SAFETY: signals a child of this process that has not been waited for.
        unsafe { libc::kill(child.id().cast_signed(), signal) };
        assert_eq!(child.wait().unwrap().code(), Some(0), "signal {signal}");
    }
}

#[test]
fn a_budget_reaches_into_a_simulated_gang_and_a_simulated_bus_lock_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    plan_without_end(&folder.path().join("plan.json"));
    let (plan, gang, lock) = (path("plan.json"), path("gang.parquet"), path("lock.parquet"));
    let never_ended = format!(
        "measure synthetic --on xeon_x5650 --load buslock --event preemption --wss 64KiB --samples 1 \
         --replicates 1 --preemptor 4MiB --length 100us --quiet -o {lock}"
    );
    let without_end =
        format!("measure --plan {plan} --on xeon_x5650 --budget 1s --json --quiet -o {gang}");
    for words in [never_ended, without_end] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let mut child = command.args(words.split(' ')).stdout(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_mins(4) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("does not end: {words}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}");
        if words.contains("--budget") {
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(answer["stopped_by"], "budget", "{answer}");
        }
    }
}
