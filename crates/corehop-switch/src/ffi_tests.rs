// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the C interface as a C program uses it: the words that are written, the end of texts, and the results
//! without a switch.
#![expect(clippy::print_stdout, reason = "a test says why it cannot look")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

unsafe extern "C" fn count(word: *mut c_void) -> u64 {
    // SAFETY: the tests pass a word that outlives the call.
    unsafe { &*word.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "C" fn number(_: *mut c_void) -> u64 {
    crate::sys::thread() as u64
}

fn pointer(word: &AtomicU64) -> *mut c_void {
    ptr::from_ref(word).cast_mut().cast()
}

/// A switch that is closed on drop, however the test ends.
struct Open(*mut Switch);

impl Open {
    fn with(change: impl FnOnce(&mut COptions)) -> Self {
        let mut options = COptions::usual();
        change(&mut options);
        // SAFETY: the structure is of this version.
        Self(unsafe { corehop_switch_open(&raw const options) })
    }

    /// Calls `describe` with a buffer of this size, filled with `x`; returns the buffer and the result.
    fn describe(&self, size: usize) -> (Vec<u8>, usize) {
        let mut buffer = vec![b'x'; size + 2];
        // SAFETY: the switch is open, and the buffer is larger than is said.
        let length =
            unsafe { corehop_switch_describe(self.0, buffer.as_mut_ptr().cast::<c_char>(), size) };
        (buffer, length)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: open or null, and not used again.
        unsafe { corehop_switch_close(self.0) };
    }
}

/// The bit of a core in an array of words.
fn words_of(core: usize) -> [u64; MOST_CORES / 64] {
    CoreSet::of(&[core]).words()
}

#[test]
fn a_text_is_cut_at_the_size_ends_with_a_null_and_leaves_the_bytes_behind_it() {
    let open = Open::with(|it| it.os_cores = words_of(1023));
    // SAFETY: the switch is open.
    let text = described(unsafe { &*open.0 });
    assert!(text.starts_with("local\ncore 1023 cannot be used ("), "{text}");
    let whole = text.len();
    for size in [0, 1, 2, 7, whole - 1, whole, whole + 1, whole + 2] {
        let (buffer, length) = open.describe(size);
        assert_eq!(length, whole, "the length of the whole text, of {size} bytes");
        let kept = whole.min(size.saturating_sub(1));
        let mut expected = text.as_bytes()[..kept].to_vec();
        expected.extend((size > 0).then_some(0));
        expected.resize(size + 2, b'x');
        assert_eq!(buffer, expected, "{size} bytes");
    }
}

#[test]
fn the_text_has_the_mechanism_its_costs_and_each_wish_that_was_not_met() {
    let mut switch =
        Switch::open(&Options { os_cores: CoreSet::of(&[1023]), ..Options::default() });
    switch.set_costs(vec![(Mechanism::Adaptive, 650), (Mechanism::HandOff, 7_000)]);
    switch.note(crate::options::Fallback::TooMany { core: 70 });
    let text = described(&switch);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "local, v5 650 ns, v2 7000 ns");
    assert!(lines[1].starts_with("core 1023 cannot be used"), "{text}");
    let too_many = "core 70 and higher cores are ignored: name at most 64 OS cores";
    assert_eq!((lines[2], lines.len()), (too_many, 3));
}

#[test]
fn the_usual_wishes_are_written_whole() {
    let mut options = COptions {
        size: 1,
        os_cores: [u64::MAX; MOST_CORES / 64],
        mechanism: 1,
        flags: 99,
        spin_limit_ns: 1,
        patience_ns: 1,
    };
    // SAFETY: one such structure.
    unsafe { corehop_switch_options_init(&raw mut options) };
    assert_eq!((options.size, options.os_cores), (size_of::<COptions>(), [0; 16]));
    assert_eq!((options.mechanism, options.flags), (u32::MAX, 2));
    assert_eq!((options.spin_limit_ns, options.patience_ns), (u64::MAX, 10_000_000));
}

#[test]
fn every_wish_arrives() {
    let usual = COptions::usual().read().unwrap();
    assert_eq!((usual.os_cores, usual.mechanism), (CoreSet::EMPTY, None));
    assert_eq!((usual.flags, usual.spin_limit_ns), (Flags::AFFINITY, None));
    let wished = COptions {
        os_cores: words_of(70),
        mechanism: 4,
        flags: 9,
        spin_limit_ns: 0,
        patience_ns: 77,
        ..COptions::usual()
    };
    let read = wished.read().unwrap();
    assert_eq!((read.os_cores, read.mechanism), (CoreSet::of(&[70]), Some(Mechanism::Polling)));
    assert_eq!(read.flags, Flags::WORK_CONSERVING | Flags::STATIC_BINDING);
    assert_eq!((read.spin_limit_ns, read.patience_ns), (Some(0), 77));
    for (number, mechanism) in Mechanism::ALL.into_iter().enumerate() {
        let read = COptions { mechanism: number as u32, ..COptions::usual() }.read().unwrap();
        assert_eq!(read.mechanism, Some(mechanism));
    }
}

#[test]
fn a_wish_without_a_meaning_opens_nothing() {
    let changes: [fn(&mut COptions); 4] =
        [|it| it.mechanism = 6, |it| it.flags = 16, |it| it.size += 8, |it| it.size = 0];
    for (at, change) in changes.into_iter().enumerate() {
        assert!(Open::with(change).0.is_null(), "wish {at}");
    }
    // SAFETY: null options are the usual ones.
    let usual = Open(unsafe { corehop_switch_open(ptr::null()) });
    // SAFETY: the switch is open.
    let (mechanism, open) = unsafe { (corehop_switch_mechanism(usual.0), &*usual.0) };
    assert_eq!(mechanism, open.mechanism() as u32);
}

#[test]
fn the_mechanism_that_was_wished_for_has_its_number() {
    for mechanism in
        [Mechanism::Local, Mechanism::Affinity, Mechanism::HandOff, Mechanism::Adaptive]
    {
        let open = Open::with(|it| it.mechanism = mechanism as u32);
        // SAFETY: the switch is open.
        let (number, fallbacks) =
            unsafe { (corehop_switch_mechanism(open.0), (*open.0).fallbacks()) };
        if fallbacks.is_empty() {
            assert_eq!(number, mechanism as u32);
        } else {
            println!("{mechanism}: skipped: {fallbacks:?}");
        }
    }
}

#[test]
fn without_a_switch_a_call_runs_here_and_everything_else_says_so() {
    let none = Open(ptr::null_mut());
    let (word, mut result) = (AtomicU64::new(4), 11);
    // SAFETY: null is no switch; the words live on.
    unsafe {
        assert_eq!(corehop_switch_call(none.0, count, pointer(&word)), 5);
        let cores = words_of(0);
        let on = corehop_switch_call_on(
            none.0,
            &raw const cores,
            0,
            count,
            pointer(&word),
            &raw mut result,
        );
        let submit = corehop_switch_submit(none.0, count, pointer(&word), &raw mut result);
        let wait = corehop_switch_wait(none.0, 1, &raw mut result);
        assert_eq!((on, submit, wait), (INVALID, INVALID, INVALID));
        corehop_switch_prepare(none.0);
        assert_eq!(corehop_switch_mechanism(none.0), 0);
        assert_eq!(corehop_switch_describe(none.0, ptr::null_mut(), 0), 0);
    }
    assert_eq!((word.load(Ordering::Relaxed), result), (5, 11), "nothing else ran or was written");
    assert_eq!(none.describe(3), (b"\0xxxx".to_vec(), 0));
}

#[test]
fn a_call_on_some_cores_writes_its_result_and_refuses_flags_without_a_meaning() {
    let open = Open::with(|it| it.mechanism = 0);
    let (word, mut result, cores) = (AtomicU64::new(0), 11, words_of(0));
    let mut call = |flags| {
        // SAFETY: the switch is open, and the words live on.
        let status = unsafe {
            corehop_switch_call_on(
                open.0,
                &raw const cores,
                flags,
                count,
                pointer(&word),
                &raw mut result,
            )
        };
        (status, result, word.load(Ordering::Relaxed))
    };
    assert_eq!(call(16), (INVALID, 11, 0));
    assert_eq!(call(15), (DONE, 1, 1));
}

#[test]
fn tickets_are_given_until_the_ring_is_full_and_taken_once() {
    for mechanism in [Mechanism::Local, Mechanism::HandOff] {
        let open = Open::with(|it| it.mechanism = mechanism as u32);
        let word = AtomicU64::new(0);
        let submit = || {
            let mut ticket = 0;
            // SAFETY: the switch is open, and the word outlives it.
            let status =
                unsafe { corehop_switch_submit(open.0, count, pointer(&word), &raw mut ticket) };
            (status, ticket)
        };
        let wait = |ticket| {
            let mut result = 0;
            // SAFETY: the switch is open.
            let status = unsafe { corehop_switch_wait(open.0, ticket, &raw mut result) };
            (status, result)
        };
        let tickets: Vec<u64> = (0..64)
            .map(|_| submit())
            .map(|(status, it)| {
                assert_eq!(status, DONE, "{mechanism}");
                it
            })
            .collect();
        assert_eq!(submit(), (FULL, 0), "{mechanism}");
        // A ticket of another partner than those that there are, and one of a later call.
        assert_eq!(wait(tickets[0] ^ 1 << 60), (UNKNOWN_TICKET, 0), "{mechanism}");
        assert_eq!(wait(tickets[63] + 1), (UNKNOWN_TICKET, 0), "{mechanism}");
        let results: Vec<u64> = tickets
            .iter()
            .map(|&it| wait(it))
            .map(|(status, result)| {
                assert_eq!(status, DONE, "{mechanism}");
                result
            })
            .collect();
        assert_eq!(results, (1..=64).collect::<Vec<u64>>(), "{mechanism}");
        assert_eq!(wait(tickets[5]), (UNKNOWN_TICKET, 0), "{mechanism}: taken");
        let (status, ticket) = submit();
        assert_eq!((status, wait(ticket)), (DONE, (DONE, 65)), "{mechanism}");
        // SAFETY: the switch is open.
        let counts = unsafe { (*open.0).counts() };
        let here = counts.local + counts.taken_back;
        assert_eq!(counts.switched + here, 65, "{mechanism}: {counts:?}");
        assert!(mechanism != Mechanism::Local || counts.local == 65, "{counts:?}");
    }
}

/// The number of times that a thread of this process has given up its core.
fn sleeps_of(thread: u64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// In the test, a sleeping partner checks for calls once per second by itself; more frequent checks show that it was
/// woken.
#[test]
fn a_partner_is_woken_ahead_of_need() {
    let open = Open::with(|options| {
        options.mechanism = Mechanism::Adaptive as u32;
        options.patience_ns = 10_000_000_000;
    });
    // SAFETY: the switch is open, and the function takes no argument.
    let partner = unsafe { corehop_switch_call(open.0, number, ptr::null_mut()) };
    if partner == crate::sys::thread() as u64 {
        return println!("skipped: one core");
    }
    let mut woken = 0;
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(10));
        let before = sleeps_of(partner);
        // SAFETY: the switch is open.
        unsafe { corehop_switch_prepare(open.0) };
        let begun = Instant::now();
        while sleeps_of(partner) == before && begun.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(1));
        }
        woken += u32::from(sleeps_of(partner) > before);
    }
    assert!(woken >= 4, "{woken} of 6");
}
