// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs at once, and what a dead one has left.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use corehop_system::supervisor::{RestoreOutcome, leftovers};

use crate::run::{Run, eventually, kill};

pub(crate) fn a_second_run_that_would_change_the_whole_host_is_refused_with_the_number_of_the_first()
 {
    let mut first = Run::begin();
    first.must("whole");
    let mut second = Run::begin_beside(&first);
    let answer = second.ask("whole");
    let owner = format!("process {}", first.own().pid);
    assert!(answer.starts_with("refused: ") && answer.contains(&owner), "{answer}");
    first.tell("end");
    first.wait();
    second.must("whole-once");
    second.must("whole-once");
}

pub(crate) fn the_lock_on_the_whole_host_lasts_until_the_supervisor_has_restored() {
    let mut first = Run::begin();
    first.must("whole");
    first.change("during the run");
    let supervisor = first.supervisor();
    kill(supervisor, libc::SIGSTOP);
    kill(first.own(), libc::SIGKILL);
    first.wait();
    let mut second = Run::begin_beside(&first);
    second.tell("whole");
    // If it did not wait, it would have the lock by now.
    sleep(Duration::from_millis(500));
    assert_eq!(first.setting(), "during the run");
    kill(supervisor, libc::SIGCONT);
    assert_eq!((second.answer().as_str(), first.setting().as_str()), ("done", "before"));
}

pub(crate) fn what_two_dead_processes_left_is_told_and_refuses_the_lock_until_it_is_restored() {
    let run = Run::killed_with_its_supervisor();
    eventually("both are dead", || !leftovers(&run.path("run")).is_empty());
    let left = leftovers(&run.path("run"));
    let told = left[0].to_string();
    let setting = format!("write `before` to {}", run.path("setting").display());
    assert!(left.len() == 1 && told.ends_with(&setting), "{told}");
    let mut second = Run::begin_beside(&run);
    let answer = second.ask("whole");
    assert!(answer.contains(&setting) && answer.contains("doctor restore"), "{answer}");
    run.restore();
    assert_eq!(leftovers(&run.path("run")), []);
    second.must("whole");
    // A run that lives has left nothing.
    assert_eq!(leftovers(&run.path("run")), []);
}

pub(crate) fn a_number_of_another_pid_namespace_is_not_taken_for_the_owner() {
    let mut run = Run::killed_with_its_supervisor();
    let journal = run.journals().remove(0);
    // In its own namespace the owner had the number and start of a process that lives here.
    let own = corehop_system::supervisor::ProcessId::own().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    header["owner"] = serde_json::to_value(own).unwrap();
    let write = |header: &serde_json::Value| fs::write(&journal, format!("{header}\n{rest}"));
    write(&header).unwrap();
    assert_eq!(leftovers(&run.path("run")), [], "the owner lives");
    header["pid_namespace"] = 1.into();
    write(&header).unwrap();
    eventually("it is told", || leftovers(&run.path("run")).len() == 1);
    // A child that another test has just started holds a copy of the lock until its exec.
    eventually("it is restored", || {
        matches!(run.restore()[0].verdict, RestoreOutcome::Restored { .. })
    });
    assert_eq!(run.setting(), "before");
    run.wait();
}

pub(crate) fn a_run_removes_its_empty_folder() {
    let mut run = Run::begin_with_a_change();
    run.must("whole-once");
    run.must("back");
    assert!(!run.path("run").exists());
    run.must("whole");
    run.change("again");
    kill(run.own(), libc::SIGKILL);
    eventually("the folder goes", || !run.path("run").exists());
    assert_eq!(run.setting(), "before");
}
