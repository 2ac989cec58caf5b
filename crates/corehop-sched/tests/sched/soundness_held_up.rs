// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets with jitter, locks, suspension and chains that a test accepts miss nothing where jobs come late, wait at locks and suspend
//! themselves; and analyses that leave one of them out are found out.
//!
//! A bounded number of sets for each kind; `make soundness` asks 50,000.
#![expect(clippy::print_stdout, reason = "how many verdicts held is what `make soundness` is for")]

use corehop_plan::workload::chains::{Activation, Chain, Chains};
use corehop_plan::workload::locks::{Locking, Locks};
use corehop_plan::workload::placement::TaskPlacement;
use corehop_sched::System;
use corehop_sched::Time;
use corehop_sched::charge::{ChargedSet, DelayCharge};
use corehop_sched::{TaskParameters, TaskSet, TestAnswer, Verdict, test};

use crate::holding::{Actor, Ended, Rules, Step, simulate};
use crate::mixed::{ByTask, Dice};

/// The number of sets asked of each kind.
fn sets() -> u64 {
    let stated = std::env::var("COREHOP_SOUNDNESS_SETS").ok();
    stated.map_or(150, |count| count.parse().expect("COREHOP_SOUNDNESS_SETS is a number"))
}

/// A kind of sets: their contents, and the rules under which they run.
#[expect(clippy::struct_excessive_bools, reason = "each is one of the contents of a set")]
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    tests: &'static [&'static str],
    cpus: u32,
    rules: &'static [Rules],
    locking: Option<Locking>,
    jitter: bool,
    suspension: bool,
    /// Whether deadlines may be beyond periods.
    late: bool,
    chains: Option<Activation>,
    /// Whether jobs reload when they resume, and tests charge that.
    reloads: bool,
}

const PLAIN: Kind = Kind {
    name: "",
    tests: &[],
    cpus: 1,
    rules: &[],
    locking: None,
    jitter: false,
    suspension: false,
    late: false,
    chains: None,
    reloads: false,
};
const EDF: Kind = Kind { tests: &["edf-rta", "qpa"], rules: &[Rules::Stack], ..PLAIN };
const FP: Kind = Kind { tests: &["p-fp-rta", "p-fp-audsley"], rules: &[Rules::Inherit], ..PLAIN };
const CEILINGS: Kind = Kind { rules: &[Rules::Immediate, Rules::Ceiling], ..FP };
const P_EDF: Kind =
    Kind { tests: &["p-edf-ffd-qpa", "p-edf-wfd-qpa", "p-edf-exact"], cpus: 2, ..EDF };
const P_FP: Kind = Kind { tests: &["p-fp-ffd", "p-fp-wfd", "p-fp-exact"], cpus: 2, ..FP };
const PI: Option<Locking> = Some(Locking::Pi);
const PCP: Option<Locking> = Some(Locking::Pcp);
const SRP: Option<Locking> = Some(Locking::Srp);

const KINDS: [Kind; 23] = [
    Kind { name: "EDF, jitter and reloads", jitter: true, reloads: true, ..EDF },
    Kind { name: "EDF, locks and reloads", locking: SRP, reloads: true, ..EDF },
    Kind {
        name: "FP, locks and reloads",
        locking: PCP,
        reloads: true,
        rules: &[Rules::Immediate],
        ..FP
    },
    Kind { name: "FP, jitter and reloads", jitter: true, reloads: true, ..FP },
    Kind { name: "P-EDF, locks and reloads", locking: SRP, reloads: true, ..P_EDF },
    Kind {
        name: "P-FP, locks and reloads",
        locking: PCP,
        reloads: true,
        rules: &[Rules::Immediate],
        ..P_FP
    },
    Kind { name: "EDF, jitter", jitter: true, late: true, ..EDF },
    Kind { name: "EDF, locks", locking: SRP, late: true, ..EDF },
    Kind { name: "EDF, suspension", suspension: true, ..EDF },
    Kind { name: "EDF, jitter and suspension", jitter: true, suspension: true, ..EDF },
    Kind { name: "FP, pcp", locking: PCP, late: true, ..CEILINGS },
    Kind { name: "FP, srp", locking: SRP, jitter: true, rules: &[Rules::Immediate], ..FP },
    Kind { name: "FP, pi", locking: PI, jitter: true, late: true, ..FP },
    Kind { name: "FP, suspension", suspension: true, ..FP },
    Kind { name: "FP, jitter and suspension", jitter: true, suspension: true, ..FP },
    Kind { name: "P-EDF, jitter", jitter: true, ..P_EDF },
    Kind { name: "P-EDF, locks", locking: SRP, ..P_EDF },
    Kind { name: "P-EDF, suspension", suspension: true, ..P_EDF },
    Kind { name: "P-FP, pi", locking: PI, jitter: true, ..P_FP },
    Kind { name: "P-FP, suspension", suspension: true, ..P_FP },
    Kind { name: "FP, periodic chains", chains: Some(Activation::Periodic), jitter: true, ..FP },
    Kind { name: "EDF, periodic chains", chains: Some(Activation::Periodic), ..EDF },
    EVENTS,
];
const EVENTS: Kind = Kind {
    name: "P-FP, chains by events",
    tests: &["p-fp-given"],
    cpus: 2,
    chains: Some(Activation::Event),
    late: true,
    ..FP
};

/// A set, and the critical sections of each task.
struct Case {
    set: TaskSet,
    sections: Vec<Vec<(String, u64)>>,
    reloads: Vec<u64>,
}

const RESOURCES: [&str; 3] = ["0", "1", "2"];

impl Case {
    fn draw(kind: &Kind, dice: &mut Dice) -> Self {
        let count = 2 + dice.below(4) as usize;
        let fill = 3 + dice.below(7);
        let given: Vec<TaskParameters> = (0..count)
            .map(|at| Self::task(kind, dice, fill * u64::from(kind.cpus), count as u64, at))
            .collect();
        let sections: Vec<Vec<(String, u64)>> =
            given.iter().map(|task| sections(kind, dice, task.wcet.ticks())).collect();
        let set = TaskSet::new(kind.cpus, &given).unwrap();
        let wcets: Vec<Time> = given.iter().map(|task| task.wcet).collect();
        let set = match kind.locking {
            Some(protocol) => {
                let time = |(name, longest): &(String, u64)| (name.clone(), Time::new(*longest));
                let times = |of: &Vec<(String, u64)>| of.iter().map(time).collect();
                let sections: Vec<Vec<_>> = sections.iter().map(times).collect();
                set.locking(Locks::new(protocol, &sections, &wcets).unwrap())
            }
            None => set,
        };
        let set = match kind.chains {
            Some(activation) => chained(set, activation, dice),
            None => set,
        };
        let reload = |_| if kind.reloads { dice.below(4) } else { 0 };
        let reloads = (0..count).map(reload).collect();
        Self { set, sections, reloads }
    }

    fn task(kind: &Kind, dice: &mut Dice, fill: u64, count: u64, at: usize) -> TaskParameters {
        let by_events = kind.chains == Some(Activation::Event);
        let period = if by_events { [8, 12][at % 2] } else { 5 + dice.below(20) };
        let wcet = (period * fill * (1 + dice.below(3)) / (20 * count)).clamp(1, period);
        let jitter = if kind.jitter && dice.one_in(2) { dice.below(period) } else { 0 };
        let suspension = if kind.suspension && dice.one_in(2) { dice.below(period / 2) } else { 0 };
        let least = (wcet + jitter + suspension).min(period);
        let deadline = match (kind.late, kind.chains.is_some()) {
            (true, true) => 400,
            (true, false) => least + dice.below(2 * period - least + 1),
            (false, _) => least + dice.below(period - least + 1),
        };
        TaskParameters {
            name: Some(at.to_string()),
            wcet: Time::new(wcet),
            period: Time::new(period),
            deadline: Some(Time::new(deadline)),
            jitter: Time::new(jitter),
            suspension: Time::new(suspension),
            wss_kib: kind.reloads.then_some(at as u64),
            // Where all deadlines are alike, ranks tell tasks apart.
            priority: by_events.then_some(((at * 5 + 3) % 7) as u32),
            ..TaskParameters::default()
        }
    }

    fn ask(&self, name: &str) -> TestAnswer {
        if self.set.wss_kib()[0].is_none() {
            return test(name).unwrap().run(System::of(&self.set));
        }
        let costs = ByTask { resumed: self.reloads.clone(), moved: self.reloads.clone() };
        let delay = DelayCharge::Costs(Box::new(costs));
        ChargedSet::new(&self.set, None, delay, None).ask(test(name).unwrap()).unwrap().answer
    }

    /// Jobs of each task in one of many patterns, placed and ranked as an answer has it.
    fn actors(&self, answer: &TestAnswer, pattern: u64, dice: &mut Dice) -> Vec<Actor> {
        let tasks = self.set.tasks();
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&at| match tasks[at].priority() {
            Some(rank) => u64::from(rank),
            None => tasks[at].deadline().ticks(),
        });
        let order = answer.priorities.clone().unwrap_or(order);
        let bins = answer.partition.as_ref();
        let of = |at: usize| {
            let place = bins.and_then(|all| all.iter().position(|bin| bin.contains(&at)));
            let activator = self.set.chains().and_then(|chains| chains.activator(at));
            Actor {
                cpu: place.unwrap_or(0),
                rank: order.iter().position(|&it| it == at).unwrap(),
                deadline: tasks[at].deadline().ticks(),
                reload: self.reloads[at],
                activator,
                jobs: Vec::new(),
            }
        };
        let mut actors: Vec<Actor> = (0..tasks.len()).map(of).collect();
        for (at, actor) in actors.iter_mut().enumerate() {
            // Less urgent tasks often begin just before the others.
            let early = actor.rank as u64;
            actor.jobs = self.jobs(at, pattern, early, dice);
        }
        actors
    }

    fn jobs(
        &self,
        at: usize,
        pattern: u64,
        early: u64,
        dice: &mut Dice,
    ) -> Vec<(u64, u64, Vec<Step>)> {
        let task = &self.set.tasks()[at];
        let (together, jitter, period) = (60, task.jitter().ticks(), task.period().ticks());
        let first = match pattern % 4 {
            0 => together - jitter,
            1 => together - jitter - early.min(3),
            2 => together - jitter - dice.below(6),
            _ => together - jitter - dice.below(period),
        };
        let strict = self.set.chains().is_some();
        let (mut arrival, mut last, mut jobs) = (first, 0, Vec::new());
        while arrival < HORIZON - 20 {
            let late = match pattern % 3 {
                0 | 1 => together.saturating_sub(arrival).min(jitter),
                _ => dice.below(jitter + 1),
            };
            last = last.max(arrival + late);
            jobs.push((arrival, last, self.steps(at, dice)));
            let more = !strict && dice.one_in(8);
            arrival += period + if more { dice.below(4) } else { 0 };
        }
        jobs
    }

    /// The units of a job: its sections among the rest of its work, and suspension before, between or after.
    fn steps(&self, at: usize, dice: &mut Dice) -> Vec<Step> {
        let task = &self.set.tasks()[at];
        let least = self.set.chains().map_or(1, |chains| chains.least[at].ticks().max(1));
        let mut parts: Vec<Vec<Step>> = Vec::new();
        let mut work = task.wcet().ticks();
        for (resource, longest) in &self.sections[at] {
            let lock = resource.parse().unwrap();
            let length = if dice.one_in(5) { 1 } else { *longest };
            parts.push(vec![Step::Run(Some(lock)); length as usize]);
            work -= length;
        }
        let held = task.wcet().ticks() - work;
        if dice.one_in(5) {
            work = dice.below(work + 1).max(least.saturating_sub(held));
        }
        parts.extend((0..work).map(|_| vec![Step::Run(None)]));
        if !dice.one_in(3) {
            shuffle(&mut parts, dice);
        }
        let mut sleep = if dice.one_in(4) { 0 } else { task.suspension().ticks() };
        while sleep > 0 {
            let part = if dice.one_in(2) { sleep } else { 1 + dice.below(sleep) };
            let place = [0, parts.len(), dice.below(parts.len() as u64 + 1) as usize];
            parts.insert(place[dice.below(3) as usize], vec![Step::Sleep; part as usize]);
            sleep -= part;
        }
        parts.concat()
    }

    /// Why a schedule contradicts an answer, if it does.
    fn broken(&self, answer: &TestAnswer, ended: &[Vec<Ended>]) -> Option<String> {
        for (at, jobs) in ended.iter().enumerate() {
            let bound =
                answer.bounds.as_ref().map_or(self.set.tasks()[at].deadline(), |all| all[at]);
            let late = jobs.iter().find(|job| job.end - job.arrival > bound.ticks());
            if let Some(job) = late {
                return Some(format!("task {at} responds after {bound}: {job:?}"));
            }
        }
        let chains = self.set.chains()?;
        chains.all.iter().zip(answer.latencies.as_ref()?).find_map(|(chain, &bound)| {
            let found = match chain.activation {
                Activation::Event => {
                    let ends = ended[*chain.tasks.last()?].iter();
                    ends.map(|job| job.end - job.origin).max()
                }
                Activation::Periodic => reaction(chain, ended),
            };
            found
                .filter(|&it| it > bound.ticks())
                .map(|it| format!("{chain:?} takes {it}, beyond {bound}"))
        })
    }
}

const HORIZON: u64 = 200;

fn sections(kind: &Kind, dice: &mut Dice, wcet: u64) -> Vec<(String, u64)> {
    let mut left = wcet;
    let mut all = Vec::new();
    for resource in RESOURCES.iter().filter(|_| kind.locking.is_some()) {
        let longest = 1 + dice.below(left.min(3));
        if dice.one_in(2) && longest <= left {
            all.push(((*resource).to_owned(), longest));
            left -= longest;
        }
    }
    all
}

fn shuffle<T>(all: &mut [T], dice: &mut Dice) {
    for at in (1..all.len()).rev() {
        all.swap(at, dice.below(at as u64 + 1) as usize);
    }
}

/// The set with chains: of two or three tasks, by timers; or along tasks of one period on any CPUs, by events.
fn chained(set: TaskSet, activation: Activation, dice: &mut Dice) -> TaskSet {
    let count = set.tasks().len();
    let mut tasks: Vec<usize> = (0..count).collect();
    shuffle(&mut tasks, dice);
    let of = |name: &str, tasks: Vec<usize>| Chain {
        name: name.to_owned(),
        tasks,
        activation,
        deadline: Time::new(2_000),
    };
    let least =
        set.tasks().iter().map(|task| Time::new(dice.below(task.wcet().ticks() + 1))).collect();
    if activation == Activation::Periodic {
        tasks.truncate(3);
        return set.chained(Chains { all: vec![of("c", tasks)], least }).unwrap();
    }
    let all = [0, 1].map(|rest| tasks.iter().copied().filter(|at| at % 2 == rest).collect());
    let all: Vec<Chain> =
        all.into_iter().filter(|it: &Vec<usize>| !it.is_empty()).map(|it| of("c", it)).collect();
    let places = (0..count).map(|_| TaskPlacement::Cpus(vec![dice.below(2) as usize])).collect();
    set.placed(places).unwrap().chained(Chains { all, least }).unwrap()
}

/// The longest time from an instant to the end of the job that first passes on what was there at the instant.
fn reaction(chain: &Chain, ended: &[Vec<Ended>]) -> Option<u64> {
    let passed = |from: u64| {
        let mut at = from;
        for (place, &task) in chain.tasks.iter().enumerate() {
            // Just after a start the first task waits for its next job.
            let next = ended[task]
                .iter()
                .find(|job| if place == 0 { job.start > at } else { job.start >= at })?;
            at = next.end;
        }
        Some(at - from)
    };
    ended[chain.tasks[0]].iter().filter_map(|job| passed(job.start)).max()
}

fn yes(answer: &TestAnswer) -> bool {
    answer.verdict == Verdict::Schedulable
}

/// The first contradiction of the answer that `ask` gives for a set.
fn found(kind: &Kind, case: &Case, answer: &TestAnswer, dice: &mut Dice) -> Option<String> {
    (0..8).find_map(|pattern| {
        let actors = case.actors(answer, pattern, dice);
        kind.rules.iter().find_map(|&rules| {
            let why = case.broken(answer, &simulate(rules, &actors, HORIZON))?;
            Some(format!("{why}, under {rules:?}, of {:?} as {actors:?}", case.set))
        })
    })
}

#[test]
fn what_is_accepted_holds_where_jobs_are_held_up() {
    for kind in &KINDS {
        let mut accepted = 0;
        for index in 0..sets() {
            let mut dice = Dice::new(42, index);
            let case = Case::draw(kind, &mut dice);
            for name in kind.tests {
                let answer = case.ask(name);
                if yes(&answer) {
                    accepted += 1;
                    let why = found(kind, &case, &answer, &mut dice);
                    assert!(why.is_none(), "{}, {name}, set {index}: {}", kind.name, why.unwrap());
                }
            }
        }
        println!("{}: {accepted} verdicts held", kind.name);
        assert!(accepted > sets() / 10, "{}: only {accepted} were accepted", kind.name);
    }
}

/// The set with the longest section that can hold up each task as its `blocking_us`, in place of locks.
fn with_stated_blocking(case: &Case) -> Case {
    let tasks = case.set.tasks();
    // Of equal deadlines the first task is the more urgent one under fixed priorities.
    let due = |at: usize| (tasks[at].deadline(), at);
    let blocking = |at: usize| {
        let later = (0..tasks.len()).filter(|&other| due(other) > due(at));
        let of_later = later.flat_map(|other| &case.sections[other]);
        let used = |resource: &String| {
            (0..tasks.len())
                .filter(|&user| due(user) <= due(at))
                .any(|user| case.sections[user].iter().any(|section| section.0 == *resource))
        };
        of_later.filter(|section| used(&section.0)).map(|section| section.1).max().unwrap_or(0)
    };
    let given: Vec<TaskParameters> = (0..tasks.len())
        .map(|at| TaskParameters {
            wcet: tasks[at].wcet(),
            period: tasks[at].period(),
            deadline: Some(tasks[at].deadline()),
            blocking: Time::new(blocking(at)),
            ..TaskParameters::default()
        })
        .collect();
    let set = TaskSet::new(1, &given).unwrap();
    Case { set, sections: case.sections.clone(), reloads: case.reloads.clone() }
}

#[test]
fn stated_blocking_holds_where_one_section_causes_it() {
    for name in ["EDF, locks", "FP, pcp"] {
        let kind = KINDS.iter().find(|it| it.name == name).unwrap();
        let (mut accepted, mut refused) = (0, 0);
        for index in 0..sets() {
            let mut dice = Dice::new(44, index);
            let case = Case::draw(kind, &mut dice);
            let stated = with_stated_blocking(&case);
            for test in kind.tests.iter().filter(|&&test| test != "p-fp-audsley") {
                let answer = stated.ask(test);
                refused += u64::from(!yes(&answer));
                if yes(&answer) {
                    accepted += 1;
                    let why = found(kind, &stated, &answer, &mut dice);
                    assert!(why.is_none(), "{name}, {test}, set {index}: {}", why.unwrap());
                }
            }
        }
        println!("{name}, as stated: {accepted} verdicts held");
        assert!(accepted > sets() / 10 && refused > 0, "{name}: {accepted}");
    }
}

/// A set as an analysis sees it that leaves something out.
fn without(kind: &Kind, case: &Case, left_out: &str) -> Case {
    let of = |task: &corehop_sched::Task, name: &Option<String>| TaskParameters {
        name: name.clone(),
        wcet: task.wcet(),
        period: task.period(),
        deadline: Some(task.deadline()),
        priority: task.priority(),
        jitter: if left_out == "jitter" { Time::ZERO } else { task.jitter() },
        suspension: if left_out == "suspension" { Time::ZERO } else { task.suspension() },
        ..TaskParameters::default()
    };
    let given: Vec<_> =
        case.set.tasks().iter().zip(case.set.names()).map(|(task, name)| of(task, name)).collect();
    let mut set = TaskSet::new(kind.cpus, &given).unwrap();
    if let Some(locks) = case.set.locks().filter(|_| left_out != "locks") {
        let protocol = if left_out == "inheritance" { Locking::Pcp } else { locks.protocol };
        set = set.locking(Locks { protocol, ..locks.clone() });
    }
    Case { set, sections: case.sections.clone(), reloads: case.reloads.clone() }
}

#[test]
fn what_an_analysis_leaves_out_is_found() {
    for (kind, left_out) in [
        ("EDF, jitter", "jitter"),
        ("EDF, locks", "locks"),
        ("EDF, suspension", "suspension"),
        ("FP, pcp", "locks"),
        ("FP, pi", "inheritance"),
        ("FP, pi", "jitter"),
        ("FP, suspension", "suspension"),
        ("P-FP, pi", "locks"),
    ] {
        let kind = KINDS.iter().find(|it| it.name == kind).unwrap();
        let at = (0..5_000).find(|&index| {
            let mut dice = Dice::new(43, index);
            let case = Case::draw(kind, &mut dice);
            let answer = without(kind, &case, left_out).ask(kind.tests[0]);
            yes(&answer) && found(kind, &case, &answer, &mut dice).is_some()
        });
        println!("{} without {left_out}: {at:?}", kind.name);
        assert!(at.is_some(), "{} without {left_out}", kind.name);
    }
}
