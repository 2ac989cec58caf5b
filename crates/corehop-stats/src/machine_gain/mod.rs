// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of threads from being together, fitted to one machine's own runs of `shared-data`.
//!
//! The ratio of run times, near over far, is predicted in several forms. Where misses are counted, on a simulated machine or by
//! hardware, the forms of [`super::gain`] take SMR and MPmI. Where nothing is counted, two forms take the lines that a round
//! hands over by construction, the measured time of a line, and the time of a round without sharing. Each form is judged on
//! programs, and on sizes, that it was not fitted to. The one that is off least answers.
//!
//! A shared cache can hurt: what no longer fits into it is a term of its own, fitted to the twins with private data. A shared
//! CPU can: its threads take turns.

mod construction;
mod judge;
mod laws;
mod question;
mod rows;
mod store;

pub use judge::{LeftOut, PredictionErrors};
pub use laws::{Form, GainLaw};
pub use question::{GainSubject, NoGain, PredictedRatio};
pub use rows::GainRow;
pub use store::{GAIN_SCHEMA, NotAGain};

pub(super) use construction::overflow;

use serde::{Deserialize, Serialize};

use super::costs::HostIdentity;
use super::gangs::SharingSummary;
use corehop_plan::platform::Platform;
use corehop_plan::workload::gang::Placing;

/// A form as it was fitted, with its errors on what it had not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedForm {
    /// The form.
    pub form: Form,
    /// The form with its numbers.
    pub law: GainLaw,
    /// Its errors on programs that were left out; None with one program.
    pub by_program: Option<PredictionErrors>,
    /// Its errors on sizes that were left out, of those between others.
    pub by_size: Option<PredictionErrors>,
}

impl FittedForm {
    /// Its errors on programs, or on sizes where there is one program.
    pub fn judged(&self) -> Option<&PredictionErrors> {
        self.by_program.as_ref().or(self.by_size.as_ref())
    }
}

/// Gains of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineGain {
    /// The machine.
    pub host: HostIdentity,
    /// Whether it was simulated.
    pub simulated: bool,
    /// The day of the first run.
    pub date: String,
    /// The placing whose run time is the numerator.
    pub near: Placing,
    /// The placing that it is compared with.
    pub far: Placing,
    /// The rows that it was fitted to.
    pub rows: Vec<GainRow>,
    /// The addition to the ratio, as a factor, for each share of the data that only fits while threads are apart; None
    /// where all fitted.
    pub crowding: Option<f64>,
    /// The forms that the rows determine.
    pub forms: Vec<FittedForm>,
    /// The form that answers.
    pub taken: Form,
}

/// Why there is nothing to fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// Runs of several machines.
    #[error("these runs come from several machines ({0}): fit each machine separately")]
    Machines(String),
    /// Nothing to compare.
    #[error(
        "no program ran in two placings: `corehop measure shared-data -o FILE` runs all placings of the machine"
    )]
    Nothing,
    /// Too few rows.
    #[error(
        "{0} configurations are too few to distinguish the forms: measure two programs, or three sizes of one program (--items 100,1k,10k), each with its twin (--sharing write,none)"
    )]
    TooFew(usize),
}

impl MachineGain {
    /// Fits all forms to the runs of one machine.
    ///
    /// # Errors
    /// [`NoFit`] says what to measure.
    pub fn fit(
        summaries: &[SharingSummary],
        host: HostIdentity,
        simulated: bool,
        date: String,
    ) -> Result<Self, NoFit> {
        one_machine(summaries)?;
        // As `sharing` has it: one CPU is the near side where there is no other cache.
        let apart = summaries.iter().any(|it| it.separate.is_some());
        let (near, far) = if apart {
            (Placing::Shared, Placing::Separate)
        } else {
            (Placing::Same, Placing::Shared)
        };
        let rows = rows::rows(summaries, &host.platform, (near, far));
        if rows.is_empty() {
            return Err(NoFit::Nothing);
        }
        let crowding = laws::crowding(&rows);
        let forms = judge::judged(&rows, crowding);
        let taken = judge::best(&forms).ok_or(NoFit::TooFew(rows.len()))?;
        Ok(Self { host, simulated, date, near, far, rows, crowding, forms, taken })
    }

    /// A form, if the rows determined it.
    pub fn form(&self, form: Form) -> Option<&FittedForm> {
        self.forms.iter().find(|it| it.form == form)
    }

    /// Its origin, in words: the machine, the date, the configurations, and the fewest replicates.
    pub fn source(&self) -> String {
        let kind = if self.simulated { ", simulated" } else { "" };
        let replicates = self.rows.iter().filter_map(|it| it.replicates).min();
        let replicates = replicates.map_or_else(String::new, |it| format!(", {it} replicates"));
        let (name, n) = (&self.host.platform.name, self.rows.len());
        // Of the time the day.
        let date = self.date.get(..10).unwrap_or(&self.date);
        format!("fitted: {name}{kind}, {date}, {n} configurations{replicates}")
    }
}

fn one_machine(summaries: &[SharingSummary]) -> Result<(), NoFit> {
    let machines: std::collections::BTreeSet<&str> =
        summaries.iter().map(|it| it.machine.as_str()).collect();
    if machines.len() > 1 {
        return Err(NoFit::Machines(machines.into_iter().collect::<Vec<_>>().join(", ")));
    }
    Ok(())
}

/// The bytes of a cache that the threads of a placing have: the last level, or on one CPU and for the far side of a host with one
/// cache what a core has for itself.
fn capacity(platform: &Platform, placing: Placing, far: Placing) -> Option<u64> {
    let of_core = placing == Placing::Same || (placing, far) == (Placing::Shared, Placing::Shared);
    let size = if of_core { platform.largest_private_cache() } else { platform.llc_size() };
    size.map(corehop_plan::units::Bytes::get)
}

#[cfg(test)]
mod tests;
