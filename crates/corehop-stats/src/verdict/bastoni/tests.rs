// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the observations on made-up samples, and on the tables printed in the studies.

use super::super::synthetic::{Cell, L7455, views};
use super::super::{TestOutcome, verdicts};
use super::*;
use crate::draw::ResampleSource;
use corehop_plan::workload::Absence;

const EVENTS: [Event; 4] =
    [Event::Preemption, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

/// The mean and the standard deviation of delays under load, in microseconds, from Table 3 of
/// Bastoni et al.
const LOADED: [(u64, [(f64, f64); 4]); 8] = [
    (4, [(5.24, 2.31), (5.37, 2.36), (5.66, 2.07), (5.77, 2.08)]),
    (16, [(17.02, 8.04), (17.05, 7.77), (18.58, 7.00), (18.78, 7.18)]),
    (64, [(65.05, 31.38), (65.33, 31.90), (70.72, 27.87), (70.50, 28.02)]),
    (256, [(248.81, 117.10), (246.34, 119.89), (267.73, 106.19), (272.56, 115.37)]),
    (512, [(478.45, 239.08), (476.95, 251.41), (507.27, 227.87), (509.18, 245.06)]),
    (1024, [(739.20, 515.18), (733.27, 624.26), (772.68, 544.80), (810.37, 641.08)]),
    (3072, [(355.76, 1781.11), (400.88, 2021.39), (377.96, 1974.79), (483.20, 2373.09)]),
    (8192, [(212.90, 4793.77), (374.45, 5230.35), (436.19, 5153.05), (282.28, 5797.23)]),
];

/// The mean and the standard deviation of delays in an idle system, in microseconds, from Table 4
/// of Bastoni et al.
const IDLE: [(u64, [(f64, f64); 4]); 8] = [
    (4, [(0.13, 0.06), (2.91, 0.18), (3.98, 0.06), (3.48, 0.12)]),
    (16, [(0.17, 0.09), (10.19, 0.72), (15.17, 0.10), (12.62, 0.24)]),
    (64, [(0.29, 0.15), (14.21, 1.29), (59.79, 0.22), (49.18, 0.72)]),
    (256, [(0.83, 0.45), (15.02, 1.14), (236.94, 1.43), (192.42, 2.88)]),
    (1024, [(3.85, 1.45), (18.28, 1.70), (921.61, 4.79), (769.80, 7.93)]),
    (3072, [(74.04, 42.28), (104.26, 49.47), (1867.61, 246.62), (1501.23, 229.21)]),
    (4096, [(39.66, 23.96), (51.29, 24.75), (1156.36, 153.95), (790.41, 157.98)]),
    (8192, [(1.60, 9.06), (0.70, 9.60), (468.26, 14.14), (482.73, 66.05)]),
];

fn table(rows: &[(u64, [(f64, f64); 4])], load: &'static str, n: usize) -> Vec<Cell> {
    let mut draw = ResampleSource::new(7);
    rows.iter()
        .flat_map(|&(kib, columns)| EVENTS.into_iter().zip(columns).map(move |c| (kib, c)))
        .map(|(kib, (event, law))| Cell::new(&mut draw, event, load, kib, law, n))
        .collect()
}

fn outcome(verdict: Result<ClaimVerdict, BadInput>) -> TestOutcome {
    verdict.unwrap().outcome
}

#[test]
fn the_printed_tables_pass_their_own_observations() {
    let loaded = table(&LOADED, "constructed", 1_000);
    let idle = table(&IDLE, "idle", 1_000);
    for verdict in [
        bastoni_1(&views(&loaded), &L7455, 0.05).unwrap(),
        bastoni_2(&views(&loaded), &L7455, 0.05).unwrap(),
        bastoni_3a(&views(&idle), 0.05).unwrap(),
        bastoni_3b(&views(&idle), &L7455, 0.05).unwrap(),
    ] {
        assert_eq!(verdict.outcome, TestOutcome::Holds, "{} {}", verdict.id, verdict.evidence);
    }
}

#[test]
fn too_few_samples_leave_the_printed_tables_undecided() {
    let loaded = table(&LOADED, "constructed", 8);
    let idle = table(&IDLE, "idle", 4);
    for verdict in [
        bastoni_1(&views(&loaded), &L7455, 0.05).unwrap(),
        bastoni_2(&views(&loaded), &L7455, 0.05).unwrap(),
        bastoni_3a(&views(&idle), 0.05).unwrap(),
        bastoni_3b(&views(&idle), &L7455, 0.05).unwrap(),
    ] {
        assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{} {}", verdict.id, verdict.evidence);
    }
}

#[test]
fn a_delay_that_stays_predictable_beyond_the_l2_cache_contradicts_the_first() {
    let steady: Vec<_> =
        LOADED.iter().map(|&(kib, _)| (kib, [(kib as f64, kib as f64 / 5.0); 4])).collect();
    let verdict = bastoni_1(&views(&table(&steady, "constructed", 200)), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::DoesNot, "{}", verdict.evidence);
    assert!(verdict.evidence.contains("at 3072 KiB: 0.2"), "{}", verdict.evidence);
}

#[test]
fn the_first_compares_the_sizes_next_to_the_l2_cache_and_needs_both() {
    let cells = table(&LOADED, "constructed", 200);
    let verdict = bastoni_1(&views(&cells), &L7455, 0.05).unwrap();
    let sizes: Vec<u64> = verdict.comparisons.iter().map(|c| c.wss_bytes >> 10).collect();
    assert_eq!(sizes, [512, 3072].repeat(4));
    let below: Vec<Cell> = cells.into_iter().filter(|cell| cell.kib < 3072).collect();
    let verdict = bastoni_1(&views(&below), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::CannotTell);
    assert!(verdict.evidence.contains("another of at least 3072 KiB"), "{}", verdict.evidence);
    let unknown = MachineView { cache_bytes: &[], ..L7455 };
    assert_eq!(outcome(bastoni_1(&views(&below), &unknown, 0.05)), TestOutcome::CannotTell);
}

#[test]
fn one_dear_class_of_migration_contradicts_the_second() {
    let mut rows = LOADED;
    for (_, columns) in &mut rows {
        columns[3].0 *= 3.0;
    }
    let verdict = bastoni_2(&views(&table(&rows, "constructed", 200)), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::DoesNot);
    assert!(verdict.evidence.contains("memory_migration"), "{}", verdict.evidence);
}

#[test]
fn a_difference_in_the_worst_case_alone_contradicts_the_second_too() {
    let mut cells = table(&LOADED[..4], "constructed", 500);
    for cell in cells.iter_mut().filter(|cell| cell.event == Event::L3Migration) {
        // One in ten takes five times as long.
        cell.delay.iter_mut().step_by(10).for_each(|delay| *delay = 5.0 * delay.abs() + 1e5);
    }
    let verdict = bastoni_2(&views(&cells), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::DoesNot);
    assert!(verdict.evidence.contains("0.95 quantile"), "{}", verdict.evidence);
}

#[test]
fn a_preemption_dearer_than_a_migration_contradicts_the_third() {
    let mut rows = IDLE;
    rows[4].1[0].0 = 400.0;
    let verdict = bastoni_3a(&views(&table(&rows, "idle", 60)), 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::DoesNot, "{}", verdict.evidence);
    assert!(verdict.evidence.contains("l2_migration minus preemption"), "{}", verdict.evidence);
}

#[test]
fn migrations_that_cost_nothing_do_not_make_the_third_hold() {
    let equal: Vec<_> = IDLE.iter().map(|&(kib, _)| (kib, [(1.0, 0.5); 4])).collect();
    let verdict = bastoni_3a(&views(&table(&equal, "idle", 200)), 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{}", verdict.evidence);
    assert!(verdict.evidence.contains("at no working set"), "{}", verdict.evidence);
}

#[test]
fn an_idle_leave_stands_in_for_a_preemption_and_a_busy_absence_does_not_count() {
    let mut cells = table(&IDLE, "idle", 60);
    for cell in cells.iter_mut().filter(|cell| cell.event == Event::Preemption) {
        cell.event = Event::IdleLeave;
    }
    assert_eq!(outcome(bastoni_3a(&views(&cells), 0.05)), TestOutcome::Holds);
    // With a preemption at each size, of another length, there is nothing to stand in for.
    let leaves = views(&cells);
    let real = table(&IDLE, "idle", 60);
    let short = views(&real).into_iter().map(|cell| CellView { absence: "fixed_1ms", ..cell });
    let both: Vec<CellView> = leaves.into_iter().chain(short).collect();
    let alone = bastoni_3a(&views(&real), 0.05).unwrap().comparisons.len();
    assert_eq!(bastoni_3a(&both, 0.05).unwrap().comparisons.len(), alone);
    // Who migrates resumes at once: that is compared with a preemption of any length.
    let at_once = views(&real).into_iter().map(|cell| match cell.event {
        Event::Preemption => cell,
        _ => CellView { absence: "", ..cell },
    });
    let at_once: Vec<CellView> = at_once.collect();
    assert_eq!(bastoni_3a(&at_once, 0.05).unwrap().comparisons.len(), alone);
    for cell in &mut cells {
        cell.preempted_by = Absence::Preemptor;
    }
    assert_eq!(outcome(bastoni_3a(&views(&cells), 0.05)), TestOutcome::CannotTell);
}

#[test]
fn a_memory_migration_ten_times_as_dear_contradicts_the_second_half_of_the_third() {
    let mut rows = IDLE;
    for (_, columns) in &mut rows {
        columns[3].0 *= 10.0;
    }
    assert_eq!(
        outcome(bastoni_3b(&views(&table(&rows, "idle", 60)), &L7455, 0.05)),
        TestOutcome::DoesNot
    );
    let single: Vec<Cell> = table(&IDLE, "idle", 60)
        .into_iter()
        .filter(|cell| cell.event != Event::MemoryMigration)
        .collect();
    let verdict = bastoni_3b(&views(&single), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::CannotTell);
    assert!(verdict.evidence.contains("memory migration"), "{}", verdict.evidence);
    // A machine without the class needs no longer run, but another machine.
    let one_l3 = MachineView { lacks: &[Event::MemoryMigration], ..L7455 };
    let verdict = bastoni_3b(&views(&single), &one_l3, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::CannotTell);
    assert!(verdict.evidence.contains("cannot be measured here"), "{}", verdict.evidence);
}

/// Makes cells of 64 KiB under load: delays of 50 us if the absence lasted at least 10 ms, and
/// shorter delays after shorter absences, except for memory migrations (Bastoni et al., Fig. 3).
fn by_length(n: usize, related: impl Fn(Event) -> bool) -> Vec<Cell> {
    let mut draw = ResampleSource::new(9);
    let mut cells: Vec<Cell> = EVENTS
        .into_iter()
        .map(|event| Cell::new(&mut draw, event, "constructed", 64, (50.0, 8.0), n))
        .collect();
    for cell in cells.iter_mut().filter(|cell| related(cell.event)) {
        for (delay, length) in cell.delay.iter_mut().zip(&cell.length) {
            *delay -= 45e3 * (1.0 - length / 1e7).max(0.0);
        }
    }
    cells
}

#[test]
fn delays_that_follow_the_length_except_after_memory_migrations_are_the_fourth() {
    let cells = by_length(500, |event| event != Event::MemoryMigration);
    let verdict = bastoni_4(&views(&cells), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::Holds, "{}", verdict.evidence);
    assert_eq!(verdict.comparisons.len(), 4);
}

#[test]
fn the_fourth_has_the_replicate_for_its_unit_and_says_why_few_cannot_tell() {
    let mut cells = by_length(500, |event| event != Event::MemoryMigration);
    for cell in &mut cells {
        cell.replicates = (0..500).map(|at| at / 25).collect();
    }
    let twenty = bastoni_4(&views(&cells), &L7455, 0.05).unwrap();
    assert_eq!(twenty.outcome, TestOutcome::Holds, "{}", twenty.evidence);
    for cell in &mut cells {
        cell.replicates.iter_mut().for_each(|it| *it %= 5);
    }
    let five = bastoni_4(&views(&cells), &L7455, 0.05).unwrap();
    assert_eq!(five.outcome, TestOutcome::CannotTell);
    assert!(five.evidence.contains("5 replicates; an interval needs 6"), "{}", five.evidence);
}

#[test]
fn delays_that_never_or_always_follow_the_length_contradict_the_fourth() {
    let never = by_length(1_000, |_| false);
    assert_eq!(outcome(bastoni_4(&views(&never), &L7455, 0.05)), TestOutcome::DoesNot);
    let always = by_length(1_000, |_| true);
    let verdict = bastoni_4(&views(&always), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::DoesNot);
    assert!(verdict.evidence.contains("memory_migration"), "{}", verdict.evidence);
}

#[test]
fn the_fourth_needs_lengths_that_differ_other_work_and_samples() {
    let few = by_length(40, |_| true);
    assert_eq!(outcome(bastoni_4(&views(&few), &L7455, 0.05)), TestOutcome::CannotTell);
    let mut fixed = by_length(500, |_| true);
    for cell in &mut fixed {
        cell.length.fill(4e6);
    }
    assert_eq!(outcome(bastoni_4(&views(&fixed), &L7455, 0.05)), TestOutcome::CannotTell);
    let mut quiet = by_length(500, |_| true);
    for cell in &mut quiet {
        (cell.load, cell.preempted_by) = ("idle", Absence::Nothing);
    }
    let verdict = bastoni_4(&views(&quiet), &L7455, 0.05).unwrap();
    assert_eq!(verdict.outcome, TestOutcome::CannotTell);
    assert!(verdict.evidence.contains("other work"), "{}", verdict.evidence);
}

#[test]
fn the_fifth_cannot_be_told_and_says_what_it_needs() {
    let verdict = bastoni_5(Vec::new());
    assert_eq!(verdict.outcome, TestOutcome::CannotTell);
    assert!(verdict.evidence.contains("schedule-sensitive"));
    assert_eq!(verdicts(&[], &L7455, 0.05).unwrap()[5], verdict);
}

/// The test counts how often the observation is said not to hold on machines of which it is just
/// true.
#[test]
fn a_true_second_observation_is_seldom_called_false() {
    let wrong = (0..60)
        .filter(|&seed| {
            let mut draw = ResampleSource::new(1_000 + seed);
            let cells: Vec<Cell> = [64, 256]
                .into_iter()
                .flat_map(|kib| EVENTS.map(|event| (kib, event)))
                // At the margin: migrations cost exactly half as much again.
                .map(|(kib, event)| {
                    let mean = if event == Event::Preemption { 100.0 } else { 150.0 };
                    Cell::new(&mut draw, event, "constructed", kib, (mean, 30.0), 150)
                })
                .collect();
            outcome(bastoni_2(&views(&cells), &L7455, 0.05)) == TestOutcome::DoesNot
        })
        .count();
    assert!(wrong <= 9, "{wrong} of 60");
}

#[test]
fn quantiles_for_the_worst_case_follow_the_number_of_samples() {
    let mut draw = ResampleSource::new(3);
    let sure = Sureness { alpha: 0.05, comparisons: 1 };
    for (n, p) in [(60, 0.75), (100, 0.9), (200, 0.95), (400, 0.95), (1_000, 0.99)] {
        let cell = Cell::new(&mut draw, Event::Preemption, "idle", 64, (1.0, 0.1), n);
        let chosen = highest_bounded(&cell.view(), &cell.view(), sure).unwrap();
        assert!((chosen - p).abs() < 1e-9, "{n}: {chosen}");
    }
}
