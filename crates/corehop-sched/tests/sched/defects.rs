// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the best-known toolkit of the field (its version of September 2020), asked of these tests.

use corehop_sched::System;
use corehop_sched::Time;
use corehop_sched::{TaskSet, TestAnswer, Verdict, test};

use crate::draw::{accepts, implicit, set, verdict};

fn answer(name: &str, set: &TaskSet) -> TestAnswer {
    test(name).unwrap().run(System::of(set))
}

#[test]
fn bak_with_deadlines_beyond_periods_is_sound() {
    // Its Python form lets beta go negative, accepts this, and its own simulator finds a miss.
    let tasks = [
        (2, 7, 4),
        (3, 23, 32),
        (2, 8, 15),
        (1, 14, 3),
        (6, 13, 22),
        (1, 20, 3),
        (4, 13, 4),
        (6, 28, 45),
    ];
    assert_eq!(verdict("bak", &set(3, &tasks)), Verdict::Unknown);
    assert_eq!(verdict("g-edf", &set(3, &tasks)), Verdict::Unknown);
}

#[test]
fn edf_response_times_are_exact_with_equal_deadlines_too() {
    // It answers [1, 6, 2] and [3, 5, 1].
    let bounds = |tasks: &[(u64, u64)]| answer("edf-rta", &implicit(1, tasks)).bounds.unwrap();
    assert_eq!(bounds(&[(1, 4), (3, 12), (1, 12)]), [1, 6, 6].map(Time::new));
    assert_eq!(bounds(&[(1, 5), (1, 8), (1, 2)]), [2, 4, 1].map(Time::new));
}

#[test]
fn edf_response_times_of_a_full_cpu_are_found() {
    // It loops for ever.
    assert_eq!(answer("edf-rta", &implicit(1, &[(7, 7)])).bounds.unwrap(), [7].map(Time::new));
    assert!(accepts("edf-rta", &implicit(1, &[(1, 2), (1, 2)])));
}

#[test]
fn global_fixed_priorities_cap_what_a_task_can_interfere() {
    // Without the cap the bound is 14, and 2 to 3 % of random sets are refused for nothing.
    let set = implicit(3, &[(1, 4), (1, 5), (3, 9), (9, 18)]);
    assert_eq!(answer("g-fp-bertogna-plain", &set).bounds.unwrap()[3], Time::new(13));
    // With slacks, which the paper has as well, 13 without the cap.
    assert_eq!(answer("g-fp-bertogna", &set).bounds.unwrap()[3], Time::new(12));
}

#[test]
fn qpa_answers_of_an_infeasible_set() {
    // A search that is built on it aborts the whole process there.
    assert_eq!(verdict("qpa", &set(1, &[(5, 9, 5), (5, 9, 6)])), Verdict::Unschedulable);
    assert_eq!(verdict("qpa", &set(1, &[(5, 9, 4)])), Verdict::Unschedulable);
}

#[test]
fn bar_answers_the_same_on_every_machine() {
    // It gives up after 5 s of CPU and says "not schedulable". Here a utilisation close to m makes
    // the horizon long, and what is not known is called unknown.
    let long = implicit(2, &[(999_999, 1_000_000), (999_983, 999_999), (1, 1_000_003)]);
    let first = verdict("bar", &long);
    assert_ne!(first, Verdict::Unschedulable);
    assert_eq!(verdict("bar", &long), first);
}

#[test]
fn load_is_answered_and_deadline_that_equals_blocking_divides_nothing() {
    // Undefined behaviour there; a division by zero where a deadline equals a release latency.
    assert!(accepts("load", &implicit(2, &[(1, 2), (1, 4)])));
    assert_eq!(verdict("gfb", &set(2, &[(1, 9, 1), (1, 9, 1), (1, 9, 1)])), Verdict::Unknown);
}

#[test]
fn rta_jumps_over_what_it_need_not_look_at() {
    // Walking 1 us at a time, this would take some 10^11 steps.
    let big = 1_u64 << 38;
    let tasks = [(big, 4 * big), (big + 1, 4 * big), (big + 2, 4 * big), (big + 3, 4 * big)];
    let bounds = answer("rta", &implicit(2, &tasks)).bounds.unwrap();
    assert!(bounds.iter().all(|&bound| bound <= Time::new(4 * big)), "{bounds:?}");
}

#[test]
fn a_negative_x_of_a_compliant_vector_stays_negative() {
    // Its C++ form takes the magnitude and answers [6, 33].
    let set = set(2, &[(2, 14, 13), (16, 25, 27)]);
    assert_eq!(answer("cva", &set).bounds.unwrap(), [6, 27].map(Time::new));
}

#[test]
fn a_platform_that_is_full_to_the_last_unit_is_not_refused() {
    // It sums floats: U = 3 exactly, and is called more.
    let tasks = [(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)];
    for name in ["soft-g-edf", "devi-anderson", "cva", "g-fl"] {
        assert_eq!(verdict(name, &implicit(3, &tasks)), Verdict::Schedulable, "{name}");
    }
    let more = [(5, 7), (7, 8), (15, 18), (4, 12), (42, 168)];
    assert_eq!(verdict("soft-g-edf", &implicit(3, &more)), Verdict::Unschedulable);
    // So do its packers: ten tenths are one CPU, in any order.
    let tenths = [(1, 10), (2, 10), (7, 10)];
    for name in ["p-edf-ff", "p-edf-ffd", "p-edf-bfd", "p-edf-wf", "p-edf-nf"] {
        assert!(accepts(name, &implicit(1, &tenths)), "{name}");
    }
}

#[test]
fn splitting_beside_what_already_fails_is_answered() {
    // An assertion ends the whole interpreter there.
    assert_eq!(verdict("sp-edf-c=d", &set(2, &[(5, 9, 4), (5, 9, 9)])), Verdict::Unknown);
    assert!(accepts("sp-edf-c=d", &implicit(2, &[(6, 10), (6, 10), (6, 10)])));
}
