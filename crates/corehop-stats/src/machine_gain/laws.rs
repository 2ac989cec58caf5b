// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms of a prediction, and the fit of each form.

use serde::{Deserialize, Serialize};

use super::super::gain::{self, GainModel, SharedCacheObservation};
use super::rows::{GainRow, Inputs};
use corehop_plan::words::words;

words! {
    /// The form of a prediction for one machine.
    Form, "a form of a prediction" {
        /// The ratio of run times is linear in SMR and MPmI, with the coefficients of another machine (Kamali 2010,
        /// Table 5.4).
        Printed = "printed",
        /// The ratio of run times is linear in SMR and MPmI.
        Plane = "plane",
        /// The ratio of run times falls linearly with SMR times MPmI, from a ratio of 1 at zero.
        Product = "product",
        /// The ratio of run times is linear in ln(1 + SMR MPmI).
        Logarithm = "logarithm",
        /// The gain in run time approaches a limit as SMR times MPmI grows.
        Saturating = "saturating",
        /// Each line that the threads hand over in a round costs the time of one line transfer; no number is fitted.
        Physical = "physical",
        /// Each line that the threads hand over in a round costs a fitted multiple of the time of one line transfer.
        Lines = "lines",
    }
}

/// A form with its fitted coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GainLaw {
    /// The ratio follows from SMR and MPmI.
    Counts(GainModel),
    /// The ratio is turns (alone + `each` lines near) / (alone + `each` lines far), computed from the times of a round
    /// with the lines that it hands over in the near and in the far placement.
    Lines {
        /// The number of line transfers for which a thread waits per handed-over line: below 1 if transfers overlap,
        /// above 1 if a line has to come again.
        each: f64,
    },
}

/// The smallest predicted ratio, because a plane can have negative values.
const LEAST: f64 = 0.01;

impl Form {
    /// Returns the form of the same name that uses counts, or `None` if there is none.
    const fn of_counts(self) -> Option<gain::Form> {
        match self {
            Self::Printed => Some(gain::Form::Printed),
            Self::Plane => Some(gain::Form::Plane),
            Self::Product => Some(gain::Form::Product),
            Self::Logarithm => Some(gain::Form::Logarithm),
            Self::Saturating => Some(gain::Form::Saturating),
            Self::Physical | Self::Lines => None,
        }
    }

    /// Returns the law of this form with the smallest error on the rows, or `None` if the rows do not determine it.
    pub(super) fn fit(self, rows: &[&GainRow], crowding: Option<f64>) -> Option<GainLaw> {
        match self.of_counts() {
            Some(form) => {
                let observed: Vec<SharedCacheObservation> =
                    rows.iter().filter_map(|it| observed(it, crowding)).collect();
                if observed.is_empty() {
                    None
                } else {
                    form.fit(&observed).filter(|it| falls(*it)).map(GainLaw::Counts)
                }
            }
            None if self == Self::Physical => Some(GainLaw::Lines { each: 1.0 }),
            None => lines(rows, crowding),
        }
    }
}

impl GainLaw {
    /// Returns the predicted ratio, or `None` if an input is unknown.
    pub(super) fn ratio(self, it: &Inputs, crowding: Option<f64>) -> Option<f64> {
        let together = match self {
            // Counts say nothing of turns.
            Self::Counts(_) if it.turns > 1.0 => return None,
            Self::Counts(model) => model.ratio(it.smr?, it.mpmi?),
            Self::Lines { each } => {
                let (lines, alone) = (each * it.handed_over?, it.alone_ns?);
                let line = |ns: Option<f64>| if lines > 0.0 { ns } else { Some(0.0) };
                let (near, far) = (line(it.near_line_ns)?, line(it.far_line_ns)?);
                it.turns * (alone + lines * near) / (alone + lines * far)
            }
        };
        Some((together * crowd(it, crowding)?).max(LEAST))
    }

    /// Returns the quantity in which the law is monotone and whose range on the rows is known, which is SMR times
    /// MPmI, or the time of lines relative to the time without sharing.
    pub(super) fn strength(self, it: &Inputs) -> Option<f64> {
        match self {
            Self::Counts(_) => Some(it.smr? * it.mpmi?),
            Self::Lines { .. } => Some(it.handed_over? * it.far_line_ns? / it.alone_ns?),
        }
    }
}

/// Returns whether more sharing never predicts less gain; rows can by chance lead to a law in which more sharing
/// predicts less gain.
fn falls(model: GainModel) -> bool {
    match model {
        GainModel::Plane { per_mpmi, per_smr, .. } => per_mpmi <= 0.0 && per_smr <= 0.0,
        GainModel::Product { each } => each >= 0.0,
        GainModel::Logarithm { each, .. } => each <= 0.0,
        GainModel::Saturating { most, .. } => most >= 0.0,
    }
}

/// Returns the factor for data that does not fit into a shared cache, or `None` if the factor was not measured.
fn crowd(it: &Inputs, crowding: Option<f64>) -> Option<f64> {
    match it.crowded {
        Some(share) if share > 0.0 => crowding.map(|each| 1.0 + each * share),
        _ => Some(1.0),
    }
}

/// Returns the observation of a row without the effect of a crowded cache.
fn observed(row: &GainRow, crowding: Option<f64>) -> Option<SharedCacheObservation> {
    let it = &row.inputs;
    Some(SharedCacheObservation {
        benchmark: row.program.clone(),
        smr: it.smr?,
        mpmi: it.mpmi?,
        ratio: row.ratio / crowd(it, crowding)?,
    })
}

/// Returns the law with the least squares of the logarithms, over values of `each` from 0.01 to 100 in steps of four
/// percent.
fn lines(rows: &[&GainRow], crowding: Option<f64>) -> Option<GainLaw> {
    let hands_over = |it: &&&GainRow| it.inputs.handed_over.is_some_and(|lines| lines > 0.0);
    let rows: Vec<&&GainRow> = rows.iter().filter(hands_over).collect();
    let squares = |law: GainLaw| -> Option<f64> {
        let off = |it: &&&GainRow| Some((law.ratio(&it.inputs, crowding)? / it.ratio).ln());
        let off: Vec<f64> = rows.iter().filter_map(off).collect();
        (!off.is_empty()).then(|| off.iter().map(|it| it * it).sum())
    };
    let laws = (0..236).map(|step| GainLaw::Lines { each: 0.01 * 1.04_f64.powi(step) });
    let laws = laws.filter_map(|law| Some((law, squares(law)?)));
    laws.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(law, _)| law)
}

/// Returns the increase of the ratio for each share of the data that fits only while threads are apart, from the
/// control runs with private data, or `None` if all data fitted.
pub(super) fn crowding(rows: &[GainRow]) -> Option<f64> {
    let twin = |it: &&GainRow| it.sharing == corehop_plan::workload::gang::Sharing::None;
    let (mut both, mut squares) = (0.0, 0.0);
    for it in rows.iter().filter(twin) {
        let share = it.inputs.crowded.unwrap_or(0.0);
        both += share * (it.ratio / it.inputs.turns - 1.0);
        squares += share * share;
    }
    // A cache that is shared without harm is no gain of sharing.
    (squares > 0.0).then(|| (both / squares).max(0.0))
}
