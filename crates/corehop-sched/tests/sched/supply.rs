// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets that a test accepts on CPUs with gaps miss nothing where the gaps are those that were recorded; and a gap that is forgotten
//! is found out.
#![expect(clippy::print_stdout, reason = "how many verdicts held is what `make soundness` is for")]

use corehop_plan::workload::set_file;
use corehop_sched::Time;
use corehop_sched::charge::{ChargedAnswer, ChargedSet, DelayCharge};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::supply::{Gap, InUnits, Supplies, SupplyWindow, resources};
use corehop_sched::{TaskParameters, TaskSet, Verdict, all, test};

use crate::draw::{implicit, set};
use crate::mixed::Dice;
use crate::simulator::{Policy, Run, simulate_on};
use crate::soundness::sets;

/// The nanoseconds in a unit of the tasks.
const UNIT: u64 = 1_000;

/// Whether a CPU supplies, unit by unit.
type Trace = Vec<bool>;

/// From `least` to `most`.
fn between(dice: &mut Dice, least: u64, most: u64) -> u64 {
    least + dice.below(most - least + 1)
}

/// A trace with gaps of up to `longest`, and somewhat longer times between them.
fn trace(dice: &mut Dice, length: usize, longest: u64) -> Trace {
    let mut trace = Vec::new();
    let apart = between(dice, 2, 40);
    while trace.len() < length {
        trace.extend(vec![true; between(dice, 1, apart) as usize]);
        trace.extend(vec![false; between(dice, 1, longest) as usize]);
    }
    trace.truncate(length);
    trace
}

/// The part of a trace as a window.
fn window(cpu: u32, trace: &[bool]) -> SupplyWindow {
    let mut gaps: Vec<Gap> = Vec::new();
    for (at, _) in (0..).zip(trace).filter(|(_, supplied)| !**supplied) {
        match gaps.last_mut().filter(|gap| gap.at + gap.length == at * UNIT) {
            Some(gap) => gap.length += UNIT,
            None => gaps.push(Gap { at: at * UNIT, length: UNIT }),
        }
    }
    let length = trace.len() as u64 * UNIT;
    SupplyWindow { cpu, asked: length, watched: length, short: 0, gaps }
}

/// The supply of traces, one for each CPU, of which windows of this length were watched, from each instant on.
fn watched(traces: &[Trace], length: usize) -> InUnits {
    let of = |(cpu, trace): (u32, &Trace)| {
        trace.windows(length).map(move |part| window(cpu, part)).collect::<Vec<_>>()
    };
    let windows: Vec<SupplyWindow> = (0..).zip(traces).flat_map(of).collect();
    InUnits::of(&Supplies::watched(&windows).unwrap())
}

fn ask(set: &TaskSet, name: &str, supply: &InUnits) -> ChargedAnswer {
    let mut charged =
        ChargedSet::new(set, None, DelayCharge::Nothing, None).supplied_by(Some(supply));
    charged.ask(test(name).unwrap()).unwrap()
}

/// Whether a test accepts, whatever is said of the number of windows.
fn accepts(asked: &ChargedAnswer) -> bool {
    asked.answer.verdict == Verdict::Schedulable || asked.answer.is_conditional()
}

/// A set of a few tasks on so many CPUs, and where each is to run.
fn draw(dice: &mut Dice, cpus: u32) -> (TaskSet, TaskSet) {
    let load = between(dice, 20, 90);
    let count = between(dice, 1, 4) * u64::from(cpus);
    let task = |dice: &mut Dice| {
        let period = between(dice, 8, 90);
        let share = between(dice, 1, 2 * load * u64::from(cpus) / count + 1);
        let wcet = (period * share / 100).clamp(1, period);
        let deadline = match between(dice, 0, 2) {
            0 => period,
            1 => between(dice, wcet, period),
            _ => between(dice, wcet, 2 * period),
        };
        (wcet, period, deadline)
    };
    let tasks: Vec<_> = (0..count).map(|_| task(dice)).collect();
    let pinned: Vec<String> = tasks
        .iter()
        .map(|(wcet, period, deadline)| {
            let cpu = between(dice, 0, u64::from(cpus) - 1);
            format!(
                r#"{{"wcet_us": {wcet}, "period_us": {period}, "deadline_us": {deadline}, "cpus": [{cpu}]}}"#
            )
        })
        .collect();
    let pinned = format!(r#"{{"cpus": {cpus}, "tasks": [{}]}}"#, pinned.join(", "));
    (set(cpus, &tasks), set_file::parse(&pinned).unwrap())
}

/// A miss, or a response above its bound, of what an answer accepts on these traces; releases come with gaps or anywhere.
fn broken(
    asked: &ChargedAnswer,
    set: &TaskSet,
    policy: Policy,
    traces: &[Trace],
    dice: &mut Dice,
) -> Option<String> {
    let all: Vec<usize> = (0..set.tasks().len()).collect();
    let bins = asked.answer.partition.clone().unwrap_or_else(|| vec![all]);
    for (cpu, bin) in bins.iter().enumerate().filter(|(_, bin)| !bin.is_empty()) {
        let mut bin = bin.clone();
        bin.sort_unstable();
        let of = |&at: &usize| {
            let task = &set.tasks()[at];
            (task.wcet().ticks(), task.period().ticks(), task.deadline().ticks())
        };
        let own = crate::draw::set(1, &bin.iter().map(of).collect::<Vec<_>>());
        let mut order: Vec<usize> = (0..bin.len()).collect();
        match &asked.answer.priorities {
            Some(found) => order.sort_by_key(|&at| found.iter().position(|&it| it == bin[at])),
            None => order.sort_by_key(|&at| own.tasks()[at].deadline()),
        }
        // One CPU of a set may be any CPU of the machine.
        let cpus = if set.cpus() == 1 { 0..traces.len() } else { cpu..cpu + 1 };
        for trace in &traces[cpus] {
            let (offsets, delays) = releases(dice, trace, bin.len());
            let horizon = trace.len() as u64;
            let run = Run {
                set: &own,
                policy,
                preemptive: true,
                order: &order,
                offsets: &offsets,
                delays: &delays,
                horizon,
            };
            let seen = simulate_on(&run, |now| trace[now as usize]);
            let bound = |at: usize| asked.answer.bounds.as_ref().map(|it| it[bin[at]]);
            let above = (0..bin.len())
                .find(|&at| bound(at).is_some_and(|it| seen.responses[at] > it.ticks()));
            if seen.missed || above.is_some() {
                return Some(format!(
                    "{:?} {own:?} {offsets:?} {:?}",
                    seen.responses, asked.answer
                ));
            }
        }
    }
    None
}

/// First releases, at a gap or anywhere, and how late the others are.
fn releases(dice: &mut Dice, trace: &Trace, tasks: usize) -> (Vec<u64>, Vec<u64>) {
    let gaps: Vec<u64> =
        (1..trace.len()).filter(|&at| trace[at - 1] && !trace[at]).map(|at| at as u64).collect();
    let late = trace.len() as u64 / 2;
    let first = match between(dice, 0, 1) {
        0 if !gaps.is_empty() => gaps[between(dice, 0, gaps.len() as u64 - 1) as usize].min(late),
        _ => between(dice, 0, late),
    };
    let apart = dice.below(2) * dice.below(21);
    let offsets = (0..tasks).map(|_| first + between(dice, 0, apart)).collect();
    let delays = if between(dice, 0, 1) == 0 { vec![0] } else { vec![0, between(dice, 0, 9), 0] };
    (offsets, delays)
}

/// A test, its policy, whether it wants pinned tasks, and the number of CPUs.
const ASKED: [(&str, Policy, bool, u32); 14] = [
    ("qpa", Policy::Edf, false, 1),
    ("edf-rta", Policy::Edf, false, 1),
    ("p-fp-rta", Policy::Fixed, false, 1),
    ("p-fp-audsley", Policy::Fixed, false, 1),
    ("p-edf-ffd-qpa", Policy::Edf, false, 2),
    ("p-edf-bf-qpa", Policy::Edf, false, 2),
    ("p-edf-wfd-qpa", Policy::Edf, false, 2),
    ("p-edf-exact", Policy::Edf, false, 2),
    ("p-edf-given", Policy::Edf, true, 2),
    ("p-fp-ffd", Policy::Fixed, false, 2),
    ("p-fp-bfd", Policy::Fixed, false, 2),
    ("p-fp-wfd", Policy::Fixed, false, 2),
    ("p-fp-exact", Policy::Fixed, false, 2),
    ("p-fp-given", Policy::Fixed, true, 2),
];

/// A drawn case: its traces, the supply of windows of them, and what `forget` leaves of the traces for the analysis.
fn verdicts(
    index: u64,
    forget: impl Fn(&Trace) -> Trace,
    mut found: impl FnMut(&str, Option<String>),
) {
    let dice = &mut Dice::new(42, index);
    let longest = between(dice, 1, 12);
    let traces: Vec<Trace> = (0..2).map(|_| trace(dice, 400, longest)).collect();
    let known: Vec<Trace> = traces.iter().map(forget).collect();
    let length = if between(dice, 0, 1) == 0 { 400 } else { between(dice, 15, 60) as usize };
    let supply = watched(&known, length);
    for cpus in [1, 2] {
        let (free, pinned) = draw(dice, cpus);
        for (name, policy, pins, _) in ASKED.iter().filter(|it| it.3 == cpus) {
            let set = if *pins { &pinned } else { &free };
            let asked = ask(set, name, &supply);
            if accepts(&asked) {
                let broken = (0..3).find_map(|_| broken(&asked, set, *policy, &traces, dice));
                found(name, broken);
            }
        }
    }
}

#[test]
fn no_accepted_set_misses_where_the_gaps_are_those_that_were_recorded() {
    let mut accepted = std::collections::BTreeMap::<String, u64>::new();
    for index in 0..sets() {
        verdicts(index, Clone::clone, |name, broken| {
            assert!(broken.is_none(), "{name}, set {index}: {}", broken.unwrap());
            *accepted.entry(name.to_owned()).or_default() += 1;
        });
    }
    for (name, ..) in ASKED {
        let count = accepted.get(name).copied().unwrap_or(0);
        println!("{name} on CPUs with gaps: {count} verdicts held");
        assert!(count > sets() / 20, "{name}: only {count} of {} were accepted", sets());
    }
}

#[test]
fn a_gap_that_is_not_recorded_is_found_out() {
    // Every second gap of a trace is missing.
    let forget = |trace: &Trace| {
        let mut gaps = 0;
        let mut known = trace.clone();
        for at in 1..trace.len() {
            gaps += u64::from(trace[at - 1] && !trace[at]);
            known[at] |= gaps % 2 == 0;
        }
        known
    };
    let mut broken = std::collections::BTreeSet::new();
    for index in 0..2_000 {
        if broken.len() == ASKED.len() {
            break;
        }
        verdicts(index, forget, |name, found| {
            broken.extend(found.map(|_| name.to_owned()));
        });
    }
    let missing: Vec<_> = ASKED.iter().filter(|it| !broken.contains(it.0)).map(|it| it.0).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_test_takes_a_supply_or_says_which_tests_do() {
    let supply =
        InUnits::of(&resources(r#"{"cpus": "0-1", "period_us": 50, "budget_us": 40}"#).unwrap());
    let set = implicit(1, &[(1, 100), (2, 200)]);
    for test in all() {
        let asked = ask(&set, test.name, &supply);
        let why = asked.answer.why.unwrap_or_default();
        match test.supplied {
            // Those for pinned tasks are asked where there is a choice of one.
            true => assert!(asked.answer.verdict == Verdict::Schedulable, "{}: {why}", test.name),
            false if test.name == "necessary" => assert_eq!(why, ""),
            false => assert!(why.contains("p-fp-rta") && why.contains("--supply"), "{}", test.name),
        }
    }
    let tested: Vec<_> = ASKED.iter().map(|it| it.0).collect();
    let like =
        |name: &str| tested.contains(&name) || name.starts_with("p-edf-") && name.ends_with("-qpa");
    assert!(all().filter(|test| test.supplied).all(|test| like(test.name)));
}

#[test]
fn responses_on_a_periodic_resource_by_hand() {
    // A budget of 8 in 10: at worst it comes first in one period and last in the next, 4 apart; then 2 are missing of each 10.
    let supply =
        InUnits::of(&resources(r#"{"cpus": "0", "period_us": 10, "budget_us": 8}"#).unwrap());
    let set = implicit(1, &[(1, 10), (8, 40)]);
    // 4 + 1; and 8 + 2 are there after 4 + 8 + 2 + 2, as the first task came again at 10.
    for name in ["p-fp-rta", "edf-rta"] {
        let asked = ask(&set, name, &supply);
        assert_eq!(asked.answer.bounds, Some([5, 16].map(Time::new).to_vec()), "{name}");
    }
    // Under EDF the job that comes at 10 is due after 19: 9 are asked for by 15, and by then 9 are there.
    let fits = |deadline, name: &str| {
        let set = crate::draw::set(1, &[(1, 10, 10), (8, 40, deadline)]);
        ask(&set, name, &supply).answer.verdict == Verdict::Schedulable
    };
    for name in ["p-fp-rta", "p-fp-audsley"] {
        assert!(fits(16, name) && !fits(15, name), "{name}");
    }
    for name in ["qpa", "edf-rta"] {
        assert!(fits(15, name) && !fits(14, name), "{name}");
    }
    // A set that only the supply bound refuses is unknown; a set that overloads a CPU which supplies all of the time is a no.
    let set = implicit(1, &[(5, 10), (4, 11)]);
    let refused = ask(&set, "qpa", &supply).answer;
    assert_eq!(refused.verdict, Verdict::Unknown);
    let never = implicit(1, &[(7, 10), (4, 11)]);
    assert_eq!(ask(&never, "qpa", &supply).answer.verdict, Verdict::Unschedulable);
}

#[test]
fn equal_priorities_and_several_jobs_wait_for_the_supply_too() {
    let supply =
        InUnits::of(&resources(r#"{"cpus": "0", "period_us": 10, "budget_us": 9}"#).unwrap());
    let task = |wcet, period, deadline| TaskParameters {
        wcet,
        period,
        deadline: Some(deadline),
        priority: Some(1),
        ..TaskParameters::default()
    };
    // Either waits for the other: 2 + 3 + 4.
    let set = TaskSet::new(
        1,
        &[
            task(Time::new(3), Time::new(20), Time::new(20)),
            task(Time::new(4), Time::new(25), Time::new(25)),
        ],
    )
    .unwrap();
    assert_eq!(ask(&set, "p-fp-rta", &supply).answer.bounds, Some([9, 9].map(Time::new).to_vec()));
    // Jobs of 7 every 10 with nine tenths of a CPU: the first is done at 2 + 7.
    let set = crate::draw::set(1, &[(7, 10, 30)]);
    assert_eq!(ask(&set, "p-fp-rta", &supply).answer.bounds, Some([9].map(Time::new).to_vec()));
    // 8 of 9: 2 + 8 = 10, and so is the next.
    let set = crate::draw::set(1, &[(8, 10, 30)]);
    assert_eq!(ask(&set, "p-fp-rta", &supply).answer.bounds, Some([10].map(Time::new).to_vec()));
    // All of nine tenths: 11, then 21 and so on: the window has no end.
    let full = crate::draw::set(1, &[(9, 10, 12)]);
    assert_ne!(ask(&full, "p-fp-rta", &supply).answer.verdict, Verdict::Unschedulable);
}

#[test]
fn a_task_that_the_set_pins_has_the_supply_of_its_cpu() {
    let text = r#"[{"cpus": "0", "period_us": 10, "budget_us": 10}, {"cpus": "1", "period_us": 10, "budget_us": 5}]"#;
    let supplies = resources(text).unwrap();
    let pinned = |cpu: u32| {
        let text = format!(
            r#"{{"cpus": 2, "tasks": [{{"wcet_us": 5, "period_us": 20, "deadline_us": 8, "cpus": [{cpu}], "priority": 1}}]}}"#
        );
        set_file::parse(&text).unwrap()
    };
    let supply = InUnits::of(&supplies);
    for name in ["p-fp-given", "p-edf-given"] {
        assert_eq!(ask(&pinned(0), name, &supply).answer.verdict, Verdict::Schedulable, "{name}");
        assert_eq!(ask(&pinned(1), name, &supply).answer.verdict, Verdict::Unknown, "{name}");
    }
    // A test that chooses CPUs has the least supply of both.
    let free = crate::draw::set(2, &[(5, 20, 8)]);
    assert_eq!(ask(&free, "p-fp-ffd", &supply).answer.verdict, Verdict::Unknown);
    assert!(supplies.check(&pinned(1)).is_ok() && supplies.check(&free).is_ok());
    let wants = crate::draw::set(3, &[(5, 20, 8)]);
    let why = supplies.check(&wants).unwrap_err().to_string();
    assert!(why.contains("3 CPUs") && why.contains("CPUs 0, 1") && why.contains("--cpus"), "{why}");
}

#[test]
fn delays_are_charged_beside_the_supply() {
    let supply =
        InUnits::of(&resources(r#"{"cpus": "0", "period_us": 10, "budget_us": 8}"#).unwrap());
    let (bare, longer) = (implicit(1, &[(1, 20), (8, 60)]), implicit(1, &[(3, 20), (10, 60)]));
    for name in ["p-fp-rta", "edf-rta"] {
        let charged = ChargedSet::new(&bare, None, DelayCharge::Each(Time::new(2)), None)
            .supplied_by(Some(&supply));
        let charged = { charged }.ask(test(name).unwrap()).unwrap();
        assert_eq!(charged.answer.bounds, ask(&longer, name, &supply).answer.bounds, "{name}");
    }
}

#[test]
fn overheads_are_charged_in_nanoseconds_beside_the_supply() {
    let supply =
        InUnits::of(&resources(r#"{"cpus": "0", "period_us": 10, "budget_us": 8}"#).unwrap());
    let set = implicit(1, &[(3, 20)]);
    // Half a microsecond of tick in each 10: 3.5 after 4, so that two ticks come before 10.
    let overheads = SystemOverheads {
        tick: Time::new(500),
        quantum: Some(Time::new(10_000)),
        ..SystemOverheads::default()
    };
    let bounds = |name: &str, supply: Option<&InUnits>| {
        let charged =
            ChargedSet::new(&set, None, DelayCharge::Nothing, Some(overheads)).supplied_by(supply);
        { charged }.ask(test(name).unwrap()).unwrap().answer.bounds.unwrap()[0]
    };
    for name in ["p-fp-rta", "edf-rta"] {
        let (alone, both) = (bounds(name, None), bounds(name, Some(&supply)));
        // Rounded up to microseconds; at worst nothing is supplied for 4.
        assert_eq!(both, alone + Time::new(4), "{name}");
    }
}

#[test]
fn a_yes_names_the_windows_that_were_seen_and_few_of_them_make_a_condition() {
    let gap = Gap { at: 3_000_000, length: 2_000_000 };
    let one =
        SupplyWindow { cpu: 0, asked: 40_000_000, watched: 40_000_000, short: 0, gaps: vec![gap] };
    let supply = |n: usize| InUnits::of(&Supplies::watched(&vec![one.clone(); n]).unwrap());
    let set = implicit(1, &[(1_000, 20_000), (8_000, 100_000)]);
    let many = ask(&set, "p-fp-rta", &supply(600));
    assert_eq!(many.answer.verdict, Verdict::Schedulable);
    // 2,000 + 1,000; and with 9,000 of work in one window.
    assert_eq!(many.answer.bounds, Some([3_000, 11_000].map(Time::new).to_vec()));
    let says = many.conditions().unwrap();
    // 100 ms are three windows: 3 (1 - 0.05^(1/600)) = 1.49 %.
    for part in ["up to 40 ms", "nor 3 in a row", "2 ms in any of 600", "at most 1.5 %"] {
        assert!(says.contains(part), "{part}: {says}");
    }
    let few = ask(&set, "p-fp-rta", &supply(20)).answer;
    assert!(few.is_conditional() && few.verdict == Verdict::Unknown);
    assert!(few.why.unwrap().contains("a longer `corehop measure supply`"));
}
