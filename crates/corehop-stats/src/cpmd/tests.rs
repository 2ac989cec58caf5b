// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of models that are fitted to made-up samples with a known answer.

use super::*;
use crate::example::sample;
use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;
use corehop_plan::workload::{Absence, Event};

const CACHES: [u64; 2] = [256 << 10, 8 << 20];

/// Returns a set of `n` samples of one size, whose delays are spread evenly around `us`.
fn samples(kib: u64, us: f64, n: u32) -> Vec<Sample> {
    let of = |k: u32| {
        let spread = f64::from(k) - f64::from(n - 1) / 2.0;
        let delay = 1e3 * us + spread;
        // A replicate each, in an order without a trend.
        let replicate = Some(u64::from(k * 17 % n));
        let resumed_ns = 1e3 + delay;
        Sample { wss_bytes: kib << 10, warm_ns: 1e3, resumed_ns, replicate, ..sample() }
    };
    (0..n).map(of).collect()
}

fn fitted(sizes: &[(u64, f64)]) -> DelayModel {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for &(kib, us) in sizes {
        fit.take(&samples(kib, us, 41));
    }
    let caches = Caches { sizes: CACHES.to_vec(), ..Caches::default() };
    fit.machines.insert("box".to_owned(), caches);
    fit.finish()
}

fn asked(kib: u64) -> DelayQuery {
    DelayQuery {
        event: Event::Preemption,
        load: "idle".to_owned(),
        wss: Bytes::from_kib(kib),
        length: None,
        statistic: Statistic::Median,
        method: None,
        only: Vec::new(),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

#[test]
fn at_a_size_that_was_measured_the_answer_is_what_was_measured() {
    let model = fitted(&[(16, 10.0), (64, 40.0)]);
    let answer = model.predict(&asked(64)).unwrap();
    assert!(near(answer.cost.estimate_us, 40.0), "{answer:?}");
    assert_eq!((answer.place, answer.n), (Some(ValueOrigin::Measured), Some(41)));
    let (low, high) = (answer.cost.low_us.unwrap(), answer.cost.high_us.unwrap());
    assert!(low < 40.0 && 40.0 < high && high - low < 0.05);
}

#[test]
fn between_two_sizes_of_one_cache_it_lies_between_theirs_along_a_power() {
    let model = fitted(&[(16, 10.0), (64, 80.0)]);
    let answer = model.predict(&asked(32)).unwrap();
    // Four times the size costs eight times as much: twice the size, the root of eight.
    assert!(near(answer.cost.estimate_us, 10.0 * 8.0_f64.sqrt()), "{answer:?}");
    let (low, high) = (answer.cost.low_us.unwrap(), answer.cost.high_us.unwrap());
    assert!(low < 10.0 && 80.0 < high && high < 80.1);
}

#[test]
fn across_the_size_of_a_cache_the_interval_reaches_up_to_that_size() {
    // From 128 KiB the cost may double up to the cache of 256 KiB, and fall again beyond.
    let model = fitted(&[(128, 100.0), (512, 120.0)]);
    let answer = model.predict(&asked(384)).unwrap();
    assert!((200.0..200.1).contains(&answer.cost.high_us.unwrap()), "{answer:?}");
}

#[test]
fn within_a_cache_a_larger_working_set_never_costs_less() {
    // 32 KiB came out below 16 KiB by chance; beyond the last cache costs may fall.
    let model =
        fitted(&[(16, 10.002), (32, 10.0), (64, 30.0), (9 << 10, 900.0), (18 << 10, 100.0)]);
    let at = |kib| model.predict(&asked(kib)).unwrap();
    let us = |kib| at(kib).cost.estimate_us;
    // Measured sizes are answered with their samples, and the curve stands beside them.
    assert!(near(us(16), 10.002) && near(us(32), 10.0) && near(us(64), 30.0));
    let curve = at(32).curve.unwrap();
    assert!(near(curve.estimate_us, 10.001));
    let [low, high] = [16, 32].map(|kib| at(kib).cost);
    assert!(curve.low_us <= high.low_us && curve.low_us <= low.low_us);
    assert!(curve.high_us >= low.high_us && curve.high_us >= high.high_us);
    assert!(near(us(9 << 10), 900.0) && near(us(18 << 10), 100.0));
    let between: Vec<f64> = (17..=63).filter(|&kib| kib != 32).map(us).collect();
    assert!(between.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{between:?}");
}

#[test]
fn two_disjoint_intervals_that_contradict_the_law_are_both_answered_as_measured() {
    let model = fitted(&[(16, 19.8), (32, -8.3), (64, 30.0)]);
    for (kib, us) in [(16, 19.8), (32, -8.3)] {
        let answer = model.predict(&asked(kib)).unwrap();
        assert!(near(answer.cost.estimate_us, us) && answer.curve.is_none(), "{answer:?}");
    }
}

#[test]
fn below_the_smallest_size_it_is_no_more_than_there_and_beyond_the_largest_there_is_no_answer() {
    let model = fitted(&[(16, 10.0), (64, 40.0)]);
    let answer = model.predict(&asked(4)).unwrap();
    assert!(near(answer.cost.estimate_us, 2.5), "{answer:?}");
    assert_eq!(answer.cost.low_us, Some(0.0));
    assert!((10.0..10.1).contains(&answer.cost.high_us.unwrap()));
    let beyond = model.predict(&asked(65)).unwrap_err().to_string();
    assert!(beyond.contains("65 KiB") && beyond.contains("16 KiB, 64 KiB"), "{beyond}");
}

#[test]
fn a_cost_grows_with_the_length_and_lengths_not_measured_are_told() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for (label, length_ms, us) in [("fixed_1ms", 1, 10.0), ("fixed_4ms", 4, 40.0)] {
        let of_length = |sample: Sample| Sample {
            preemption_length: label.into(),
            length_ns: 1e6 * f64::from(length_ms),
            ..sample
        };
        fit.take(&samples(64, us, 41).into_iter().map(of_length).collect::<Vec<_>>());
    }
    let model = fit.finish();
    let at = |length: Option<u64>| {
        let asked = DelayQuery { length: length.map(Nanos::from_millis), ..asked(64) };
        model.predict(&asked).unwrap()
    };
    assert!(near(at(Some(1)).cost.estimate_us, 10.0) && near(at(None).cost.estimate_us, 40.0));
    assert!(near(at(Some(2)).cost.estimate_us, 20.0));
    assert_eq!(at(Some(2)).nearest_length_us, None);
    assert_eq!(at(Some(9)).nearest_length_us, Some(4_000.0));
}

#[test]
fn each_method_says_how_far_off_it_was_on_sizes_that_it_had_not_seen() {
    // The cost is exactly four times that of a quarter of the size: the curve loses nothing.
    let model = fitted(&[(4, 10.0), (16, 40.0), (64, 160.0), (256, 640.0)]);
    let [errors] = model.curves[0].errors.as_slice() else {
        panic!("{:?}", model.curves[0].errors)
    };
    assert_eq!((errors.method, errors.points, errors.inside), (Method::Fitted, 2, Some(2)));
    assert!(errors.p90 < 1e-6);
    // A kink of the factor two shows as an error.
    let kinked = fitted(&[(4, 10.0), (16, 80.0), (64, 160.0)]);
    assert!(near(kinked.curves[0].errors[0].median, 0.5), "{:?}", kinked.curves[0].errors);
}

#[test]
fn a_computed_model_answers_no_measured_size_and_beats_the_curve_only_on_the_same_points() {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let mut fit = DelayFitter::new(Estimator::Difference);
    fit.machine(&platform, &LevelLatencies::of(&platform, &[]));
    // Costs that no cache explains, on a curve without a kink.
    for kib in [16, 32, 64, 128] {
        let like = |it: Sample| Sample {
            machine: "xeon_x5650".into(),
            polluter: Some("shuffled 4 MiB write 0.5".into()),
            ..it
        };
        fit.take(&samples(kib, 3.0 * kib as f64, 41).into_iter().map(like).collect::<Vec<_>>());
    }
    let model = fit.finish();
    let mean = |kib| DelayQuery { statistic: Statistic::Mean, ..asked(kib) };
    let answer = model.predict(&mean(128)).unwrap();
    assert_eq!((answer.method, answer.place), (Method::Fitted, Some(ValueOrigin::Measured)));
    assert!((answer.cost.estimate_us - 384.0).abs() < 0.1, "{answer:?}");
    assert_eq!(model.predict(&mean(96)).unwrap().method, Method::Fitted);
    assert!(model.predict(&mean(129)).is_err());
    // Four points are too few for an interval.
    for method in [Method::Survivors, Method::WorstCase] {
        let computed = DelayQuery { method: Some(method), ..mean(64) };
        let answer = model.predict(&computed).unwrap();
        assert_eq!((answer.cost.low_us, answer.cost.high_us), (None, None), "{answer:?}");
        assert_eq!((answer.errors.unwrap().inside, answer.n), (None, None));
    }
}

#[test]
fn the_interval_of_a_computed_cost_holds_most_of_what_was_measured_if_there_are_ten_points() {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let levels = LevelLatencies::of(&platform, &[]);
    let hierarchy = AnalyticHierarchy::of(&platform, &levels).unwrap();
    let mut fit = DelayFitter::new(Estimator::Difference);
    fit.machine(&platform, &levels);
    let sizes: Vec<u64> = (4..16).map(|k| 32 * k).collect();
    for &kib in &sizes {
        let like = |it: Sample| Sample {
            machine: "xeon_x5650".into(),
            polluter: Some("shuffled 4 MiB write 0.5".into()),
            ..it
        };
        let one = like(samples(kib, 1.0, 1).remove(0));
        let key = SeriesKey::of(&CellKey::of(&one));
        let computed = hierarchy.expected(&key, kib << 10, one.length_ns / 1e3).unwrap();
        // Up to a quarter more than computed.
        let us = computed.survivors.estimate().estimate_us * (1.0 + (kib % 7) as f64 / 24.0);
        fit.take(&samples(kib, us, 41).into_iter().map(like).collect::<Vec<_>>());
    }
    let model = fit.finish();
    let errors = model.curves[0].errors.iter().find(|it| it.method == Method::Survivors).unwrap();
    assert!(errors.points == 12 && errors.inside >= Some(10), "{errors:?}");
    let asked = DelayQuery {
        statistic: Statistic::Mean,
        method: Some(Method::Survivors),
        ..asked(sizes[5])
    };
    let cost = model.predict(&asked).unwrap().cost;
    let (low, high) = (cost.low_us.unwrap(), cost.high_us.unwrap());
    assert!(low < 0.9 * cost.estimate_us && high > 1.1 * cost.estimate_us, "{cost:?}");
}

#[test]
fn a_question_that_several_series_answer_names_in_what_they_differ() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for write_ratio in [0.25, 0.75] {
        let with = |sample: Sample| Sample { write_ratio, ..sample };
        fit.take(&samples(64, 10.0, 41).into_iter().map(with).collect::<Vec<_>>());
    }
    let model = fit.finish();
    let both = model.predict(&asked(64)).unwrap_err().to_string();
    assert!(both.contains("write_ratio (0.25, 0.75)"), "{both}");
    let only = |value: &str| vec![("write_ratio".to_owned(), value.to_owned())];
    assert!(model.predict(&DelayQuery { only: only("0.25"), ..asked(64) }).is_ok());
    let none =
        model.predict(&DelayQuery { only: only("0.3"), ..asked(64) }).unwrap_err().to_string();
    assert!(none.contains("the measured values are 0.25, 0.75"), "{none}");
    let field = vec![("colour".to_owned(), "red".to_owned())];
    let none = model.predict(&DelayQuery { only: field, ..asked(64) }).unwrap_err().to_string();
    assert!(none.contains("no `colour`") && none.contains("write_ratio"), "{none}");
    let load = model.predict(&DelayQuery { load: "heavy".to_owned(), ..asked(64) }).unwrap_err();
    assert!(load.to_string().contains("the measured values are idle"));
}

#[test]
fn samples_that_are_not_valid_are_left_out_and_without_samples_there_is_no_answer() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    let invalid = |sample: Sample| Sample { valid: false, ..sample };
    fit.take(&samples(64, 10.0, 41).into_iter().map(invalid).collect::<Vec<_>>());
    let model = fit.finish();
    assert_eq!(model.curves, []);
    assert!(model.predict(&asked(64)).unwrap_err().to_string().contains("no sample"));
    let few = fitted(&[(64, 10.0)]);
    let p99 = DelayQuery { statistic: Statistic::P99, ..asked(64) };
    assert!(few.predict(&p99).unwrap_err().to_string().contains("more than 41"));
}

/// Removes the first field of this name from a value; returns whether there was one.
fn take(value: &mut serde_json::Value, key: &str) -> bool {
    match value {
        serde_json::Value::Object(map) => {
            map.remove(key).is_some() || map.values_mut().any(|it| take(it, key))
        }
        serde_json::Value::Array(all) => all.iter_mut().any(|it| take(it, key)),
        _ => false,
    }
}

#[test]
fn a_model_is_the_same_after_a_trip_through_its_file_and_other_files_are_refused() {
    let model = fitted(&[(4, 10.0), (16, 40.0), (64, 160.0 / 3.0)]);
    assert_eq!(DelayModel::from_json(&model.to_json()).unwrap(), model);
    let later = model.to_json().replace(MODEL_SCHEMA, "corehop-model-9");
    let error = DelayModel::from_json(&later).unwrap_err().to_string();
    assert!(
        error.contains("corehop-model-9") && error.contains("fit the samples again"),
        "{error}"
    );
    // A model of a corehop that knew no replicates.
    let earlier = model.to_json().replace("\"replicates\"", "\"without\"");
    let error = DelayModel::from_json(&earlier).unwrap_err().to_string();
    assert!(error.contains("`without`") && error.contains("fit the samples again"), "{error}");
    let mut whole = model.clone();
    whole.machines.get_mut("box").unwrap().hierarchy = Some(hierarchy());
    for key in ["replicates", "own", "events", "peers"] {
        let mut value = serde_json::json!(whole);
        assert!(take(&mut value, key), "{key}");
        let error = DelayModel::from_json(&value.to_string()).unwrap_err().to_string();
        assert!(error.contains(&format!("missing field `{key}`")), "{error}");
    }
    for text in ["", "{}", "[1]", &model.to_json()[..200]] {
        assert!(DelayModel::from_json(text).unwrap_err().to_string().contains("not a model"));
    }
}

/// Returns a hierarchy with 32 KiB of 8 ways at 1 ns, 1 MiB of 16 ways at 10 ns, and memory at 100
/// ns.
fn hierarchy() -> AnalyticHierarchy {
    let level = |level, bytes: u64, ways: u32, hit_ns| analytic::CacheLevel {
        level,
        bytes,
        sets: bytes / (64 * u64::from(ways)),
        ways,
        hit_ns,
    };
    AnalyticHierarchy {
        caches: vec![level(1, 32 << 10, 8, 1.0), level(2, 1 << 20, 16, 10.0)],
        memory_ns: 100.0,
        peers: BTreeMap::new(),
    }
}

fn key(event: Event) -> SeriesKey {
    let polluter = Some("shuffled 4 MiB write 0.5".into());
    let preempted_by =
        if event == Event::Preemption { Absence::Preemptor } else { Absence::Nothing };
    SeriesKey::of(&CellKey::of(&Sample { event, polluter, preempted_by, ..sample() }))
}

#[test]
fn what_every_line_from_elsewhere_costs_is_lines_times_the_difference() {
    let of = |event| hierarchy().expected(&key(event), 16 << 10, 4e3).unwrap();
    // 256 lines; warm they take 1 ns each.
    assert!(near(of(Event::Flush).survivors.estimate().estimate_us, 0.256 * 99.0));
    assert!(near(of(Event::L2Migration).survivors.estimate().estimate_us, 0.256 * 9.0));
    assert!(near(of(Event::IdleLeave).survivors.estimate().estimate_us, 0.0));
    assert!(near(of(Event::IdleLeave).worst_case.estimate().estimate_us, 0.256 * 99.0));
    // After 4 ms a preemptor has walked 40,000 lines: nothing survives.
    let preempted = of(Event::Preemption).survivors.estimate().estimate_us / (0.256 * 99.0);
    assert!((0.999..=1.0).contains(&preempted), "{preempted}");
}

#[test]
fn the_published_worst_case_of_10_mib_is_8_44_ms() {
    // Wächtler 2012, section 5.3.2: 46 and 183 cycles at 2.66 GHz, all in the third level.
    let cycle = 1.0 / 2.66;
    let cache = analytic::CacheLevel {
        level: 3,
        bytes: 12 << 20,
        sets: 12_288,
        ways: 16,
        hit_ns: 46.0 * cycle,
    };
    let machine =
        AnalyticHierarchy { caches: vec![cache], memory_ns: 183.0 * cycle, peers: BTreeMap::new() };
    let expected = machine.expected(&key(Event::Preemption), 10 << 20, 4e3).unwrap();
    assert!((expected.worst_case.estimate().estimate_us / 1e3 - 8.44).abs() < 0.005);
}

#[test]
fn a_short_preemption_leaves_what_still_fits_and_misses_cascade_through_a_full_set() {
    let cache = &hierarchy().caches[0];
    // 64 sets of 8: 256 lines are 4 in each; 256 others fit beside them, one more in each set do not.
    assert!(near(cache.survivors(256, 256, false), 1.0));
    assert!(near(cache.survivors(256, 257, false), 0.0));
    let random = cache.survivors(256, 256, true);
    assert!(0.3 < random && random < 0.7, "{random}");
    assert!(cache.survivors(256, 10, true) > cache.survivors(256, 100, true));
    assert_eq!((cache.survivors(0, 5, true), cache.survivors(256, 0, false)), (1.0, 1.0));
}

#[test]
fn survivors_agree_with_a_cache_walked_line_by_line() {
    // The obvious twin: sets as lists, lines in random sets, walks in one order.
    let mut state = 3_u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (sets, ways, lines, walked) = (64, 8, 256_u64, 192_u64);
    let mut kept = 0;
    let rounds = 40;
    for _ in 0..rounds {
        let mut cache: Vec<Vec<u64>> = vec![Vec::new(); sets];
        let places: Vec<usize> = (0..lines + walked).map(|_| draw(sets)).collect();
        let mut touch = |line: u64| {
            let set = &mut cache[places[line as usize]];
            let found = set.iter().position(|&it| it == line);
            found.map(|at| set.remove(at));
            set.push(line);
            if set.len() > ways {
                set.remove(0);
            }
            found.is_some()
        };
        (0..lines).for_each(|line| {
            touch(line);
        });
        (0..lines).for_each(|line| {
            touch(line);
        });
        (lines..lines + walked).for_each(|line| {
            touch(line);
        });
        kept += (0..lines).filter(|&line| touch(line)).count();
    }
    let seen = kept as f64 / (rounds * lines) as f64;
    let level = analytic::CacheLevel { level: 1, bytes: 32 << 10, sets: 64, ways: 8, hit_ns: 1.0 };
    let computed = level.survivors(lines, walked, true);
    assert!((seen - computed).abs() < 0.02, "{seen} {computed}");
}

#[test]
fn a_platform_with_sizes_ways_and_times_gives_a_hierarchy() {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let hierarchy = AnalyticHierarchy::of(&platform, &LevelLatencies::of(&platform, &[])).unwrap();
    assert_eq!(hierarchy.caches.len(), 3);
    let l3 = &hierarchy.caches[2];
    assert_eq!((l3.sets, l3.ways), (12_288, 16));
    assert!(l3.hit_ns > hierarchy.caches[1].hit_ns && hierarchy.memory_ns > l3.hit_ns);
}

#[test]
fn a_class_that_was_measured_can_happen_though_the_platform_does_not_know_of_it() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    let events = Some(vec![Event::Preemption, Event::L3Migration]);
    fit.machines.insert("box".to_owned(), Caches { events, ..Caches::default() });
    let far = |it: Sample| Sample { event: Event::MemoryMigration, ..it };
    fit.take(&samples(64, 90.0, 41).into_iter().map(far).collect::<Vec<_>>());
    let events = fit.finish().machines["box"].events.clone().unwrap();
    assert_eq!(events, [Event::Preemption, Event::L3Migration, Event::MemoryMigration]);
}

#[test]
fn beside_a_load_the_dearest_neighbour_answers_unless_one_is_asked_for() {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for (class, us) in [(Event::L3Migration, 40.0), (Event::MemoryMigration, 90.0)] {
        let beside = |it: Sample| Sample {
            load: "constructed".into(),
            preempted_by: Absence::Load,
            pair_class: Some(class),
            ..it
        };
        fit.take(&samples(64, us, 41).into_iter().map(beside).collect::<Vec<_>>());
    }
    let model = fit.finish();
    let asked = DelayQuery { load: "constructed".to_owned(), ..asked(64) };
    assert!(near(model.predict(&asked).unwrap().cost.estimate_us, 90.0));
    let only = vec![("pair_class".to_owned(), "l3_migration".to_owned())];
    assert!(near(model.predict(&DelayQuery { only, ..asked }).unwrap().cost.estimate_us, 40.0));
}

/// Returns a model of delays of 64 KiB after preemptors of two sizes, as
/// `--preemptor-wss 64KiB,1MiB` measures them.
fn by_two_preemptors() -> DelayModel {
    let mut fit = DelayFitter::new(Estimator::Difference);
    for (polluter, us) in [("shuffled 64 KiB write 0.5", 10.0), ("shuffled 1 MiB write 0.5", 50.0)]
    {
        let of = |it: Sample| Sample { polluter: Some(polluter.into()), ..it };
        fit.take(&samples(64, us, 41).into_iter().map(of).collect::<Vec<_>>());
    }
    fit.finish()
}

#[test]
fn preemptors_of_two_sizes_give_two_delays_and_one_size_is_no_axis() {
    let model = by_two_preemptors();
    let found = model.by_preemptor(&asked(64)).unwrap();
    let us = |series| model.reading(series, &asked(64)).unwrap().cost.estimate_us;
    let found: Vec<(u64, f64)> = found.into_iter().map(|(bytes, it)| (bytes, us(it))).collect();
    assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), [64 << 10, 1 << 20]);
    assert!(near(found[0].1, 10.0) && near(found[1].1, 50.0));
    let mut fit = DelayFitter::new(Estimator::Difference);
    fit.take(&samples(64, 10.0, 41));
    assert_eq!(fit.finish().by_preemptor(&asked(64)).unwrap_err(), NoAnswer::OnePreemptor);
}

#[test]
fn where_the_preemptor_is_not_said_the_dearest_answers() {
    let cost = by_two_preemptors().predict(&asked(64)).unwrap().cost;
    assert!(near(cost.estimate_us, 50.0));
}
