// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every method of the ladder notices that a thread was away, and says what it can.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corehop_linux::bpf::control::{ControlPages, PagePurpose};
use corehop_linux::control_page::{AbsenceMethod, Notice, overhead};
use corehop_linux::counters::software::ThreadCounts;
use corehop_plan::units::Cpu;
use corehop_system::thread::{affinity, current_cpu, set_affinity};

fn each_method(test: fn(Notice, &[Cpu])) {
    for method in AbsenceMethod::ALL {
        thread::spawn(move || {
            let pages = ControlPages::open(PagePurpose::Own).map_err(|error| error.to_string());
            let cpus: Vec<Cpu> = affinity().unwrap().iter().collect();
            match Notice::at(method, pages.as_ref().map_err(String::as_str)) {
                Ok(notice) => {
                    assert_eq!(notice.method(), method);
                    test(notice, &cpus);
                }
                Err(why) => eprintln!("skipped: {method}: {why}"),
            }
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_thread_that_slept_was_away_for_as_long() {
    each_method(|mut notice, _| {
        let begin = Instant::now();
        let _so_far = notice.away();
        thread::sleep(Duration::from_millis(2));
        let away = notice.away().unwrap_or_else(|| panic!("{}", notice.method()));
        let most = begin.elapsed().as_nanos() as u64;
        assert!((1_900_000..=most).contains(&away.length_ns) || away.times > 1, "{away:?}");
        assert!(away.preempted != Some(true) || away.times > 1, "{away:?}");
        assert_eq!(away.by, None);
    });
}

#[test]
fn a_thread_that_moves_itself_knows_where_from_and_where_to() {
    each_method(|mut notice, cpus| {
        let [one, other, ..] = *cpus else {
            eprintln!("skipped: one CPU only");
            return;
        };
        set_affinity([one]).unwrap();
        let _so_far = notice.away();
        set_affinity([other]).unwrap();
        let away = notice.away().unwrap_or_else(|| panic!("{}", notice.method()));
        assert_eq!((away.from, away.to), (one, other), "{}", notice.method());
    });
}

/// Two threads that compute on one CPU take turns.
#[test]
fn a_thread_that_is_preempted_notices_it_every_time() {
    each_method(|mut notice, _| {
        let cpu = current_cpu();
        set_affinity([cpu]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let other = thread::spawn(move || {
            set_affinity([cpu]).unwrap();
            while !stopping.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let _so_far = notice.away();
        let before = ThreadCounts::read();
        let (mut noticed, mut looked) = (0, 0_u64);
        let begin = Instant::now();
        while noticed < 10 && begin.elapsed() < Duration::from_mins(1) {
            looked += 1;
            if let Some(away) = notice.away() {
                noticed += away.times;
                assert!(away.preempted != Some(false) && away.length_ns > 0, "{away:?}");
                assert_eq!((away.from, away.to), (cpu, cpu));
                assert_eq!(away.by.is_some(), notice.method() == AbsenceMethod::Bpf);
            }
        }
        let after = ThreadCounts::read().minus(&before).switches();
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        assert!(noticed >= 10 && looked > noticed, "{}: {noticed} of {looked}", notice.method());
        // One more may have come between the last look and the count; rseq also notices signals.
        let method = notice.method();
        assert!(after.abs_diff(noticed) <= 1, "{method}: noticed {noticed}, kernel {after}");
    });
}

#[test]
fn the_best_rung_is_taken_and_the_others_reasons_are_kept() {
    thread::spawn(|| {
        let (notice, why_not) = Notice::best(Err("no programs today")).unwrap();
        assert!(notice.method() > AbsenceMethod::Bpf);
        assert!(why_not[0].starts_with("bpf: no programs today"), "{why_not:?}");
        assert_eq!(
            why_not.len(),
            AbsenceMethod::ALL.iter().position(|&it| it == notice.method()).unwrap()
        );
    })
    .join()
    .unwrap();
}

#[test]
fn the_overhead_is_measured_with_programs_and_without() {
    if let Err(error) = ControlPages::open(PagePurpose::Own) {
        eprintln!("skipped: {error}");
        return;
    }
    let measured = overhead(current_cpu(), 20, || ControlPages::open(PagePurpose::Own)).unwrap();
    eprintln!("{measured:?} {:?}", measured.ratios());
    assert!(measured.none_ns > 0.0 && measured.registered_ns.is_finite());
    assert!(measured.program_ns.is_none_or(|ns| ns > 0.0));
}
