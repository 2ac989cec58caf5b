// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad luck: many threads, storms, what is forbidden, kills, and whether a planted fault would be noticed.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{compiled, offload, said, two_cpus};

const THREADS: &str = include_str!("threads.c");
const STORM: &str = include_str!("storm.c");
const CPUS: &str = include_str!("cpus.c");
const FORBID: &str = include_str!("forbid.c");
const FAULT: &str = include_str!("fault.c");
const CRASH: &str = include_str!("crash.py");

/// Every call there, whatever its size.
const ALL: [&str; 5] = ["--decide", "always", "--threshold", "1B", "-q"];

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_thousand_threads_read_what_is_there() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "threads", THREADS);
    for mechanism in ["v2", "v5"] {
        let mut command = offload(&[&ALL[..], &["--mechanism", mechanism]].concat(), &[&program]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(text(&output), "40000", "{mechanism}: {}", said(&output));
    }
}

#[test]
fn a_storm_of_signals_and_forks_loses_no_call_and_doubles_none() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "storm", STORM);
    for mechanism in ["v1", "v3", "v5"] {
        let mut command = offload(&[&ALL[..], &["--mechanism", mechanism]].concat(), &[&program]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let expected = "right 12000 wrong 0 failed 0 signals 1";
        assert_eq!(text(&output), expected, "{mechanism}: {}", said(&output));
    }
}

#[test]
fn without_io_uring_every_mechanism_still_works() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (forbid, program) =
        (compiled(&folder, "forbid", FORBID), compiled(&folder, "threads", THREADS));
    for mechanism in ["v3", "v5"] {
        let mut command = Command::new(&forbid);
        command.arg(env!("CARGO_BIN_EXE_corehop")).args(["offload", "--os-cores", "1"]);
        command.args(ALL).args(["--mechanism", mechanism, "--", &program]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(text(&output), "40000", "{mechanism}: {}", said(&output));
    }
}

#[test]
fn the_program_has_its_cpus_back_where_nothing_is_off_loaded() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "cpus", CPUS);
    let all = corehop_system::thread::affinity().unwrap().len();
    let run = |more: &[&str], seconds: &str| {
        let output = offload(&[more, &["-q"]].concat(), &[&program, seconds]).output().unwrap();
        let numbers: Vec<usize> =
            text(&output).split(' ').map(|number| number.parse().unwrap()).collect();
        numbers
    };
    // The third: a thread that chose CPU 1 itself has it in the end, and no other.
    assert_eq!(run(&["--decide", "never"], "0.1"), [all, all, 11]);
    assert_eq!(run(&["--decide", "always"], "0.1"), [all - 1, all - 1, 11]);
    // CPUs that were chosen by a program stay.
    let chosen = offload(&["-q"], &["taskset", "-c", "0", &program, "0.5"]).output().unwrap();
    assert_eq!(text(&chosen), "1 1 11", "{}", said(&chosen));
    // A loss that is clear: the guard takes the OS core for the trial, and gives it back.
    let guarded = run(&["--decide", "guarded", "--mechanism", "v1"], "1.5");
    assert_eq!(guarded, [all, all - 1, 11]);
}

#[test]
fn the_program_outlives_a_kill_of_the_command() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let script = format!(
        "sleep 0.3; dd if=/dev/zero bs=8192 count=2000 status=none | wc -c > {0}.part; mv {0}.part {0}",
        done.display()
    );
    let mut command = offload(&ALL, &["sh", "-c", &script]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while !done.exists() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(std::fs::read_to_string(&done).unwrap().trim(), "16384000");
}

#[test]
fn a_database_that_is_killed_while_it_writes_is_whole() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("crash.py");
    std::fs::write(&script, CRASH).unwrap();
    let arguments = ["python3", script.to_str().unwrap(), folder.path().to_str().unwrap(), "0.5"];
    let output = offload(&ALL, &arguments).output().unwrap();
    let expected = "delete ok True 0 True True\nwal ok True 0 True True";
    assert_eq!(text(&output), expected, "{}", said(&output));
}

#[test]
fn calls_are_counted_by_the_kernel_as_well_and_what_was_missed_is_said() {
    if !two_cpus() {
        return;
    }
    if let Err(why) = corehop_linux::bpf::calls::CallCounts::open() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let answer = folder.path().join("answer.json");
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=8192", "count=5000", "status=none"];
    let more = ["--coverage", "--decide", "always", "-o", answer.to_str().unwrap()];
    let output = offload(&more, &dd).env_remove("LD_LIBRARY_PATH").output().unwrap();
    let answer: serde_json::Value =
        serde_json::from_slice(&std::fs::read(answer).unwrap()).unwrap();
    let calls = answer["coverage"]["by_call"].as_array().unwrap();
    let of = |name: &str| calls.iter().find(|call| call["call"] == name).unwrap();
    assert_eq!((&of("write")["calls"], &of("write")["missed"]), (&5000.into(), &0.into()));
    assert!(of("read")["calls"].as_u64().unwrap() >= 5000, "{answer}");
    // The loader opens libraries before the library is there.
    assert!(of("openat")["missed"].as_u64().unwrap() > 0, "{answer}");
    assert!(answer["coverage"]["percent"].as_f64().unwrap() > 97.0, "{answer}");
    assert!(said(&output).contains("The kernel counted"), "{}", said(&output));
    let v1 = offload(&["--coverage", "--mechanism", "v1"], &["true"]).output().unwrap();
    assert_eq!(v1.status.code(), Some(2), "{}", said(&v1));
    assert!(said(&v1).contains("--coverage"), "{}", said(&v1));
}

/// The random calls find a lost error, an answer given twice and a call that never returns: a library with such a fault
/// stands before the one under test.
#[test]
fn planted_faults_are_found_by_the_random_calls() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "random", super::RANDOM);
    let (source, library) = (folder.path().join("fault.c"), folder.path().join("fault.so"));
    std::fs::write(&source, FAULT).unwrap();
    let mut built = Command::new("cc");
    built.args(["-O1", "-w", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(built.status().unwrap().success());
    let run = |fault: Option<&str>| {
        let inner = tempfile::tempdir().unwrap();
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "10", env!("CARGO_BIN_EXE_corehop"), "offload"]);
        command.args(["--os-cores", "1"]).args(ALL).args(["--", &program, "1", "1500"]);
        if let Some(fault) = fault {
            command.env("LD_PRELOAD", &library).env("FAULT", fault);
        }
        command.current_dir(inner.path()).output().unwrap().stdout
    };
    let sound = run(None);
    assert!(sound.len() > 20_000 && run(None) == sound);
    for fault in ["errno", "twice", "lost"] {
        assert!(run(Some(fault)) != sound, "{fault}");
    }
}
