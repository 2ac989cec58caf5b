// SPDX-License-Identifier: MIT OR Apache-2.0
//! Supervisors that are stopped, names that are no text, and hosts without locks.

use std::fs;

use corehop_system::supervisor::{RestoreOutcome, leftovers};

use crate::run::{Run, eventually, first_cpu, kill};

pub(crate) fn a_stopped_supervisor_is_told_and_the_change_is_not_made() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    let order = format!("set {} later", run.path("setting").display());
    // Of changes in a row the first asks, so a change just now may still be made.
    let mut answer = String::new();
    eventually("the change is refused", || {
        answer = run.ask(&order);
        answer != "done"
    });
    let told = format!("process {}, is stopped", supervisor.pid);
    assert!(answer.contains(&told) && answer.contains("was not made"), "{answer}");
    kill(supervisor, libc::SIGCONT);
    run.change("after it went on");
    run.tell("end");
    assert!(run.wait().success());
    assert_eq!((run.setting().as_str(), supervisor.is_alive()), ("before", false));
}

pub(crate) fn between_changes_a_stopped_supervisor_is_told_within_seconds() {
    let mut run = Run::begin();
    run.load();
    run.must("check");
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    let mut answer = String::new();
    eventually("it is told", || {
        answer = run.ask("check");
        answer != "done"
    });
    assert!(answer.contains("is stopped"), "{answer}");
    kill(supervisor, libc::SIGCONT);
    run.must("check");
}

pub(crate) fn an_owner_that_beats_and_is_stopped_finds_its_changes_taken_back() {
    let mut run = Run::begin_with_a_change();
    run.must("beat");
    kill(run.own(), libc::SIGSTOP);
    eventually("the changes are taken back", || run.setting() == "before");
    kill(run.own(), libc::SIGCONT);
    let mut answer = String::new();
    eventually("it is told", || {
        answer = run.ask("beat");
        answer != "done"
    });
    assert!(answer.contains("took its changes back"), "{answer}");
}

pub(crate) fn an_owner_that_changes_settings_all_the_time_is_not_taken_for_a_silent_one() {
    let mut run = Run::begin_with_a_change();
    let begun = std::time::Instant::now();
    // Longer than the supervisor waits, and each change asks for an answer of its own.
    for number in 0.. {
        run.must("beat");
        run.change(&format!("number {number}"));
        if begun.elapsed() > std::time::Duration::from_millis(6_500) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(run.setting().starts_with("number"), "{}", run.setting());
}

pub(crate) fn an_owner_whose_main_thread_ends_before_another_one_is_restored() {
    let mut run = Run::begin_with_a_change();
    run.must("beat");
    run.tell("lose-main");
    eventually("the changes are taken back", || run.setting() == "before");
    assert!(matches!(run.process.try_wait(), Ok(None)), "another thread lives");
    run.process.kill().unwrap();
}

pub(crate) fn the_rest_of_a_dead_run_with_a_stopped_supervisor_is_told_and_restored() {
    let mut first = Run::begin();
    first.must("whole");
    first.change("during the run");
    let supervisor = first.supervisor();
    assert_eq!(leftovers(&first.path("run")), [], "the supervisor would restore it");
    kill(supervisor, libc::SIGSTOP);
    kill(first.own(), libc::SIGKILL);
    first.wait();
    eventually("it is told", || leftovers(&first.path("run")).len() == 1);
    let mut second = Run::begin_beside(&first);
    let answer = second.ask("whole");
    assert!(answer.contains("doctor restore"), "{answer}");
    // A child that another test has just started holds a copy of the lock until its exec.
    eventually("it is restored", || {
        matches!(first.restore()[0].verdict, RestoreOutcome::Restored { .. })
    });
    assert_eq!(first.setting(), "before");
    eventually("the supervisor is ended", || !supervisor.is_alive());
    second.must("whole");
}

/// The state of a process by the bytes of its record; None if it is gone.
fn state(pid: &str) -> Option<u8> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

pub(crate) fn loads_end_whatever_their_processes_are_called() {
    let mut run = Run::begin();
    let pids = run.path("pids");
    // Half a character; another process's fields behind the name.
    for name in [r"half\303", r") R 1 2\n3 4", r"\377\376"] {
        let rename = format!("printf \"{name}\" >/proc/$$/comm; echo $$ >>{}", pids.display());
        run.must(&format!("load {} setsid sh -c '{rename}; sleep 60; true'", first_cpu()));
    }
    let read = || fs::read_to_string(&pids).unwrap_or_default();
    eventually("the loads run", || read().lines().count() == 3 && read().ends_with('\n'));
    let used: u64 = run.ask("cpu-time").parse().unwrap();
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("the supervisor is done", || !supervisor.is_alive());
    for pid in read().lines() {
        assert!(matches!(state(pid), None | Some(b'Z' | b'X')), "{pid} runs on ({used} ns)");
    }
    assert!(run.journals().is_empty());
}

pub(crate) fn without_locks_changes_are_made_and_restored_and_the_whole_host_is_refused() {
    let mut run = Run::begin();
    run.must("no-locks");
    run.change("during the run");
    let answer = run.ask("whole");
    assert!(answer.contains("flock(2)") && answer.contains("nothing was changed"), "{answer}");
    let supervisor = run.supervisor();
    assert_eq!(leftovers(&run.path("run")), []);
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert_eq!(run.setting(), "before");
    // Neither the journal nor the file of the lock stands in the way of the next run.
    assert!(run.journals().is_empty());
    let mut next = Run::begin_beside(&run);
    next.must("whole-once");
    next.must(&format!("set {} by-the-next-run", run.path("setting").display()));
    next.tell("end");
    assert!(next.wait().success());
    assert!(!run.path("run").exists());
}
