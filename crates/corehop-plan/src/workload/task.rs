// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sporadic tasks, in integer time.

use std::collections::HashSet;
use std::fmt;

use super::blocks::{CacheUse, Footprint, Reload};
use super::chains::Chains;
use super::locks::Locks;
use super::placement::TaskPlacement;
use super::scheduler::Scheduler;
pub use super::time::{LONGEST, MOST_CPUS, MOST_TASKS, Tick, Time};

/// A sporadic task: at most one job every `period`, each of at most `wcet`, due `deadline` later.
///
/// In the letters of the papers `C` (or `e`), `T` (or `p`) and `D` (or `d`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Worst-case execution time, C.
    pub wcet: Time,
    /// Period, the least time between two releases, T.
    pub period: Time,
    /// Relative deadline, D.
    pub deadline: Time,
    /// Release jitter, J: the longest time from arrival to release.
    pub jitter: Time,
    /// The longest time for which a job of lower priority may hold it up, B.
    pub blocking: Time,
    /// The longest time for which a job waits for something beside CPU and locks once it began, in all, S.
    pub suspension: Time,
    /// The rank that was given; the smaller is served first.
    pub priority: Option<u32>,
}

impl Task {
    /// Worst-case execution time, C.
    pub fn wcet(&self) -> Time {
        self.wcet
    }
    /// Period, the least time between two releases, T.
    pub fn period(&self) -> Time {
        self.period
    }
    /// Relative deadline, D.
    pub fn deadline(&self) -> Time {
        self.deadline
    }
    /// Release jitter, J: the longest time from arrival to release.
    pub fn jitter(&self) -> Time {
        self.jitter
    }
    /// The longest time for which a job of lower priority may hold it up, B.
    pub fn blocking(&self) -> Time {
        self.blocking
    }
    /// The longest time for which a job waits for something beside CPU and locks once it began, in all, S.
    pub fn suspension(&self) -> Time {
        self.suspension
    }
    /// The rank that was given; the smaller is served first.
    pub fn priority(&self) -> Option<u32> {
        self.priority
    }
    /// It with jobs that execute for so much longer. Beyond the longest span nothing fits anyway, and sums stay
    /// inside of 64 bits.
    #[must_use]
    pub fn longer(&self, delay: Time) -> Self {
        match self.wcet.checked_add(delay).filter(|&wcet| wcet <= 2 * LONGEST) {
            Some(wcet) => Self { wcet, ..*self },
            None => self.impossible(),
        }
    }
    /// It in a unit of time of which so many make the present one.
    #[must_use]
    pub fn in_units_of(&self, finer: u64) -> Self {
        Self {
            wcet: self.wcet * finer,
            period: self.period * finer,
            deadline: self.deadline * finer,
            jitter: self.jitter * finer,
            blocking: self.blocking * finer,
            suspension: self.suspension * finer,
            priority: self.priority,
        }
    }
    /// It as a task that fits nowhere: what charging makes of one that cannot be served.
    #[must_use]
    pub fn impossible(&self) -> Self {
        Self { wcet: 2 * LONGEST, ..*self }
    }
    /// Utilisation as a fraction.
    pub fn u(&self) -> (u64, u64) {
        (self.wcet.ticks(), self.period.ticks())
    }
    /// Density as a fraction, C over the smaller of D and T.
    pub fn delta(&self) -> (u64, u64) {
        (self.wcet.ticks(), self.deadline.min(self.period).ticks())
    }
    /// Demand of the jobs that are both released and due within `t` (Baruah, Mok, Rosier 1990).
    #[inline]
    pub fn demand(&self, t: Time) -> Time {
        if t < self.deadline {
            Time::ZERO
        } else {
            ((t - self.deadline) / self.period + 1) * self.wcet
        }
    }
}

/// The parameters of a task, before it is known to make sense. Times are in the ticks of its set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskParameters {
    /// A name for messages and tables.
    pub name: Option<String>,
    /// Worst-case execution time.
    pub wcet: Time,
    /// Period.
    pub period: Time,
    /// Relative deadline; the period if left out.
    pub deadline: Option<Time>,
    /// Rank for fixed priorities; the smaller is served first.
    pub priority: Option<u32>,
    /// Release jitter.
    pub jitter: Time,
    /// Blocking by tasks of lower priority.
    pub blocking: Time,
    /// The longest time for which a job suspends itself.
    pub suspension: Time,
    /// Size of the working set in KiB.
    pub wss_kib: Option<u64>,
    /// The CPU time that a verdict allows each job, with all that was charged to the WCET.
    pub budget: Option<Time>,
    /// The cache blocks that it touches, and uses again.
    pub footprint: Option<Footprint>,
}

/// Why parameters are no task set: the task, the field, its value, and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TaskError {
    /// The task, from 0; None for the whole set.
    pub task: Option<usize>,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// The field, as files call it.
    pub field: &'static str,
    /// The present value.
    pub value: String,
    /// The expected value.
    pub expected: String,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(task) = self.task {
            write!(f, "task {task}")?;
            if let Some(name) = &self.name {
                write!(f, " (`{name}`)")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{} is {}: expected {}", self.field, self.value, self.expected)
    }
}

/// Tasks and the CPUs that are to serve them, each parameter known to make sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSet {
    tick: Tick,
    cpus: u32,
    tasks: Vec<Task>,
    names: Vec<Option<String>>,
    wss_kib: Vec<Option<u64>>,
    budgets: Vec<Option<Time>>,
    cache: Option<CacheUse>,
    locks: Option<Locks>,
    chains: Option<Chains>,
    placement: Option<Vec<TaskPlacement>>,
    scheduler: Option<Scheduler>,
    verdict: Option<String>,
}

impl TaskSet {
    /// Takes parameters that make sense, in microseconds.
    ///
    /// # Errors
    /// [`TaskError`] for a parameter that is zero or beyond the limits, for a WCET beyond its period,
    /// for priorities that only some tasks have, for a name that two have, for no task, or no CPU.
    pub fn new(cpus: u32, given: &[TaskParameters]) -> Result<Self, TaskError> {
        Self::in_ticks(Tick::Micro, cpus, given)
    }

    /// As [`TaskSet::new`], of parameters in these ticks; errors are in microseconds.
    ///
    /// # Errors
    /// [`TaskError`] as there.
    pub fn in_ticks(tick: Tick, cpus: u32, given: &[TaskParameters]) -> Result<Self, TaskError> {
        let of_set = |field, value: usize, expected: String| TaskError {
            task: None,
            name: None,
            field,
            value: value.to_string(),
            expected,
        };
        if cpus == 0 || cpus > MOST_CPUS {
            return Err(of_set("cpus", cpus as usize, format!("1 to {MOST_CPUS}")));
        }
        if given.is_empty() || given.len() > MOST_TASKS {
            let expected = format!("1 to {MOST_TASKS} tasks");
            return Err(of_set("the length of tasks", given.len(), expected));
        }
        let mut known = HashSet::new();
        let named =
            given.iter().enumerate().filter_map(|(at, task)| Some((at, task.name.as_ref()?)));
        for (at, name) in named {
            if !known.insert(name) {
                return Err(TaskError {
                    task: Some(at),
                    name: None,
                    field: "name",
                    value: format!("`{name}`"),
                    expected: "a name that no task before it has".to_owned(),
                });
            }
        }
        let ranked = given.iter().filter(|task| task.priority.is_some()).count();
        let complete = ranked == 0 || ranked == given.len();
        let tasks = given.iter().enumerate().map(|(at, task)| valid(at, task, complete, tick));
        Ok(Self {
            tick,
            cpus,
            tasks: tasks.collect::<Result<_, _>>()?,
            names: given.iter().map(|task| task.name.clone()).collect(),
            wss_kib: given.iter().map(|task| task.wss_kib).collect(),
            budgets: given.iter().map(|task| task.budget).collect(),
            cache: None,
            locks: None,
            chains: None,
            placement: None,
            scheduler: None,
            verdict: None,
        })
    }

    /// The same, whose tasks share a cache in which they have these blocks.
    ///
    /// # Errors
    /// [`TaskError`] for a task whose blocks are not known, or that uses blocks again that it never touches.
    pub fn sharing(self, given: &[TaskParameters], reload: Reload) -> Result<Self, TaskError> {
        let of = |(at, task): (usize, &TaskParameters)| {
            let wrong = |field, value: String, expected: &str| TaskError {
                task: Some(at),
                name: task.name.clone(),
                field,
                value,
                expected: expected.to_owned(),
            };
            let Some(footprint) = &task.footprint else {
                let expected = "blocks for each task, or for none (and then no block_reload_ns)";
                return Err(wrong("ecb", "absent".to_owned(), expected));
            };
            if footprint.ucb.common(&footprint.ecb) < footprint.ucb.count() {
                let expected = "some of the blocks of ecb: what is used again was touched";
                return Err(wrong("ucb", footprint.ucb.to_string(), expected));
            }
            Ok(footprint.clone())
        };
        let footprints = given.iter().enumerate().map(of).collect::<Result<_, _>>()?;
        let reload = reload.in_ticks(self.tick);
        Ok(Self { cache: Some(CacheUse { footprints, reload }), ..self })
    }

    /// The same, whose tasks wait for each other at these locks.
    #[must_use]
    pub fn locking(self, locks: Locks) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// The same, with chains of its tasks.
    ///
    /// # Errors
    /// [`TaskError`] for a chain that makes no sense with these tasks.
    pub fn chained(self, chains: Chains) -> Result<Self, TaskError> {
        if let Some((at, why)) = chains.wrong(&self.tasks) {
            let value = format!("`{}`, where {why}", chains.all[at].name);
            let expected = "each task once, and activation by events along one way".to_owned();
            return Err(TaskError { task: None, name: None, field: "chains", value, expected });
        }
        Ok(Self { chains: Some(chains), ..self })
    }

    /// The same, with where each task runs.
    ///
    /// # Errors
    /// [`TaskError`] for a task that is put on no CPU, on one twice, or on one that is not there, and for pieces that do
    /// not add up.
    pub fn placed(self, places: Vec<TaskPlacement>) -> Result<Self, TaskError> {
        for (at, (task, place)) in self.tasks.iter().zip(&places).enumerate() {
            if let Some((field, value, expected)) =
                place.wrong([task.wcet, task.period, task.deadline], self.tick, self.cpus)
            {
                let name = self.names[at].clone();
                return Err(TaskError { task: Some(at), name, field, value, expected });
            }
        }
        Ok(Self { placement: Some(places), ..self })
    }

    /// The same, under this scheduler.
    #[must_use]
    pub fn scheduled_by(self, scheduler: Scheduler) -> Self {
        Self { scheduler: Some(scheduler), ..self }
    }

    /// The same, with the sentence of a verdict about it. No test asks for the sentence.
    #[must_use]
    pub fn judged(self, verdict: impl Into<String>) -> Self {
        Self { verdict: Some(verdict.into()), ..self }
    }

    /// The same, with these ranks; the smaller is served first.
    #[must_use]
    pub fn ranked(mut self, ranks: &[u32]) -> Self {
        for (task, &rank) in self.tasks.iter_mut().zip(ranks) {
            task.priority = Some(rank);
        }
        self
    }

    /// The same, whose jobs take so long on the CPUs that they run on, whatever their periods.
    #[must_use]
    pub fn stretched(mut self, wcets: &[Time]) -> Self {
        for (task, &wcet) in self.tasks.iter_mut().zip(wcets) {
            task.wcet = wcet.min(2 * LONGEST);
        }
        self
    }

    /// The same, with working sets of these sizes in KiB.
    #[must_use]
    pub fn with_working_sets(self, wss_kib: Vec<Option<u64>>) -> Self {
        Self { wss_kib, ..self }
    }

    /// The same, for any CPUs.
    #[must_use]
    pub fn unplaced(self) -> Self {
        Self { placement: None, ..self }
    }

    /// The same, on so many CPUs; None where there may be no such number.
    pub fn with_cpus(self, cpus: u32) -> Option<Self> {
        (1..=MOST_CPUS).contains(&cpus).then_some(Self { cpus, ..self })
    }

    /// The same with one more task, whose deadline is its period, and whose rank is the last where tasks have ranks. None where a task
    /// must say more: on which CPUs it runs, what its working set is, or which blocks of a cache it uses.
    pub fn with_one_more(mut self, wcet: Time, period: Time) -> Option<Self> {
        let says_more = self.placement.is_some()
            || self.cache.is_some()
            || self.wss_kib.iter().any(Option::is_some);
        if says_more || self.tasks.len() == MOST_TASKS {
            return None;
        }
        let last = self.tasks.iter().map(|it| it.priority).max().flatten();
        let priority = last.map(|rank| rank.saturating_add(1));
        self.tasks.push(Task {
            wcet,
            period,
            deadline: period,
            jitter: Time::ZERO,
            blocking: Time::ZERO,
            suspension: Time::ZERO,
            priority,
        });
        self.names.push(None);
        self.wss_kib.push(None);
        self.budgets.push(None);
        if let Some(locks) = &mut self.locks {
            locks.sections.push(Vec::new());
        }
        if let Some(chains) = &mut self.chains {
            chains.least.push(Time::ZERO);
        }
        Some(self)
    }

    /// Whether tasks run in pieces, or have shares of CPUs.
    pub fn is_in_parts(&self) -> bool {
        let whole = |place: &TaskPlacement| matches!(place, TaskPlacement::Cpus(_));
        !self.placement.iter().flatten().all(whole)
    }

    /// The same, without ranks.
    #[must_use]
    pub fn unranked(mut self) -> Self {
        for task in &mut self.tasks {
            task.priority = None;
        }
        self
    }

    /// The same, with the time that each job may run where a server enforces it (`SCHED_DEADLINE`).
    ///
    /// # Errors
    /// [`TaskError`] for a budget below the WCET, or beyond deadline or period.
    pub fn budgeted(self, budgets: &[Time]) -> Result<Self, TaskError> {
        let budgets: Vec<Option<Time>> = budgets.iter().copied().map(Some).collect();
        for (at, (task, budget)) in self.tasks.iter().zip(&budgets).enumerate() {
            if let Some((field, value, expected)) = misfit(task, *budget, self.tick) {
                let name = self.names[at].clone();
                return Err(TaskError { task: Some(at), name, field, value, expected });
            }
        }
        Ok(Self { budgets, ..self })
    }

    /// The time that each job of a task may run where a server enforces it: the WCET where the set states nothing.
    pub fn budget(&self, at: usize) -> Time {
        self.budgets[at].unwrap_or(self.tasks[at].wcet)
    }

    /// The budget of each task, if the set states some.
    pub fn budgets(&self) -> Option<Vec<Time>> {
        let states_some = self.budgets.iter().any(Option::is_some);
        states_some.then(|| (0..self.tasks.len()).map(|at| self.budget(at)).collect())
    }

    /// The scheduler that the set states.
    pub fn scheduler(&self) -> Option<Scheduler> {
        self.scheduler
    }

    /// The sentence of the verdict with which the set was written, if the set states one.
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// The CPUs of each task, if given.
    pub fn placement(&self) -> Option<&[TaskPlacement]> {
        self.placement.as_deref()
    }

    /// Its tasks in whole microseconds: what a job needs rounded up, what a job has rounded down.
    pub fn in_whole_microseconds(&self) -> Vec<Task> {
        let up = |time| Tick::Micro.of_us(self.tick.whole_us(time));
        let down = |time| Tick::Micro.of_us(self.tick.full_us(time));
        let of = |task: &Task| Task {
            wcet: up(task.wcet),
            period: down(task.period),
            deadline: down(task.deadline),
            jitter: up(task.jitter),
            blocking: up(task.blocking),
            suspension: up(task.suspension),
            priority: task.priority,
        };
        self.tasks.iter().map(of).collect()
    }
    /// The CPUs on which a task may run: those that the set names, otherwise all.
    pub fn cpus_of(&self, at: usize) -> Vec<usize> {
        let all = || (0..self.cpus as usize).collect();
        self.placement().map_or_else(all, |places| places[at].cpus())
    }
    /// The unit of its times.
    pub fn tick(&self) -> Tick {
        self.tick
    }
    /// The number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }
    /// The tasks, in their order.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }
    /// The name of each task, where it has one.
    pub fn names(&self) -> &[Option<String>] {
        &self.names
    }
    /// The size of each task's working set in KiB, where it is known.
    pub fn wss_kib(&self) -> &[Option<u64>] {
        &self.wss_kib
    }
    /// The locks of its tasks, if they use some.
    pub fn locks(&self) -> Option<&Locks> {
        self.locks.as_ref()
    }
    /// The chains of its tasks, if there are some.
    pub fn chains(&self) -> Option<&Chains> {
        self.chains.as_ref()
    }
    /// The fields with which jobs are late, wait for others or for an end to end, and which no thread or run shows.
    pub fn unshown(&self) -> Vec<&'static str> {
        let any = |has: fn(&Task) -> bool| self.tasks.iter().any(has);
        let fields = [
            ("jitter_us", any(|&Task { jitter, .. }| jitter > Time::ZERO)),
            ("blocking_us", any(|&Task { blocking, .. }| blocking > Time::ZERO)),
            ("suspension_us", any(|&Task { suspension, .. }| suspension > Time::ZERO)),
            ("locks", self.locks.is_some()),
            ("chains", self.chains.is_some()),
        ];
        fields.into_iter().filter(|field| field.1).map(|field| field.0).collect()
    }
    /// The effect of its tasks on the cache that they share, where known.
    pub fn cache(&self) -> Option<&CacheUse> {
        self.cache.as_ref()
    }
}

fn valid(
    at: usize,
    given: &TaskParameters,
    ranks_complete: bool,
    tick: Tick,
) -> Result<Task, TaskError> {
    let wrong = |field, value: String, expected: String| TaskError {
        task: Some(at),
        name: given.name.clone(),
        field,
        value,
        expected,
    };
    let deadline = given.deadline.unwrap_or(given.period);
    let spans = [
        ("period_us", given.period, Time::TICK),
        ("wcet_us", given.wcet, Time::TICK),
        ("deadline_us", deadline, Time::TICK),
        ("jitter_us", given.jitter, Time::ZERO),
        ("blocking_us", given.blocking, Time::ZERO),
        ("suspension_us", given.suspension, Time::ZERO),
    ];
    for (field, span, least) in spans {
        if span < least || span > LONGEST {
            return Err(wrong(field, tick.us(span), within(tick, least)));
        }
    }
    if given.wcet > given.period {
        let expected = format!("at most period_us, which is {}", tick.us(given.period));
        return Err(wrong("wcet_us", tick.us(given.wcet), expected));
    }
    if !ranks_complete && given.priority.is_none() {
        let expected = "a rank for each task, or for none".to_owned();
        return Err(wrong("priority", "absent".to_owned(), expected));
    }
    let task = Task {
        wcet: given.wcet,
        period: given.period,
        deadline,
        jitter: given.jitter,
        blocking: given.blocking,
        suspension: given.suspension,
        priority: given.priority,
    };
    match misfit(&task, given.budget, tick) {
        Some((field, value, expected)) => Err(wrong(field, value, expected)),
        None => Ok(task),
    }
}

/// The spans that fit, as text.
fn within(tick: Tick, least: Time) -> String {
    let most = tick.us(LONGEST);
    match tick {
        Tick::Micro => format!("{least} to {most}"),
        Tick::Nano => format!(
            "{} to {most}, as some time of the set is no whole number of microseconds",
            tick.us(least)
        ),
    }
}

/// The error in a budget: the field, the value there, the expected value.
fn misfit(task: &Task, budget: Option<Time>, tick: Tick) -> Option<(&'static str, String, String)> {
    let most = task.deadline.min(task.period).max(task.wcet);
    let budget = budget.filter(|budget| !(task.wcet..=most).contains(budget))?;
    let expected = format!("wcet_us to the deadline, {} to {}", tick.us(task.wcet), tick.us(most));
    Some(("budget_us", tick.us(budget), expected))
}
