// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls by every mechanism: each runs once, its result comes back, and nothing is left.
#![expect(clippy::print_stdout, reason = "a test says why it cannot look")]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use corehop_switch::policy::{CoreSet, Flags};
use corehop_switch::{CallPlaceCounts, Full, Mechanism, Options, Switch, WaitError};

fn options(mechanism: Mechanism) -> Options {
    Options { mechanism: Some(mechanism), ..Options::default() }
}

/// A switch by each mechanism; those that this host lacks are named.
fn each(mut check: impl FnMut(Mechanism, &mut Switch)) {
    for mechanism in Mechanism::ALL {
        let mut switch = Switch::open(&options(mechanism));
        if switch.mechanism() != mechanism {
            println!("{mechanism}: skipped: {:?}", switch.fallbacks());
            continue;
        }
        check(mechanism, &mut switch);
    }
}

/// Adds one to the word behind the pointer and returns it.
unsafe extern "C" fn count(word: *mut c_void) -> u64 {
    // SAFETY: the tests pass a word that outlives the call.
    unsafe { &*word.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed) + 1
}

fn pointer(word: &AtomicU64) -> *mut c_void {
    std::ptr::from_ref(word).cast_mut().cast()
}

fn affinity() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned()
}

#[test]
fn every_mechanism_runs_each_call_once_and_returns_its_result() {
    each(|mechanism, switch| {
        let word = AtomicU64::new(0);
        for n in 1..=1_000 {
            // SAFETY: the word lives on.
            assert_eq!(unsafe { switch.call(count, pointer(&word)) }, n, "{mechanism}");
        }
        let CallPlaceCounts { switched, local, taken_back } = switch.counts();
        assert_eq!(switched + local + taken_back, 1_000, "{mechanism}");
        assert_eq!(word.load(Ordering::Relaxed), 1_000, "{mechanism}");
    });
}

#[test]
fn a_partner_works_on_the_other_core_and_in_another_thread() {
    each(|mechanism, switch| {
        let patient = Options { patience_ns: 5_000_000_000, ..options(mechanism) };
        *switch = Switch::open(&patient);
        let here = std::thread::current().id();
        let there = switch.run(|| std::thread::current().id());
        let moves = matches!(mechanism, Mechanism::Local | Mechanism::Affinity);
        assert_eq!(here == there, moves, "{mechanism}");
        if mechanism != Mechanism::Local {
            // SAFETY: no arguments.
            let core = switch.run(|| unsafe { libc::sched_getcpu() });
            assert!(switch.os_cores().contains(core as usize), "{mechanism}: {core}");
        }
    });
}

#[test]
fn results_may_be_taken_in_any_order_and_the_65th_call_is_refused() {
    each(|mechanism, switch| {
        let words: [AtomicU64; 64] = std::array::from_fn(|n| AtomicU64::new(n as u64));
        for round in 1..=50 {
            // SAFETY: the words live on.
            let submit = |switch: &mut Switch, word| unsafe { switch.submit(count, pointer(word)) };
            let mut tickets: Vec<_> = words
                .iter()
                .enumerate()
                .map(|(n, word)| (n, submit(switch, word).unwrap()))
                .collect();
            assert_eq!(submit(switch, &words[0]), Err(Full), "{mechanism}");
            if round % 2 == 0 {
                tickets.reverse();
            }
            for (n, ticket) in tickets {
                assert_eq!(switch.wait(ticket), Ok(n as u64 + round), "{mechanism}");
            }
        }
    });
}

#[test]
fn a_ticket_of_another_switch_is_refused() {
    let mut one = Switch::open(&options(Mechanism::Local));
    let mut other = Switch::open(&options(Mechanism::Local));
    let word = AtomicU64::new(0);
    // SAFETY: the word lives on.
    let ticket = unsafe { one.submit(count, pointer(&word)) }.unwrap();
    assert_eq!(other.wait(ticket), Err(WaitError::UnknownTicket));
}

#[test]
fn closures_of_a_scope_borrow_and_their_results_come_in_any_order() {
    each(|mechanism, switch| {
        let words: Vec<u64> = (0..200).collect();
        let sums = switch.scope(|scope| {
            let begun: Vec<_> =
                words.chunks(2).map(|pair| scope.submit(|| pair.iter().sum::<u64>())).collect();
            let taken = begun.into_iter().rev().map(|it| scope.wait(it).unwrap());
            taken.collect::<Vec<u64>>()
        });
        let expected: Vec<u64> = (0..100).rev().map(|n| 4 * n + 1).collect();
        assert_eq!(sums, expected, "{mechanism}");
    });
}

#[test]
fn a_scope_waits_for_what_nothing_waited_for_and_passes_a_panic_on() {
    each(|mechanism, switch| {
        let word = AtomicU64::new(0);
        switch.scope(|scope| {
            for _ in 0..30 {
                drop(scope.submit(|| word.fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert_eq!(word.load(Ordering::Relaxed), 30, "{mechanism}");
        let work = || switch.scope(|scope| drop(scope.submit(|| std::panic::panic_any("there"))));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"there"), "{mechanism}");
        assert_eq!(switch.run(|| 7), 7, "{mechanism}");
    });
}

#[test]
fn a_panic_comes_back_to_the_caller_and_the_switch_goes_on() {
    each(|mechanism, switch| {
        let work = || switch.run(|| -> u32 { std::panic::panic_any("there") });
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"there"), "{mechanism}");
        assert_eq!(switch.run(|| 7), 7, "{mechanism}");
    });
}

/// Closures and results of all sizes about that of the room in a line, by a patient and by an impatient caller: each runs
/// once, its captures are dropped once, and its result is whole.
#[test]
fn closures_of_every_size_move_there_once_and_their_results_move_back() {
    let here = std::thread::current().id();
    for (mechanism, patience_ns) in Mechanism::ALL.map(|it| [(it, 0), (it, 5_000_000_000)]).concat()
    {
        let mut switch = Switch::open(&Options { patience_ns, ..options(mechanism) });
        let alive = std::sync::Arc::new(AtomicU64::new(0));
        for n in 0..200 {
            let (one, two, three) = (alive.clone(), alive.clone(), alive.clone());
            let before = switch.counts().switched;
            let words = switch.run(move || {
                alive_and_counted(&one);
                drop((two, three));
                (n, here == std::thread::current().id())
            });
            let is_local = matches!(switch.mechanism(), Mechanism::Local | Mechanism::Affinity);
            let went = !is_local && switch.counts().switched > before;
            assert_eq!(words, (n, !went), "{mechanism}: the count says where it ran");
            let (text, boxed) = (format!("text {n}"), Box::new(n));
            assert_eq!(switch.run(move || text + "!"), format!("text {n}!"), "{mechanism}");
            assert_eq!(switch.run(move || [*boxed; 4]), [n; 4], "{mechanism}");
            assert_eq!(switch.run(move || u128::from(n) << 64), u128::from(n) << 64, "{mechanism}");
            let large = [n; 9];
            assert_eq!(switch.run(move || large.iter().sum::<u64>()), 9 * n, "{mechanism}");
            switch.run(|| ());
        }
        assert_eq!(alive.load(Ordering::Relaxed), 200, "{mechanism}");
        assert_eq!(std::sync::Arc::strong_count(&alive), 1, "{mechanism}");
        let CallPlaceCounts { switched, local, taken_back } = switch.counts();
        assert_eq!(switched + local + taken_back, 1_200, "{mechanism}");
    }
}

fn alive_and_counted(word: &AtomicU64) {
    word.fetch_add(1, Ordering::Relaxed);
}

/// While a call is outstanding, a small closure goes by the ring behind it, and its panic comes back, too.
#[test]
fn a_small_closure_behind_an_outstanding_call_runs_after_it() {
    each(|mechanism, switch| {
        let word = AtomicU64::new(0);
        // SAFETY: the word lives on.
        let ticket = unsafe { switch.submit(count, pointer(&word)) }.unwrap();
        assert_eq!(switch.run(|| word.fetch_add(10, Ordering::Relaxed)), 1, "{mechanism}");
        let work = || switch.run(|| -> u32 { std::panic::panic_any("there") });
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"there"), "{mechanism}");
        assert_eq!(switch.wait(ticket), Ok(1), "{mechanism}");
    });
}

#[test]
fn a_call_that_is_not_taken_in_time_runs_here_once() {
    for mechanism in
        [Mechanism::HandOff, Mechanism::Linked, Mechanism::Polling, Mechanism::Adaptive]
    {
        let mut switch = Switch::open(&Options { patience_ns: 0, ..options(mechanism) });
        let words: [AtomicU64; 200] = std::array::from_fn(|_| AtomicU64::new(0));
        for word in &words {
            // SAFETY: the words live until the switch is dropped.
            assert_eq!(unsafe { switch.call(count, pointer(word)) }, 1, "{mechanism}");
        }
        drop(switch);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 1), "{mechanism}");
    }
}

#[test]
fn a_switch_that_is_dropped_carries_out_what_was_submitted() {
    each(|mechanism, switch| {
        let word = AtomicU64::new(0);
        for _ in 0..40 {
            // SAFETY: the word outlives the switch that is dropped below.
            drop(unsafe { switch.submit(count, pointer(&word)) }.unwrap());
        }
        *switch = Switch::open(&options(Mechanism::Local));
        assert_eq!(word.load(Ordering::Relaxed), 40, "{mechanism}");
    });
}

#[test]
fn no_affinity_is_left_behind() {
    let before = affinity();
    each(|mechanism, switch| {
        for _ in 0..20 {
            switch.run(|| ());
            assert_eq!(affinity(), before, "{mechanism}");
        }
    });
    let mut moving = Switch::open(&options(Mechanism::Affinity));
    let work = || moving.run(|| -> u32 { std::panic::panic_any(1) });
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
    assert_eq!(affinity(), before);
}

/// The status of a thread of this process, or `None` once it has ended.
fn status(thread: i64) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()
}

#[test]
fn a_partner_blocks_signals_and_ends_with_its_switch() {
    each(|mechanism, switch| {
        let patient = Options { patience_ns: 5_000_000_000, ..options(mechanism) };
        *switch = Switch::open(&patient);
        // SAFETY: no arguments.
        let here = unsafe { libc::syscall(libc::SYS_gettid) };
        // SAFETY: no arguments.
        let partner = switch.run(|| unsafe { libc::syscall(libc::SYS_gettid) });
        if partner == here {
            return;
        }
        // All of the first 31, but for SIGKILL and SIGSTOP.
        let said = status(partner).unwrap();
        assert!(said.contains("SigBlk:\tfffffffe7ffbfeff"), "{mechanism}: {said}");
        *switch = Switch::open(&options(Mechanism::Local));
        assert_eq!(status(partner), None, "{mechanism}");
    });
}

#[test]
fn a_core_that_does_not_exist_is_named_and_calls_run_here() {
    let wish = Options { os_cores: CoreSet::of(&[1023]), ..Options::default() };
    let mut switch = Switch::open(&wish);
    assert_eq!(switch.mechanism(), Mechanism::Local);
    assert!(switch.fallbacks()[0].to_string().starts_with("core 1023 cannot be used"));
    assert_eq!(switch.run(|| 3), 3);
    assert_eq!(switch.counts(), CallPlaceCounts { switched: 0, local: 1, taken_back: 0 });
}

#[test]
fn a_set_without_a_core_of_the_switch_keeps_the_call_here() {
    each(|mechanism, switch| {
        let word = AtomicU64::new(0);
        let elsewhere = CoreSet::of(&[1000]);
        // SAFETY: the word lives on.
        let value = unsafe { switch.call_on(&elsewhere, Flags::NONE, count, pointer(&word)) };
        assert_eq!((value, switch.counts().local), (1, 1), "{mechanism}");
    });
}

#[test]
fn a_conserving_call_does_not_queue_behind_its_own() {
    let mut switch = Switch::open(&options(Mechanism::Adaptive));
    if switch.mechanism() == Mechanism::Local {
        return println!("skipped: {:?}", switch.fallbacks());
    }
    let word = AtomicU64::new(0);
    // SAFETY: the word lives on.
    let ticket = unsafe { switch.submit(count, pointer(&word)) }.unwrap();
    let (cores, flags) = (switch.os_cores(), Flags::WORK_CONSERVING);
    // SAFETY: as above.
    unsafe { switch.call_on(&cores, flags, count, pointer(&word)) };
    assert_eq!(switch.counts().local, 1);
    switch.wait(ticket).unwrap();
    assert_eq!(word.load(Ordering::Relaxed), 2);
}

/// The core on which a function runs.
unsafe extern "C" fn core_of(_: *mut c_void) -> u64 {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() as u64 }
}

/// Of so many calls those that ran on an OS core. (The kernel may move the caller there, and a call may be taken back.)
fn ran_elsewhere(switch: &mut Switch, calls: u64) -> u64 {
    let os = switch.os_cores();
    // SAFETY: the function takes no argument.
    let core = |switch: &mut Switch| unsafe { switch.call(core_of, std::ptr::null_mut()) };
    (0..calls).filter(|_| os.contains(core(switch) as usize)).count() as u64
}

#[test]
fn a_thread_that_moves_itself_moves_for_every_call() {
    let mut switch = Switch::open(&options(Mechanism::Affinity));
    if switch.mechanism() == Mechanism::Local {
        return println!("skipped: {:?}", switch.fallbacks());
    }
    assert!(ran_elsewhere(&mut switch, 100) >= 60);
    assert!(switch.counts().switched >= 60, "{:?}", switch.counts());
}

#[test]
fn the_default_runs_functions_on_the_other_core() {
    let mut switch = Switch::open(&Options::default());
    if switch.mechanism() == Mechanism::Local {
        return println!("skipped: {:?}", switch.fallbacks());
    }
    let elsewhere = ran_elsewhere(&mut switch, 1_000);
    let CallPlaceCounts { switched, local, taken_back } = switch.counts();
    assert_eq!((local, switched + taken_back), (0, 1_000));
    assert!(elsewhere >= switched, "{elsewhere} of {switched}");
}

#[test]
fn the_default_asks_neither_for_v1_nor_for_v3_nor_for_v4() {
    let switch = Switch::open(&Options::default());
    let usual = [Mechanism::Local, Mechanism::HandOff, Mechanism::Adaptive];
    assert!(usual.contains(&switch.mechanism()));
    assert!(switch.costs().iter().all(|(mechanism, _)| usual.contains(mechanism)));
}

#[test]
fn the_choice_is_by_cost_and_says_it() {
    let mut switch = Switch::open(&Options::default());
    if switch.mechanism() == Mechanism::Local {
        return println!("skipped: {:?}", switch.fallbacks());
    }
    println!("{:?}", switch.costs());
    let least = switch.costs().iter().min_by_key(|(_, cost)| cost).unwrap().0;
    assert_eq!(switch.mechanism(), least);
    assert_eq!(switch.run(|| 5), 5);
}

#[test]
fn a_partner_that_sleeps_is_woken_ahead_of_need_or_by_the_call() {
    let patient = Options { patience_ns: 5_000_000_000, ..options(Mechanism::Adaptive) };
    let mut switch = Switch::open(&patient);
    let calls = Cell::new(0);
    for pause in [0, 1, 3] {
        std::thread::sleep(std::time::Duration::from_millis(pause));
        switch.prepare();
        calls.set(calls.get() + switch.run(|| 1));
        std::thread::sleep(std::time::Duration::from_millis(pause));
        calls.set(calls.get() + switch.run(|| 1));
    }
    assert_eq!(calls.get(), 6);
    assert_eq!(switch.counts().taken_back, 0);
}
