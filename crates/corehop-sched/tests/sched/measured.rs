// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of sets that global tests accept with measured costs, of those that survive falsification.
//!
//! Sets of 2 to 6 tasks on 1 to 4 CPUs; four cost tables, in which a migration costs more than a preemption. A set survives
//! if none of 25 simulations, in which victims pay, misses a deadline.
#![expect(clippy::print_stdout, reason = "the table is what `make soundness` is for")]

use corehop_sched::Time;
use corehop_sched::{TaskParameters, TaskSet};

use crate::mixed::{ByTask, Case, Dice, KINDS, Kind, yes};
use crate::paying::Seen;

/// Costs of a preemption and of a migration in microseconds: at least so much, and so much for each KiB.
const TABLES: [[(f64, f64); 2]; 4] = [
    [(8.0, 0.1), (12.0, 0.3)],
    [(20.0, 0.2), (40.0, 0.8)],
    [(4.0, 0.4), (10.0, 0.6)],
    [(30.0, 0.04), (120.0, 1.0)],
];

const SIZES: [u64; 6] = [16, 64, 128, 256, 512, 1024];

/// The sets, and the simulations of each.
const SETS: u64 = 700;
const SIMULATIONS: u32 = 25;

/// A set with costs by one of the tables.
pub(crate) fn drawn(kind: &Kind, index: u64, dice: &mut Dice) -> Case {
    let table = TABLES[(index % 4) as usize];
    let cpus = 1 + dice.below(4);
    let n = 2 + dice.below(5);
    let fill = cpus.min(n) * (50 + dice.below(50));
    let shares: Vec<u64> = (0..n).map(|_| 5 + dice.below(40)).collect();
    let sum: u64 = shares.iter().sum();
    let (mut given, mut costs) = (Vec::new(), ByTask { resumed: Vec::new(), moved: Vec::new() });
    for (at, share) in shares.iter().enumerate() {
        let period = [500, 1_000, 2_000, 5_000, 10_000][dice.below(5) as usize] + dice.below(400);
        let wcet = (period * share * fill / sum / 100).clamp(1, period);
        let room = period - wcet + 1;
        let deadline = if dice.one_in(2) { period } else { period - dice.below(room) / 2 };
        let size = SIZES[dice.below(6) as usize] as f64;
        let [resumed, moved] = table.map(|(least, each)| (least + each * size).ceil() as u64);
        costs.resumed.push(resumed);
        costs.moved.push(moved);
        let (deadline, wss_kib) = (Some(Time::new(deadline)), Some(at as u64));
        given.push(TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            deadline,
            wss_kib,
            ..TaskParameters::default()
        });
    }
    let set = TaskSet::new(cpus as u32, &given).unwrap();
    debug_assert!(kind.cluster.is_none());
    Case { set, given, costs }
}

/// The observations of all simulations of a set, with its own priorities.
fn simulated(case: &Case, kind: &Kind, dice: &mut Dice) -> Seen {
    // Any answer: global schedulers need no places.
    case.seen(kind, &case.ask("necessary", None), SIMULATIONS, dice)
}

/// Whether a test accepts; a set of which it promises too much fails.
fn accepts(case: &Case, name: &str, seen: &Seen) -> bool {
    let answer = case.ask(name, None);
    let bounds = answer.bounds.as_deref().unwrap_or_default();
    let beyond =
        seen.missed || seen.responses.iter().zip(bounds).any(|(seen, bound)| *seen > bound.ticks());
    assert!(!(yes(&answer) && beyond), "{name}: {seen:?} for {bounds:?} of {:?}", case.set);
    yes(&answer)
}

/// At least those of the table, which takes a second.
fn sets() -> u64 {
    let stated = std::env::var("COREHOP_SOUNDNESS_SETS").ok();
    let stated = stated.map_or(0, |it| it.parse().expect("COREHOP_SOUNDNESS_SETS is a number"));
    SETS.max(stated)
}

/// The tests of a scheduler in the table, with the least share that each has to accept, in per cent.
struct Row {
    kind: &'static str,
    tests: &'static [(&'static str, u64)],
}

const ROWS: [Row; 2] = [
    Row {
        kind: "G-EDF",
        tests: &[("g-edf", 65), ("rta", 50), ("bcl-iterative", 45), ("bar", 40), ("gfb", 20)],
    },
    Row {
        kind: "G-FP",
        tests: &[("g-fp", 75), ("g-fp-guan", 75), ("g-fp-bertogna", 70), ("g-fp-da-lc", 70)],
    },
];

#[test]
fn soundness_of_measured_costs_leaves_this_share_of_what_survives() {
    for row in &ROWS {
        let kind = KINDS.iter().find(|kind| kind.name == row.kind).unwrap();
        let (mut survivors, mut bare) = (0_u64, 0_u64);
        let mut accepted = vec![[0_u64; 3]; row.tests.len()];
        for index in 0..sets() {
            let mut dice = Dice::new(31, index);
            let case = drawn(kind, index, &mut dice);
            let free = case.without_costs();
            let seen = simulated(&case, kind, &mut dice);
            let seen_free = simulated(&free, kind, &mut dice);
            survivors += u64::from(!seen.missed);
            bare += u64::from(!seen_free.missed);
            for ((name, _), accepted) in row.tests.iter().zip(&mut accepted) {
                accepted[0] += u64::from(accepts(&case, name, &seen));
                accepted[1] += u64::from(accepts(&free, name, &seen_free));
                accepted[2] += u64::from(yes(&case.charged_for_all(kind, name)));
            }
        }
        for ((name, least), [with, without, all]) in row.tests.iter().zip(&accepted) {
            let [share, all] = [with, all].map(|count| 100 * count / survivors);
            let before = 100 * without / bare;
            println!(
                "{name}: {with} of {survivors} ({share} %); {all} % where each job pays for all others; {before} % of {bare} \
                 without costs"
            );
            assert!(share >= *least, "{name}: {share} % of {survivors}");
        }
    }
}
