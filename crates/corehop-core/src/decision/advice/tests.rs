// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on costs made up by hand.

use super::*;
use crate::model::cpmd::Fit;
use crate::model::estimator::Estimator;
use crate::model::example::sample;
use crate::samples::Sample;
use crate::workload::Absence;

/// 41 samples whose delays spread by `spread` around `us`.
fn samples(event: Event, kib: u64, length_ms: u32, us: f64, spread: f64) -> Vec<Sample> {
    let of = |k: i32| {
        let delay = 1e3 * (us + spread * f64::from(k - 20) / 20.0);
        let preempted_by =
            if event == Event::Preemption { Absence::Preemptor } else { Absence::Nothing };
        Sample {
            event,
            preempted_by,
            wss_bytes: kib << 10,
            preemption_length: format!("fixed_{length_ms}ms").into(),
            length_ns: 1e6 * f64::from(length_ms),
            requested_length_ns: 1_000_000 * u64::from(length_ms),
            warm_ns: 1e3,
            resumed_ns: 1e3 + delay,
            // A replicate each, in an order without a trend.
            replicate: Some(k as u64 * 17 % 41),
            ..sample()
        }
    };
    (0..41).map(of).collect()
}

fn model(cells: &[Vec<Sample>]) -> Model {
    let mut fit = Fit::new(Estimator::Difference);
    for cell in cells {
        fit.take(cell);
    }
    fit.finish()
}

fn wanted() -> Wanted {
    Wanted { wss: Vec::new(), length: None, margin: 0.1, only: Vec::new() }
}

fn rule(preemption: (f64, f64), migration: (f64, f64)) -> Rule {
    let model = model(&[
        samples(Event::Preemption, 64, 4, preemption.0, preemption.1),
        samples(Event::L3Migration, 64, 4, migration.0, migration.1),
    ]);
    advise(&model, &wanted()).unwrap().rules.remove(0)
}

#[test]
fn what_surely_costs_least_is_preferred_and_a_migration_that_surely_costs_more_avoided() {
    let rule = rule((10.0, 0.1), (30.0, 0.1));
    assert_eq!(rule.verdict, Preference::Prefer(Event::Preemption));
    let events: Vec<(Event, bool)> = rule.choices.iter().map(|it| (it.event, it.avoid)).collect();
    assert_eq!(events, [(Event::Preemption, false), (Event::L3Migration, true)]);
}

#[test]
fn a_cheaper_migration_is_preferred_to_being_preempted() {
    let rule = rule((30.0, 0.1), (10.0, 0.1));
    assert_eq!(rule.verdict, Preference::Prefer(Event::L3Migration));
    assert!(rule.choices.iter().all(|choice| !choice.avoid));
}

#[test]
fn costs_that_are_known_to_be_near_make_no_difference_and_vague_ones_are_no_evidence() {
    assert_eq!(rule((10.0, 0.1), (10.3, 0.1)).verdict, Preference::NoDifference);
    assert_eq!(rule((10.0, 9.0), (12.0, 9.0)).verdict, Preference::NotEnoughEvidence);
}

#[test]
fn the_length_at_which_the_answer_flips_lies_between_two_that_were_measured() {
    let model = model(&[
        samples(Event::Preemption, 64, 1, 5.0, 0.1),
        samples(Event::Preemption, 64, 4, 20.0, 0.1),
        samples(Event::Preemption, 64, 16, 40.0, 0.1),
        samples(Event::L3Migration, 64, 4, 10.0, 0.1),
    ]);
    let advice = advise(&model, &wanted()).unwrap();
    let flip = advice.rules[0].flip.unwrap();
    assert_eq!(flip.to, Event::L3Migration);
    assert_eq!((flip.not_yet_us, flip.by_us), (Some(1_000.0), Some(4_000.0)));
    // Half of 40 us is there after 4 ms.
    assert_eq!(advice.constants[0].warm_budget_us, Some(4_000.0));
    let short = Wanted { length: Some(Nanos::from_millis(1)), ..wanted() };
    let rule = advise(&model, &short).unwrap().rules.remove(0);
    assert_eq!(rule.verdict, Preference::Prefer(Event::Preemption));
}

#[test]
fn constants_are_what_a_move_costs_beyond_resuming_in_place() {
    let model = model(&[
        samples(Event::Preemption, 64, 4, 30.0, 0.1),
        samples(Event::IdleLeave, 64, 4, 4.0, 0.1),
        samples(Event::L2Migration, 64, 4, 10.0, 0.1),
        samples(Event::MemoryMigration, 64, 4, 90.0, 0.1),
    ]);
    let advice = advise(&model, &wanted()).unwrap();
    let (event, cost) = advice.constants[0].migration.unwrap();
    assert_eq!(event, Event::L2Migration);
    assert!((cost.estimate_us - 6.0).abs() < 1e-9, "{cost:?}");
    assert!(cost.low_us.unwrap() < 6.0 && cost.high_us.unwrap() > 6.0);
    let saved = advice.rules[0].isolation_saves.unwrap();
    assert!((saved.estimate_us - 26.0).abs() < 1e-9, "{saved:?}");
}

#[test]
fn what_was_not_measured_is_told_and_never_advised_on() {
    let alone = model(&[samples(Event::Preemption, 64, 4, 30.0, 0.1)]);
    let advice = advise(&alone, &wanted()).unwrap();
    assert!(advice.rules.is_empty());
    assert!(advice.silent[0].contains("64 KiB") && advice.silent[0].contains("two choices"));
    let migrations = model(&[samples(Event::L3Migration, 64, 4, 30.0, 0.1)]);
    assert!(advise(&migrations, &wanted()).unwrap().silent[0].contains("no preemption"));
}

#[test]
fn series_that_differ_in_more_than_size_and_length_have_to_be_chosen() {
    let other = |sample: Sample| Sample { write_ratio: 0.25, ..sample };
    let cells = samples(Event::Preemption, 64, 4, 30.0, 0.1);
    let others: Vec<Sample> = cells.iter().cloned().map(other).collect();
    let error = advise(&model(&[cells, others]), &wanted()).unwrap_err().to_string();
    assert!(error.contains("write_ratio"), "{error}");
}
