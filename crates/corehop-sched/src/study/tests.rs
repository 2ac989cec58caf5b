// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of whole studies: against the direct computation, in shards, and with known answers.

use super::run::{VerdictMethod, run_by};
use super::*;
use crate::catalogue;
use crate::overhead;
use crate::verdict::Verdict;
use corehop_plan::samples::Verification;
use corehop_plan::workload::generate;
use corehop_plan::workload::task::TaskSet;

/// All packings in small clusters, where sets fail for many reasons.
const SMALL: &str = r#"
id = "small"
title = "small"
seed = 5
sets = 60
cpus = 4
caps = { from = 0.6, to = 4.0, step = 0.1 }
delays_us = [0, 400, 1500]
tasks.deadline = "implicit"

[choices.tasks]
heavy = { tasks = { utilisation = { uniform = [0.3, 0.9] }, period_us = "short" } }
bimodal = { tasks = { utilisation = "bimo-medium", period_us = { uniform = [3000, 33000] } } }

[choices.last]
discard = { tasks.last = "discard" }
scale = { tasks.last = "scale" }

[choices.packing]
nf = { schedulers = { p-edf.packing = "nf", c-edf.packing = "nf" } }
ff = { schedulers = { p-edf.packing = "ff", c-edf.packing = "ff" } }
bf = { schedulers = { p-edf.packing = "bf", c-edf.packing = "bf" } }
wf = { schedulers = { p-edf.packing = "wf", c-edf.packing = "wf" } }
awf = { schedulers = { p-edf.packing = "awf", c-edf.packing = "awf" } }
nfd = { schedulers = { p-edf.packing = "nfd", c-edf.packing = "nfd" } }
ffd = { schedulers = { p-edf.packing = "ffd", c-edf.packing = "ffd" } }
bfd = { schedulers = { p-edf.packing = "bfd", c-edf.packing = "bfd" } }
wfd = { schedulers = { p-edf.packing = "wfd", c-edf.packing = "wfd" } }
awfd = { schedulers = { p-edf.packing = "awfd", c-edf.packing = "awfd" } }

[schedulers]
g-edf = { test = "soft-g-edf" }
p-edf = { test = "soft-g-edf", cluster = 1 }
c-edf = { test = "soft-g-edf", cluster = 2 }
listed = { test = "p-edf-wfd" }

[[crossover]]
of = "g-edf"
against = "p-edf"
step_us = 100
"#;

fn outcome(study: &SchedulabilityStudy, manner: VerdictMethod) -> StudyCounts {
    run_by(study, Shard::WHOLE, Some(2), &(), manner).unwrap()
}

#[test]
fn the_quick_way_counts_what_the_obvious_one_does() {
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    assert_eq!(study.readings.len(), 40);
    let quick = outcome(&study, VerdictMethod::Quick);
    assert_eq!(quick, outcome(&study, VerdictMethod::Obvious));
    // Some of everything: neither all sets fit nor none.
    let w = |name| quick.weighted_of(0, name, Time::new(400)).unwrap().value;
    assert!(0.0 < w("p-edf") && w("p-edf") < w("g-edf") && w("g-edf") < 1.0);
}

#[test]
fn a_cell_counts_the_sets_that_the_test_accepts() {
    // From the generator, through inflation, to the test by its name: nothing of the engine.
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    let outcome = outcome(&study, VerdictMethod::Quick);
    for (at, reading) in
        study.readings.iter().enumerate().filter(|(_, it)| it.name.ends_with("/wfd"))
    {
        let Generator::Capped(capped) = &reading.generator else { panic!() };
        for (scheduler, test) in [(0, "soft-g-edf"), (1, "p-edf-wfd"), (2, "soft-c-edf-2")] {
            for (d, &delay) in reading.delays.iter().enumerate() {
                for cap in [0, 12, 20, 34] {
                    let capped = generate::Capped { cap: reading.caps.at(cap), ..capped.clone() };
                    let yes = |index: &u64| {
                        let given = capped.set(5, *index);
                        let set = TaskSet::new(4, &given);
                        given.is_empty() || {
                            let charged = overhead::plain(&set.unwrap(), |_| delay);
                            let test = catalogue::test(test).unwrap();
                            test.run(charged.system()).verdict == Verdict::Schedulable
                        }
                    };
                    let expected = (0..60).filter(yes).count() as f64 / 60.0;
                    let share = outcome.schedulability(at, scheduler, d, cap).unwrap();
                    assert!(
                        (share.value - expected).abs() < 1e-12,
                        "{} {test} {cap}",
                        reading.name
                    );
                }
            }
        }
    }
}

#[test]
fn weighted_schedulability_is_the_mean_of_the_cells_by_their_caps() {
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    let outcome = outcome(&study, VerdictMethod::Quick);
    let reading = &study.readings[3];
    let (mut sum, mut whole) = (0.0, 0.0);
    for cap in 0..reading.caps.len() {
        let share = outcome.schedulability(3, 1, 1, cap).unwrap().value;
        sum += reading.caps.at(cap) * share;
        whole += reading.caps.at(cap);
    }
    let w = outcome.weighted(3, 1, 1).unwrap();
    assert!((w.value - sum / whole).abs() < 1e-12);
    assert!(w.low < w.value && w.value < w.high);
}

#[test]
fn parts_add_up_to_the_whole_to_the_last_byte() {
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    let whole = run(&study, Shard::WHOLE, Some(1), &()).unwrap();
    let bytes = |outcome: &StudyCounts| {
        let mut bytes = Vec::new();
        outcome.write(&mut bytes).unwrap();
        bytes
    };
    let file = |bytes: Vec<u8>| bytes::Bytes::from(bytes);
    // The last part first: the order does not matter.
    let parts = (0..7).rev().map(|at| {
        let shard = format!("{at}/7").parse().unwrap();
        let part = run(&study, shard, Some(2), &()).unwrap();
        assert!(!part.is_whole() && part.sets() < 10);
        StudyCounts::read(file(bytes(&part))).unwrap().0
    });
    let merged = StudyCounts::merged(parts).unwrap();
    assert_eq!(merged, whole);
    assert_eq!(bytes(&merged), bytes(&whole));
    assert_eq!(StudyCounts::read(file(bytes(&whole))).unwrap(), (whole, Verification::Verified));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    let part = |study: &SchedulabilityStudy, shard: &str| {
        run(study, shard.parse().unwrap(), None, &()).unwrap()
    };
    let mut first = part(&study, "0/20");
    let error = first.clone().merge(&part(&study, "0/10")).unwrap_err();
    assert!(error.to_string().contains("0/20") && error.to_string().contains("0/10"), "{error}");
    let other = study.clone().with(Some(6), None).unwrap();
    let error = first.clone().merge(&part(&other, "1/20")).unwrap_err();
    assert!(error.to_string().contains("seed 6"), "{error}");
    first.merge(&part(&study, "1/20")).unwrap();
    assert_eq!(StudyCounts::merged([]), Err(StudyCountsError::Nothing));
    assert_eq!(first.sets(), 6);
}

#[test]
fn a_reading_by_sums_and_by_breakdown_is_what_it_should_be() {
    // One CPU, two tasks, EDF: the set breaks down at U = 1, whatever it was; with n = 2 and periods of
    // hundreds of thousands the rounding up of execution times costs less than 1 in 1,000.
    let study = SchedulabilityStudy::parse(
        r#"
        id = "break"
        title = "breakdown"
        sets = 20
        cpus = 1
        measure = "breakdown"
        caps = { from = 0.2, to = 0.8, step = 0.3 }
        tasks = { count = 2, period_us = { log-uniform = [500000, 900000] } }
        schedulers = { edf = { test = "qpa" }, fp = { test = "p-fp-rta" } }
        "#,
    )
    .unwrap();
    let outcome = run(&study, Shard::WHOLE, None, &()).unwrap();
    for cap in 0..3 {
        let edf = outcome.schedulability(0, 0, 0, cap).unwrap();
        assert!(edf.value > 0.996 && edf.value <= 1.0, "{edf:?}");
        let fp = outcome.schedulability(0, 1, 0, cap).unwrap();
        // Liu and Layland: two tasks never fail below 2 (sqrt(2) - 1).
        assert!(fp.value > 0.828 && fp.value <= edf.value, "{fp:?}");
    }
    assert!(outcome.weighted(0, 0, 0).unwrap().value > 0.996);
}

#[test]
fn a_watcher_can_end_it() {
    struct Never;
    impl Progress for Never {
        fn advance(&self, _: u64) -> bool {
            false
        }
    }
    let study = SchedulabilityStudy::parse(SMALL).unwrap();
    assert_eq!(run(&study, Shard::WHOLE, None, &Never), Err(StudyRunError::Interrupted));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_expected() {
    let with = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        SchedulabilityStudy::parse(&SMALL.replace(from, to)).unwrap_err().to_string()
    };
    for (from, to, words) in [
        ("cpus = 4", "cpus = 0", ["cpus is 0", "expected 1"]),
        ("cpus = 4", "cpu = 4", ["unknown field", "cpu"]),
        ("to = 4.0", "to = 4.5", ["caps", "4 CPUs"]),
        ("step = 0.1", "step = 0.0", ["caps", "multiples"]),
        ("[0, 400, 1500]", "[400, 0]", ["delays_us", "ascending"]),
        ("[0, 400, 1500]", "[400, 900]", ["at_us is 0", "delays_us"]),
        ("sets = 60", "sets = 0", ["sets is 0", "expected 1"]),
        ("\"soft-g-edf\" }", "\"soft-gedf\" }", ["soft-gedf", "soft-g-edf"]),
        ("cluster = 2", "cluster = 3", ["cluster is 3", "4 CPUs"]),
        ("cluster = 2", "cluster = \"l2\"", ["c-edf", "platform"]),
        ("of = \"g-edf\"", "of = \"gedf\"", ["crossover", "gedf"]),
        ("\"bimo-medium\"", "\"bimo\"", ["bimo", "bimo-light"]),
        ("[0.3, 0.9]", "[0.3, 1.9]", ["utilisation", "up to 1"]),
        ("packing = \"nfd\"", "packing = \"nnd\"", ["nnd", "wfd"]),
    ] {
        let error = with(from, to);
        assert!(words.iter().all(|word| error.contains(word)), "{to}: {error}");
    }
}

#[test]
fn the_example_of_the_guide_is_a_study() {
    let guide = corehop_fixtures::text("docs/guide/studies.md");
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let study = SchedulabilityStudy::parse(example.unwrap()).unwrap().with(None, Some(20)).unwrap();
    let outcome = run(&study, Shard::WHOLE, None, &()).unwrap();
    let w = |name| outcome.weighted_of(0, name, Time::ZERO).unwrap().value;
    assert!(w("p-edf") > w("g-edf") && w("g-edf") > 0.0);
    assert_eq!(outcome.crossings(0)[0].preferable, Preferable::Never);
}
