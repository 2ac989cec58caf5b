// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate over comparisons: converts p-values to outcomes, and outcomes to the answer to "did it get slower?".
//!
//! Each comparison tests three hypotheses. If "B costs at most A plus the margin" is rejected, B is *slower*. If "B
//! costs at least A minus the margin" is rejected, B is *faster*. If "A and B differ by more than the margin" is
//! rejected on both sides, they are *equivalent* (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15,
//! 1987). A comparison with no rejected hypothesis is undecided. The p-values of each hypothesis are adjusted over
//! all comparisons (Holm 1979), so two equal results show a slower or faster quantity with probability `alpha` at
//! most, however many comparisons there are.
//!
//! The absence of a failure counts only if a failure was possible. A comparison *could have failed* if its replicates
//! allow a p-value at or below the level at which the first comparison is tested. A gate that asks "did it get
//! slower?" passes only comparisons that could have failed.

use serde::Serialize;

use corehop_plan::words::words;
use corehop_stats::compare::holm;
use corehop_stats::ordered::BadInput;
use corehop_stats::replicates::{Nested, least_p_value};

words! {
    /// The outcome that fails a gate.
    FailOn, "an outcome to fail on" {
        /// The second result costs more in some comparison.
        Slower = "slower",
        /// The second result costs more or less in some comparison.
        Different = "different",
        /// Some comparison is undecided.
        Unknown = "unknown",
    }
}

impl FailOn {
    /// Whether a gate that fails on this outcome passes only comparisons that could have failed.
    const fn needs_power(self) -> bool {
        matches!(self, Self::Slower | Self::Different)
    }

    /// Whether `outcome` fails a gate with this setting.
    const fn is(self, outcome: CostChange) -> bool {
        match self {
            Self::Slower => matches!(outcome, CostChange::Slower),
            Self::Different => matches!(outcome, CostChange::Slower | CostChange::Faster),
            Self::Unknown => matches!(outcome, CostChange::CannotTell),
        }
    }
}

/// The outcome of one comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// The second result costs more than the first, by more than the margin.
    Slower,
    /// The second result costs less than the first, by more than the margin.
    Faster,
    /// Both results differ by no more than the margin.
    Equivalent,
    /// The comparison is undecided.
    CannotTell,
}

impl CostChange {
    /// All possible outcomes.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Faster, Self::Equivalent, Self::CannotTell];

    /// The outcome in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Equivalent => "equivalent",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The answer of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// No comparison has a failing outcome, and every comparison could have failed.
    Passes,
    /// At least one comparison has a failing outcome.
    Fails,
    /// No comparison has a failing outcome, but some could not have failed: there are too few replicates for this
    /// number of comparisons.
    Mute,
    /// No comparison has a failing outcome, but the second result lacks quantities of the first.
    Incomplete,
    /// The results have no quantity in common.
    Nothing,
}

/// The p-values of the three hypotheses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PValues {
    /// The p-value of "B costs at most A plus the margin".
    pub slower: f64,
    /// The p-value of "B costs at least A minus the margin".
    pub faster: f64,
    /// The p-value of "B and A differ by more than the margin".
    pub equivalent: f64,
}

impl PValues {
    /// The p-values without any evidence.
    const NONE: Self = Self { slower: 1.0, faster: 1.0, equivalent: 1.0 };

    fn outcome(self, alpha: f64) -> CostChange {
        match self {
            p if p.slower <= alpha / 2.0 => CostChange::Slower,
            p if p.faster <= alpha / 2.0 => CostChange::Faster,
            p if p.equivalent <= alpha => CostChange::Equivalent,
            _ => CostChange::CannotTell,
        }
    }
}

/// The evidence about one comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    /// The p-values of this comparison alone; `None` if the comparison has too few replicates.
    pub(super) p_values: Option<PValues>,
    /// The smallest p-value that the comparison's replicates allow.
    pub(super) least: Option<f64>,
    /// Whether both sides are one measurement, which cannot differ from itself.
    pub(super) same: bool,
}

/// The decision about one comparison, adjusted for all comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GateDecision {
    /// The p-values, adjusted over all comparisons; `None` with fewer than six replicates on a side.
    pub p_values: Option<PValues>,
    /// The smallest p-value that these replicates allow; `None` with fewer than six replicates on a side.
    pub least_p_value: Option<f64>,
    /// Whether the smallest possible p-value is at or below the level at which the first comparison is tested. If the
    /// smallest possible p-value is above that level, the absence of a failure proves nothing.
    pub could_have_failed: bool,
    /// Whether both sides are one measurement.
    #[serde(skip)]
    pub same: bool,
    /// The outcome of the decision.
    pub outcome: CostChange,
}

impl GateDecision {
    /// Whether the comparison is undecided and could not have failed.
    pub fn is_mute(&self) -> bool {
        self.outcome == CostChange::CannotTell && !self.could_have_failed
    }
}

/// The smallest p-value that the replicates of both sides allow, counting only independent replicates.
pub(super) fn least(a: &Nested, b: &Nested) -> Option<f64> {
    let in_a_row = a.in_a_row_of_medians().max(b.in_a_row_of_medians());
    least_p_value(a.replicates(), b.replicates(), in_a_row)
}

/// The one-sided level at which the comparison with the smallest p-value is tested, for this number of comparisons.
pub(super) fn first_level(alpha: f64, comparisons: usize) -> f64 {
    alpha / 2.0 / comparisons.max(1) as f64
}

/// The outcomes of all comparisons together. If both results are equal, at least one comparison is slower or faster
/// with a probability of at most `alpha`.
pub(super) fn decide(all: &[Evidence], alpha: f64) -> Result<Vec<GateDecision>, BadInput> {
    let adjusted = |part: fn(&PValues) -> f64| {
        // A comparison without p-values is asked all the same.
        holm(&all.iter().map(|it| part(&it.p_values.unwrap_or(PValues::NONE))).collect::<Vec<_>>())
    };
    let slower = adjusted(|it| it.slower)?;
    let faster = adjusted(|it| it.faster)?;
    let equivalent = adjusted(|it| it.equivalent)?;
    let first = first_level(alpha, all.len());
    let of = |(at, it): (usize, &Evidence)| {
        let (slower, faster, equivalent) = (slower[at], faster[at], equivalent[at]);
        let p_values = it.p_values.map(|_| PValues { slower, faster, equivalent });
        let outcome = p_values.map_or(CostChange::CannotTell, |p| p.outcome(alpha));
        GateDecision {
            p_values,
            least_p_value: it.least,
            same: it.same,
            could_have_failed: it.least.is_some_and(|least| least <= first),
            outcome: if it.same { CostChange::Equivalent } else { outcome },
        }
    };
    Ok(all.iter().enumerate().map(of).collect())
}

impl Gate {
    /// The answer of a gate that fails on `fail_on`; `lacking` says whether the second result lacks quantities of the
    /// first.
    pub(super) fn over(decided: &[&GateDecision], lacking: bool, fail_on: &[FailOn]) -> Self {
        let fails = |it: &&&GateDecision| fail_on.iter().any(|on| on.is(it.outcome));
        let needs_power = fail_on.iter().any(|on| on.needs_power());
        if decided.is_empty() {
            Self::Nothing
        } else if decided.iter().any(|it| fails(&it)) {
            Self::Fails
        } else if needs_power && decided.iter().any(|it| it.is_mute()) {
            Self::Mute
        } else if lacking {
            Self::Incomplete
        } else {
            Self::Passes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(slower: f64, least: f64) -> Evidence {
        let p_values = Some(PValues { slower, faster: 1.0 - slower, equivalent: 1.0 });
        Evidence { p_values, least: Some(least), same: false }
    }

    #[test]
    fn one_small_p_value_among_many_is_told_if_it_is_small_enough_for_so_many() {
        let with = |p: f64| {
            let mut all = vec![evidence(0.5, 1e-9); 60];
            all.push(evidence(p, 1e-9));
            decide(&all, 0.05).unwrap().last().unwrap().outcome
        };
        // 0.025 / 61 is 4.1e-4.
        assert_eq!([4.0e-4, 4.2e-4].map(with), [CostChange::Slower, CostChange::CannotTell]);
    }

    #[test]
    fn a_gate_passes_only_what_could_have_failed() {
        let gate = |least: f64, lacking, fail_on: &[FailOn]| {
            let decided = decide(&vec![evidence(0.5, least); 50], 0.05).unwrap();
            Gate::over(&decided.iter().collect::<Vec<_>>(), lacking, fail_on)
        };
        // 0.025 / 50 is 5e-4.
        assert_eq!(gate(5e-4, false, &[FailOn::Slower]), Gate::Passes);
        assert_eq!(gate(6e-4, false, &[FailOn::Slower]), Gate::Mute);
        assert_eq!(gate(5e-4, true, &[FailOn::Different]), Gate::Incomplete);
        assert_eq!(gate(5e-4, false, &[FailOn::Unknown]), Gate::Fails);
        assert_eq!(Gate::over(&[], false, &[FailOn::Slower]), Gate::Nothing);
    }

    #[test]
    fn comparisons_without_p_values_count_in_the_family_and_a_measurement_is_equal_to_itself() {
        let none = Evidence { p_values: None, least: None, same: false };
        let decided = decide(&[evidence(0.02, 1e-9), none], 0.05).unwrap();
        assert_eq!(decided[0].p_values.unwrap().slower.to_bits(), 0.04_f64.to_bits());
        assert!(decided[1].is_mute() && !decided[1].could_have_failed);
        let same = Evidence { same: true, ..none };
        assert_eq!(decide(&[same], 0.05).unwrap()[0].outcome, CostChange::Equivalent);
    }
}
