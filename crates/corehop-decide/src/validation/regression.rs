// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats a printed regression on the printed rows.
//!
//! This study simulates nothing. The printed regression is tested as claims: whether its coefficients follow from the
//! printed rows, whether they could follow with any unprinted rows, and how well each form of the prediction detects
//! programs that gain.

use serde::Deserialize;

use super::gangs::GangStudy;
use super::sheet::{GangQuantity, Sheet, Tested};
use super::table_text::lines;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::platform::Platform;
use corehop_plan::workload::gang::GangProgram;
use corehop_stats::gain::{
    Form, GainModel, Judgement, PRINTED, SharedCacheObservation, best, leaving_one_out,
};
use corehop_stats::verdict::TestOutcome;

/// The columns of the rows on which the regression was not fitted.
const COLUMNS: &[&str] =
    &["benchmark", "runtime_ratio", "smr_separate", "mpmi_separate", "predicted"];

/// A printed regression, and the tables that it is about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegressionStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed regression, with its source.
    pub title: String,
    /// The ID of the platform on which the rows were measured.
    pub platform: String,
    /// The printed sum of squared residuals.
    pub residual_squares: f64,
    /// The printed number of rows.
    pub observations: usize,
    /// A program gains if its ratio of run times is at most this threshold.
    pub threshold: f64,
    /// The goal: the largest number of false alarms, and the smallest share of detected gains.
    pub aim: DetectionAim,
    /// The tables of gangs from which the rows come.
    pub rows: Vec<RowsOf>,
    #[serde(skip)]
    fitted: Vec<SharedCacheObservation>,
    #[serde(skip)]
    others: Vec<PredictedRow>,
}

/// The detection goal for a form of the prediction.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectionAim {
    /// The largest accepted number of false alarms.
    pub false_alarms: usize,
    /// The smallest accepted share of gains that are detected.
    pub found: f64,
}

/// The rows of one benchmark in the table of another study.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsOf {
    /// The name of the benchmark.
    pub benchmark: String,
    /// The name of the study with the table.
    pub table: String,
}

/// A row with a printed prediction. The regression was not fitted on this row.
#[derive(Debug, Clone, PartialEq)]
struct PredictedRow {
    row: SharedCacheObservation,
    printed: f64,
}

impl RegressionStudy {
    /// Parses a study from its description, and from a table of rows on which the regression was not fitted.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError`], which names the problem and its place.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        for line in lines(table, COLUMNS)? {
            let row = SharedCacheObservation {
                benchmark: line.cell("benchmark").to_owned(),
                smr: line.number("smr_separate")?,
                mpmi: line.number("mpmi_separate")?,
                ratio: line.number("runtime_ratio")?,
            };
            study.others.push(PredictedRow { row, printed: line.number("predicted")? });
        }
        for it in &study.rows {
            let gangs = GangStudy::named(&it.table).ok_or_else(|| {
                PublishedStudyError::Form(format!("`{}` is not a table of gangs", it.table))
            })??;
            study.fitted.extend(observed(&it.benchmark, &gangs));
        }
        Ok(study)
    }

    fn all(&self) -> Vec<SharedCacheObservation> {
        self.fitted.iter().cloned().chain(self.others.iter().map(|it| it.row.clone())).collect()
    }

    /// Whether the printed coefficients are the least-squares fit to the rows.
    fn refit(&self) -> Tested {
        let Some(plane) = Form::Plane.fit(&self.fitted) else {
            return tested("the rows determine a plane", TestOutcome::DoesNot, String::new());
        };
        let same = rounds_to(plane, PRINTED);
        let rows = self.fitted.len();
        tested(
            &format!(
                "Table 5.4 is the nearest plane to the {rows} printed rows of {}",
                self.observations
            ),
            if same { TestOutcome::Holds } else { TestOutcome::DoesNot },
            format!("printed {PRINTED}, fitted {plane}"),
        )
    }

    /// Whether unprinted rows could explain the difference. Additional rows cannot reduce the residuals of the
    /// printed rows.
    fn any_rest(&self) -> Tested {
        let as_printed = PRINTED.residual_squares(&self.fitted);
        let least: f64 = self.fitted.iter().map(least_residual).map(|it| it * it).sum();
        let missing = self.observations - self.fitted.len();
        let claim = format!(
            "the fit gives Table 5.4 for some values of the {missing} rows that are not printed"
        );
        let possible = least <= self.residual_squares;
        tested(
            &claim,
            if possible { TestOutcome::CannotTell } else { TestOutcome::DoesNot },
            format!(
                "squares of the residuals of the printed rows alone {as_printed:.2}, {least:.2} with everything rounded \
                 in its favour; printed for all rows {:.2}",
                self.residual_squares
            ),
        )
    }

    /// Whether the printed predictions follow from the printed coefficients.
    fn predictions(&self) -> Tested {
        let off = |it: &PredictedRow| (PRINTED.ratio(it.row.smr, it.row.mpmi) - it.printed).abs();
        // Two digits of each, and what two digits of SMR and of a coefficient make of it.
        let follows = |it: &&PredictedRow| off(it) <= 0.01 + 0.005 * 0.3 + it.row.mpmi * 5e-7;
        let count = self.others.iter().filter(follows).count();
        let worst = self.others.iter().map(off).fold(0.0, f64::max);
        let all = self.others.len();
        tested(
            "the predictions of Tables 5.6 and 5.7 follow from Table 5.4",
            if count == all { TestOutcome::Holds } else { TestOutcome::DoesNot },
            format!("{count} of {all} predictions follow; the largest difference is {worst:.3}"),
        )
    }

    /// Tests how well a form detects programs that gain. The paper claims that the printed form detects them well.
    fn tells(&self, form: Form, all: &[SharedCacheObservation]) -> Tested {
        let threshold = self.threshold;
        let claim = format!(
            "{form}: with one benchmark left out, the form detects the programs with a ratio of {threshold:.2} or less"
        );
        let expected = (form == Form::Printed).then_some(TestOutcome::Holds);
        let judged = leaving_one_out(form, all, threshold);
        let found = match &judged {
            None => TestOutcome::CannotTell,
            Some(it) if self.aim.is_reached(it) => TestOutcome::Holds,
            Some(_) => TestOutcome::DoesNot,
        };
        let evidence = judged.map_or_else(|| "the rows do not determine it".to_owned(), text);
        Tested { claim, expected, found, evidence }
    }

    /// Returns the form that best detects programs that gain, when each benchmark is predicted from the others.
    pub fn taken(&self) -> Option<(Form, Judgement)> {
        best(&self.all(), self.threshold)
    }

    fn best(&self, all: &[SharedCacheObservation]) -> Option<Tested> {
        let (form, judgement) = self.taken()?;
        let found =
            if self.aim.is_reached(&judgement) { TestOutcome::Holds } else { TestOutcome::DoesNot };
        let claim = format!("the best form, {form}, reaches the aim");
        let fitted =
            form.fit(all).map_or_else(String::new, |it| format!("; fitted to all rows: {it}"));
        Some(Tested {
            claim,
            expected: None,
            found,
            evidence: format!("{}{fitted}", text(judgement)),
        })
    }
}

impl DetectionAim {
    fn is_reached(self, judgement: &Judgement) -> bool {
        judgement.false_alarms <= self.false_alarms
            && judgement.found as f64 >= self.found * judgement.with_gain as f64
    }
}

impl PublishedStudy for RegressionStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    /// The study does not depend on a machine, because nothing is simulated.
    fn is_of_one_machine(&self) -> bool {
        false
    }

    fn judge(&self, _: &Platform, _: &mut Lab) -> Result<Sheet, ValidationError> {
        let all = self.all();
        let mut claims = vec![self.refit(), self.any_rest(), self.predictions()];
        claims.extend(Form::ALL.iter().map(|&form| self.tells(form, &all)));
        claims.extend(self.best(&all));
        Ok(Sheet::of_claims(self.head(), claims))
    }
}

/// A claim that is true according to the paper.
fn tested(claim: &str, found: TestOutcome, evidence: String) -> Tested {
    Tested { claim: claim.to_owned(), expected: Some(TestOutcome::Holds), found, evidence }
}

fn text(it: Judgement) -> String {
    format!(
        "{} of {} programs without a gain are false alarms; {} of {} gains are found; the mean error is {:.3}",
        it.false_alarms, it.without_gain, it.found, it.with_gain, it.mean_error
    )
}

/// The rows of a table that contain all three numbers.
fn observed(benchmark: &str, gangs: &GangStudy) -> Vec<SharedCacheObservation> {
    let value = |program: &GangProgram, quantity| {
        let same = |it: &&super::gangs::GangRow| it.program == *program && it.quantity == quantity;
        gangs.printed.iter().find(same).map(|it| it.value.value)
    };
    let ratios = gangs.printed.iter().filter(|it| it.quantity == GangQuantity::RuntimeRatio);
    let row = |it: &super::gangs::GangRow| {
        Some(SharedCacheObservation {
            benchmark: benchmark.to_owned(),
            smr: value(&it.program, GangQuantity::SmrSeparate)?,
            mpmi: value(&it.program, GangQuantity::MpmiSeparate)?,
            ratio: it.value.value,
        })
    };
    ratios.filter_map(row).collect()
}

/// The smallest possible residual of the printed plane at a row, if rounding of the printed numbers explains as much as
/// possible: two digits of ratio and SMR, and the sixth digit of the coefficient of MPmI.
fn least_residual(it: &SharedCacheObservation) -> f64 {
    let slack = 0.005 + 0.296_878 * 0.005 + 5e-7 * it.mpmi;
    ((PRINTED.ratio(it.smr, it.mpmi) - it.ratio).abs() - slack).max(0.0)
}

/// Whether the fitted plane rounds to the printed plane.
fn rounds_to(fitted: GainModel, printed: GainModel) -> bool {
    let coefficients = |model| match model {
        GainModel::Plane { at_zero, per_mpmi, per_smr } => [at_zero, per_mpmi, per_smr],
        _ => [f64::NAN; 3],
    };
    let digits = [1e-4, 5e-7, 1e-4];
    let pairs = coefficients(fitted).into_iter().zip(coefficients(printed)).zip(digits);
    pairs.into_iter().all(|((fitted, printed), digit)| (fitted - printed).abs() <= digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_stats::gain::TAKEN;

    fn study() -> RegressionStudy {
        let (_, description, table) = super::super::studies::REGRESSIONS[0];
        RegressionStudy::new(description, table).unwrap()
    }

    #[test]
    fn the_printed_rows_are_78_and_nine_and_their_judgement_is_that_of_the_note() {
        let study = study();
        assert_eq!((study.fitted.len(), study.others.len()), (78, 9));
        let all = study.all();
        let printed = leaving_one_out(Form::Printed, &all, 0.9).unwrap();
        assert_eq!((printed.false_alarms, printed.without_gain), (22, 24));
        assert_eq!((printed.found, printed.with_gain), (63, 63));
        let (form, judgement) = best(&all, 0.9).unwrap();
        assert_eq!(form, Form::Saturating);
        assert!(study.aim.is_reached(&judgement), "{judgement:?}");
        let (taken, fitted) = (TAKEN.to_string(), form.fit(&all).unwrap().to_string());
        assert_eq!(taken, fitted, "the report predicts with the best form");
    }

    #[test]
    fn the_printed_coefficients_follow_from_no_rows_at_all() {
        let study = study();
        assert_eq!(study.refit().found, TestOutcome::DoesNot);
        let rest = study.any_rest();
        assert_eq!(rest.found, TestOutcome::DoesNot, "{}", rest.evidence);
        assert_eq!(study.predictions().found, TestOutcome::Holds);
    }

    #[test]
    fn rows_that_do_lie_on_the_printed_plane_are_told_so() {
        let mut study = study();
        for it in &mut study.fitted {
            it.ratio = PRINTED.ratio(it.smr, it.mpmi);
        }
        assert_eq!(study.refit().found, TestOutcome::Holds);
        assert_eq!(study.any_rest().found, TestOutcome::CannotTell);
    }

    #[test]
    fn a_table_that_is_not_there_is_named() {
        let (_, description, table) = super::super::studies::REGRESSIONS[0];
        let wrong = description.replace("kamali-4-5", "kamali-9-9");
        let error = RegressionStudy::new(&wrong, table).unwrap_err();
        assert!(error.to_string().contains("kamali-9-9"), "{error}");
    }

    /// A study whose rows lie on the printed plane, except that `off` is added to the ratio of the first row.
    fn on_the_plane(off: f64) -> RegressionStudy {
        let mut study = study();
        for it in &mut study.fitted {
            it.ratio = PRINTED.ratio(it.smr, it.mpmi);
        }
        study.fitted[0].ratio += off;
        study
    }

    #[test]
    fn the_least_residual_is_what_rounding_in_favour_leaves() {
        let row = |ratio: f64| SharedCacheObservation {
            benchmark: "x".to_owned(),
            smr: 0.5,
            mpmi: 1_000.0,
            ratio,
        };
        let plane = PRINTED.ratio(0.5, 1_000.0);
        // 0.005 of the ratio, 0.297 × 0.005 of SMR, and half of a millionth for each of a thousand misses.
        let slack = 0.005 + 0.001_484_39 + 0.000_5;
        for (off, left) in
            [(0.0, 0.0), (slack - 1e-6, 0.0), (0.1, 0.1 - slack), (-0.1, 0.1 - slack)]
        {
            let found = least_residual(&row(plane + off));
            assert!((found - left).abs() < 1e-9, "{off}: {found}");
        }
    }

    #[test]
    fn residuals_that_are_as_large_as_the_printed_ones_leave_the_rest_open() {
        let mut study = on_the_plane(1.0);
        let own = least_residual(&study.fitted[0]).powi(2);
        for (squares, found) in [(own, TestOutcome::CannotTell), (own - 1e-9, TestOutcome::DoesNot)]
        {
            study.residual_squares = squares;
            let rest = study.any_rest();
            assert_eq!(rest.found, found, "{}", rest.evidence);
            assert!(rest.claim.contains("26 rows that are not printed"), "{}", rest.claim);
        }
        assert!(
            study
                .any_rest()
                .evidence
                .contains("squares of the residuals of the printed rows alone 1.00, 0.9")
        );
    }

    #[test]
    fn a_prediction_that_does_not_follow_is_counted_with_how_far_it_is_off() {
        let mut study = study();
        let evidence = study.predictions().evidence;
        assert!(
            evidence.starts_with("9 of 9 predictions follow; the largest difference is 0.0"),
            "{evidence}"
        );
        study.others[2].printed =
            PRINTED.ratio(study.others[2].row.smr, study.others[2].row.mpmi) + 0.5;
        let predictions = study.predictions();
        assert_eq!(predictions.found, TestOutcome::DoesNot);
        assert_eq!(
            predictions.evidence,
            "8 of 9 predictions follow; the largest difference is 0.500"
        );
    }

    #[test]
    fn an_aim_is_reached_with_no_more_alarms_and_no_fewer_gains_than_it_says() {
        let aim = DetectionAim { false_alarms: 2, found: 0.95 };
        let of = |false_alarms, found| {
            aim.is_reached(&Judgement {
                false_alarms,
                without_gain: 24,
                found,
                with_gain: 20,
                mean_error: 0.0,
            })
        };
        assert_eq!([of(2, 19), of(3, 19), of(2, 18), of(0, 20)], [true, false, false, true]);
    }

    #[test]
    fn each_form_is_tested_and_the_best_is_held_against_the_aim() {
        let study = study();
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let sheet = study.judge(&platform, &mut Lab::new(1, None, false)).unwrap();
        assert_eq!(sheet.claims.len(), 3 + Form::ALL.len() + 1);
        let best = sheet.claims.last().unwrap();
        assert_eq!((best.found, best.expected), (TestOutcome::Holds, None));
        assert!(
            best.claim.contains("saturating") && best.evidence.contains("; fitted to all rows: "),
            "{best:?}"
        );
        let printed = &sheet.claims[3];
        assert_eq!(
            (printed.found, printed.expected),
            (TestOutcome::DoesNot, Some(TestOutcome::Holds))
        );
        assert!(
            printed.evidence.starts_with(
                "22 of 24 programs without a gain are false alarms; 63 of 63 gains are found; "
            ),
            "{}",
            printed.evidence
        );
        assert!(sheet.claims[4..].iter().all(|it| it.expected.is_none()));
        // An aim that nothing reaches, and one that everything does.
        let with = |aim| RegressionStudy { aim, ..study.clone() }.best(&study.all()).unwrap().found;
        assert_eq!(with(DetectionAim { false_alarms: 0, found: 1.1 }), TestOutcome::DoesNot);
        assert_eq!(with(DetectionAim { false_alarms: 99, found: 0.0 }), TestOutcome::Holds);
    }
}
