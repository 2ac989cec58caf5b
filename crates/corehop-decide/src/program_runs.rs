// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares runs of a program with and without a change of how it runs.
//!
//! Arms of one recording are compared in pairs: a run with the change and a run without, from one block. For times
//! the median of the ratios is used, for counts the median of the differences. Each median has the interval of the
//! sign test, which assumes no distribution. The floor is the comparison of two unchanged runs of the command. Half
//! of the floor's interval is the smallest effect that the comparison could have detected.
//!
//! Two recordings have no pairs, so their medians are compared, with intervals from their runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::comparison::EquivalenceMargin;
use super::gate::{Evidence, FailOn, Gate, GateDecision, PValues, decide, first_level};
use super::run_cost::CostBounds;
use corehop_plan::experiment::Arm;
use corehop_plan::samples::{RecordedRun, Recording, Text};
use corehop_plan::units::CpuList;
use corehop_plan::words::words;
use corehop_stats::compare::t_quantile;
use corehop_stats::ordered::{BadInput, Interval, Ordered};
use corehop_stats::paired::{POWER, exceeded, sign_test};
use corehop_stats::quantile::{median, median_interval};
use corehop_stats::replicates::{BeyondShift, FEWEST_REPLICATES, Nested, median_difference};

words! {
    /// A quantity of a program run.
    RunQuantity, "a quantity of a run" {
        /// The wall time of a run of the program.
        WallTime = "wall_time",
        /// The CPU time of all threads in a run of the program.
        CpuTime = "cpu_time",
        /// The time that threads of the program waited for a CPU.
        Waited = "waited",
        /// The lower bound of the time that the program spent refilling caches after preemptions and migrations.
        RefillLeast = "refill_least",
        /// The upper bound of the time that the program spent refilling caches after preemptions and migrations.
        RefillMost = "refill_most",
        /// The number of preemptions in the run.
        Preemptions = "preemptions",
        /// The number of migrations in the run.
        Migrations = "migrations",
    }
}

impl RunQuantity {
    /// Returns whether the quantity is a time in microseconds; otherwise it is a count.
    pub const fn is_time(self) -> bool {
        !matches!(self, Self::Preemptions | Self::Migrations)
    }

    /// Returns whether two recordings are tested for this quantity.
    pub const fn is_tested(self) -> bool {
        matches!(self, Self::WallTime | Self::CpuTime | Self::Waited)
    }

    /// Returns why a gate does not judge the quantity; `None` for the wall time, the time that a user waits.
    pub const fn aside(self) -> Option<&'static str> {
        match self {
            Self::WallTime => None,
            _ => Some("shown for information; the wall time of the program decides"),
        }
    }

    /// Whether the quantity is compared by ratio and not by difference. Other quantities can be 0, so they have no
    /// ratio.
    const fn by_ratio(self) -> bool {
        matches!(self, Self::WallTime | Self::CpuTime)
    }
}

words! {
    /// Whether a change was detected.
    Seen, "a change" {
        /// The arm increases the quantity.
        More = "more",
        /// The arm decreases the quantity.
        Less = "less",
        /// No change was detected: the interval includes no change, or the change is no larger than the floor.
        Nothing = "nothing",
        /// The quantity has no interval, so corehop cannot tell whether the quantity changed.
        CannotTell = "cannot_tell",
    }
}

/// The known quantities of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    arm: String,
    block: u64,
    values: BTreeMap<RunQuantity, f64>,
    /// The CPUs that the run's command line names, the CPUs that it used, and the CPUs that it was allowed to use, if
    /// all are known.
    bound: Option<[CpuList; 3]>,
}

impl RunFigures {
    /// Returns the quantities of a run, with the cost of refilling its caches if known.
    pub fn of(run: &RecordedRun, refill: Option<CostBounds>) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        // From nothing to anything is not known.
        let refill = refill.filter(|cost| cost.low_us > 0.0 || cost.high_us.is_some());
        let known = [
            (RunQuantity::WallTime, Some(us(run.wall_ns))),
            (RunQuantity::CpuTime, run.cpu_ns.map(us)),
            (RunQuantity::Waited, run.waited_ns.map(us)),
            (RunQuantity::RefillLeast, refill.map(|cost| cost.low_us)),
            (RunQuantity::RefillMost, refill.and_then(|cost| cost.high_us)),
            (RunQuantity::Preemptions, Some(run.preemptions as f64)),
            (RunQuantity::Migrations, Some(run.migrations as f64)),
        ];
        let values = known.into_iter().filter_map(|(quantity, value)| Some((quantity, value?)));
        let list = |cpus: &Option<Text>| -> Option<CpuList> { cpus.as_deref()?.parse().ok() };
        let bound = list(&run.bound_to).zip(list(&run.ran_on)).map(|(named, ran_on)| {
            let allowed = list(&run.allowed).unwrap_or_else(|| ran_on.clone());
            [named, ran_on, allowed]
        });
        Self { arm: run.arm.to_string(), block: run.block, values: values.collect(), bound }
    }

    /// Returns the quantities of the runs that did not fail, with the known costs by run.
    pub fn of_recording(recording: &Recording, refills: &BTreeMap<u64, CostBounds>) -> Vec<Self> {
        let runs = recording.ended_runs().into_iter();
        let succeeded = runs.filter(|run| run.status.is_none_or(|status| status == 0));
        let of = |run: RecordedRun| Self::of(&run, refills.get(&run.run).copied());
        if recording.runs.is_empty() && recording.threads.is_empty() {
            // The threads have the counts, and their file is not there.
            return succeeded.map(|run| of(run).without_counts()).collect();
        }
        succeeded.map(of).collect()
    }

    /// The quantities without the counts.
    fn without_counts(mut self) -> Self {
        self.values.retain(|quantity, _| quantity.is_time());
        self
    }

    /// Returns the value of a quantity, if known.
    pub fn value(&self, quantity: RunQuantity) -> Option<f64> {
        self.values.get(&quantity).copied()
    }

    /// Whether the command ran without a change.
    fn is_unchanged(&self) -> bool {
        [Arm::PLAIN, Arm::AGAIN].contains(&self.arm.as_str())
    }

    /// The name of the arm, if the command ran with a change.
    pub(super) fn changed(&self) -> Option<&str> {
        Some(&*self.arm).filter(|_| !self.is_unchanged())
    }
}

/// A quantity with and without a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The quantity that is compared.
    pub quantity: RunQuantity,
    /// The median without the change; microseconds for a time.
    pub without: f64,
    /// The median with the change.
    pub with: f64,
    /// Whether `change` and the following fields are shares of `without`; otherwise they have its unit.
    pub relative: bool,
    /// The size of the change; 0 means none.
    pub change: f64,
    /// The interval of the change; `None` with too few runs.
    pub interval: Option<Interval>,
    /// The number of pairs of runs; for two recordings, the smaller number of runs.
    pub pairs: usize,
    /// The change between unchanged runs of the command.
    pub floor: Option<f64>,
    /// The smallest change that could have been detected.
    pub smallest: Option<f64>,
    /// Whether a change was detected.
    pub seen: Seen,
    /// The values without and with the change, by block; empty for two recordings.
    #[serde(skip)]
    pairs_us: Vec<(f64, f64)>,
}

impl Effect {
    /// Returns the largest change, in either direction, that the interval does not exclude.
    pub fn largest_possible(&self) -> Option<f64> {
        self.interval.map(|it| it.low.abs().max(it.high.abs()))
    }

    /// The evidence against differences of at least this margin from the time without the change.
    fn evidence(&self, margin: EquivalenceMargin) -> Evidence {
        let (up, down) = (|us: f64| us + margin.of(us, 0.0), |us: f64| us - margin.of(us, 0.0));
        let (more, less) = (signs(&self.pairs_us, up), signs(&self.pairs_us, down));
        let p_values = PValues {
            slower: more.above,
            faster: less.below,
            equivalent: more.below.max(less.above),
        };
        let least = Some(sign_test(self.pairs_us.len(), self.pairs_us.len()));
        Evidence { p_values: Some(p_values), least, same: false }
    }

    /// The slowdown, as a share, that a test at this one-sided level and margin detects with a power of 80 %.
    fn detectable(&self, margin: EquivalenceMargin, level: f64) -> Option<f64> {
        let it = self.interval.filter(|_| self.relative)?;
        let error = it.width() / 2.0 / exceeded((1.0 - it.level) / 2.0);
        let freedom = (self.pairs as f64 - 1.0).max(1.0);
        let margin = margin.of(self.without, 0.0) / self.without;
        Some(margin + error * (t_quantile(freedom, 2.0 * level) + exceeded(1.0 - POWER)))
    }
}

/// The number of blocks whose smallest p-value is at most `level`.
fn blocks_for(level: f64) -> u64 {
    (-level.log2()).ceil().max(FEWEST_REPLICATES as f64) as u64
}

/// The signs of the pairs after `moved` was applied to the first values.
fn signs(pairs: &[(f64, f64)], moved: impl Fn(f64) -> f64) -> BeyondShift {
    let count = |is: fn(f64, f64) -> bool| {
        pairs.iter().filter(|&&(without, with)| is(with, moved(without))).count()
    };
    let p_value = |hits| sign_test(pairs.len(), hits);
    BeyondShift { above: p_value(count(|x, y| x > y)), below: p_value(count(|x, y| x < y)) }
}

/// The comparison of an arm with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmEffects {
    /// The name of the arm, or of the second recording.
    pub name: String,
    /// The quantities that are known for both the arm and the baseline.
    pub effects: Vec<Effect>,
    /// The CPUs to which the arm's command failed to bind the program; `None` if the binding worked, or the command
    /// names no CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_bound: Option<NotBound>,
}

/// An arm that does not bind its program to the named CPUs, because the program sets its own CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotBound {
    /// The CPUs that the arm's command names.
    pub named: CpuList,
    /// The CPUs on which threads of the program ran, each for at least 5 % of the CPU time of a run.
    pub ran_on: CpuList,
    /// The number of runs in which threads ran on other CPUs than named, or allowed themselves to.
    pub runs: usize,
}

/// The failed binding of an arm, if the binding failed in most of its runs.
fn not_bound(runs: &[RunFigures], arm: &str) -> Option<NotBound> {
    let known = runs.iter().filter(|run| run.arm == arm).filter_map(|run| run.bound.as_ref());
    let (bound, free): (Vec<_>, Vec<_>) =
        known.partition(|[named, others @ ..]| others.iter().all(|it| it.is_within(named)));
    let named = free.first()?[0].clone();
    let ran_on = CpuList::new(free.iter().flat_map(|[_, ran_on, _]| ran_on.iter()));
    (free.len() > bound.len()).then_some(NotBound { named, ran_on, runs: free.len() })
}

impl ArmEffects {
    /// The effects that a gate judges.
    fn judged(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|it| it.quantity.aside().is_none())
    }

    /// Returns the effect on the wall time, which every run has.
    pub fn wall_time(&self) -> Option<&Effect> {
        self.effects.iter().find(|it| it.quantity == RunQuantity::WallTime)
    }
}

/// A comparison of program runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// The name of the baseline.
    pub baseline: String,
    /// The arms, in the order of their names.
    pub arms: Vec<ArmEffects>,
    /// The comparison of the unchanged command with itself; `None` for recordings without arms.
    pub itself: Option<ArmEffects>,
    /// Whether runs were compared in pairs.
    pub paired: bool,
    /// The confidence with which all intervals of one quantity hold together.
    pub confidence: f64,
}

impl RunComparison {
    /// Returns the answer of a gate that fails on the outcomes `fail_on`; differences within the margin do not
    /// matter.
    ///
    /// # Errors
    /// Returns [`BadInput`] for a margin that is not a number.
    pub fn judged(
        &self,
        fail_on: &[FailOn],
        margin: EquivalenceMargin,
    ) -> Result<WallTimeGate, BadInput> {
        let times: Vec<(&str, &Effect)> =
            self.arms.iter().flat_map(|arm| arm.judged().map(|it| (&*arm.name, it))).collect();
        let evidence: Vec<Evidence> = times.iter().map(|(_, it)| it.evidence(margin)).collect();
        let alpha = 1.0 - self.confidence;
        let level = first_level(alpha, times.len());
        let decided = decide(&evidence, alpha)?;
        let gate = Gate::over(&decided.iter().collect::<Vec<_>>(), false, fail_on);
        let of = |(decided, &(name, it)): (GateDecision, &(&str, &Effect))| JudgedArm {
            name: name.to_owned(),
            detectable: it.detectable(margin, level).filter(|_| decided.could_have_failed),
            decided,
        };
        let runs_to_fail = blocks_for(level);
        let arms = decided.into_iter().zip(&times).map(of).collect();
        let (margin, least_us) = (margin.share, margin.least_us);
        Ok(WallTimeGate { gate, margin, least_us, runs_to_fail, arms })
    }

    /// Returns the number of pairs that would give an interval at this confidence, if the present pairs give none.
    /// `n` pairs all lie on one side of their median with probability `2 / 2^n`.
    pub fn pairs_needed(&self) -> Option<u64> {
        let lacks = |arm: &ArmEffects| arm.wall_time().is_some_and(|it| it.interval.is_none());
        let each = (1.0 - self.confidence) / self.arms.len().max(1) as f64;
        let fewest = (2.0 / each).log2().ceil().max(FEWEST_REPLICATES as f64) as u64;
        (self.paired && self.arms.iter().any(lacks)).then_some(fewest)
    }
}

/// The answer of a gate that judges wall times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WallTimeGate {
    /// The gate's answer.
    pub gate: Gate,
    /// The difference that does not matter, as a share.
    pub margin: f64,
    /// The difference that does not matter in microseconds; the larger of both margins counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_us: Option<f64>,
    /// The number of blocks with which every arm could fail.
    pub runs_to_fail: u64,
    /// The arms that the gate judges.
    pub arms: Vec<JudgedArm>,
}

/// An arm judged by its wall time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedArm {
    /// The name of the arm, or of the second recording.
    pub name: String,
    /// The slowdown, as a share, that would have been found with a power of 80 %; `None` if no slowdown would have
    /// been found.
    pub detectable: Option<f64>,
    /// The p-values and the outcome of the comparison.
    #[serde(flatten)]
    pub decided: GateDecision,
}

/// Compares the arms of a recording with the unchanged command, in pairs. All intervals of one quantity hold together
/// at confidence `1 - alpha`. A recording without arms gives an empty comparison.
///
/// # Errors
/// Returns [`BadInput`] if `alpha` is not a probability.
pub fn arms(runs: &[RunFigures], alpha: f64) -> Result<RunComparison, BadInput> {
    let changed: BTreeSet<&str> =
        runs.iter().filter(|run| !run.is_unchanged()).map(|run| run.arm.as_str()).collect();
    let each = alpha / changed.len().max(1) as f64;
    let itself = effects(runs, Arm::AGAIN, each, None)?;
    let itself = (!itself.effects.is_empty()).then_some(itself);
    let of = |arm: &&str| effects(runs, arm, each, itself.as_ref());
    Ok(RunComparison {
        baseline: Arm::PLAIN.to_owned(),
        arms: changed.iter().map(of).collect::<Result<_, _>>()?,
        itself,
        paired: true,
        confidence: 1.0 - alpha,
    })
}

/// The effects of an arm, from pairs of its runs with runs of the unchanged command.
fn effects(
    runs: &[RunFigures],
    arm: &str,
    alpha: f64,
    itself: Option<&ArmEffects>,
) -> Result<ArmEffects, BadInput> {
    let mut effects = Vec::new();
    for &quantity in RunQuantity::ALL {
        let (without, with) = (by_block(runs, Arm::PLAIN, quantity), by_block(runs, arm, quantity));
        let pair = |(block, &with): (&u64, &f64)| Some((*without.get(block)?, with));
        let pairs: Vec<(f64, f64)> = with.iter().filter_map(pair).collect();
        if !pairs.is_empty() {
            let same = |it: &&Effect| it.quantity == quantity;
            let floor = itself.and_then(|itself| itself.effects.iter().find(same));
            effects.push(paired(quantity, &pairs, alpha, floor)?);
        }
    }
    Ok(ArmEffects { name: arm.to_owned(), effects, not_bound: not_bound(runs, arm) })
}

/// The values of an arm by block. A block has several values only if an interrupted recording was resumed; then their
/// mean counts.
fn by_block(runs: &[RunFigures], arm: &str, quantity: RunQuantity) -> BTreeMap<u64, f64> {
    let mut blocks: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.arm == arm) {
        if let Some(&value) = run.values.get(&quantity) {
            blocks.entry(run.block).or_default().push(value);
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    blocks.into_iter().map(|(block, values)| (block, mean(values))).collect()
}

/// The effect computed from pairs.
fn paired(
    quantity: RunQuantity,
    pairs: &[(f64, f64)],
    alpha: f64,
    floor: Option<&Effect>,
) -> Result<Effect, BadInput> {
    let scale =
        DifferenceScale::of(quantity, pairs.iter().flat_map(|&(without, with)| [without, with]));
    let change = |&(without, with): &(f64, f64)| scale.to(with) - scale.to(without);
    let changes: Vec<f64> = pairs.iter().map(change).collect();
    let of = median_interval(&Ordered::new(&changes)?, alpha)?;
    let side = |values: Vec<f64>| Ordered::new(&values).map(|values| median(&values));
    let (change, interval) = (scale.back(of.estimate), of.interval().map(|it| scale.interval(it)));
    // A floor of another scale says nothing: a run took no time.
    let floor = floor.filter(|it| it.relative == scale.is_ratio());
    let floor_change = floor.map(|it| it.change);
    Ok(Effect {
        quantity,
        without: side(pairs.iter().map(|pair| pair.0).collect())?,
        with: side(pairs.iter().map(|pair| pair.1).collect())?,
        relative: scale.is_ratio(),
        change,
        interval,
        pairs: pairs.len(),
        floor: floor_change,
        smallest: floor.and_then(|it| it.interval).map(|it| it.width() / 2.0),
        seen: seen(change, interval, floor_change),
        pairs_us: pairs.to_vec(),
    })
}

/// Compares the runs of two recordings, arm by arm; each interval holds at confidence `1 - alpha`.
///
/// # Errors
/// Returns [`BadInput`] if `alpha` is not a probability.
pub fn recordings(
    [a, b]: [&[RunFigures]; 2],
    [name_a, name_b]: [&str; 2],
    alpha: f64,
) -> Result<RunComparison, BadInput> {
    let mut arms = Vec::new();
    let of_arms: BTreeSet<Option<&str>> = a.iter().map(RunFigures::changed).collect();
    for arm in of_arms {
        let mut effects = Vec::new();
        for &quantity in RunQuantity::ALL {
            let values = |runs: &[RunFigures]| -> Vec<f64> {
                let own = runs.iter().filter(|run| run.changed() == arm);
                own.filter_map(|run| run.values.get(&quantity).copied()).collect()
            };
            let (without, with) = (values(a), values(b));
            if !without.is_empty() && !with.is_empty() {
                effects.push(unpaired(quantity, &without, &with, alpha)?);
            }
        }
        let name = arm.map_or_else(|| name_b.to_owned(), |arm| format!("{name_b}, {arm}"));
        if !effects.is_empty() {
            arms.push(ArmEffects { name, effects, not_bound: None });
        }
    }
    let (baseline, confidence) = (name_a.to_owned(), 1.0 - alpha);
    Ok(RunComparison { baseline, arms, itself: None, paired: false, confidence })
}

/// The effect computed from runs without pairs. Each run is a replicate.
fn unpaired(
    quantity: RunQuantity,
    without: &[f64],
    with: &[f64],
    alpha: f64,
) -> Result<Effect, BadInput> {
    let scale = DifferenceScale::of(quantity, without.iter().chain(with).copied());
    let nested =
        |values: &[f64]| Nested::new(values.iter().map(|&value| vec![scale.to(value)]).collect());
    let (a, b) = (nested(without)?, nested(with)?);
    let difference = median_difference(&a, &b, alpha)?;
    let floor = a.in_turn().map(|[even, odd]| median_difference(&even, &odd, alpha));
    let floor = floor.transpose()?.map(|it| scale.back(it.estimate));
    let interval = difference.interval.map(|it| scale.interval(it));
    let change = scale.back(difference.estimate);
    Ok(Effect {
        quantity,
        without: median(&Ordered::new(without)?),
        with: median(&Ordered::new(with)?),
        relative: scale.is_ratio(),
        change,
        interval,
        pairs: without.len().min(with.len()),
        floor,
        smallest: interval.map(|it| it.width() / 2.0),
        // The halves of a few runs differ by more than their medians vary: they do not decide.
        seen: seen(change, interval, None),
        pairs_us: Vec::new(),
    })
}

/// Whether a change counts as detected: its interval excludes 0, and the change exceeds the floor.
fn seen(change: f64, interval: Option<Interval>, floor: Option<f64>) -> Seen {
    let above_floor = floor.is_none_or(|floor| change.abs() > floor.abs());
    match interval {
        None => Seen::CannotTell,
        Some(it) if it.low > 0.0 && above_floor => Seen::More,
        Some(it) if it.high < 0.0 && above_floor => Seen::Less,
        Some(_) => Seen::Nothing,
    }
}

/// The scale on which values are subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DifferenceScale {
    /// The scale of logarithms, where a difference is a ratio.
    Ratio,
    /// The scale of the values themselves.
    Difference,
}

impl DifferenceScale {
    fn of(quantity: RunQuantity, mut values: impl Iterator<Item = f64>) -> Self {
        let all_positive = values.all(|value| value > 0.0);
        if quantity.by_ratio() && all_positive { Self::Ratio } else { Self::Difference }
    }

    const fn is_ratio(self) -> bool {
        matches!(self, Self::Ratio)
    }

    fn to(self, value: f64) -> f64 {
        if self.is_ratio() { value.ln() } else { value }
    }

    /// Converts a difference on this scale to a change: a share of the first value, or the difference itself.
    fn back(self, difference: f64) -> f64 {
        if self.is_ratio() { difference.exp_m1() } else { difference }
    }

    fn interval(self, it: Interval) -> Interval {
        Interval { low: self.back(it.low), high: self.back(it.high), ..it }
    }
}

#[cfg(test)]
mod tests;
