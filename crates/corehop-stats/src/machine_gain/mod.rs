// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of placing threads together, fitted to one machine's own runs of `shared-data`.
//!
//! Several forms predict the ratio of run times: that of the near placement divided by that of the far placement. If
//! misses are counted, by a simulated machine or by hardware, the forms of [`super::gain`] use SMR and MPmI. If nothing
//! is counted, two forms use the lines that a round hands over by construction, the measured time of a line, and the
//! time of a round without sharing. A form is judged on programs, and on sizes, to which it was not fitted. The form
//! with the smallest error makes the predictions.
//!
//! A shared cache can hurt: the data that no longer fits is a separate term, fitted to the control runs with private
//! data. A shared CPU can hurt, too, because its threads run in turn.

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

/// A fitted form, with its errors on data to which it was not fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedForm {
    /// The form that was fitted to the runs.
    pub form: Form,
    /// The form with its fitted coefficients.
    pub law: GainLaw,
    /// The errors on programs that were left out of the fit, or `None` if there is only one program.
    pub by_program: Option<PredictionErrors>,
    /// The errors on sizes that were left out of the fit, for sizes between other sizes.
    pub by_size: Option<PredictionErrors>,
}

impl FittedForm {
    /// Returns the errors on programs; with only one program, the errors on sizes.
    pub fn judged(&self) -> Option<&PredictionErrors> {
        self.by_program.as_ref().or(self.by_size.as_ref())
    }
}

/// The fitted gains of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineGain {
    /// The identity of the machine on which the runs took place.
    pub host: HostIdentity,
    /// Whether the machine of the runs was simulated.
    pub simulated: bool,
    /// The day of the first run.
    pub date: String,
    /// The placing whose run time is the numerator of the ratio.
    pub near: Placing,
    /// The placing whose run time is the denominator of the ratio.
    pub far: Placing,
    /// The rows to which the forms were fitted.
    pub rows: Vec<GainRow>,
    /// The increase of the ratio, as a factor, for each share of the data that fits only while threads are apart, or
    /// `None` if all data fitted.
    pub crowding: Option<f64>,
    /// The forms that the rows determine.
    pub forms: Vec<FittedForm>,
    /// The form that makes the predictions.
    pub taken: Form,
}

/// The reason why no form can be fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// The runs are from several machines.
    #[error("these runs come from several machines ({0}): fit each machine separately")]
    Machines(String),
    /// No program ran in two placings, so there is nothing to compare.
    #[error(
        "no program ran in two placings: `corehop measure shared-data -o FILE` runs all placings of the machine"
    )]
    Nothing,
    /// The runs have too few configurations to distinguish the forms.
    #[error(
        "{0} configurations are too few to distinguish the forms: measure two programs, or three sizes of one program (--items 100,1k,10k), each with its twin (--sharing write,none)"
    )]
    TooFew(usize),
}

impl MachineGain {
    /// Fits all forms to the runs of one machine.
    ///
    /// # Errors
    /// Returns [`NoFit`], which names the measurement that is needed.
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

    /// Returns the fitted form, if the rows determined it.
    pub fn form(&self, form: Form) -> Option<&FittedForm> {
        self.forms.iter().find(|it| it.form == form)
    }

    /// Returns the origin of the gains in words: the machine, the date, the configurations, and the fewest replicates.
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

/// Returns the size in bytes of the cache that the threads of a placing share: the last level. For threads on one CPU,
/// and for the far side of a host with one cache, the function returns the size of a core's private cache.
fn capacity(platform: &Platform, placing: Placing, far: Placing) -> Option<u64> {
    let of_core = placing == Placing::Same || (placing, far) == (Placing::Shared, Placing::Shared);
    let size = if of_core { platform.largest_private_cache() } else { platform.llc_size() };
    size.map(corehop_plan::units::Bytes::get)
}

#[cfg(test)]
mod tests;
