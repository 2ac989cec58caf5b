// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of switches without partners, of tickets, and of the end of partners.

use super::*;

unsafe extern "C" fn twice(number: *mut c_void) -> u64 {
    2 * number as u64
}

fn argument(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

fn local() -> Switch {
    Switch::open(&Options { mechanism: Some(Mechanism::Local), ..Options::default() })
}

fn submit(switch: &mut Switch, number: usize) -> Result<Ticket, Full> {
    // SAFETY: the function reads nothing.
    unsafe { switch.submit(twice, argument(number)) }
}

#[test]
fn what_ran_at_once_is_kept_for_its_number_until_it_is_taken() {
    let mut switch = local();
    for number in 1..=3 {
        assert_eq!(
            submit(&mut switch, 10 * number),
            Ok(Ticket { line: KEPT, number: number as u64 })
        );
    }
    assert_eq!(switch.counts(), CallPlaceCounts { local: 3, ..CallPlaceCounts::default() });
    let unknown = Err(WaitError::UnknownTicket);
    assert_eq!([4, 0, 67].map(|number| switch.wait_for(KEPT, number)), [unknown; 3]);
    assert_eq!(switch.wait_for(KEPT, 2), Ok(40));
    assert_eq!([2, 1, 3].map(|number| switch.wait_for(KEPT, number)), [unknown, Ok(20), Ok(60)]);
    assert_eq!(switch.wait_for(0, 1), unknown, "a line that is not there");
}

#[test]
fn sixty_four_results_are_kept_and_a_number_whose_place_was_given_away_is_unknown() {
    let mut switch = local();
    for number in 1..=64 {
        assert!(submit(&mut switch, number).is_ok(), "{number}");
    }
    assert_eq!(submit(&mut switch, 65), Err(Full));
    assert_eq!(switch.counts().local, 64, "what was refused has not run");
    assert_eq!(switch.wait_for(KEPT, 1), Ok(2));
    assert_eq!(submit(&mut switch, 65), Ok(Ticket { line: KEPT, number: 65 }));
    assert_eq!(switch.wait_for(KEPT, 1), Err(WaitError::UnknownTicket));
    assert_eq!([65, 2].map(|number| switch.wait_for(KEPT, number)), [Ok(130), Ok(4)]);
}

#[test]
fn a_call_that_ran_at_once_is_settled_without_a_switch() {
    let mut switch = local();
    assert_eq!(Ticket::ran().settled(&mut switch), Ok(()));
    let ticket = submit(&mut switch, 1).unwrap();
    assert_eq!(ticket.settled(&mut switch), Ok(()));
    assert_eq!(switch.wait_for(KEPT, 1), Err(WaitError::UnknownTicket));
}

#[test]
fn a_switch_whose_partners_were_stopped_is_local_and_kept_no_debt() {
    static WORD: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    unsafe extern "C" fn count(_: *mut c_void) -> u64 {
        WORD.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    }
    let options = Options { mechanism: Some(Mechanism::HandOff), ..Options::default() };
    let mut switch = Switch::open(&options);
    if switch.mechanism() != Mechanism::HandOff {
        return;
    }
    for _ in 0..5 {
        // SAFETY: the function reads nothing but its static word.
        let _outstanding = unsafe { switch.submit(count, argument(0)) }.unwrap();
    }
    switch.stop();
    assert_eq!(
        WORD.load(std::sync::atomic::Ordering::SeqCst),
        5,
        "outstanding calls are carried out"
    );
    assert_eq!((switch.mechanism(), switch.lines.len()), (Mechanism::Local, 0));
    // SAFETY: as above.
    assert_eq!(unsafe { switch.call(twice, argument(4)) }, 8);
    assert_eq!(switch.counts().local, 1);
    switch.try_start(Mechanism::HandOff, 0, &options).unwrap();
    assert_eq!((switch.mechanism(), switch.lines.len()), (Mechanism::HandOff, 1));
    // Another start replaces the partners.
    switch.start(Mechanism::HandOff, 0, &options);
    assert_eq!(switch.lines.len(), 1);
    switch.start(Mechanism::Local, 0, &options);
    assert_eq!((switch.mechanism(), switch.lines.len()), (Mechanism::Local, 0));
}

#[test]
fn no_core_to_switch_to_is_one_core_and_a_core_that_is_missing_is_named() {
    let one = Options {
        os_cores: CoreSet::of(&[crate::policy::MOST_CORES - 1]),
        mechanism: Some(Mechanism::HandOff),
        ..Options::default()
    };
    let switch = Switch::open(&one);
    assert_eq!((switch.mechanism(), switch.os_cores()), (Mechanism::Local, CoreSet::EMPTY));
    let [Fallback::Core { core: 1023, .. }] = switch.fallbacks() else {
        panic!("{:?}", switch.fallbacks())
    };
    assert!(
        switch.fallbacks()[0].to_string().starts_with("core 1023 cannot be used ("),
        "{}",
        switch.fallbacks()[0]
    );
}

#[test]
fn what_went_wrong_is_told_with_what_to_do() {
    let error = || std::io::Error::from_raw_os_error(libc::EPERM);
    let of = "Operation not permitted (os error 1)";
    for (text, expected) in [
        (Full.to_string(), "64 calls are outstanding: wait for the oldest of them".to_owned()),
        (
            WaitError::UnknownTicket.to_string(),
            "no call is outstanding under this ticket: wait once, on the switch that gave it"
                .to_owned(),
        ),
        (
            WaitError::Forked.to_string(),
            "the process was forked while the call ran: the call's result goes to the parent process, so wait in the parent"
                .to_owned(),
        ),
        (
            Fallback::OneCore.to_string(),
            "only one core is usable, so calls run on that core: allow a second core (taskset, cpuset)"
                .to_owned(),
        ),
        (
            Fallback::Core { core: 7, error: error() }.to_string(),
            format!(
                "core 7 cannot be used ({of}): name a core that is online and in this process's cpuset"
            ),
        ),
        (
            Fallback::TooMany { core: 65 }.to_string(),
            "core 65 and higher cores are ignored: name at most 64 OS cores".to_owned(),
        ),
        (
            Fallback::Ring(error()).to_string(),
            format!(
                "v2 instead of v3, as io_uring has no futexes here ({of}): Linux 6.7 has them; look at \
                 kernel.io_uring_disabled and seccomp"
            ),
        ),
        (
            Fallback::Resources(error()).to_string(),
            format!("calls run on the caller's core, without a partner ({of})"),
        ),
    ] {
        assert_eq!(text, expected);
    }
}

#[test]
fn a_thread_that_moves_itself_goes_there_and_returns_with_its_cores() {
    unsafe extern "C" fn core(_: *mut c_void) -> u64 {
        sys::current_core().map_or(u64::MAX, |core| core as u64)
    }
    let before = sys::affinity().unwrap();
    let options = Options { mechanism: Some(Mechanism::Affinity), ..Options::default() };
    let mut switch = Switch::open(&options);
    if before.len() < 2 {
        return;
    }
    let os = switch.os_cores();
    assert_eq!((switch.mechanism(), os.len()), (Mechanism::Affinity, 1));
    // SAFETY: the function reads nothing.
    let there = unsafe { switch.call_on(&os, Flags::AFFINITY, core, argument(0)) };
    assert_eq!(os.iter().next(), Some(there as usize));
    assert_eq!(sys::affinity().unwrap(), before);
    // Of no core: the call stays here.
    let moved = switch.counts();
    // SAFETY: as above.
    unsafe { switch.call_on(&CoreSet::EMPTY, Flags::AFFINITY, core, argument(0)) };
    assert_eq!(switch.counts(), CallPlaceCounts { local: moved.local + 1, ..moved });
}
