// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charges a recording with the costs of its events, which depend on the working set that is
//! refilled.

use corehop_decide::run_cost::{ChargedRecording, Prices, WssRange, refills, run_cost};
use corehop_plan::platform::Platform;
use corehop_plan::samples::Recording;
use corehop_plan::units::Bytes;
use corehop_stats::costs::{CostSource, SelectError, Selection};

use crate::costs::{ChosenCosts, CostRequest, IDLE};
use crate::failure::Failure;

/// The costs with which the events of a recording are charged.
#[derive(Debug)]
pub struct RecordingCharge {
    costs: ChosenCosts,
    selection: Selection,
    /// The working set size, if known.
    wss: Option<Bytes>,
}

impl RecordingCharge {
    /// Selects the requested costs for a program with this working set.
    ///
    /// # Errors
    /// Fails with exit code 2 if the selection does not exist among the costs.
    pub fn of(
        costs: ChosenCosts,
        request: &CostRequest,
        wss: Option<Bytes>,
    ) -> Result<Self, Failure> {
        let selection = match &costs.source {
            Some(source) => selection(source, request)?,
            None => Selection::default(),
        };
        Ok(Self { costs, selection, wss })
    }

    /// Returns the cost of a recording's events, and of each run's events if there are several
    /// runs.
    ///
    /// # Errors
    /// Fails with [`SelectError`] if the selected costs are not in their source.
    pub fn of_recording(
        &self,
        recording: &Recording,
        platform: &Platform,
    ) -> Result<ChargedRecording, SelectError> {
        let (prices, wss) = (self.prices(), self.wss(recording, platform));
        let cost = run_cost(recording, prices.as_ref(), wss)?;
        let several = prices.filter(|_| recording.runs.len() > 1);
        let refills = several.map(|prices| refills(recording, &prices, wss)).transpose()?;
        let costs = self.costs.origin.clone();
        Ok(ChargedRecording { cost, refills: refills.unwrap_or_default(), costs })
    }

    fn prices(&self) -> Option<Prices<'_>> {
        let source = self.costs.source.as_ref()?;
        Some(Prices { source, selection: self.selection.clone() })
    }

    /// The working set: as given, as estimated, or the whole possible range.
    fn wss(&self, recording: &Recording, platform: &Platform) -> WssRange {
        let unknown = || WssRange::unknown(recording.facts.rss_bytes, platform);
        let estimated =
            || WssRange::sampled(&recording.facts.touched_bytes).unwrap_or_else(unknown);
        self.wss.map_or_else(estimated, WssRange::known)
    }
}

/// The selection of costs with which a recording is charged.
fn selection(source: &CostSource, request: &CostRequest) -> Result<Selection, Failure> {
    let usual = match source {
        CostSource::Model(_) | CostSource::Program(_) => Some("mean"),
        CostSource::Table(table) => {
            let has = |word: &&str| table.selections().any(|(_, statistic, _)| statistic == *word);
            ["mean", "avg", "max"].into_iter().find(has)
        }
    };
    let chosen = request.choice.clone();
    let statistic = chosen.statistic.or_else(|| usual.map(str::to_owned));
    // Costs that were not named are those of the program alone on the machine, if there are such.
    let loads = source.loads();
    let idle = loads.len() > 1 && !request.is_given() && loads.contains(&IDLE);
    let load = chosen.load.or_else(|| idle.then(|| IDLE.to_owned()));
    let selection = Selection { load, statistic, ..chosen };
    source.selected(&selection)?;
    Ok(selection)
}
