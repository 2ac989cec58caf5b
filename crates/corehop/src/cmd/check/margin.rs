// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance of the answer from the other one, with all that is charged.

use corehop_core::model::costs::Source;
use corehop_core::platform::Platform;
use corehop_core::sched::charge::{Charged, ChargedAnswer, Delay};
use corehop_core::sched::overhead::system::Overheads;
use corehop_core::sched::question::Answered;
use corehop_core::sched::sentence::called;
use corehop_core::sched::slack::{Asks, Change, FEW_TASKS, Slack, changes};
use corehop_core::sched::supply::InUnits;
use corehop_core::sched::{Question, TaskSet, Test};
use serde_json::{Value, json};

use super::{Args, delay};

/// The slack of a yes, or the changes that make a no a yes.
#[derive(Default)]
pub(super) struct Margin {
    slack: Option<Slack>,
    changes: Vec<Change>,
}

/// Asks about changed sets as the user asked about the set.
pub(super) struct Asking<'a> {
    pub(super) args: &'a Args,
    pub(super) platform: Option<&'a Platform>,
    pub(super) source: Option<&'a Source>,
    pub(super) overheads: Option<Overheads>,
    pub(super) supply: Option<InUnits>,
}

/// One test, or the tests of a question.
struct By<'a> {
    asking: &'a Asking<'a>,
    test: &'static Test,
}

impl Margin {
    /// Of an answer. Sets of many tasks, and answers of a search through all assignments, are asked where the user wishes so.
    pub(super) fn of(
        set: &TaskSet,
        answered: &Answered,
        question: Option<Question>,
        asking: &Asking<'_>,
    ) -> Self {
        let few = set.tasks().len() <= FEW_TASKS && !answered.test.name.ends_with("-exact");
        if !(few || asking.args.slack) {
            return Self::default();
        }
        let mut by = By { asking, test: answered.test };
        if accepted(&answered.asked) {
            let slack = Slack::of(set, asking.charges(set), &mut by);
            return Self { slack, changes: Vec::new() };
        }
        let changes = question.map(|it| changes(set, it.scheduler, &mut by)).unwrap_or_default();
        Self { slack: None, changes }
    }

    /// Heads and sentences.
    pub(super) fn lines(&self, set: &TaskSet) -> Vec<(&'static str, String)> {
        let name = |at| called(set, at);
        let slack = self.slack.iter().flat_map(|it| it.sentences(set, name));
        let changes = self.changes.iter().map(|it| ("yes", it.what.clone()));
        slack.map(|line| ("slack", line)).chain(changes).collect()
    }

    /// Adds both to an answer.
    pub(super) fn put(&self, value: &mut Value) {
        if let Some(slack) = &self.slack {
            value["slack"] = json!(slack);
        }
        if !self.changes.is_empty() {
            value["changes"] = json!(self.changes);
        }
    }
}

fn accepted(asked: &ChargedAnswer) -> bool {
    asked.answer.verdict.is_schedulable() || asked.answer.is_conditional()
}

impl Asking<'_> {
    /// Whether delays are charged.
    fn charges(&self, set: &TaskSet) -> bool {
        !matches!(delay(self.args, self.source, set), Ok(Delay::Nothing))
    }

    /// A set with what is charged to it.
    pub(super) fn charged<'s>(&'s self, set: &'s TaskSet, delay: Delay<'s>) -> Charged<'s> {
        let charged = Charged::new(set, self.platform, delay, self.overheads);
        charged.accepting_largest(self.args.accept_largest).supplied_by(self.supply.as_ref())
    }
}

impl Asks for By<'_> {
    fn accepts(&mut self, set: &TaskSet, each: Option<u64>) -> bool {
        let asking = self.asking;
        let delay = match each {
            Some(each) => Ok(Delay::Each(each)),
            None => delay(asking.args, asking.source, set),
        };
        let asked = delay.ok().map(|it| asking.charged(set, it).ask(self.test));
        asked.and_then(Result::ok).is_some_and(|it| accepted(&it))
    }

    fn holds_under(&mut self, set: &TaskSet, question: Question) -> bool {
        let asking = self.asking;
        let Ok(delay) = delay(asking.args, asking.source, set) else { return false };
        let Ok(tests) = question.tests(set, asking.platform) else { return false };
        let answered = question.ask(set, &tests, &mut asking.charged(set, delay));
        answered.is_ok_and(|it| accepted(&it.asked))
    }
}
