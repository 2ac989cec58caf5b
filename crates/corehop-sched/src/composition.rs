// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits a response-time bound into parts whose sum is exactly the bound.
//!
//! For fixed priorities and EDF on one CPU, the parts come from the busy window that attains the bound, task by task.
//! A busy window may contain several jobs of the task. Then the time before the analysed job's release is subtracted.
//! For other tests, all time in which other jobs delay the task is a single part.

use serde::Serialize;

use super::catalogue::Test;
use super::charge::{ChargedAnswer, ChargedSet};
use super::partition::given;
use super::question::SchedulabilityQuestion;
use super::ranking::Ranking;
use super::sentence::{bounds_of, called, on_cpus};
use super::supply::FULL;
use super::system::System;
use super::uni::{edf_response, fixed};
use corehop_plan::words::words;
use corehop_plan::workload::scheduler::JobPreference;
use corehop_plan::workload::task::{Task, TaskSet, Time};

words! {
    /// The kind of a part of a bound.
    Kind, "a part of a response" {
        /// The work of the task itself: of the analysed job, and of earlier jobs in the busy window.
        Own = "own",
        /// The work of a task of higher or equal priority.
        HigherPriority = "higher_priority",
        /// The work of a task whose jobs have the same or an earlier deadline.
        EarlierDeadline = "earlier_deadline",
        /// The work of all other jobs, if the test does not attribute work to single tasks.
        Others = "others",
        /// The time for which jobs of lower priority block the task.
        Blocking = "blocking",
        /// The time by which the release of the job can be late (release jitter).
        Jitter = "jitter",
        /// The charged delays of preemptions and migrations.
        Delays = "delays",
        /// The overheads of the operating system.
        Overheads = "overheads",
        /// The part of the busy window before the job arrives, which is subtracted.
        BeforeArrival = "before_arrival",
        /// The time in the busy window during which the CPU is not available.
        Supply = "supply",
        /// The time that is added when a bound is rounded up to ticks.
        Rounding = "rounding",
    }
}

/// A part of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BoundTerm {
    /// The kind of this part.
    pub what: Kind,
    /// The index of the task whose work this part is, if the test separates tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<usize>,
    /// The number of jobs in this part, if jobs are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// The part's time in ticks of the set, written in microseconds; negative if time is subtracted.
    pub us: i64,
}

/// The response-time bound of one task, and the parts of the bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// The index of the task in the set.
    pub task: usize,
    /// The response-time bound in ticks, written in microseconds.
    pub bound_us: Time,
    /// The deadline in ticks, written in microseconds.
    pub deadline_us: Time,
    /// The nonzero parts, which sum up to the bound.
    pub parts: Vec<BoundTerm>,
}

/// Work of a task's jobs in a busy window, in the unit of the test: execution, delays, and overheads.
type WindowWork = (Kind, usize, u64, [Time; 3]);

/// The parts of a window in the unit of a test, with the number of units per tick.
struct WindowShares {
    unit: u64,
    shares: Vec<WindowWork>,
    /// Parts that are not work of jobs.
    others: Vec<(Kind, i128)>,
}

impl Composition {
    /// Returns the parts of the response-time bound of the task with the least relative slack before its deadline; `None` if the test gives no
    /// bounds.
    pub fn of_the_tightest(
        set: &TaskSet,
        test: &'static Test,
        asked: &ChargedAnswer,
        charged: &mut ChargedSet<'_>,
    ) -> Option<Self> {
        let bounds = bounds_of(set, test, asked)?;
        let part = |at: &usize| bounds[*at].as_f64() / set.tasks()[*at].deadline.as_f64();
        let task = (0..bounds.len()).max_by(|a, b| part(a).total_cmp(&part(b)))?;
        Some(Self::of(set, test, asked, charged, (task, bounds[task])))
    }

    /// Returns the parts of the bound of one task.
    pub(crate) fn of(
        set: &TaskSet,
        test: &'static Test,
        asked: &ChargedAnswer,
        charged: &mut ChargedSet<'_>,
        (task, bound): (usize, Time),
    ) -> Self {
        let question = SchedulabilityQuestion::of(set, None).scheduler;
        let order = test.scheduler().unwrap_or(question).order();
        let window = match order {
            _ if set.is_in_parts() => None,
            JobPreference::Deadline => by_deadline(set, test, asked, task),
            JobPreference::Rank => by_priority(set, test, asked, charged, task),
            JobPreference::Fair => None,
        };
        let supplied = asked.supply.is_some();
        let parts = window.and_then(|window| window.parts(bound, supplied));
        let parts = parts.unwrap_or_else(|| told_apart_by_charges(set, asked, (task, bound)));
        Self { task, bound_us: bound, deadline_us: set.tasks()[task].deadline, parts }
    }

    /// Describes the bound as a sentence: `` `b` responds within 8 ms of 10 ms: 3 ms of its own, 5 ms of `a` (5 jobs)
    /// ``.
    pub fn sentence(&self, set: &TaskSet) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.words(set)).collect();
        format!(
            "{} responds within {} of {}: {}",
            called(set, self.task),
            set.tick().span(self.bound_us),
            set.tick().span(self.deadline_us),
            parts.join(", ")
        )
    }
}

impl BoundTerm {
    fn words(&self, set: &TaskSet) -> String {
        let time = set.tick().span(Time::new(self.us.unsigned_abs()));
        let jobs = match self.jobs {
            Some(jobs) if jobs > 1 => format!(" ({jobs} jobs)"),
            _ => String::new(),
        };
        let whose = self.task.map_or_else(|| "other tasks".to_owned(), |at| called(set, at));
        match self.what {
            Kind::Own => format!("{time} of its own{jobs}"),
            Kind::HigherPriority | Kind::EarlierDeadline => format!("{time} of {whose}{jobs}"),
            Kind::Others => format!("{time} in which other tasks hold it up"),
            Kind::Blocking => format!("{time} of blocking"),
            Kind::Jitter => format!("{time} of jitter"),
            Kind::Delays => format!("{time} of delays"),
            Kind::Overheads => format!("{time} of overheads"),
            Kind::BeforeArrival => format!("less {time} before its arrival"),
            Kind::Supply => format!("{time} that the CPU does not supply"),
            Kind::Rounding => format!("{time} of rounding"),
        }
    }
}

impl WindowShares {
    /// Converts the parts to ticks, each rounded down, and adds the rest as a part; `None` if the sum differs from
    /// the test's bound. On a CPU that is not always available, the missing time is a part of kind [`Kind::Supply`].
    fn parts(mut self, bound: Time, supplied: bool) -> Option<Vec<BoundTerm>> {
        let unit = i128::from(self.unit);
        let work = self.shares.iter().flat_map(|it| it.3).map(i128::from).sum::<i128>();
        let mut exact = work + self.others.iter().map(|it| it.1).sum::<i128>();
        let lacks = i128::from(bound) * unit - exact;
        if supplied && lacks >= unit {
            self.others.push((Kind::Supply, lacks));
            exact += lacks;
        }
        if (exact + unit - 1).div_euclid(unit) != i128::from(bound) {
            return None;
        }
        let us = |span: i128| span.div_euclid(unit) as i64;
        let mut parts: Vec<BoundTerm> = Vec::new();
        for &(what, task, jobs, [bare, ..]) in &self.shares {
            let jobs = Some(jobs);
            parts.push(BoundTerm { what, task: Some(task), jobs, us: us(i128::from(bare)) });
        }
        let sum = |at: usize| self.shares.iter().map(|it| i128::from(it.3[at])).sum::<i128>();
        let plain = |what, us| BoundTerm { what, task: None, jobs: None, us };
        let charges = [(Kind::Delays, sum(1)), (Kind::Overheads, sum(2))];
        for &(what, span) in charges.iter().chain(&self.others) {
            match parts.iter_mut().find(|it| it.what == what && it.task.is_none()) {
                Some(part) => part.us += us(span),
                None => parts.push(plain(what, us(span))),
            }
        }
        let rest = bound.ticks() as i64 - parts.iter().map(|it| it.us).sum::<i64>();
        parts.push(plain(Kind::Rounding, rest));
        parts.retain(|part| part.us != 0);
        Some(parts)
    }
}

/// Splits a bound into the charges to the task itself and the time in which other tasks delay the task.
fn told_apart_by_charges(
    set: &TaskSet,
    asked: &ChargedAnswer,
    (task, bound): (usize, Time),
) -> Vec<BoundTerm> {
    let own = set.tasks()[task].wcet.min(bound);
    let whole = asked.charged.as_ref().map_or(own, |it| Time::new(it[task][0].floor() as u64));
    let whole = whole.clamp(own, bound);
    let delays = asked.delays.as_ref().map_or(Time::ZERO, |it| it[task]).min(whole - own);
    let part = |what, us: Time| BoundTerm { what, task: None, jobs: None, us: us.ticks() as i64 };
    let parts = [
        BoundTerm { task: Some(task), ..part(Kind::Own, own) },
        part(Kind::Others, bound - whole),
        part(Kind::Delays, delays),
        part(Kind::Overheads, whole - own - delays),
    ];
    parts.into_iter().filter(|part| part.us != 0).collect()
}

/// The CPU of a task, and the tasks of that CPU in ascending order, if each task has a CPU.
fn beside(set: &TaskSet, asked: &ChargedAnswer, task: usize) -> Option<(usize, Vec<usize>)> {
    let placement = asked.answer.placement.as_deref().or_else(|| set.placement());
    let bins = given::bins(System { placement, ..System::of(set) }).ok()?;
    let (cpu, mut bin) = bins.into_iter().enumerate().find(|(_, bin)| bin.contains(&task))?;
    bin.sort_unstable();
    Some((cpu, bin))
}

/// The busy window of a task under EDF on its CPU, with the charges in microseconds.
fn by_deadline(
    set: &TaskSet,
    test: &Test,
    asked: &ChargedAnswer,
    task: usize,
) -> Option<WindowShares> {
    let (cpu, group) = beside(set, asked, task)?;
    let tasks = super::sentence::charged_tasks(set, asked);
    let own: Vec<Task> = group.iter().map(|&at| tasks[at]).collect();
    let place = group.iter().position(|&at| at == task)?;
    let supply = on_cpus(set, test, asked).map(|it| it.at(cpu).supply());
    let busiest = edf_response::busiest(&own, place, supply.unwrap_or(&FULL))?;
    let share = |&(j, jobs): &(usize, u64)| {
        let at = group[j];
        let bare = set.tasks()[at].wcet;
        let delay = asked.delays.as_ref().map_or(Time::ZERO, |it| it[at]).min(own[j].wcet - bare);
        let what = if j == place { Kind::Own } else { Kind::EarlierDeadline };
        let each = [bare, delay, own[j].wcet - bare - delay];
        (what, at, jobs, each.map(|it| jobs * it))
    };
    let shares = busiest.jobs.iter().map(share).collect();
    let latency = set.tasks()[task].deadline.saturating_sub(tasks[task].deadline);
    let others = vec![
        (Kind::Overheads, i128::from(latency)),
        (Kind::BeforeArrival, -i128::from(busiest.arrival)),
    ];
    Some(WindowShares { unit: 1, shares, others })
}

/// The busy window of a task under fixed priorities on its CPU, with the charges in the unit of the test.
fn by_priority(
    set: &TaskSet,
    test: &'static Test,
    asked: &ChargedAnswer,
    charged: &mut ChargedSet<'_>,
    task: usize,
) -> Option<WindowShares> {
    let (cpu, group) = beside(set, asked, task)?;
    let place = group.iter().position(|&at| at == task)?;
    let mut ranked: Vec<Task> = set.tasks().to_vec();
    if let Some(order) = &asked.answer.priorities {
        order.iter().zip(1..).for_each(|(&at, rank)| ranked[at].priority = Some(rank));
    }
    let bare: Vec<Task> = group.iter().map(|&at| ranked[at]).collect();
    let (unit, bill) = charged.bill_of(test).ok()?;
    let bare: Vec<Task> = bare.iter().map(|it| it.in_units_of(unit)).collect();
    let (tasks, delays) = match &bill {
        // What an order that the test finds charges to jobs is in its answer.
        Some(_) if asked.answer.priorities.is_some() => return None,
        Some(bill) => bill.priorities(&bare, &bill.of(&group)),
        None => (bare.clone(), vec![Time::ZERO; bare.len()]),
    };
    let own = bill.as_ref().is_some_and(|bill| bill.own);
    let paid = if own { bill.map_or_else(Vec::new, |bill| bill.of(&group)) } else { Vec::new() };
    let charged = fixed::charged_for(&tasks, &delays, place);
    let ranking = Ranking::of(&charged);
    let at = ranking.order().iter().position(|&i| i == place)?;
    let [_] = ranking.level(at) else { return None };
    let above = ranking.above(at);
    let seen = asked.supply.as_ref().map(|it| it.in_unit(set, unit, test.name.ends_with("-given")));
    let supply = seen.map(|it| it.at(cpu).supply());
    let (jobs, done) = fixed::worst_window(&charged, above, place, supply.unwrap_or(&FULL))?;
    let share = |j: usize, jobs: u64| {
        let what = if j == place { Kind::Own } else { Kind::HigherPriority };
        // Interrupts come after the tasks, and are overheads altogether.
        let Some(task) = bare.get(j) else {
            return (Kind::Overheads, task, jobs, [Time::ZERO, Time::ZERO, jobs * charged[j].wcet]);
        };
        let delay = charged[j].wcet - tasks[j].wcet + paid.get(j).copied().unwrap_or(Time::ZERO);
        let overheads = charged[j].wcet - task.wcet - delay;
        (what, group[j], jobs, [task.wcet, delay, overheads].map(|it| jobs * it))
    };
    let released = |j: usize| (done + charged[j].jitter).div_ceil(charged[j].period);
    let shares = [share(place, jobs)].into_iter();
    let shares = shares.chain(above.iter().map(|&j| share(j, released(j)))).collect();
    let (mine, bare) = (&charged[place], &bare[place]);
    let others = vec![
        (Kind::Blocking, i128::from(mine.blocking)),
        (Kind::Jitter, i128::from(bare.jitter)),
        (Kind::Overheads, i128::from(mine.jitter - bare.jitter)),
        (Kind::BeforeArrival, -i128::from((jobs - 1) * mine.period)),
    ];
    Some(WindowShares { unit, shares, others })
}
