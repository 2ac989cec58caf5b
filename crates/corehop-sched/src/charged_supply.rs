// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supply of the CPUs in a test's answer: the observations, and the conditions of a yes.

use super::charge::ChargedAnswer;
use super::supply::{InUnits, Supplied, SupplyClaim};
use super::verdict::CONDITIONAL;
use corehop_plan::workload::task::{TaskSet, Time};

/// The supply of the CPUs that a test's answer assumes.
#[derive(Debug, Clone)]
pub struct ChargedSupply {
    all: InUnits,
    /// The observations behind the supply, for the longest deadline or period of the set; `None` if the set states
    /// its supply.
    pub claim: Option<SupplyClaim>,
}

impl ChargedSupply {
    pub(super) fn of(all: &InUnits, set: &TaskSet) -> Self {
        let longest = set.tasks().iter().map(|task| task.deadline.max(task.period)).max();
        let tick = set.tick().nanos(Time::TICK).get();
        let claim = all.of_unit(tick).claim(longest.unwrap_or(Time::TICK), tick);
        Self { all: all.clone(), claim }
    }

    /// The supply in the form that tests use, for tasks whose tick has `unit` units; `own` says whether each bin is a
    /// CPU of the set.
    pub(super) fn in_unit(&self, set: &TaskSet, unit: u64, own: bool) -> Supplied<'_> {
        let seen = Supplied::of(self.all.of_unit(set.tick().nanos(Time::TICK).get() / unit), set);
        if own { seen.own() } else { seen }
    }

    /// Describes in one line the supply gaps that the bounds and the slack include.
    pub fn line(&self) -> String {
        let supplied = self.all.of_unit(1).worst().long_run() * 100.0;
        let gaps = match self.claim {
            Some(claim) => format!("the observed gaps: {}", claim.most_lost()),
            None => "the gaps left by the stated budget".to_owned(),
        };
        format!(
            "the bounds and the slack include {gaps}; in the long run the CPU supplies at least {supplied:.1} % of its time"
        )
    }

    /// The supply in the form that tests use, for tasks in ticks.
    pub(super) fn seen(&self, set: &TaskSet) -> Supplied<'_> {
        Supplied::of(self.all.of_unit(set.tick().nanos(Time::TICK).get()), set)
    }
}

impl ChargedAnswer {
    /// Adds the source of the supply to the assumptions.
    pub(super) fn note_supply(&mut self) {
        let supply = self.supply.as_ref().map(|it| it.all.of_unit(1).note().to_owned());
        let both: Vec<String> = self.note.take().into_iter().chain(supply).collect();
        self.note = (!both.is_empty()).then(|| both.join(" "));
    }

    /// The reason why an observed supply bounds nothing: too few observation windows had the needed length.
    pub(super) fn doubt_of_supply(&self) -> Option<String> {
        let claim = self.supply.as_ref()?.claim.filter(|claim| !claim.bounds())?;
        Some(format!("{CONDITIONAL}{}", claim.sentence()))
    }

    /// The conditions of a yes: the statistic that was charged, and the supply that was observed.
    pub fn conditions(&self) -> Option<String> {
        let by = self.charged_by.as_ref().map(|by| format!("no delay exceeds {by}"));
        let supply = self.supply.as_ref().and_then(|it| it.claim).map(|it| it.sentence());
        let all: Vec<String> = by.into_iter().chain(supply).collect();
        (!all.is_empty()).then(|| format!(", if {}", all.join(", and ")))
    }
}
