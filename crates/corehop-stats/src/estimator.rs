// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named estimators that compute the delay of a sample from its raw intervals.
//!
//! The published paper and the tool of its authors computed two different numbers under one name. Therefore
//! a sample keeps the intervals, and every stated delay names its estimator.

use corehop_plan::samples::Sample;
use corehop_plan::words::words;

words! {
    /// The definition of a sample's delay by its intervals t0 … t5 (Bastoni et al. 2010, Fig. 1: cold t0 to
    /// t1, warm t1 to t2, off the CPU t3 to t4, resumed t4 to t5).
    Estimator, "an estimator" {
        /// The delay is (t5 - t4) - (t2 - t1), the resumed touch minus the warm touch, as the paper defines it
        /// (section 3.1).
        Difference = "difference",
        /// The delay is the resumed touch minus the smaller of the cold and the warm touch, as in the published tool
        /// of 2016 (`post - min(cold, hot)`); this delay is never smaller than `difference`.
        AgainstLeast = "against_least",
        /// The delay is the resumed touch minus the warm touch, plus the direct cost of getting to the other CPU.
        WithSwitch = "with_switch",
        /// The delay is (t1 - t0) - (t2 - t1), the cold touch minus the warm touch: the cost of losing every line, at
        /// which delays saturate (Wächtler 2012, section 3.4.3).
        ColdBound = "cold_bound",
    }
}

impl Estimator {
    /// Returns the valid samples whose delay is a finite number, each with the delay in microseconds.
    pub fn delays_us(self, samples: &[Sample]) -> impl Iterator<Item = (&Sample, f64)> {
        let valid = samples.iter().filter(|sample| sample.valid);
        valid.filter_map(move |sample| {
            let delay = self.delay_ns(sample).filter(|delay| delay.is_finite())?;
            Some((sample, delay / 1e3))
        })
    }

    /// Returns the delay of `sample` in nanoseconds. Returns `None` if the sample lacks an interval that
    /// the estimator needs: a certified cold touch, or the direct cost of the switch.
    pub fn delay_ns(self, sample: &Sample) -> Option<f64> {
        let resumed_less_warm = sample.resumed_ns - sample.warm_ns;
        Some(match self {
            Self::Difference => resumed_less_warm,
            Self::AgainstLeast | Self::ColdBound if !sample.cold_valid => return None,
            Self::AgainstLeast => sample.resumed_ns - sample.warm_ns.min(sample.cold_ns),
            Self::WithSwitch => resumed_less_warm + sample.switch_ns?,
            Self::ColdBound => sample.cold_ns - sample.warm_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::sample;

    #[test]
    fn each_estimator_is_what_its_definition_gives_by_hand() {
        let sample = Sample {
            cold_ns: 9_000.0,
            warm_ns: 2_000.0,
            resumed_ns: 5_000.0,
            switch_ns: Some(1_500.0),
            ..sample()
        };
        for (estimator, delay) in [
            (Estimator::Difference, 3_000.0),
            (Estimator::AgainstLeast, 3_000.0),
            (Estimator::WithSwitch, 4_500.0),
            (Estimator::ColdBound, 7_000.0),
        ] {
            assert_eq!(estimator.delay_ns(&sample), Some(delay), "{estimator}");
        }
    }

    #[test]
    fn the_two_published_definitions_part_where_the_cold_touch_was_the_faster_one() {
        let odd = Sample { cold_ns: 1_000.0, warm_ns: 2_000.0, resumed_ns: 1_500.0, ..sample() };
        assert_eq!(Estimator::Difference.delay_ns(&odd), Some(-500.0));
        assert_eq!(Estimator::AgainstLeast.delay_ns(&odd), Some(500.0));
    }

    #[test]
    fn an_interval_that_is_not_there_gives_no_delay_rather_than_a_wrong_one() {
        let poor = Sample { cold_valid: false, switch_ns: None, ..sample() };
        assert!(Estimator::Difference.delay_ns(&poor).is_some());
        for estimator in [Estimator::AgainstLeast, Estimator::WithSwitch, Estimator::ColdBound] {
            assert_eq!(estimator.delay_ns(&poor), None);
        }
    }
}
