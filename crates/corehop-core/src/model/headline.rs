// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headline of a run: the cost of a preemption and of each class of migration, in one comparable group
//! of cells.
//!
//! Cells are compared at one working-set size and one preemption length, of one load. The choice depends on
//! the cells' intervals only, never on their delays.

use super::cell::CellKey;
use super::control::within_error;
use super::delay::Delay;
use super::saturation::SWEEP;
use super::summary::CellSummary;
use crate::samples::{Certificate, Text};
use crate::workload::{Absence, Event};

/// The costs that answer for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// The cell of the first cost: machine, load, working set.
    pub cell: CellKey,
    /// The preemption, then the migrations from near to far.
    pub costs: Vec<Cost>,
    /// The samples come from the simulated machine.
    pub simulated: bool,
}

/// The cost of one class of event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The class.
    pub event: Event,
    /// The median delay, in microseconds.
    pub median_us: f64,
    /// The ends of its 95 % interval; None below six replicates.
    pub interval_us: Option<(f64, f64)>,
    /// The number of replicates.
    pub replicates: usize,
    /// The delay is no larger than that of the control `none`.
    pub within_error: bool,
}

/// The headline of these cells; None without a delay of a preemption or a migration.
///
/// It is of the first cells that are not a sweep. The preemption length is the one with the most cells that
/// have an interval. The size is the middle one of those with the most such cells.
pub fn headline(summaries: &[CellSummary]) -> Option<Headline> {
    let costs = |it: &&CellSummary| is_cost(it) && it.delay.is_some();
    let sweep = |it: &&CellSummary| &*it.cell.experiment == SWEEP;
    let all: Vec<&CellSummary> = summaries.iter().filter(costs).collect();
    let first = all.iter().find(|it| !sweep(it)).or(all.first())?;
    let panel: Vec<&CellSummary> =
        all.iter().copied().filter(|it| it.cell.same_panel(&first.cell)).collect();
    let length = most(&panel, |it| it.preemption_length.clone()).into_iter().next()?;
    let of_length: Vec<&CellSummary> =
        panel.into_iter().filter(|it| it.cell.preemption_length == length).collect();
    let mut sizes = most(&of_length, |it| it.wss_bytes);
    sizes.sort_unstable();
    let wss = *sizes.get(sizes.len() / 2)?;
    let chosen: Vec<&CellSummary> =
        of_length.into_iter().filter(|it| it.cell.wss_bytes == wss).collect();
    let by_event = |event: &Event| best(&chosen, *event);
    let cells: Vec<&CellSummary> = Event::ALL.iter().filter_map(by_event).collect();
    Some(Headline {
        cell: cells.first()?.cell.clone(),
        costs: cells.iter().filter_map(|it| Cost::of(it, summaries)).collect(),
        simulated: cells.iter().any(|it| it.certificates.contains_key(&Certificate::Simulated)),
    })
}

/// Whether a cell is of a preemption or a migration.
fn is_cost(summary: &CellSummary) -> bool {
    summary.cell.event == Event::Preemption || summary.cell.event.is_migration()
}

fn has_interval(summary: &CellSummary) -> bool {
    summary.delay.as_ref().and_then(interval).is_some()
}

fn interval(delay: &Delay) -> Option<(f64, f64)> {
    let median = delay.median();
    median.low.zip(median.high)
}

/// The values of `key` with the most cells that have an interval, in order of appearance.
fn most<K: PartialEq>(cells: &[&CellSummary], key: impl Fn(&CellKey) -> K) -> Vec<K> {
    let mut counts: Vec<(K, usize)> = Vec::new();
    for cell in cells {
        let (key, one) = (key(&cell.cell), usize::from(has_interval(cell)));
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += one,
            None => counts.push((key, one)),
        }
    }
    let greatest = counts.iter().map(|&(_, count)| count).max().unwrap_or(0);
    counts.into_iter().filter(|&(_, count)| count == greatest).map(|(key, _)| key).collect()
}

/// The cell of an event: one with an interval, after a preemptor, before others.
fn best<'a>(cells: &[&'a CellSummary], event: Event) -> Option<&'a CellSummary> {
    let preemptor = |it: &CellSummary| it.cell.preempted_by == Absence::Preemptor;
    let of_event = cells.iter().copied().filter(|it| it.cell.event == event);
    of_event.min_by_key(|it| (!has_interval(it), !preemptor(it)))
}

impl Cost {
    fn of(summary: &CellSummary, all: &[CellSummary]) -> Option<Self> {
        let delay = summary.delay.as_ref()?;
        Some(Self {
            event: summary.cell.event,
            median_us: delay.median().estimate,
            interval_us: interval(delay),
            replicates: delay.spread.replicates,
            within_error: within_error(summary, all),
        })
    }
}

impl Headline {
    /// The preemption length, as drawn.
    pub fn length(&self) -> &Text {
        &self.cell.preemption_length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::estimator::Estimator;
    use crate::model::example::sample;
    use crate::model::summary::summarize;
    use crate::samples::Sample;

    /// At most twelve replicates of four samples that lose `delay_ns`, and 0, 10, … 110 ns more in shuffled order.
    fn samples(event: Event, wss_bytes: u64, delay_ns: u64, replicates: u64) -> Vec<Sample> {
        let one = |at: u64| Sample {
            event,
            wss_bytes,
            warm_ns: 1_000.0,
            resumed_ns: (1_000 + delay_ns + 10 * (7 * (at / 4) % 12)) as f64,
            replicate: Some(at / 4),
            ..sample()
        };
        (0..4 * replicates).map(one).collect()
    }

    fn of(samples: &[Vec<Sample>]) -> Option<Headline> {
        headline(&summarize(&samples.concat(), Estimator::Difference))
    }

    #[test]
    fn the_size_is_one_at_which_every_class_has_an_interval() {
        let all = [
            samples(Event::Preemption, 4096, 10_000, 12),
            samples(Event::Preemption, 8192, 20_000, 12),
            samples(Event::Preemption, 16384, 40_000, 12),
            samples(Event::L3Migration, 8192, 30_000, 12),
            samples(Event::MemoryMigration, 8192, 50_000, 2),
        ];
        let headline = of(&all).unwrap();
        assert_eq!(headline.cell.wss_bytes, 8192);
        let events: Vec<Event> = headline.costs.iter().map(|it| it.event).collect();
        assert_eq!(events, [Event::Preemption, Event::L3Migration, Event::MemoryMigration]);
        // Twelve replicates at 20,000 ns and 0, 10, … 110 ns more: their median is 55 ns above.
        assert!((headline.costs[0].median_us - 20.055).abs() < 0.01);
        assert!(
            headline.costs[0].interval_us.is_some_and(|(low, high)| low < 20.055 && high > 20.055)
        );
        assert_eq!((headline.costs[2].interval_us, headline.costs[2].replicates), (None, 2));
    }

    #[test]
    fn a_size_is_chosen_by_intervals_and_not_by_delays() {
        let costs = |factor: u64| {
            let set = |event, wss| samples(event, wss, factor * wss, 12);
            of(&[4096, 8192, 16384].map(|wss| set(Event::Preemption, wss))).unwrap()
        };
        assert_eq!((costs(1).cell.wss_bytes, costs(100).cell.wss_bytes), (8192, 8192));
    }

    #[test]
    fn controls_alone_have_no_headline() {
        assert_eq!(
            of(&[samples(Event::None, 4096, 0, 12), samples(Event::Flush, 4096, 9, 12)]),
            None
        );
        assert_eq!(headline(&[]), None);
    }
}
