// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the gain of a shared cache from counts that were measured without a shared cache.
//!
//! Kamali (2010), chapter 5, predicts the ratio of run times (below 1, threads gain by running together) from SMR, the
//! share of misses that another package answers, and MPmI, the misses per million instructions. The printed prediction
//! is a plane in SMR and MPmI. Some forms use the product of SMR and MPmI, which is the number of misses that a shared
//! cache avoids.

use serde::{Deserialize, Serialize};

use corehop_plan::words::words;

/// The counts of a program without a shared cache, and the ratio of its run times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedCacheObservation {
    /// The name of the program that was observed. Cross-validation leaves out all rows of a program together.
    pub benchmark: String,
    /// The misses that another package answered, divided by all misses.
    pub smr: f64,
    /// The number of misses per million instructions.
    pub mpmi: f64,
    /// The run time with a common cache divided by the run time without one.
    pub ratio: f64,
}

impl SharedCacheObservation {
    /// Returns the misses per million instructions that a shared cache avoids.
    fn avoided(&self) -> f64 {
        self.smr * self.mpmi
    }
}

words! {
    /// The form of a prediction.
    Form, "a form of a prediction" {
        /// The ratio of run times is linear in SMR and MPmI, with the coefficients of the study (Kamali 2010, Table
        /// 5.4).
        Printed = "printed",
        /// The ratio of run times is linear in SMR and MPmI.
        Plane = "plane",
        /// The ratio of run times falls linearly with SMR times MPmI, from a ratio of 1 at zero.
        Product = "product",
        /// The ratio of run times follows from the latencies of the platform and one cycle per instruction; no number
        /// is fitted.
        Physical = "physical",
        /// The ratio of run times is linear in ln(1 + SMR MPmI).
        Logarithm = "logarithm",
        /// The gain in run time approaches a limit as SMR times MPmI grows.
        Saturating = "saturating",
    }
}

/// A prediction model with its coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "form")]
pub enum GainModel {
    /// The ratio is the plane `at_zero` + `per_mpmi` MPmI + `per_smr` SMR.
    Plane {
        /// The ratio that the model predicts at zero counts.
        at_zero: f64,
        /// The change of the ratio for each miss per million instructions.
        per_mpmi: f64,
        /// The change of the ratio for each unit of SMR.
        per_smr: f64,
    },
    /// The ratio is 1 - `each` SMR MPmI.
    Product {
        /// The gain for each avoided miss per million instructions.
        each: f64,
    },
    /// The ratio is `at_zero` + `each` ln(1 + SMR MPmI).
    Logarithm {
        /// The ratio that the model predicts at zero counts.
        at_zero: f64,
        /// The change of the ratio for each unit of the logarithm.
        each: f64,
    },
    /// The ratio is 1 - `most` SMR MPmI / (`half` + SMR MPmI).
    ///
    /// Let c be the time of a million instructions without the misses that a shared cache avoids, in nanoseconds, and
    /// `far` and `near` the latencies of a line. The run times are then c + x far and c + x near with x = SMR MPmI, so
    /// `most` is 1 - near / far, and `half` is c / far.
    Saturating {
        /// The gain of a program that only waits for misses.
        most: f64,
        /// The product of SMR and MPmI at which half of the gain `most` is reached.
        half: f64,
    },
}

/// The coefficients that Kamali (2010) printed in Table 5.4.
pub const PRINTED: GainModel =
    GainModel::Plane { at_zero: 1.044_417, per_mpmi: -0.000_013, per_smr: -0.296_878 };

/// The best form, fitted to all rows that Kamali (2010) printed. The study `kamali-regression` repeats this fit.
pub const TAKEN: GainModel = GainModel::Saturating { most: 0.946, half: 14_730.0 };

/// The model of the Xeon E5520 of Kamali (2010): a line from the other package takes 83 ns, a line from the shared
/// cache takes 81 cycles at 2.267 GHz (platform `xeon_e5520`), and an instruction is assumed to take one cycle.
pub const E5520: GainModel = GainModel::physical(83.0, 81.0 / 2.267, 1.0 / 2.267);

impl GainModel {
    /// The ratio is 1 - SMR MPmI (far - near) / (10^6 times an instruction), all in nanoseconds: the shared cache
    /// serves each miss that the other package would answer.
    pub const fn physical(far_ns: f64, near_ns: f64, instruction_ns: f64) -> Self {
        Self::Product { each: (far_ns - near_ns) / (1e6 * instruction_ns) }
    }

    /// Returns the predicted ratio of run times.
    pub fn ratio(self, smr: f64, mpmi: f64) -> f64 {
        let x = smr * mpmi;
        match self {
            Self::Plane { at_zero, per_mpmi, per_smr } => at_zero + per_mpmi * mpmi + per_smr * smr,
            Self::Product { each } => 1.0 - each * x,
            Self::Logarithm { at_zero, each } => at_zero + each * x.ln_1p(),
            Self::Saturating { most, half } => 1.0 - most * x / (half + x),
        }
    }

    fn of(self, row: &SharedCacheObservation) -> f64 {
        self.ratio(row.smr, row.mpmi)
    }

    /// Returns the sum of the squared errors of the predictions.
    pub fn residual_squares(self, rows: &[SharedCacheObservation]) -> f64 {
        rows.iter().map(|it| (self.of(it) - it.ratio).powi(2)).sum()
    }
}

impl Form {
    /// Returns the model of this form with the least squared errors on the rows, or `None` if the rows do not determine
    /// the model.
    pub fn fit(self, rows: &[SharedCacheObservation]) -> Option<GainModel> {
        let of = |row: fn(&SharedCacheObservation) -> f64| rows.iter().map(row);
        match self {
            Self::Printed => Some(PRINTED),
            Self::Plane => {
                let inputs = rows.iter().map(|it| ([1.0, it.mpmi * 1e-4, it.smr], it.ratio));
                let [at_zero, per_mpmi, per_smr] = least_squares(inputs)?;
                Some(GainModel::Plane { at_zero, per_mpmi: per_mpmi * 1e-4, per_smr })
            }
            Self::Physical => Some(E5520),
            Self::Product => {
                let gains = rows.iter().map(|it| ([it.avoided() * 1e-4], 1.0 - it.ratio));
                let [each] = least_squares(gains)?;
                Some(GainModel::Product { each: each * 1e-4 })
            }
            Self::Logarithm => {
                let inputs = of(|it| it.avoided().ln_1p()).zip(of(|it| it.ratio));
                let [at_zero, each] = least_squares(inputs.map(|(x, y)| ([1.0, x], y)))?;
                Some(GainModel::Logarithm { at_zero, each })
            }
            Self::Saturating => saturating(rows),
        }
    }
}

/// Searches for the best form by trying values of `half` from 10 to a million, each four percent larger than the one
/// before.
fn saturating(rows: &[SharedCacheObservation]) -> Option<GainModel> {
    let step = |it: i32| 10.0 * 1.04_f64.powi(it);
    let halves = (0..).map(step).take_while(|&half| half < 1e6);
    let models = halves.filter_map(|half| {
        let share = |x: f64| x / (half + x);
        let gains = rows.iter().map(|it| ([share(it.avoided())], 1.0 - it.ratio));
        let [most] = least_squares(gains)?;
        Some(GainModel::Saturating { most, half })
    });
    models.min_by(|a, b| a.residual_squares(rows).total_cmp(&b.residual_squares(rows)))
}

/// Returns the coefficients for which the weighted sum of the inputs is nearest to the outputs: the normal equations,
/// solved by elimination with the largest pivot. Returns `None` if the inputs are linearly dependent.
fn least_squares<const N: usize>(rows: impl Iterator<Item = ([f64; N], f64)>) -> Option<[f64; N]> {
    let (mut matrix, mut right) = ([[0.0; N]; N], [0.0; N]);
    for (inputs, output) in rows {
        for i in 0..N {
            right[i] += inputs[i] * output;
            for j in 0..N {
                matrix[i][j] += inputs[i] * inputs[j];
            }
        }
    }
    for column in 0..N {
        let size = |&row: &usize| matrix[row][column].abs();
        let pivot = (column..N).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        if matrix[column][column].abs() < 1e-12 {
            return None;
        }
        for row in (0..N).filter(|&row| row != column) {
            let factor = matrix[row][column] / matrix[column][column];
            let from = matrix[column];
            matrix[row].iter_mut().zip(from).for_each(|(to, from)| *to -= factor * from);
            right[row] -= factor * right[column];
        }
    }
    Some(std::array::from_fn(|it| right[it] / matrix[it][it]))
}

impl std::fmt::Display for GainModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plane { at_zero, per_mpmi, per_smr } => {
                write!(f, "{at_zero:.3} {per_mpmi:+.7} MPmI {per_smr:+.3} SMR")
            }
            Self::Product { each } => write!(f, "1 - {each:.7} SMR MPmI"),
            Self::Logarithm { at_zero, each } => {
                write!(f, "{at_zero:.3} {each:+.4} ln(1 + SMR MPmI)")
            }
            Self::Saturating { most, half } => {
                write!(f, "1 - {most:.3} SMR MPmI / ({half:.0} + SMR MPmI)")
            }
        }
    }
}

/// The quality of a form, which separates programs that gain from programs that do not; each program is predicted from
/// the other programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Judgement {
    /// The number of rows that are predicted to gain and do not.
    pub false_alarms: usize,
    /// The number of rows that do not gain.
    pub without_gain: usize,
    /// The number of rows that are predicted to gain and do.
    pub found: usize,
    /// The number of rows that gain.
    pub with_gain: usize,
    /// The mean of the absolute errors of the ratio.
    pub mean_error: f64,
}

impl Judgement {
    /// Returns the number of rows with a wrong prediction.
    pub const fn wrong(&self) -> usize {
        self.false_alarms + self.with_gain - self.found
    }
}

/// Judges a form of the model: for each benchmark, the function fits the form to the rows of all other benchmarks, and
/// predicts the benchmark's own rows. A row gains if its ratio is at most `threshold`. Returns `None` if a fit is not
/// possible.
pub fn leaving_one_out(
    form: Form,
    rows: &[SharedCacheObservation],
    threshold: f64,
) -> Option<Judgement> {
    let mut judgement =
        Judgement { false_alarms: 0, without_gain: 0, found: 0, with_gain: 0, mean_error: 0.0 };
    let benchmarks: std::collections::BTreeSet<&str> =
        rows.iter().map(|it| it.benchmark.as_str()).collect();
    for left_out in benchmarks {
        let (judged, fitted): (Vec<SharedCacheObservation>, Vec<SharedCacheObservation>) =
            rows.iter().cloned().partition(|it| it.benchmark == left_out);
        let model = form.fit(&fitted)?;
        for row in &judged {
            let (gains, said) = (row.ratio <= threshold, model.of(row) <= threshold);
            judgement.with_gain += usize::from(gains);
            judgement.without_gain += usize::from(!gains);
            judgement.found += usize::from(gains && said);
            judgement.false_alarms += usize::from(!gains && said);
            judgement.mean_error += (model.of(row) - row.ratio).abs() / rows.len() as f64;
        }
    }
    Some(judgement)
}

/// Returns the form with the fewest wrongly predicted rows, and its quality; among forms with equally many wrong rows,
/// the form with the smaller error.
pub fn best(rows: &[SharedCacheObservation], threshold: f64) -> Option<(Form, Judgement)> {
    let judged =
        Form::ALL.iter().filter_map(|&form| Some((form, leaving_one_out(form, rows, threshold)?)));
    judged.min_by(|(_, a), (_, b)| {
        a.wrong().cmp(&b.wrong()).then(a.mean_error.total_cmp(&b.mean_error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: impl Fn(f64, f64) -> f64) -> Vec<SharedCacheObservation> {
        let point = |it: u32| (f64::from(it % 7) / 7.0, f64::from(it * it) * 40.0);
        let row = |index| {
            let (smr, mpmi) = point(index);
            SharedCacheObservation {
                benchmark: format!("b{}", index % 3),
                smr,
                mpmi,
                ratio: of(smr, mpmi),
            }
        };
        (0..30).map(row).collect()
    }

    #[test]
    fn each_form_finds_its_own_coefficients_again() {
        let models = [
            (Form::Plane, GainModel::Plane { at_zero: 1.1, per_mpmi: -2e-5, per_smr: -0.4 }),
            (Form::Product, GainModel::Product { each: 3e-5 }),
            (Form::Logarithm, GainModel::Logarithm { at_zero: 1.0, each: -0.05 }),
            (
                Form::Saturating,
                GainModel::Saturating { most: 0.5, half: 10.0 * 1.04_f64.powi(150) },
            ),
        ];
        for (form, model) in models {
            let rows = rows(|smr, mpmi| model.ratio(smr, mpmi));
            let fitted = form.fit(&rows).unwrap();
            assert!(fitted.residual_squares(&rows) < 1e-16, "{form}: {fitted:?}");
        }
    }

    #[test]
    fn the_physical_form_takes_what_a_line_from_afar_costs_more_than_one_from_nearby() {
        // In 10^6 instructions of 0.5 ns 1,000 misses take 40 ns less: 40 of 500 microseconds.
        let ratio = GainModel::physical(60.0, 20.0, 0.5).ratio(0.5, 2_000.0);
        assert!((ratio - (1.0 - 40.0 / 500.0)).abs() < 1e-12, "{ratio}");
        assert_eq!(Form::Physical.fit(&[]), Some(E5520));
    }

    #[test]
    fn no_form_is_fitted_to_rows_that_do_not_determine_it() {
        let same =
            vec![
                SharedCacheObservation { benchmark: "x".into(), smr: 0.5, mpmi: 1e4, ratio: 0.8 };
                9
            ];
        assert_eq!(Form::Plane.fit(&same), None);
        assert_eq!(leaving_one_out(Form::Plane, &same, 0.9), None);
        assert!(Form::Product.fit(&same).is_some());
    }

    #[test]
    fn a_benchmark_is_judged_by_what_the_others_say() {
        let row = |benchmark: &str, mpmi: f64, ratio: f64| SharedCacheObservation {
            benchmark: benchmark.into(),
            smr: 1.0,
            mpmi,
            ratio,
        };
        // The others gain 0.1 for each 1,000 misses; x gains nothing from 2,000.
        let rows = [row("a", 1e3, 0.9), row("b", 3e3, 0.7), row("x", 2e3, 1.0)];
        let judged = leaving_one_out(Form::Product, &rows, 0.95).unwrap();
        assert_eq!((judged.false_alarms, judged.without_gain), (1, 1));
        assert_eq!((judged.found, judged.with_gain, judged.wrong()), (2, 2, 1));
        let with_itself = Form::Product.fit(&rows).unwrap().of(&rows[2]);
        assert!(with_itself > 0.82, "alone it would pull the line: {with_itself}");
    }

    #[test]
    fn the_printed_plane_predicts_what_table_5_7_has_for_network_test_and_my_sql() {
        assert!((PRINTED.ratio(0.98, 6_715.25) - 0.67).abs() < 0.005);
        assert!((PRINTED.ratio(0.90, 2_511.96) - 0.74).abs() < 0.0051);
    }
}
