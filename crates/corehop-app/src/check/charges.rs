// SPDX-License-Identifier: MIT OR Apache-2.0
//! The charges of a check: delays, the overheads of the operating system, and the supply of CPUs.

use std::path::{Path, PathBuf};

use corehop_plan::shown;
use corehop_plan::units::Nanos;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_sched::TaskSet;
use corehop_sched::charge::DelayCharge;
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::overhead::table::OverheadTable;
use corehop_sched::sentence::called;
use corehop_sched::supply::InUnits;
use corehop_stats::costs::{CostSource, SelectError, Selection};

use crate::costs::CostRequest;
use crate::failure::{Exit, Failure, refuse};
use crate::input;
use crate::voice::note;

/// The scheduler that is asked about, and what is charged.
#[derive(Debug, Clone)]
pub struct ChargeRequest {
    /// The scheduler; that of the set where none is named.
    pub scheduler: Option<Scheduler>,
    /// The delay of one preemption or migration, for each job.
    pub delay: Option<Nanos>,
    /// In its place: costs by working set.
    pub costs: CostRequest,
    /// Whether the largest cost seen is taken for a bound.
    pub accept_largest: bool,
    /// The file of the overheads of the operating system.
    pub overheads: Option<PathBuf>,
    /// The time between two ticks.
    pub quantum: Nanos,
    /// Whether a CPU beyond those of the set handles all releases.
    pub dedicated: bool,
    /// The file of the supply of CPUs that do not supply all of the time.
    pub supply: Option<PathBuf>,
    /// Whether to leave aside on which CPUs the set puts its tasks.
    pub ignore_cpus: bool,
}

/// The delays that are charged to any set.
#[derive(Debug)]
pub enum ChargedDelays<'a> {
    /// None.
    Nothing,
    /// The same to each job.
    Each(Nanos),
    /// By costs, and those of them that are meant.
    Costs(&'a CostSource, &'a Selection),
}

impl ChargedDelays<'_> {
    /// The charge to each job of a set.
    ///
    /// # Errors
    /// If the selection does not say which costs are meant.
    pub fn of(&self, set: &TaskSet) -> Result<DelayCharge<'_>, SelectError> {
        Ok(match self {
            Self::Nothing => DelayCharge::Nothing,
            // Rounded up: a delay is never understated.
            Self::Each(delay) => DelayCharge::Each(set.tick().up(*delay)),
            Self::Costs(source, selection) => {
                DelayCharge::Costs(source.for_a_verdict(selection)?.costs)
            }
        })
    }
}

impl ChargeRequest {
    /// The files that it reads.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [self.overheads.as_deref(), self.costs.file(), self.supply.as_deref()].into_iter().flatten()
    }

    /// The costs, if some are charged: those that are named; for a set with working sets those that this host kept.
    pub(super) fn source(&self, set: &TaskSet) -> Result<Option<CostSource>, Failure> {
        if self.delay.is_some() {
            self.costs.refuse_without_costs()?;
            return Ok(None);
        }
        let states = set.wss_kib().iter().any(Option::is_some);
        if !states && !self.costs.is_given() {
            self.costs.refuse_without_costs()?;
            return self.refuse_largest(None);
        }
        let chosen = self.costs.chosen()?;
        if !self.costs.is_given() && chosen.source.is_some() {
            note(&chosen.origin);
        }
        self.refuse_largest(chosen.source)
    }

    /// Refuses to take the largest cost where there are no costs.
    fn refuse_largest(&self, source: Option<CostSource>) -> Result<Option<CostSource>, Failure> {
        let given = self.accept_largest && source.is_none();
        refuse(
            "no costs are given whose largest could be a bound",
            &[("--accept-largest", given)],
        )?;
        Ok(source)
    }

    /// The delays that are charged; a set with working sets needs their costs.
    pub(super) fn delays<'a>(
        &'a self,
        source: Option<&'a CostSource>,
        set: &TaskSet,
    ) -> Result<ChargedDelays<'a>, Failure> {
        if let Some(delay) = self.delay {
            return Ok(ChargedDelays::Each(delay));
        }
        match source {
            Some(source) => Ok(ChargedDelays::Costs(source, &self.costs.choice)),
            None if self.costs.is_given() => Ok(ChargedDelays::Nothing),
            None => uncharged(set),
        }
    }

    /// The overheads of the operating system, if charged.
    pub(super) fn overheads(&self, set: &TaskSet) -> Result<Option<SystemOverheads>, Failure> {
        let Some(path) = &self.overheads else { return Ok(None) };
        if self.quantum.get() < 1_000 {
            return Err(Failure::says(Exit::Usage, "--quantum: expected at least 1us"));
        }
        let named = |error| Failure::new(Exit::Damaged, error).context(shown::path(path));
        let table = OverheadTable::parse(&input::table(path)?).map_err(named)?;
        let known = table.of(set.tasks().len(), self.quantum).map_err(named)?;
        let known = if self.dedicated { known.dedicated_to(set) } else { known };
        let lacks = table.lacks();
        if !lacks.is_empty() {
            let lacks = lacks.join(", ");
            note(&format!(
                "{}: the test charges nothing for {lacks}, because the column is missing",
                shown::path(path)
            ));
        }
        Ok(Some(known))
    }

    /// The supply of the CPUs, if they do not supply all of the time.
    pub(super) fn supply(&self, set: &TaskSet) -> Result<Option<InUnits>, Failure> {
        let Some(path) = &self.supply else { return Ok(None) };
        let supplies = input::supplies(path)?;
        let unknown = |error| Failure::new(Exit::Usage, error).context(shown::path(path));
        supplies.check(set).map_err(unknown)?;
        Ok(Some(InUnits::of(&supplies)))
    }
}

/// Nothing is charged; but a set with working sets needs their costs.
fn uncharged(set: &TaskSet) -> Result<ChargedDelays<'static>, Failure> {
    let Some(at) = set.wss_kib().iter().position(Option::is_some) else {
        return Ok(ChargedDelays::Nothing);
    };
    let sentence = format!(
        "{}: wss_kib is given, but the cost of a working set is unknown: set a delay with --delay, pass a cost table, a model or samples with --costs, or charge nothing with --delay 0us",
        called(set, at)
    );
    Err(Failure::says(Exit::Usage, sentence))
}
