// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets that a test accepts with delays charged miss nothing where victims pay; and wrong charges are found
//! out.
//!
//! A bounded number of sets for each scheduler; `make soundness` asks 50,000.
#![expect(clippy::print_stdout, reason = "how many verdicts held is what `make soundness` is for")]

use corehop_plan::workload::placement::TaskPlacement;
use corehop_sched::Time;
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::{TaskParameters, TaskSet, Verdict};

use crate::mixed::{ByTask, Case, Dice, KINDS, Kind, yes};
use crate::paying::Taken;

/// The number of sets asked of each scheduler.
pub(crate) fn sets() -> u64 {
    let stated = std::env::var("COREHOP_SOUNDNESS_SETS").ok();
    stated.map_or(300, |count| count.parse().expect("COREHOP_SOUNDNESS_SETS is a number"))
}

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

/// Asks every test of a scheduler of many sets, with what the operating system takes; how many were accepted.
fn none_misses(kind: &Kind, overheads: Option<SystemOverheads>, taken: Taken) -> u64 {
    let mut accepted = 0;
    for index in 0..sets() {
        let mut dice = Dice::new(7, index);
        let case = Case::draw(kind, &mut dice);
        for name in kind.tests {
            let answer = case.ask(name, overheads);
            if yes(&answer) {
                accepted += 1;
                let broken = case.broken(kind, &answer, taken, &mut dice);
                assert!(broken.is_none(), "{name}, set {index}: {}", broken.unwrap());
            }
        }
    }
    accepted
}

#[test]
fn no_set_that_a_test_accepts_misses_where_victims_pay() {
    for kind in &KINDS {
        let accepted = none_misses(kind, None, Taken::default());
        assert!(
            accepted > sets() / 20,
            "{}: only {accepted} of {} were accepted",
            kind.name,
            sets()
        );
        println!("{}: {accepted} verdicts held", kind.name);
    }
}

/// Some of each kind, in units of the sets; overheads are in nanoseconds.
fn system() -> (SystemOverheads, Taken) {
    let overheads = SystemOverheads {
        tick: Time::new(1_000),
        quantum: Some(Time::new(60_000)),
        release: Time::new(1_000),
        event_latency: Time::new(2_000),
        scheduling: Time::new(500),
        context_switch: Time::new(500),
        interprocessor: Time::new(1_000),
        dedicated: None,
    };
    let taken = Taken {
        dispatch: 1,
        release: 1,
        tick: 1,
        quantum: 60,
        latency: 2,
        interprocessor: 1,
        dedicated: false,
    };
    (overheads, taken)
}

#[test]
fn none_misses_with_what_the_operating_system_takes() {
    let (overheads, taken) = system();
    for name in ["EDF", "FP", "G-EDF", "P-EDF", "P-FP", "C-EDF", "EDF-os", "soft G-EDF"] {
        let mut kind = *kind(name);
        if name == "FP" {
            kind.tests = &["p-fp-rta"];
        }
        let accepted = none_misses(&kind, Some(overheads), taken);
        assert!(accepted > sets() / 50, "{name}: only {accepted} of {} were accepted", sets());
        println!("{name}: {accepted} verdicts held");
    }
}

/// The first set of which a wrongly charged answer is broken, within 5,000.
fn found_within_5000(
    kind: &Kind,
    wrong: impl Fn(&Case, &str) -> Option<corehop_sched::TestAnswer>,
    taken: Taken,
) -> Option<u64> {
    (0..5_000).find(|&index| {
        let mut dice = Dice::new(11, index);
        let case = Case::draw(kind, &mut dice);
        kind.tests.iter().any(|name| {
            let answer = wrong(&case, name).filter(yes);
            answer.is_some_and(|answer| case.broken(kind, &answer, taken, &mut dice).is_some())
        })
    })
}

#[test]
fn own_delays_are_found_to_be_a_wrong_charge() {
    for name in ["EDF", "FP", "P-EDF", "P-FP", "EDF-os"] {
        let own = |case: &Case, name: &str| case.ask_with_own_delays(name);
        let found = found_within_5000(kind(name), own, Taken::default());
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name}");
    }
}

#[test]
fn delays_of_victims_that_are_charged_too_low_are_found_out() {
    // A migration as if it were a preemption, and a task with the largest delay as if it had none.
    let as_preemption = |case: &Case, name: &str| {
        let costs = ByTask { moved: case.costs.resumed.clone(), ..case.costs.clone() };
        Some(Case { costs, ..case.clone() }.ask(name, None))
    };
    let forgotten = |case: &Case, name: &str| {
        let most = *case.costs.moved.iter().max()?;
        let without =
            |costs: &[u64]| costs.iter().map(|&it| if it < most { it } else { 0 }).collect();
        let costs =
            ByTask { resumed: without(&case.costs.moved), moved: without(&case.costs.moved) };
        Some(Case { costs, ..case.clone() }.ask(name, None))
    };
    for (name, tests) in
        [("G-EDF", &["rta"][..]), ("G-FP", &["g-fp-guan"]), ("G-FP", &["g-fp-bertogna"])]
    {
        let kind = Kind { tests, ..*kind(name) };
        let found = [
            found_within_5000(&kind, as_preemption, Taken::default()),
            found_within_5000(&kind, forgotten, Taken::default()),
        ];
        println!("{tests:?}: {found:?}");
        assert!(found.iter().all(Option::is_some), "{tests:?}: {found:?}");
    }
}

#[test]
fn a_piece_that_does_not_pay_is_found_out() {
    // Whole tasks pay what they should, and those that are split pay for one job.
    let forgotten = |case: &Case, name: &str| {
        case.ask_with_own_delays(name).filter(|answer| {
            let split = |place: &TaskPlacement| matches!(place, TaskPlacement::Pieces(_));
            answer.placement.as_ref().is_some_and(|places| places.iter().any(split))
        })
    };
    let found = found_within_5000(kind("C=D"), forgotten, Taken::default());
    assert!(found.is_some());
}

#[test]
fn an_interrupt_that_is_not_charged_is_found_out() {
    let none = SystemOverheads::default();
    // One kind at a time: charged for nothing at all, it is found.
    for (what, taken) in [
        ("release", Taken { release: 1, ..Taken::default() }),
        ("tick", Taken { tick: 2, quantum: 60, ..Taken::default() }),
        ("dispatch", Taken { dispatch: 1, ..Taken::default() }),
        ("latency", Taken { latency: 5, ..Taken::default() }),
    ] {
        let forgotten = |case: &Case, name: &str| Some(case.ask(name, Some(none)));
        for (name, tests) in [("FP", &["p-fp-rta"][..]), ("EDF", &["qpa"])] {
            let kind = Kind { tests, ..*kind(name) };
            let found = found_within_5000(&kind, forgotten, taken);
            println!("{what} under {name}: {found:?}");
            assert!(found.is_some(), "{what} under {name}");
        }
    }
}

fn case(cpus: u32, tasks: &[(u64, u64, u64)], delays: &[u64]) -> Case {
    let given: Vec<TaskParameters> = tasks
        .iter()
        .enumerate()
        .map(|(at, &(wcet, period, deadline))| TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            deadline: Some(Time::new(deadline)),
            wss_kib: Some(at as u64),
            ..TaskParameters::default()
        })
        .collect();
    let set = TaskSet::new(cpus, &given).unwrap();
    Case { set, given, costs: ByTask { resumed: delays.to_vec(), moved: delays.to_vec() } }
}

#[test]
fn a_long_victim_of_a_short_task_is_paid_for() {
    // Ten preemptions of 100 in every 2,000: 10 (100 + 100) + 700.
    let case = case(1, &[(100, 200, 200), (700, 2_000, 2_000)], &[1, 100]);
    for (name, scheduler) in [("qpa", "EDF"), ("edf-rta", "EDF"), ("p-fp-rta", "FP")] {
        assert_eq!(case.ask(name, None).verdict, Verdict::Unknown, "{name}");
        let wrong = case.ask_with_own_delays(name).unwrap();
        assert_eq!(wrong.verdict, Verdict::Schedulable, "{name}");
        let mut dice = Dice::new(1, 1);
        assert!(case.broken(kind(scheduler), &wrong, Taken::default(), &mut dice).is_some());
    }
}

#[test]
fn a_split_task_pays_for_all_that_its_pieces_preempt() {
    let case = case(
        2,
        &[
            (600_000, 1_000_000, 1_000_000),
            (600_000, 1_000_000, 1_000_000),
            (5_800, 10_000, 10_000),
        ],
        &[100, 100, 100],
    );
    let mut dice = Dice::new(1, 1);
    let kind = kind("C=D");
    let wrong = case.ask_with_own_delays("sp-edf-c=d").filter(yes).unwrap();
    assert!(case.broken(kind, &wrong, Taken::default(), &mut dice).is_some());
    let delay = corehop_sched::charge::DelayCharge::Each(Time::new(100));
    let mut charged = corehop_sched::charge::ChargedSet::new(&case.set, None, delay, None);
    let test = corehop_sched::test("sp-edf-c=d").unwrap();
    let asked = charged.ask(test).unwrap();
    assert!(yes(&asked.answer));
    // Beside 600,100 in 1,000,000 a piece that pays 100 has room for 3,999 in 10,000: 3,899 of work. The rest has 1,901
    // to do, 100 to reload, and pays 100.
    let Some(TaskPlacement::Pieces(pieces)) = asked.answer.placement.as_ref().map(|all| &all[2])
    else {
        panic!("{:?}", asked.answer)
    };
    let pieces: Vec<_> =
        pieces.iter().map(|it| (it.wcet.ticks(), it.budget.ticks(), it.deadline.ticks())).collect();
    assert_eq!(pieces, [(3_899, 3_899, 3_999), (1_901, 2_001, 6_001)]);
    assert_eq!(asked.delays.unwrap(), [100, 100, 300].map(Time::new));
    assert!(case.broken(kind, &asked.answer, Taken::default(), &mut dice).is_none());
}

#[test]
fn a_cluster_whose_cpus_share_a_cache_is_accepted_and_with_the_price_of_memory_it_is_not() {
    // On a machine whose level-2 caches serve CPUs 0,2 and 1,3 a migration within a cluster costs 1; between neighbours by
    // number a migration costs 9.
    let tasks = [
        (12, 60, 60),
        (10, 20, 20),
        (17, 50, 50),
        (16, 40, 40),
        (7, 24, 24),
        (16, 60, 60),
        (31, 60, 60),
    ];
    let (near, far) = (case(4, &tasks, &[1; 7]), case(4, &tasks, &[9; 7]));
    let answer = near.ask("c-edf-2", None);
    assert_eq!(answer.verdict, Verdict::Schedulable);
    assert_eq!(far.ask("c-edf-2", None).verdict, Verdict::Unknown);
    // Near, no pattern of releases is late.
    let mut dice = Dice::new(1, 1);
    let none = |_| near.broken(kind("C-EDF"), &answer, Taken::default(), &mut dice).is_none();
    assert!((0..50).all(none));
}

#[test]
fn on_several_cpus_a_task_with_a_longer_deadline_pays_too() {
    // The second task cannot preempt the third, whose deadline is shorter. Released 11 before it, it keeps the other CPU
    // until 9, when the first preempts the third at 1: the third resumes at 9, reloads 45, and ends at 103.
    let case = case(2, &[(10, 1_000, 95), (20, 1_000, 110), (50, 1_000, 100)], &[0, 0, 45]);
    // With only tasks of later relative deadlines: 45 for the first, none for the second.
    let wrong = [(55, 1_000, 95), (20, 1_000, 110), (50, 1_000, 100)];
    let wrong = crate::draw::set(2, &wrong);
    assert!(crate::draw::accepts("rta", &wrong));
    assert_eq!(case.ask("rta", None).verdict, Verdict::Unknown);
    let world = crate::paying::World {
        by: crate::paying::By::Deadline,
        domains: vec![2],
        actors: vec![
            crate::paying::Actor { offset: 12, ..crate::paying::whole(10, 1_000, 95, 0) },
            crate::paying::whole(20, 1_000, 110, 0),
            crate::paying::Actor {
                offset: 11,
                resumed: 45,
                moved: 45,
                ..crate::paying::whole(50, 1_000, 100, 0)
            },
        ],
        taken: Taken::default(),
        horizon: 500,
        restless: false,
        blocks: Vec::new(),
    };
    let seen = crate::paying::simulate(&world);
    assert_eq!((seen.responses[2], seen.missed), (103, true));
}
