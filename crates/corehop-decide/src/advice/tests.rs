// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the advice on invented costs.

use super::*;
use corehop_plan::samples::Sample;
use corehop_plan::samples::example::sample;
use corehop_plan::workload::Absence;
use corehop_stats::cpmd::DelayFitter;
use corehop_stats::estimator::Estimator;

/// A cell with invented delays: event, activity on the CPU, size, length, and the centre and spread
/// of the delays.
#[derive(Debug, Clone, Copy)]
struct Of {
    event: Event,
    by: Absence,
    kib: u64,
    ms: u32,
    us: f64,
    spread: f64,
}

/// A cell of 64 KiB after 4 ms in which nothing ran.
const fn quiet(event: Event, us: f64) -> Of {
    Of { event, by: Absence::Nothing, kib: 64, ms: 4, us, spread: 0.1 }
}

/// A cell of 64 KiB after 4 ms under a load.
const fn loaded(event: Event, us: f64) -> Of {
    Of { by: Absence::Load, ..quiet(event, us) }
}

/// 41 samples with one replicate each, in an order without a trend.
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
    AdviceQuery { wss: Vec::new(), length: None, only: Vec::new() }
}

fn advice(cells: &[Of]) -> Advice {
    advise(&model(cells), &wanted()).unwrap()
}

/// A cell of 64 KiB after a preempting thread had the CPU for `ms`.
const fn preempted(ms: u32, us: f64) -> Of {
    Of { by: Absence::Preemptor, ms, ..quiet(Event::Preemption, us) }
}

/// The rule for a wait of `wait_us` microseconds.
fn at(cells: &[Of], wait_us: u64) -> AdviceRule {
    let wanted = AdviceQuery { length: Some(Nanos::from_micros(wait_us)), ..wanted() };
    advise(&model(cells), &wanted).unwrap().rules.remove(0)
}

fn near(wait: CostEstimate, us: [f64; 3]) -> bool {
    let ends = [wait.low_us.unwrap(), wait.estimate_us, wait.high_us.unwrap()];
    ends.iter().zip(us).all(|(a, b)| (a - b).abs() < 0.2)
}

#[test]
fn to_wait_beside_a_preemptor_is_compared_with_moving_at_once_while_nothing_runs() {
    // Staying for 1 ms costs 1.03 ms, for 4 ms 4.06 ms; the far migration costs 2.5 ms.
    let cells = [
        preempted(1, 30.0),
        preempted(4, 60.0),
        quiet(Event::IdleLeave, 1.0),
        quiet(Event::L3Migration, 90.0),
        quiet(Event::MemoryMigration, 2_500.0),
    ];
    let rules = advice(&cells).rules;
    assert_eq!(rules.len(), 1, "no thread waits where nothing runs: {rules:?}");
    let [close, far] = rules[0].moves.as_slice() else { panic!("{rules:?}") };
    // The close one pays before the shortest preemption ends: of 30 us at most, by the estimate a 0.03 of the wait.
    assert_eq!(close.known_by, WaitOrigin::BelowAll { shortest_us: 1_000.0 });
    assert!(near(close.pays_from, [60.0, 90.0 / 1.03, 90.0]), "{close:?}");
    // Beyond 1 ms a preemption costs 0.01 of the wait more: 2456 us and 44.6.
    assert_eq!(far.known_by, WaitOrigin::Measured);
    assert!(near(far.pays_from, [2_455.5; 3]), "{far:?}");
    assert!(!close.at_most && (close.n, close.replicates, close.length_us) == (41, Some(41), 4e3));
    let of = |wait| at(&cells, wait).waits[0].verdict;
    let near = Preference::Move(Event::L3Migration);
    assert_eq!([50, 75, 100].map(of), [Preference::Stay, Preference::Unknown, near]);
}

#[test]
fn a_wait_that_was_asked_for_is_the_only_one_and_its_preemption_is_read_off_the_curve() {
    let cells = [preempted(1, 30.0), preempted(4, 60.0), quiet(Event::L3Migration, 90.0)];
    let rule = at(&cells, 2_500);
    assert_eq!((rule.waits.len(), rule.waits[0].wait_us), (1, 2_500.0));
    assert!(near(rule.waits[0].stay, [45.0; 3]), "{rule:?}");
    // A preemption that is longer than all that were measured has no upper bound, and the wait decides all the same.
    let long = at(&cells, 25_000);
    assert_eq!(long.waits[0].stay.high_us, None);
    assert_eq!(long.waits[0].verdict, Preference::Move(Event::L3Migration));
    assert_eq!(advice(&cells).rules[0].waits.len(), 9);
}

#[test]
fn a_migration_after_an_absence_in_company_bounds_a_move_at_once_and_never_advises_to_stay() {
    let cells = [
        Of { ms: 1, ..loaded(Event::Preemption, 30.0) },
        loaded(Event::Preemption, 30.0),
        loaded(Event::L3Migration, 2_000.0),
    ];
    let bounded = advice(&cells);
    let it = &bounded.rules[0].moves[0];
    assert!(it.at_most && near(it.pays_from, [0.0, 1_970.0, 1_970.0]), "{it:?}");
    let lacking = bounded.lacking.join("\n");
    assert!(
        lacking.contains("--load constructed --event") && lacking.contains("--length 0us"),
        "{lacking}"
    );
    let of = |wait| at(&cells, wait).waits[0].verdict;
    assert_eq!([1, 1_900, 2_000].map(of)[..2], [Preference::Unknown; 2]);
    assert_eq!(of(2_000), Preference::Move(Event::L3Migration));
    // Measured at once, it is what it is.
    let at_once =
        advice(&[&cells[..], &[Of { ms: 0, ..loaded(Event::L3Migration, 500.0) }]].concat());
    let it = &at_once.rules[0].moves[0];
    assert!(!it.at_most && it.length_us == 0.0 && near(it.cost, [500.0; 3]), "{it:?}");
    assert!(!at_once.lacking.iter().any(|it| it.contains("--length 0us")), "{:?}", at_once.lacking);
}

#[test]
fn a_migration_while_nothing_runs_is_preferred_to_one_in_company() {
    let beside = Of { by: Absence::Preemptor, ..quiet(Event::L3Migration, 200.0) };
    let it =
        advice(&[preempted(4, 30.0), beside, quiet(Event::L3Migration, 90.0)]).rules[0].moves[0];
    assert!(!it.at_most && near(it.cost, [90.0; 3]), "{it:?}");
    let it = advice(&[preempted(4, 30.0), beside]).rules[0].moves[0];
    assert!(it.at_most && near(it.cost, [200.0; 3]), "{it:?}");
}

#[test]
fn what_is_shorter_or_longer_than_all_that_was_measured_has_the_command_that_measures_it() {
    let short = advice(&[preempted(4, 30.0), quiet(Event::L3Migration, 90.0)]).lacking.join("\n");
    let command =
        "`corehop measure synthetic --load idle --event preemption --length 90us -o more.parquet`";
    assert!(short.contains("shorter") && short.contains(command), "{short}");
    let long = advice(&[preempted(1, 30.0), quiet(Event::L3Migration, 2_500.0)]);
    assert_eq!(long.rules[0].moves[0].known_by, WaitOrigin::BeyondAll { longest_us: 1_000.0 });
    let long = long.lacking.join("\n");
    assert!(long.contains("longer") && long.contains("--event preemption --length 2ms"), "{long}");
    let both = [preempted(1, 30.0), preempted(4, 30.0), quiet(Event::L3Migration, 2_500.0)];
    assert_eq!(advice(&both).lacking, Vec::<String>::new());
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
    let moves = advice.rules.iter().map(|rule| rule.moves.iter().map(|it| it.event).collect());
    let moves: Vec<Vec<Event>> = moves.collect();
    assert_eq!(moves, [[Event::L3Migration], [Event::MemoryMigration]]);
}

#[test]
fn company_costs_what_a_preemption_costs_beyond_an_absence_of_the_same_length() {
    let both = advice(&[
        preempted(4, 30.0),
        quiet(Event::L3Migration, 10.0),
        quiet(Event::IdleLeave, 4.0),
    ]);
    let saved = &both.isolation[0];
    assert!((saved.saves.estimate_us - 26.0).abs() < 1e-9, "{saved:?}");
    assert_eq!((saved.n, saved.length_us), (41, 4_000.0));
}

#[test]
fn half_of_the_greatest_cost_is_there_after_the_warm_budget() {
    let after = |ms, us| Of { ms, ..loaded(Event::Preemption, us) };
    let moved = |ms| Of { ms, ..loaded(Event::L3Migration, 10.0) };
    let cells = [after(1, 5.0), after(4, 20.0), after(16, 40.0), moved(1), moved(4), moved(16)];
    let constants = &advice(&cells).constants[0];
    assert_eq!(constants.warm_budget_us, Some(4_000.0));
    assert_eq!(constants.warm_budget_n, Some((41, Some(41))));
    // Whatever wait is asked about: constants are of absences that were measured.
    let wanted = AdviceQuery { length: Some(Nanos::from_millis(300)), ..wanted() };
    assert_eq!(&advise(&model(&cells), &wanted).unwrap().constants[0], constants);
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
    let (sentence, cost) = (advice.sentence(), extra.cost);
    let [low, high] = [cost.low_us, cost.high_us].map(|us| format!("{:.0}", 1e3 * us.unwrap()));
    let stated = format!("sched_migration_cost_ns: 6000 [{low}, {high}] (");
    assert!(sentence.contains(&stated), "{sentence}");
}

#[test]
fn a_constant_whose_interval_holds_zero_or_that_nothing_is_subtracted_from_is_not_stated() {
    let vague = Of { spread: 9.0, ..quiet(Event::L3Migration, 5.0) };
    let held = advice(&[quiet(Event::IdleLeave, 4.0), vague]);
    assert_eq!(held.constants[0].migration, None);
    let why = held.constants[0].withheld.as_ref().unwrap();
    assert!(why.contains("may be zero") && why.contains("41 in 41"), "{why}");
    let unknown = format!("sched_migration_cost_ns: unknown, because {why}.");
    assert!(held.sentence().ends_with(&unknown), "{}", held.sentence());
    let gain = advice(&[quiet(Event::IdleLeave, 40.0), quiet(Event::L3Migration, 5.0)]);
    assert!(gain.constants[0].withheld.as_ref().unwrap().contains("less than staying"));
    let other = Of { ms: 1, ..quiet(Event::IdleLeave, 1.0) };
    let unlike = advice(&[other, quiet(Event::L3Migration, 5.0)]);
    assert!(unlike.constants.is_empty(), "{unlike:?}");
}

#[test]
fn where_the_curve_pools_sizes_the_wait_reaches_as_far_as_both() {
    let of = |kib, event, us, spread| Of { kib, spread, ..quiet(event, us) };
    let mut fit = DelayFitter::new(Estimator::Difference);
    let platform = corehop_plan::platform::Platform::named("xeon_x5650").unwrap().unwrap();
    fit.machine(&platform, &corehop_stats::balance::LevelLatencies::of(&platform, &[]));
    for cell in [
        preempted(1, 1.0),
        preempted(4, 1.0),
        Of { kib: 128, ..preempted(1, 1.0) },
        Of { kib: 128, ..preempted(4, 1.0) },
        of(64, Event::L3Migration, 1_300.0, 450.0),
        of(128, Event::L3Migration, 1_100.0, 450.0),
    ] {
        let of = samples(&cell).into_iter();
        fit.take(&of.map(|it| Sample { machine: "xeon_x5650".into(), ..it }).collect::<Vec<_>>());
    }
    let rules = advise(&fit.finish(), &wanted()).unwrap().rules;
    let waits = [rules[0].moves[0].pays_from, rules[1].moves[0].pays_from];
    assert_eq!(waits[0], waits[1]);
    assert!((waits[0].estimate_us - 1_199.0).abs() < 1e-6, "{waits:?}");
}

#[test]
fn what_was_not_measured_is_told_and_never_advised_on() {
    let alone = advice(&[quiet(Event::Preemption, 30.0)]);
    assert!(alone.rules.is_empty() && !alone.is_any());
    let why = &alone.silent[0];
    assert!(
        why.starts_with("load idle, nothing ran meanwhile: no migration was measured"),
        "{why}"
    );
    assert!(why.contains("--length 0us -o more.parquet` measures it"), "{why}");
    let unanswered = alone.sentence();
    assert!(
        unanswered.starts_with("No advice: load idle, nothing ran meanwhile: no"),
        "{unanswered}"
    );
    let moved = advice(&[quiet(Event::L3Migration, 30.0), quiet(Event::IdleLeave, 3.0)]);
    assert_eq!(moved.silent.len(), 1);
    let why = &moved.silent[0];
    assert!(
        why.contains("no preemption was measured under the load idle; `corehop measure synthetic"),
        "{why}"
    );
    // A size beyond those measured names the option.
    let wanted = AdviceQuery { wss: vec![Bytes::from_mib(1), Bytes::from_kib(64)], ..wanted() };
    let large = [preempted(1, 1.0), quiet(Event::L3Migration, 30.0)];
    let advice = advise(&model(&large), &wanted).unwrap();
    assert_eq!(advice.rules.len(), 1);
    assert!(
        advice.silent[0].contains("no preemption was measured with a working set of 1MiB or more"),
        "{advice:?}"
    );
    assert!(advice.silent[0].contains("`--wss 1MiB`"), "{advice:?}");
}

#[test]
fn a_choice_of_what_preempts_leaves_the_migrations_during_which_nothing_ran() {
    let cells =
        [preempted(4, 30.0), loaded(Event::Preemption, 5.0), quiet(Event::L3Migration, 90.0)];
    let only = vec![("preempted_by".to_owned(), "preemptor".to_owned())];
    let advice = advise(&model(&cells), &AdviceQuery { only, ..wanted() }).unwrap();
    assert_eq!(advice.rules.len(), 1);
    assert_eq!(advice.rules[0].company.preempted_by, Absence::Preemptor);
}

#[test]
fn the_sentence_has_the_shortest_and_the_longest_wait_of_each_class_or_the_advice_for_the_wait() {
    let of = |kib, ms, us| Of { kib, ..preempted(ms, us) };
    let to = |kib, event, us| Of { kib, ..quiet(event, us) };
    let cells = [
        of(64, 1, 0.0),
        of(64, 4, 0.0),
        of(256, 1, 0.0),
        of(256, 4, 0.0),
        to(64, Event::L3Migration, 1_100.0),
        to(256, Event::L3Migration, 1_200.0),
        to(256, Event::MemoryMigration, 1_500.0),
    ];
    let cells: Vec<Of> = cells.into_iter().map(|it| Of { spread: 0.0, ..it }).collect();
    let all = advice(&cells).sentence();
    let near = "meanwhile: moving by l3_migration pays from 1100 us [1100, 1100] (64 KiB) to 1200 us [1200, 1200] \
                (256 KiB) of expected wait on, by memory_migration from ";
    assert!(all.starts_with("Load idle, a preemptor walked 4 MiB meanwhile"), "{all}");
    assert!(all.contains(near) && all.contains("1500 us [1500, 1500] (256 KiB)."), "{all}");
    let asked = |us| {
        let wanted = AdviceQuery { length: Some(Nanos::from_micros(us)), ..wanted() };
        advise(&model(&cells), &wanted).unwrap()
    };
    let parts = asked(1_150).sentence();
    let words = "for a wait of 1150 us, stay with 256 KiB; move (l3_migration) with 64 KiB: staying costs the wait and 0 us, ";
    assert!(parts.contains(words), "{parts}");
    let whole = asked(9_000).sentence();
    assert!(
        whole.contains("for a wait of 9 ms, move (l3_migration) with all sizes: staying"),
        "{whole}"
    );
}

#[test]
fn a_wait_that_no_size_decides_is_no_advice() {
    let wide = Of { spread: 60.0, ..quiet(Event::L3Migration, 90.0) };
    let cells = [preempted(1, 0.0), wide];
    let wanted = AdviceQuery { length: Some(Nanos::from_micros(90)), ..wanted() };
    let advice = advise(&model(&cells), &wanted).unwrap();
    assert_eq!(advice.rules[0].waits[0].verdict, Preference::Unknown);
    assert!(!advice.is_any());
    assert!(advice.sentence().contains("unknown"), "{}", advice.sentence());
    assert!(advise(&model(&cells), &self::wanted()).unwrap().is_any());
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
