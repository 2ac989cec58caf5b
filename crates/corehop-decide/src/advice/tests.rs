// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on costs made up by hand.

use super::*;
use corehop_plan::samples::Sample;
use corehop_plan::samples::example::sample;
use corehop_plan::workload::Absence;
use corehop_stats::cpmd::DelayFitter;
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::Summaries;
use corehop_stats::verdict::{MachineFacts, TestOutcome};
use proptest::prelude::*;

/// A cell: event, what had the CPU, size, length, and its delays: where, and how wide.
#[derive(Debug, Clone, Copy)]
struct Of {
    event: Event,
    by: Absence,
    kib: u64,
    ms: u32,
    us: f64,
    spread: f64,
}

/// 64 KiB after 4 ms in which nothing ran.
const fn quiet(event: Event, us: f64) -> Of {
    Of { event, by: Absence::Nothing, kib: 64, ms: 4, us, spread: 0.1 }
}

/// The same below a load.
const fn loaded(event: Event, us: f64) -> Of {
    Of { by: Absence::Load, ..quiet(event, us) }
}

/// 41 samples, a replicate each, in an order without a trend.
fn samples(cell: &Of) -> Vec<Sample> {
    let &Of { event, by, kib, ms, us, spread } = cell;
    let of = |k: u32| {
        let delay = 1e3 * (us + spread * (f64::from(k) - 20.0) / 20.0);
        let load = if by == Absence::Load { "constructed" } else { "idle" };
        let polluter = (by != Absence::Nothing).then(|| "shuffled 4 MiB write 0.5".into());
        Sample {
            event,
            preempted_by: by,
            polluter,
            load: load.into(),
            wss_bytes: kib << 10,
            preemption_length: format!("fixed_{ms}ms").into(),
            length_ns: 1e6 * f64::from(ms),
            requested_length_ns: 1_000_000 * u64::from(ms),
            warm_ns: 1e3,
            resumed_ns: 1e3 + delay,
            replicate: Some(u64::from(k) * 17 % 41),
            ..sample()
        }
    };
    (0..41).map(of).collect()
}

fn model(cells: &[Of]) -> DelayModel {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for cell in cells {
        fit.take(&samples(cell));
    }
    fit.finish()
}

fn wanted() -> AdviceQuery {
    AdviceQuery { wss: Vec::new(), length: None, margin: 0.1, only: Vec::new() }
}

fn advice(cells: &[Of]) -> Advice {
    advise(&model(cells), &wanted()).unwrap()
}

fn rule(stay: (f64, f64), migration: (f64, f64)) -> AdviceRule {
    let cells = [
        Of { spread: stay.1, ..loaded(Event::Preemption, stay.0) },
        Of { spread: migration.1, ..loaded(Event::L3Migration, migration.0) },
    ];
    advice(&cells).rules.remove(0)
}

#[test]
fn what_surely_costs_least_is_preferred_and_a_migration_that_surely_costs_more_avoided() {
    let rule = rule((10.0, 0.1), (30.0, 0.1));
    assert_eq!(rule.verdict, Preference::Prefer(Event::Preemption));
    let events: Vec<(Event, bool)> = rule.choices.iter().map(|it| (it.event, it.avoid)).collect();
    assert_eq!(events, [(Event::Preemption, false), (Event::L3Migration, true)]);
    assert!(rule.choices.iter().all(|it| (it.n, it.replicates) == (41, Some(41))), "{rule:?}");
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
fn a_preemption_by_a_preemptor_is_not_compared_with_a_migration_during_which_nothing_ran() {
    let preempted = Of { by: Absence::Preemptor, ..quiet(Event::Preemption, 30.0) };
    let alone = advice(&[preempted, quiet(Event::L3Migration, 10.0)]);
    assert!(alone.rules.is_empty() && alone.map.is_empty() && alone.constants.is_empty());
    assert!(alone.silent[0].contains("a preemptor walked shuffled 4 MiB"), "{:?}", alone.silent);
    // An absence in which nothing ran stands for a quiet preemption; what company costs is told apart.
    let both = advice(&[preempted, quiet(Event::L3Migration, 10.0), quiet(Event::IdleLeave, 4.0)]);
    assert_eq!(both.rules[0].verdict, Preference::Prefer(Event::IdleLeave));
    assert_eq!((both.rules.len(), both.rules[0].choices.len()), (1, 2));
    let saved = &both.isolation[0];
    assert!((saved.saves.estimate_us - 26.0).abs() < 1e-9, "{saved:?}");
    assert_eq!((saved.n, saved.length_us), (41, 4_000.0));
}

#[test]
fn absences_of_different_lengths_are_not_compared() {
    let short = Of { ms: 1, ..loaded(Event::L3Migration, 10.0) };
    let apart = advice(&[loaded(Event::Preemption, 30.0), short]);
    assert!(apart.rules.is_empty());
    assert!(apart.silent[0].contains("64 KiB: there is no length"), "{:?}", apart.silent);
    // A longer preemption is left aside where a migration as long as the shorter one was measured.
    let like = advice(&[
        loaded(Event::Preemption, 30.0),
        Of { ms: 1, ..loaded(Event::Preemption, 5.0) },
        short,
    ]);
    let rule = &like.rules[0];
    assert_eq!((rule.length_us, rule.verdict), (1e3, Preference::Prefer(Event::Preemption)));
    let asked = AdviceQuery { length: Some(Nanos::from_millis(4)), ..wanted() };
    let long = advise(&model(&[loaded(Event::Preemption, 30.0), short]), &asked).unwrap();
    assert!(long.rules.is_empty() && long.silent[0].contains("about 4 ms"), "{:?}", long.silent);
}

#[test]
fn a_stay_beside_a_near_neighbour_is_compared_with_moving_to_that_neighbour() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for (class, us) in [(Event::L3Migration, 30.0), (Event::MemoryMigration, 5.0)] {
        let beside = |it: Sample| Sample { pair_class: Some(class), ..it };
        let stays = samples(&loaded(Event::Preemption, us));
        fit.take(&stays.into_iter().map(beside).collect::<Vec<_>>());
        fit.take(&samples(&loaded(class, 10.0)));
    }
    let advice = advise(&fit.finish(), &wanted()).unwrap();
    let verdicts: Vec<Preference> = advice.rules.iter().map(|rule| rule.verdict).collect();
    assert_eq!(advice.rules.len(), 2);
    assert!(advice.rules.iter().all(|rule| rule.choices.len() == 2), "{advice:?}");
    // Moving to the near neighbour would win, were the stay beside the far one not cheaper still.
    assert_eq!(verdicts, [Preference::NotEnoughEvidence, Preference::Prefer(Event::Preemption)]);
}

#[test]
fn the_length_at_which_the_answer_flips_lies_between_two_that_were_measured() {
    let after = |ms, us| Of { ms, ..loaded(Event::Preemption, us) };
    let moved = |ms| Of { ms, ..loaded(Event::L3Migration, 10.0) };
    let cells = [after(1, 5.0), after(4, 20.0), after(16, 40.0), moved(1), moved(4), moved(16)];
    let advice = advice(&cells);
    let flip = advice.rules[0].flip.unwrap();
    assert_eq!(flip.to, Event::L3Migration);
    assert_eq!((flip.not_yet_us, flip.by_us), (Some(1_000.0), Some(4_000.0)));
    // Half of 40 us is there after 4 ms.
    assert_eq!(advice.constants[0].warm_budget_us, Some(4_000.0));
    assert_eq!(advice.constants[0].warm_budget_n, Some((41, Some(41))));
    let short = AdviceQuery { length: Some(Nanos::from_millis(1)), ..wanted() };
    let rule = advise(&model(&cells), &short).unwrap().rules.remove(0);
    assert_eq!(rule.verdict, Preference::Prefer(Event::Preemption));
}

#[test]
fn constants_are_what_a_move_costs_beyond_an_idle_leave_of_the_same_length() {
    let advice = advice(&[
        quiet(Event::IdleLeave, 4.0),
        // A quiet preemption as long is the same absence; the control is what is subtracted.
        quiet(Event::Preemption, 4.5),
        quiet(Event::L2Migration, 10.0),
        quiet(Event::MemoryMigration, 90.0),
    ]);
    let extra = advice.constants[0].migration.unwrap();
    assert_eq!((extra.event, extra.beyond), (Event::L2Migration, Event::IdleLeave));
    assert!((extra.cost.estimate_us - 6.0).abs() < 1e-9, "{extra:?}");
    assert!(extra.cost.low_us.unwrap() < 6.0 && extra.cost.high_us.unwrap() > 6.0);
    assert_eq!((extra.n, extra.replicates), (41, Some(41)));
}

#[test]
fn a_constant_whose_interval_holds_zero_or_that_nothing_is_subtracted_from_is_not_stated() {
    let vague = Of { spread: 9.0, ..quiet(Event::L3Migration, 5.0) };
    let held = advice(&[quiet(Event::IdleLeave, 4.0), vague]);
    assert_eq!(held.constants[0].migration, None);
    let why = held.constants[0].withheld.as_ref().unwrap();
    assert!(why.contains("may be zero") && why.contains("41 in 41"), "{why}");
    let gain = advice(&[quiet(Event::IdleLeave, 40.0), quiet(Event::L3Migration, 5.0)]);
    assert!(gain.constants[0].withheld.as_ref().unwrap().contains("less than staying"));
    let other = Of { ms: 1, ..quiet(Event::IdleLeave, 1.0) };
    let unlike = advice(&[other, quiet(Event::L3Migration, 5.0)]);
    assert!(unlike.constants.is_empty(), "{unlike:?}");
}

/// The rules for preemptions of 64 and 128 KiB that cost 30 and 10 us and spread so much, beside migrations of 12 us.
fn out_of_order(spread: f64) -> Vec<AdviceRule> {
    let at = |kib, event, us, spread| Of { kib, spread, ..loaded(event, us) };
    let mut fit = DelayFitter::new(Estimator::Difference);
    let platform = corehop_plan::platform::Platform::named("xeon_x5650").unwrap().unwrap();
    fit.machine(&platform, &corehop_stats::balance::LevelLatencies::of(&platform, &[]));
    for cell in [
        at(64, Event::Preemption, 30.0, spread),
        at(128, Event::Preemption, 10.0, spread),
        at(64, Event::L3Migration, 12.0, 0.1),
        at(128, Event::L3Migration, 12.0, 0.1),
    ] {
        let of = samples(&cell).into_iter();
        fit.take(&of.map(|it| Sample { machine: "xeon_x5650".into(), ..it }).collect::<Vec<_>>());
    }
    advise(&fit.finish(), &wanted()).unwrap().rules
}

#[test]
fn where_the_curve_pools_sizes_the_measured_value_stands_beside_it() {
    let stay =
        |rule: &AdviceRule| *rule.choices.iter().find(|it| it.event == Event::Preemption).unwrap();
    let rules = out_of_order(45.0);
    for (rule, measured) in rules.iter().zip([30.0, 10.0]) {
        let stay = stay(rule);
        assert!((stay.cost.estimate_us - 20.0).abs() < 1e-9, "{stay:?}");
        assert!((stay.measured.unwrap().estimate_us - measured).abs() < 1e-9);
    }
    assert_eq!(rules[1].verdict, Preference::NotEnoughEvidence);
    // Two intervals that are disjoint contradict the curve, and each size is advised on as it was measured.
    let rules = out_of_order(0.1);
    for (rule, measured) in rules.iter().zip([30.0, 10.0]) {
        let stay = stay(rule);
        assert!((stay.cost.estimate_us - measured).abs() < 1e-9 && stay.measured.is_none());
    }
    let verdicts = [rules[0].verdict, rules[1].verdict];
    assert_eq!(verdicts, [Event::L3Migration, Event::Preemption].map(Preference::Prefer));
}

#[test]
fn what_was_not_measured_is_told_and_never_advised_on() {
    let alone = advice(&[quiet(Event::Preemption, 30.0)]);
    assert!(alone.rules.is_empty());
    assert!(alone.silent[0].contains("no migration was measured in that company"));
    assert!(advice(&[quiet(Event::L3Migration, 30.0)]).silent[0].contains("no preemption"));
    assert!(alone.silent[0].starts_with("load idle, nothing ran meanwhile"), "{alone:?}");
}

#[test]
fn series_that_differ_in_more_than_size_and_length_have_to_be_chosen() {
    let other = |sample: Sample| Sample { write_ratio: 0.25, ..sample };
    let cells = samples(&quiet(Event::Preemption, 30.0));
    let mut fit = DelayFitter::new(Estimator::Difference);
    fit.take(&cells);
    fit.take(&cells.iter().cloned().map(other).collect::<Vec<_>>());
    let model = fit.finish();
    let error = advise(&model, &wanted()).unwrap_err().to_string();
    assert!(error.contains("write_ratio"), "{error}");
    let only = |name: &str, value: &str| {
        let only = vec![(name.to_owned(), value.to_owned())];
        advise(&model, &AdviceQuery { only, ..wanted() })
    };
    assert!(only("write_ratio", "0.25").is_ok());
    assert!(only("colour", "red").unwrap_err().to_string().contains("no `colour`"));
}

#[test]
fn a_migration_that_was_not_measured_at_a_size_is_no_reason_to_move_there() {
    let of = |event, kib, us| Of { event, by: Absence::Nothing, kib, ms: 1, us, spread: 0.1 };
    let cells = [
        of(Event::Preemption, 64, 30.0),
        of(Event::Preemption, 256, 2.0),
        of(Event::MemoryMigration, 256, 6.0),
    ];
    // The curve goes from nothing to 6 us at 256 KiB: 1.5 us at 64 KiB, without a sample there.
    let moves = |cells: &[Of]| {
        let verdicts = advice(cells).map.into_iter().map(|it| it.verdict);
        verdicts.filter(|it| *it == Preference::Prefer(Event::MemoryMigration)).count()
    };
    assert_eq!(moves(&cells), 0);
    let measured = [of(Event::Preemption, 64, 30.0), of(Event::MemoryMigration, 64, 1.5)];
    assert_eq!(moves(&measured), 1);
}

fn cells() -> impl Strategy<Value = Vec<Of>> {
    let us = prop::sample::select(vec![2.0, 6.0, 10.0, 14.0, 30.0]);
    let spread = prop::sample::select(vec![0.1, 6.0]);
    let events = [
        (Event::Preemption, Absence::Nothing),
        (Event::Preemption, Absence::Preemptor),
        (Event::Preemption, Absence::Load),
        (Event::IdleLeave, Absence::Nothing),
        (Event::L3Migration, Absence::Nothing),
        (Event::L3Migration, Absence::Load),
        (Event::MemoryMigration, Absence::Nothing),
    ];
    let cells = prop::collection::vec(prop::option::weighted(0.8, (us, spread)), 28);
    cells.prop_map(move |costs| {
        let places = [(64, 1), (64, 4), (256, 1), (256, 4)];
        let all = places.iter().flat_map(|&place| events.iter().map(move |&event| (place, event)));
        all.zip(costs)
            .filter_map(|(((kib, ms), (event, by)), cost)| {
                let (us, spread) = cost?;
                Some(Of { event, by, kib, ms, us, spread })
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// For any measurement: where the page says move, the report's table has no preemption of that load, size
    /// and length that costs less, and its verdict on quiet preemptions does not hold.
    #[test]
    fn a_page_never_says_move_where_the_report_has_a_cheaper_preemption(cells in cells()) {
        let advice = advice(&cells);
        let mut summaries = Summaries::new(Estimator::Difference);
        for cell in &cells {
            summaries.take(&samples(cell));
        }
        let view = MachineFacts::of(&corehop_plan::samples::example::guest());
        let verdicts = summaries.verdicts("box", &view.view()).unwrap();
        let quiet = verdicts.iter().find(|it| it.id == "bastoni-3a").unwrap();
        let table = summaries.finish();
        let moves = advice.map.iter().filter_map(|place| match place.verdict {
            Preference::Prefer(event) if event.is_migration() => Some((place, event)),
            _ => None,
        });
        for (place, event) in moves {
            let here = table.iter().filter(|estimate| {
                estimate.cell.wss_bytes == place.wss_bytes && *estimate.cell.load == *place.load
                    && *estimate.cell.preemption_length == *format!("fixed_{:.0}ms", place.length_us / 1e3)
            });
            let median = |event: Event| {
                let of_event = here.clone().filter(move |it| it.cell.event == event);
                of_event.map(|it| it.delay.as_ref().unwrap().quantiles[0].estimate)
            };
            let moved = median(event).fold(f64::MIN, f64::max);
            for stay in [Event::Preemption, Event::IdleLeave] {
                prop_assert!(median(stay).all(|us| us > moved), "{:?}", place);
            }
            let holds = quiet.outcome == TestOutcome::Holds;
            prop_assert!(!(holds && place.company.preempted_by == Absence::Nothing), "{:?}", place);
        }
    }
}
