// SPDX-License-Identifier: MIT OR Apache-2.0
//! A task set is a list of sporadic tasks whose times are integers.

use std::collections::HashSet;
use std::fmt;

use super::blocks::{CacheUse, Footprint, Reload};
use super::chains::Chains;
use super::locks::Locks;
use super::placement::TaskPlacement;
use super::scheduler::Scheduler;
pub use super::time::{LONGEST, MOST_CPUS, MOST_TASKS, Tick, Time};

/// A sporadic task: each job executes for at most `wcet` and is due `deadline` after its release, and releases are at
/// least `period` apart.
///
/// The papers call the parameters of a task `C` (or `e`), `T` (or `p`) and `D` (or `d`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The worst-case execution time C of the task.
    pub wcet: Time,
    /// The period T of the task: the least time between two releases.
    pub period: Time,
    /// The relative deadline D of the task.
    pub deadline: Time,
    /// The release jitter J of the task: the longest time from arrival to release.
    pub jitter: Time,
    /// The longest time B for which a job of lower priority can block a job of the task.
    pub blocking: Time,
    /// The longest total time S for which a started job waits for something other than CPU and locks.
    pub suspension: Time,
    /// The rank that the set states; the scheduler serves the smaller rank first.
    pub priority: Option<u32>,
}

impl Task {
    /// Returns the worst-case execution time C of the task.
    pub fn wcet(&self) -> Time {
        self.wcet
    }
    /// Returns the period T of the task: the least time between two releases.
    pub fn period(&self) -> Time {
        self.period
    }
    /// Returns the relative deadline D of the task.
    pub fn deadline(&self) -> Time {
        self.deadline
    }
    /// Returns the release jitter J of the task: the longest time from arrival to release.
    pub fn jitter(&self) -> Time {
        self.jitter
    }
    /// Returns the longest time B for which a job of lower priority can block a job of the task.
    pub fn blocking(&self) -> Time {
        self.blocking
    }
    /// Returns the longest total time S for which a started job waits for something other than CPU and locks.
    pub fn suspension(&self) -> Time {
        self.suspension
    }
    /// Returns the rank that the set states; the scheduler serves the smaller rank first.
    pub fn priority(&self) -> Option<u32> {
        self.priority
    }
    /// Returns the task with jobs that execute for `delay` longer. If the sum exceeds the longest span, no CPU can
    /// serve the task anyway, so the task becomes [`Task::impossible`]; sums therefore stay below 64 bits.
    #[must_use]
    pub fn longer(&self, delay: Time) -> Self {
        match self.wcet.checked_add(delay).filter(|&wcet| wcet <= 2 * LONGEST) {
            Some(wcet) => Self { wcet, ..*self },
            None => self.impossible(),
        }
    }
    /// Returns the task with its times converted to a unit of time that is `finer` times finer.
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
    /// Returns the task with a WCET that no CPU can serve, which stands for a charge that is too large.
    #[must_use]
    pub fn impossible(&self) -> Self {
        Self { wcet: 2 * LONGEST, ..*self }
    }
    /// Returns the utilisation of the task as a fraction.
    pub fn u(&self) -> (u64, u64) {
        (self.wcet.ticks(), self.period.ticks())
    }
    /// Returns the density of the task as a fraction, which is C over the smaller of D and T.
    pub fn delta(&self) -> (u64, u64) {
        (self.wcet.ticks(), self.deadline.min(self.period).ticks())
    }
    /// Returns the demand of the jobs that are both released and due within `t` (Baruah, Mok, Rosier 1990).
    #[inline]
    pub fn demand(&self, t: Time) -> Time {
        if t < self.deadline {
            Time::ZERO
        } else {
            ((t - self.deadline) / self.period + 1) * self.wcet
        }
    }
}

/// The parameters of a task before corehop has checked them. Times are in the ticks of the task's set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskParameters {
    /// The name of the task in messages and tables.
    pub name: Option<String>,
    /// The worst-case execution time C of the task.
    pub wcet: Time,
    /// The period T of the task.
    pub period: Time,
    /// The relative deadline D of the task, or `None` for a deadline equal to the period.
    pub deadline: Option<Time>,
    /// The rank for fixed priorities; the scheduler serves the smaller rank first.
    pub priority: Option<u32>,
    /// The release jitter J of the task.
    pub jitter: Time,
    /// The longest time B for which tasks of lower priority can block a job of the task.
    pub blocking: Time,
    /// The longest time for which a job suspends itself.
    pub suspension: Time,
    /// The size of the working set in KiB.
    pub wss_kib: Option<u64>,
    /// The CPU time that a verdict allows each job, including everything charged to the WCET.
    pub budget: Option<Time>,
    /// The cache blocks that the task touches, and the blocks that it uses again.
    pub footprint: Option<Footprint>,
}

/// The reason why parameters are not a task set: the task, the field, its value, and the expected value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TaskError {
    /// The index of the task, or `None` for an error of the whole set.
    pub task: Option<usize>,
    /// The name of the task, if the task has a name.
    pub name: Option<String>,
    /// The name of the invalid field, as files spell the name.
    pub field: &'static str,
    /// The value that the set states.
    pub value: String,
    /// The values that are valid for the parameter.
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

/// Checked tasks, and the CPUs that serve them.
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
    /// Returns a task set from parameters in microseconds; the function checks each parameter.
    ///
    /// # Errors
    /// Returns [`TaskError`] if a parameter is zero or out of bounds, a WCET exceeds its period, only some tasks have
    /// priorities, two tasks have one name, or there is no task or no CPU.
    pub fn new(cpus: u32, given: &[TaskParameters]) -> Result<Self, TaskError> {
        Self::in_ticks(Tick::Micro, cpus, given)
    }

    /// Returns a task set, as [`TaskSet::new`] does, from parameters in ticks of this length; errors state
    /// microseconds.
    ///
    /// # Errors
    /// Returns [`TaskError`], as [`TaskSet::new`] does.
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

    /// Returns the set with a shared cache, in which the tasks have the blocks that `given` states.
    ///
    /// # Errors
    /// Returns [`TaskError`] if the blocks of a task are unknown, or if a task uses blocks again that it never
    /// touches.
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
                let expected = "only blocks that ecb also contains, because a task touches every block that the task uses again";
                return Err(wrong("ucb", footprint.ucb.to_string(), expected));
            }
            Ok(footprint.clone())
        };
        let footprints = given.iter().enumerate().map(of).collect::<Result<_, _>>()?;
        let reload = reload.in_ticks(self.tick);
        Ok(Self { cache: Some(CacheUse { footprints, reload }), ..self })
    }

    /// Returns the set with the given locks, at which tasks wait for each other.
    #[must_use]
    pub fn locking(self, locks: Locks) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// Returns the set with the given chains of its tasks.
    ///
    /// # Errors
    /// Returns [`TaskError`] for a chain that is invalid for the given tasks.
    pub fn chained(self, chains: Chains) -> Result<Self, TaskError> {
        if let Some((at, why)) = chains.wrong(&self.tasks) {
            let value = format!("`{}`, where {why}", chains.all[at].name);
            let expected = "each task once, and activation by events along one way".to_owned();
            return Err(TaskError { task: None, name: None, field: "chains", value, expected });
        }
        Ok(Self { chains: Some(chains), ..self })
    }

    /// Returns the set with this placement of each task.
    ///
    /// # Errors
    /// Returns [`TaskError`] if a task has no CPU, a repeated CPU or a CPU that the set lacks, or if the pieces of a
    /// task do not add up.
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

    /// Returns the set with the scheduler `scheduler`.
    #[must_use]
    pub fn scheduled_by(self, scheduler: Scheduler) -> Self {
        Self { scheduler: Some(scheduler), ..self }
    }

    /// Returns the set with this verdict, which is a sentence. No schedulability test reads the sentence.
    #[must_use]
    pub fn judged(self, verdict: impl Into<String>) -> Self {
        Self { verdict: Some(verdict.into()), ..self }
    }

    /// Returns the set with the given ranks; the scheduler serves the smaller rank first.
    #[must_use]
    pub fn ranked(mut self, ranks: &[u32]) -> Self {
        for (task, &rank) in self.tasks.iter_mut().zip(ranks) {
            task.priority = Some(rank);
        }
        self
    }

    /// Returns the set with the given execution times on the tasks' own CPUs, whatever the periods.
    #[must_use]
    pub fn stretched(mut self, wcets: &[Time]) -> Self {
        for (task, &wcet) in self.tasks.iter_mut().zip(wcets) {
            task.wcet = wcet.min(2 * LONGEST);
        }
        self
    }

    /// Returns the set with working sets of the given sizes in KiB.
    #[must_use]
    pub fn with_working_sets(self, wss_kib: Vec<Option<u64>>) -> Self {
        Self { wss_kib, ..self }
    }

    /// Returns the set without a placement, so that tasks can run on any CPU.
    #[must_use]
    pub fn unplaced(self) -> Self {
        Self { placement: None, ..self }
    }

    /// Returns the set on `cpus` CPUs, or `None` if the number is out of bounds.
    pub fn with_cpus(self, cpus: u32) -> Option<Self> {
        (1..=MOST_CPUS).contains(&cpus).then_some(Self { cpus, ..self })
    }

    /// Returns the set with an additional task, whose deadline is its period; if tasks have ranks, the new task has
    /// the last rank. Returns `None` if the tasks of the set state further properties (their CPUs, working sets, or
    /// cache blocks), which the new task would lack.
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

    /// Returns whether tasks run in pieces or have shares of CPUs.
    pub fn is_in_parts(&self) -> bool {
        let whole = |place: &TaskPlacement| matches!(place, TaskPlacement::Cpus(_));
        !self.placement.iter().flatten().all(whole)
    }

    /// Returns the set without the ranks of its tasks.
    #[must_use]
    pub fn unranked(mut self) -> Self {
        for task in &mut self.tasks {
            task.priority = None;
        }
        self
    }

    /// Returns the set with budgets; a budget is the time that each job may run if a server such as `SCHED_DEADLINE`
    /// enforces the budget.
    ///
    /// # Errors
    /// Returns [`TaskError`] for a budget that is below the WCET or exceeds deadline or period.
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

    /// Returns the time that each job of task `at` may run if a server enforces the time; the result is the WCET if the
    /// set states no budget.
    pub fn budget(&self, at: usize) -> Time {
        self.budgets[at].unwrap_or(self.tasks[at].wcet)
    }

    /// Returns the budget of each task, or `None` if the set states no budget.
    pub fn budgets(&self) -> Option<Vec<Time>> {
        let states_some = self.budgets.iter().any(Option::is_some);
        states_some.then(|| (0..self.tasks.len()).map(|at| self.budget(at)).collect())
    }

    /// Returns the scheduler of the set, if the set states a scheduler.
    pub fn scheduler(&self) -> Option<Scheduler> {
        self.scheduler
    }

    /// Returns the verdict with which the set was written, as a sentence, if the set states a verdict.
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// Returns the placement of each task, if the set states a placement.
    pub fn placement(&self) -> Option<&[TaskPlacement]> {
        self.placement.as_deref()
    }

    /// Returns the tasks in whole microseconds; execution and delays are rounded up, periods and deadlines are
    /// rounded down.
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
    /// Returns the CPUs on which a task can run: the CPUs that the set names, otherwise all CPUs.
    pub fn cpus_of(&self, at: usize) -> Vec<usize> {
        let all = || (0..self.cpus as usize).collect();
        self.placement().map_or_else(all, |places| places[at].cpus())
    }
    /// Returns the unit of the set's times.
    pub fn tick(&self) -> Tick {
        self.tick
    }
    /// Returns the number of CPUs of the set.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }
    /// Returns the tasks of the set, in order.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }
    /// Returns the name of each task, or `None` for a task without a name.
    pub fn names(&self) -> &[Option<String>] {
        &self.names
    }
    /// Returns the size of each task's working set in KiB, or `None` if unknown.
    pub fn wss_kib(&self) -> &[Option<u64>] {
        &self.wss_kib
    }
    /// Returns the locks of the tasks, or `None` if the tasks use no locks.
    pub fn locks(&self) -> Option<&Locks> {
        self.locks.as_ref()
    }
    /// Returns the chains of the tasks, or `None` if the set has no chains.
    pub fn chains(&self) -> Option<&Chains> {
        self.chains.as_ref()
    }
    /// Returns the names of the fields about delays, mutual waiting and end-to-end deadlines that no thread or run
    /// can show.
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
    /// Returns the effect of the tasks on their shared cache, or `None` if unknown.
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

/// Returns the valid spans of time as text.
fn within(tick: Tick, least: Time) -> String {
    let most = tick.us(LONGEST);
    match tick {
        Tick::Micro => format!("{least} to {most}"),
        Tick::Nano => format!(
            "{} to {most}, because the set has a time that is not a whole number of microseconds",
            tick.us(least)
        ),
    }
}

/// Returns the error in a budget: the field, its value, and the expected value.
fn misfit(task: &Task, budget: Option<Time>, tick: Tick) -> Option<(&'static str, String, String)> {
    let most = task.deadline.min(task.period).max(task.wcet);
    let budget = budget.filter(|budget| !(task.wcet..=most).contains(budget))?;
    let expected = format!("wcet_us to the deadline, {} to {}", tick.us(task.wcet), tick.us(most));
    Some(("budget_us", tick.us(budget), expected))
}
