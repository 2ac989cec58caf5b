// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on a machine solved by hand: the cost of a preemption by its length, and the wait from which a move costs
//! less.

use super::*;
use proptest::prelude::*;

fn cost(low: f64, estimate_us: f64, high: f64) -> CostEstimate {
    CostEstimate { estimate_us, low_us: Some(low), high_us: Some(high) }
}

fn exactly(us: f64) -> CostEstimate {
    cost(us, us, us)
}

/// Preemptions of 100 us cost 10 us, and preemptions of 200 us cost 30 us.
fn curve() -> StayCurve {
    StayCurve(vec![(100.0, exactly(10.0)), (200.0, exactly(30.0))])
}

#[test]
fn between_two_measured_lengths_the_wait_and_its_cost_reach_that_of_the_move() {
    // After 150 us a preemption costs 20 us: 170 us in all.
    assert_eq!(curve().pays_from(&exactly(170.0)), exactly(150.0));
    assert_eq!(curve().origin(150.0), WaitOrigin::Measured);
    // At a measured length: 100 and 10.
    assert_eq!(curve().pays_from(&exactly(110.0)), exactly(100.0));
    assert_eq!(curve().at(150.0), exactly(20.0));
    assert_eq!(curve().at(200.0), exactly(30.0));
}

#[test]
fn the_ends_of_the_wait_come_from_the_opposite_ends_of_the_costs() {
    let curve = StayCurve(vec![(100.0, cost(5.0, 10.0, 20.0)), (200.0, cost(5.0, 10.0, 20.0))]);
    // 130 + 20 is 150, 160 + 10 is 170, and 185 + 5 is 190.
    assert_eq!(curve.pays_from(&cost(150.0, 170.0, 190.0)), cost(130.0, 160.0, 185.0));
}

#[test]
fn below_the_shortest_length_the_cost_lies_between_nothing_and_that_of_the_shortest() {
    // The estimate grows with the wait: after 50 us it is 5 us.
    assert_eq!(curve().pays_from(&exactly(55.0)), cost(45.0, 50.0, 55.0));
    assert_eq!(curve().origin(50.0), WaitOrigin::BelowAll { shortest_us: 100.0 });
    assert_eq!(curve().at(50.0), cost(0.0, 5.0, 10.0));
    // Where nothing tells whether the lines are gone, the end of the interval is the shortest length itself.
    assert_eq!(curve().pays_from(&exactly(105.0)).high_us, Some(100.0));
}

#[test]
fn beyond_the_longest_length_nothing_bounds_the_cost_from_above() {
    // At 200 us staying costs 230 us; if longer preemptions cost as much, 470 us do for 500 us.
    assert_eq!(curve().pays_from(&exactly(500.0)), cost(200.0, 470.0, 470.0));
    assert_eq!(curve().origin(470.0), WaitOrigin::BeyondAll { longest_us: 200.0 });
    let beyond = curve().at(470.0);
    assert_eq!((beyond.low_us, beyond.high_us), (Some(30.0), None));
}

#[test]
fn a_move_that_costs_nothing_pays_from_any_wait_on() {
    assert_eq!(curve().pays_from(&exactly(0.0)), exactly(0.0));
    assert_eq!(curve().pays_from(&exactly(-3.0)), exactly(0.0));
    // Of equal costs, of which a preemption's is there at once.
    let at_once = StayCurve(vec![(0.0, exactly(10.0)), (100.0, exactly(10.0))]);
    assert_eq!(at_once.pays_from(&exactly(10.0)), exactly(0.0));
    assert_eq!(at_once.at(0.0), exactly(10.0));
}

#[test]
fn a_move_without_an_interval_has_an_estimate_and_no_decision() {
    let vague = CostEstimate { estimate_us: 170.0, low_us: None, high_us: None };
    let wait = curve().pays_from(&vague);
    assert_eq!((wait.estimate_us, wait.low_us, wait.high_us), (150.0, None, None));
}

#[test]
fn where_a_preemption_has_no_interval_the_wait_alone_decides_and_its_neighbours_bound_it() {
    let vague = |us| CostEstimate { estimate_us: us, low_us: None, high_us: None };
    // Who waits for as long as the move takes has lost, whatever the caches cost.
    let alone = StayCurve(vec![(100.0, vague(10.0))]);
    assert_eq!(alone.pays_from(&exactly(55.0)), cost(0.0, 50.0, 55.0));
    // At 200 us no less than the 10 us of 100 us, and no more than the 30 us of 300 us.
    let between = vec![(100.0, exactly(10.0)), (200.0, vague(20.0)), (300.0, exactly(30.0))];
    let wait = StayCurve(between).pays_from(&exactly(220.0));
    // The two ends grow by 0.2 of the wait, from 110 us at 100 us and from 210 us at 200 us.
    assert!(near(wait, [100.0 + 110.0 / 1.2, 200.0, 200.0 + 10.0 / 1.2]), "{wait:?}");
}

fn near(wait: CostEstimate, us: [f64; 3]) -> bool {
    let ends = [wait.low_us.unwrap(), wait.estimate_us, wait.high_us.unwrap()];
    ends.iter().zip(us).all(|(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn costs_that_fall_with_the_length_leave_the_last_wait_at_which_the_move_does_not_pay() {
    let falling = StayCurve(vec![(100.0, exactly(90.0)), (140.0, exactly(20.0))]);
    // Staying costs 190 us at 100 us, only 160 at 140 us, and 175 again at 155 us.
    let wait = falling.pays_from(&exactly(175.0));
    assert_eq!((Some(wait.estimate_us), wait.high_us), (Some(155.0), Some(155.0)));
    assert!(wait.low_us.unwrap() <= 100.0, "{wait:?}");
}

fn advised(event: Event, us: f64, low: Option<f64>, high: Option<f64>) -> AdvisedMove {
    let pays_from = CostEstimate { estimate_us: us, low_us: low, high_us: high };
    let (n, replicates, known_by) = (9, Some(9), WaitOrigin::Measured);
    let (length_us, at_most) = (0.0, false);
    let cost = exactly(us);
    AdvisedMove { event, cost, length_us, at_most, n, replicates, pays_from, known_by }
}

#[test]
fn within_the_interval_the_advice_is_unknown_and_of_two_moves_that_pay_the_first_to_pay_is_taken() {
    let moves = [
        advised(Event::L3Migration, 10.0, Some(8.0), Some(12.0)),
        advised(Event::MemoryMigration, 50.0, Some(40.0), Some(60.0)),
    ];
    let of = |wait| verdict(&moves, wait);
    assert_eq!(
        [7.0, 8.0, 11.9].map(of),
        [Preference::Stay, Preference::Unknown, Preference::Unknown]
    );
    assert_eq!([12.0, 100.0].map(of), [Preference::Move(Event::L3Migration); 2]);
    let vague = [advised(Event::L3Migration, 10.0, None, None)];
    assert_eq!([0.1, 1e6].map(|wait| verdict(&vague, wait)), [Preference::Unknown; 2]);
}

#[test]
fn a_length_to_measure_has_one_digit_and_is_one_that_a_timer_makes() {
    assert_eq!([0.3, 14.0, 57.3, 4_020.0].map(one_digit), ["10us", "10us", "50us", "4ms"]);
}

/// Curves whose costs and intervals grow with the length.
fn curves() -> impl Strategy<Value = StayCurve> {
    let step = (1_u16..500, 0_u16..80, 0_u16..20);
    prop::collection::vec(step, 1..6).prop_map(|steps| {
        let (mut length, mut us) = (0.0, 0.0);
        let points = steps.into_iter().map(|(further, more, wide)| {
            length += f64::from(further);
            us += f64::from(more);
            (length, cost(us, us + f64::from(wide) / 2.0, us + f64::from(wide)))
        });
        let mut points: Vec<(f64, CostEstimate)> = points.collect();
        // Intervals that do not fall, as the model has them.
        for at in 1..points.len() {
            let before = points[at - 1].1;
            let it = &mut points[at].1;
            it.estimate_us = it.estimate_us.max(before.estimate_us);
            it.high_us = it.high_us.zip(before.high_us).map(|(its, high)| its.max(high));
        }
        StayCurve(points)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The slow check steps from wait to wait, and compares both sides.
    #[test]
    fn the_ends_are_where_the_two_intervals_meet(curve in curves(), low in 0_u16..900, wide in 0_u16..50) {
        let moved = cost(f64::from(low), f64::from(low) + f64::from(wide) / 2.0, f64::from(low + wide));
        let pays = curve.pays_from(&moved);
        let (from, to) = (pays.low_us.unwrap(), pays.high_us.unwrap());
        prop_assert!(from <= pays.estimate_us + 1e-9 && pays.estimate_us <= to + 1e-9, "{pays:?}");
        for step in 0..2_000_u32 {
            let wait = f64::from(step) / 2.0 + 0.25;
            let stay = curve.at(wait);
            let dearer = wait + stay.low_us.unwrap() >= moved.high_us.unwrap();
            let cheaper = stay.high_us.is_some_and(|high| wait + high < moved.low_us.unwrap());
            prop_assert_eq!(dearer, wait >= to - 1e-9, "{} {:?}", wait, pays);
            prop_assert_eq!(cheaper, wait < from - 1e-9, "{} {:?}", wait, pays);
        }
    }

    #[test]
    fn a_dearer_move_pays_later_and_a_dearer_preemption_makes_it_pay_sooner(
        curve in curves(), us in 0_u16..900, more in 1_u16..50,
    ) {
        let (us, more) = (f64::from(us), f64::from(more));
        let wait = |curve: &StayCurve, us: f64| curve.pays_from(&exactly(us));
        let (near, far) = (wait(&curve, us), wait(&curve, us + more));
        prop_assert!(near.estimate_us <= far.estimate_us && near.low_us <= far.low_us);
        prop_assert!(near.high_us <= far.high_us);
        let add = |end: Option<f64>| end.map(|end| end + more);
        let dearer = curve.0.iter().map(|(length, it)| {
            let dearer = CostEstimate {
                estimate_us: it.estimate_us + more,
                low_us: add(it.low_us),
                high_us: add(it.high_us),
            };
            (*length, dearer)
        });
        let sooner = wait(&StayCurve(dearer.collect()), us);
        prop_assert!(sooner.estimate_us <= near.estimate_us + 1e-9 && sooner.low_us <= near.low_us);
        prop_assert!(sooner.high_us <= near.high_us);
    }
}
