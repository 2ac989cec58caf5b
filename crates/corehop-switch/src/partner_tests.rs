// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a partner that runs without a separate thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::lane::Claiming;

fn partner<'a>(
    lane: &'a Lane<SLOTS>,
    witness: &'a ForkSentinel,
    mechanism: Mechanism,
    leash: Option<&'static Leash>,
) -> Partner<'a> {
    let calls = LaneConsumer::new(lane, Claiming::Light);
    let budget = SpinBudget::new(0);
    Partner { lane, calls, mechanism, budget, limit: 0, exchanger: None, leash, witness }
}

unsafe extern "C" fn number(argument: *mut c_void) -> u64 {
    argument as u64 + 1
}

fn call(argument: usize) -> PostedCall {
    PostedCall {
        function: number as *const () as usize,
        argument: std::ptr::without_provenance_mut(argument),
    }
}

#[test]
fn what_was_posted_before_the_end_is_carried_out_and_then_it_ends() {
    let witness = ForkSentinel::new().unwrap();
    for mechanism in [Mechanism::HandOff, Mechanism::Polling, Mechanism::Adaptive] {
        let lane = Lane::new();
        lane.express(1).post(call(7));
        lane.ring(1).post(call(8));
        lane.ring(2).post(call(9));
        let _wake = lane.close();
        partner(&lane, &witness, mechanism, None).serve();
        assert_eq!(lane.express(1).result(), Some(8), "{mechanism}");
        assert_eq!([1, 2].map(|at| lane.ring(at).result()), [Some(9), Some(10)], "{mechanism}");
    }
}

#[test]
fn news_is_a_call_or_the_end_of_the_lane() {
    let witness = ForkSentinel::new().unwrap();
    let lane = Lane::new();
    let partner = partner(&lane, &witness, Mechanism::HandOff, None);
    assert!(!partner.news() && !partner.ends() && !partner.is_pulled());
    assert!(!partner.spin(0, sys::now()));
    lane.ring(1).post(call(1));
    assert!(partner.news() && !partner.ends());
    assert!(partner.spin(0, 0), "a call that is there needs no time");
    let closing = Lane::<SLOTS>::new();
    let _wake = closing.close();
    let partner = super::tests::partner(&closing, &witness, Mechanism::HandOff, None);
    assert!(partner.news() && partner.ends() && partner.spin(u64::MAX, sys::now()));
}

#[test]
fn a_caller_that_sleeps_is_woken_also_where_the_next_call_is_there_already() {
    let witness = ForkSentinel::new().unwrap();
    let lane = Arc::new(Lane::<SLOTS>::new());
    lane.ring(1).post(call(1));
    assert!(lane.caller.0.lie_down(|| false));
    let woken = Arc::new(AtomicU32::new(0));
    let sleeper = std::thread::spawn({
        let (lane, woken) = (Arc::clone(&lane), Arc::clone(&woken));
        move || {
            sys::futex_wait(lane.caller.0.word(), ASLEEP, 20_000_000_000);
            woken.store(1, Ordering::Release);
        }
    });
    let mut partner = partner(&lane, &witness, Mechanism::HandOff, None);
    let deadline = sys::now() + 10_000_000_000;
    while woken.load(Ordering::Acquire) == 0 && sys::now() < deadline {
        partner.idle(true);
        sys::pause(100_000);
    }
    assert_eq!(woken.load(Ordering::Acquire), 1);
    sleeper.join().unwrap();
}
