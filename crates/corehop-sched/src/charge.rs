// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charges delays and overheads to a task set: each test runs with the charges of its own scheduler.
//!
//! [`bill`](super::bill) decides which job pays for a delay. Each task's delay is rounded up to ticks of the set
//! once. Overheads are charged in nanoseconds if the time spans of the set are short enough for nanoseconds.

use super::bill::{Bill, Payer};
use super::cache_aware::pairs::PairwiseDelays;
use super::catalogue::{Charging, NO_PAIRS, Suffers, Test};
use super::charged_supply::ChargedSupply;
use super::delays::{Delays, by_the_highest};
use super::overhead::system::SystemOverheads;
use super::speed;
use super::supply::{InUnits, Supplied};
use super::verdict::{Charges, TestAnswer, Verdict};
use super::{clusters, contents, deployment};
use crate::system::System;
use corehop_plan::platform::Platform;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{LONGEST, Task, TaskError, TaskSet, Tick, Time};
use corehop_stats::costs::{Cost, EventCosts};

/// The delay that a preemption or migration costs each job.
#[expect(missing_debug_implementations, reason = "costs need not be printed")]
pub enum DelayCharge<'a> {
    /// No delay is charged.
    Nothing,
    /// Every job is charged one value `D_c`, in ticks of the set: `e' = e + D_c` (Bastoni, Brandenburg and Anderson
    /// 2010, section 2).
    Each(Time),
    /// Every job is charged the cost of the most expensive event that its scheduler allows, for the task's working
    /// set.
    Costs(Box<dyn EventCosts + Send + 'a>),
}

/// A task set together with its charges.
#[expect(missing_debug_implementations, reason = "as for `Delay`")]
pub struct ChargedSet<'a> {
    set: &'a TaskSet,
    /// The set as the slowest of its CPUs execute it, or the reason why that set is not known; `None` if all CPUs have
    /// equal speed or no platform is named.
    slowed: Option<Result<TaskSet, String>>,
    /// Whether tests run on the slowed set.
    slow: bool,
    /// The clusters that the machine's caches form from the set's CPUs, by size.
    clusters: Vec<(u32, clusters::OfSet)>,
    platform: Option<&'a Platform>,
    delay: DelayCharge<'a>,
    /// The operating system's overheads in nanoseconds.
    overheads: Option<SystemOverheads>,
    /// The supply of the CPUs in microseconds and in nanoseconds; `None` if the CPUs are available all of the time.
    supply: Option<InUnits>,
    /// Whether the largest observed delay is accepted as a bound.
    largest_bounds: bool,
    /// The delays that were already looked up, by the events that may cause them.
    known: Vec<(Vec<Event>, Delays)>,
}

/// The answer of a test, with the charges behind the answer. Times are in the ticks of the set.
#[derive(Debug)]
pub struct ChargedAnswer {
    /// The unit of all times in this answer.
    pub tick: Tick,
    /// The test's answer without the charges.
    pub answer: TestAnswer,
    /// The longest time for which a job of each task can be off the CPU after the job began, if that time is bounded.
    pub longest_preemptions: Option<Vec<Time>>,
    /// The delay charged to each job, if any delay was charged.
    pub delays: Option<Vec<Time>>,
    /// The tasks including all charges: C, T and D.
    pub charged: Option<Vec<[f64; 3]>>,
    /// A further assumption of the answer, beside the assumptions of the test.
    pub note: Option<String>,
    /// The statistic that was charged as the delay, with its number of samples, if the samples determined the
    /// statistic: `the p90 of at least 200 samples`.
    pub charged_by: Option<String>,
    /// The supply of the CPUs with which the test ran.
    pub supply: Option<ChargedSupply>,
}

impl<'a> ChargedSet<'a> {
    /// Creates a set with charges. `platform` says which migrations are possible and which stay within a cluster;
    /// overheads are in nanoseconds.
    pub fn new(
        set: &'a TaskSet,
        platform: Option<&'a Platform>,
        delay: DelayCharge<'a>,
        overheads: Option<SystemOverheads>,
    ) -> Self {
        let slowed = platform.and_then(|platform| speed::stretched(set, platform));
        let clusters = platform.map(|it| clusters::of_set(it, set.cpus())).unwrap_or_default();
        let (known, largest_bounds) = (Vec::new(), false);
        Self {
            set,
            slowed,
            slow: false,
            clusters,
            platform,
            delay,
            overheads,
            supply: None,
            largest_bounds,
            known,
        }
    }

    /// Returns the set on CPUs with this supply. A test of one CPU, or a test that chooses CPUs, runs with the least
    /// supply of all CPUs. If the set gives each task a CPU, the test uses that CPU's supply.
    #[must_use]
    pub fn supplied_by(self, supply: Option<&InUnits>) -> Self {
        Self { supply: supply.cloned(), ..self }
    }

    /// Sets whether the largest observed delay is accepted as a bound.
    #[must_use]
    pub fn accepting_largest(self, accepted: bool) -> Self {
        Self { largest_bounds: accepted, ..self }
    }

    /// Whether the CPUs are unavailable for some of the time.
    pub(super) fn has_supply(&self) -> bool {
        self.supply.is_some()
    }

    /// Runs a test on the set, with the charges of the test's scheduler.
    ///
    /// # Errors
    /// Returns [`TaskError`] for a task whose delay is not known.
    pub fn ask(&mut self, test: &Test) -> Result<ChargedAnswer, TaskError> {
        let mut asked = self.ask_with_charges(test)?;
        asked.tick = self.set.tick();
        match (&self.slowed, asked.answer.verdict, self.platform) {
            (Some(Ok(_)), Verdict::Schedulable, Some(platform)) => {
                self.slow = true;
                let slow = self.ask_with_charges(test);
                self.slow = false;
                asked = ChargedAnswer { tick: self.set.tick(), ..slow? };
                if !asked.answer.verdict.is_schedulable() {
                    asked.answer = TestAnswer::unknown(speed::why(platform));
                }
            }
            (Some(Err(why)), Verdict::Schedulable, _) => {
                asked.answer = TestAnswer::unknown(format!(
                    "the test accepts the set for identical CPUs, but {why}"
                ));
            }
            _ => {}
        }
        if let (Verdict::Schedulable, Some(at)) = (asked.answer.verdict, self.over_budget(&asked)) {
            asked.answer = TestAnswer::unknown(format!(
                "the test accepts the set, but task {at} with its charges exceeds its budget (`budget_us`)"
            ));
        }
        Ok(asked)
    }

    /// The first task that needs more than its stated budget, if the set states budgets.
    fn over_budget(&self, asked: &ChargedAnswer) -> Option<usize> {
        let (budgets, _) = (self.set.budgets()?, asked.charged.as_ref()?);
        let needs = deployment::needs(self.set, asked);
        budgets.iter().zip(needs).position(|(&budget, needed)| needed > budget)
    }

    /// The set on which tests run.
    fn asked_about(&self) -> &TaskSet {
        match &self.slowed {
            Some(Ok(slowed)) if self.slow => slowed,
            _ => self.set,
        }
    }

    /// The set with the clusters that a test needs.
    ///
    /// # Errors
    /// Returns the reason why the set's CPUs do not form these clusters on the machine.
    fn system(&self, test: &Test) -> Result<System<'_>, String> {
        let system = System::of(self.asked_about());
        let Suffers::Within(size) = test.suffers else { return Ok(system) };
        match self.clusters.iter().find(|it| it.0 == size) {
            None => match self.platform {
                Some(platform) if size != self.set.cpus() => {
                    Err(format!("no cache of {} is shared by clusters of {size} CPUs", platform.id))
                }
                _ => Ok(system),
            },
            Some((_, Ok(clusters))) => Ok(System { clusters: Some(clusters), ..system }),
            Some((_, Err(why))) => Err(why.clone()),
        }
    }

    fn ask_with_charges(&mut self, test: &Test) -> Result<ChargedAnswer, TaskError> {
        let system = match self.system(test) {
            Ok(system) => system,
            Err(why) => return Ok(asked(TestAnswer::unknown(why), &[])),
        };
        let bare = matches!(self.delay, DelayCharge::Nothing) && self.overheads.is_none();
        if bare || test.charging == Charging::NotNeeded {
            return Ok(self.ask_with_supply(test, system));
        }
        if self.overheads.is_some() && test.charging == Charging::NotKnown {
            return Ok(asked(TestAnswer::unknown("the test cannot charge overheads"), &[]));
        }
        if self.overheads.is_some_and(|it| it.dedicated.is_some()) && !test.knows_release_jitter() {
            let why = "a dedicated CPU delays releases by different times, and the test does not support jitter";
            return Ok(asked(TestAnswer::unknown(why), &[]));
        }
        if let Some(why) = self.not_charged(test, system) {
            return Ok(asked(TestAnswer::unknown(why), &[]));
        }
        let (unit, bill, resumed) = self.bill(test)?;
        let (pieces, own) = (test.payer == Payer::EachPiece, bill.own);
        let pairs = test.by_pair.then(|| self.pairs(unit));
        let (pairs, unsure) = match pairs {
            Some(Ok((pairs, unsure))) => (Some(pairs), unsure),
            Some(Err(why)) => return Ok(asked(TestAnswer::unknown(why), &[])),
            None => (None, None),
        };
        let system = self.system(test).unwrap_or_else(|_| System::of(self.asked_about()));
        let supply = self.supply_in(unit);
        let reloads: Vec<Time> = bill.resumed.iter().map(|&it| it / unit.0).collect();
        let locks = system.locks.map(|locks| locks.reloading(&reloads));
        let locks = locks.as_ref();
        let pairs = pairs.as_ref();
        let system = System { pairs, locks, supply, ..self.seen_by(test, system) };
        let mut asked = if own && !pieces && self.overheads.is_none() {
            one_value(test, system, unit, bill)
        } else {
            unit.ask(test, system, &bill)
        };
        (asked.note, asked.supply) = (resumed.note, self.charged_supply());
        asked.note_supply();
        asked.charged_by = resumed.by;
        let doubt = resumed.doubt.filter(|_| !test.leaves_jobs_alone(self.set));
        let doubt = unsure.or(doubt).or_else(|| asked.doubt_of_supply());
        self.settle(test, &mut asked.answer, doubt);
        Ok(asked.placed(system))
    }

    /// Runs a test with the supply of the CPUs, and without any charge. A condition that is necessary on CPUs that
    /// are always available is also necessary on CPUs that supply less.
    fn ask_with_supply(&self, test: &Test, system: System<'_>) -> ChargedAnswer {
        let needed = test.charging != Charging::NotNeeded;
        let supply = self.supply_in(TimeUnit(1)).filter(|_| needed);
        let system = System { supply, ..system };
        let mut asked = asked(test.run(system), system.tasks);
        if needed {
            asked.supply = self.charged_supply();
            asked.note_supply();
            let doubt = asked.doubt_of_supply();
            self.settle(test, &mut asked.answer, doubt);
        }
        asked.placed(system)
    }

    /// The supply in the form that tests use, in this unit.
    fn supply_in(&self, unit: TimeUnit) -> Option<Supplied<'_>> {
        let all = self.supply.as_ref()?;
        Some(Supplied::of(all.of_unit(unit.nanos(self.set.tick())), self.set))
    }

    /// The supply with its observations, for the longest deadline or period of the set.
    fn charged_supply(&self) -> Option<ChargedSupply> {
        self.supply.as_ref().map(|it| ChargedSupply::of(it, self.set))
    }

    /// The reason why the charges cannot be applied to a feature of this set, or `None` if they can.
    fn not_charged(&self, test: &Test, system: System<'_>) -> Option<String> {
        let each = matches!(self.delay, DelayCharge::Each(_));
        contents::not_charged(test, system, self.overheads.is_some(), each)
    }

    /// The bill for a test, the unit of the bill, and how well the delays are known.
    fn bill(&mut self, test: &Test) -> Result<(TimeUnit, Bill, Delays), TaskError> {
        let resumed = self.delays(&test.events(self.platform, self.set.cpus()))?;
        let pieces = test.payer == Payer::EachPiece;
        // Within a CPU a job is preempted and no more; a piece of it moves.
        let preempted = if pieces { self.delays(&[Event::Preemption])? } else { resumed.clone() };
        let unit = TimeUnit::of(self.set, self.overheads.is_some());
        let bill = Bill {
            resumed: unit.all(&preempted.each),
            moved: unit.all(&resumed.each),
            overheads: self.overheads.map(|it| it.in_units_of(unit.nanos(self.set.tick()))),
            own: matches!(self.delay, DelayCharge::Each(_)) && !test.by_pair,
        };
        Ok((unit, bill, resumed))
    }

    /// The number of units per tick for a test, and the test's bill if anything is charged.
    pub(super) fn bill_of(&mut self, test: &Test) -> Result<(u64, Option<Bill>), TaskError> {
        let bare = matches!(self.delay, DelayCharge::Nothing) && self.overheads.is_none();
        if bare || test.charging == Charging::NotNeeded {
            return Ok((1, None));
        }
        self.bill(test).map(|(unit, bill, _)| (unit.0, Some(bill)))
    }

    /// The system without the cache blocks, if a delay is charged and the test charges no reloads; otherwise the whole
    /// system.
    fn seen_by<'s>(&self, test: &Test, system: System<'s>) -> System<'s> {
        let nothing = matches!(self.delay, DelayCharge::Nothing);
        System { cache: system.cache.filter(|_| test.reloads || nothing), ..system }
    }

    /// Withdraws uncertain answers: a yes that rests on unbounded delays, and a no that exists only because of
    /// charges, since charges are upper bounds.
    fn settle(&self, test: &Test, answer: &mut TestAnswer, doubt: Option<String>) {
        if matches!(self.delay, DelayCharge::Nothing)
            && self.overheads.is_none()
            && self.supply.is_none()
        {
            return;
        }
        let why = match answer.verdict {
            Verdict::Schedulable => doubt,
            Verdict::Unschedulable => {
                let uncharged = test.run(System::of(self.asked_about())).verdict;
                (uncharged != Verdict::Unschedulable).then(|| AS_CHARGED.to_owned())
            }
            Verdict::Unknown => None,
        };
        if why.is_some() {
            (answer.verdict, answer.why) = (Verdict::Unknown, why);
        }
    }

    /// Each task's delay for a simulation, in microseconds, when a job resumes on its own CPU and on another CPU;
    /// `None` if the test does not charge a single delay per task.
    pub(super) fn simulated_delays(
        &mut self,
        test: &Test,
    ) -> Result<Option<[Vec<Time>; 2]>, TaskError> {
        if test.by_pair && !matches!(self.delay, DelayCharge::Nothing) {
            return Ok(None);
        }
        let resumed = self.delays(&[Event::Preemption])?.each;
        let moved = self.delays(&test.events(self.platform, self.set.cpus()))?.each;
        Ok(Some([resumed, moved]))
    }

    /// Whether the machine has CPUs of different speeds.
    pub(super) fn has_slow_cpus(&self) -> bool {
        self.slowed.is_some()
    }

    /// Whether overheads of the operating system are charged.
    pub(super) fn has_overheads(&self) -> bool {
        self.overheads.is_some()
    }

    /// The CPUs of each cluster that a test analyses.
    pub(super) fn clusters_of(&self, test: &Test) -> Result<Vec<Vec<usize>>, String> {
        let Suffers::Within(size) = test.suffers else {
            return Err("the clusters are not known".to_owned());
        };
        let system = self.system(test)?;
        let size = size as usize;
        Ok((0..self.set.cpus() as usize / size).map(|bin| system.bin_cpus(bin, size)).collect())
    }

    /// The delays by pair of tasks in this unit, with the reason if they bound nothing; or why there are no such
    /// delays.
    fn pairs(&self, unit: TimeUnit) -> Result<(PairwiseDelays, Option<String>), String> {
        let sizes = self.set.wss_kib();
        let one = |delay: Time| PairwiseDelays {
            losses: vec![vec![(u64::MAX, delay.saturating_mul(unit.0))]; sizes.len()],
            sizes: vec![0; sizes.len()],
        };
        let costs = match &self.delay {
            DelayCharge::Nothing => return Ok((one(Time::ZERO), None)),
            DelayCharge::Each(delay) => return Ok((one(*delay), None)),
            DelayCharge::Costs(costs) => costs,
        };
        let of = |costs: &dyn EventCosts| pairs_by(sizes, costs, self.set.tick(), unit);
        let ranked = costs.quantiles();
        let mut known = ranked.iter().filter_map(|(_, costs)| of(*costs).ok());
        let sure = known.find(|(_, unsure)| unsure.is_none());
        sure.map_or_else(|| of(costs.as_ref()), Ok)
    }

    /// Returns the delay of each task if `events` may happen.
    fn delays(&mut self, events: &[Event]) -> Result<Delays, TaskError> {
        let same = |it| Delays { each: vec![it; self.set.tasks().len()], ..Delays::default() };
        let costs = match &self.delay {
            DelayCharge::Nothing => return Ok(same(Time::ZERO)),
            DelayCharge::Each(delay) => return Ok(same(*delay)),
            DelayCharge::Costs(_) if events.is_empty() => return Ok(same(Time::ZERO)),
            DelayCharge::Costs(costs) => costs,
        };
        if let Some((_, known)) = self.known.iter().find(|it| it.0 == events) {
            return Ok(known.clone());
        }
        let found = by_the_highest(self.set, events, costs.as_ref(), self.largest_bounds)?;
        self.known.push((events.to_vec(), found.clone()));
        Ok(found)
    }
}

/// Returns the delays by pair of tasks in this unit, with the reason if they bound nothing; or why there are no such
/// delays.
fn pairs_by(
    sizes: &[Option<u64>],
    costs: &dyn EventCosts,
    tick: Tick,
    unit: TimeUnit,
) -> Result<(PairwiseDelays, Option<String>), String> {
    let mut pairs = PairwiseDelays::default();
    let mut unsure = None;
    for &wss in sizes {
        // That every size is known was asked before.
        let wss = wss.unwrap_or_default();
        let measured = match costs.by_preemptor(wss as f64) {
            Ok(measured) => measured,
            Err(why) => return Err(format!("{NO_PAIRS} ({why})")),
        };
        let mut most = Time::ZERO;
        let loss = |(kib, cost): (f64, Cost)| {
            if cost.high_us.is_none() {
                let what = format!(
                    "the test accepts the set, but the cost for a working set of {wss} KiB and a preemptor of {kib} KiB has no interval"
                );
                unsure.get_or_insert(what);
            }
            let least = tick.up_from_us(cost.high_us.unwrap_or(cost.us));
            // A larger preemptor takes no less; where it seems so, the smaller one bounds it.
            most = Time::max(most, least.saturating_mul(unit.0));
            (kib.floor() as u64, most)
        };
        pairs.losses.push(measured.into_iter().map(loss).collect());
        pairs.sizes.push(wss);
    }
    Ok((pairs, unsure))
}

impl ChargedAnswer {
    /// Whether the answer is yes, with or without a condition that nothing proves.
    pub fn is_accepted(&self) -> bool {
        self.answer.verdict.is_schedulable() || self.answer.is_conditional()
    }

    /// Adds the CPUs of each task to the answer, if the test put tasks into bins of several CPUs.
    fn placed(mut self, system: System<'_>) -> Self {
        if let (None, Some(bins)) = (&self.answer.placement, &self.answer.partition) {
            self.answer.placement = Some(system.places_of(bins));
        }
        self
    }
}

/// Charges one value to each task before the test runs. If a test of several CPUs rejects the charged set, the test
/// runs again with the value charged to each preempted job.
fn one_value(test: &Test, system: System<'_>, unit: TimeUnit, bill: Bill) -> ChargedAnswer {
    let longer = longer_by_one_value(test, system, &bill);
    if longer.answer.verdict == Verdict::Unknown && test.charges_victims() {
        let by_victim = unit.ask(test, system, &Bill { own: false, ..bill });
        if by_victim.answer.verdict.is_schedulable() {
            return by_victim;
        }
    }
    longer
}

fn longer_by_one_value(test: &Test, system: System<'_>, bill: &Bill) -> ChargedAnswer {
    let charges = bill.jobs(Payer::Others, system.cpus, system.tasks, &bill.resumed);
    let answer = test.run(System { tasks: &charges.tasks, ..system });
    let longer = asked(answer, &charges.tasks);
    ChargedAnswer {
        delays: Some(charges.paid.clone()),
        charged: Some(TimeUnit(1).spans(&charges)),
        ..longer
    }
}

/// Wraps an answer about `tasks`, without any charge.
fn asked(answer: TestAnswer, tasks: &[Task]) -> ChargedAnswer {
    let off = |(bound, task): (&Time, &Task)| bound.saturating_sub(task.wcet);
    let longest = answer.bounds.as_ref().map(|it| it.iter().zip(tasks).map(off).collect());
    ChargedAnswer {
        tick: Tick::default(),
        answer,
        longest_preemptions: longest,
        delays: None,
        charged: None,
        note: None,
        charged_by: None,
        supply: None,
    }
}

/// The reason why a no that exists only because of charges does not prove that the set fails.
pub(super) const AS_CHARGED: &str =
    "the test rejects the set with the charges, and a charge is only a bound";

/// The time unit in which a test runs, given by the number of units per tick of the set.
#[derive(Debug, Clone, Copy)]
struct TimeUnit(u64);

impl TimeUnit {
    /// Chooses nanoseconds if `finer` asks for them, the set's ticks are coarser, and no time span of the set becomes
    /// too long.
    fn of(set: &TaskSet, finer: bool) -> Self {
        let spans = |task: &Task| {
            let held_up = task.jitter.max(task.blocking).max(task.suspension);
            task.period.max(task.deadline).max(held_up)
        };
        let short = set.tasks().iter().all(|task| spans(task) <= LONGEST / 1_000);
        Self(if finer && short && set.tick() == Tick::Micro { 1_000 } else { 1 })
    }

    /// The length of one unit, in nanoseconds.
    fn nanos(self, tick: Tick) -> u64 {
        tick.nanos(Time::TICK).get() / self.0
    }

    fn all(self, ticks: &[Time]) -> Vec<Time> {
        ticks.iter().map(|it| it.saturating_mul(self.0)).collect()
    }

    /// Runs a test in this unit, and converts the answer to ticks.
    fn ask(self, test: &Test, system: System<'_>, bill: &Bill) -> ChargedAnswer {
        let finer = |task: &Task| task.in_units_of(self.0);
        let tasks: Vec<Task> = system.tasks.iter().map(finer).collect();
        let locks = system.locks.map(|locks| locks.in_finer(self.0));
        let chains = system.chains.map(|chains| chains.in_finer(self.0));
        let (locks, chains) = (locks.as_ref(), chains.as_ref());
        let finer = System { tasks: &tasks, bill: Some(bill), locks, chains, ..system };
        let mut answer = test.run(finer);
        let bounds = answer.bounds.iter_mut().chain(&mut answer.latencies).flatten();
        for bound in bounds {
            *bound = bound.div_up(self.0);
        }
        let charges = answer.charged.take();
        let paid = |it: &Charges| it.paid.iter().map(|paid| paid.div_up(self.0)).collect();
        ChargedAnswer {
            delays: charges.as_ref().map(paid),
            charged: charges.as_ref().map(|it| self.spans(it)),
            ..asked(answer, system.tasks)
        }
    }

    /// C, T and D of each task, in ticks.
    fn spans(self, charges: &Charges) -> Vec<[f64; 3]> {
        let ticks = |span: Time| span.as_f64() / self.0 as f64;
        let of = |task: &Task| [ticks(task.wcet), ticks(task.period), ticks(task.deadline)];
        charges.tasks.iter().map(of).collect()
    }
}

#[cfg(test)]
#[path = "charge_tests.rs"]
mod tests;
