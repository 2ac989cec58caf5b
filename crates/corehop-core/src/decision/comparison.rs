// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two results side by side: two kernels, two hosts, before and after.
//!
//! The question of a gate is "did it get slower?". Cell by cell, three hypotheses are tested with the replicate as the unit: that
//! B costs no more than A and the margin (rejected: *slower*), that B costs no less than A less the margin (rejected: *faster*),
//! and that the two differ by more than the margin (both of its sides rejected: *equivalent*; Schuirmann, Journal of
//! Pharmacokinetics and Biopharmaceutics 15, 1987). A cell of which none is rejected cannot be told. The p-values of each
//! hypothesis are adjusted over all cells (Holm 1979), so that two equal results show a slower or a faster cell with probability
//! `alpha` at most, however many cells there are. The interval beside a difference is that of its cell alone, unadjusted.
//!
//! Silence is an answer only where something could have been heard. A cell *could have failed* if the least p-value that its
//! replicates allow lies below the level at which the first of all cells is tested; a gate passes only results all of whose cells
//! could have failed. The detectable change says which slowdown would have been found with a power of 80 %.
//!
//! The floor is what the same comparison finds within the first result, its replicates dealt out in turn. A result compared
//! with itself is equal: the same samples do not differ.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::cell::CellKey;
use crate::model::compare::holm;
use crate::model::estimator::Estimator;
use crate::model::ordered::{BadInput, Interval};
use crate::model::paired::{POWER, exceeded};
use crate::model::replicates::{
    BeyondShift, Nested, SharedDependence, beyond_shift, least_p_value, median_difference,
    replicates_for,
};
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
    /// Whether a gate that fails on this outcome passes only what could have failed: of silence it takes what it hears.
    pub(super) const fn needs_power(self) -> bool {
        matches!(self, Self::Slower | Self::Different)
    }

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
    /// The probability that two equal results show no cell slower or faster, and the confidence of each interval by itself.
    pub confidence: f64,
    /// The one-sided level at which the cell with the least p-value is tested: half of what `confidence` leaves, shared by all
    /// cells.
    pub first_level: f64,
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
    /// The difference's interval, from the replicates of this cell alone, unadjusted; None where there are too few.
    pub interval: Option<Interval>,
    /// The difference that does not matter here, in microseconds.
    pub margin_us: f64,
    /// The difference that the comparison finds within the first result, where there is none, in
    /// microseconds.
    pub floor_us: Option<f64>,
    /// The p-values, adjusted over all cells; None with fewer than six effective replicates on a side.
    pub p_values: Option<PValues>,
    /// The least p-value that these replicates allow; None likewise.
    pub least_p_value: Option<f64>,
    /// Whether the least p-value lies below the level at which the first cell is tested: a cell that could not have failed
    /// says nothing by its silence.
    pub could_have_failed: bool,
    /// The slowdown that would have been found with a power of 80 %, in microseconds; None where none would have been.
    pub detectable_us: Option<f64>,
    /// The number of replicates on either side, roughly, that would tell, if both cost the same; for cells
    /// that these replicates cannot tell apart. None where it is told, or replicates that are all alike say
    /// nothing of how they vary.
    pub replicates_needed: Option<u64>,
    /// The outcome.
    pub outcome: CostChange,
}

/// The p-values of the three hypotheses of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PValues {
    /// Of "B costs no more than A and the margin".
    pub slower: f64,
    /// Of "B costs no less than A less the margin".
    pub faster: f64,
    /// Of "B and A differ by more than the margin".
    pub equivalent: f64,
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

/// The answer of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// No cell has an outcome to fail on, and every cell could have had one.
    Passes,
    /// At least one cell has such an outcome.
    Fails,
    /// No cell has one, but some could not have had one: too few replicates for so many cells.
    Mute,
    /// The results have no cell in common.
    Nothing,
}

impl Comparison {
    /// The answer of a gate that fails on these outcomes.
    pub fn gate(&self, fail_on: &[FailOn]) -> Gate {
        let fails = |it: &Compared| fail_on.iter().any(|on| on.is(it.outcome));
        let needs_power = fail_on.iter().any(|on| on.needs_power());
        if self.cells.is_empty() {
            Gate::Nothing
        } else if self.cells.iter().any(fails) {
            Gate::Fails
        } else if needs_power && self.mute().next().is_some() {
            Gate::Mute
        } else {
            Gate::Passes
        }
    }

    /// The cells whose silence says nothing: they are not told, and could not have failed.
    pub fn mute(&self) -> impl Iterator<Item = &Compared> {
        let silent = |it: &&Compared| it.outcome == CostChange::CannotTell && !it.could_have_failed;
        self.cells.iter().filter(silent)
    }

    /// The replicates on either side that would let every one of so many cells fail.
    pub fn replicates_to_fail(&self) -> u64 {
        replicates_for(self.first_level)
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

/// Compares `b` with `a`: two equal results show a slower or a faster cell with probability `alpha` at most.
///
/// # Errors
/// [`BadInput`] where `alpha` is no probability.
pub fn compare(a: &Delays, b: &Delays, margin: Margin, alpha: f64) -> Result<Comparison, BadInput> {
    let common: Vec<&CellKey> = a.cells.keys().filter(|cell| b.cells.contains_key(cell)).collect();
    let levels = Levels::new(alpha, common.len());
    let (of_a, of_b) = (a.nested()?, b.nested()?);
    let cells: Result<Vec<Compared>, BadInput> = common
        .iter()
        .map(|&cell| compared(cell, &of_a[cell], &of_b[cell], margin, levels))
        .collect();
    let mut cells = cells?;
    adjust(&mut cells)?;
    for it in &mut cells {
        let same = of_a[&it.cell] == of_b[&it.cell];
        it.outcome = if same { CostChange::Equivalent } else { outcome(it.p_values, alpha) };
        it.replicates_needed =
            it.replicates_needed.filter(|_| it.outcome == CostChange::CannotTell);
    }
    Ok(Comparison {
        only_a: a.cells.len() - common.len(),
        only_b: b.cells.len() - common.len(),
        cells,
        confidence: 1.0 - alpha,
        first_level: levels.first,
    })
}

/// The levels of a comparison.
#[derive(Debug, Clone, Copy)]
struct Levels {
    /// Two-sided, of an interval.
    alpha: f64,
    /// One-sided, of the cell with the least p-value.
    first: f64,
}

impl Levels {
    fn new(alpha: f64, cells: usize) -> Self {
        Self { alpha, first: alpha / 2.0 / cells.max(1) as f64 }
    }
}

fn compared(
    cell: &CellKey,
    a: &Nested,
    b: &Nested,
    margin: Margin,
    levels: Levels,
) -> Result<Compared, BadInput> {
    let alpha = levels.alpha;
    let [a_us, b_us] = [a.median(alpha)?.estimate, b.median(alpha)?.estimate];
    let margin_us = (margin.share * a_us.abs()).max(margin.least_us);
    let difference = median_difference(a, b, alpha)?;
    let interval = difference.interval;
    let replicates = a.replicates().min(b.replicates());
    let floor_us = a.in_turn().map(|[even, odd]| {
        let estimate = |half: &Nested| half.median(alpha).map(|it| it.estimate);
        Ok::<f64, BadInput>((estimate(&odd)? - estimate(&even)?).abs())
    });
    let least_p_value = least_p_value(a, b);
    let could_have_failed = least_p_value.is_some_and(|least| least <= levels.first);
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
        p_values: p_values(a, b, margin_us)?,
        least_p_value,
        could_have_failed,
        detectable_us: interval.filter(|_| could_have_failed).map(|it| {
            margin_us + standard_error(it) * (exceeded(levels.first) + exceeded(1.0 - POWER))
        }),
        replicates_needed: needed(replicates, interval, margin_us, levels),
        outcome: CostChange::CannotTell,
        interval,
        margin_us,
        floor_us: floor_us.transpose()?,
    })
}

/// The p-values of a cell by itself.
fn p_values(a: &Nested, b: &Nested, margin_us: f64) -> Result<Option<PValues>, BadInput> {
    let (more, less) = (beyond_shift(a, b, margin_us)?, beyond_shift(a, b, -margin_us)?);
    let of = |(more, less): (BeyondShift, BeyondShift)| PValues {
        slower: more.above,
        faster: less.below,
        equivalent: more.below.max(less.above),
    };
    Ok(more.zip(less).map(of))
}

/// Adjusts the p-values of each hypothesis over all cells.
fn adjust(cells: &mut [Compared]) -> Result<(), BadInput> {
    let parts: [fn(&mut PValues) -> &mut f64; 3] =
        [|it| &mut it.slower, |it| &mut it.faster, |it| &mut it.equivalent];
    // A cell without p-values is one of those that are asked all the same.
    let mut all: Vec<PValues> =
        cells.iter().map(|it| it.p_values.unwrap_or(PValues::NONE)).collect();
    for part in parts {
        let adjusted = holm(&all.iter_mut().map(|it| *part(it)).collect::<Vec<f64>>())?;
        all.iter_mut().zip(adjusted).for_each(|(it, adjusted)| *part(it) = adjusted);
    }
    for (cell, adjusted) in cells.iter_mut().zip(all) {
        cell.p_values = cell.p_values.map(|_| adjusted);
    }
    Ok(())
}

impl PValues {
    /// Those of no evidence.
    const NONE: Self = Self { slower: 1.0, faster: 1.0, equivalent: 1.0 };
}

fn outcome(p_values: Option<PValues>, alpha: f64) -> CostChange {
    match p_values {
        Some(p) if p.slower <= alpha / 2.0 => CostChange::Slower,
        Some(p) if p.faster <= alpha / 2.0 => CostChange::Faster,
        Some(p) if p.equivalent <= alpha => CostChange::Equivalent,
        _ => CostChange::CannotTell,
    }
}

/// The standard error for which a normal law would have this interval.
fn standard_error(interval: Interval) -> f64 {
    interval.width() / 2.0 / exceeded((1.0 - interval.level) / 2.0)
}

/// The number of replicates a side that would tell two equal cells apart from different ones, where so many
/// have this interval: the standard error shrinks as the root of their number, and is to leave the margin as far away as the
/// first cell's test of equivalence and its power ask for. Without an interval, as many as let the cell fail.
fn needed(
    replicates: usize,
    interval: Option<Interval>,
    margin_us: f64,
    levels: Levels,
) -> Option<u64> {
    let Some(interval) = interval else {
        let fewest = replicates_for(levels.first);
        return (fewest > replicates as u64).then_some(fewest);
    };
    // Two equal cells lie in the middle of the margin: either side of the test may fail.
    let reach = exceeded(2.0 * levels.first) + exceeded((1.0 - POWER) / 2.0);
    let times = (standard_error(interval) * reach / margin_us).powi(2);
    Some((replicates as f64 * times).ceil().max(1.0 + replicates as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::example::sample;

    const MARGIN: Margin = Margin { share: 0.05, least_us: 0.5 };

    const USUAL: [FailOn; 2] = [FailOn::Slower, FailOn::Unknown];
    const GATE: [FailOn; 1] = [FailOn::Slower];

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
        assert_eq!(comparison.gate(&GATE), Gate::Fails);
        assert_eq!(compare(&slow, &quick, MARGIN, 0.05).unwrap().gate(&USUAL), Gate::Passes);
    }

    #[test]
    fn equal_costs_are_equivalent_and_too_few_or_too_wide_samples_cannot_tell() {
        let (same, again) = (delays(20.0, 1.0, 101, 64), drawn(20.0, 1.0, 101, 64, 41));
        assert_eq!(outcome_of(&same, &again), CostChange::Equivalent);
        assert_eq!(outcome_of(&delays(20.0, 1.0, 3, 64), &same), CostChange::CannotTell);
        let wide = [delays(20.0, 80.0, 101, 64), drawn(20.0, 80.0, 101, 64, 41)];
        let comparison = compare(&wide[0], &wide[1], MARGIN, 0.05).unwrap();
        assert_eq!(comparison.cells[0].outcome, CostChange::CannotTell);
        assert!(comparison.cells[0].detectable_us.unwrap() > comparison.cells[0].margin_us);
        assert_eq!(comparison.gate(&USUAL), Gate::Fails);
        assert_eq!(comparison.gate(&GATE), Gate::Passes);
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
        assert_eq!(faster.gate(&[FailOn::Slower]), Gate::Passes);
        assert_eq!(faster.gate(&[FailOn::Different]), Gate::Fails);
        let slower = compare(&quick, &slow, MARGIN, 0.05).unwrap();
        assert_eq!(slower.gate(&[FailOn::Different]), Gate::Fails);
        assert_eq!(slower.gate(&[FailOn::Unknown]), Gate::Passes);
        let open = compare(&delays(20.0, 2.0, 3, 64), &slow, MARGIN, 0.05).unwrap();
        assert_eq!(open.gate(&[FailOn::Unknown]), Gate::Fails);
        // Three replicates could not have failed: their silence is no pass.
        assert_eq!(open.gate(&[FailOn::Different]), Gate::Mute);
        assert_eq!(open.mute().count(), 1);
    }

    /// Many cells, of which the last is slower by this factor in the second result.
    fn many_cells(cells: u64, replicates: u64, factor: f64) -> (Delays, Delays) {
        let mut pair = (Delays::new(Estimator::Difference), Delays::new(Estimator::Difference));
        for kib in 1..=cells {
            let us = if kib == cells { 20.0 * factor } else { 20.0 };
            pair.0.cells.append(&mut drawn(20.0, 2.0, replicates, kib, 37).cells);
            pair.1.cells.append(&mut drawn(us, 2.0, replicates, kib, 41).cells);
        }
        pair
    }

    #[test]
    fn one_slow_cell_is_found_among_many_and_its_interval_is_as_wide_as_alone() {
        for cells in [1, 10, 60, 200] {
            let (a, b) = many_cells(cells, 20, 1.5);
            let comparison = compare(&a, &b, MARGIN, 0.05).unwrap();
            let slow = comparison.cells.last().unwrap();
            assert_eq!(
                (slow.outcome, comparison.count(CostChange::Slower)),
                (CostChange::Slower, 1)
            );
            assert_eq!(comparison.gate(&GATE), Gate::Fails);
            let (alone, same) = (compared_alone(&a, &b, cells), slow.interval.unwrap());
            assert!((alone.width() - same.width()).abs() < 1e-12);
        }
    }

    fn compared_alone(a: &Delays, b: &Delays, kib: u64) -> Interval {
        let only = |of: &Delays| {
            let mut of = of.clone();
            of.cells.retain(|cell, _| cell.wss_bytes == kib << 10);
            of
        };
        compare(&only(a), &only(b), MARGIN, 0.05).unwrap().cells[0].interval.unwrap()
    }

    #[test]
    fn too_few_replicates_for_so_many_cells_are_mute_and_as_many_as_it_says_are_not() {
        let (a, b) = many_cells(200, 6, 1.0);
        let mute = compare(&a, &b, Margin { share: 0.0, least_us: 0.01 }, 0.05).unwrap();
        assert_eq!(mute.gate(&GATE), Gate::Mute);
        // 1/C(2n, n) is at most 0.025/200 from n = 8 on: 1/12,870.
        assert_eq!((mute.replicates_to_fail(), mute.mute().count()), (8, 200));
        let (a, b) = many_cells(200, 8, 1.0);
        let heard = compare(&a, &b, Margin { share: 0.0, least_us: 0.01 }, 0.05).unwrap();
        assert_eq!(heard.gate(&GATE), Gate::Passes);
    }

    #[test]
    fn a_change_of_the_detectable_size_is_found_in_about_four_of_five_experiments() {
        use crate::model::replicates::designs::{Design, Draw, Law};
        let (design, mut draw) = (Design::steady(Law::Normal, Law::Normal, 0.9), Draw::new(5));
        let mut take = |more: f64| {
            let mut delays = Delays::new(Estimator::Difference);
            for (at, group) in design.run(&mut draw, 20, 3).into_iter().enumerate() {
                let of = |value: f64| {
                    let resumed_ns = 1e3 * (21.0 + value + more);
                    Sample { warm_ns: 1e3, resumed_ns, replicate: Some(at as u64), ..sample() }
                };
                delays.take(&group.into_iter().map(of).collect::<Vec<_>>());
            }
            delays
        };
        let (mut found, mut tried) = (0, 0);
        for _ in 0..300 {
            let detectable =
                compare(&take(0.0), &take(0.0), MARGIN, 0.05).unwrap().cells[0].detectable_us;
            let Some(detectable) = detectable else { continue };
            let outcome = outcome_of(&take(0.0), &take(detectable));
            (found, tried) = (found + u32::from(outcome == CostChange::Slower), tried + 1);
        }
        let power = f64::from(found) / f64::from(tried);
        assert!(tried > 250 && (0.7..0.93).contains(&power), "{power} of {tried}");
    }

    #[test]
    fn cells_that_only_one_has_are_counted_and_nothing_in_common_does_not_pass() {
        let comparison =
            compare(&delays(1.0, 0.1, 41, 64), &delays(1.0, 0.1, 41, 128), MARGIN, 0.05).unwrap();
        assert_eq!(
            (comparison.only_a, comparison.only_b, comparison.gate(&USUAL)),
            (1, 1, Gate::Nothing)
        );
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
