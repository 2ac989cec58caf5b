// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance between a yes and a no: the parts of a bound sum up to the bound, and every change makes the set accepted.

use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::set_file;
use corehop_sched::Time;
use corehop_sched::charge::DelayCharge;
use corehop_sched::composition::{Composition, Kind};
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::question::Answered;
use corehop_sched::{SchedulabilityQuestion, TaskSet, Test, Verdict, test};

use crate::mixed::{Case, Dice, KINDS};

/// In nanoseconds; the sets are in microseconds.
const OVERHEADS: SystemOverheads = SystemOverheads {
    tick: Time::new(300),
    quantum: Some(Time::new(50_000)),
    release: Time::new(250),
    event_latency: Time::new(700),
    scheduling: Time::new(120),
    context_switch: Time::new(130),
    interprocessor: Time::new(200),
    dedicated: None,
};

/// The charges to a set.
#[derive(Clone, Copy)]
enum Charge {
    Nothing,
    Each,
    ByTask,
    Overheads,
}

/// The composition of the tightest task's bound, if a test accepts the set with what is charged.
fn composed(case: &Case, test: &'static Test, charge: Charge) -> Option<Composition> {
    let delay = |_: &TaskSet| match charge {
        Charge::Nothing => Some(DelayCharge::Nothing),
        Charge::Each => Some(DelayCharge::Each(Time::new(2))),
        _ => Some(DelayCharge::Costs(Box::new(case.costs.clone()))),
    };
    let overheads = matches!(charge, Charge::Overheads).then_some(OVERHEADS);
    let asking = TestSettings {
        platform: None,
        delay: &delay,
        overheads,
        accept_largest: false,
        supply: None,
    };
    let mut charged = asking.charged(&case.set, delay(&case.set)?);
    let asked = charged.ask(test).unwrap();
    let yes = asked.answer.verdict == Verdict::Schedulable;
    yes.then(|| Composition::of_the_tightest(&case.set, test, &asked, &mut charged))?
}

#[test]
fn the_parts_of_a_bound_sum_up_to_it_under_every_test_and_charge() {
    let charges = [Charge::Nothing, Charge::Each, Charge::ByTask, Charge::Overheads];
    let (mut told_apart, mut whole) = (0, 0);
    for kind in KINDS.iter().filter(|kind| !kind.soft) {
        for index in 0..60 {
            let case = Case::draw(kind, &mut Dice::new(31, index));
            for (name, charge) in kind.tests.iter().flat_map(|name| charges.map(|it| (name, it))) {
                let Some(it) = composed(&case, test(name).unwrap(), charge) else { continue };
                let sum: i64 = it.parts.iter().map(|part| part.us).sum();
                assert_eq!(sum, it.bound_us.ticks() as i64, "{name}, set {index}: {it:?}");
                let taken_off = |part: &&corehop_sched::composition::BoundTerm| {
                    part.us < 0 && ![Kind::BeforeArrival, Kind::Rounding].contains(&part.what)
                };
                assert!(it.parts.iter().find(taken_off).is_none(), "{name}: {it:?}");
                let others = it.parts.iter().any(|part| part.what == Kind::Others);
                if others { whole += 1 } else { told_apart += 1 }
            }
        }
    }
    assert!(told_apart > 300 && whole > 10, "{told_apart}, {whole}");
}

/// A set that asks for more than its CPUs can do, or nearly so.
fn margin(text: &str, scheduler: Option<Scheduler>, delay: Option<u64>) -> Margin {
    let set = set_file::parse(text).unwrap();
    let each = |_: &TaskSet| {
        Some(delay.map_or(DelayCharge::Nothing, |delay| DelayCharge::Each(Time::new(delay))))
    };
    let asking = TestSettings {
        platform: None,
        delay: &each,
        overheads: None,
        accept_largest: false,
        supply: None,
    };
    let question = SchedulabilityQuestion::of(&set, scheduler);
    let tests = question.tests(&set, None).unwrap();
    let answered = question.ask(&set, &tests, &mut asking.charged(&set, each(&set).unwrap()));
    Margin::of(&set, &answered.unwrap(), Some(question), &asking, MarginRequest::default())
}

#[test]
fn a_composition_is_what_a_hand_computes() {
    // Lehoczky 1990: the fifth job of the second responds after 118: 5 (62) and 6 (26), less four periods of 100.
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":26,"period_us":70,"priority":1},
        {"wcet_us":62,"period_us":100,"deadline_us":118,"priority":2}]}"#;
    let it = margin(text, None, None).tightest.unwrap();
    let parts: Vec<_> = it.parts.iter().map(|it| (it.what, it.task, it.jobs, it.us)).collect();
    let expected = [
        (Kind::Own, Some(1), Some(5), 310),
        (Kind::HigherPriority, Some(0), Some(8), 208),
        (Kind::BeforeArrival, None, None, -400),
    ];
    assert_eq!((it.task, it.bound_us, parts.as_slice()), (1, Time::new(118), &expected[..]));
}

#[test]
fn a_no_names_all_tasks_that_are_late_and_by_how_much() {
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":20,"period_us":100,"deadline_us":30,"priority":2},
        {"wcet_us":15,"period_us":100,"priority":1},{"wcet_us":70,"period_us":200,"deadline_us":100,"priority":3}]}"#;
    let late: Vec<_> =
        margin(text, None, None).late.iter().map(|it| (it.task, it.late_us)).collect();
    // 15 + 20 = 35 by 30; 70 + 2 (35) = 140 by 100.
    assert_eq!(late, [(0, Some(Time::new(5))), (2, Some(Time::new(40)))]);
}

/// The beginnings of all changes.
fn whats(margin: &Margin) -> Vec<&str> {
    margin.changes.iter().map(|it| it.what.as_str()).collect()
}

#[test]
fn changes_say_what_to_do() {
    let swapped = r#"{"cpus":1,"tasks":[{"name":"a","wcet_us":2000,"period_us":5000,"priority":2},
        {"name":"b","wcet_us":4000,"period_us":20000,"priority":1}]}"#;
    let all = margin(swapped, None, None);
    let expected = ["with other priorities, the highest first: `a`, `b`", "under EDF"];
    assert_eq!(whats(&all)[..2], expected);
    let ranks = &all.changes[0].set.as_ref().unwrap()["tasks"];
    assert_eq!((ranks[0]["priority"].as_u64(), ranks[1]["priority"].as_u64()), (Some(1), Some(2)));
    let full = r#"{"cpus":1,"tasks":[{"wcet_us":6000,"period_us":10000},{"wcet_us":5000,"period_us":10000}]}"#;
    let expected = [
        "on 2 CPUs: CPU 0: task 0; CPU 1: task 1",
        "with a WCET of 4 ms in place of 5 ms for task 1 alone",
        "with every WCET 9.1 % shorter",
    ];
    assert_eq!(whats(&margin(full, None, None)), expected);
    let three = r#"{"cpus":2,"tasks":[{"wcet_us":600,"period_us":1000},{"wcet_us":600,"period_us":1000},
        {"wcet_us":600,"period_us":1000}]}"#;
    let all = margin(three, None, None);
    let cut = "in pieces under EDF (C=D): task 2 as 400 us on CPU 0 within 400 us, then 200 us on CPU 1 within 600 us";
    assert_eq!(whats(&all)[0], cut);
    assert!(all.changes[0].set.as_ref().unwrap()["tasks"][2]["pieces"].is_array());
    // Not preempting `b` at all saves the delay of 40, and `a` waits for 35 of 50.
    let preempted = r#"{"cpus":1,"tasks":[{"name":"a","wcet_us":15,"period_us":100,"deadline_us":50,"priority":1},
        {"name":"b","wcet_us":35,"period_us":100,"deadline_us":85,"priority":2}]}"#;
    let all = margin(preempted, None, Some(36));
    assert!(whats(&all).iter().any(|it| it.starts_with("with preemptions limited")), "{all:?}");
}

/// The margin of the answer of one test.
fn of_test(text: &str, name: &str) -> Margin {
    let set = set_file::parse(text).unwrap();
    let nothing = |_: &TaskSet| Some(DelayCharge::Nothing);
    let asking = TestSettings {
        platform: None,
        delay: &nothing,
        overheads: None,
        accept_largest: false,
        supply: None,
    };
    let test = test(name).unwrap();
    let asked = asking.charged(&set, DelayCharge::Nothing).ask(test).unwrap();
    let answered = Answered { test, asked, sentence: String::new() };
    Margin::of(&set, &answered, None, &asking, MarginRequest::default())
}

#[test]
fn a_test_that_is_named_is_changed_for_another_one_of_its_scheduler_first() {
    // Demand by 2: 1; by 4: 3; by 6: 4: fits, though the densities make 1/2 + 2/4 + 1/6 > 1.
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":1,"period_us":8,"deadline_us":2},
        {"wcet_us":2,"period_us":8,"deadline_us":4},{"wcet_us":1,"period_us":8,"deadline_us":6}]}"#;
    assert_eq!(whats(&of_test(text, "density"))[0], "as it is, by the test edf-rta");
    // Without preemption the short one waits for the long one.
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":1,"period_us":5},{"wcet_us":10,"period_us":100}]}"#;
    let all = of_test(text, "np-edf");
    assert_eq!(whats(&all), ["under partitioned EDF, by the test edf-rta"]);
    assert!(all.schedule.unwrap().unwrap_err().contains("non-preemptive"));
    let full =
        r#"{"cpus":1,"tasks":[{"wcet_us":60,"period_us":100},{"wcet_us":50,"period_us":100}]}"#;
    assert!(whats(&of_test(full, "soft-g-edf")).is_empty());
}

#[test]
fn every_change_carries_a_set_that_is_accepted_as_it_stands() {
    let mut asked = 0;
    for index in 0..40 {
        for kind in
            KINDS.iter().filter(|kind| ["P-EDF", "P-FP", "G-EDF", "FP"].contains(&kind.name))
        {
            let case = Case::draw(kind, &mut Dice::new(33, index));
            let scheduler = match kind.name {
                "P-EDF" => Scheduler::PEdf,
                "G-EDF" => Scheduler::GEdf,
                _ => Scheduler::PFp,
            };
            let text = set_file::write(&case.set.clone().scheduled_by(scheduler)).to_string();
            let margin = margin(&text, None, Some(1));
            for change in &margin.changes {
                let Some(set) = &change.set else { continue };
                asked += 1;
                let set = set_file::parse(&set.to_string()).unwrap();
                let again = holds(&set, change.test);
                assert!(again, "{}, set {index}: {} of {text}", kind.name, change.what);
            }
        }
    }
    assert!(asked > 150, "{asked}");
}

/// Whether a set is accepted as it stands: by the test that accepted it, where that takes CPUs as given, or by its own question.
fn holds(set: &TaskSet, by: &str) -> bool {
    let mut charged =
        corehop_sched::charge::ChargedSet::new(set, None, DelayCharge::Each(Time::new(1)), None);
    if by == "sp-edf-c=d" {
        let asked = charged.ask(test("sp-edf-given").unwrap()).unwrap();
        return asked.answer.verdict == Verdict::Schedulable;
    }
    let question = SchedulabilityQuestion::of(set, None);
    let tests = question.tests(set, None).unwrap();
    let answered = question.ask(set, &tests, &mut charged).unwrap();
    answered.asked.answer.verdict == Verdict::Schedulable
}
