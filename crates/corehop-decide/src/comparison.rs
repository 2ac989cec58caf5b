// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two results, for example of two kernels, of two hosts, or from before and after a change.
//!
//! A result has quantities: the delays of a cell, or the times of a mechanism, an overhead or a task set. Each
//! quantity in both results is tested against the margin ([`super::gate`]), with the replicate as the statistical
//! unit. The interval of a difference belongs to that quantity alone, without adjustment for multiple comparisons.
//!
//! The detectable change is the slowdown that the comparison would have found with a power of 80 %. The floor is the
//! difference that the comparison finds within the first result, whose replicates are dealt alternately into two
//! groups. A result compared with itself is equal, because identical samples do not differ.

mod aside;
mod renewals;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use renewals::Renewals;
use spread::{DifferenceVariation, needed};

use super::gate::{
    CostChange, Evidence, FailOn, Gate, GateDecision, PValues, decide, first_level, least,
};
use corehop_plan::platform::CpuGroups;
use corehop_plan::samples::Sample;
use corehop_plan::units::Cpu;
use corehop_stats::cell::CellKey;
use corehop_stats::estimator::Estimator;
use corehop_stats::ordered::{BadInput, Interval};
use corehop_stats::replicates::{
    BeyondShift, Nested, SharedDependence, beyond, least_p_value, replicates_for, widest_difference,
};
use corehop_stats::summary::{is_control, replicate_of};

/// A comparable quantity of a result. The values of a quantity are times in microseconds, so less is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Quantity {
    /// The name of the file in its folder; empty if two files are compared.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The name of the experiment.
    pub experiment: String,
    /// The properties that all quantities of one table share.
    pub group: String,
    /// The cell without the machine, for samples of delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellKey>,
    /// The package of the CPUs, if the replicates ran on several packages and are compared package by package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<u64>,
    /// The position of the quantity in its group.
    #[serde(skip)]
    pub place: u64,
    /// The name of the quantity in its group.
    pub name: String,
    /// The reason why the outcome is shown but fails no gate; `None` if a gate judges the quantity.
    #[serde(skip)]
    pub aside: Option<&'static str>,
}

impl Quantity {
    /// The quantity for the delays of a cell.
    fn of_cell(mut cell: CellKey) -> Self {
        cell.machine = "".into();
        let pages = cell.page.word();
        let group = format!("load {}, {pages} pages {}", cell.load, cell.absence());
        let size = corehop_plan::units::Bytes::new(cell.wss_bytes);
        Self {
            file: String::new(),
            experiment: cell.experiment.to_string(),
            group: group.trim_end().to_owned(),
            name: format!("{} {size}", cell.event),
            package: None,
            place: 0,
            aside: None,
            cell: Some(cell),
        }
    }

    /// The difference in microseconds below which differences do not count by default. Delays are differences of two
    /// walks and as small as clock noise, so delays have such a limit and other times have no limit.
    const fn least_us(&self) -> f64 {
        if self.cell.is_some() { 1.0 } else { 0.0 }
    }

    /// The run to which the quantity belongs, as file and experiment.
    fn run(&self) -> (String, String) {
        (self.file.clone(), self.experiment.clone())
    }

    /// Whether nothing happened between the two touches of the quantity's samples.
    fn is_control(&self) -> bool {
        self.cell.as_ref().is_some_and(is_control)
    }
}

/// The replicates of a result by quantity, in microseconds.
#[derive(Debug, Clone)]
pub struct Quantities {
    estimator: Estimator,
    file: String,
    /// The number of replicates in the earlier files.
    first: u64,
    next: u64,
    packages: CpuGroups,
    renewals: Renewals,
    /// The cells that could not be measured, by reason.
    not_measured: BTreeMap<String, BTreeSet<String>>,
    all: BTreeMap<Quantity, QuantityValues>,
}

/// The cell that was planned for a sample: a run can choose CPUs, but not their measured distance.
fn planned(sample: &Sample) -> CellKey {
    let event = sample.declared_event.unwrap_or(sample.event);
    CellKey { event, pair_class: None, ..CellKey::of(sample) }
}

/// The values of a quantity, each with its replicate and the package of its CPU.
#[derive(Debug, Clone, Default)]
struct QuantityValues {
    /// The planned quantities for which these values were measured.
    planned: BTreeSet<Quantity>,
    us: Vec<f64>,
    replicates: Vec<u64>,
    packages: Vec<Option<u64>>,
}

impl Quantities {
    /// Creates an empty collection.
    pub fn new(estimator: Estimator) -> Self {
        let (file, packages, all) = (String::new(), CpuGroups::default(), BTreeMap::new());
        let (renewals, not_measured) = (Renewals::default(), BTreeMap::new());
        Self { estimator, file, first: 0, next: 0, packages, renewals, not_measured, all }
    }

    /// Sets the packages of the machine on which the following values were measured.
    pub fn of_packages(&mut self, packages: &CpuGroups) {
        self.packages = packages.clone();
    }

    /// The package of a CPU, if known.
    fn package_of(&self, cpu: u64) -> Option<u64> {
        let cpu = Cpu(u32::try_from(cpu).ok()?);
        self.packages.iter().position(|cpus| cpus.contains(cpu)).map(|place| place as u64)
    }

    /// Begins a further file, whose replicates are separate from those before. Quantities from files with different
    /// names are kept apart.
    pub fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.first = self.next;
        self.renewals = Renewals::default();
    }

    /// Adds samples; invalid samples are left out.
    pub fn take(&mut self, samples: &[Sample]) {
        for (sample, delay) in self.estimator.delays_us(samples) {
            let package = self.package_of(sample.from_cpu);
            let replicate = match sample.renewed {
                Some(renewed) => self.renewals.replicate(sample.replicate, renewed),
                None => replicate_of(sample),
            };
            let quantity = Quantity::of_cell(CellKey::of(sample));
            let planned = Quantity::of_cell(planned(sample));
            self.put([quantity, planned], replicate, delay, package);
        }
    }

    /// Adds the name of a cell that could not be measured, with the reason.
    pub(super) fn lacks(&mut self, name: String, why: &str) {
        self.not_measured.entry(why.to_owned()).or_default().insert(name);
    }

    /// Adds a value of one replicate.
    pub(super) fn add(&mut self, quantity: Quantity, replicate: u64, us: f64) {
        self.put([quantity.clone(), quantity], replicate, us, None);
    }

    /// Adds a value of a measured quantity together with the planned quantity.
    fn put(&mut self, of: [Quantity; 2], replicate: u64, us: f64, package: Option<u64>) {
        let [quantity, planned] = of.map(|it| Quantity { file: self.file.clone(), ..it });
        let replicate = self.first + replicate;
        self.next = self.next.max(replicate + 1);
        let values = self.all.entry(quantity).or_default();
        values.planned.insert(planned);
        values.us.push(us);
        values.replicates.push(replicate);
        values.packages.push(package);
    }

    /// Whether there are delays, whose values depend on the estimator.
    pub fn has_delays(&self) -> bool {
        self.all.keys().any(|it| it.cell.is_some())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The planned quantities of all judged quantities.
    fn planned(&self) -> BTreeSet<Quantity> {
        let judged = self.all.iter().filter(|(it, _)| it.aside.is_none());
        judged.flat_map(|(_, values)| values.planned.iter().cloned()).collect()
    }

    /// The values of each quantity, grouped by replicate.
    fn nested(&self) -> Result<BTreeMap<&Quantity, Nested>, BadInput> {
        let of = |(quantity, values): (_, &QuantityValues)| {
            let nested = Nested::from_labelled(&values.us, &values.replicates)?;
            Ok((quantity, nested.among(self.all.len())))
        };
        self.all.iter().map(of).collect()
    }

    /// The number of consecutive replicates that count as one, estimated from all quantities of a run.
    fn dependence(&self) -> Result<Dependence, BadInput> {
        let mut runs: BTreeMap<_, Vec<(bool, Nested)>> = BTreeMap::new();
        for (quantity, nested) in self.nested()? {
            runs.entry(quantity.run()).or_default().push((quantity.is_control(), nested));
        }
        let shared = |all: Vec<(bool, Nested)>| {
            SharedDependence::of(all.iter().map(|(control, nested)| (*control, nested)))
        };
        Ok(Dependence(runs.into_iter().map(|(run, all)| (run, shared(all))).collect()))
    }
}

/// The dependence between replicates, by file and experiment.
struct Dependence(BTreeMap<(String, String), SharedDependence>);

impl Dependence {
    fn of(&self, quantity: &Quantity) -> f64 {
        self.0.get(&quantity.run()).map_or(1.0, |it| it.in_a_row(quantity.is_control()))
    }

    fn in_all<'a>(&self, all: BTreeMap<&'a Quantity, Nested>) -> BTreeMap<&'a Quantity, Nested> {
        all.into_iter().map(|(it, nested)| (it, nested.depending(self.of(it)))).collect()
    }
}

impl QuantityValues {
    /// The number of replicates on each package; `None` if a package is not known.
    fn by_package(&self) -> Option<BTreeMap<u64, usize>> {
        let mut all: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (package, &replicate) in self.packages.iter().zip(&self.replicates) {
            all.entry((*package)?).or_default().insert(replicate);
        }
        Some(all.into_iter().map(|(package, replicates)| (package, replicates.len())).collect())
    }

    fn on(&self, package: u64) -> Self {
        let mut own = Self { planned: self.planned.clone(), ..Self::default() };
        for at in (0..self.us.len()).filter(|&at| self.packages[at] == Some(package)) {
            own.us.push(self.us[at]);
            own.replicates.push(self.replicates[at]);
            own.packages.push(self.packages[at]);
        }
        own
    }
}

/// The packages by which a quantity is compared; empty if all replicates are compared together. Memory is nearer to
/// one package than to another, so replicates on two packages have two costs, and a change may affect only one of
/// them. A quantity is split by package if each package has enough replicates on one side to fail at this level.
fn packages_apart(
    a: &QuantityValues,
    b: &QuantityValues,
    (level, in_a_row): (f64, f64),
) -> Vec<u64> {
    let (Some(of_a), Some(of_b)) = (a.by_package(), b.by_package()) else { return Vec::new() };
    let alike = of_a.len() > 1 && of_a.keys().eq(of_b.keys());
    let could_fail = |(package, &n): (&u64, &usize)| {
        least_p_value(n, of_b[package], in_a_row).is_some_and(|least| least <= level)
    };
    if alike && of_a.iter().all(could_fail) { of_a.into_keys().collect() } else { Vec::new() }
}

/// Splits the quantities of two results by package if possible.
fn by_packages(
    [a, b]: [&Quantities; 2],
    dependence: [&Dependence; 2],
    alpha: f64,
) -> [Quantities; 2] {
    let (mut left, mut right) = (a.clone(), b.clone());
    let common: Vec<&Quantity> = a.all.keys().filter(|it| b.all.contains_key(it)).collect();
    let level = first_level(alpha, 2 * common.len());
    for quantity in common {
        let in_a_row = dependence.map(|it| it.of(quantity)).into_iter().fold(1.0, f64::max);
        let limits = (level, in_a_row);
        for package in packages_apart(&a.all[quantity], &b.all[quantity], limits) {
            let name = format!("{}, package {package}", quantity.name);
            let own = Quantity { package: Some(package), name, ..quantity.clone() };
            for (of, from) in [(&mut left, a), (&mut right, b)] {
                of.all.remove(quantity);
                of.all.insert(own.clone(), from.all[quantity].on(package));
            }
        }
    }
    [left, right]
}

/// The smallest difference that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EquivalenceMargin {
    /// The margin as a share of the first result.
    pub share: f64,
    /// The margin in microseconds; the larger of both margins counts. `None` selects the default: 1 for a delay, 0
    /// for other times.
    pub least_us: Option<f64>,
}

impl EquivalenceMargin {
    /// The margin in microseconds for a quantity with this value in the first result.
    fn at(self, us: f64, quantity: &Quantity) -> f64 {
        self.of(us, quantity.least_us())
    }

    /// The margin in microseconds for this value of the first result. Without a user setting, differences below
    /// `usual_us` do not count.
    pub(super) fn of(self, us: f64, usual_us: f64) -> f64 {
        (self.share * us.abs()).max(self.least_us.unwrap_or(usual_us))
    }
}

/// Two results, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultComparison {
    /// The comparisons of the quantities in both results.
    pub cells: Vec<QuantityComparison>,
    /// The number of quantities that only the first result has.
    pub only_a: usize,
    /// The number of quantities that only the second result has.
    pub only_b: usize,
    /// The quantities that were planned in the first result and have no valid value in the second.
    pub lacking: Vec<Quantity>,
    /// The cells that the first and the second result could not measure, with the reasons.
    pub not_measured: [BTreeMap<String, BTreeSet<String>>; 2],
    /// The probability that the comparison of two equal results reports no slower or faster quantity, and the
    /// confidence of each single interval.
    pub confidence: f64,
    /// The one-sided level at which the quantity with the smallest p-value is tested: half of 1 − `confidence`,
    /// divided among all quantities.
    pub first_level: f64,
}

/// The comparison of one quantity in both results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuantityComparison {
    /// The compared quantity.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// The number of samples in the first result.
    pub n_a: usize,
    /// The number of samples in the second result.
    pub n_b: usize,
    /// The number of replicates in the first result.
    pub replicates_a: usize,
    /// The number of replicates in the second result.
    pub replicates_b: usize,
    /// The reason why the comparison has no interval; `None` if the comparison has an interval.
    pub no_interval: Option<String>,
    /// The reason why the outcome fails no gate; `None` if a gate judges the quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_gated: Option<&'static str>,
    /// The median of the first result, in microseconds.
    pub a_us: f64,
    /// The median of the second result, in microseconds.
    pub b_us: f64,
    /// The median of the second result minus that of the first, in microseconds.
    pub difference_us: f64,
    /// The interval of the difference, from the replicates of this quantity alone, without adjustment; `None` if
    /// there are too few replicates.
    pub interval: Option<Interval>,
    /// The difference that does not matter for this quantity, in microseconds.
    pub margin_us: f64,
    /// The difference that the comparison finds within the first result, in which there is no real difference, in
    /// microseconds.
    pub floor_us: Option<f64>,
    /// The slowdown that would have been found with a power of 80 %, in microseconds; `None` if no slowdown would
    /// have been found.
    pub detectable_us: Option<f64>,
    /// The approximate number of replicates on either side that would decide an undecided quantity if both results cost
    /// the same. The value is `None` if the quantity is decided, or if identical replicates show no variation.
    pub replicates_needed: Option<u64>,
    /// The p-values and the outcome of the comparison.
    #[serde(flatten)]
    pub decided: GateDecision,
}

impl QuantityComparison {
    /// The number of replicates on the side with fewer.
    fn replicates(&self) -> u64 {
        self.replicates_a.min(self.replicates_b) as u64
    }
}

impl ResultComparison {
    /// Returns the comparisons that a gate judges.
    pub fn gated(&self) -> impl Iterator<Item = &QuantityComparison> {
        self.cells.iter().filter(|it| it.not_gated.is_none())
    }

    /// Returns the answer of a gate that fails on the outcomes `fail_on`.
    pub fn gate(&self, fail_on: &[FailOn]) -> Gate {
        let decided: Vec<&GateDecision> = self.gated().map(|it| &it.decided).collect();
        Gate::over(&decided, !self.lacking.is_empty(), fail_on)
    }

    /// Returns the undecided comparisons that could not have failed.
    pub fn mute(&self) -> impl Iterator<Item = &QuantityComparison> {
        self.gated().filter(|it| it.decided.is_mute())
    }

    /// Returns the number of replicates that each undecided comparison needs to be able to fail.
    pub fn replicates_to_fail(&self) -> u64 {
        let fewest = replicates_for(self.first_level);
        let needed = |it: &QuantityComparison| {
            let have = it.replicates().max(1);
            // Where there are enough of them, they are too much alike.
            let wanted = if have >= fewest { 2 * have } else { fewest };
            // A cell that part of a run's replicates reached grows with the run.
            (wanted * self.replicates_of(&it.quantity.run())).div_ceil(have)
        };
        self.mute().map(needed).fold(fewest, u64::max)
    }

    /// The largest number of replicates of a quantity in a run.
    fn replicates_of(&self, run: &(String, String)) -> u64 {
        let of_run = self.cells.iter().filter(|it| it.quantity.run() == *run);
        of_run.map(QuantityComparison::replicates).max().unwrap_or(0).max(1)
    }

    /// Returns the comparison that needs the most replicates for a decision, and the number of replicates; `None` if
    /// all comparisons are decided or no comparison shows its variation.
    pub fn least_certain(&self) -> Option<(&QuantityComparison, u64)> {
        let open = self.gated().filter_map(|it| Some((it, it.replicates_needed?)));
        open.max_by_key(|(_, needed)| *needed)
    }

    /// Returns the number of judged comparisons with this outcome.
    pub fn count(&self, outcome: CostChange) -> usize {
        self.gated().filter(|it| it.decided.outcome == outcome).count()
    }
}

/// Compares `b` with `a`. A comparison of two equal results reports a slower or faster quantity with a probability of
/// at most `alpha`.
///
/// # Errors
/// Returns [`BadInput`] if `alpha` is not a probability.
pub fn compare(
    a: &Quantities,
    b: &Quantities,
    margin: EquivalenceMargin,
    alpha: f64,
) -> Result<ResultComparison, BadInput> {
    let lacking = a.planned().difference(&b.planned()).cloned().collect();
    // All quantities of a run show what it did slowly; one package has half of its replicates.
    let (slow_a, slow_b) = (a.dependence()?, b.dependence()?);
    let not_measured = [&a.not_measured, &b.not_measured].map(Clone::clone);
    let [a, b] = by_packages([a, b], [&slow_a, &slow_b], alpha);
    let (of_a, of_b) = (slow_a.in_all(a.nested()?), slow_b.in_all(b.nested()?));
    let mut pairs = pairs_of([(&a, &of_a), (&b, &of_b)], margin);
    aside::set_aside(&mut pairs, alpha);
    let gated = pairs.iter().filter(|it| it.aside.is_none()).count();
    let levels = SignificanceLevels { alpha, first: first_level(alpha, gated) };
    let evidence = pairs.iter().map(ComparedQuantity::evidence).collect::<Result<Vec<_>, _>>()?;
    let aside: Vec<bool> = pairs.iter().map(|it| it.aside.is_some()).collect();
    let decided = apart(&evidence, &aside, alpha)?;
    let cells = pairs.iter().zip(decided).map(|(pair, decided)| pair.compared(decided, levels));
    Ok(ResultComparison {
        only_a: of_a.len() - pairs.len(),
        only_b: of_b.len() - pairs.len(),
        lacking,
        not_measured,
        cells: cells.collect::<Result<_, _>>()?,
        confidence: 1.0 - alpha,
        first_level: levels.first,
    })
}

/// Decides the judged comparisons and the shown comparisons as two separate families, so that shown comparisons do
/// not weaken a judgement.
fn apart(evidence: &[Evidence], aside: &[bool], alpha: f64) -> Result<Vec<GateDecision>, BadInput> {
    let of = |shown: bool| {
        let family = evidence.iter().zip(aside).filter(|it| *it.1 == shown);
        decide(&family.map(|it| *it.0).collect::<Vec<_>>(), alpha)
    };
    let [mut judged, mut shown] = [of(false)?.into_iter(), of(true)?.into_iter()];
    Ok(aside.iter().filter_map(|&it| if it { shown.next() } else { judged.next() }).collect())
}

/// The quantities that both results have, with the replicates of each result.
fn pairs_of<'a>(
    [(all_a, of_a), (all_b, of_b)]: [(&'a Quantities, &'a BTreeMap<&Quantity, Nested>); 2],
    margin: EquivalenceMargin,
) -> Vec<ComparedQuantity<'a>> {
    let pair = |(&quantity, a): (&&'a Quantity, &'a Nested)| {
        let b = of_b.get(quantity)?;
        let planned = [all_a, all_b].map(|it| &it.all[quantity].planned);
        Some(ComparedQuantity { quantity, planned, a, b, margin, aside: quantity.aside })
    };
    of_a.iter().filter_map(pair).collect()
}

/// The significance levels of a comparison.
#[derive(Debug, Clone, Copy)]
struct SignificanceLevels {
    /// The two-sided level of an interval.
    alpha: f64,
    /// The one-sided level of the quantity with the smallest p-value.
    first: f64,
}

/// A quantity that both results have, before the decision.
struct ComparedQuantity<'a> {
    quantity: &'a Quantity,
    /// The planned quantities behind the values of either side.
    planned: [&'a BTreeSet<Quantity>; 2],
    a: &'a Nested,
    b: &'a Nested,
    margin: EquivalenceMargin,
    /// The reason why no gate judges the quantity.
    aside: Option<&'static str>,
}

impl ComparedQuantity<'_> {
    /// The number of replicates on the side with fewer.
    fn replicates(&self) -> usize {
        self.a.replicates().min(self.b.replicates())
    }

    fn evidence(&self) -> Result<Evidence, BadInput> {
        let margin = |us: f64| self.margin.at(us, self.quantity);
        let more = beyond(self.a, self.b, |us| us + margin(us))?;
        let less = beyond(self.a, self.b, |us| us - margin(us))?;
        let of = |(more, less): (BeyondShift, BeyondShift)| PValues {
            slower: more.above,
            faster: less.below,
            equivalent: more.below.max(less.above),
        };
        let least = least(self.a, self.b);
        let same = self.a == self.b;
        Ok(Evidence { p_values: more.zip(less).map(of), least, same })
    }

    fn compared(
        &self,
        mut decided: GateDecision,
        levels: SignificanceLevels,
    ) -> Result<QuantityComparison, BadInput> {
        let Self { quantity, a, b, margin, aside, .. } = *self;
        let median = |of: &Nested| of.median(levels.alpha).map(|it| it.estimate);
        let (a_us, b_us) = (median(a)?, median(b)?);
        let margin_us = margin.at(a_us, quantity);
        let interval = widest_difference(a, b, levels.alpha)?;
        let spread = interval.ok().map(|it| DifferenceVariation::of(it, a, b));
        let floor_us = a.in_turn().map(|[even, odd]| Ok((median(&odd)? - median(&even)?).abs()));
        // Without an interval nothing says which slowdown would have been seen.
        decided.could_have_failed &= spread.is_some();
        let replicates = a.replicates().min(b.replicates());
        let open = decided.outcome == CostChange::CannotTell;
        let detectable = |it: &DifferenceVariation| margin_us + it.beyond(levels.first);
        Ok(QuantityComparison {
            quantity: quantity.clone(),
            n_a: a.samples(),
            n_b: b.samples(),
            replicates_a: a.replicates(),
            replicates_b: b.replicates(),
            no_interval: interval.err().map(|why| why.to_string()),
            not_gated: aside,
            a_us,
            b_us,
            difference_us: b_us - a_us,
            interval: interval.ok(),
            margin_us,
            floor_us: floor_us.transpose()?,
            detectable_us: spread.as_ref().filter(|_| decided.could_have_failed).map(detectable),
            replicates_needed: open
                .then(|| needed(replicates, spread.as_ref(), margin_us, levels))
                .flatten(),
            decided,
        })
    }
}

#[cfg(test)]
mod tests;
