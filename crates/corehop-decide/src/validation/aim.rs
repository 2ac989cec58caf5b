// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether a simulation reaches the accuracy goal of a study.

use serde::{Deserialize, Serialize};

use super::printed_number::ErrorLaw;

/// Quantiles of the errors of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorQuantiles {
    /// The number of rows.
    pub rows: usize,
    /// The number of rows without a simulated value, or without a ratio of both values. The error of a missing row is
    /// infinite.
    pub missing: usize,
    /// The median error; for an even number of rows, the mean of the two middle errors.
    pub median: f64,
    /// The ninetieth percentile of the errors.
    pub p90: f64,
}

impl ErrorQuantiles {
    /// The quantiles of these errors; rows without a simulated value have an infinite error. Returns `None` if there
    /// are no rows.
    pub(super) fn over(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let rows = values.len();
        let rank = (rows as f64 * 0.9).ceil() as usize;
        let p90 = *values.get(rank.checked_sub(1)?)?;
        let median = f64::midpoint(values[(rows - 1) / 2], values[rows / 2]);
        let missing = values.iter().filter(|it| it.is_infinite()).count();
        Some(Self { rows, missing, median, p90 })
    }
}

/// The largest errors that a study accepts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorLimits {
    /// The largest accepted median error.
    pub median: f64,
    /// The largest accepted ninetieth percentile.
    pub p90: f64,
    /// The smallest accepted share of pairs in the printed order; 1 if the study states no value.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub order: f64,
}

const fn all() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_all(share: &f64) -> bool {
    *share >= all()
}

/// The number of pairs of classes that the simulation puts in the printed order. The pairs are judged pairs of two events at
/// one size, or of two kernels on one chip, whose printed values clearly differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClassConcordance {
    /// The number of pairs.
    pub pairs: usize,
    /// The number of pairs in the printed order.
    pub agree: usize,
}

/// Whether a simulation reaches the goal of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AimVerdict {
    /// The median error, the 90th percentile and the order all reach the goal.
    Reached,
    /// The median error, the 90th percentile or the order misses the goal.
    NotReached,
    /// There are too few samples, or rows, for a judgement.
    NotJudged,
}

/// The goal of a study, and whether it is reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aim {
    /// The largest accepted median error.
    pub median: f64,
    /// The largest accepted 90th percentile of the errors.
    pub p90: f64,
    /// Whether the goal is reached.
    pub outcome: AimVerdict,
    /// The missed parts of the goal, or the reason why there is no judgement.
    pub why: Vec<String>,
}

/// The numbers of samples behind a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples {
    /// The number of samples that were simulated.
    pub have: u32,
    /// The number of samples that the study requires, for which its goal was set.
    pub takes: u32,
}

impl Aim {
    /// Judges the errors and the order of judged rows against these limits.
    pub fn of(
        judged: Option<ErrorQuantiles>,
        order: Option<ClassConcordance>,
        (law, limits): (ErrorLaw, ErrorLimits),
        samples: Samples,
    ) -> Self {
        let ErrorLimits { median, p90, order: share } = limits;
        let of = |outcome, why| Self { median, p90, outcome, why };
        let Samples { have, takes } = samples;
        if have < takes {
            let why = format!("{have} samples per value; the aim needs {takes} (omit --samples)");
            return of(AimVerdict::NotJudged, vec![why]);
        }
        let Some(errors) = judged else {
            let why =
                "every row was used to fit or choose parameters, or repeats a row of another study"
                    .to_owned();
            return of(AimVerdict::NotJudged, vec![why]);
        };
        let mut why = errors_beyond(errors, law, limits);
        why.extend(order.and_then(|order| order.turned(share)));
        of(if why.is_empty() { AimVerdict::Reached } else { AimVerdict::NotReached }, why)
    }

    /// Whether the goal is missed or was not judged.
    pub fn is_open(&self) -> bool {
        self.outcome != AimVerdict::Reached
    }
}

impl ClassConcordance {
    /// Describes the share of pairs in the printed order, if it is below `share`.
    fn turned(self, share: f64) -> Option<String> {
        let Self { pairs, agree } = self;
        ((agree as f64) < share * pairs as f64)
            .then(|| format!("only {agree} of {pairs} pairs are in the printed order"))
    }
}

/// Describes each error that exceeds these limits. An error that is not a number also exceeds the limits.
pub(super) fn errors_beyond(
    errors: ErrorQuantiles,
    law: ErrorLaw,
    limits: ErrorLimits,
) -> Vec<String> {
    let ErrorQuantiles { rows, missing, .. } = errors;
    let show = |error: f64| {
        if error.is_infinite() {
            return format!("infinite ({missing} of {rows} rows have no value)");
        }
        law.show(error)
    };
    let beyond = |name: &str, error: f64, limit: f64| {
        let within = error <= limit;
        (!within).then(|| format!("{name} is {}, above {}", show(error), law.show(limit)))
    };
    let median = beyond("the median error", errors.median, limits.median);
    let p90 = beyond("the 90th percentile", errors.p90, limits.p90);
    median.into_iter().chain(p90).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Samples = Samples { have: 32, takes: 32 };
    const LIMITS: ErrorLimits = ErrorLimits { median: 0.1, p90: 0.3, order: 1.0 };

    fn errors(median: f64, p90: f64) -> ErrorQuantiles {
        ErrorQuantiles { rows: 20, missing: 0, median, p90 }
    }

    fn outcome(median: f64, p90: f64, agree: usize, samples: Samples) -> (AimVerdict, Vec<String>) {
        let order = Some(ClassConcordance { pairs: 9, agree });
        let aim = Aim::of(Some(errors(median, p90)), order, (ErrorLaw::Relative, LIMITS), samples);
        (aim.outcome, aim.why)
    }

    #[test]
    fn an_aim_is_reached_only_where_median_90th_percentile_and_order_all_are() {
        assert_eq!(outcome(0.1, 0.3, 9, ENOUGH), (AimVerdict::Reached, vec![]));
        for (median, p90, agree, word) in
            [(0.11, 0.2, 9, "median"), (0.1, 0.31, 9, "90th"), (0.1, 0.2, 8, "8 of 9 pairs")]
        {
            let (outcome, why) = outcome(median, p90, agree, ENOUGH);
            assert_eq!((outcome, why.len()), (AimVerdict::NotReached, 1), "{why:?}");
            assert!(why[0].contains(word), "{why:?}");
        }
        assert_eq!(outcome(f64::NAN, f64::NAN, 8, ENOUGH).1.len(), 3);
        let most = ErrorLimits { order: 0.8, ..LIMITS };
        let of = |agree| {
            let order = Some(ClassConcordance { pairs: 10, agree });
            let aim = Aim::of(Some(errors(0.1, 0.3)), order, (ErrorLaw::Relative, most), ENOUGH);
            aim.outcome
        };
        assert_eq!([of(8), of(7)], [AimVerdict::Reached, AimVerdict::NotReached]);
    }

    #[test]
    fn with_fewer_samples_than_the_study_takes_or_no_row_left_nothing_is_judged() {
        let few = Samples { have: 4, takes: 32 };
        let (judged, why) = outcome(0.0, 0.0, 9, few);
        assert_eq!(judged, AimVerdict::NotJudged);
        assert!(why[0].contains("4 samples") && why[0].contains("needs 32"), "{why:?}");
        let none = Aim::of(None, None, (ErrorLaw::Relative, LIMITS), ENOUGH);
        assert_eq!((none.outcome, none.is_open()), (AimVerdict::NotJudged, true));
    }

    #[test]
    fn the_median_is_the_middle_and_a_row_without_a_value_is_infinitely_far_off() {
        assert_eq!(ErrorQuantiles::over(Vec::new()), None);
        let of = |values: &[f64]| {
            let it = ErrorQuantiles::over(values.to_vec()).unwrap();
            (it.rows, it.missing, it.median, it.p90)
        };
        assert_eq!(of(&[0.3]), (1, 0, 0.3, 0.3));
        assert_eq!(of(&[0.005, 0.715]), (2, 0, 0.36, 0.715));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), (4, 0, 2.5, 4.0));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(of(&ten), (10, 0, 5.5, 9.0));
        assert_eq!(of(&[ten, vec![11.0]].concat()), (11, 0, 6.0, 10.0));
        let none = f64::INFINITY;
        assert_eq!(of(&[1.0, none, 2.0]), (3, 1, 2.0, none));
        assert_eq!(of(&[1.0, none, none, 2.0]), (4, 2, none, none));
    }

    #[test]
    fn a_missed_aim_says_the_error_and_the_limit_and_only_a_reached_one_is_closed() {
        let beyond = errors(0.125, 0.4);
        let aim = Aim::of(Some(beyond), None, (ErrorLaw::Relative, LIMITS), ENOUGH);
        let why = [
            "the median error is 12.5 %, above 10.0 %",
            "the 90th percentile is 40.0 %, above 30.0 %",
        ];
        assert_eq!((aim.why.as_slice(), aim.is_open()), (&why.map(str::to_owned)[..], true));
        let wide = ErrorLimits { median: 0.125, p90: 0.4, order: 1.0 };
        assert!(!Aim::of(Some(beyond), None, (ErrorLaw::Relative, wide), ENOUGH).is_open());
        assert_eq!((aim.median, aim.p90), (0.1, 0.3));
        let missing = ErrorQuantiles { missing: 15, p90: f64::INFINITY, ..errors(0.1, 0.0) };
        let aim = Aim::of(Some(missing), None, (ErrorLaw::Relative, LIMITS), ENOUGH);
        assert_eq!(
            aim.why,
            ["the 90th percentile is infinite (15 of 20 rows have no value), above 30.0 %"]
        );
        // More samples than the study takes judge as well.
        let more = Samples { have: 33, takes: 32 };
        assert_eq!(
            Aim::of(Some(beyond), None, (ErrorLaw::Relative, wide), more).outcome,
            AimVerdict::Reached
        );
    }
}
