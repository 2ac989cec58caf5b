// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the observations of the published studies on this machine.
//!
//! An observation becomes a list of comparisons between cells, and the interval of each comparison fits the
//! observation, contradicts it, or leaves it open. The verdicts on all observations follow one rule:
//! - An observation **does not hold** if at least one comparison contradicts it, at a confidence that allows
//!   for the number of comparisons (Bonferroni).
//! - An observation **holds** if no comparison contradicts it and at least three quarters fit, each at the
//!   stated confidence.
//! - corehop **cannot tell** in all other cases, and if the cells of the observation were not measured.
//!
//! An observation in words ("substantial", "comparable", "strongly") needs numbers for a test. The constants
//! of this module are these numbers; their values let the printed tables of the studies pass their own
//! observations.

mod bastoni;
mod waechtler;

use serde::{Deserialize, Serialize};

pub use self::bastoni::{bastoni_1, bastoni_2, bastoni_3a, bastoni_3b, bastoni_4, bastoni_5};
pub use self::waechtler::{waechtler_1, waechtler_2};
use super::ordered::{BadInput, Interval, Ordered, finite, probability};
use super::quantile::median;
use super::replicates::{Nested, quantile_difference};
use corehop_plan::platform::{MemoryArchitecture, Platform};
use corehop_plan::units::three_digits;
use corehop_plan::workload::{Absence, Event};

/// The largest difference of two comparable costs, as a share of the smaller cost. The printed tables of the
/// studies call costs comparable that differ by up to 46 %.
pub const COMPARABLE: f64 = 0.5;

/// The share of the warm touch below which a delay counts as zero.
pub const NEGLIGIBLE: f64 = 0.05;

/// The share of comparisons that must fit for an observation to hold.
pub const MOST: f64 = 0.75;

/// The valid samples of one cell, in the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellView<'a> {
    /// The event between the warm and the resumed touch.
    pub event: Event,
    /// The background load, as in the column `load`.
    pub load: &'a str,
    /// The occupant of the CPU during the absence.
    pub preempted_by: Absence,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The other properties that must be equal for a comparison of two cells (pattern, page, chains), as any
    /// text.
    pub variant: &'a str,
    /// The distribution of preemption lengths, as any text; empty if the job resumed at once.
    pub absence: &'a str,
    /// The times of the warm touches, in nanoseconds.
    pub warm_ns: &'a [f64],
    /// The delays, resumed minus warm, in nanoseconds; one for each warm touch.
    pub delay_ns: &'a [f64],
    /// The preemption lengths in nanoseconds; one for each warm touch.
    pub length_ns: &'a [f64],
    /// The number of the replicate of each sample. The replicate is the unit: samples of one replicate carry
    /// less information than as many samples of several replicates.
    pub replicates: &'a [u64],
    /// The number of consecutive replicates that count as one, estimated from all cells of the run together
    /// (see [`SharedDependence`](super::replicates::SharedDependence)).
    pub in_a_row: f64,
}

/// The facts of the machine that the observations need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineView<'a> {
    /// The sizes in bytes of the data caches that one CPU can use, innermost first.
    pub cache_bytes: &'a [u64],
    /// The way in which memory is attached to the packages.
    pub memory_architecture: MemoryArchitecture,
    /// Whether outer caches hold no line that an inner cache holds, or `None` if unknown.
    pub exclusive_caches: Option<bool>,
    /// The classes of migration to which no pair of usable CPUs belongs.
    pub lacks: &'a [Event],
}

/// The facts of a machine that the observations need, computed from its platform.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineFacts {
    cache_bytes: Vec<u64>,
    memory_architecture: MemoryArchitecture,
    exclusive_caches: Option<bool>,
    lacks: Vec<Event>,
}

impl MachineFacts {
    /// Returns the facts of `platform`.
    pub fn of(platform: &Platform) -> Self {
        let cpu = platform.usable().first().unwrap_or_default();
        let caches: Vec<_> = platform.data_caches(cpu).collect();
        let inclusion = |cache: &&corehop_plan::platform::Cache| {
            Some(cache.mechanism.inclusion.as_ref()?.value.takes_victims())
        };
        let outer: Option<Vec<bool>> =
            caches.iter().filter(|cache| cache.level > 1).map(inclusion).collect();
        let missing = platform.missing_classes();
        Self {
            cache_bytes: caches.iter().filter_map(|it| Some(it.capacity()?.get())).collect(),
            memory_architecture: platform.memory_architecture(),
            exclusive_caches: outer.map(|exclusive| exclusive.contains(&true)),
            lacks: missing.iter().filter_map(|it| it.affinity.event().parse().ok()).collect(),
        }
    }

    /// Returns a view of the facts.
    pub fn view(&self) -> MachineView<'_> {
        MachineView {
            cache_bytes: &self.cache_bytes,
            memory_architecture: self.memory_architecture,
            exclusive_caches: self.exclusive_caches,
            lacks: &self.lacks,
        }
    }
}

impl MachineView<'_> {
    /// The facts of an unknown machine.
    pub const UNKNOWN: Self = Self {
        cache_bytes: &[],
        memory_architecture: MemoryArchitecture::SingleSocket,
        exclusive_caches: None,
        lacks: &[],
    };

    /// Returns the size of the second-level cache, or of the only cache.
    fn second_level(&self) -> Option<u64> {
        self.cache_bytes.get(1).or(self.cache_bytes.first()).copied()
    }
}

/// The outcome of testing an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// The observation holds on this machine.
    Holds,
    /// The observation does not hold on this machine.
    DoesNot,
    /// The samples do not decide, or the observation does not concern this kind of machine.
    CannotTell,
}

/// The outcome of one comparison with an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The comparison agrees with the observation.
    Fits,
    /// The comparison of the cells contradicts the observation.
    Contradicts,
    /// The interval of the comparison allows both outcomes, or there is no interval.
    Open,
}

/// A comparison of cells with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The compared quantities, for instance "median delay of l3_migration minus preemption, load idle".
    pub what: String,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The estimate of the difference between the cells, in `unit`.
    pub estimate: f64,
    /// The interval at the confidence for fitting, or `None` if the samples do not support an interval.
    pub interval: Option<Interval>,
    /// The reason why there is no interval, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_none: Option<String>,
    /// The largest difference that counts as no difference, in `unit`.
    pub margin: f64,
    /// The unit of the numbers of the comparison, which is `ns`, or `1` for ratios and probabilities.
    pub unit: &'static str,
    /// The outcome of the comparison for the observation.
    pub says: Says,
}

/// The verdict on an observation of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimVerdict {
    /// The stable name of the observation, one of `bastoni-1` … `bastoni-5`, `waechtler-1`, `waechtler-2`.
    pub id: &'static str,
    /// The observation of the study in corehop's words.
    pub claim: &'static str,
    /// The paper that states the observation.
    pub source: &'static str,
    /// The rule of the observation's test.
    pub rule: &'static str,
    /// The outcome of the test of the observation.
    pub outcome: TestOutcome,
    /// The reason for the outcome, in a sentence or two.
    pub evidence: String,
    /// The comparisons that decided the outcome.
    pub comparisons: Vec<Comparison>,
}

/// Tests all observations on the cells of one machine, each at confidence `1 - alpha`.
///
/// # Errors
/// Returns [`BadInput`] if a cell has a value that is not a number, its columns differ in length, or `alpha`
/// is not a probability. A cell without samples is ignored and is not an error.
pub fn verdicts(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<Vec<ClaimVerdict>, BadInput> {
    Ok(vec![
        bastoni_1(cells, machine, alpha)?,
        bastoni_2(cells, machine, alpha)?,
        bastoni_3a(cells, alpha)?,
        bastoni_3b(cells, machine, alpha)?,
        bastoni_4(cells, machine, alpha)?,
        bastoni_5(Vec::new()),
        waechtler_1(cells, machine, alpha)?,
        waechtler_2(cells, machine, alpha)?,
    ])
}

/// The constant properties of an observation.
struct ObservationClaim {
    id: &'static str,
    claim: &'static str,
    source: &'static str,
    rule: &'static str,
}

impl ObservationClaim {
    /// Returns the verdict that the samples do not decide.
    fn cannot_tell(&self, why: impl Into<String>) -> ClaimVerdict {
        self.verdict(TestOutcome::CannotTell, why.into(), Vec::new())
    }

    /// Returns the verdict by the rule of this module. `missing` describes the needed cells, in case there is
    /// nothing to compare.
    fn judge(&self, comparisons: Vec<Comparison>, missing: &str) -> ClaimVerdict {
        if comparisons.is_empty() {
            return self.cannot_tell(format!("not measured: {missing}"));
        }
        let count = |says| comparisons.iter().filter(|c| c.says == says).count();
        let (all, fit, contradict) =
            (comparisons.len(), count(Says::Fits), count(Says::Contradicts));
        let outcome = match (fit, contradict) {
            (_, 1..) => TestOutcome::DoesNot,
            (fit, 0) if fit as f64 >= MOST * all as f64 => TestOutcome::Holds,
            _ => TestOutcome::CannotTell,
        };
        let open = all - fit - contradict;
        let mut evidence =
            format!("of {all} comparisons {fit} fit, {contradict} contradict, {open} are open");
        let telling = [Says::Contradicts, Says::Open].into_iter();
        let telling = telling.filter_map(|says| comparisons.iter().find(|c| c.says == says));
        if let Some(example) = telling.take(1).next().filter(|_| outcome != TestOutcome::Holds) {
            evidence.push_str("; for instance ");
            evidence.push_str(&example.sentence());
        }
        self.verdict(outcome, evidence, comparisons)
    }

    fn verdict(
        &self,
        outcome: TestOutcome,
        evidence: String,
        comparisons: Vec<Comparison>,
    ) -> ClaimVerdict {
        let Self { id, claim, source, rule } = *self;
        ClaimVerdict { id, claim, source, rule, outcome, evidence, comparisons }
    }
}

impl Comparison {
    /// Returns the comparison as a clause.
    fn sentence(&self) -> String {
        let Self { what, estimate, unit, .. } = self;
        let kib = self.wss_bytes as f64 / 1024.0;
        let (scale, unit) = match *unit {
            "1" => (1.0, String::new()),
            "ns" => (1e3, " µs".to_owned()),
            other => (1.0, format!(" {other}")),
        };
        let figure = |value: f64| three_digits(value / scale);
        let interval = match self.interval {
            Some(Interval { low, high, level }) => {
                format!("{:.0} % interval {} to {}", 100.0 * level, figure(low), figure(high))
            }
            None => match &self.why_none {
                Some(why) => format!("no interval: {why}"),
                None => "too few samples for an interval".to_owned(),
            },
        };
        format!("{what} at {kib} KiB: {}{unit} ({interval})", figure(*estimate))
    }
}

/// Checks every cell and leaves out cells without samples.
fn checked<'a, 'b>(
    cells: &'b [CellView<'a>],
    alpha: f64,
) -> Result<Vec<&'b CellView<'a>>, BadInput> {
    probability("alpha", alpha)?;
    let mut kept = Vec::with_capacity(cells.len());
    for cell in cells {
        let n = cell.delay_ns.len();
        for (left, column) in [("warm_ns", cell.warm_ns), ("length_ns", cell.length_ns)] {
            if column.len() != n {
                let (left_len, right, right_len) = (column.len(), "delay_ns", n);
                return Err(BadInput::Unpaired { left, left_len, right, right_len });
            }
        }
        if cell.replicates.len() != n {
            let (left, left_len) = ("replicates", cell.replicates.len());
            return Err(BadInput::Unpaired { left, left_len, right: "delay_ns", right_len: n });
        }
        if n > 0 {
            for column in [cell.warm_ns, cell.delay_ns, cell.length_ns] {
                finite(column)?;
            }
            kept.push(cell);
        }
    }
    Ok(kept)
}

impl CellView<'_> {
    /// Returns whether the experiment ran no other thread, neither beside the job nor in its absence.
    fn quiet(&self) -> bool {
        self.load == "idle"
            && (self.preempted_by == Absence::Nothing || self.event == Event::IdleLeave)
    }

    fn loaded(&self) -> bool {
        self.load != "idle"
    }

    /// Returns whether `other` differs from this cell only in the event. A job that resumed at once on
    /// another CPU has no length, so its length cannot differ.
    fn comparable_to(&self, other: &CellView) -> bool {
        let at_once = self.absence.is_empty() || other.absence.is_empty();
        (at_once || self.absence == other.absence)
            && self.wss_bytes == other.wss_bytes
            && self.load == other.load
            && (self.write_ratio - other.write_ratio).abs() < 1e-9
            && self.variant == other.variant
    }

    /// Returns the delays by replicate, in nanoseconds, from which intervals are computed.
    fn nested(&self) -> Result<Nested, BadInput> {
        Ok(Nested::from_labelled(self.delay_ns, self.replicates)?.depending(self.in_a_row))
    }

    /// Returns the medians of the replicates' delays, sorted.
    fn delays(&self) -> Result<Ordered, BadInput> {
        Ordered::new(&self.nested()?.own_quantiles(0.5)?)
    }

    /// Returns the median time of the warm touches, in nanoseconds.
    fn warm(&self) -> Result<f64, BadInput> {
        Ok(median(&Ordered::new(self.warm_ns)?))
    }
}

/// The confidence that a comparison needs to fit an observation and to contradict it.
#[derive(Debug, Clone, Copy)]
struct Sureness {
    alpha: f64,
    comparisons: usize,
}

impl Sureness {
    /// Returns the error probability of a two-sided interval whose ends each err with probability `alpha`, as
    /// equivalence and non-inferiority within a margin require.
    fn to_fit(self) -> f64 {
        (2.0 * self.alpha).min(0.99)
    }

    /// Returns the error probability of one comparison, so that all comparisons together err with probability
    /// `alpha`.
    fn to_contradict(self) -> f64 {
        self.alpha / self.comparisons.max(1) as f64
    }
}

/// The kind of difference that fits the observation.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// The difference must be within `±margin`.
    Equal,
    /// The difference must be at least `-margin`.
    NotLess,
}

/// Compares the difference of the `p` quantiles of the delays, `y` minus `x`, with `margin`.
fn difference(
    x: &CellView,
    y: &CellView,
    p: f64,
    margin: f64,
    expect: Expect,
    sure: Sureness,
) -> Result<Comparison, BadInput> {
    let what = format!(
        "{} of {} minus {}, load {}, write ratio {}",
        name_of(p),
        y.event,
        x.event,
        x.load,
        x.write_ratio
    );
    let wss_bytes = x.wss_bytes;
    let (of_x, of_y) = (x.nested()?, y.nested()?);
    let why_none = why_none([&of_x, &of_y], p, sure.to_fit())?;
    let (estimate, narrow) = quantile_difference(&of_x, &of_y, p, sure.to_fit())?;
    let (_, wide) = quantile_difference(&of_x, &of_y, p, sure.to_contradict())?;
    let fits = narrow.is_some_and(|interval| match expect {
        Expect::Equal => interval.within(margin),
        Expect::NotLess => interval.low >= -margin,
    });
    let contradicts = wide.is_some_and(|interval| match expect {
        Expect::Equal => interval.low > margin || interval.high < -margin,
        Expect::NotLess => interval.high < -margin,
    });
    let (interval, unit) = (narrow, "ns");
    Ok(Comparison {
        what,
        wss_bytes,
        estimate,
        interval,
        why_none,
        margin,
        unit,
        says: says(fits, contradicts),
    })
}

/// Returns the reason why the difference of quantiles has no interval: the reason of the first side without
/// an interval.
fn why_none(sides: [&Nested; 2], p: f64, alpha: f64) -> Result<Option<String>, BadInput> {
    for side in sides {
        if let Some(why) = side.quantile(p, alpha)?.why_none {
            return Ok(Some(why.to_string()));
        }
    }
    Ok(None)
}

fn name_of(p: f64) -> String {
    if (p - 0.5).abs() < 1e-9 {
        "median delay".to_owned()
    } else {
        format!("{p} quantile of delay")
    }
}

fn says(fits: bool, contradicts: bool) -> Says {
    match (fits, contradicts) {
        (_, true) => Says::Contradicts,
        (true, false) => Says::Fits,
        (false, false) => Says::Open,
    }
}

/// Returns the largest difference of two comparable costs, which is [`COMPARABLE`] of the smaller
/// cost or, if larger, [`NEGLIGIBLE`] of the warm touch.
fn margin(x: &CellView, of_x: f64, of_y: f64) -> Result<f64, BadInput> {
    Ok((COMPARABLE * of_x.min(of_y)).max(NEGLIGIBLE * x.warm()?))
}

#[cfg(test)]
mod synthetic {
    //! Cells made of samples of known laws.

    use super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;

    /// A cell that owns its samples.
    #[derive(Debug, Clone)]
    pub(super) struct Cell {
        pub(super) event: Event,
        pub(super) load: &'static str,
        pub(super) preempted_by: Absence,
        pub(super) kib: u64,
        pub(super) warm: Vec<f64>,
        pub(super) delay: Vec<f64>,
        pub(super) length: Vec<f64>,
        pub(super) replicates: Vec<u64>,
    }

    impl Cell {
        /// Makes a cell of `n` samples with normal delays of the given mean and standard deviation, in
        /// microseconds, and lengths uniform in 0 to 50 ms; the warm touch takes 20 ns per line.
        pub(super) fn new(
            draw: &mut ResampleSource,
            event: Event,
            load: &'static str,
            kib: u64,
            (mean, std): (f64, f64),
            n: usize,
        ) -> Self {
            let preempted_by = if load == "idle" { Absence::Nothing } else { Absence::Load };
            let warm = kib as f64 * 16.0 * 20.0;
            Self {
                event,
                load,
                preempted_by,
                kib,
                warm: (0..n).map(|_| warm * (1.0 + 0.01 * draw.unit())).collect(),
                delay: draw
                    .values(ReferenceLaw::Normal, n)
                    .iter()
                    .map(|z| 1e3 * (mean + std * z))
                    .collect(),
                length: draw.values(ReferenceLaw::Uniform, n).iter().map(|u| 5e7 * u).collect(),
                replicates: (0..n as u64).collect(),
            }
        }

        pub(super) fn view(&self) -> CellView<'_> {
            CellView {
                event: self.event,
                load: self.load,
                preempted_by: self.preempted_by,
                wss_bytes: self.kib * 1024,
                write_ratio: 0.25,
                variant: "",
                absence: "uniform_0_50ms",
                warm_ns: &self.warm,
                delay_ns: &self.delay,
                length_ns: &self.length,
                replicates: &self.replicates,
                in_a_row: 1.0,
            }
        }
    }

    pub(super) fn views(cells: &[Cell]) -> Vec<CellView<'_>> {
        cells.iter().map(Cell::view).collect()
    }

    /// The Xeon L7455 of Bastoni et al.: 32 KiB, 3 MiB, 12 MiB; uniform memory.
    pub(super) const L7455: MachineView = MachineView {
        cache_bytes: &[32 << 10, 3 << 20, 12 << 20],
        memory_architecture: MemoryArchitecture::Uma,
        exclusive_caches: Some(false),
        lacks: &[Event::SmtMigration],
    };
}

#[cfg(test)]
mod tests {
    use super::super::draw::ResampleSource;
    use super::synthetic::{Cell, L7455, views};
    use super::*;

    #[test]
    fn without_cells_nothing_can_be_told_and_each_verdict_says_what_is_missing() {
        let all = verdicts(&[], &L7455, 0.05).unwrap();
        assert_eq!(all.len(), 8);
        for verdict in &all {
            assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{verdict:?}");
            assert!(verdict.evidence.len() > 20, "{verdict:?}");
            assert!(!verdict.rule.is_empty() && !verdict.claim.is_empty());
        }
        let mut ids: Vec<_> = all.iter().map(|verdict| verdict.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn a_cell_with_a_nan_or_uneven_columns_is_an_error_and_one_without_samples_is_not() {
        let mut cell =
            Cell::new(&mut ResampleSource::new(1), Event::Preemption, "idle", 64, (1.0, 0.1), 5);
        cell.delay[2] = f64::NAN;
        assert!(verdicts(&views(&[cell.clone()]), &L7455, 0.05).is_err());
        cell.delay.pop();
        let error = verdicts(&views(&[cell.clone()]), &L7455, 0.05).unwrap_err();
        assert!(error.to_string().contains("warm_ns has 5 values and delay_ns 4"), "{error}");
        (cell.delay, cell.warm, cell.length) = (vec![], vec![], vec![]);
        cell.replicates = vec![];
        assert!(verdicts(&views(&[cell]), &L7455, 0.05).is_ok());
    }

    #[test]
    fn one_sample_a_cell_leaves_everything_open() {
        let mut draw = ResampleSource::new(2);
        let cells: Vec<Cell> = Event::ALL
            .iter()
            .flat_map(|&event| ["idle", "constructed"].map(|load| (event, load)))
            .map(|(event, load)| Cell::new(&mut draw, event, load, 64, (5.0, 1.0), 1))
            .collect();
        for verdict in verdicts(&views(&cells), &L7455, 0.05).unwrap() {
            assert_eq!(verdict.outcome, TestOutcome::CannotTell, "{verdict:?}");
        }
    }
}
