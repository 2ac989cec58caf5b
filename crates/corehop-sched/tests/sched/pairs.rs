// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays by pair of tasks: what is accepted with them misses nothing in a cache of blocks, and more is
//! accepted than with one value for each task.
#![expect(clippy::print_stdout, reason = "what it gains is what the comparison is for")]

use corehop_plan::workload::Event;
use corehop_sched::Time;
use corehop_sched::charge::{ChargedSet, DelayCharge};
use corehop_sched::{TaskParameters, TaskSet, TestAnswer, Verdict, test};
use corehop_stats::costs::{Cost, EventCosts, NoCost};

use crate::mixed::{Dice, yes};
use crate::paying::{Actor, By, Taken, World, simulate, whole};

/// Blocks of the cache.
const CACHE: u64 = 48;

/// The greatest cost of blocks, by sizes: a block a unit, a KiB a block; measured up to some size.
#[derive(Debug, Clone, Copy)]
struct BySizes {
    largest: u64,
    known: bool,
}

fn exactly(us: f64, known: bool) -> Cost {
    Cost { us, low_us: known.then_some(us), high_us: known.then_some(us) }
}

impl EventCosts for BySizes {
    fn cost(&self, _: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        Ok(exactly(wss_kib, self.known))
    }
    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let of = |size: u64| (size as f64, exactly(wss_kib.min(size as f64), self.known));
        Ok((1..=self.largest).map(of).collect())
    }
    fn happens(&self, _: Event) -> bool {
        true
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

const ALL: BySizes = BySizes { largest: 6 * CACHE, known: true };

/// A set, and where the blocks of its tasks are; each CPU has a cache of its own.
struct Case {
    set: TaskSet,
    given: Vec<TaskParameters>,
    blocks: Vec<Vec<u32>>,
}

impl Case {
    fn draw(dice: &mut Dice) -> Self {
        Self::on(1, dice)
    }

    /// On so many CPUs.
    fn on(cpus: u64, dice: &mut Dice) -> Self {
        let n = 2 * cpus + dice.below(4);
        let (mut given, mut blocks) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let period = [60, 120, 240, 480, 960][dice.below(5) as usize] + dice.below(30);
            let wcet = (1 + period * (10 + dice.below(60)) * cpus / 100 / n).min(period);
            let deadline =
                if dice.one_in(2) { period } else { wcet + dice.below(period - wcet + 1) };
            let size = 1 + if dice.one_in(2) { dice.below(4) } else { dice.below(30) };
            let first = dice.below(CACHE);
            blocks.push((first..first + size).map(|block| (block % CACHE) as u32).collect());
            let (deadline, wss_kib) = (Some(deadline), Some(size));
            given.push(TaskParameters {
                wcet: Time::new(wcet),
                period: Time::new(period),
                deadline: deadline.map(Time::new),
                wss_kib,
                ..TaskParameters::default()
            });
        }
        Self { set: TaskSet::new(cpus as u32, &given).unwrap(), given, blocks }
    }

    fn ask(&self, name: &str, costs: BySizes) -> TestAnswer {
        let delay = DelayCharge::Costs(Box::new(costs));
        ChargedSet::new(&self.set, None, delay, None).ask(test(name).unwrap()).unwrap().answer
    }

    /// Whether a deadline, or a bound, is missed in some worlds, on any CPU.
    fn is_broken(&self, by: By, answer: &TestAnswer, dice: &mut Dice) -> bool {
        let all = || vec![(0..self.given.len()).collect()];
        let cpus: Vec<Vec<usize>> = answer.partition.clone().unwrap_or_else(all);
        cpus.iter().any(|cpu| self.alone(cpu).is_broken_alone(by, &bounds_of(answer, cpu), dice))
    }

    /// The tasks of one CPU.
    fn alone(&self, cpu: &[usize]) -> Self {
        // Ties of priority go by index, so in the order of the set.
        let mut cpu = cpu.to_vec();
        cpu.sort_unstable();
        let given: Vec<TaskParameters> = cpu.iter().map(|&at| self.given[at].clone()).collect();
        let blocks = cpu.iter().map(|&at| self.blocks[at].clone()).collect();
        Self { set: self.set.clone(), given, blocks }
    }

    fn is_broken_alone(&self, by: By, bounds: &[u64], dice: &mut Dice) -> bool {
        let mut order: Vec<usize> = (0..self.given.len()).collect();
        order.sort_by_key(|&at| self.given[at].deadline);
        (0..6).any(|pattern| {
            let actor = |(at, task): (usize, &TaskParameters)| Actor {
                rank: order.iter().position(|&it| it == at).unwrap() as u32,
                offset: if pattern == 0 { 0 } else { dice.below(task.period.ticks()) },
                late: if pattern < 3 { vec![0] } else { vec![0, dice.below(9), dice.below(20)] },
                ..whole(task.wcet.ticks(), task.period.ticks(), task.deadline.unwrap().ticks(), 0)
            };
            let world = World {
                by,
                domains: vec![1],
                actors: self.given.iter().enumerate().map(actor).collect(),
                taken: Taken::default(),
                horizon: 3_000,
                restless: false,
                blocks: self.blocks.clone(),
            };
            let seen = simulate(&world);
            seen.missed || seen.responses.iter().zip(bounds).any(|(seen, bound)| seen > bound)
        })
    }
}

/// The bounds of the tasks of one CPU, in the order of the set.
fn bounds_of(answer: &TestAnswer, cpu: &[usize]) -> Vec<u64> {
    let mut cpu = cpu.to_vec();
    cpu.sort_unstable();
    let bounds = answer.bounds.as_deref().unwrap_or_default();
    cpu.iter().filter_map(|&at| bounds.get(at).map(|bound| bound.ticks())).collect()
}

/// The tests by pair, each with the one that has a single value for each task.
const TESTS: [(&str, &str, By); 2] =
    [("p-fp-pairs", "p-fp-rta", By::Rank), ("edf-pairs", "qpa", By::Deadline)];

/// Packing by pair, each with the one that has a single value for each task.
const PACKED: [(&str, &str); 3] = [
    ("p-fp-ffd-pairs", "p-fp-ffd"),
    ("p-fp-bfd-pairs", "p-fp-bfd"),
    ("p-fp-wfd-pairs", "p-fp-wfd"),
];

fn sets() -> u64 {
    let stated = std::env::var("COREHOP_SOUNDNESS_SETS").ok();
    stated.map_or(1_000, |count| count.parse().expect("COREHOP_SOUNDNESS_SETS is a number"))
}

#[test]
fn no_set_that_is_accepted_with_delays_by_pair_misses_in_a_cache_of_blocks() {
    for (name, single, by) in TESTS {
        let (mut accepted, mut singly) = (0, 0);
        for index in 0..sets() {
            let mut dice = Dice::new(21, index);
            let case = Case::draw(&mut dice);
            let (answer, one) = (case.ask(name, ALL), case.ask(single, ALL));
            accepted += u64::from(yes(&answer));
            singly += u64::from(yes(&one));
            if name == "p-fp-pairs" {
                assert!(yes(&answer) || !yes(&one), "set {index}: one value is no better");
            }
            if yes(&answer) {
                assert!(
                    !case.is_broken(by, &answer, &mut dice),
                    "{name}, set {index}: {:?}",
                    case.set
                );
            }
        }
        println!("{name}: {accepted} of {} accepted, {singly} with one value each", sets());
        assert!(accepted > singly && singly > sets() / 20, "{name}: {accepted}, {singly}");
    }
}

#[test]
fn no_set_that_is_packed_with_delays_by_pair_misses_on_any_cpu() {
    for (name, single) in PACKED {
        let (mut accepted, mut singly, mut several) = (0, 0, 0);
        for index in 0..sets() {
            let mut dice = Dice::new(23, index);
            let case = Case::on(2 + index % 3, &mut dice);
            let answer = case.ask(name, ALL);
            accepted += u64::from(yes(&answer));
            singly += u64::from(yes(&case.ask(single, ALL)));
            if yes(&answer) {
                let shared = |cpus: &Vec<Vec<usize>>| cpus.iter().any(|cpu| cpu.len() > 1);
                several += u64::from(answer.partition.as_ref().is_some_and(shared));
                assert!(
                    !case.is_broken(By::Rank, &answer, &mut dice),
                    "{name}, set {index}: {answer:?} of {:?}",
                    case.set
                );
            }
        }
        println!("{name}: {accepted} of {} accepted, {singly} with one value each", sets());
        assert!(accepted > singly && singly > sets() / 20, "{name}: {accepted}, {singly}");
        assert!(several > sets() / 20, "{name}: {several} with two tasks on a CPU");
    }
}

#[test]
fn delays_of_other_tasks_than_those_of_the_cpu_are_found_out() {
    // The sizes of the tasks in another order: as if a CPU were asked with the pairs of others.
    struct Shifted;
    impl EventCosts for Shifted {
        fn cost(&self, _: Event, wss_kib: f64) -> Result<Cost, NoCost> {
            Ok(exactly(wss_kib, true))
        }
        fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
            let other = (31.0 - wss_kib).max(1.0);
            let of = |size: u64| (size as f64, exactly(other.min(size as f64), true));
            Ok((1..=6 * CACHE).map(of).collect())
        }
        fn happens(&self, _: Event) -> bool {
            true
        }
        fn measured(&self, _: Event) -> Vec<f64> {
            Vec::new()
        }
    }
    for (name, _) in PACKED {
        let found = (0..5_000).find(|&index| {
            let mut dice = Dice::new(24, index);
            let case = Case::on(2, &mut dice);
            let delay = DelayCharge::Costs(Box::new(Shifted));
            let mut charged = ChargedSet::new(&case.set, None, delay, None);
            let answer = charged.ask(test(name).unwrap()).unwrap().answer;
            yes(&answer) && case.is_broken(By::Rank, &answer, &mut dice)
        });
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name}");
    }
}

#[test]
fn a_cpu_pays_for_its_own_tasks_alone_by_hand() {
    // By utilisation: 90 of 100 alone, then 40 of 200 beside 10 of 50. As on one CPU: 40 + 2 (10 + 2) = 64.
    let case = on(2, &[(10, 50, 2), (40, 200, 20), (90, 100, 9)]);
    for (name, single) in PACKED {
        let answer = case.ask(name, ALL);
        assert_eq!(answer.partition.as_ref().unwrap().len(), 2, "{name}");
        assert_eq!(answer.bounds.unwrap(), [10, 64, 90].map(Time::new), "{name}");
        assert_eq!(case.ask(single, ALL).bounds.unwrap()[1], Time::new(100), "{single}");
        let small = BySizes { largest: 1, ..ALL };
        assert_eq!(case.ask(name, small).verdict, Verdict::Unknown, "{name}");
    }
}

#[test]
fn a_preemptor_that_pays_for_itself_alone_is_found_out() {
    // As if nothing preempted the preemptor: sizes measured, but each smaller than it is.
    struct TooSmall;
    impl EventCosts for TooSmall {
        fn cost(&self, _: Event, wss_kib: f64) -> Result<Cost, NoCost> {
            Ok(exactly(wss_kib, true))
        }
        fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
            let of = |size: u64| (size as f64, exactly((wss_kib / 8.0).min(size as f64), true));
            Ok((1..=6 * CACHE).map(of).collect())
        }
        fn happens(&self, _: Event) -> bool {
            true
        }
        fn measured(&self, _: Event) -> Vec<f64> {
            Vec::new()
        }
    }
    for (name, _, by) in TESTS {
        let found = (0..5_000).find(|&index| {
            let mut dice = Dice::new(22, index);
            let case = Case::draw(&mut dice);
            let delay = DelayCharge::Costs(Box::new(TooSmall));
            let mut charged = ChargedSet::new(&case.set, None, delay, None);
            let answer = charged.ask(test(name).unwrap()).unwrap().answer;
            yes(&answer) && case.is_broken(by, &answer, &mut dice)
        });
        println!("{name}: {found:?}");
        assert!(found.is_some(), "{name}");
    }
}

/// (C, T, KiB) on one CPU.
fn of(tasks: &[(u64, u64, u64)]) -> Case {
    on(1, tasks)
}

/// (C, T, KiB) on so many CPUs.
fn on(cpus: u32, tasks: &[(u64, u64, u64)]) -> Case {
    let given: Vec<TaskParameters> = tasks
        .iter()
        .map(|&(wcet, period, size)| TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            wss_kib: Some(size),
            ..TaskParameters::default()
        })
        .collect();
    Case { set: TaskSet::new(cpus, &given).unwrap(), given, blocks: Vec::new() }
}

#[test]
fn a_small_preemptor_takes_little_of_a_large_victim_by_hand() {
    // Two jobs of 10, which take 2 each: 40 + 2 (10 + 2) = 64. With one value each takes all 20: two jobs
    // until 80, 40 + 2 (10 + 20) = 100.
    let case = of(&[(10, 50, 2), (40, 200, 20)]);
    assert_eq!(case.ask("p-fp-pairs", ALL).bounds.unwrap(), [10, 64].map(Time::new));
    assert_eq!(case.ask("p-fp-rta", ALL).bounds.unwrap()[1], Time::new(100));
    assert_eq!(case.ask("edf-pairs", ALL).verdict, Verdict::Schedulable);
}

#[test]
fn a_preemptor_beyond_those_measured_bounds_nothing() {
    let case = of(&[(10, 50, 9), (40, 200, 20)]);
    let small = BySizes { largest: 8, ..ALL };
    for (name, ..) in TESTS {
        assert_eq!(case.ask(name, small).verdict, Verdict::Unknown, "{name}");
    }
}

#[test]
fn delays_without_an_interval_and_costs_without_a_second_size_make_no_yes() {
    struct OneSize;
    impl EventCosts for OneSize {
        fn cost(&self, _: Event, wss_kib: f64) -> Result<Cost, NoCost> {
            Ok(exactly(wss_kib, true))
        }
        fn happens(&self, _: Event) -> bool {
            true
        }
        fn measured(&self, _: Event) -> Vec<f64> {
            Vec::new()
        }
    }
    let case = of(&[(10, 50, 2), (40, 200, 20)]);
    for (name, ..) in TESTS {
        let unsure = case.ask(name, BySizes { known: false, ..ALL });
        assert_eq!(unsure.verdict, Verdict::Unknown, "{name}");
        assert!(unsure.why.unwrap().contains("has no interval"));
        let delay = DelayCharge::Costs(Box::new(OneSize));
        let mut charged = ChargedSet::new(&case.set, None, delay, None);
        let answer = charged.ask(test(name).unwrap()).unwrap().answer;
        assert_eq!(answer.verdict, Verdict::Unknown);
        assert!(answer.why.unwrap().contains("--preemptor-wss"));
    }
}

#[test]
fn one_delay_for_all_is_paid_at_each_preemption() {
    let case = of(&[(10, 50, 2), (40, 200, 20)]);
    let mut charged = ChargedSet::new(&case.set, None, DelayCharge::Each(Time::new(5)), None);
    let answer = charged.ask(test("p-fp-pairs").unwrap()).unwrap().answer;
    // 40 + 2 (10 + 5).
    assert_eq!(answer.bounds.unwrap(), [10, 70].map(Time::new));
}
