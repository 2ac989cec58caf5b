// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the cost studies: the sets drawn, the counts, and the rejected descriptions.

use super::*;
use crate::test;
use corehop_fixtures::task_sets::implicit;
use corehop_plan::workload::time::Time;

const STUDY: &str = r#"
id = "x"
title = "X"
sets = 40
cpus = 1
caps = { from = 0.5, to = 0.9, step = 0.2 }
limit = ["edf_regions"]

[working_sets]
log_uniform_kib = [4, 512]

[costs]
us_per_kib = 2.0

[tasks]
utilisation = { uniform = [0.1, 0.4] }
period_us = { uniform = [3000, 33000], step = 1000 }

[compare.fp]
test = "p-fp-pairs"
against = "p-fp-rta"
"#;

fn study() -> CostStudy {
    CostStudy::parse(STUDY).unwrap()
}

#[test]
fn counts_are_those_of_the_tests_asked_one_by_one() {
    let study = study();
    let outcome = study.run(None).unwrap();
    let found = &outcome.readings[0];
    let reading = &study.readings[0];
    let known = reading.tabulated(None).unwrap();
    let mut both = [0; 2];
    for index in 0..study.sets {
        let given = reading.drawn(0.7, study.seed, index).unwrap();
        if given.is_empty() {
            continue;
        }
        let set = TaskSet::new(1, &given).unwrap();
        for (count, name) in both.iter_mut().zip(["p-fp-pairs", "p-fp-rta"]) {
            let delay = DelayCharge::Costs(Box::new(&known));
            let answer = ChargedSet::new(&set, None, delay, None).ask(test(name).unwrap()).unwrap();
            *count += u64::from(answer.answer.verdict.is_schedulable());
        }
    }
    let counts = &found.rows[1].compared[0];
    assert_eq!([counts.with, counts.without], both);
    assert_eq!(counts.with + counts.only_without, counts.without + counts.only_with);
    assert!(found.all.compared[0].only_with > 0 && counts.only_without == 0);
    assert_eq!(found.all.sets, found.rows.iter().map(|row| row.sets).sum::<u64>());
    assert_eq!(study.run(None).unwrap(), outcome);
    assert_ne!(study.with(Some(2), None).run(None).unwrap(), outcome);
}

#[test]
fn a_pair_costs_what_the_smaller_set_takes() {
    let known = study().readings[0].tabulated(None).unwrap();
    let by = (&known).by_preemptor(100.0).unwrap();
    let of = |kib: f64| by.iter().find(|&&(size, _)| size >= kib).unwrap().1.us;
    // At a size that was tabulated, between two, beyond the victim's, and beyond all.
    assert!((of(4.0) - 8.0).abs() < 1e-9 && (of(1e9) - 200.0).abs() < 1e-9);
    assert!((100.0..=200.0).contains(&of(50.0)) && (of(512.0) - 200.0).abs() < 1e-9);
    assert!((&known).cost(Event::Preemption, 3.0).is_err());
    assert!((&known).cost(Event::L2Migration, 100.0).is_err());
}

#[test]
fn a_non_preemptive_task_saves_its_preemptions_by_hand() {
    let set = implicit(1, &[(10, 50), (40, 200)]);
    let wss_kib = |task: &crate::Task| TaskParameters {
        wcet: task.wcet(),
        period: task.period(),
        wss_kib: Some(5),
        ..TaskParameters::default()
    };
    let given: Vec<_> = set.tasks().iter().map(wss_kib).collect();
    let known = PreemptionCostTable { least: 5, costs: vec![(linear(1.0, 5), Vec::new())] };
    let mut saved = Saved::none(Limit::EdfRegions);
    saved.take(&TaskSet::new(1, &given).unwrap(), &known);
    // Jobs due by 200 that come after it and before: at most ceil(150 / 50) = 3. The slack at 50 is 40, its whole WCET.
    assert_eq!((saved.before, saved.after), (1, 1));
    assert!((saved.preemptions_before - 3.0 / 200.0 * 1e6).abs() < 1e-6);
    assert!((saved.cpus_before - 3.0 * 5.0 / 200.0).abs() < 1e-12);
    assert!(saved.preemptions_after == 0.0 && saved.cpus_after == 0.0);
    // Another CPU for each: nothing is preempted.
    let mut apart = Saved::none(Limit::EdfRegions);
    apart.take(&TaskSet::new(2, &given).unwrap(), &known);
    assert!(apart.after == 1 && apart.preemptions_before == 0.0);
}

#[test]
fn savings_of_sets_and_of_their_cpus_add_up() {
    let one = Saved {
        limit: Limit::FpRegions,
        before: 1,
        after: 2,
        preemptions_before: 30.0,
        preemptions_after: 10.0,
        cpus_before: 0.5,
        cpus_after: 0.25,
    };
    let mut all = Saved::none(Limit::FpRegions);
    all.add(&one);
    all.add(&one);
    assert_eq!((all.before, all.after), (2, 4));
    assert_eq!((all.preemptions_before, all.preemptions_after), (60.0, 20.0));
    assert_eq!((all.cpus_before, all.cpus_after), (1.0, 0.5));
}

#[test]
fn a_set_on_two_cpus_saves_what_each_of_them_does() {
    let task = |wcet, period| TaskParameters {
        wcet,
        period,
        wss_kib: Some(5),
        ..TaskParameters::default()
    };
    let known = PreemptionCostTable { least: 5, costs: vec![(linear(1.0, 5), Vec::new())] };
    let saved = |cpus, tasks: &[TaskParameters]| {
        let mut saved = Saved::none(Limit::EdfRegions);
        saved.take(&TaskSet::new(cpus, tasks).unwrap(), &known);
        saved
    };
    let (short, long) = (task(Time::new(10), Time::new(50)), task(Time::new(40), Time::new(200)));
    let one = saved(1, &[short.clone(), long.clone()]);
    // Worst fit deals them out in turn: a long one comes to each short one.
    let four = [short.clone(), short.clone(), long.clone(), long];
    let two = saved(2, &four);
    assert_eq!((two.before, two.after), (1, 1));
    assert!((two.cpus_before - 2.0 * one.cpus_before).abs() < 1e-12, "{two:?}");
    assert!((two.preemptions_before - 2.0 * one.preemptions_before).abs() < 1e-6, "{two:?}");
    // On three CPUs one of them has both; and one that is empty takes nothing away.
    let three = saved(3, &four);
    assert!((three.preemptions_before - one.preemptions_before).abs() < 1e-6, "{three:?}");
    let alone = saved(2, &[short]);
    assert_eq!((alone.before, alone.after, alone.cpus_before), (1, 1, 0.0));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_is_expected() {
    for (from, to, said) in [
        ("cpus = 1", "cpus = 0", "cpus is 0"),
        ("[4, 512]", "[512, 4]", "expected the lower first"),
        ("us_per_kib = 2.0", "us_per_kib = -2.0", "expected a number above zero"),
        ("\"p-fp-rta\"", "\"rta\"", "the test lets jobs migrate"),
        ("\"p-fp-rta\"", "\"p-fp\"", "unknown test"),
        ("edf_regions", "regions", "edf_regions"),
        ("sets = 40", "sets = 0", "expected at least 1"),
        ("to = 0.9", "to = 9.9", "at most the 1 CPUs"),
    ] {
        let error = CostStudy::parse(&STUDY.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(said), "{to}: {error}");
    }
    let nothing = STUDY.replace("us_per_kib = 2.0", "");
    let error = CostStudy::parse(&nothing).unwrap().run(None).unwrap_err();
    assert!(error.to_string().contains("--costs"), "{error}");
    assert!(CostStudy::is_described(STUDY) && !CostStudy::is_described("id = \"x\""));
}

#[test]
fn the_studies_that_come_with_the_program_are_read() {
    for name in ["studies/delays-by-pair/study.toml", "studies/limited-preemption/study.toml"] {
        let text = corehop_fixtures::text(name);
        assert!(CostStudy::is_described(&text));
        assert!(CostStudy::parse(&text).unwrap().readings.len() >= 4);
    }
}
