// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor and the loads themselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use corehop_system::supervisor::ProcessId;

use crate::guarded;
use crate::harness::skipped;
use crate::run::{Run, allowed, eventually, first_cpu, kill, status};

pub(crate) fn the_supervisor_holds_nothing_of_its_parents_and_the_journal_is_private() {
    // A descriptor that the run itself inherits, and hands on.
    let folder = tempfile::tempdir().unwrap();
    let (place, program) = (folder.path().join("run"), std::env::current_exe().unwrap());
    fs::write(folder.path().join("setting"), "before").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 7>&1; exec "$0" "$@""#]).arg(program);
    command.arg(guarded::ROLE).arg(place);
    let mut run = Run::begin_as(command, folder);
    run.change("during the run");
    let pid = run.supervisor().pid;
    assert!(fs::exists(format!("/proc/{}/fd/7", run.own().pid)).unwrap());
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
    let mask = 1_u64 << first_cpu().parse::<u32>().unwrap();
    // SAFETY: the kernel reads eight bytes of a live local.
    assert_eq!(unsafe { libc::sched_setaffinity(pid, 8, (&raw const mask).cast()) }, 0);
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

/// A load of one process, the leader apart.
fn simple_load(run: &mut Run) -> (ProcessId, ProcessId) {
    let pids = run.path("pids");
    run.must(&format!("load {} echo $$ > {}; exec sleep 60", first_cpu(), pids.display()));
    let read = || fs::read_to_string(&pids).unwrap_or_default();
    eventually("it runs", || read().ends_with('\n'));
    let process = ProcessId::of(read().trim().parse().unwrap()).unwrap();
    (ProcessId::of(run.ask("leader").parse().unwrap()).unwrap(), process)
}

pub(crate) fn starting_a_load_write_protects_nothing_of_the_measuring_process() {
    let mut run = Run::begin();
    let faults = run.ask(&format!("faults-after-load {} sleep 60", first_cpu()));
    // A fork would have made it one for each of the 256 pages.
    assert!(faults.parse::<u64>().unwrap() < 64, "{faults}");
}

pub(crate) fn a_load_hears_signals_as_usual_and_dies_with_its_keeper() {
    let mut run = Run::begin();
    let (keeper, process) = simple_load(&mut run);
    assert_eq!(status(process.pid, "SigBlk"), "0000000000000000");
    let ignored = u64::from_str_radix(&status(process.pid, "SigIgn"), 16).unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        assert_eq!(ignored >> (signal - 1) & 1, 0, "signal {signal} is ignored");
    }
    kill(keeper, libc::SIGKILL);
    eventually("it dies too", || !process.is_alive());
}

pub(crate) fn a_stopped_load_does_not_hold_up_the_end() {
    let mut run = Run::begin();
    let (keeper, process) = simple_load(&mut run);
    kill(process, libc::SIGSTOP);
    kill(keeper, libc::SIGSTOP);
    run.tell("end");
    assert!(run.wait().success());
    assert!(!keeper.is_alive() && !process.is_alive());
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
