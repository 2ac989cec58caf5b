// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live host: threads are observed, moved, and put back. Skips with the reason where threads cannot be followed.
//!
//! The supervisor is this program too, started anew; so it has a `main` of its own instead of the usual harness.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]

#[path = "../harness/mod.rs"]
mod harness;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use corehop_linux::observe::{How, LiveHost};
use corehop_linux::placing::{PlacerSettings, PlacingHost};
use corehop_linux::probe::{wake_batches, watch};
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::wakes::{WakeArm, WakeBatch};
use corehop_plan::host::{Evidence, Host, HostError, Move};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_system::discover::{SysRoot, discover};
use corehop_system::thread::{affinity, affinity_of};

use harness::{Test, report, skipped, tests};

const TESTS: &[Test] = tests![
    a_thread_is_moved_and_put_back_and_its_end_is_observed,
    of_moves_of_which_one_is_not_possible_none_is_made,
    moves_are_taken_back_when_the_host_goes,
    a_move_of_a_thread_that_has_ended_names_it,
    of_threads_of_which_one_has_ended_the_others_are_placed_and_put_back,
    the_distance_of_cpus_is_unknown_where_its_process_is_silent_and_nothing_waits_for_it,
    every_pair_of_cpus_is_watched_in_the_order_of_time_and_the_watch_ends,
    wake_ups_are_measured_in_turns_and_leave_nothing_behind,
];

fn main() -> ExitCode {
    if let Some(code) = corehop_linux::main_if_asked() {
        return code;
    }
    let filters: Vec<String> = std::env::args().skip(1).collect();
    report(TESTS, &filters, 1)
}

const WINDOW: Duration = Duration::from_millis(50);

/// A host that follows `sleep 20`, and the thread.
fn sleeping() -> Option<(LiveHost, u32)> {
    let words = ["sleep", "20"].map(|word| Argument::new(word.as_bytes().to_vec()));
    let target = Target::Command(words.to_vec());
    let mut host = match LiveHost::begin(&target, &How::default()) {
        Ok(host) => host,
        Err(error) => {
            skipped(&error.to_string());
            return None;
        }
    };
    for _ in 0..100 {
        assert_eq!(host.observe(WINDOW).unwrap().ended, None);
        if let Some(thread) = host.threads().iter().find(|it| it.name == "sleep") {
            let tid = thread.tid;
            return Some((host, tid));
        }
    }
    panic!("the thread is not noticed within five seconds: {:?}", host.threads());
}

/// A host that places these targets by wake-ups, and moves nothing by itself.
fn placing(platform: &Platform, targets: &[Target]) -> PlacingHost {
    let wishes = PlacerSettings {
        platform,
        progress: None,
        evidence: &[Evidence::Wakes],
        page_faults: 100,
        search: true,
        moves: false,
        to_stderr: false,
    };
    PlacingHost::begin(targets, wishes).unwrap()
}

/// The child of this process that has this name.
/// A child of any thread of this process: the kernel lists a child under the thread that began it.
fn child_called(name: &str) -> Option<u32> {
    let called = |pid: &u32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|it| it.trim_end() == name)
    };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    let children = threads.map(of).collect::<Vec<_>>().join(" ");
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(called)
}

fn the_distance_of_cpus_is_unknown_where_its_process_is_silent_and_nothing_waits_for_it() {
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let platform = discover(&SysRoot::live()).unwrap();
    let mut host = placing(&platform, &[Target::Process(sleeper.id())]);
    host.look_closely(true);
    let mut lines = || host.observe(WINDOW).unwrap().activity.unwrap().lines;
    // On a busy machine not every exchange meets.
    let known = (0..50).find_map(|_| lines()).expect("an exchange");
    let ns = [known.shared_cache_ns, known.separate_ns];
    assert!(ns.into_iter().flatten().all(|it| (1.0..100_000.0).contains(&it)), "{known:?}");
    let process = child_called("corehop-lines").expect("the process that answered");
    let begun = std::time::Instant::now();
    // SAFETY: takes two integers; a child of this process.
    unsafe { libc::kill(process.cast_signed(), libc::SIGSTOP) };
    // An answer may have been under way.
    let later: Vec<_> = (0..4).map(|_| lines()).collect();
    assert_eq!(later[1..], [None, None, None]);
    drop(host);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    end(sleeper.id());
    sleeper.wait().unwrap();
}

fn every_pair_of_cpus_is_watched_in_the_order_of_time_and_the_watch_ends() {
    let platform = discover(&SysRoot::live()).unwrap();
    let (long, every) = (Duration::from_millis(200), Duration::from_millis(10));
    let watched = watch(&platform, long, every, &mut |_| {}).unwrap();
    assert_eq!(watched.len(), platform.watched_pairs().len(), "one CPU has no pair");
    for pair in &watched {
        // On a busy machine not every look meets; none is made up.
        assert!(pair.exchanges.len() <= 20 && pair.from != pair.to);
        assert!(pair.exchanges.is_sorted_by_key(|&(at, _)| at));
        assert!(pair.exchanges.iter().all(|&(_, ns)| ns > 1.0));
    }
}

fn end(tid: u32) {
    // SAFETY: takes two integers; the process is a child that was not waited for.
    unsafe { libc::kill(tid.cast_signed(), libc::SIGKILL) };
}

fn allowed(tid: u32) -> CpuList {
    affinity_of(tid.cast_signed()).unwrap()
}

fn a_thread_is_moved_and_put_back_and_its_end_is_observed() {
    let Some((mut host, tid)) = sleeping() else { return };
    let before = allowed(tid);
    let first = CpuList::new(affinity().unwrap().first());
    let receipt = host.apply(&[Move { tid, cpus: first.clone() }]).unwrap();
    assert_eq!((allowed(tid), &receipt.before[0].cpus), (first, &before));
    host.revert(receipt).unwrap();
    assert_eq!(allowed(tid), before);
    end(tid);
    let ended = (0..100).find_map(|_| host.observe(WINDOW).unwrap().ended);
    assert_eq!(ended.unwrap().status, Some(128 + libc::SIGKILL));
}

fn of_moves_of_which_one_is_not_possible_none_is_made() {
    let Some((mut host, tid)) = sleeping() else { return };
    let before = allowed(tid);
    let first = CpuList::new(affinity().unwrap().first());
    let nowhere = CpuList::new([Cpu(60_000)]);
    let moves = [Move { tid, cpus: first }, Move { tid, cpus: nowhere }];
    let error = host.apply(&moves).unwrap_err();
    assert!(matches!(&error, HostError::Move { tid: it, .. } if *it == tid), "{error}");
    assert!(
        error.to_string().contains("to CPUs 60000") && error.to_string().contains("online"),
        "{error}"
    );
    assert_eq!(allowed(tid), before);
    end(tid);
}

fn moves_are_taken_back_when_the_host_goes() {
    let Some((mut host, tid)) = sleeping() else { return };
    let before = allowed(tid);
    let first = CpuList::new(affinity().unwrap().first());
    let _receipt = host.apply(&[Move { tid, cpus: first }]).unwrap();
    drop(host);
    assert_eq!(allowed(tid), before);
    end(tid);
}

fn a_move_of_a_thread_that_has_ended_names_it() {
    let Some((mut host, tid)) = sleeping() else { return };
    end(tid);
    while host.observe(WINDOW).unwrap().ended.is_none() {}
    let cpus = affinity().unwrap();
    let error = host.apply(&[Move { tid, cpus }]).unwrap_err();
    assert!(error.to_string().contains(&format!("thread {tid}")), "{error}");
}

fn of_threads_of_which_one_has_ended_the_others_are_placed_and_put_back() {
    let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let (mut ends, mut stays) = (sleep(), sleep());
    let tids = [ends.id(), stays.id()];
    let platform = discover(&SysRoot::live()).unwrap();
    let mut host = placing(&platform, &tids.map(Target::Process));
    host.observe(WINDOW).unwrap();
    end(tids[0]);
    ends.wait().unwrap();
    let before = allowed(tids[1]);
    let cpus = CpuList::new(before.first());
    let receipt = host.apply(&tids.map(|tid| Move { tid, cpus: cpus.clone() })).unwrap();
    assert_eq!(allowed(tids[1]), cpus);
    let moved: Vec<u32> = receipt.before.iter().map(|it| it.tid).collect();
    assert_eq!(moved, [tids[1]]);
    host.revert(receipt).unwrap();
    assert_eq!(allowed(tids[1]), before);
    end(tids[1]);
    stays.wait().unwrap();
}

fn wake_ups_are_measured_in_turns_and_leave_nothing_behind() {
    let platform = discover(&SysRoot::live()).unwrap();
    let (before, begun) = (affinity().unwrap(), Instant::now());
    let all = wake_batches(&platform, Duration::from_millis(300));
    // The bound of the wait, and a busy machine's time to start and to end a process.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(affinity().unwrap(), before, "of this process");
    if let Some(why) = all.trouble {
        return skipped(&why);
    }
    let of = |arm| all.batches.iter().filter(move |it: &&WakeBatch| it.arm == arm);
    assert!(of(WakeArm::SameCpu).count() > 0 && all.batches.iter().all(|it| it.ns > 0.0));
    assert!(of(WakeArm::SameCpu).all(|it| it.crossed < 0.01), "one CPU");
    let Some((a, b)) = all.cpus else { return };
    assert_ne!(a, b);
    for arm in [WakeArm::OtherCpu, WakeArm::KeptAwake] {
        let (first, count) = (of(WakeArm::SameCpu).count(), of(arm).count());
        assert!(first.abs_diff(count) <= 1, "{arm:?}: {count} of {first}");
        assert!(of(arm).all(|it| it.crossed > 0.99), "{arm:?}: two CPUs");
    }
    // CPUs that are kept awake do not become idle, whatever else runs; a spin may end early beside others.
    let idle = of(WakeArm::KeptAwake).filter(|it| it.idle == Some(true)).count();
    assert!(3 * idle <= of(WakeArm::KeptAwake).count(), "{idle} batches with idle CPUs");
    let least = |arm| of(arm).map(|it| it.ns).fold(f64::INFINITY, f64::min);
    assert!(least(WakeArm::OtherCpu) > 0.5 * least(WakeArm::SameCpu));
    let spins = |name: &str| name.starts_with("corehop-wakes");
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let folder = entry.path();
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let ours = read("stat").rsplit(')').next().is_some_and(|fields| {
            fields.split_whitespace().nth(1) == Some(&std::process::id().to_string())
        });
        ours && spins(read("comm").trim()) && !read("stat").contains(") Z ")
    });
    assert_eq!(left.count(), 0, "a process of the experiment still runs");
}
