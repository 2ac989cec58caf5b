// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the ratio of a program at a size, or of a program with given counts.

use serde::{Deserialize, Serialize};

use super::construction::Built;
use super::judge::{LeftOut, PredictionErrors};
use super::laws::{Form, GainLaw};
use super::rows::{GainRow, Inputs, shape};
use super::{FittedForm, MachineGain};
use corehop_plan::workload::gang::Sharing;

/// The threads whose ratio is requested.
#[derive(Debug, Clone, PartialEq)]
pub enum GainSubject {
    /// The threads of a known program at a size.
    Program {
        /// The word for the program that the question is about.
        program: String,
        /// The size of the program's data.
        items: u64,
        /// The way in which the threads share their data.
        sharing: Sharing,
    },
    /// The question is about the threads of a program whose counts were measured while the threads were far
    /// apart.
    Counts {
        /// The share of misses that another cache answered (SMR).
        smr: f64,
        /// The misses per million instructions (MPmI).
        mpmi: f64,
    },
}

/// A predicted ratio of run times: that of the near placement divided by that of the far placement. If the ratio
/// is below 1, the threads gain by running together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictedRatio {
    /// The ratio, or `None` if only bounds are known.
    pub ratio: Option<f64>,
    /// A lower bound of the ratio, if known.
    pub low: Option<f64>,
    /// An upper bound of the ratio, if known.
    pub high: Option<f64>,
    /// The probability of the interval, or `None` without an interval.
    pub level: Option<f64>,
    /// The form that predicts the ratio, or `None` for a measured ratio.
    pub by: Option<Form>,
    /// The number of replicates of a measured ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates: Option<usize>,
}

impl PredictedRatio {
    /// Makes a ratio that a form predicts, without an interval.
    pub(crate) const fn point(ratio: f64, by: Form) -> Self {
        Self {
            ratio: Some(ratio),
            low: None,
            high: None,
            level: None,
            by: Some(by),
            replicates: None,
        }
    }

    /// Returns the ratio with an interval from the errors of the form on rows to which it was not fitted.
    pub(crate) fn within(self, judged: Option<&PredictionErrors>) -> Self {
        let (Some(ratio), Some(judged)) = (self.ratio, judged) else { return self };
        let (low, high) = (ratio / judged.bound, ratio * judged.bound);
        Self { low: Some(low), high: Some(high), level: Some(judged.level), ..self }
    }

    /// Returns the ratio for threads that were apart only for the share `apart` of the time, and together for the
    /// rest.
    #[must_use]
    pub fn of_part(self, apart: f64) -> Self {
        let part = |it: Option<f64>| it.map(|it| 1.0 - apart * (1.0 - it));
        Self { ratio: part(self.ratio), low: part(self.low), high: part(self.high), ..self }
    }

    /// Returns the certain gain as a share of the run time; 0 if no gain is certain.
    pub fn gain(&self) -> f64 {
        self.high.map_or(0.0, |high| (1.0 - high).max(0.0))
    }

    /// Returns whether the prediction is that running together gains nothing or costs.
    pub fn hurts(&self) -> bool {
        self.low.is_some_and(|low| low >= 1.0)
    }
}

/// The reason why no ratio is predicted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGain {
    /// The program of the question was not measured.
    #[error("`{program}` with sharing `{sharing}` was not measured; measured were {known}")]
    Unknown {
        /// The program that the question is about.
        program: String,
        /// The way of sharing that the question is about.
        sharing: Sharing,
        /// The measured programs, sharings and sizes, as text.
        known: String,
    },
    /// The program was measured with several parameters.
    #[error("`{program}` was measured with {parameters}: fit only one of these parameter settings")]
    Several {
        /// The program that the question is about.
        program: String,
        /// The measured parameters of the program.
        parameters: String,
    },
    /// The requested size is outside the measured sizes.
    #[error("{items} items lie outside of the measured sizes: {sizes}")]
    Beyond {
        /// The size that the question is about.
        items: u64,
        /// The range of sizes that were measured.
        sizes: String,
    },
    /// The best form lacks an input that is unknown for this machine.
    #[error("the form `{form}` needs {what}, which is unknown for this machine")]
    Lacks {
        /// The form that lacks the input.
        form: Form,
        /// The input of the model that is missing.
        what: &'static str,
    },
}

impl MachineGain {
    /// Predicts the ratio of the given threads.
    ///
    /// # Errors
    /// Returns [`NoGain`] with the reason why there is no prediction.
    pub fn predict(&self, asked: &GainSubject) -> Result<PredictedRatio, NoGain> {
        match asked {
            GainSubject::Program { program, items, sharing } => {
                self.of_program(program, *items, *sharing)
            }
            GainSubject::Counts { smr, mpmi } => self.of_counts(*smr, *mpmi).ok_or(NoGain::Lacks {
                form: self.taken,
                what: "misses that were counted for the fit",
            }),
        }
    }

    fn of_program(
        &self,
        program: &str,
        items: u64,
        sharing: Sharing,
    ) -> Result<PredictedRatio, NoGain> {
        let meant = |it: &&GainRow| it.program == program && it.sharing == sharing;
        let rows: Vec<&GainRow> = self.rows.iter().filter(meant).collect();
        let Some(first) = rows.first() else { return Err(self.unknown(program, sharing)) };
        if !rows.iter().all(|it| it.is_like(first)) {
            let parameters: Vec<String> = rows
                .iter()
                .map(|it| format!("{} ({} threads)", it.parameters, it.threads))
                .collect();
            return Err(NoGain::Several {
                program: program.to_owned(),
                parameters: parameters.join(", "),
            });
        }
        if let Some(measured) = rows.iter().find(|it| it.items == items) {
            return Ok(measured.as_measured());
        }
        let wanted = self.at(first, items);
        let inputs = between(&rows, &wanted).ok_or_else(|| {
            let sizes: Vec<String> = rows.iter().map(|it| it.items.to_string()).collect();
            NoGain::Beyond { items, sizes: sizes.join(", ") }
        })?;
        let lacks = NoGain::Lacks {
            form: self.taken,
            what: "counts, or lines that follow from the program",
        };
        // Of a program that was measured the errors on sizes count.
        self.answer(&inputs, LeftOut::Size).ok_or(lacks)
    }

    /// Returns a row with another size; its inputs follow from the construction at that size.
    fn at(&self, row: &GainRow, items: u64) -> GainRow {
        let GainRow { program, parameters, sharing, threads, .. } = row;
        let built = Built { program, items, parameters, sharing: *sharing, threads: *threads };
        let inputs = shape(built, &self.host.platform, (self.near, self.far));
        GainRow { items, inputs, ..row.clone() }
    }

    fn unknown(&self, program: &str, sharing: Sharing) -> NoGain {
        let known: std::collections::BTreeSet<String> =
            self.rows.iter().map(|it| format!("{} ({})", it.program, it.sharing)).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        NoGain::Unknown { program: program.to_owned(), sharing, known }
    }

    /// Returns the ratio of a program whose counts alone are known, or `None` if no counts were measured on this
    /// machine.
    pub fn of_counts(&self, smr: f64, mpmi: f64) -> Option<PredictedRatio> {
        let inputs = Inputs { turns: 1.0, smr: Some(smr), mpmi: Some(mpmi), ..Inputs::default() };
        let counts = self.forms.iter().filter(|it| matches!(it.law, GainLaw::Counts(_)));
        let judged = counts.filter_map(|it| Some((it, it.judged()?.mean)));
        let (best, _) = judged.min_by(|a, b| a.1.total_cmp(&b.1))?;
        self.by(best, &inputs, LeftOut::Program)
    }

    fn answer(&self, inputs: &Inputs, by: LeftOut) -> Option<PredictedRatio> {
        self.by(self.form(self.taken)?, inputs, by)
    }

    /// Returns the ratio by a form: with an interval inside the range to which the form was fitted, as a bound
    /// beyond it.
    fn by(&self, form: &FittedForm, inputs: &Inputs, by: LeftOut) -> Option<PredictedRatio> {
        let judged = match by {
            LeftOut::Program => form.judged(),
            LeftOut::Size => form.by_size.as_ref().or(form.by_program.as_ref()),
        };
        let ratio = form.law.ratio(inputs, self.crowding)?;
        let point = PredictedRatio::point(ratio, form.form).within(judged);
        let strengths =
            self.rows.iter().filter_map(|it| Some((form.law.strength(&it.inputs)?, it)));
        let strengths: Vec<(f64, &GainRow)> = strengths.collect();
        let least = strengths.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let most = strengths.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let asked = form.law.strength(inputs)?;
        let edge = |row: &GainRow| {
            let ratio = form.law.ratio(&row.inputs, self.crowding)?;
            Some(PredictedRatio::point(ratio, form.form).within(judged))
        };
        // The ratio falls as sharing grows: beyond the range it is at most, or at least, that of the edge.
        Some(if asked > most.0 {
            PredictedRatio { ratio: None, low: None, high: edge(most.1)?.high, ..point }
        } else if asked < least.0 {
            PredictedRatio { ratio: None, low: edge(least.1)?.low, high: None, ..point }
        } else {
            point
        })
    }
}

impl GainRow {
    fn as_measured(&self) -> PredictedRatio {
        PredictedRatio {
            ratio: Some(self.ratio),
            low: self.low,
            high: self.high,
            level: self.low.map(|_| 0.95),
            by: None,
            replicates: self.replicates,
        }
    }
}

/// Returns the inputs of a row: from its construction where possible, otherwise interpolated between the
/// neighbouring sizes, linearly in the logarithm of the size. Returns `None` if the size is outside the measured
/// sizes.
pub(super) fn between(rows: &[&GainRow], wanted: &GainRow) -> Option<Inputs> {
    let like = || rows.iter().filter(|it| it.is_like(wanted));
    let below = like().filter(|it| it.items < wanted.items).max_by_key(|it| it.items)?;
    let above = like().filter(|it| it.items > wanted.items).min_by_key(|it| it.items)?;
    let log = |it: &GainRow| (it.items as f64).ln();
    let place = (log(wanted) - log(below)) / (log(above) - log(below));
    let read = |of: fn(&Inputs) -> Option<f64>| {
        let (low, high) = (of(&below.inputs)?, of(&above.inputs)?);
        Some(low + place * (high - low))
    };
    Some(Inputs {
        smr: read(|it| it.smr),
        mpmi: read(|it| it.mpmi),
        far_line_ns: read(|it| it.far_line_ns),
        near_line_ns: read(|it| it.near_line_ns),
        alone_ns: read(|it| it.alone_ns),
        ..wanted.inputs
    })
}
