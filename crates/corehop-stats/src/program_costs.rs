// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the costs of events that corehop caused in a program.
//!
//! A round has blocks without events and blocks with events at several rates. The *excess* of a block is its CPU time
//! beyond the time that its progress takes in the round's blocks without events: the CPU time, times the logarithm of
//! the ratio of the times per unit of progress. If blocks vary, a difference of logarithms is as often too high as too
//! low. A ratio to one block is not: for blocks that vary by 5 %, the ratio is 0.25 % too high, as much as the cost of
//! a few events. The cost of an event is the sum of excesses divided by the sum of events. The interval of this ratio
//! is that of `t` on the rounds' linearised values `cost + (excess - cost · events) / mean events` (Cochran, Sampling
//! Techniques, 1977, section 6.3). The interval has the corrections of [`replicates`](super::replicates) for skewness
//! and dependence. A cause that slows the machine for a whole round slows the round's blocks without events, too.

use std::collections::{BTreeMap, BTreeSet};

use corehop_plan::experiment::{Argument, Target};
use corehop_plan::samples::{CausedBlock, Provenance, Rows};
use corehop_plan::shown;
use corehop_plan::workload::Event;
use serde::Serialize;

use super::estimator::Estimator;
use super::ordered::Interval;
use super::replicates::Nested;
use super::summarise::{FromFile, Summarise};

pub use self::ProgramCostSummaries as Summary;

/// The probability that an interval does not contain the cost.
const ALPHA: f64 = 0.05;

/// A cost for each event, in microseconds of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EventCost {
    /// The cost of one event in microseconds.
    pub us: f64,
    /// The interval of the cost at 95 %, or `None` for fewer than six rounds, or if the rounds are too dependent.
    pub interval: Option<Interval>,
}

impl EventCost {
    /// Returns whether the interval excludes a cost of zero.
    pub fn is_seen(&self) -> bool {
        self.interval.is_some_and(|it| it.low > 0.0 || it.high < 0.0)
    }
}

/// The cost at one rate of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoseCost {
    /// The rate, as a multiple of the lowest rate of the class.
    pub dose: u64,
    /// The number of events per second.
    pub per_second: f64,
    /// The number of all events at this rate.
    pub events: u64,
    /// The cost of one event at this rate.
    pub cost: EventCost,
}

/// The costs of one class of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramCost {
    /// The class of event that has the costs.
    pub event: Event,
    /// The length of a preemption in microseconds, or `None` for a migration.
    pub length_us: Option<f64>,
    /// The working set that the preemptor walked, or `None` for a migration.
    pub polluter: Option<String>,
    /// The number of rounds that can be used.
    pub rounds: usize,
    /// The number of invalid blocks, by reason.
    pub invalid: BTreeMap<String, u64>,
    /// The number of events that corehop caused.
    pub events: u64,
    /// The number of events that corehop tried to cause.
    pub tried: u64,
    /// The cost over all rates, or `None` without a usable round.
    pub cost: Option<EventCost>,
    /// The costs of an event at each rate of events.
    pub by_dose: Vec<DoseCost>,
    /// The cost at the highest rate minus the cost at the lowest rate, if the interval excludes zero: the cost then
    /// depends on the rate.
    pub bend: Option<EventCost>,
    /// The difference between two blocks without events, expressed as if one of them had the usual number of events.
    pub floor: Option<EventCost>,
    /// The share of the blocks' CPU time that the events took, in percent.
    pub effect_percent: Option<f64>,
    /// The shortest and the longest time of a line exchange between CPUs of the class over the rounds, in nanoseconds.
    pub exchange_ns: Option<[f64; 2]>,
}

/// All results about events that corehop caused in a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProgramCostResults {
    /// The name of the program for people; empty if the file does not state it.
    pub program: String,
    /// The costs, by class, length and preemptor.
    pub costs: Vec<ProgramCost>,
    /// The slowdown that the measurement causes: the progress per second of all blocks, relative to blocks without
    /// events, in percent.
    pub slowdown_percent: Option<f64>,
}

impl ProgramCostResults {
    /// Returns whether the results have no costs.
    pub fn is_empty(&self) -> bool {
        self.costs.is_empty()
    }
}

/// The key of a class of events: the event, the length in nanoseconds, and the preemptor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CostKey {
    event: Event,
    asked_ns: Option<u64>,
    polluter: Option<String>,
}

impl CostKey {
    fn of(row: &CausedBlock) -> Self {
        Self {
            event: row.event,
            asked_ns: row.asked_ns.map(|it| it as u64),
            polluter: row.polluter.as_deref().map(str::to_owned),
        }
    }
}

/// Collects the blocks of all files.
#[derive(Debug, Clone, Default)]
pub struct CausedBlocks {
    program: String,
    /// The blocks by class, then by file and round.
    blocks: BTreeMap<CostKey, BTreeMap<(u64, u64), Vec<CausedBlock>>>,
    files: u64,
}

impl CausedBlocks {
    /// Announces that the rows of another file follow.
    pub fn begin(&mut self, from: &Provenance) {
        self.files += 1;
        if let Some(name) = program_of(from) {
            self.program = name;
        }
    }

    /// Adds blocks to the collection.
    pub fn take(&mut self, rows: &[CausedBlock]) {
        for row in rows {
            let rounds = self.blocks.entry(CostKey::of(row)).or_default();
            rounds.entry((self.files, row.replicate)).or_default().push(row.clone());
        }
    }

    /// Computes the costs from the blocks that were added.
    pub fn results(&self) -> ProgramCostResults {
        let cost = |(key, rounds): (&CostKey, &BTreeMap<_, Vec<CausedBlock>>)| {
            let rounds: Vec<&[CausedBlock]> = rounds.values().map(Vec::as_slice).collect();
            cost_of(key, &rounds)
        };
        let all = self.blocks.values().flat_map(BTreeMap::values).flatten();
        ProgramCostResults {
            program: self.program.clone(),
            costs: self.blocks.iter().map(cost).collect(),
            slowdown_percent: slowdown(all),
        }
    }
}

/// The collection of the blocks of all files.
#[derive(Debug, Default)]
pub struct ProgramCostSummaries(CausedBlocks);

impl Summarise for ProgramCostSummaries {
    type Said = ProgramCostResults;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn begin(&mut self, from: &FromFile<'_>) {
        if from.kind == corehop_plan::samples::RowKind::ProgramCosts {
            self.0.begin(from.provenance);
        }
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        self.0.take(&rows.program_costs);
    }

    fn finish(&mut self) -> ProgramCostResults {
        self.0.results()
    }
}

/// Returns the program of a file: the last part of its path, or its name as the user gave it.
fn program_of(from: &Provenance) -> Option<String> {
    // The program alone: files of earlier builds describe the events otherwise.
    let target = from.parameters.get("plan")?.get("target")?;
    let name = match &serde_json::from_value(target.clone()).ok()? {
        Target::Command(words) => {
            let name = words.first().map(Argument::to_string).unwrap_or_default();
            name.rsplit('/').next().unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    };
    // The name becomes part of a sentence, in which a name with line ends could make lines of its own.
    Some(shown::line(&name).into_owned())
}

/// A round: the CPU time per unit of progress without events, and the excess and the number of events of each dose.
#[derive(Debug, Clone, PartialEq)]
struct CostRound {
    /// The excess in nanoseconds and the number of events, by dose.
    by_dose: BTreeMap<u64, [f64; 2]>,
    /// The excess of one block without events over the other, in nanoseconds.
    floor_ns: Option<f64>,
    cpu_ns: f64,
}

impl CostRound {
    /// Returns the round of the given blocks, or `None` unless it has usable blocks both without and with events.
    fn of(blocks: &[CausedBlock]) -> Option<Self> {
        let usable = || {
            blocks.iter().filter(|it| it.invalid.is_none() && it.progress > 0.0 && it.cpu_ns > 0.0)
        };
        let still: Vec<&CausedBlock> = usable().filter(|it| it.dose == 0).collect();
        let each = still.iter().map(|it| log_each(it)).sum::<f64>() / still.len() as f64;
        let (mut by_dose, mut cpu_ns) = (BTreeMap::new(), 0.0);
        for it in usable().filter(|it| it.dose > 0) {
            let sums: &mut [f64; 2] = by_dose.entry(it.dose).or_default();
            sums[0] += it.cpu_ns * (log_each(it) - each);
            sums[1] += it.events as f64;
            cpu_ns += it.cpu_ns;
        }
        let floor_ns = match still.as_slice() {
            [a, b] => Some(b.cpu_ns * (log_each(b) - log_each(a))),
            _ => None,
        };
        (!still.is_empty() && !by_dose.is_empty()).then_some(Self { by_dose, floor_ns, cpu_ns })
    }

    /// Returns the excess and the number of events of all doses.
    fn sums(&self) -> [f64; 2] {
        self.by_dose.values().fold([0.0; 2], |[x, n], it| [x + it[0], n + it[1]])
    }
}

/// Returns the logarithm of the CPU time per unit of progress.
fn log_each(block: &CausedBlock) -> f64 {
    (block.cpu_ns / block.progress).ln()
}

/// Corrects the excess of each dose for the curvature of the logarithm: for a lost share `f` the logarithm is
/// `-ln(1 - f)`.
fn without_curvature(rounds: &mut [CostRound]) {
    let doses: BTreeSet<u64> = rounds.iter().flat_map(|it| it.by_dose.keys().copied()).collect();
    for dose in doses {
        let of =
            |it: &CostRound| Some(it.by_dose.get(&dose)?[0] / it.cpu_ns * it.by_dose.len() as f64);
        let logs: Vec<f64> = rounds.iter().filter_map(of).collect();
        let log = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let factor = if log.abs() > 1e-9 { -(-log).exp_m1() / log } else { 1.0 };
        for round in rounds.iter_mut() {
            round.by_dose.entry(dose).and_modify(|sums| sums[0] *= factor);
        }
    }
}

fn cost_of(key: &CostKey, blocks: &[&[CausedBlock]]) -> ProgramCost {
    let mut rounds: Vec<CostRound> = blocks.iter().filter_map(|it| CostRound::of(it)).collect();
    without_curvature(&mut rounds);
    let all = || blocks.iter().copied().flatten();
    let sums: Vec<[f64; 2]> = rounds.iter().map(CostRound::sums).collect();
    let mut invalid = BTreeMap::new();
    for why in all().filter_map(|it| it.invalid.as_deref()) {
        *invalid.entry(why.to_owned()).or_default() += 1;
    }
    let cpu_ns: f64 = rounds.iter().map(|it| it.cpu_ns).sum();
    let excess: f64 = sums.iter().map(|it| it[0]).sum();
    ProgramCost {
        event: key.event,
        length_us: key.asked_ns.map(|it| it as f64 / 1e3),
        polluter: key.polluter.clone(),
        rounds: rounds.len(),
        invalid,
        events: all().map(|it| it.events).sum(),
        tried: all().map(|it| it.tried).sum(),
        cost: ratio(&sums).map(|(cost, _)| cost),
        by_dose: by_dose(&rounds, blocks),
        bend: bend(&rounds),
        floor: floor(&rounds, &sums),
        effect_percent: (cpu_ns > 0.0).then(|| 100.0 * excess / cpu_ns),
        exchange_ns: extremes(all().filter_map(|it| it.exchange_ns)),
    }
}

/// Returns the cost at each dose that has events.
fn by_dose(rounds: &[CostRound], blocks: &[&[CausedBlock]]) -> Vec<DoseCost> {
    let mut doses: Vec<u64> = rounds.iter().flat_map(|it| it.by_dose.keys().copied()).collect();
    doses.sort_unstable();
    doses.dedup();
    let of = |dose: u64| {
        let at = || blocks.iter().copied().flatten().filter(move |it| it.dose == dose);
        let (events, wall_ns): (u64, f64) =
            at().fold((0, 0.0), |(n, ns), it| (n + it.events, ns + it.wall_ns));
        let (cost, _) = ratio(&of_dose(rounds, dose))?;
        Some(DoseCost { dose, per_second: events as f64 / (wall_ns * 1e-9), events, cost })
    };
    doses.into_iter().filter_map(of).collect()
}

fn of_dose(rounds: &[CostRound], dose: u64) -> Vec<[f64; 2]> {
    rounds.iter().filter_map(|it| it.by_dose.get(&dose).copied()).collect()
}

/// Returns the sum of excesses divided by the sum of events, and each round's linearised value, both in microseconds.
/// Returns `None` if the rounds have no events.
fn ratio(rounds: &[[f64; 2]]) -> Option<(EventCost, Vec<f64>)> {
    let [excess, events] = rounds.iter().fold([0.0; 2], |[x, n], it| [x + it[0], n + it[1]]);
    if events <= 0.0 {
        return None;
    }
    let (cost, mean) = (excess / events, events / rounds.len() as f64);
    let value = |[excess, events]: &[f64; 2]| (cost + (excess - cost * events) / mean) / 1e3;
    let values: Vec<f64> = rounds.iter().map(value).collect();
    Some((EventCost { us: cost / 1e3, interval: mean_interval(&values) }, values))
}

fn mean_interval(values: &[f64]) -> Option<Interval> {
    Nested::new(values.iter().map(|&it| vec![it]).collect()).ok()?.mean(ALPHA).ok()?.interval
}

/// Returns the cost at the highest dose minus the cost at the lowest dose, or `None` if the interval includes zero.
fn bend(rounds: &[CostRound]) -> Option<EventCost> {
    let doses = || rounds.iter().flat_map(|it| it.by_dose.keys().copied());
    let (least, most) = (doses().min()?, doses().max()?);
    let both: Vec<CostRound> = rounds
        .iter()
        .filter(|it| [least, most].iter().all(|at| it.by_dose.contains_key(at)))
        .cloned()
        .collect();
    let (_, low) = ratio(&of_dose(&both, least)).filter(|_| least < most)?;
    let (_, high) = ratio(&of_dose(&both, most))?;
    let differences: Vec<f64> = low.iter().zip(&high).map(|(low, high)| high - low).collect();
    let us = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
    Some(EventCost { us, interval: mean_interval(&differences) }).filter(EventCost::is_seen)
}

/// Returns the difference between two blocks without events, divided by the usual number of events of a block.
fn floor(rounds: &[CostRound], sums: &[[f64; 2]]) -> Option<EventCost> {
    let blocks: usize = rounds.iter().map(|it| it.by_dose.len()).sum();
    let events = sums.iter().map(|it| it[1]).sum::<f64>() / blocks.max(1) as f64;
    let of = |it: &CostRound| Some(it.floor_ns? / events / 1e3);
    let values: Vec<f64> = rounds.iter().filter_map(of).collect();
    if values.is_empty() || events <= 0.0 {
        return None;
    }
    let us = values.iter().sum::<f64>() / values.len() as f64;
    Some(EventCost { us, interval: mean_interval(&values) })
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let wider = |[low, high]: [f64; 2], it: f64| [low.min(it), high.max(it)];
    let around = values.fold([f64::INFINITY, f64::NEG_INFINITY], wider);
    (around[0] <= around[1]).then_some(around)
}

/// Returns the slowdown by all events together, in percent of the progress per second.
fn slowdown<'a>(blocks: impl Iterator<Item = &'a CausedBlock>) -> Option<f64> {
    let (mut all, mut still) = ([0.0; 2], [0.0; 2]);
    for it in blocks.filter(|it| it.invalid.is_none()) {
        let sums = [it.progress, it.wall_ns];
        all = [all[0] + sums[0], all[1] + sums[1]];
        if it.dose == 0 {
            still = [still[0] + sums[0], still[1] + sums[1]];
        }
    }
    let rates = (all[0] / all[1], still[0] / still[1]);
    (still[0] > 0.0 && all[1] > 0.0).then(|| 100.0 * (1.0 - rates.0 / rates.1))
}

#[cfg(test)]
mod tests {
    use corehop_plan::experiment::DrawStream;

    use super::*;

    fn block(round: u64, dose: u64, events: u64, cpu_ns: f64, progress: f64) -> CausedBlock {
        CausedBlock {
            machine: "host".into(),
            seed: 1,
            block: 0,
            replicate: round,
            event: Event::Preemption,
            dose,
            events,
            tried: events,
            asked_ns: Some(1e6),
            polluter: None,
            preemptors_ns: 0.0,
            cpu_ns,
            progress,
            wall_ns: 100e6,
            threads: 1,
            exchange_ns: None,
            invalid: None,
        }
    }

    /// Makes rounds of a program whose unit takes 1 ms, ±`noise`, with events of the given costs at doses 1, 2 and 4.
    fn rounds(count: u64, noise: f64, costs_ns: [f64; 3], seed: u64) -> Vec<CausedBlock> {
        let mut draw = DrawStream::new(seed, 0);
        let mut rows = Vec::new();
        for round in 0..count {
            // The machine is slower in some rounds than in others.
            let slow = draw.between(1.0, 1.3);
            for (dose, cost) in [0, 0, 1, 2, 4].into_iter().zip([0.0, 0.0].iter().chain(&costs_ns))
            {
                let events = 5 * dose;
                let each = 1e6 * slow * draw.between(1.0 - noise, 1.0 + noise);
                let progress = (100e6 - events as f64 * cost) / each;
                rows.push(block(round, dose, events, 100e6, progress));
            }
        }
        rows
    }

    fn results(rows: &[CausedBlock]) -> ProgramCost {
        let mut blocks = CausedBlocks::default();
        blocks.take(rows);
        let mut all = blocks.results().costs;
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn the_cost_is_the_excess_over_the_events_by_hand() {
        // Ten a unit: a tenth and a fifth of 100 are lost to two and four events.
        let rows =
            [block(0, 0, 0, 100.0, 10.0), block(0, 1, 2, 100.0, 9.0), block(0, 2, 4, 100.0, 8.0)];
        let it = results(&rows);
        let cost = it.cost.unwrap();
        assert!((cost.us - 30.0 / 6.0 / 1e3).abs() < 1e-9 && cost.interval.is_none(), "{cost:?}");
        assert!(it.by_dose.iter().all(|dose| (dose.cost.us - 0.005).abs() < 1e-9), "{it:?}");
        assert!((it.effect_percent.unwrap() - 15.0).abs() < 1e-6);
        assert_eq!((it.rounds, it.events, it.floor), (1, 6, None));
    }

    #[test]
    fn blocks_that_vary_do_not_make_a_cost_in_either_direction() {
        // Few events: 10 in blocks that vary by 8 %.
        let all: Vec<f64> = (0..60)
            .map(|seed| {
                let mut rows = rounds(60, 0.14, [0.0; 3], seed);
                for row in &mut rows {
                    row.events = row.dose;
                }
                results(&rows).cost.unwrap().us
            })
            .collect();
        let mean = all.iter().sum::<f64>() / 60.0;
        let sd = (all.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 59.0).sqrt();
        // A ratio to the blocks without events would be three standard errors too low.
        assert!(mean.abs() < 2.5 * sd / 60_f64.sqrt(), "{mean} ± {}", sd / 60_f64.sqrt());
    }

    #[test]
    fn a_planted_cost_lies_in_its_interval_and_a_slower_round_does_not_matter() {
        let hits = (0..200).filter(|&seed| {
            let it = results(&rounds(40, 0.02, [150e3; 3], seed));
            it.cost.and_then(|it| it.interval).is_some_and(|it| it.low <= 150.0 && 150.0 <= it.high)
        });
        let hits = hits.count();
        assert!((180..=199).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn no_cost_is_no_cost() {
        let seen = (0..200).filter(|&seed| {
            let it = results(&rounds(40, 0.02, [0.0; 3], seed));
            it.cost.is_some_and(|it| it.is_seen()) || it.bend.is_some()
        });
        let seen = seen.count();
        // Two statements at 5 % each.
        assert!(seen <= 32, "{seen} of 200");
    }

    #[test]
    fn a_line_that_bends_is_said_to_and_a_straight_one_is_not() {
        let bent = results(&rounds(60, 0.01, [400e3, 250e3, 160e3], 1));
        let by: Vec<f64> = bent.by_dose.iter().map(|it| it.cost.us).collect();
        assert!(by[0] > by[1] && by[1] > by[2], "{by:?}");
        assert!(bent.bend.unwrap().us < -100.0);
        assert!(results(&rounds(60, 0.01, [200e3; 3], 1)).bend.is_none());
    }

    #[test]
    fn blocks_that_say_nothing_are_counted_by_their_reason_and_leave_the_rest() {
        let mut rows = rounds(10, 0.01, [100e3; 3], 1);
        let before = results(&rows).cost.unwrap().us;
        rows.push(CausedBlock { invalid: Some("no progress".into()), ..block(11, 1, 9, 5e9, 0.0) });
        let it = results(&rows);
        assert_eq!(it.invalid.get("no progress"), Some(&1));
        assert_eq!(it.rounds, 10);
        assert!((it.cost.unwrap().us - before).abs() < 1e-12);
    }

    #[test]
    fn the_floor_is_that_of_blocks_without_events() {
        let it = results(&rounds(40, 0.01, [100e3; 3], 5));
        let floor = it.floor.unwrap().interval.unwrap();
        assert!(floor.low < 0.0 && floor.high > 0.0, "{floor:?}");
        let lost = slowdown(rounds(1, 0.0, [100e3; 3], 5).iter()).unwrap();
        // 35 events of 0.1 ms in 500 ms.
        assert!((lost - 0.7).abs() < 1e-9, "{lost}");
    }
}
