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

/// The scheduler that corehop analyses, and the charges to the jobs.
#[derive(Debug, Clone)]
pub struct ChargeRequest {
    /// The scheduler; `None` selects the scheduler of the set.
    pub scheduler: Option<Scheduler>,
    /// The delay of one preemption or migration that each job is charged.
    pub delay: Option<Nanos>,
    /// Costs by working set, as an alternative to a fixed delay.
    pub costs: CostRequest,
    /// Whether the largest observed cost is accepted as a bound.
    pub accept_largest: bool,
    /// The file with the overheads of the operating system.
    pub overheads: Option<PathBuf>,
    /// The time between two ticks.
    pub quantum: Nanos,
    /// Whether a dedicated CPU, in addition to the CPUs of the set, handles all releases.
    pub dedicated: bool,
    /// The file with the supply of CPUs that are not always available.
    pub supply: Option<PathBuf>,
    /// Whether to ignore the CPUs to which the set assigns its tasks.
    pub ignore_cpus: bool,
}

/// The delays that are charged to any set.
#[derive(Debug)]
pub enum ChargedDelays<'a> {
    /// No delay is charged.
    Nothing,
    /// Every job is charged this delay.
    Each(Nanos),
    /// Every job is charged by these costs, with the given selection.
    Costs(&'a CostSource, &'a Selection),
}

impl ChargedDelays<'_> {
    /// Returns the charge to each job of a set.
    ///
    /// # Errors
    /// Fails if the selection of costs is ambiguous.
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
    /// The files that the charges read.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [self.overheads.as_deref(), self.costs.file(), self.supply.as_deref()].into_iter().flatten()
    }

    /// The costs that are charged, if any: the named costs, or, for a set with working sets, the costs stored for this
    /// host.
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

    /// Rejects the option to accept the largest cost if there are no costs.
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
                "{}: the test charges nothing for {lacks}, because the table has no such column",
                shown::path(path)
            ));
        }
        Ok(Some(known))
    }

    /// The supply of the CPUs; `None` if they are always available.
    pub(super) fn supply(&self, set: &TaskSet) -> Result<Option<InUnits>, Failure> {
        let Some(path) = &self.supply else { return Ok(None) };
        let supplies = input::supplies(path)?;
        let unknown = |error| Failure::new(Exit::Usage, error).context(shown::path(path));
        supplies.check(set).map_err(unknown)?;
        Ok(Some(InUnits::of(&supplies)))
    }
}

/// Returns the empty charge; fails for a set with working sets, because such a set needs the costs of its working sets.
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
