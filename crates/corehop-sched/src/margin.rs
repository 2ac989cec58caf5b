// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance of an answer, with all its charges, from the opposite answer. For a yes: the slack, the tightest task and
//! its busiest window. For a no: the late tasks, a schedule that misses a deadline, and the changes that turn the
//! answer into a yes.

use serde_json::{Value, json};

use super::catalogue::Test;
use super::change::{SetChange, changes};
use super::charge::{ChargedAnswer, ChargedSet, DelayCharge};
use super::composition::Composition;
use super::late::{Late, late};
use super::limited::remedy::{Limit, Remedy, remedy};
use super::overhead::system::SystemOverheads;
use super::question::{Answered, SchedulabilityQuestion};
use super::schedule::scene::scenes;
use super::schedule::search::{SearchResult, busiest, miss};
use super::sentence::called;
use super::slack::{Asks, FEW_TASKS, Slack};
use super::supply::InUnits;
use corehop_plan::platform::Platform;
use corehop_plan::workload::Event;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::task::{TaskSet, Time};
use corehop_stats::costs::{Cost, EventCosts, Highest};

/// The options with which the user asked about a set, so that changed sets are tested in the same way.
#[expect(missing_debug_implementations, reason = "costs need not be printed")]
pub struct TestSettings<'a> {
    /// The machine on which the set runs, if the user named one.
    pub platform: Option<&'a Platform>,
    /// Returns the delay charged to a set; `None` if the costs of its working sets are not known.
    pub delay: &'a (dyn Fn(&TaskSet) -> Option<DelayCharge<'a>> + 'a),
    /// The overheads that are charged.
    pub overheads: Option<SystemOverheads>,
    /// The supply of the CPUs; `None` if the CPUs are available all of the time.
    pub supply: Option<&'a InUnits>,
    /// Whether the largest observed delay is accepted as a bound.
    pub accept_largest: bool,
}

impl TestSettings<'_> {
    /// Returns a set together with its charges.
    pub fn charged<'s>(&'s self, set: &'s TaskSet, delay: DelayCharge<'s>) -> ChargedSet<'s> {
        let charged = ChargedSet::new(set, self.platform, delay, self.overheads);
        charged.accepting_largest(self.accept_largest).supplied_by(self.supply)
    }

    /// The answer of a test for a set; `None` if there is no answer.
    pub(super) fn ask(&self, set: &TaskSet, test: &'static Test) -> Option<ChargedAnswer> {
        self.charged(set, (self.delay)(set)?).ask(test).ok()
    }

    /// The answer to a question about a set; `None` if there is no answer. Tests that try all assignments are
    /// skipped, because they take too long for repeated use.
    pub(super) fn question(
        &self,
        set: &TaskSet,
        question: SchedulabilityQuestion,
    ) -> Option<Answered> {
        let mut tests = question.tests(set, self.platform).ok()?;
        tests.retain(|test| !test.name.ends_with("-exact"));
        question.ask(set, &tests, &mut self.charged(set, (self.delay)(set)?)).ok()
    }

    /// Whether delays are charged by working set sizes.
    pub(super) fn charges_by_size(&self, set: &TaskSet) -> bool {
        matches!((self.delay)(set), Some(DelayCharge::Costs(_)))
    }

    /// Whether any delays are charged.
    fn charges(&self, set: &TaskSet) -> bool {
        !matches!((self.delay)(set), Some(DelayCharge::Nothing))
    }

    /// Limits of preemption with which all deadlines on one CPU are met, where each job pays for its remaining
    /// preemptions. The limits need upper ends of the preemption costs.
    pub(super) fn limited(&self, set: &TaskSet, limit: Limit) -> Option<Remedy> {
        let holds = set.cache().is_some() || set.locks().is_some() || set.chains().is_some();
        let charges = self.overheads.is_some() || self.supply.is_some();
        if set.cpus() != 1 || holds || charges || set.is_in_parts() {
            return None;
        }
        let exactly = |us: f64| Cost { us, low_us: Some(us), high_us: Some(us) };
        let delays: Vec<Cost> = match (self.delay)(set)? {
            DelayCharge::Nothing => vec![exactly(0.0); set.tasks().len()],
            DelayCharge::Each(delay) => {
                vec![exactly(delay.as_f64() / set.tick().per_us() as f64); set.tasks().len()]
            }
            DelayCharge::Costs(costs) => upper_ends(set, costs.as_ref(), self.accept_largest)?,
        };
        remedy(&set.in_whole_microseconds(), limit, &delays).ok()
    }
}

/// The upper end of the cost of a preemption to each task, if all are known.
fn upper_ends(set: &TaskSet, costs: &dyn EventCosts, accept_largest: bool) -> Option<Vec<Cost>> {
    let sizes: Option<Vec<f64>> = set.wss_kib().iter().map(|it| it.map(|kib| kib as f64)).collect();
    let sizes = sizes?;
    let highest = Highest::of(costs, &[Event::Preemption], &sizes);
    if highest.as_ref().is_some_and(|it| it.beyond.is_some()) {
        return None;
    }
    let costs = highest.as_ref().map_or(costs, |it| it.costs);
    let of = |&size: &f64| costs.cost(Event::Preemption, size).ok();
    let known = |it: Cost| (accept_largest || it.high_us.is_some()).then_some(it);
    sizes.iter().map(|size| of(size).and_then(known)).collect()
}

/// The parts of the margin that the user requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MarginRequest {
    /// Whether to compute slack and changes: always, never, or only for sets of few tasks (`None`).
    pub slack: Option<bool>,
    /// Whether to search for a schedule in any case.
    pub schedule: bool,
}

/// The distance of an answer from the opposite answer.
#[derive(Debug, Default)]
pub struct Margin {
    /// The additional work that an accepted set can take.
    pub slack: Option<Slack>,
    /// The bound of the tightest task of an accepted set, split into parts.
    pub tightest: Option<Composition>,
    /// The late tasks of a rejected set.
    pub late: Vec<Late>,
    /// The changes that turn a no into a yes.
    pub changes: Vec<SetChange>,
    /// The first missed deadline that the simulation finds, or the busiest window of the tightest task; or why there
    /// is no schedule.
    pub schedule: Option<Result<SearchResult, String>>,
    accepted: bool,
}

impl Margin {
    /// Computes the margin of an answer. `question` is the set's question, or `None` if the user named a test instead
    /// of asking a question. Sets of many tasks get no slack and no changes unless the user requests them. Sets
    /// accepted only by a search through all assignments get no slack.
    pub fn of(
        set: &TaskSet,
        answered: &Answered,
        question: Option<SchedulabilityQuestion>,
        asking: &TestSettings<'_>,
        wishes: MarginRequest,
    ) -> Self {
        let accepted = answered.asked.is_accepted();
        let few =
            set.tasks().len() <= FEW_TASKS && !(accepted && answered.test.name.ends_with("-exact"));
        let wide = wishes.slack.unwrap_or(few);
        let scheduler = question.map(|it| it.scheduler).or_else(|| answered.test.scheduler());
        let own = scheduler.unwrap_or_else(|| SchedulabilityQuestion::of(set, None).scheduler);
        let mut margin = Self { accepted, ..Self::default() };
        if accepted && wide {
            let mut by = MarginTest { asking, test: answered.test };
            margin.slack = Slack::of(set, asking.charges(set), &mut by);
            margin.tightest = (asking.delay)(set).and_then(|delay| {
                let mut charged = asking.charged(set, delay);
                Composition::of_the_tightest(set, answered.test, &answered.asked, &mut charged)
            });
        }
        if !accepted && wide {
            margin.late = late(set, answered.test, own, &answered.asked);
            let named = question.is_none().then_some(answered.test);
            margin.changes = changes(set, own, asking, named);
        }
        let never = wishes.slack == Some(false) && !wishes.schedule;
        if !never && (wide || !accepted || wishes.schedule) {
            margin.schedule =
                simulated(set, answered, scheduler, asking, accepted, margin.tightest.as_ref());
        }
        margin
    }

    /// Returns the margin as headings with sentences.
    pub fn lines(&self, set: &TaskSet) -> Vec<(&'static str, String)> {
        let name = |at| called(set, at);
        let tightest = self.tightest.iter().map(|it| ("tightest", it.sentence(set)));
        let slack = self.slack.iter().flat_map(|it| it.sentences(set, name));
        let late = self.late.iter().map(|it| ("late", it.sentence(set)));
        let changes = self.changes.iter().map(|it| ("yes", it.sentence()));
        tightest.chain(slack.map(|line| ("slack", line))).chain(late).chain(changes).collect()
    }

    /// Adds the margin to an answer in JSON.
    pub fn put(&self, set: &TaskSet, value: &mut Value) {
        let us = |value| set.tick().in_us(value);
        if let Some(slack) = &self.slack {
            value["slack"] = us(json!(slack));
        }
        if let Some(tightest) = &self.tightest {
            value["tightest"] = us(json!(tightest));
        }
        if !self.late.is_empty() {
            value["late"] = us(json!(self.late));
        }
        if !self.changes.is_empty() {
            value["changes"] = json!(self.changes);
        }
        let schedule = match &self.schedule {
            Some(Ok(found)) => us(found.json()),
            Some(Err(why)) => json!({ "found": false, "simulations": 0, "why": why }),
            None => return,
        };
        value[if self.accepted { "busiest" } else { "miss" }] = schedule;
    }

    /// Whether the schedule is the busiest window of an accepted set.
    pub fn is_accepted(&self) -> bool {
        self.accepted
    }
}

/// Simulates the set with the charges of the answer.
fn simulated(
    set: &TaskSet,
    answered: &Answered,
    scheduler: Option<Scheduler>,
    asking: &TestSettings<'_>,
    accepted: bool,
    tightest: Option<&Composition>,
) -> Option<Result<SearchResult, String>> {
    let test = answered.test;
    let any = ["necessary", "own-cpu"].contains(&test.name);
    let scheduler = match scheduler {
        Some(_) if test.is_soft() => None,
        None if any => Some(SchedulabilityQuestion::of(set, None).scheduler),
        scheduler => scheduler,
    };
    let Some(scheduler) = scheduler else {
        return Some(Err(format!("schedules of {} are not simulated", test.scheduler)));
    };
    let mut charged = asking.charged(set, (asking.delay)(set)?);
    let found = scenes(set, scheduler, test, &answered.asked, &mut charged);
    Some(found.map(|scenes| {
        if accepted {
            busiest(&scenes, tightest.map_or_else(|| least_left(set), |it| it.task))
        } else {
            miss(&scenes)
        }
    }))
}

/// The task with the largest WCET relative to its deadline.
fn least_left(set: &TaskSet) -> usize {
    let part = |at: &usize| set.tasks()[*at].wcet.as_f64() / set.tasks()[*at].deadline.as_f64();
    (0..set.tasks().len()).max_by(|a, b| part(a).total_cmp(&part(b))).unwrap_or(0)
}

/// Runs one test on sets with more work.
struct MarginTest<'a, 'b> {
    asking: &'a TestSettings<'b>,
    test: &'static Test,
}

impl Asks for MarginTest<'_, '_> {
    fn accepts(&mut self, set: &TaskSet, delay: Option<Time>) -> bool {
        let asked = match delay {
            Some(delay) => self.asking.charged(set, DelayCharge::Each(delay)).ask(self.test).ok(),
            None => self.asking.ask(set, self.test),
        };
        asked.is_some_and(|it| it.is_accepted())
    }
}
