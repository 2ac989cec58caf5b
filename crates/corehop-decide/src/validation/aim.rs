// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether a simulation reaches its aim against the printed values.

use serde::Serialize;

/// The errors of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ErrorQuantiles {
    /// The number of rows.
    pub rows: usize,
    /// The median of their errors.
    pub median: f64,
    /// The ninetieth percentile of their errors.
    pub p90: f64,
}

impl ErrorQuantiles {
    /// The summary of these errors. None without any.
    pub(super) fn over(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at =
            |p: f64| values[((values.len() as f64 * p).ceil() as usize).clamp(1, values.len()) - 1];
        Some(Self { rows: values.len(), median: at(0.5), p90: at(0.9) })
    }
}

/// Whether classes come in the printed order: of all pairs of averages of two events at one size
/// that are printed at least this far apart, how many are simulated the same way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClassConcordance {
    /// The pairs.
    pub pairs: usize,
    /// Those that agree.
    pub agree: usize,
}

/// The result of a comparison with printed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AimVerdict {
    /// The median error, the 90th percentile and the order are all as aimed at.
    Reached,
    /// One of them is not.
    NotReached,
    /// There are too few samples, or rows, to say so.
    NotJudged,
}

/// An aim, and whether it is reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aim {
    /// The greatest median error that is aimed at.
    pub median: f64,
    /// The greatest 90th percentile of the errors.
    pub p90: f64,
    /// The result.
    pub outcome: AimVerdict,
    /// The missed aims, or the reason why it was not judged.
    pub why: Vec<String>,
}

/// Samples of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples {
    /// The present number.
    pub have: u32,
    /// The number that the study takes: those that its aim was set for.
    pub takes: u32,
}

impl Aim {
    /// The 90th percentile that goes with a median error: of a centred normal law it is 2.44 times the
    /// median of the distance from zero.
    pub const P90_OVER_MEDIAN: f64 = 2.5;

    /// The result of errors of judged rows and the order of events, against a median error of `median`.
    pub fn of(
        judged: Option<ErrorQuantiles>,
        order: Option<ClassConcordance>,
        median: f64,
        samples: Samples,
    ) -> Self {
        let p90 = Self::P90_OVER_MEDIAN * median;
        let of = |outcome, why| Self { median, p90, outcome, why };
        let Samples { have, takes } = samples;
        if have < takes {
            let why =
                format!("{have} samples a value; the aim takes {takes} (leave out --samples)");
            return of(AimVerdict::NotJudged, vec![why]);
        }
        let Some(errors) = judged else {
            let why = "parameters were fitted on every row that is left".to_owned();
            return of(AimVerdict::NotJudged, vec![why]);
        };
        let why = missed(errors, order, median, p90);
        of(if why.is_empty() { AimVerdict::Reached } else { AimVerdict::NotReached }, why)
    }

    /// Whether it is not reached, or was not judged.
    pub fn is_open(&self) -> bool {
        self.outcome != AimVerdict::Reached
    }
}

/// The errors beyond a median and a 90th percentile, each in words. An error that is no number is.
pub(super) fn errors_beyond(errors: ErrorQuantiles, median: f64, p90: f64) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let beyond = |name: &str, error: f64, limit: f64| {
        let within = error <= limit;
        (!within).then(|| format!("{name} is {}, above {}", percent(error), percent(limit)))
    };
    let median = beyond("the median error", errors.median, median);
    let p90 = beyond("the 90th percentile", errors.p90, p90);
    median.into_iter().chain(p90).collect()
}

/// The parts of the aim that are missed.
fn missed(
    errors: ErrorQuantiles,
    order: Option<ClassConcordance>,
    median: f64,
    p90: f64,
) -> Vec<String> {
    let turned = order.filter(|order| order.agree < order.pairs).map(|order| {
        format!("{} of {} pairs of events are in the printed order", order.agree, order.pairs)
    });
    errors_beyond(errors, median, p90).into_iter().chain(turned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Samples = Samples { have: 32, takes: 32 };

    fn outcome(median: f64, p90: f64, agree: usize, samples: Samples) -> (AimVerdict, Vec<String>) {
        let errors = ErrorQuantiles { rows: 20, median, p90 };
        let aim = Aim::of(Some(errors), Some(ClassConcordance { pairs: 9, agree }), 0.1, samples);
        (aim.outcome, aim.why)
    }

    #[test]
    fn an_aim_is_reached_only_where_median_90th_percentile_and_order_all_are() {
        assert_eq!(outcome(0.1, 0.25, 9, ENOUGH), (AimVerdict::Reached, vec![]));
        for (median, p90, agree, word) in
            [(0.11, 0.2, 9, "median"), (0.1, 0.26, 9, "90th"), (0.1, 0.2, 8, "8 of 9 pairs")]
        {
            let (outcome, why) = outcome(median, p90, agree, ENOUGH);
            assert_eq!((outcome, why.len()), (AimVerdict::NotReached, 1), "{why:?}");
            assert!(why[0].contains(word), "{why:?}");
        }
        assert_eq!(outcome(f64::NAN, f64::NAN, 8, ENOUGH).1.len(), 3);
    }

    #[test]
    fn with_fewer_samples_than_the_study_takes_or_no_row_left_nothing_is_judged() {
        let few = Samples { have: 4, takes: 32 };
        let (judged, why) = outcome(0.0, 0.0, 9, few);
        assert_eq!(judged, AimVerdict::NotJudged);
        assert!(why[0].contains("4 samples") && why[0].contains("takes 32"), "{why:?}");
        assert_eq!(Aim::of(None, None, 0.1, ENOUGH).outcome, AimVerdict::NotJudged);
    }

    #[test]
    fn the_errors_are_ranks_from_above_and_none_without_a_row() {
        assert_eq!(ErrorQuantiles::over(Vec::new()), None);
        let of = |values: &[f64]| {
            let it = ErrorQuantiles::over(values.to_vec()).unwrap();
            (it.rows, it.median, it.p90)
        };
        assert_eq!(of(&[0.3]), (1, 0.3, 0.3));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), (4, 2.0, 4.0));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(of(&ten), (10, 5.0, 9.0));
    }

    #[test]
    fn a_missed_aim_says_the_error_and_the_limit_and_only_a_reached_one_is_closed() {
        let errors = ErrorQuantiles { rows: 3, median: 0.125, p90: 0.3 };
        let aim = Aim::of(Some(errors), None, 0.1, ENOUGH);
        assert_eq!(
            aim.why,
            [
                "the median error is 12.5 %, above 10.0 %",
                "the 90th percentile is 30.0 %, above 25.0 %"
            ]
        );
        assert!(aim.is_open() && Aim::of(None, None, 0.1, ENOUGH).is_open());
        assert!(!Aim::of(Some(errors), None, 0.125, ENOUGH).is_open());
        assert_eq!((aim.median, aim.p90), (0.1, 0.25));
        // More samples than the study takes judge as well.
        let more = Samples { have: 33, takes: 32 };
        assert_eq!(Aim::of(Some(errors), None, 0.2, more).outcome, AimVerdict::Reached);
    }
}
