// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every way to end.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use corehop_system::supervisor::{RestoreOutcome, UndoOutcome};

use crate::harness::skipped;
use crate::run::{Run, Sleeper, eventually, first_cpu, kill, status};

fn nothing_is_left_after(ending: &str, end: impl FnOnce(&mut Run)) {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    let load = run.load();
    assert!(load.iter().all(|process| process.is_alive()));
    end(&mut run);
    run.wait();
    eventually(ending, || !supervisor.is_alive());
    assert_eq!(run.setting(), "before", "{ending}");
    let left: Vec<_> = load.iter().filter(|process| process.is_alive()).collect();
    assert!(left.is_empty(), "{ending}: {left:?} of {load:?}");
    assert!(run.journals().is_empty(), "{ending}: {:?}", run.journals());
}

pub(crate) fn nothing_is_left_after_a_normal_end() {
    nothing_is_left_after("the end", |run| run.tell("end"));
    nothing_is_left_after("exit without destructors", |run| run.tell("exit"));
}

pub(crate) fn nothing_is_left_after_a_crash() {
    nothing_is_left_after("panic", |run| run.tell("panic"));
    nothing_is_left_after("abort", |run| run.tell("abort"));
}

pub(crate) fn nothing_is_left_after_a_signal_that_asks_to_end() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        nothing_is_left_after(&format!("signal {signal}"), |run| {
            kill(run.own(), signal);
            assert_eq!(run.wait().code(), Some(130));
        });
    }
}

pub(crate) fn nothing_is_left_after_sigkill() {
    nothing_is_left_after("SIGKILL", |run| kill(run.own(), libc::SIGKILL));
}

pub(crate) fn nothing_is_left_after_sigkill_of_the_supervisor() {
    nothing_is_left_after("SIGKILL of the supervisor", |run| {
        let supervisor = run.supervisor();
        kill(supervisor, libc::SIGKILL);
        run.tell("end");
    });
}

pub(crate) fn after_sigkill_of_both_the_journal_restores() {
    let mut run = Run::begin_with_a_change();
    let load = run.load();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGKILL);
    kill(run.own(), libc::SIGKILL);
    run.wait();
    eventually("the load ends by itself", || !load.iter().any(|process| process.is_alive()));
    assert_eq!(run.setting(), "during the run");
    let restored = run.restore();
    assert!(restored.len() == 1 && restored[0].is_settled(), "{restored:?}");
    assert!(matches!(&restored[0].verdict, RestoreOutcome::Restored { entries, torn: false }
        if entries[0].1 == UndoOutcome::AlreadyGone && entries[1].1 == UndoOutcome::Undone));
    assert_eq!(run.setting(), "before");
    assert_eq!((run.journals().len(), run.restore().len()), (0, 0));
}

pub(crate) fn a_group_whose_leader_was_killed_is_found_by_its_mark() {
    let mut run = Run::begin();
    let load = run.load();
    let leader = *load.last().unwrap();
    kill(leader, libc::SIGKILL);
    eventually("its death is noticed", || run.ask("check").contains("killed from outside"));
    assert!(load.iter().any(|process| process.is_alive()), "the test shows nothing");
    run.tell("end");
    run.wait();
    assert!(!load.iter().any(|process| process.is_alive()));
}

pub(crate) fn a_supervisor_that_was_killed_is_replaced_before_the_next_change() {
    let mut run = Run::begin_with_a_change();
    let first = run.supervisor();
    kill(first, libc::SIGKILL);
    eventually("it is dead", || !first.is_alive());
    run.change("later");
    let second = run.supervisor();
    assert_ne!(first, second);
    kill(run.own(), libc::SIGKILL);
    eventually("the second restores", || !second.is_alive());
    assert_eq!(run.setting(), "before");
}

pub(crate) fn a_second_interrupt_ends_a_run_that_does_not_listen_and_finds_all_restored() {
    let mut run = Run::begin_with_a_change();
    let load = run.load();
    run.must("stubborn");
    kill(run.own(), libc::SIGINT);
    // Two signals that arrive together are one.
    let pending = |run: &Run| status(run.own().pid, "ShdPnd") != "0000000000000000";
    eventually("the first is taken", || !pending(&run));
    sleep(Duration::from_millis(50));
    // One within moments of the first is the same key: timeout(1) sends two.
    kill(run.own(), libc::SIGINT);
    sleep(Duration::from_millis(400));
    assert_eq!(run.setting(), "during the run");
    kill(run.own(), libc::SIGINT);
    assert_eq!(run.wait().code(), Some(130));
    // At once: the exit itself waits for the supervisor.
    assert_eq!(run.setting(), "before");
    assert!(!load.iter().any(|process| process.is_alive()));
    eventually("the journal is removed", || run.journals().is_empty());
}

pub(crate) fn a_stopped_supervisor_does_not_hold_up_the_end() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    run.tell("end");
    assert!(run.wait().success());
    assert_eq!(run.setting(), "before");
    assert!(!supervisor.is_alive());
}

pub(crate) fn signals_that_end_programs_do_not_end_the_supervisor() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        kill(supervisor, signal);
    }
    sleep(Duration::from_millis(50));
    kill(run.own(), libc::SIGKILL);
    eventually("it ends by itself", || !supervisor.is_alive());
    assert_eq!(run.setting(), "before");
}

pub(crate) fn a_thread_runs_where_it_ran_before() {
    let sleeper = Sleeper::begin();
    let pid = sleeper.id().pid;
    let before = status(pid, "Cpus_allowed_list");
    let mut run = Run::begin();
    run.must(&format!("pin {pid} {before} {}", first_cpu()));
    assert_eq!(status(pid, "Cpus_allowed_list"), first_cpu());
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert_eq!(status(pid, "Cpus_allowed_list"), before);
}

/// Is gone after the test, should the test have failed.
struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("inner"));
        let _ = fs::remove_dir(&self.0);
    }
}

pub(crate) fn a_cgroup_is_emptied_and_removed() {
    let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/pids"];
    let name = format!("corehop-test-{}", std::process::id());
    let usable = |path: &PathBuf| {
        let made = fs::create_dir(path).is_ok();
        let real = path.join("cgroup.procs").exists();
        let _ = fs::remove_dir(path);
        made && real
    };
    let Some(path) = roots.map(|root| Path::new(root).join(&name)).into_iter().find(usable) else {
        skipped(&format!("no cgroup can be made in {roots:?} (it takes root)"));
        return;
    };
    let _removed = Cgroup(path.clone());
    let sleeper = Sleeper::begin();
    let mut run = Run::begin();
    run.must(&format!("cgroup {} {}", path.display(), sleeper.id().pid));
    // One that the run made inside goes too.
    fs::create_dir(path.join("inner")).unwrap();
    assert_eq!(
        fs::read_to_string(path.join("cgroup.procs")).unwrap(),
        format!("{}\n", sleeper.id().pid)
    );
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert!(!path.exists() && sleeper.id().is_alive());
}

pub(crate) fn what_cannot_be_taken_back_is_told_and_stays_listed_until_it_can() {
    let mut run = Run::begin_with_a_change();
    let setting = run.path("setting");
    fs::remove_file(&setting).unwrap();
    fs::create_dir(&setting).unwrap();
    let told = run.ask("back");
    assert!(told.contains("write `before` to") && told.contains("doctor restore"), "{told}");
    run.tell("end");
    run.wait();
    assert!(!run.restore()[0].is_settled());
    fs::remove_dir(&setting).unwrap();
    fs::write(&setting, "during").unwrap();
    assert!(run.restore()[0].is_settled());
    assert_eq!((run.setting().as_str(), run.journals().len()), ("before", 0));
}

pub(crate) fn what_the_supervisor_cannot_take_back_stays_listed() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    let setting = run.path("setting");
    fs::remove_file(&setting).unwrap();
    fs::create_dir(&setting).unwrap();
    kill(run.own(), libc::SIGKILL);
    eventually("it gives up", || !supervisor.is_alive());
    fs::remove_dir(&setting).unwrap();
    fs::write(&setting, "during").unwrap();
    assert!(run.restore()[0].is_settled());
    assert_eq!((run.setting().as_str(), run.journals().len()), ("before", 0));
}

pub(crate) fn what_belongs_to_an_earlier_list_does_not_touch_a_later_one() {
    let mut run = Run::begin();
    run.must(&format!("load {} sleep 60", first_cpu()));
    run.must("back");
    assert_eq!(run.ask("supervisor"), "0");
    run.change("during the run");
    // The load's number in the old list is the change's number in the new one.
    run.must("unload");
    assert_eq!(run.setting(), "during the run");
    run.tell("end");
    assert!(run.wait().success());
    assert_eq!(run.setting(), "before");
}

pub(crate) fn output_of_a_run_ends_with_it() {
    // A reader of the run's output must not wait for the supervisor or for a load.
    let mut run = Run::begin();
    run.load();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    kill(run.own(), libc::SIGKILL);
    let mut rest = String::new();
    run.answers.read_to_string(&mut rest).unwrap();
    assert!(supervisor.is_alive());
    kill(supervisor, libc::SIGCONT);
    eventually("it restores", || !supervisor.is_alive());
}
