// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits: a thread that has nothing to do sleeps, and the thread that it waits for wakes it.
#![expect(clippy::print_stdout, reason = "a test says why it cannot look")]

use std::time::{Duration, Instant};

use corehop_switch::{Mechanism, Options, Switch};

/// The length of a wait. A thread that spins meanwhile takes some share of a core, also on a busy machine.
const WAIT: Duration = Duration::from_millis(150);
/// The most CPU time of a thread that sleeps: one that does takes less than a millisecond.
const MOST: Duration = Duration::from_millis(20);
/// A patience in nanoseconds that no test exhausts.
const PATIENT: u64 = 60_000_000_000;
/// A patience in nanoseconds that the functions of these tests outlast.
const IMPATIENT: u64 = 2_000_000;

/// A switch by this mechanism, or none and the reason.
fn open(mechanism: Mechanism, patience_ns: u64) -> Option<Switch> {
    let wish = Options { mechanism: Some(mechanism), patience_ns, ..Options::default() };
    let switch = Switch::open(&wish);
    if switch.mechanism() == mechanism {
        return Some(switch);
    }
    println!("{mechanism}: skipped: {:?}", switch.fallbacks());
    None
}

/// The CPU time of the calling thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(outcome, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_caller_sleeps_while_its_function_runs_on_the_other_core() {
    for (mechanism, patience) in [
        (Mechanism::HandOff, PATIENT),
        (Mechanism::HandOff, IMPATIENT),
        (Mechanism::Linked, PATIENT),
        (Mechanism::Polling, IMPATIENT),
        (Mechanism::Adaptive, PATIENT),
    ] {
        let Some(mut switch) = open(mechanism, patience) else { continue };
        let (begun, before) = (Instant::now(), cpu_time());
        let here = std::thread::current().id();
        let ran_here = switch.run(move || {
            std::thread::sleep(WAIT);
            std::thread::current().id() == here
        });
        let spent = cpu_time().saturating_sub(before);
        assert!(spent < MOST, "{mechanism}, patience {patience} ns: {spent:?}, here: {ran_here}");
        let waited = begun.elapsed();
        assert!(waited < 5 * WAIT, "{mechanism}: a nap outlasts the function: {waited:?}");
    }
}

#[test]
fn a_partner_without_calls_sleeps() {
    let mechanisms = [Mechanism::HandOff, Mechanism::Linked, Mechanism::Adaptive];
    let open = mechanisms.iter().filter_map(|&it| open(it, PATIENT));
    let mut open: Vec<_> = open.map(|mut it| (it.run(cpu_time), it)).collect();
    std::thread::sleep(WAIT);
    for (before, switch) in &mut open {
        let spent = switch.run(cpu_time).saturating_sub(*before);
        assert!(spent < MOST, "{}: {spent:?}", switch.mechanism());
    }
}

/// Sleepers look for news once a second by themselves: what is woken comes much sooner.
#[test]
fn a_sleeping_partner_is_woken_for_a_call_its_caller_for_the_result_and_both_for_the_end() {
    let pause = || std::thread::sleep(Duration::from_millis(3));
    for mechanism in [Mechanism::HandOff, Mechanism::Linked, Mechanism::Adaptive] {
        let Some(mut switch) = open(mechanism, PATIENT) else { continue };
        let begun = Instant::now();
        for _ in 0..10 {
            pause();
            switch.run(pause);
        }
        // SAFETY: the function reads no argument.
        let mut submit = || unsafe { switch.submit(short, std::ptr::null_mut()) }.unwrap();
        let tickets: Vec<_> = (0..10)
            .map(|_| {
                pause();
                submit()
            })
            .collect();
        for ticket in tickets {
            assert_eq!(switch.wait(ticket), Ok(3), "{mechanism}");
        }
        let calls = begun.elapsed();
        assert!(calls < Duration::from_secs(5), "{mechanism}: 20 calls in {calls:?}");
        let counts = switch.counts();
        assert_eq!((counts.switched, counts.local, counts.taken_back), (20, 0, 0), "{mechanism}");
        drop(switch);
        let begun = Instant::now();
        for _ in 0..8 {
            let switch = open(mechanism, PATIENT);
            pause();
            drop(switch);
        }
        let ends = begun.elapsed();
        assert!(ends < Duration::from_secs(4), "{mechanism}: 8 ends in {ends:?}");
    }
}

unsafe extern "C" fn short(_: *mut std::ffi::c_void) -> u64 {
    std::thread::sleep(Duration::from_millis(1));
    3
}

#[test]
fn a_call_that_is_not_taken_comes_back_when_patience_ends_and_not_before() {
    let Some(mut switch) = open(Mechanism::HandOff, 40_000_000) else { return };
    // SAFETY: the functions read no argument.
    let long = unsafe { switch.submit(long, std::ptr::null_mut()) }.unwrap();
    let begun = Instant::now();
    let here = std::thread::current().id();
    // The partner is busy: this one runs here.
    assert_eq!(switch.run(|| std::thread::current().id()), here);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(40), "{waited:?}");
    assert_eq!((switch.wait(long), switch.counts().taken_back), (Ok(9), 1));
}

unsafe extern "C" fn long(_: *mut std::ffi::c_void) -> u64 {
    std::thread::sleep(Duration::from_millis(400));
    9
}

/// A caller that slept would take 50 µs and more for each call. On a busy machine, one call of many is undisturbed.
#[test]
fn a_call_to_a_partner_that_polls_takes_no_sleep_of_its_caller() {
    for mechanism in [Mechanism::Polling, Mechanism::Adaptive] {
        let Some(mut switch) = open(mechanism, PATIENT) else { continue };
        let mut least = Duration::MAX;
        for _ in 0..20_000 {
            let begun = Instant::now();
            switch.run(|| ());
            least = least.min(begun.elapsed());
            if least < Duration::from_micros(30) {
                break;
            }
        }
        assert!(least < Duration::from_micros(30), "{mechanism}: {least:?}");
    }
}
