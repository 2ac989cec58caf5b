// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the live quick experiment with its simulation on the description of the host, cell by cell.
//!
//! Three kinds of cells do not judge the simulation: cells that determined a number of the description, controls
//! without an event, and cells whose live delay cannot be distinguished from zero. The difference between the two
//! halves of the live run gives a scale for the errors, because a host may change within minutes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::aim::{ClassConcordance, ErrorLimits, ErrorQuantiles, errors_beyond};
use super::printed_number::ErrorLaw;
use crate::calibration::{self, HUGE, States, is_own};
use corehop_plan::experiment::{Experiment, Preset, SamplingGroup};
use corehop_plan::machine::samples_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::words::words;
use corehop_plan::workload::{Event, Page};
use corehop_sim::SimMachine;
use corehop_stats::cell::CellKey;
use corehop_stats::delay::nested_quantile;
use corehop_stats::estimator::Estimator;
use corehop_stats::ordered::Interval;
use corehop_stats::replicates::Nested;
use corehop_stats::summary::replicate_of;

use super::ValidationError;

/// The fewest live samples with which a cell is judged.
const FEWEST: usize = 12;
/// The smallest relative difference, based on the smaller delay, from which two delays have an order.
const APART: f64 = 0.25;
/// The share of the warm touch below which a delay without an interval counts as indistinguishable from zero.
const NONE_OF_WARM: f64 = 0.02;

words! {
    /// The role of a cell in the judgement.
    Part, "a part in the judgement" {
        /// The cell judges the simulation.
        Judged = "judged",
        /// The cell determined a number of the description.
        Calibrating = "calibrating",
        /// Nothing happens between the touches of the cell.
        Control = "control",
        /// The live delay cannot be distinguished from zero.
        NotTold = "no measurable delay",
        /// The cell has too few valid live samples.
        TooFew = "too few samples",
        /// The cell asked for huge pages, but had none.
        NoHugePages = "no huge pages",
        /// The simulated experiment lacks the cell.
        NotSimulated = "not simulated",
    }
}

/// A cell measured live and simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellValidation {
    /// The properties that the cell's samples share.
    pub cell: CellKey,
    /// Whether the hypervisor had placed the CPUs on separate caches.
    pub apart: bool,
    /// The median live delay, in microseconds.
    pub live_us: f64,
    /// The interval of the live delay, if there is one.
    pub live_interval: Option<Interval>,
    /// The number of valid live samples.
    pub n: usize,
    /// The median simulated delay, in microseconds; `None` if the simulated machine lacks the cell.
    pub simulated_us: Option<f64>,
    /// The median live warm touch, in microseconds.
    pub warm_live_us: f64,
    /// The median simulated warm touch, in microseconds.
    pub warm_simulated_us: Option<f64>,
    /// The role of the cell in the judgement.
    pub part: Part,
    /// The error of the simulated delay relative to the live delay; `None` if there is no comparison.
    pub error: Option<f64>,
    /// The difference between the two halves of the live run, relative to both together.
    pub halves: Option<f64>,
}

/// The comparison of a live run with a simulated run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSheet {
    /// The ID of the host's platform.
    pub platform: String,
    /// The cells, sorted.
    pub cells: Vec<CellValidation>,
    /// The errors of the judged cells.
    pub judged: Option<ErrorQuantiles>,
    /// The errors of the cells that determined numbers.
    pub calibrating: Option<ErrorQuantiles>,
    /// The differences between the two halves of the live run in the judged cells.
    pub halves: Option<ErrorQuantiles>,
    /// The errors of warm touches in cells that determined no number.
    pub warm: Option<ErrorQuantiles>,
    /// The number of pairs of judged cells of one size whose live delays differ, and the number of pairs in the live
    /// order.
    pub order: ClassConcordance,
    /// The number of live samples taken in a state of the host that has no description.
    pub left_out: usize,
}

/// The goals: half of the judged cells are within the first error, nine in ten are within the second error, and at
/// least the third value's share of pairs is in the live order.
pub const AIMS: [f64; 3] = [0.2, 0.5, 0.95];

impl HostSheet {
    /// Describes each missed goal; empty if all goals are reached.
    pub fn missed(&self) -> Vec<String> {
        let [median, p90, order] = AIMS;
        let Some(judged) = self.judged else {
            return vec!["no cell is left to judge: the samples have none of the quick experiment's cells with a delay".to_owned()];
        };
        let percent = |it: f64| 100.0 * it;
        let share = self.order.agree as f64 / self.order.pairs.max(1) as f64;
        let turned = (self.order.pairs > 0 && share < order).then(|| {
            format!(
                "{:.1} % of the pairs have the live order, fewer than {:.0} %",
                percent(share),
                percent(order)
            )
        });
        errors_beyond(judged, ErrorLaw::Relative, ErrorLimits { median, p90, order: 1.0 })
            .into_iter()
            .chain(turned)
            .collect()
    }
}

/// The descriptions of a host: as declared, and with its cores apart if that state was observed.
#[derive(Debug, Clone, Copy)]
pub struct HostDescription<'a> {
    /// The host as declared. The experiment is planned for this description.
    pub declared: &'a Platform,
    /// The host with its cores apart.
    pub apart: Option<&'a Platform>,
}

/// Simulates the quick experiment, and the calibration cells for which live `samples` exist, on each state of the
/// host, and compares the results with the samples of that state. `exact` simulates all sets of all caches.
///
/// # Errors
/// Returns an error if a platform cannot be simulated.
pub fn beside(
    described: HostDescription<'_>,
    samples: &[Sample],
    exact: bool,
) -> Result<HostSheet, ValidationError> {
    let HostDescription { declared, apart } = described;
    let own = samples.iter().any(|sample| is_own(&CellKey::of(sample), declared));
    let simulated = |platform: &Platform| -> Result<Vec<Sample>, ValidationError> {
        let mut experiment = if own {
            calibration::experiment(declared)
        } else {
            Preset::Quick.synthetic(declared, None, None)
        };
        only_seen(&mut experiment.groups, samples);
        calibration::on_described(&mut experiment.groups, platform);
        let plan = experiment.replicated(platform, SEED, REPLICATES)?;
        let machine = SimMachine::new(platform.clone())?;
        let mut machine = if exact { machine } else { machine.sampled() };
        Ok(samples_of(&mut machine, &plan)?)
    };
    let states = States::of(declared, samples);
    let mut cells = Vec::new();
    if !states.declared.is_empty() {
        cells.extend(cells_of(declared, &states.declared, &simulated(declared)?, false));
    }
    if let Some(apart) = apart.filter(|_| !states.apart.is_empty()) {
        cells.extend(cells_of(declared, &states.apart, &simulated(apart)?, true));
    }
    let left_out = if apart.is_none() { states.apart.len() } else { 0 };
    Ok(HostSheet { left_out, ..sheet(declared, cells) })
}

/// Removes cells without live samples.
fn only_seen(groups: &mut Vec<SamplingGroup>, samples: &[Sample]) {
    let sizes: BTreeSet<u64> = samples.iter().map(|it| it.wss_bytes).collect();
    let events: BTreeSet<Event> = samples.iter().map(|it| it.event).collect();
    let loads: BTreeSet<&str> = samples.iter().map(|it| &*it.load).collect();
    for group in &mut *groups {
        group.sets.retain(|set| sizes.contains(&set.wss.get()));
        // A migration may have been of another class than it was planned for.
        group.events.retain(|event| event.is_migration() || events.contains(event));
    }
    let is_seen = |it: &SamplingGroup| {
        !it.sets.is_empty() && !it.events.is_empty() && loads.contains(it.load.word())
    };
    groups.retain(is_seen);
}

/// The seed of every validation simulation.
const SEED: u64 = 1;
/// The number of replicates of the simulated run; each has its own page frames.
const REPLICATES: u32 = 10;

/// The valid samples of a cell, in microseconds.
#[derive(Debug, Default)]
struct ValidSamples {
    delays: Vec<f64>,
    warm: Vec<f64>,
    huge: Vec<f64>,
    replicates: Vec<u64>,
}

impl ValidSamples {
    /// The mean share of the working set on huge pages.
    fn huge_share(&self) -> f64 {
        self.huge.iter().sum::<f64>() / self.huge.len().max(1) as f64
    }
}

fn by_cell(samples: &[Sample]) -> BTreeMap<CellKey, ValidSamples> {
    let mut all: BTreeMap<CellKey, ValidSamples> = BTreeMap::new();
    for (sample, delay) in Estimator::Difference.delays_us(samples) {
        // The same host, whatever its description is called, and the pairs of CPUs are of one state.
        let cell = CellKey { machine: "".into(), pair_class: None, ..CellKey::of(sample) };
        let values = all.entry(cell).or_default();
        values.delays.push(delay);
        values.warm.push(sample.warm_ns / 1e3);
        values.huge.push(sample.huge_share);
        values.replicates.push(replicate_of(sample));
    }
    all
}

fn median(values: &[f64], replicates: &[u64]) -> Option<(f64, Option<Interval>)> {
    let nested = Nested::from_labelled(values, replicates).ok()?;
    let of = nested_quantile(&nested, 0.5)?;
    Some((of.estimate, of.interval()))
}

/// Compares live samples of one state of the host with simulated samples; the plan was made for the host as
/// `declared`.
pub(crate) fn cells_of(
    declared: &Platform,
    live: &[Sample],
    simulated: &[Sample],
    apart: bool,
) -> Vec<CellValidation> {
    let (live, simulated) = (by_cell(live), by_cell(simulated));
    let one = |(cell, values)| {
        Some(CellValidation { apart, ..one(cell, values, simulated.get(cell), declared)? })
    };
    live.iter().filter_map(one).collect()
}

/// The sheet that summarises some cells.
pub(crate) fn sheet(declared: &Platform, cells: Vec<CellValidation>) -> HostSheet {
    let of = |part: Part, value: &dyn Fn(&CellValidation) -> Option<f64>| {
        ErrorQuantiles::over(cells.iter().filter(|it| it.part == part).filter_map(value).collect())
    };
    let warm = |it: &CellValidation| {
        Some((it.warm_simulated_us? - it.warm_live_us).abs() / it.warm_live_us)
    };
    let others =
        cells.iter().filter(|it| it.part != Part::Calibrating && it.cell.event == Event::None);
    HostSheet {
        platform: declared.id.clone(),
        judged: of(Part::Judged, &|it| it.error),
        calibrating: of(Part::Calibrating, &|it| it.error),
        halves: of(Part::Judged, &|it| it.halves),
        warm: ErrorQuantiles::over(others.filter_map(warm).collect()),
        order: order(&cells),
        left_out: 0,
        cells,
    }
}

fn one(
    cell: &CellKey,
    live: &ValidSamples,
    simulated: Option<&ValidSamples>,
    platform: &Platform,
) -> Option<CellValidation> {
    let (live_us, live_interval) = median(&live.delays, &live.replicates)?;
    let (warm_live_us, _) = median(&live.warm, &live.replicates)?;
    let of = |it: &ValidSamples| {
        Some((median(&it.delays, &it.replicates)?.0, median(&it.warm, &it.replicates)?.0))
    };
    let simulated = simulated.and_then(of);
    let none = match live_interval {
        Some(interval) => interval.low <= 0.0,
        None => live_us <= NONE_OF_WARM * warm_live_us,
    };
    let part = if is_own(cell, platform) {
        Part::Calibrating
    } else if cell.event == Event::None {
        Part::Control
    } else if live.delays.len() < FEWEST {
        Part::TooFew
    } else if cell.page == Page::Transparent && live.huge_share() < HUGE {
        Part::NoHugePages
    } else if simulated.is_none() {
        Part::NotSimulated
    } else if none {
        Part::NotTold
    } else {
        Part::Judged
    };
    let relative = |us: f64| (us - live_us).abs() / live_us;
    let tells = !none && cell.event != Event::None;
    Some(CellValidation {
        cell: cell.clone(),
        apart: false,
        live_us,
        live_interval,
        n: live.delays.len(),
        simulated_us: simulated.map(|it| it.0),
        warm_live_us,
        warm_simulated_us: simulated.map(|it| it.1),
        part,
        error: simulated.filter(|_| tells).map(|it| relative(it.0)),
        halves: halves(live).filter(|_| tells).map(|[a, b]| (a - b).abs() / live_us),
    })
}

/// The median delays of the earlier and of the later replicates.
fn halves(values: &ValidSamples) -> Option<[f64; 2]> {
    let [earlier, later] =
        Nested::from_labelled(&values.delays, &values.replicates).ok()?.in_time()?;
    let median = |half: &Nested| Some(nested_quantile(half, 0.5)?.estimate);
    Some([median(&earlier)?, median(&later)?])
}

/// The order of judged cells that differ only in the event and its properties.
fn order(cells: &[CellValidation]) -> ClassConcordance {
    let judged: Vec<&CellValidation> = cells.iter().filter(|it| it.part == Part::Judged).collect();
    let mut order = ClassConcordance { pairs: 0, agree: 0 };
    for (at, a) in judged.iter().enumerate() {
        for b in &judged[at + 1..] {
            let alike = a.cell.wss_bytes == b.cell.wss_bytes
                && a.cell.same_panel(&b.cell)
                && a.apart == b.apart;
            if !alike || (a.live_us - b.live_us).abs() < APART * a.live_us.min(b.live_us) {
                continue;
            }
            order.pairs += 1;
            order.agree +=
                usize::from((a.live_us > b.live_us) == (a.simulated_us > b.simulated_us));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::held_against;
    use corehop_plan::samples::example::sample;
    use corehop_plan::units::Bytes;

    /// Samples of a cell with this delay, over several replicates.
    fn cell(event: Event, kib: u64, us: f64) -> Vec<Sample> {
        let base = sample();
        let (wss_bytes, lines) = (Bytes::from_kib(kib).get(), kib * 16);
        let one = |at: u64| Sample {
            event,
            wss_bytes,
            lines,
            load: "idle".into(),
            replicate: Some(at % 10),
            resumed_ns: base.warm_ns + 1e3 * us * (1.0 + 0.01 * (at % 3) as f64),
            ..base.clone()
        };
        (0..40).map(one).collect()
    }

    fn platform() -> Platform {
        Platform::named("xeon_x5650").unwrap().unwrap()
    }

    #[test]
    fn what_calibrates_controls_and_what_is_no_delay_judges_nothing() {
        let live = [
            cell(Event::Preemption, 64, 100.0),
            cell(Event::Flush, 64, 400.0),
            cell(Event::None, 64, 50.0),
            cell(Event::Flush, 32, 200.0),
            cell(Event::IdleLeave, 64, -1.0),
        ]
        .concat();
        let simulated = [
            cell(Event::Preemption, 64, 110.0),
            cell(Event::Flush, 64, 200.0),
            cell(Event::None, 64, 0.0),
            cell(Event::Flush, 32, 20.0),
            cell(Event::IdleLeave, 64, 70.0),
        ]
        .concat();
        let sheet = held_against(&platform(), &live, &simulated);
        let part = |event: Event, kib: u64| {
            let wss = Bytes::from_kib(kib).get();
            sheet
                .cells
                .iter()
                .find(|it| it.cell.event == event && it.cell.wss_bytes == wss)
                .unwrap()
        };
        assert_eq!(part(Event::None, 64).part, Part::Control);
        assert_eq!(part(Event::Flush, 32).part, Part::Calibrating);
        assert_eq!(part(Event::IdleLeave, 64).part, Part::NotTold);
        assert_eq!(part(Event::IdleLeave, 64).error, None);
        assert_eq!(sheet.judged.unwrap().rows, 2);
        assert!((part(Event::Preemption, 64).error.unwrap() - 0.1).abs() < 1e-9);
        assert!((sheet.judged.unwrap().p90 - 0.5).abs() < 1e-9);
        assert!((sheet.calibrating.unwrap().median - 0.9).abs() < 1e-9);
        // The middle of 10 and 50 %.
        assert_eq!(sheet.missed(), ["the median error is 30.0 %, above 20.0 %"]);
        // A flush costs more than a preemption, live and simulated.
        assert_eq!(sheet.order, ClassConcordance { pairs: 1, agree: 1 });
        assert!(sheet.halves.unwrap().p90 < 0.03);
    }

    #[test]
    fn a_cell_that_only_one_machine_has_is_shown_and_not_judged() {
        let live = cell(Event::MemoryMigration, 64, 90.0);
        let sheet = held_against(&platform(), &live, &cell(Event::Flush, 64, 1.0));
        assert_eq!((sheet.cells.len(), sheet.cells[0].part), (1, Part::NotSimulated));
        assert_eq!((sheet.cells[0].simulated_us, sheet.judged), (None, None));
        assert!(sheet.missed()[0].contains("no cell is left to judge"), "{:?}", sheet.missed());
        let few = held_against(&platform(), &live[..5], &live);
        assert_eq!(few.cells[0].part, Part::TooFew);
    }

    #[test]
    fn a_host_that_changed_in_the_middle_is_told_by_its_halves() {
        let mut live = cell(Event::Flush, 64, 100.0);
        live.iter_mut().filter(|it| it.replicate >= Some(5)).for_each(|it| it.resumed_ns += 100e3);
        let sheet = held_against(&platform(), &live, &live);
        assert!(sheet.judged.unwrap().median < 1e-12);
        assert!(sheet.halves.unwrap().median > 0.5, "{:?}", sheet.halves);
    }

    #[test]
    fn groups_keep_the_sizes_the_events_and_the_loads_that_were_seen() {
        let mut groups = Preset::Quick.synthetic(&platform(), None, None).groups;
        let before: usize = groups.iter().map(|it| it.sets.len()).sum();
        only_seen(&mut groups, &cell(Event::Preemption, 64, 1.0));
        assert!(before > 1 && !groups.is_empty());
        for group in &groups {
            let sizes: Vec<u64> = group.sets.iter().map(|it| it.wss.get()).collect();
            assert!(
                sizes.iter().all(|&it| it == 65_536) && group.load.word() == "idle",
                "{sizes:?}"
            );
            // A migration may have been of another class than it was planned for.
            assert!(group.events.iter().all(|it| *it == Event::Preemption || it.is_migration()));
        }
        assert!(groups.iter().any(|it| it.events.contains(&Event::Preemption)));
        only_seen(&mut groups, &[]);
        assert!(groups.is_empty());
    }

    #[test]
    fn warm_touches_of_controls_are_compared_and_pages_that_were_not_huge_judge_nothing() {
        let warmer = |mut samples: Vec<Sample>, ns: f64| {
            for it in &mut samples {
                (it.warm_ns, it.resumed_ns) = (it.warm_ns + ns, it.resumed_ns + ns);
            }
            samples
        };
        let live = cell(Event::None, 64, 0.1);
        let sheet = held_against(&platform(), &live, &warmer(live.clone(), 250.0));
        // 1.25 µs in place of 1 µs.
        assert!((sheet.warm.unwrap().median - 0.25).abs() < 1e-9, "{:?}", sheet.warm);
        let huge = |share: f64| -> Vec<Sample> {
            let of = |it: Sample| Sample { page: Page::Transparent, huge_share: share, ..it };
            cell(Event::Preemption, 64, 20.0).into_iter().map(of).collect()
        };
        let part = |share| held_against(&platform(), &huge(share), &huge(1.0)).cells[0].part;
        assert_eq!(
            [part(0.0), part(0.49), part(0.5)],
            [Part::NoHugePages, Part::NoHugePages, Part::Judged]
        );
    }

    #[test]
    fn an_order_is_judged_among_cells_that_differ_by_enough_and_an_aim_is_missed_below_its_share() {
        let live = [
            cell(Event::Preemption, 64, 100.0),
            cell(Event::Flush, 64, 200.0),
            cell(Event::L3Migration, 64, 100.5),
        ]
        .concat();
        let turned = [
            cell(Event::Preemption, 64, 100.0),
            cell(Event::Flush, 64, 50.0),
            cell(Event::L3Migration, 64, 100.5),
        ]
        .concat();
        let sheet = held_against(&platform(), &live, &turned);
        // The preemption and the migration are alike; the flush costs more than either live, and less simulated.
        assert_eq!(sheet.order, ClassConcordance { pairs: 2, agree: 0 });
        assert!(
            sheet
                .missed()
                .iter()
                .any(|it| it == "0.0 % of the pairs have the live order, fewer than 95 %"),
            "{:?}",
            sheet.missed()
        );
        let same = held_against(&platform(), &live, &live);
        assert_eq!(
            (same.order, same.missed()),
            (ClassConcordance { pairs: 2, agree: 2 }, Vec::new())
        );
    }
}
