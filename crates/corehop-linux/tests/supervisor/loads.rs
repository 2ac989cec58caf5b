// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor and the loads themselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use corehop_linux::supervisor::ProcessId;

use crate::run::{Run, allowed, eventually, first_cpu, skipped, status};

pub(crate) fn the_supervisor_holds_nothing_of_its_parents_and_the_journal_is_private() {
    let mut run = Run::begin_with_a_change();
    let pid = run.supervisor().pid;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap().display().to_string();
        let expected = ["/dev/null", "socket:", "anon_inode:[pidfd]", "pidfd:", "/run/"];
        assert!(expected.iter().any(|known| target.contains(known)), "{target}");
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&run.path("run")), mode(&run.journals()[0])), (0o700, 0o600));
}

pub(crate) fn under_a_real_time_parent_supervisor_and_load_are_ordinary() {
    let mut run = Run::begin();
    let answer = run.ask("real-time");
    if answer != "done" {
        skipped(&format!("{answer} (SCHED_FIFO takes CAP_SYS_NICE)"));
        return;
    }
    let pid = run.own().pid;
    let policy = |pid: i32| {
        // SAFETY: sched_getscheduler takes an integer.
        unsafe { libc::sched_getscheduler(pid) }
    };
    assert_eq!(policy(pid), libc::SCHED_FIFO);
    let everywhere = status(pid, "Cpus_allowed_list");
    run.must(&format!("pin {pid} {everywhere} {}", first_cpu()));
    let load = run.load();
    let supervisor = run.supervisor();
    assert!(load.iter().all(|process| policy(process.pid) == libc::SCHED_OTHER));
    assert_eq!(policy(supervisor.pid), libc::SCHED_OTHER);
    assert_eq!(status(supervisor.pid, "Cpus_allowed_list"), everywhere);
}

pub(crate) fn a_load_runs_where_it_is_told_is_restarted_and_shows_that_it_ran() {
    let mut run = Run::begin();
    let cpu = allowed().rsplit([',', '-']).next().unwrap().to_owned();
    let short = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    run.must(&format!("load {cpu} {short}"));
    let leader: i32 = run.ask("leader").parse().unwrap();
    assert_eq!(status(leader, "Cpus_allowed_list"), cpu);
    eventually("it is restarted", || run.ask("restarts").parse::<u32>().unwrap() >= 3);
    eventually("it uses time", || run.ask("cpu-time").parse::<u64>().unwrap() > 0);
    let first: u64 = run.ask("cpu-time").parse().unwrap();
    eventually("it goes on", || run.ask("cpu-time").parse::<u64>().unwrap() > first);
    run.must("check");
    run.must("unload");
    assert!(ProcessId::of(leader).is_err());
}

pub(crate) fn a_load_is_over_when_what_it_left_in_the_background_is() {
    let mut run = Run::begin();
    let pids = run.path("pids");
    run.must(&format!("load {} sleep 60 & echo $! >> {}", first_cpu(), pids.display()));
    eventually("it runs", || pids.exists());
    sleep(Duration::from_millis(100));
    run.must("check");
    assert_eq!(run.ask("restarts"), "0");
    assert_eq!(fs::read_to_string(&pids).unwrap().lines().count(), 1);
}

pub(crate) fn a_load_that_ends_at_once_is_given_up_with_its_name_its_status_and_a_remedy() {
    for (command, status) in [("no-such-program-here", "127"), ("true", "0"), ("kill -9 $$", "9")] {
        let mut run = Run::begin();
        run.must(&format!("load {} {command}", first_cpu()));
        eventually("it is given up", || run.ask("check") != "done");
        let error = run.ask("check");
        for part in [command, "5 times", status, "by hand"] {
            assert!(error.contains(part), "{part} in: {error}");
        }
    }
}

pub(crate) fn a_load_on_a_cpu_that_is_not_there_is_refused() {
    let mut run = Run::begin();
    for cpus in ["60000", &format!("{},60000", first_cpu())] {
        let error = run.ask(&format!("load {cpus} sleep 60"));
        assert!(error.contains("60000") && error.contains(&first_cpu()), "{error}");
    }
    assert_eq!(run.ask("supervisor"), "0", "nothing was changed, so nothing is supervised");
}
