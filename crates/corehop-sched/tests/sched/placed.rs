// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets that a test accepts miss nothing where the machine places them: in clusters that caches make of CPUs in any order, with
//! a CPU for releases, with deadlines beyond periods, and on the CPUs that the set states.
//!
//! Some hundreds of sets each; `make soundness` asks 20,000 or more.
#![expect(clippy::print_stdout, reason = "how many verdicts held is what `make soundness` is for")]

use corehop_plan::platform::{CpuGroups, Platform};
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::Event;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_sched::System;
use corehop_sched::Time;
use corehop_sched::charge::{ChargedSet, DelayCharge};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::{Charging, TaskParameters, TaskSet, Test, TestAnswer, Verdict, all, test};
use corehop_stats::costs::{Cost, EventCosts, NoCost};

use crate::mixed::{ByTask, Case, Dice, KINDS, Kind, yes};
use crate::paying::{Actor, By, Taken, World, simulate, whole};

/// The number of sets of each kind.
fn sets() -> u64 {
    let stated = std::env::var("COREHOP_SOUNDNESS_SETS").ok();
    stated.map_or(300, |count| count.parse().expect("COREHOP_SOUNDNESS_SETS is a number"))
}

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

/// The costs of a preemption, of a migration within a level-2 cache, and of any other migration, by task.
#[derive(Debug, Clone)]
struct ByDistance(Vec<[u64; 3]>);

impl ByDistance {
    fn us(&self, event: Event, task: usize) -> u64 {
        self.0[task][match event {
            Event::Preemption => 0,
            Event::SmtMigration | Event::L2Migration => 1,
            _ => 2,
        }]
    }
}

impl EventCosts for ByDistance {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let us = self.us(event, wss_kib as usize) as f64;
        Ok(Cost { us, low_us: Some(us), high_us: Some(us) })
    }
    fn happens(&self, _: Event) -> bool {
        true
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

/// A machine whose first CPUs share level-2 caches in pairs, in any order.
fn interleaved(cpus: usize, dice: &mut Dice) -> (Platform, Vec<Vec<usize>>) {
    let mut platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let mut order: Vec<usize> = (0..24).collect();
    for at in (1..cpus).rev() {
        order.swap(at, dice.below(at as u64 + 1) as usize);
    }
    let mut pairs: Vec<Vec<usize>> = order.chunks(2).map(<[usize]>::to_vec).collect();
    for pair in &mut pairs {
        pair.sort_unstable();
    }
    pairs.sort();
    let list = |pair: &Vec<usize>| CpuList::new(pair.iter().map(|&cpu| Cpu(cpu as u32)));
    let level_2 = platform.caches.iter_mut().find(|it| it.level == 2).unwrap();
    level_2.instances.value = CpuGroups::new(pairs.iter().map(list));
    (platform, pairs)
}

/// A set for such a machine: migrations within a cache cost little, others much.
fn clustered_case(dice: &mut Dice) -> (Case, ByDistance, Platform, Vec<Vec<usize>>) {
    let two = Kind { cpus: 8, ..*kind("C-EDF") };
    let case = Case::draw(&two, dice);
    let (platform, pairs) = interleaved(case.set.cpus() as usize, dice);
    let of = |&preemption: &u64| {
        let near = preemption + dice.below(2 + preemption / 4);
        [preemption, near, near + 5 + dice.below(10 * (1 + near))]
    };
    let costs = ByDistance(case.costs.resumed.iter().map(of).collect());
    (case, costs, platform, pairs)
}

/// The worlds of clustered EDF on the CPUs of these places, with what each way between two of them costs.
fn misses_in_clusters(
    case: &Case,
    (costs, platform): (&ByDistance, &Platform),
    places: &[TaskPlacement],
    dice: &mut Dice,
) -> bool {
    let mut clusters: Vec<Vec<usize>> = places.iter().map(TaskPlacement::cpus).collect();
    for cluster in &mut clusters {
        cluster.sort_unstable();
    }
    let domain = |at: usize, all: &[Vec<usize>]| {
        let mut own = places[at].cpus();
        own.sort_unstable();
        all.iter().position(|cluster| *cluster == own).unwrap()
    };
    let mut distinct = clusters.clone();
    distinct.sort();
    distinct.dedup();
    let machine: Vec<usize> = distinct.concat();
    (0..4).any(|pattern| {
        let actors = case.given.iter().enumerate().map(|(at, task)| {
            let cost = |from: usize, to: usize| {
                let event = Event::resuming(platform, Cpu(from as u32), Cpu(to as u32));
                costs.us(event, at)
            };
            let row = |&from: &usize| machine.iter().map(|&to| cost(from, to)).collect();
            let deadline = task.deadline.unwrap_or(task.period);
            Actor {
                offset: if pattern == 0 { 0 } else { dice.below(task.period.ticks()) },
                between: machine.iter().map(row).collect(),
                ..whole(
                    task.wcet.ticks(),
                    task.period.ticks(),
                    deadline.ticks(),
                    domain(at, &distinct),
                )
            }
        });
        let world = World {
            by: By::Deadline,
            actors: actors.collect(),
            domains: distinct.iter().map(Vec::len).collect(),
            taken: Taken::default(),
            horizon: (3 * case.given.iter().map(|task| task.period).max().unwrap_or(Time::new(1)))
                .ticks(),
            restless: pattern % 2 == 1,
            blocks: Vec::new(),
        };
        simulate(&world).missed
    })
}

#[test]
fn soundness_of_clusters_that_are_caches_in_any_order() {
    let mut accepted = 0_u64;
    for index in 0..sets() {
        let mut dice = Dice::new(41, index);
        let (case, costs, platform, pairs) = clustered_case(&mut dice);
        let delay = DelayCharge::Costs(Box::new(costs.clone()));
        let mut charged = ChargedSet::new(&case.set, Some(&platform), delay, None);
        let answer = charged.ask(test("c-edf-2").unwrap()).unwrap().answer;
        if !yes(&answer) {
            continue;
        }
        accepted += 1;
        let places = answer.placement.as_ref().unwrap();
        assert!(places.iter().all(|it| pairs.contains(&it.cpus())), "set {index}: {places:?}");
        let missed = misses_in_clusters(&case, (&costs, &platform), places, &mut dice);
        assert!(!missed, "set {index}: {:?}", case.set);
    }
    println!("clusters in any order: {accepted} of {} accepted, none missed", sets());
    assert!(accepted > sets() / 20, "{accepted}");
}

#[test]
fn clusters_by_consecutive_numbers_are_found_out() {
    let found = (0..5_000).find(|&index| {
        let mut dice = Dice::new(42, index);
        let (case, costs, platform, pairs) = clustered_case(&mut dice);
        let delay = DelayCharge::Costs(Box::new(costs.clone()));
        let mut charged = ChargedSet::new(&case.set, Some(&platform), delay, None);
        let answer = charged.ask(test("c-edf-2").unwrap()).unwrap().answer;
        yes(&answer) && {
            let consecutive = |place: &TaskPlacement| {
                let bin = pairs.iter().position(|pair| *pair == place.cpus()).unwrap();
                TaskPlacement::Cpus(vec![2 * bin, 2 * bin + 1])
            };
            let places: Vec<_> = answer.placement.iter().flatten().map(consecutive).collect();
            misses_in_clusters(&case, (&costs, &platform), &places, &mut dice)
        }
    });
    println!("clusters by consecutive numbers: {found:?}");
    assert!(found.is_some());
}

/// The overheads of a system with a CPU for releases, in nanoseconds, and the same as the world takes them.
fn dedicated(case: &Case, dice: &mut Dice) -> (SystemOverheads, Taken) {
    let release = 1 + dice.below(4);
    let latency = dice.below(3);
    let interprocessor = dice.below(2);
    let overheads = SystemOverheads {
        release: Time::new(1_000 * release),
        event_latency: Time::new(1_000 * latency),
        interprocessor: Time::new(1_000 * interprocessor),
        ..SystemOverheads::default()
    };
    let taken = Taken { release, latency, interprocessor, dedicated: true, ..Taken::default() };
    (overheads.dedicated_to(&case.set), taken)
}

/// Asks the tests of some schedulers with a CPU for releases; how many were accepted, or the first that was broken.
fn with_a_dedicated_cpu(
    seed: u64,
    wrong: impl Fn(SystemOverheads) -> SystemOverheads,
) -> Result<u64, (u64, String)> {
    let mut accepted = 0;
    for name in ["EDF", "FP", "G-EDF", "P-EDF", "P-FP", "C-EDF"] {
        for index in 0..sets() {
            let mut dice = Dice::new(seed, index);
            let case = Case::draw(kind(name), &mut dice);
            let (overheads, taken) = dedicated(&case, &mut dice);
            for name_of_test in kind(name).tests {
                if test(name_of_test).unwrap().charging == Charging::NotKnown {
                    continue;
                }
                let answer = case.ask(name_of_test, Some(wrong(overheads)));
                if yes(&answer) {
                    accepted += 1;
                    let broken = case.broken(kind(name), &answer, taken, &mut dice);
                    if let Some(broken) = broken {
                        return Err((index, format!("{name_of_test}, set {index}: {broken}")));
                    }
                }
            }
        }
    }
    Ok(accepted)
}

#[test]
fn soundness_of_a_cpu_for_releases() {
    let accepted = with_a_dedicated_cpu(43, |it| it).unwrap_or_else(|(_, why)| panic!("{why}"));
    println!("a CPU for releases: {accepted} verdicts held");
    assert!(accepted > sets() / 4, "{accepted}");
}

#[test]
fn one_release_where_several_wait_for_the_cpu_is_found_out() {
    let one = |it: SystemOverheads| SystemOverheads { dedicated: Some(it.release), ..it };
    let found = with_a_dedicated_cpu(44, one).unwrap_err().0;
    println!("one release at the dedicated CPU: set {found}");
}

/// The same set with deadlines beyond periods for about half of the tasks.
fn beyond_periods(case: Case, dice: &mut Dice) -> Case {
    let mut given = case.given;
    for task in &mut given {
        if dice.one_in(2) {
            task.deadline =
                Some(task.period + Time::new(1) + Time::new(dice.below((2 * task.period).ticks())));
        }
    }
    let set = TaskSet::new(case.set.cpus(), &given).unwrap();
    Case { set, given, ..case }
}

/// A set that fills its CPUs, so that tasks are cut, with small delays.
fn full(dice: &mut Dice) -> Case {
    let cpus = 2 + dice.below(3);
    let n = cpus + 1 + dice.below(2);
    let fill = cpus * (70 + dice.below(30));
    let costs = ByTask { resumed: Vec::new(), moved: Vec::new() };
    let mut case = Case { costs, ..Case::draw(kind("C=D"), dice) };
    case.given = (0..n)
        .map(|at| {
            let period = [60, 120, 240, 480][dice.below(4) as usize] + dice.below(20);
            let wcet = (period * fill / n / 100).saturating_sub(dice.below(period / 10)).max(1);
            let resumed = dice.below(1 + period / 60);
            case.costs.resumed.push(resumed);
            case.costs.moved.push(resumed + dice.below(2 + resumed));
            let (deadline, wss_kib) = (Some(Time::new(period)), Some(at));
            TaskParameters {
                wcet: Time::new(wcet),
                period: Time::new(period),
                deadline,
                wss_kib,
                ..TaskParameters::default()
            }
        })
        .collect();
    case.set = TaskSet::new(cpus as u32, &case.given).unwrap();
    case
}

#[test]
fn soundness_of_deadlines_beyond_periods() {
    for name in ["EDF", "FP", "G-EDF", "P-EDF", "P-FP", "C-EDF", "C=D"] {
        let (mut accepted, mut cut) = (0_u64, 0_u64);
        for index in 0..sets() {
            let mut dice = Dice::new(45, index);
            let case =
                if name == "C=D" { full(&mut dice) } else { Case::draw(kind(name), &mut dice) };
            let case = beyond_periods(case, &mut dice);
            for name_of_test in kind(name).tests {
                let answer = case.ask(name_of_test, None);
                if yes(&answer) {
                    accepted += 1;
                    let is_cut = |place: &TaskPlacement| matches!(place, TaskPlacement::Pieces(_));
                    cut += u64::from(answer.placement.iter().flatten().any(is_cut));
                    let broken = case.broken(kind(name), &answer, Taken::default(), &mut dice);
                    assert!(broken.is_none(), "{name_of_test}, set {index}: {}", broken.unwrap());
                }
            }
        }
        println!(
            "{name} with deadlines beyond periods: {accepted} verdicts held, {cut} with pieces"
        );
        assert!(accepted > sets() / 20, "{name}: {accepted}");
        assert!(name != "C=D" || cut > sets() / 50, "{name}: {cut}");
    }
}

/// A set whose tasks may each use some of its CPUs.
fn pinned(dice: &mut Dice) -> Case {
    let case = Case::draw(kind("P-EDF"), dice);
    let cpus = u64::from(case.set.cpus());
    let one_each = dice.one_in(2);
    let everywhere = dice.one_in(6);
    let place = |_: usize| {
        let first = dice.below(cpus);
        let more =
            (0..cpus).filter(|&cpu| cpu == first || everywhere || (!one_each && dice.one_in(2)));
        TaskPlacement::Cpus(more.map(|cpu| cpu as usize).collect())
    };
    let places = (0..case.given.len()).map(place).collect();
    Case { set: case.set.clone().placed(places).unwrap(), ..case }
}

/// The scheduler of a test of the catalogue; none where the simulation does not know it.
fn scheduler_of(test: &Test, answer: &TestAnswer) -> Option<Kind> {
    let np = test.scheduler.contains("non-preemptive");
    if np || test.is_soft() || test.reloads {
        return None;
    }
    let by = if test.scheduler.contains("fixed prior") { By::Rank } else { By::Deadline };
    let size = |place: &TaskPlacement| match place {
        TaskPlacement::Cpus(cpus) => cpus.len(),
        _ => 1,
    };
    let cluster = answer.placement.as_ref().map(|places| places.iter().map(size).max().unwrap());
    Some(Kind { by, cluster, ..*kind("P-EDF") })
}

#[test]
fn soundness_of_the_cpus_that_a_set_states() {
    let (mut accepted, mut names) = (0_u64, std::collections::BTreeSet::new());
    for index in 0..sets() {
        let mut dice = Dice::new(46, index);
        let case = pinned(&mut dice);
        let stated: Vec<Vec<usize>> =
            case.set.placement().unwrap().iter().map(TaskPlacement::cpus).collect();
        let every: Vec<usize> = (0..case.set.cpus() as usize).collect();
        for test in all() {
            let answer = case.ask(test.name, None);
            if !yes(&answer) {
                continue;
            }
            accepted += 1;
            names.insert(test.name);
            let within = |at: usize| {
                let found = answer.placement.as_ref().map_or(every.clone(), |it| it[at].cpus());
                found.iter().all(|cpu| stated[at].contains(cpu))
            };
            let kept = (0..stated.len()).all(within);
            assert!(kept, "{}, set {index}: {:?} in {stated:?}", test.name, answer.placement);
            let Some(kind) = scheduler_of(test, &answer) else { continue };
            let broken = case.broken(&kind, &answer, Taken::default(), &mut dice);
            assert!(broken.is_none(), "{}, set {index}: {}", test.name, broken.unwrap());
        }
    }
    println!("stated CPUs: {accepted} verdicts of {} tests held", names.len());
    assert!(accepted > sets() / 4 && names.len() > 10, "{accepted} {names:?}");
    assert!(case_of_two_on_one_cpu() == Verdict::Unschedulable);
}

/// Two tasks pinned to one CPU that ask for more than it has.
fn case_of_two_on_one_cpu() -> Verdict {
    let set = crate::draw::implicit(2, &[(6, 10), (7, 12)]);
    let set = set.placed(vec![TaskPlacement::Cpus(vec![0]), TaskPlacement::Cpus(vec![0])]).unwrap();
    test("p-edf-given").unwrap().run(System::of(&set)).verdict
}
