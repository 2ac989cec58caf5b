// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the hand-off step by step, with both sides on one thread.

use super::*;

fn call(function: usize) -> PostedCall {
    PostedCall { function, argument: core::ptr::null_mut() }
}

/// The number of the function in the next taken call.
fn taken<const N: usize>(calls: &mut LaneConsumer<'_, N>) -> Option<usize> {
    calls.take().map(|(_, call)| call.function)
}

#[test]
fn a_light_claim_announces_and_decides_nothing_and_a_strict_one_decides() {
    for (claiming, announced, decided) in [(Claiming::Light, 1, 0), (Claiming::Strict, 0, 7)] {
        let lane = Lane::<2>::new();
        let slot = lane.express(1);
        assert_eq!(slot.take(claiming), LaneDecision::Nothing);
        slot.post(call(5));
        assert_eq!(slot.take(claiming), LaneDecision::Run(call(5)));
        let claim = &lane.express_claim.0;
        assert_eq!(claim.announced.load(Ordering::Relaxed), announced, "{claiming:?}");
        // Four times the number of the call, and 3: it runs.
        assert_eq!(claim.decided.load(Ordering::Relaxed), decided, "{claiming:?}");
    }
}

#[test]
fn a_call_is_of_the_side_that_claims_it_first() {
    for claiming in [Claiming::Light, Claiming::Strict] {
        let lane = Lane::<2>::new();
        let first = lane.ring(1);
        first.post(call(5));
        assert!(first.take_back(|| true), "{claiming:?}");
        assert_eq!(first.take(claiming), LaneDecision::TakenBack, "{claiming:?}");
        assert_eq!(first.call(), call(5));
        let second = lane.ring(2);
        second.post(call(6));
        assert_eq!(second.take(claiming), LaneDecision::Run(call(6)), "{claiming:?}");
        assert!(!second.take_back(|| true), "{claiming:?}");
    }
}

#[test]
fn a_wish_without_a_barrier_takes_nothing_back_and_the_partner_runs_the_call() {
    for claiming in [Claiming::Light, Claiming::Strict] {
        let lane = Lane::<2>::new();
        let slot = lane.express(1);
        slot.post(call(5));
        assert!(!slot.take_back(|| false));
        assert_eq!(slot.take(claiming), LaneDecision::Run(call(5)), "{claiming:?}");
        assert!(!slot.take_back(|| true), "{claiming:?}");
    }
}

#[test]
fn a_decision_about_a_call_is_none_about_the_next_in_its_slot() {
    let lane = Lane::<2>::new();
    lane.ring(1).post(call(5));
    assert!(lane.ring(1).take_back(|| true));
    // Two slots: the third call has that of the first.
    lane.ring(3).post(call(7));
    assert_eq!(lane.ring(3).take(Claiming::Light), LaneDecision::Run(call(7)));
    assert_eq!(lane.ring(2).take(Claiming::Light), LaneDecision::Nothing);
}

#[test]
fn a_result_is_there_for_its_own_number_alone() {
    let lane = Lane::<2>::new();
    assert_eq!(lane.ring(1).result(), None);
    lane.ring(1).reply(40);
    assert_eq!((lane.ring(1).result(), lane.ring(3).result()), (Some(40), None));
    assert_eq!((lane.ring(2).result(), lane.express(1).result()), (None, None));
    lane.ring(3).reply(41);
    assert_eq!((lane.ring(1).result(), lane.ring(3).result()), (None, Some(41)));
    assert_eq!(lane.slot(LanePosition::Ring(3)).result(), Some(41));
    lane.express(1).reply(42);
    assert_eq!(lane.slot(LanePosition::Express(1)).result(), Some(42));
}

#[test]
fn an_express_call_goes_first_the_ring_in_turn_and_what_was_taken_back_is_passed_over() {
    let lane = Lane::<4>::new();
    let mut calls = LaneConsumer::new(&lane, Claiming::Light);
    assert!(!calls.posted() && !calls.news() && taken(&mut calls).is_none());
    for number in 1..=3 {
        lane.ring(number).post(call(10 + number as usize));
    }
    lane.express(1).post(call(20));
    assert!(lane.ring(2).take_back(|| true));
    let order: Vec<usize> = std::iter::from_fn(|| taken(&mut calls)).collect();
    assert_eq!(order, [20, 11, 13]);
    lane.express(2).post(call(21));
    assert!(calls.posted());
    assert_eq!(taken(&mut calls), Some(21));
}

#[test]
fn an_express_call_that_was_taken_back_keeps_no_other_from_its_turn() {
    let lane = Lane::<4>::new();
    let mut calls = LaneConsumer::new(&lane, Claiming::Strict);
    lane.express(1).post(call(20));
    assert!(lane.express(1).take_back(|| true));
    lane.ring(1).post(call(11));
    assert_eq!((taken(&mut calls), taken(&mut calls)), (Some(11), None));
}

#[test]
fn a_closing_lane_is_news_without_a_call_and_wakes_only_a_partner_that_sleeps() {
    let lane = Lane::<2>::new();
    let calls = LaneConsumer::new(&lane, Claiming::Light);
    assert!(!lane.closing());
    assert!(!lane.close(), "no thread sleeps");
    assert!(lane.closing() && calls.news() && !calls.posted());
    assert!(!calls.glance(1) && !calls.glance(3));
    let asleep = Lane::<2>::new();
    assert!(asleep.partner.0.lie_down(|| false));
    assert!(asleep.close());
}

#[test]
fn a_doorbell_wakes_a_sleeper_once_and_none_lies_down_over_news() {
    let bell = Doorbell::new();
    assert!(!bell.ring() && !bell.sleeps());
    assert!(!bell.lie_down(|| true));
    assert!(!bell.sleeps() && !bell.ring());
    assert!(bell.lie_down(|| false));
    assert!(bell.sleeps());
    assert_eq!(bell.word().load(Ordering::Relaxed), ASLEEP);
    assert_eq!([bell.ring(), bell.ring()], [true, false]);
    assert!(bell.lie_down(|| false));
    bell.get_up();
    assert!(!bell.sleeps() && !bell.ring());
}

#[test]
fn a_room_keeps_its_words() {
    let lane = Lane::<2>::new();
    // SAFETY: the words are the test's, and are written before they are read.
    lane.room().open(|words| unsafe { words.cast::<[u64; ROOM]>().write([1, 2, 3]) });
    // SAFETY: as above.
    let words = lane.room().open(|words| unsafe { words.cast::<[u64; ROOM]>().read() });
    assert_eq!(words, [1, 2, 3]);
}
