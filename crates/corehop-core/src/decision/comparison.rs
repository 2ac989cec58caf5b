// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two results side by side: two kernels, two hosts, before and after.
//!
//! Cell by cell, the difference of the median delays with an interval. All intervals hold together with
//! the confidence asked for (Bonferroni), however many cells there are. A cell is *slower* where its
//! interval lies above the margin, *faster* where it lies below it, *equivalent* where it lies within, and
//! cannot be told otherwise: then the smallest effect that could have been seen says what to do about it.
//! The floor is what the same comparison finds within the first result, its replicates dealt out in turn:
//! the replicate is the unit, and without six of them on either side there is no interval. A cell that
//! cannot be told says how many replicates would tell it. A result compared with itself is equal: the same
//! samples do not differ.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::cell::CellKey;
use crate::model::estimator::Estimator;
use crate::model::ordered::{BadInput, Interval};
use crate::model::replicates::{FEWEST_REPLICATES, Nested, SharedDependence, median_difference};
use crate::model::summary::{is_control, replicate_of};
use crate::samples::Sample;
use crate::words::words;

words! {
    /// The outcome that fails a gate.
    FailOn, "an outcome to fail on" {
        /// A cell of the second result costs more.
        Slower = "slower",
        /// A cell costs more or less.
        Different = "different",
        /// It cannot be told of a cell.
        Unknown = "unknown",
    }
}

impl FailOn {
    /// Whether an outcome is such.
    pub(super) const fn is(self, outcome: CostChange) -> bool {
        match self {
            Self::Slower => matches!(outcome, CostChange::Slower),
            Self::Different => matches!(outcome, CostChange::Slower | CostChange::Faster),
            Self::Unknown => matches!(outcome, CostChange::CannotTell),
        }
    }
}

/// The delays of a result by cell, the machine left out, in microseconds.
#[derive(Debug, Clone)]
pub struct Delays {
    estimator: Estimator,
    cells: BTreeMap<CellKey, (Vec<f64>, Vec<u64>)>,
}

impl Delays {
    /// None yet.
    pub fn new(estimator: Estimator) -> Self {
        Self { estimator, cells: BTreeMap::new() }
    }

    /// Takes some more samples; those that are not valid are left out.
    pub fn take(&mut self, samples: &[Sample]) {
        for (sample, delay) in self.estimator.delays_us(samples) {
            let mut cell = CellKey::of(sample);
            cell.machine = "".into();
            let (delays, replicates) = self.cells.entry(cell).or_default();
            delays.push(delay);
            replicates.push(replicate_of(sample));
        }
    }
}

impl Delays {
    /// The delays of every cell by replicate, of which so many in a row count for one as all cells show
    /// together.
    fn nested(&self) -> Result<BTreeMap<&CellKey, Nested>, BadInput> {
        let mut all = BTreeMap::new();
        for (cell, (delays, replicates)) in &self.cells {
            all.insert(cell, Nested::from_labelled(delays, replicates)?);
        }
        let dependence =
            SharedDependence::of(all.iter().map(|(cell, nested)| (is_control(cell), nested)));
        let depending = |(cell, nested): (_, Nested)| {
            (cell, nested.depending(dependence.in_a_row(is_control(cell))))
        };
        Ok(all.into_iter().map(depending).collect())
    }
}

/// The difference that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// As a share of the first result's median.
    pub share: f64,
    /// In microseconds; the larger of the two counts.
    pub least_us: f64,
}

/// Two results, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The cells that both have.
    pub cells: Vec<Compared>,
    /// The number of cells that only the first one has.
    pub only_a: usize,
    /// The number of cells that only the second one has.
    pub only_b: usize,
    /// The confidence with which all intervals hold together.
    pub confidence: f64,
}

/// A cell of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The cell, without the machine.
    pub cell: CellKey,
    /// Samples of the first.
    pub n_a: usize,
    /// Samples of the second.
    pub n_b: usize,
    /// Replicates of the first.
    pub replicates_a: usize,
    /// Replicates of the second.
    pub replicates_b: usize,
    /// Why there is no interval, where there is none.
    pub no_interval: Option<String>,
    /// The first one's median, in microseconds.
    pub a_us: f64,
    /// The second one's.
    pub b_us: f64,
    /// Second less first.
    pub difference_us: f64,
    /// Its interval, from the replicates; None where there are too few.
    pub interval: Option<Interval>,
    /// The difference that does not matter here, in microseconds.
    pub margin_us: f64,
    /// The difference that the comparison finds within the first result, where there is none, in
    /// microseconds.
    pub floor_us: Option<f64>,
    /// The smallest difference that would have been told from none, in microseconds.
    pub smallest_us: Option<f64>,
    /// The number of replicates on either side, roughly, that would tell, if both cost the same; for cells
    /// that these replicates cannot tell apart. None where it is told, or replicates that are all alike say
    /// nothing of how they vary.
    pub replicates_needed: Option<u64>,
    /// The outcome.
    pub outcome: CostChange,
}

/// The outcome of a cell's comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// The second costs more, by more than the margin.
    Slower,
    /// The second costs less, by more than the margin.
    Faster,
    /// They differ by no more than the margin.
    Equivalent,
    /// It cannot be told.
    CannotTell,
}

impl Comparison {
    /// Whether a gate lets it pass that fails on these. Results without a common cell never pass: nothing
    /// was compared.
    pub fn passes(&self, fail_on: &[FailOn]) -> bool {
        let fails = |it: &Compared| fail_on.iter().any(|on| on.is(it.outcome));
        !self.cells.is_empty() && !self.cells.iter().any(fails)
    }

    /// The most replicates that a cell of which it cannot be told would take; None where all are told, or
    /// none of them says.
    pub fn replicates_needed(&self) -> Option<u64> {
        self.cells.iter().filter_map(|it| it.replicates_needed).max()
    }

    /// The number of cells with this outcome.
    pub fn count(&self, outcome: CostChange) -> usize {
        self.cells.iter().filter(|it| it.outcome == outcome).count()
    }
}

/// Compares `b` with `a`, all intervals together at confidence `1 - alpha`.
///
/// # Errors
/// [`BadInput`] where `alpha` is no probability.
pub fn compare(a: &Delays, b: &Delays, margin: Margin, alpha: f64) -> Result<Comparison, BadInput> {
    let common: Vec<&CellKey> = a.cells.keys().filter(|cell| b.cells.contains_key(cell)).collect();
    let each = alpha / common.len().max(1) as f64;
    let (of_a, of_b) = (a.nested()?, b.nested()?);
    let cells: Result<Vec<Compared>, BadInput> =
        common.iter().map(|&cell| compared(cell, &of_a[cell], &of_b[cell], margin, each)).collect();
    Ok(Comparison {
        only_a: a.cells.len() - common.len(),
        only_b: b.cells.len() - common.len(),
        cells: cells?,
        confidence: 1.0 - alpha,
    })
}

fn compared(
    cell: &CellKey,
    a: &Nested,
    b: &Nested,
    margin: Margin,
    alpha: f64,
) -> Result<Compared, BadInput> {
    let [a_us, b_us] = [a.median(alpha)?.estimate, b.median(alpha)?.estimate];
    let margin_us = (margin.share * a_us.abs()).max(margin.least_us);
    let difference = median_difference(a, b, alpha)?;
    let interval = difference.interval;
    // A difference shows once it is larger than half the interval around it.
    let smallest_us = interval.map(|it| it.width() / 2.0);
    let outcome = if a == b { CostChange::Equivalent } else { outcome(interval, margin_us) };
    let open = outcome == CostChange::CannotTell;
    let replicates = a.replicates().min(b.replicates());
    let floor_us = a.in_turn().map(|[even, odd]| {
        let estimate = |half: &Nested| half.median(alpha).map(|it| it.estimate);
        Ok::<f64, BadInput>((estimate(&odd)? - estimate(&even)?).abs())
    });
    Ok(Compared {
        cell: cell.clone(),
        n_a: a.samples(),
        n_b: b.samples(),
        replicates_a: a.replicates(),
        replicates_b: b.replicates(),
        no_interval: difference.why_none.map(|why| why.to_string()),
        a_us,
        b_us,
        difference_us: b_us - a_us,
        replicates_needed: needed(replicates, interval, margin_us, alpha).filter(|_| open),
        outcome,
        interval,
        margin_us,
        floor_us: floor_us.transpose()?,
        smallest_us,
    })
}

fn outcome(interval: Option<Interval>, margin_us: f64) -> CostChange {
    match interval {
        Some(it) if it.low > margin_us => CostChange::Slower,
        Some(it) if it.high < -margin_us => CostChange::Faster,
        Some(it) if it.within(margin_us) => CostChange::Equivalent,
        _ => CostChange::CannotTell,
    }
}

/// The number of replicates a side that would tell two equal cells apart from different ones, where so many
/// have this interval: half of an interval is to be at most half of the margin, and shrinks as the root of
/// their number. Without an interval, as many as one takes whose ends are order statistics: `2 / 2^n` is the
/// probability that all lie on one side of their median (Hettmansperger and Sheather 1986).
fn needed(
    replicates: usize,
    interval: Option<Interval>,
    margin_us: f64,
    alpha: f64,
) -> Option<u64> {
    let Some(interval) = interval else {
        let fewest = (2.0 / alpha).log2().ceil().max(FEWEST_REPLICATES as f64) as u64;
        return (fewest > replicates as u64).then_some(fewest);
    };
    let times = (interval.width() / margin_us).powi(2);
    Some((replicates as f64 * times).ceil().max(1.0 + replicates as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::example::sample;

    const MARGIN: Margin = Margin { share: 0.05, least_us: 0.5 };

    const USUAL: [FailOn; 2] = [FailOn::Slower, FailOn::Unknown];

    /// `n` delays that spread by `spread` around `us`, in an order without a trend.
    fn delays(us: f64, spread: f64, n: u64, kib: u64) -> Delays {
        drawn(us, spread, n, kib, 37)
    }

    /// The same in an order of its own by `step`.
    fn drawn(us: f64, spread: f64, n: u64, kib: u64, step: u64) -> Delays {
        let of = |k: u64| {
            let place = (k * step % n) as f64 / n as f64 - 0.5;
            let resumed_ns = 1e3 * (1.0 + us + spread * place);
            let replicate = Some(k);
            Sample { warm_ns: 1e3, resumed_ns, wss_bytes: kib << 10, replicate, ..sample() }
        };
        let mut delays = Delays::new(Estimator::Difference);
        delays.take(&(0..n).map(of).collect::<Vec<_>>());
        delays
    }

    fn outcome_of(a: &Delays, b: &Delays) -> CostChange {
        compare(a, b, MARGIN, 0.05).unwrap().cells[0].outcome
    }

    #[test]
    fn a_difference_beyond_the_margin_is_told_with_its_sign() {
        let (slow, quick) = (delays(20.0, 2.0, 101, 64), delays(10.0, 2.0, 101, 64));
        assert_eq!(outcome_of(&quick, &slow), CostChange::Slower);
        assert_eq!(outcome_of(&slow, &quick), CostChange::Faster);
        let comparison = compare(&quick, &slow, MARGIN, 0.05).unwrap();
        assert!((comparison.cells[0].difference_us - 10.0).abs() < 0.1);
        assert!(!comparison.passes(&USUAL));
        assert!(compare(&slow, &quick, MARGIN, 0.05).unwrap().passes(&USUAL));
    }

    #[test]
    fn equal_costs_are_equivalent_and_too_few_or_too_wide_samples_cannot_tell() {
        let (same, again) = (delays(20.0, 1.0, 101, 64), drawn(20.0, 1.0, 101, 64, 41));
        assert_eq!(outcome_of(&same, &again), CostChange::Equivalent);
        assert_eq!(outcome_of(&delays(20.0, 1.0, 3, 64), &same), CostChange::CannotTell);
        let wide = [delays(20.0, 80.0, 101, 64), drawn(20.0, 80.0, 101, 64, 41)];
        let comparison = compare(&wide[0], &wide[1], MARGIN, 0.05).unwrap();
        assert_eq!(comparison.cells[0].outcome, CostChange::CannotTell);
        assert!(comparison.cells[0].smallest_us.unwrap() > comparison.cells[0].margin_us);
        assert!(!comparison.passes(&USUAL) && comparison.passes(&[FailOn::Slower]));
    }

    #[test]
    fn a_result_is_equal_to_itself_however_wide_or_few_its_samples_are() {
        for samples in [delays(20.0, 80.0, 101, 64), delays(20.0, 80.0, 3, 64)] {
            assert_eq!(outcome_of(&samples, &samples), CostChange::Equivalent);
        }
    }

    #[test]
    fn with_as_many_replicates_as_it_says_equal_costs_are_told() {
        // By the golden ratio, of two beginnings.
        let golden = |n: u64, begin: u64| {
            let place = |k: u64| ((begin + k) * 2_654_435_769 % (1 << 32)) as f64 / 2f64.powi(32);
            let of = |k: u64| {
                let resumed_ns = 1e3 * (16.0 + 10.0 * place(k));
                Sample { warm_ns: 1e3, resumed_ns, replicate: Some(k), ..sample() }
            };
            let mut delays = Delays::new(Estimator::Difference);
            delays.take(&(0..n).map(of).collect::<Vec<_>>());
            delays
        };
        let pair = |n| [golden(n, 1), golden(n, 5_000)];
        let few = pair(29);
        let cell = &compare(&few[0], &few[1], MARGIN, 0.05).unwrap().cells[0];
        let (needed, have) = (cell.replicates_needed.unwrap(), cell.replicates_a as u64);
        assert!(cell.outcome == CostChange::CannotTell && needed > 3 * have, "{cell:?}");
        let many = pair(needed);
        let told = compare(&many[0], &many[1], MARGIN, 0.05).unwrap();
        assert_eq!(
            (told.cells[0].outcome, told.replicates_needed()),
            (CostChange::Equivalent, None)
        );
        // Three replicates have no interval; at 95 % six have one, at 99.5 % nine.
        let three = compare(&golden(3, 1), &few[0], MARGIN, 0.05).unwrap();
        assert_eq!(three.replicates_needed(), Some(6));
        let three = compare(&golden(3, 1), &few[0], MARGIN, 0.005).unwrap();
        assert_eq!(three.replicates_needed(), Some(9));
    }

    #[test]
    fn a_gate_fails_on_what_it_is_told_to() {
        let (slow, quick) = (delays(20.0, 2.0, 101, 64), delays(10.0, 2.0, 101, 64));
        let faster = compare(&slow, &quick, MARGIN, 0.05).unwrap();
        assert!(faster.passes(&[FailOn::Slower]) && !faster.passes(&[FailOn::Different]));
        let slower = compare(&quick, &slow, MARGIN, 0.05).unwrap();
        assert!(!slower.passes(&[FailOn::Different]) && slower.passes(&[FailOn::Unknown]));
        let open = compare(&delays(20.0, 2.0, 3, 64), &slow, MARGIN, 0.05).unwrap();
        assert!(!open.passes(&[FailOn::Unknown]) && open.passes(&[FailOn::Different]));
    }

    #[test]
    fn with_more_cells_each_interval_is_wider_so_that_all_hold_together() {
        let one = (delays(20.0, 8.0, 101, 64), delays(21.0, 8.0, 101, 64));
        let mut many = one.clone();
        for kib in [128, 256, 512, 1024] {
            many.0.cells.append(&mut delays(20.0, 8.0, 101, kib).cells);
            many.1.cells.append(&mut delays(21.0, 8.0, 101, kib).cells);
        }
        let width = |pair: &(Delays, Delays)| {
            compare(&pair.0, &pair.1, MARGIN, 0.05).unwrap().cells[0].interval.unwrap().width()
        };
        assert!(width(&many) > 1.1 * width(&one));
    }

    #[test]
    fn cells_that_only_one_has_are_counted_and_nothing_in_common_does_not_pass() {
        let comparison =
            compare(&delays(1.0, 0.1, 41, 64), &delays(1.0, 0.1, 41, 128), MARGIN, 0.05).unwrap();
        assert_eq!(
            (comparison.only_a, comparison.only_b, comparison.passes(&USUAL)),
            (1, 1, false)
        );
        assert!(!comparison.passes(&[FailOn::Slower]), "nothing was compared");
    }

    #[test]
    fn two_hosts_are_compared_whatever_they_are_called() {
        let mut here = Delays::new(Estimator::Difference);
        let mut there = Delays::new(Estimator::Difference);
        here.take(&[sample()]);
        there.take(&[Sample { machine: "other".into(), ..sample() }]);
        assert_eq!(compare(&here, &there, MARGIN, 0.05).unwrap().cells.len(), 1);
    }
}
