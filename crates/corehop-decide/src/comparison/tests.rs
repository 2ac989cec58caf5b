// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of comparisons between quantities with known differences.

use super::*;
use corehop_plan::samples::example::sample;

const MARGIN: EquivalenceMargin = EquivalenceMargin { share: 0.05, least_us: Some(0.5) };

const USUAL: [FailOn; 2] = [FailOn::Slower, FailOn::Unknown];
const GATE: [FailOn; 1] = [FailOn::Slower];

/// `n` delays that spread by `spread` around `us`, in an order without a trend.
fn delays(us: f64, spread: f64, n: u64, kib: u64) -> Quantities {
    drawn(us, spread, n, kib, 37)
}

/// `n` delays that spread by `spread` around `us`, in an order determined by `step`.
fn drawn(us: f64, spread: f64, n: u64, kib: u64, step: u64) -> Quantities {
    let of = |k: u64| {
        let place = (k * step % n) as f64 / n as f64 - 0.5;
        let resumed_ns = 1e3 * (1.0 + us + spread * place);
        let replicate = Some(k);
        Sample { warm_ns: 1e3, resumed_ns, wss_bytes: kib << 10, replicate, ..sample() }
    };
    let mut delays = Quantities::new(Estimator::Difference);
    delays.take(&(0..n).map(of).collect::<Vec<_>>());
    delays
}

fn outcome_of(a: &Quantities, b: &Quantities) -> CostChange {
    compare(a, b, MARGIN, 0.05).unwrap().cells[0].decided.outcome
}

#[test]
fn a_difference_beyond_the_margin_is_told_with_its_sign() {
    let (slow, quick) = (delays(20.0, 2.0, 101, 64), delays(10.0, 2.0, 101, 64));
    assert_eq!(outcome_of(&quick, &slow), CostChange::Slower);
    assert_eq!(outcome_of(&slow, &quick), CostChange::Faster);
    let comparison = compare(&quick, &slow, MARGIN, 0.05).unwrap();
    assert!((comparison.cells[0].difference_us - 10.0).abs() < 0.1);
    assert_eq!(comparison.gate(&GATE), Gate::Fails);
    assert_eq!(compare(&slow, &quick, MARGIN, 0.05).unwrap().gate(&USUAL), Gate::Passes);
}

#[test]
fn equal_costs_are_equivalent_and_too_few_or_too_wide_samples_cannot_tell() {
    let (same, again) = (delays(20.0, 1.0, 101, 64), drawn(20.0, 1.0, 101, 64, 41));
    assert_eq!(outcome_of(&same, &again), CostChange::Equivalent);
    assert_eq!(outcome_of(&delays(20.0, 1.0, 3, 64), &same), CostChange::CannotTell);
    let wide = [delays(20.0, 80.0, 101, 64), drawn(20.0, 80.0, 101, 64, 41)];
    let comparison = compare(&wide[0], &wide[1], MARGIN, 0.05).unwrap();
    assert_eq!(comparison.cells[0].decided.outcome, CostChange::CannotTell);
    assert!(comparison.cells[0].detectable_us.unwrap() > comparison.cells[0].margin_us);
    assert_eq!(comparison.gate(&USUAL), Gate::Fails);
    assert_eq!(comparison.gate(&GATE), Gate::Passes);
}

#[test]
fn a_result_is_equal_to_itself_however_wide_or_few_its_samples_are() {
    for samples in [delays(20.0, 80.0, 101, 64), delays(20.0, 80.0, 3, 64)] {
        assert_eq!(outcome_of(&samples, &samples), CostChange::Equivalent);
    }
}

#[test]
fn with_as_many_replicates_as_it_says_equal_costs_are_told() {
    // By the golden ratio, of two beginnings.
    let golden = |n: u64, begin: u64| {
        let place = |k: u64| ((begin + k) * 2_654_435_769 % (1 << 32)) as f64 / 2f64.powi(32);
        let of = |k: u64| {
            let resumed_ns = 1e3 * (16.0 + 10.0 * place(k));
            Sample { warm_ns: 1e3, resumed_ns, replicate: Some(k), ..sample() }
        };
        let mut delays = Quantities::new(Estimator::Difference);
        delays.take(&(0..n).map(of).collect::<Vec<_>>());
        delays
    };
    let pair = |n| [golden(n, 1), golden(n, 5_000)];
    let few = pair(29);
    let cell = &compare(&few[0], &few[1], MARGIN, 0.05).unwrap().cells[0];
    let (needed, have) = (cell.replicates_needed.unwrap(), cell.replicates_a as u64);
    assert!(cell.decided.outcome == CostChange::CannotTell && needed > 3 * have, "{cell:?}");
    let many = pair(needed);
    let told = compare(&many[0], &many[1], MARGIN, 0.05).unwrap();
    assert_eq!(
        (told.cells[0].decided.outcome, told.least_certain().map(|it| it.1)),
        (CostChange::Equivalent, None)
    );
    // Three replicates have no interval; at 95 % six have one; at 99.95 % eight can fail.
    let three = compare(&golden(3, 1), &few[0], MARGIN, 0.05).unwrap();
    assert_eq!(three.least_certain().map(|it| it.1), Some(6));
    let three = compare(&golden(3, 1), &few[0], MARGIN, 0.0005).unwrap();
    assert_eq!(three.least_certain().map(|it| it.1), Some(8));
}

#[test]
fn a_gate_fails_on_what_it_is_told_to() {
    let (slow, quick) = (delays(20.0, 2.0, 101, 64), delays(10.0, 2.0, 101, 64));
    let faster = compare(&slow, &quick, MARGIN, 0.05).unwrap();
    assert_eq!(faster.gate(&[FailOn::Slower]), Gate::Passes);
    assert_eq!(faster.gate(&[FailOn::Different]), Gate::Fails);
    let slower = compare(&quick, &slow, MARGIN, 0.05).unwrap();
    assert_eq!(slower.gate(&[FailOn::Different]), Gate::Fails);
    assert_eq!(slower.gate(&[FailOn::Unknown]), Gate::Passes);
    let open = compare(&delays(20.0, 2.0, 3, 64), &slow, MARGIN, 0.05).unwrap();
    assert_eq!(open.gate(&[FailOn::Unknown]), Gate::Fails);
    // Three replicates could not have failed: their silence is no pass.
    assert_eq!(open.gate(&[FailOn::Different]), Gate::Mute);
    assert_eq!(open.mute().count(), 1);
}

/// Many cells; the last one is slower by this factor in the second result.
fn many_cells(cells: u64, replicates: u64, factor: f64) -> (Quantities, Quantities) {
    let mut draw = corehop_fixtures::designs::SeededSource::new(17);
    let mut run = |factor: f64| {
        let mut results = Quantities::new(Estimator::Difference);
        for kib in 1..=cells {
            let us = if kib == cells { 20.0 * factor } else { 20.0 };
            let mut of = |at| {
                let resumed_ns = 1e3 * (us + 0.3 * draw.normal());
                let replicate = Some(at);
                Sample { warm_ns: 0.0, resumed_ns, wss_bytes: kib << 10, replicate, ..sample() }
            };
            results.take(&(0..replicates).map(&mut of).collect::<Vec<_>>());
        }
        results
    };
    (run(1.0), run(factor))
}

#[test]
fn one_slow_cell_is_found_among_many_and_its_interval_is_as_wide_as_alone() {
    for cells in [10, 60] {
        let (a, b) = many_cells(cells, 20, 1.5);
        let comparison = compare(&a, &b, MARGIN, 0.05).unwrap();
        let slow = comparison.cells.last().unwrap();
        assert_eq!(
            (slow.decided.outcome, comparison.count(CostChange::Slower)),
            (CostChange::Slower, 1)
        );
        assert_eq!(comparison.gate(&GATE), Gate::Fails);
        let (alone, same) = (compared_alone(&a, &b, cells), slow.interval.unwrap());
        assert!((alone.level - same.level).abs() < 1e-12 && same.width() < 3.0 * alone.width());
    }
}

fn compared_alone(a: &Quantities, b: &Quantities, kib: u64) -> Interval {
    let only = |of: &Quantities| {
        let mut of = of.clone();
        of.all.retain(|it, _| it.cell.as_ref().unwrap().wss_bytes == kib << 10);
        of
    };
    compare(&only(a), &only(b), MARGIN, 0.05).unwrap().cells[0].interval.unwrap()
}

#[test]
fn too_few_replicates_for_so_many_cells_are_mute_and_as_many_as_it_says_are_not() {
    let (a, b) = many_cells(200, 6, 1.0);
    let mute =
        compare(&a, &b, EquivalenceMargin { share: 0.0, least_us: Some(0.01) }, 0.05).unwrap();
    assert_eq!(mute.gate(&GATE), Gate::Mute);
    // 1/C(2n, n) is at most 0.025/200 from n = 8 on: 1/12,870.
    assert_eq!((mute.replicates_to_fail(), mute.mute().count()), (8, 200));
    let (a, b) = many_cells(200, 8, 1.0);
    let heard =
        compare(&a, &b, EquivalenceMargin { share: 0.0, least_us: Some(0.01) }, 0.05).unwrap();
    assert_eq!(heard.gate(&GATE), Gate::Passes);
}

#[test]
fn a_change_of_the_detectable_size_is_found_in_about_four_of_five_experiments() {
    use corehop_fixtures::designs::{Design, SeededSource, StandardLaw};
    let (design, mut draw) =
        (Design::steady(StandardLaw::Normal, StandardLaw::Normal, 0.9), SeededSource::new(5));
    let mut take = |more: f64| {
        let mut delays = Quantities::new(Estimator::Difference);
        for (at, group) in design.run(&mut draw, 20, 3).into_iter().enumerate() {
            let of = |value: f64| {
                let resumed_ns = 1e3 * (21.0 + value + more);
                Sample { warm_ns: 1e3, resumed_ns, replicate: Some(at as u64), ..sample() }
            };
            delays.take(&group.into_iter().map(of).collect::<Vec<_>>());
        }
        delays
    };
    let (mut found, mut tried) = (0, 0);
    for _ in 0..300 {
        let detectable =
            compare(&take(0.0), &take(0.0), MARGIN, 0.05).unwrap().cells[0].detectable_us;
        let Some(detectable) = detectable else { continue };
        let outcome = outcome_of(&take(0.0), &take(detectable));
        (found, tried) = (found + u32::from(outcome == CostChange::Slower), tried + 1);
    }
    let power = f64::from(found) / f64::from(tried);
    assert!(tried > 250 && (0.7..0.93).contains(&power), "{power} of {tried}");
}

#[test]
fn cells_that_only_one_has_are_counted_and_nothing_in_common_does_not_pass() {
    let comparison =
        compare(&delays(1.0, 0.1, 41, 64), &delays(1.0, 0.1, 41, 128), MARGIN, 0.05).unwrap();
    assert_eq!(
        (comparison.only_a, comparison.only_b, comparison.gate(&USUAL)),
        (1, 1, Gate::Nothing)
    );
}

#[test]
fn two_hosts_are_compared_whatever_they_are_called() {
    let mut here = Quantities::new(Estimator::Difference);
    let mut there = Quantities::new(Estimator::Difference);
    here.take(&[sample()]);
    there.take(&[Sample { machine: "other".into(), ..sample() }]);
    assert_eq!(compare(&here, &there, MARGIN, 0.05).unwrap().cells.len(), 1);
}

/// Two runs that draw the package of each replicate. Every replicate on the second package costs twice as much. In the
/// second run the first package is slower by this factor.
fn of_two_packages(factor: f64) -> (Quantities, Quantities) {
    let packages: CpuGroups = serde_json::from_str("\"0-1 by 1\"").unwrap();
    let run = |first: f64, step: u64| {
        let mut results = Quantities::new(Estimator::Difference);
        results.of_packages(&packages);
        let of = |at: u64| {
            let package = at % 2;
            let us = if package == 0 { 870.0 * first } else { 1_660.0 };
            let spread = 0.01 * us * (at * step % 20) as f64 / 20.0;
            let (resumed_ns, replicate) = (1e3 * (us + spread), Some(at));
            Sample { warm_ns: 0.0, resumed_ns, from_cpu: package, replicate, ..sample() }
        };
        results.take(&(0..20).map(of).collect::<Vec<_>>());
        results
    };
    (run(1.0, 7), run(factor, 13))
}

#[test]
fn memory_that_is_slower_for_one_package_alone_is_found_on_that_package() {
    let (a, b) = of_two_packages(1.5);
    let comparison = compare(&a, &b, MARGIN, 0.05).unwrap();
    let outcomes: Vec<CostChange> = comparison.cells.iter().map(|it| it.decided.outcome).collect();
    assert_eq!(outcomes, [CostChange::Slower, CostChange::Equivalent]);
    assert_eq!(comparison.cells[0].quantity.package, Some(0));
    assert_eq!(comparison.gate(&GATE), Gate::Fails);
    let (a, b) = of_two_packages(1.0);
    assert_eq!(compare(&a, &b, MARGIN, 0.05).unwrap().gate(&GATE), Gate::Passes);
}

#[test]
fn what_b_has_no_valid_sample_of_is_no_pass() {
    let (a, mut b) = many_cells(3, 20, 1.0);
    b.all.pop_last();
    let comparison = compare(&a, &b, MARGIN, 0.05).unwrap();
    assert_eq!((comparison.gate(&GATE), comparison.lacking.len()), (Gate::Incomplete, 1));
    assert_eq!(compare(&b, &a, MARGIN, 0.05).unwrap().gate(&GATE), Gate::Passes);
}

/// The test plants changes among ten cells of twenty replicates that vary by 4 %, and counts detections and false
/// alarms.
#[test]
fn planted_changes_are_found_and_equal_results_raise_few_alarms() {
    use corehop_fixtures::designs::{Design, SeededSource, StandardLaw};
    let (design, mut draw) = (
        Design::steady(StandardLaw::LogNormal(0.5), StandardLaw::Normal, 0.8),
        SeededSource::new(29),
    );
    let mut run = |factor: f64| {
        let mut results = Quantities::new(Estimator::Difference);
        for kib in 1..=10 {
            let factor = if kib <= 2 { factor } else { 1.0 };
            for (at, group) in design.run(&mut draw, 20, 3).into_iter().enumerate() {
                let of = |value: f64| {
                    let resumed_ns = 1e6 * factor * (1.0 + 0.04 * value);
                    let (wss_bytes, replicate) = (kib << 10, Some(at as u64));
                    Sample { warm_ns: 0.0, resumed_ns, wss_bytes, replicate, ..sample() }
                };
                results.take(&group.into_iter().map(of).collect::<Vec<_>>());
            }
        }
        results
    };
    let least = EquivalenceMargin { share: 0.02, least_us: None };
    for (factor, expected) in [
        (1.1, CostChange::Slower),
        (1.2, CostChange::Slower),
        (1.5, CostChange::Slower),
        (0.9, CostChange::Faster),
        (0.8, CostChange::Faster),
        (0.5, CostChange::Faster),
    ] {
        let comparisons: Vec<ResultComparison> =
            (0..3).map(|_| compare(&run(1.0), &run(factor), least, 0.05).unwrap()).collect();
        let found: usize = comparisons.iter().map(|it| it.count(expected)).sum();
        assert!((5..=6).contains(&found), "{factor}: {found} of 6");
    }
    let alarms = (0..20).filter(|_| {
        let none = EquivalenceMargin { share: 0.0, least_us: Some(0.0) };
        let it = compare(&run(1.0), &run(1.0), none, 0.05).unwrap();
        it.count(CostChange::Slower) + it.count(CostChange::Faster) > 0
    });
    // Of twenty at 5 % more than four have a probability of 0.3 %.
    let alarms = alarms.count();
    assert!(alarms <= 4, "{alarms} of 20");
}

/// Twenty replicates of a planned migration below one cache. The replicates `in_memory` were measured as memory
/// migrations and cost `us`.
fn with_chance(in_memory: &[u64], us: f64) -> Quantities {
    use corehop_plan::workload::Event;
    let mut draw = corehop_fixtures::designs::SeededSource::new(23);
    let of = |at: u64| {
        let far = in_memory.contains(&at);
        let event = if far { Event::MemoryMigration } else { Event::L3Migration };
        let resumed_ns = 1e3 * (if far { us } else { 20.0 } + 0.3 * draw.normal());
        let declared_event = Some(Event::L3Migration);
        Sample { warm_ns: 0.0, resumed_ns, event, declared_event, replicate: Some(at), ..sample() }
    };
    let mut results = Quantities::new(Estimator::Difference);
    results.take(&(0..20).map(of).collect::<Vec<_>>());
    results
}

#[test]
fn a_class_that_a_run_reached_by_chance_is_shown_and_silences_no_gate() {
    let (a, b) = (with_chance(&[3], 90.0), with_chance(&[5, 9], 95.0));
    let told = compare(&a, &b, MARGIN, 0.05).unwrap();
    let gated: Vec<_> = told.cells.iter().map(|it| it.not_gated.is_none()).collect();
    assert_eq!((gated, told.gate(&GATE)), (vec![true, false], Gate::Passes));
    // Present on one side alone, by chance, the class was planned by neither.
    let told = compare(&a, &with_chance(&[], 0.0), MARGIN, 0.05).unwrap();
    assert_eq!((told.lacking.len(), told.only_a, told.gate(&GATE)), (0, 1, Gate::Passes));
}

#[test]
fn a_class_that_came_out_as_often_as_the_other_is_judged_and_so_is_a_planned_one() {
    let often: Vec<u64> = (0..10).collect();
    let (a, b) = (with_chance(&often, 90.0), with_chance(&often, 140.0));
    let told = compare(&a, &b, MARGIN, 0.05).unwrap();
    assert_eq!((told.gated().count(), told.count(CostChange::Slower)), (2, 1));
    assert_eq!(told.gate(&GATE), Gate::Fails);
    // Planned and measured three times, a cell is mute, and no other stands for it.
    let mut few = [with_chance(&[3], 90.0), with_chance(&[5], 90.0)];
    for of in &mut few {
        let planned = |at| Sample {
            event: corehop_plan::workload::Event::MemoryMigration,
            declared_event: Some(corehop_plan::workload::Event::MemoryMigration),
            warm_ns: 0.0,
            resumed_ns: 9e4,
            replicate: Some(at),
            ..sample()
        };
        of.take(&[0, 1].map(planned));
    }
    let told = compare(&few[0], &few[1], MARGIN, 0.05).unwrap();
    assert_eq!((told.gate(&GATE), told.mute().count()), (Gate::Mute, 1));
    // Three replicates had the cell where 19 had the other, and six are needed.
    assert_eq!((replicates_for(told.first_level), told.replicates_to_fail()), (6, 38));
}
