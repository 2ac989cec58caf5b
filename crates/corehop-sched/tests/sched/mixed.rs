// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sets with mixed working sets, and the worlds in which what a test accepts has to hold.

use corehop_plan::workload::Event;
use corehop_plan::workload::placement::{PlacedShare, TaskPlacement};
use corehop_sched::Time;
use corehop_sched::charge::{ChargedSet, DelayCharge};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::{TaskParameters, TaskSet, TestAnswer, Verdict, test};
use corehop_stats::costs::{Cost, EventCosts, NoCost};

use crate::paying::{Actor, By, Seen, Stage, Taken, World, simulate, whole};

/// Numbers that are the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let mut dice = Self(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd134_2543_de82_ef95),
        );
        dice.below(2);
        dice
    }
    /// Below so many.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most.max(1)
    }
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// A scheduler, with the tests for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) tests: &'static [&'static str],
    pub(crate) cpus: u64,
    pub(crate) by: By,
    /// The number of CPUs that share a queue; all if None.
    pub(crate) cluster: Option<usize>,
    pub(crate) implicit: bool,
    pub(crate) soft: bool,
}

const HARD: Kind = Kind {
    name: "",
    tests: &[],
    cpus: 4,
    by: By::Deadline,
    cluster: Some(1),
    implicit: false,
    soft: false,
};

/// Every scheduler whose jobs are preempted.
pub(crate) const KINDS: [Kind; 10] = [
    Kind { name: "EDF", tests: &["density", "qpa", "edf-rta"], cpus: 1, ..HARD },
    Kind {
        name: "FP",
        tests: &["liu-layland", "hyperbolic", "p-fp-rta", "p-fp-audsley"],
        cpus: 1,
        by: By::Rank,
        ..HARD
    },
    Kind {
        name: "G-EDF",
        tests: &["gfb", "bak", "bcl", "bcl-iterative", "rta", "bar", "load", "ff-dbf", "g-edf"],
        cluster: None,
        ..HARD
    },
    Kind {
        name: "G-FP",
        tests: &[
            "g-fp-bertogna",
            "g-fp-bertogna-plain",
            "g-fp-guan",
            "g-fp-da-lc",
            "g-fp-da-lc-opa",
            "g-fp-dkc",
            "g-fp",
        ],
        by: By::Rank,
        cluster: None,
        ..HARD
    },
    Kind {
        name: "P-EDF",
        tests: &["p-edf-ff-qpa", "p-edf-ffd-qpa", "p-edf-bfd-qpa", "p-edf-wfd-qpa", "p-edf-exact"],
        ..HARD
    },
    Kind { name: "P-FP", tests: &["p-fp-ffd", "p-fp-bfd", "p-fp-wfd"], by: By::Rank, ..HARD },
    Kind { name: "C-EDF", tests: &["c-edf-2"], cluster: Some(2), ..HARD },
    Kind { name: "C=D", tests: &["sp-edf-c=d"], ..HARD },
    Kind { name: "EDF-os", tests: &["sp-edf-os"], implicit: true, soft: true, ..HARD },
    Kind {
        name: "soft G-EDF",
        tests: &["cva", "devi-anderson"],
        cluster: None,
        implicit: true,
        soft: true,
        ..HARD
    },
];

/// A set, and what preemptions and migrations cost each task.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) set: TaskSet,
    pub(crate) given: Vec<TaskParameters>,
    pub(crate) costs: ByTask,
}

/// Costs by the size of a working set, which is the number of its task.
#[derive(Debug, Clone)]
pub(crate) struct ByTask {
    pub(crate) resumed: Vec<u64>,
    pub(crate) moved: Vec<u64>,
}

impl EventCosts for ByTask {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let at = wss_kib as usize;
        let us = if event == Event::Preemption { self.resumed[at] } else { self.moved[at] } as f64;
        Ok(Cost { us, low_us: Some(us), high_us: Some(us) })
    }
    fn happens(&self, _: Event) -> bool {
        true
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

impl Case {
    /// A set around what its CPUs can do, with delays that differ by a factor of up to a hundred.
    pub(crate) fn draw(kind: &Kind, dice: &mut Dice) -> Self {
        let clusters = kind.cluster.unwrap_or(1) as u64;
        let cpus = if kind.cpus == 1 {
            1
        } else {
            (2 + dice.below(kind.cpus - 1)).next_multiple_of(clusters)
        };
        // A partition may put two tasks on one CPU though there are enough for all.
        let few = kind.cluster == Some(1) && cpus > 1 && dice.one_in(4);
        let n = if few { 2 + dice.below(cpus - 1) } else { cpus + 1 + dice.below(5) };
        let fill = cpus * (20 + dice.below(75));
        let shares: Vec<u64> = (0..n).map(|_| 2 + dice.below(40)).collect();
        let sum: u64 = shares.iter().sum();
        let (mut resumed, mut moved, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for (at, share) in shares.iter().enumerate() {
            let period = [20, 50, 100, 200, 400, 800][dice.below(6) as usize] + dice.below(20);
            let wcet = (period * share * fill / sum / 100).clamp(1, period);
            let room = period - wcet + 1;
            let deadline =
                if kind.implicit || dice.one_in(2) { period } else { wcet + dice.below(room) };
            let delay = if dice.one_in(2) { dice.below(3) } else { dice.below(1 + period / 6) };
            resumed.push(delay);
            moved.push(delay + dice.below(1 + delay));
            given.push(TaskParameters {
                wcet: Time::new(wcet),
                period: Time::new(period),
                deadline: Some(Time::new(deadline)),
                wss_kib: Some(at as u64),
                ..TaskParameters::default()
            });
        }
        if kind.by == By::Rank && dice.one_in(3) {
            // Priorities that some tasks share, in no order of deadlines.
            for task in &mut given {
                task.priority = Some(dice.below(3) as u32);
            }
        }
        let set = TaskSet::new(cpus as u32, &given).unwrap();
        Self { set, given, costs: ByTask { resumed, moved } }
    }

    /// The answer of a test with these delays, and overheads.
    pub(crate) fn ask(&self, name: &str, overheads: Option<SystemOverheads>) -> TestAnswer {
        let delay = DelayCharge::Costs(Box::new(self.costs.clone()));
        ChargedSet::new(&self.set, None, delay, overheads).ask(test(name).unwrap()).unwrap().answer
    }

    /// The answer if each job pays its own delay, once: a charge that is wrong.
    pub(crate) fn ask_with_own_delays(&self, name: &str) -> Option<TestAnswer> {
        let longer = self.given.iter().zip(&self.costs.moved);
        let longer: Vec<TaskParameters> = longer
            .map(|(task, delay)| TaskParameters {
                wcet: task.wcet + Time::new(*delay),
                ..task.clone()
            })
            .collect();
        let set = TaskSet::new(self.set.cpus(), &longer).ok()?;
        let mut charged = ChargedSet::new(&set, None, DelayCharge::Nothing, None);
        Some(charged.ask(test(name).unwrap()).unwrap().answer)
    }

    /// The answer if every job pays the dearest migration of all others (with fixed priorities: of those below).
    pub(crate) fn charged_for_all(&self, kind: &Kind, name: &str) -> TestAnswer {
        let ranks = self.ranks(&self.ask("necessary", None));
        let pays_for = |at: usize, other: usize| {
            at != other && (kind.by == By::Deadline || ranks[other] > ranks[at])
        };
        let longer = |(at, task): (usize, &TaskParameters)| {
            let others = (0..self.given.len()).filter(|&other| pays_for(at, other));
            let paid = others.map(|other| self.costs.moved[other]).max().unwrap_or(0);
            let deadline = task.deadline.or(Some(task.period));
            TaskParameters { wcet: task.wcet + Time::new(paid), deadline, ..task.clone() }
        };
        let longer: Vec<TaskParameters> = self.given.iter().enumerate().map(longer).collect();
        let Ok(set) = TaskSet::new(self.set.cpus(), &longer) else {
            return self.ask("necessary", None);
        };
        let mut charged = ChargedSet::new(&set, None, DelayCharge::Nothing, None);
        charged.ask(test(name).unwrap()).unwrap().answer
    }

    /// The longest responses that were seen in some worlds, where one broke what was promised.
    pub(crate) fn broken(
        &self,
        kind: &Kind,
        answer: &TestAnswer,
        taken: Taken,
        dice: &mut Dice,
    ) -> Option<String> {
        for pattern in 0..4 {
            let world = self.world(kind, answer, taken, pattern, dice);
            let seen = simulate(&world);
            let bounds = answer.bounds.as_deref().unwrap_or_default();
            let beyond =
                seen.responses.iter().zip(bounds).any(|(seen, bound)| *seen > bound.ticks());
            if beyond || (seen.missed && !kind.soft) {
                let why = format!("{:?} with bounds {bounds:?} in {world:#?}", seen.responses);
                return Some(format!("{:?} {:?}: {why}", self.set, self.costs));
            }
        }
        None
    }

    /// The same set where preemptions and migrations cost nothing.
    pub(crate) fn without_costs(&self) -> Self {
        let none = vec![0; self.given.len()];
        Self { costs: ByTask { resumed: none.clone(), moved: none }, ..self.clone() }
    }

    /// The observations of so many worlds together, with the priorities and places of an answer.
    pub(crate) fn seen(
        &self,
        kind: &Kind,
        answer: &TestAnswer,
        worlds: u32,
        dice: &mut Dice,
    ) -> Seen {
        let mut all = Seen { responses: vec![0; self.given.len()], missed: false };
        for pattern in 0..worlds {
            let seen = simulate(&self.world(kind, answer, Taken::default(), pattern, dice));
            all.missed |= seen.missed;
            all.responses.iter_mut().zip(seen.responses).for_each(|(all, it)| *all = it.max(*all));
        }
        all
    }

    fn world(
        &self,
        kind: &Kind,
        answer: &TestAnswer,
        taken: Taken,
        pattern: u32,
        dice: &mut Dice,
    ) -> World {
        let order = self.ranks(answer);
        let longest = self.given.iter().map(|task| task.period).max().unwrap_or(Time::new(1));
        let horizon = 3 * longest;
        let actor = |(at, task): (usize, &TaskParameters)| {
            let offset = if pattern == 0 { 0 } else { dice.below(task.period.ticks()) };
            let late = if pattern < 2 {
                vec![0]
            } else {
                (0..5).map(|_| dice.below(3) * dice.below(9)).collect()
            };
            let deadline = task.deadline.unwrap_or(task.period);
            let base = Actor {
                rank: order[at],
                resumed: self.costs.resumed[at],
                moved: self.costs.moved[at],
                offset,
                late,
                ..whole(task.wcet.ticks(), task.period.ticks(), deadline.ticks(), 0)
            };
            let place = answer.placement.as_ref().map(|places| &places[at]);
            placed(base, kind, place, horizon.ticks())
        };
        let actors = self.given.iter().enumerate().map(actor).collect();
        let cpus = self.set.cpus() as usize;
        let size = kind.cluster.unwrap_or(cpus);
        World {
            by: kind.by,
            domains: vec![size; cpus / size],
            actors,
            taken,
            horizon: horizon.ticks(),
            restless: pattern % 2 == 1,
            blocks: Vec::new(),
        }
    }

    /// The rank of each task: as the test or the set says, or deadline-monotonic with ties by index.
    fn ranks(&self, answer: &TestAnswer) -> Vec<u32> {
        let stated: Option<Vec<u32>> = self.given.iter().map(|task| task.priority).collect();
        if let (None, Some(stated)) = (&answer.priorities, stated) {
            return stated;
        }
        let monotonic = || {
            let mut order: Vec<usize> = (0..self.given.len()).collect();
            order.sort_by_key(|&at| self.given[at].deadline);
            order
        };
        let order = answer.priorities.clone().unwrap_or_else(monotonic);
        let mut ranks = vec![0; order.len()];
        for (rank, &at) in order.iter().enumerate() {
            ranks[at] = rank as u32;
        }
        ranks
    }
}

/// A task where a test put it.
fn placed(actor: Actor, kind: &Kind, place: Option<&TaskPlacement>, horizon: u64) -> Actor {
    let only = actor.jobs[0][0];
    let jobs = match place {
        None => return actor,
        Some(TaskPlacement::Cpus(cpus)) => {
            let class = if kind.tests == ["sp-edf-os"] { 2 } else { 0 };
            vec![vec![Stage { domain: cpus[0] / kind.cluster.unwrap_or(1), class, ..only }]]
        }
        Some(TaskPlacement::Pieces(pieces)) => {
            let mut from = 0;
            let stage = |piece: &corehop_plan::workload::placement::PlacedPiece| {
                let begins = from;
                from += piece.deadline.ticks();
                let (work, deadline) = (piece.wcet.ticks(), piece.deadline.ticks());
                Stage { domain: piece.cpu, work, from: begins, deadline, class: 0 }
            };
            vec![pieces.iter().map(stage).collect()]
        }
        Some(TaskPlacement::Shares(shares)) => {
            let count = (horizon / actor.period + 2) as usize;
            let cpu = |at: usize| shares[at].cpu;
            let class = |at: usize| u32::from(at == 0);
            let stage = |at: usize| vec![Stage { domain: cpu(at), class: class(at), ..only }];
            turns(shares, count).into_iter().map(stage).collect()
        }
    };
    Actor { jobs, ..actor }
}

/// The share that serves each of so many jobs: of the first v of them `f v`, rounded up or down.
fn turns(shares: &[PlacedShare], count: usize) -> Vec<usize> {
    let all: f64 = shares.iter().map(|it| it.share).sum();
    let mut given = vec![0.0_f64; shares.len()];
    let turn = |job: usize, given: &mut Vec<f64>| {
        let open = (0..shares.len()).map(|at| {
            let f = shares[at].share / all;
            (given[at] / f < job as f64 + 1.0 - 1e-9, ((given[at] + 1.0) / f - 1e-9).ceil(), at)
        });
        let next = open.filter(|it| it.0).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().2;
        given[next] += 1.0;
        next
    };
    (0..count).map(|job| turn(job, &mut given)).collect()
}

/// Whether a test accepts.
pub(crate) fn yes(answer: &TestAnswer) -> bool {
    answer.verdict == Verdict::Schedulable
}
