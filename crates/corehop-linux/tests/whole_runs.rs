// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole runs of a command. One test runs at a time: processes that a command leaves behind become children of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use corehop_linux::whole_runs::TimedCommand;
use corehop_plan::experiment::Argument;
use corehop_plan::host::whole_run::{CommandRunner, WholeRun, WholeRunError};
use corehop_plan::units::CpuList;
use corehop_system::proc::ProcEntry;
use corehop_system::thread::{affinity, affinity_of};

fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own_children() -> Vec<u32> {
    ProcEntry::process(std::process::id()).children()
}

fn command(words: &[&str]) -> TimedCommand {
    let words = words.iter().map(|it| Argument::new(it.as_bytes().to_vec()));
    TimedCommand::new(words.collect()).unwrap()
}

const LONG: Duration = Duration::from_mins(1);

fn status_of(script: &str, cpus: Option<&CpuList>) -> WholeRun {
    command(&["sh", "-c", script]).run(cpus, LONG).unwrap()
}

#[test]
fn a_run_has_its_status_its_times_and_its_cpus() {
    let _alone = alone();
    let run = status_of("exit 3", None);
    assert_eq!((run.status, run.ended_early), (3, false));
    let busy = status_of("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", None);
    assert!(busy.cpu_ns > 0 && busy.wall_ns > run.wall_ns, "{busy:?} {run:?}");
    assert_eq!(status_of("kill -9 $$", None).status, 128 + 9);
    for cpu in affinity().unwrap().iter() {
        let one = CpuList::new([cpu]);
        let is_there = format!("grep -q '^Cpus_allowed_list:[[:space:]]*{one}$' /proc/self/status");
        assert_eq!(status_of(&is_there, Some(&one)).status, 0);
    }
}

#[test]
fn two_loops_at_once_are_two_threads_that_want_a_cpu_and_a_sleep_is_none() {
    let _alone = alone();
    let script = "f() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }; f & f & wait";
    assert_eq!(status_of(script, None).threads, 2);
    assert_eq!(status_of("sleep 0.05", None).threads, 1);
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_what_it_has_started() {
    let _alone = alone();
    let most = Duration::from_millis(200);
    let run = command(&["sh", "-c", "trap '' TERM; sleep 50 & sleep 50"]).run(None, most);
    assert!(run.unwrap().ended_early);
    assert!(own_children().is_empty(), "{:?}", own_children());
}

#[test]
fn a_command_that_goes_into_the_background_is_told_with_the_remedy_and_is_not_pinned() {
    let _alone = alone();
    let one = CpuList::new(affinity().unwrap().first());
    let error = command(&["sh", "-c", "setsid sleep 40 & exit 0"]).run(Some(&one), LONG);
    let error = error.unwrap_err();
    let WholeRunError::Strays { pid, .. } = error else { panic!("{error}") };
    assert!(error.to_string().contains("--pid PID --progress SOURCE"), "{error}");
    let cpus = affinity_of(pid.cast_signed()).unwrap();
    // SAFETY: a child of this process that it has not waited for; its number is its own until the second call.
    unsafe {
        libc::kill(pid.cast_signed(), libc::SIGKILL);
        libc::waitpid(pid.cast_signed(), std::ptr::null_mut(), 0);
    }
    assert_eq!(cpus, affinity().unwrap());
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let _alone = alone();
    let error = command(&["no-such-program"]).run(None, LONG).unwrap_err().to_string();
    assert!(error.contains("no-such-program") && error.contains("No such file"), "{error}");
}
