// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop offload` as a user types it, on programs of the system and of one's own.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

mod files;
mod luck;
mod paths;
mod rights;
mod simulated;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn offload(more: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(["offload", "--os-cores", "1"]).args(more).arg("--").args(program);
    command
}

fn two_cpus() -> bool {
    let two = corehop_system::thread::affinity().is_ok_and(|cpus| cpus.len() > 1);
    if !two {
        println!("skipped: one CPU is usable, and off-load needs two");
    }
    two
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

/// A C program, compiled.
fn compiled(folder: &TempDir, name: &str, code: &str) -> String {
    let source = folder.path().join(format!("{name}.c"));
    std::fs::write(&source, code).unwrap();
    let program = folder.path().join(name);
    let mut built = Command::new("cc");
    built.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(built.status().unwrap().success());
    program.to_string_lossy().into_owned()
}

/// Runs a program with every call there, and its answer.
fn answered(folder: &Path, program: &[&str]) -> (Output, Value) {
    let file = folder.join("answer.json");
    let file = file.to_str().unwrap();
    let all = ["--decide", "always", "--threshold", "1B", "--force", "-q", "-o", file];
    let output = offload(&all, program).output().unwrap();
    let answer = std::fs::read(file).unwrap();
    (output, serde_json::from_slice(&answer).unwrap())
}

#[test]
fn a_program_reads_and_writes_the_same_bytes_on_another_core() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    std::fs::write(path("from"), &bytes).unwrap();
    let (input, output) = (format!("if={}", path("from")), format!("of={}", path("to")));
    let (ended, answer) =
        answered(folder.path(), &["dd", &input, &output, "bs=20000", "status=none"]);
    assert!(ended.status.success(), "{}", said(&ended));
    assert!(std::fs::read(path("to")).unwrap() == bytes);
    let of = |name: &str| {
        let calls = answer["by_call"].as_array().unwrap();
        calls.iter().find(|call| call["call"] == name).unwrap().clone()
    };
    // The first calls of a thread stay.
    for name in ["read", "write"] {
        let call = of(name);
        assert!(call["offloaded"].as_u64().unwrap() > 100, "{call}");
        assert_eq!(call["predicted"], 0);
    }
    assert_eq!(answer["mechanism"], "v5");
    assert_eq!(answer["os_cores"], "1");
}

#[test]
fn every_mechanism_and_policy_gives_the_same_output() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("from").to_string_lossy().into_owned();
    std::fs::write(&file, vec![b'x'; 1_000_000]).unwrap();
    let script = format!("cat {file} | dd bs=5000 status=none | wc -c");
    for mechanism in ["v1", "v2", "v3", "v4", "v5"] {
        for policy in ["wc", "af,pa,wc", "static"] {
            let more = ["--decide", "always", "--mechanism", mechanism, "--policy", policy, "-q"];
            let output = offload(&more, &["sh", "-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1000000", "{mechanism}");
        }
    }
}

#[test]
fn the_program_keeps_its_exit_code_its_signal_its_input_and_its_environment() {
    let code = |script: &str| offload(&["-q"], &["sh", "-c", script]).status().unwrap().code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -TERM $$"), Some(128 + 15));
    let mut command = offload(&["-q"], &["sh", "-c", "cat; echo $LD_PRELOAD"]);
    command.env("LD_PRELOAD", "").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let library = String::from_utf8_lossy(&output.stdout);
    assert!(library.contains("/corehop_shim") && library.ends_with(".so\n"), "{library}");
}

#[test]
fn what_cannot_be_run_this_way_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], program: &[&str], code: i32, part: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let output = command.arg("offload").args(more).arg("--").args(program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{more:?}: {}", said(&output));
    };
    refused(&["--os-cores", "4000"], &["true"], 3, "CPU 4000");
    refused(&["--os-cores", "0-63"], &["true"], 3, "CPU");
    refused(&["--os-cores", ""], &["true"], 2, "--os-cores 1");
    refused(&[], &["true"], 2, "--os-cores");
    refused(&["--os-cores", "1", "--call", "close=never"], &["true"], 2, "these calls are: read");
    refused(&["--os-cores", "1", "--call", "open=4KiB"], &["true"], 2, "open=all");
    refused(&["--os-cores", "1", "--call", "read"], &["true"], 2, "read=64KiB");
    refused(&["--os-cores", "1", "--mechanism", "v6"], &["true"], 2, "v5");
    refused(&["--os-cores", "1", "--policy", "best"], &["true"], 2, "wc");
    if !two_cpus() {
        return;
    }
    refused(&["--os-cores", "1"], &["no-such-program"], 3, "no-such-program");
    let all = corehop_system::thread::affinity().unwrap().to_string();
    refused(&["--os-cores", &all], &["true"], 3, "no CPU is left");
    let script = folder.path().join("text");
    std::fs::write(&script, "not a program").unwrap();
    refused(&["--os-cores", "1"], &[script.to_str().unwrap()], 3, "not a program for Linux");
    let code = "int main(void) { return 0; }";
    let linked = compiled(&folder, "dynamic", code);
    let output = folder.path().join("static");
    let source = folder.path().join("dynamic.c");
    let built = Command::new("cc").args(["-static", "-o"]).arg(&output).arg(source).status();
    if built.is_ok_and(|it| it.success()) {
        refused(&["--os-cores", "1"], &[output.to_str().unwrap()], 3, "linked static");
    } else {
        println!("skipped: a static program (there is no static libc)");
    }
    assert_eq!(offload(&["-q"], &[&linked]).status().unwrap().code(), Some(0));
    let answer = folder.path().join("kept.json");
    std::fs::write(&answer, "mine").unwrap();
    refused(&["--os-cores", "1", "-o", answer.to_str().unwrap()], &["true"], 2, "--force");
    assert_eq!(std::fs::read(&answer).unwrap(), b"mine");
}

/// Prints what a write to a closed pipe does, and a write beyond the limit of a file: signals of the caller, by number
/// and thread.
const SIGNALS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
static char block[20000];
static pid_t thread;
static volatile int pipes, sizes, elsewhere;
static void caught(int number) {
    if (gettid() != thread) elsewhere++;
    if (number == SIGPIPE) pipes++; else sizes++;
}
static void *run(void *path) {
    int pair[2], written = 0;
    thread = gettid();
    for (int i = 0; i < 100; i++) {
        int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
        write(file, block, 8192);
        close(file);
    }
    for (int i = 0; i < 20; i++) {
        if (i % 2) pipe(pair); else { socketpair(AF_UNIX, SOCK_STREAM, 0, pair); }
        close(pair[0]);
        if (write(pair[1], block, 8192) == -1 && errno == EPIPE) written++;
        close(pair[1]);
    }
    printf("pipes %d %d\n", pipes, written);
    struct rlimit limit = { 10000, 10000 };
    setrlimit(RLIMIT_FSIZE, &limit);
    int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    long first = write(file, block, sizeof block);
    long second = write(file, block, sizeof block);
    printf("sizes %d: %ld %ld %s\n", sizes, first, second, strerrorname_np(errno));
    printf("elsewhere %d\n", elsewhere);
    return 0;
}
int main(int count, char **words) {
    pthread_t thread;
    signal(SIGPIPE, caught);
    signal(SIGXFSZ, caught);
    pthread_create(&thread, 0, run, words[1]);
    pthread_join(thread, 0);
    return 0;
}
"#;

#[test]
fn sigpipe_and_sigxfsz_reach_the_thread_that_called_once_each() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "signals", SIGNALS);
    let file = folder.path().join("file").to_string_lossy().into_owned();
    let alone = Command::new(&program).arg(&file).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        "pipes 20 20\nsizes 1: 10000 -1 EFBIG\nelsewhere 0\n"
    );
    for mechanism in ["v1", "v5"] {
        let more = ["--decide", "always", "--mechanism", mechanism, "-q"];
        let there = offload(&more, &[&program, &file]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&there.stdout),
            String::from_utf8_lossy(&alone.stdout),
            "{mechanism}: {}",
            said(&there)
        );
    }
}

/// Random calls on files, pipes and sockets, by a seed: prints every answer, errno and byte.
const RANDOM: &str = include_str!("random.c");

#[test]
fn random_calls_have_the_same_answers_bytes_and_errors_there_as_here() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "random", RANDOM);
    for seed in 1..=6 {
        let run = |mut command: Command| {
            let inner = tempfile::tempdir().unwrap();
            let output =
                command.arg(seed.to_string()).arg("1500").current_dir(inner.path()).output();
            output.unwrap()
        };
        let alone = run(Command::new(&program));
        assert!(alone.status.success() && alone.stdout.len() > 20_000, "{}", said(&alone));
        let more = ["--decide", "always", "--threshold", "1B", "-q"];
        let there = run(offload(&more, &[&program]));
        let (alone, there) = (alone.stdout, there.stdout);
        let differs = alone.split(|it| *it == b'\n').zip(there.split(|it| *it == b'\n'));
        let first = differs.enumerate().find(|(_, (alone, there))| alone != there);
        let text = first.map(|(at, (alone, there))| {
            format!("{at}: {} | {}", String::from_utf8_lossy(alone), String::from_utf8_lossy(there))
        });
        assert_eq!(text, None, "seed {seed}");
        assert_eq!(alone.len(), there.len(), "seed {seed}");
    }
}

/// Blocking reads and signal handlers: EINTR without SA_RESTART, the read itself with it, a jump out of a handler, calls
/// within a handler, vfork, cancellation, and threads that come and go.
const LIFE: &str = include_str!("life.c");

#[test]
fn signals_forks_jumps_cancellation_and_threads_are_as_without() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "life", LIFE);
    let alone = Command::new(&program).current_dir(folder.path()).output().unwrap();
    assert!(alone.status.success(), "{}", said(&alone));
    let more = ["--decide", "always", "--threshold", "1B", "-q"];
    let mut there = offload(&more, &[&program]);
    let there = there.current_dir(folder.path()).output().unwrap();
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(&there), text(&alone), "{}", said(&there));
    assert!(there.status.success());
}

#[test]
fn the_guard_turns_a_loss_off_and_says_so() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.json");
    // Each call moves the thread there and back.
    let more = ["--decide", "guarded", "--mechanism", "v1", "-o", file.to_str().unwrap()];
    let output =
        offload(&more, &["dd", "if=/etc/passwd", "of=/dev/null", "bs=1"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let code = r#"
        #include <fcntl.h>
        #include <time.h>
        #include <unistd.h>
        int main(void) {
            char block[8192];
            int file = open("file", O_CREAT | O_RDWR, 0600);
            write(file, block, sizeof block);
            time_t end = time(0) + 4;
            while (time(0) < end) pread(file, block, sizeof block, 0);
            return 0;
        }"#;
    let program = compiled(&folder, "reads", code);
    let mut command = offload(&[&more[..], &["--force"]].concat(), &[&program]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let answer: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(answer["guard"]["turned_off"].as_u64().unwrap() >= 1, "{answer}");
    assert!(answer["guard"]["loss_percent"].as_f64().unwrap() > 10.0, "{answer}");
    assert!(said(&output).contains("The guard turned off-loading off after"), "{}", said(&output));
}
