// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with two threads whose ratio was computed by hand, and properties that hold for any two
//! threads.

use proptest::prelude::*;

use super::*;
use corehop_plan::host::Evidence;

const ACROSS: (Placing, Placing) = (Placing::Shared, Placing::Separate);
const ONE_CPU: (Placing, Placing) = (Placing::Same, Placing::Shared);

fn lines(near: f64, far: f64) -> SharingContext {
    let lines = LineTimes { shared_cache_ns: Some(near), separate_ns: Some(far) };
    SharingContext { lines, capacity: None }
}

/// Makes two threads that are both busy for a window of 1 ms.
fn busy(
    counted: impl Into<Option<InstructionCounts>>,
    handed_over: Option<f64>,
) -> ThreadPairWindow {
    ThreadPairWindow {
        span_ns: 1_000_000,
        busy_ns: [1_000_000; 2],
        counted: counted.into(),
        handed_over,
        working_sets: None,
    }
}

const fn counted(from_caches: u64) -> InstructionCounts {
    InstructionCounts { instructions: 2_000_000, misses: from_caches, from_caches }
}

#[test]
fn counted_lines_give_a_ratio_and_those_that_were_seen_in_samples_a_bound() {
    // 10,000 lines of 100 ns are half of two times 1 ms; from 40 ns away they take a fifth of it.
    let by_counts = ratio(&busy(counted(10_000), None), ACROSS, &lines(40.0, 100.0), None).unwrap();
    assert!((by_counts.ratio.unwrap() - 0.7).abs() < 1e-12, "{by_counts:?}");
    assert_eq!(by_counts.by, Some(Form::Physical));
    let seen = ratio(&busy(None, Some(10_000.0)), ACROSS, &lines(40.0, 100.0), None).unwrap();
    assert_eq!((seen.ratio, seen.low), (None, None), "more may be handed over than was seen");
    assert!((seen.gain() - 0.3).abs() < 1e-12, "{seen:?}");
}

#[test]
fn two_busy_threads_take_turns_on_one_cpu_unless_their_time_is_the_transfer_of_lines() {
    let at = |from_caches| {
        let it = ratio(&busy(counted(from_caches), None), ONE_CPU, &lines(100.0, 200.0), None);
        it.unwrap().ratio.unwrap()
    };
    assert!((at(0) - 2.0).abs() < 1e-12);
    assert!((at(10_000) - 1.0).abs() < 1e-12, "half of the time is transfers");
    assert!((at(18_000) - 0.2).abs() < 1e-12);
    // Without any evidence it is known how bad it can become, and no more.
    let blind = ratio(&busy(None, None), ONE_CPU, &lines(100.0, 200.0), None).unwrap();
    assert_eq!((blind.ratio, blind.low, blind.high), (None, None, Some(2.0)));
    assert!(blind.gain().abs() < 1e-12 && !blind.hurts());
}

#[test]
fn threads_that_wait_for_something_else_may_not_get_on_faster() {
    let half = ThreadPairWindow { busy_ns: [250_000; 2], ..busy(counted(1_000), None) };
    let it = ratio(&half, ONE_CPU, &lines(100.0, 200.0), None).unwrap();
    assert!((it.ratio.unwrap() - 0.8).abs() < 1e-12, "{it:?}");
    assert!(it.gain().abs() < 1e-12, "{it:?}");
}

#[test]
fn without_line_times_the_equation_of_another_machine_answers_without_an_interval() {
    let it = ratio(&busy(counted(20_000), None), ACROSS, &SharingContext::default(), None).unwrap();
    assert_eq!((it.by, it.low, it.high), (Some(Form::Saturating), None, None));
    assert_eq!(ratio(&busy(None, None), ACROSS, &SharingContext::default(), None), None);
    assert_eq!(
        ratio(&busy(counted(1), None), (Placing::Shared, Placing::Same), &lines(1.0, 2.0), None),
        None
    );
}

#[test]
fn a_pair_has_the_rate_of_the_source_that_saw_most() {
    let thread = |tid, busy_ns| ActiveThread { tid, busy_ns, ..ActiveThread::default() };
    let shared = |by, per_second| DataSharing { a: 4, b: 9, by, seen: 1, per_second };
    let sources = [shared(Evidence::Pages, 100.0), shared(Evidence::Locks, 3_000.0)];
    let pair = ThreadPairWindow::of(&thread(9, 7), &thread(4, 5), 100_000_000, &sources);
    assert_eq!((pair.busy_ns, pair.counted), ([7, 5], None));
    assert!((pair.handed_over.unwrap() - 300.0).abs() < 1e-9);
}

proptest! {
    #[test]
    fn more_sharing_never_predicts_less_gain(
        from_caches in 0_u64..30_000, more in 0_u64..30_000, near in 1.0..200.0_f64, further in 0.0..200.0_f64,
    ) {
        for sides in [ACROSS, ONE_CPU] {
            let at = |lines_seen| {
                let it = ratio(&busy(counted(lines_seen), None), sides, &lines(near, near + further), None);
                it.unwrap().ratio.unwrap()
            };
            prop_assert!(at(from_caches + more) <= at(from_caches) + 1e-12);
        }
    }

    #[test]
    fn equal_line_times_predict_no_gain(from_caches in 0_u64..30_000, ns in 1.0..200.0_f64) {
        let it = ratio(&busy(counted(from_caches), None), ACROSS, &lines(ns, ns), None).unwrap();
        prop_assert!((it.ratio.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn data_that_no_longer_fit_predict_harm(set in 1_u64..1_000_000, over in 1_u64..1_000_000) {
        let sets = WorkingSetPair { each: [set; 2], common: 0 };
        let pair = ThreadPairWindow { working_sets: Some(sets), ..busy(counted(0), None) };
        // Each fits alone, both together do not.
        let capacity = (2 * set).saturating_sub(over).max(set);
        prop_assume!(capacity < 2 * set);
        let around = SharingContext { capacity: Some(capacity), ..lines(40.0, 100.0) };
        let it = ratio(&pair, ACROSS, &around, None).unwrap();
        prop_assert!(it.hurts() && it.gain() == 0.0 && it.ratio.is_none(), "{:?}", it);
        // What both have in common fits once.
        let common = ThreadPairWindow { working_sets: Some(WorkingSetPair { common: set, ..sets }), ..pair };
        prop_assert!(ratio(&common, ACROSS, &around, None).unwrap().ratio.is_some());
    }
}
