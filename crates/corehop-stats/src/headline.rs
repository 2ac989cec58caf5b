// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headline of a run: the cost of a preemption and of each class of migration, under comparable conditions.
//!
//! The headline compares cells of one working-set size, one preemption length and one load, in one [`Company`]. The
//! choice of the cells depends on the measurements that exist and on the cells' intervals, never on the delays.

use super::cell::CellKey;
use super::company::{Company, CompanyGroup, alike, stays};
use super::control::within_error;
use super::delay::DelayStatistics;
use super::saturation::SWEEP;
use super::summary::CellSummary;
use corehop_plan::samples::{Certificate, Text};
use corehop_plan::workload::{Absence, Event};

/// The costs that represent a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// The cell of the first cost, which states the machine, the load and the working set.
    pub cell: CellKey,
    /// The costs in each company; companies in which the job both stayed and moved come first. Costs in two different
    /// companies are never compared.
    pub groups: Vec<CompanyCosts>,
    /// The control, which is leaving the CPU for an equal time while no thread ran, or `None` if the control was not
    /// measured.
    pub control: Option<HeadlineCost>,
    /// Whether the samples come from the simulated machine.
    pub simulated: bool,
}

/// The costs in one company, which are comparable with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct CompanyCosts {
    /// The company in which the job was away.
    pub company: Company,
    /// The costs: resuming in place first, then the migrations from near to far.
    pub costs: Vec<HeadlineCost>,
}

/// The cost of one class of event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadlineCost {
    /// The class of the event that has the cost.
    pub event: Event,
    /// The median delay in microseconds.
    pub median_us: f64,
    /// The ends of the median's 95 % interval, or `None` for fewer than six replicates.
    pub interval_us: Option<(f64, f64)>,
    /// The number of replicates behind the cost.
    pub replicates: usize,
    /// Whether the delay is not larger than the delay of the control `none`.
    pub within_error: bool,
}

/// Returns the headline of the given cells, or `None` without a delay of a preemption or a migration.
///
/// The headline uses the first cells that do not belong to a sweep. The headline uses the preemption length with the
/// most cells that have an interval. If a job both stayed and moved in one company at some lengths, the function
/// considers only cells of such lengths. The headline uses the middle size among the sizes with the most cells that
/// have an interval.
pub fn headline(summaries: &[CellSummary]) -> Option<Headline> {
    let away = |it: &&CellSummary| is_away(it) && it.delay.is_some();
    let all: Vec<&CellSummary> = summaries.iter().filter(away).collect();
    let costs = || all.iter().copied().filter(|it| is_cost(it));
    let first = costs().find(|it| &*it.cell.experiment != SWEEP).or(costs().next())?;
    let panel: Vec<&CellSummary> =
        all.iter().copied().filter(|it| it.cell.same_panel(&first.cell)).collect();
    let panel = comparable(panel, |it| (it.preemption_length.clone(), it.wss_bytes));
    let length = most(&panel, |it| it.preemption_length.clone()).into_iter().next()?;
    let of_length: Vec<&CellSummary> =
        panel.into_iter().filter(|it| it.cell.preemption_length == length).collect();
    let mut sizes = most(&of_length, |it| it.wss_bytes);
    sizes.sort_unstable();
    let wss = *sizes.get(sizes.len() / 2)?;
    let chosen: Vec<&CellSummary> =
        of_length.into_iter().filter(|it| it.cell.wss_bytes == wss).collect();
    let control = chosen.iter().find(|it| it.cell.event == Event::IdleLeave);
    let control = control.and_then(|it| HeadlineCost::of(it, summaries));
    let groups: Vec<CompanyCosts> =
        alike(&chosen).iter().map(|it| CompanyCosts::of(it, summaries)).collect();
    Some(Headline {
        cell: chosen.first()?.cell.clone(),
        groups: groups.into_iter().filter(|it| !it.costs.is_empty()).collect(),
        control,
        simulated: chosen.iter().any(|it| it.certificates.contains_key(&Certificate::Simulated)),
    })
}

/// Returns whether the cell's event is a preemption or a migration.
fn is_cost(summary: &CellSummary) -> bool {
    summary.cell.event == Event::Preemption || summary.cell.event.is_migration()
}

/// Returns whether the cell's job was off its CPU.
fn is_away(summary: &CellSummary) -> bool {
    is_cost(summary) || summary.cell.event == Event::IdleLeave
}

/// Returns the cells whose `key` has a company in which a job both stayed and moved, or all cells if no key has such
/// a company.
fn comparable<K: PartialEq>(
    cells: Vec<&CellSummary>,
    key: impl Fn(&CellKey) -> K,
) -> Vec<&CellSummary> {
    let with = |of: &K| -> Vec<&CellSummary> {
        cells.iter().copied().filter(|it| key(&it.cell) == *of).collect()
    };
    let compares =
        |it: &&&CellSummary| alike(&with(&key(&it.cell))).iter().any(CompanyGroup::compares);
    let some: Vec<&CellSummary> = cells.iter().filter(compares).copied().collect();
    if some.is_empty() { cells } else { some }
}

fn has_interval(summary: &CellSummary) -> bool {
    summary.delay.as_ref().and_then(interval).is_some()
}

fn interval(delay: &DelayStatistics) -> Option<(f64, f64)> {
    let median = delay.median();
    median.low.zip(median.high)
}

/// Returns the values of `key` with the most cells that have an interval, in order of appearance.
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

impl CompanyCosts {
    /// Returns the costs of the events in one company. If no thread ran, the control and a preemption without a
    /// preemptor are the same absence, and only the control is used.
    fn of(alike: &CompanyGroup, all: &[CellSummary]) -> Self {
        let left = alike.cells.iter().any(|it| it.cell.event == Event::IdleLeave);
        let twin = |it: &CellSummary| left && it.cell.event == Event::Preemption;
        let mut cells: Vec<&CellSummary> =
            alike.cells.iter().copied().filter(|it| !twin(it)).collect();
        // Of one event there may be several movers, or classes of neighbours: one with an interval answers.
        cells.sort_by_key(|it| (!stays(it.cell.event), it.cell.event, !has_interval(it)));
        cells.dedup_by_key(|it| it.cell.event);
        // The control by itself answers nothing.
        let moved = cells.iter().any(|it| it.cell.event != Event::IdleLeave);
        let costs = cells.iter().filter(|_| moved).filter_map(|it| HeadlineCost::of(it, all));
        Self { company: alike.company.clone(), costs: costs.collect() }
    }

    /// Returns whether jobs of the company both stayed and moved.
    pub fn compares(&self) -> bool {
        let any = |moved: bool| self.costs.iter().any(|it| it.event.is_migration() == moved);
        any(true) && any(false)
    }

    /// Returns whether no thread ran while the jobs were away.
    pub fn is_quiet(&self) -> bool {
        self.company.preempted_by == Absence::Nothing
    }
}

impl HeadlineCost {
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
    /// Returns the distribution of the preemption lengths.
    pub fn length(&self) -> &Text {
        &self.cell.preemption_length
    }

    /// Returns the costs of the events in all companies.
    pub fn costs(&self) -> impl Iterator<Item = &HeadlineCost> {
        self.groups.iter().flat_map(|group| &group.costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::example::sample;
    use crate::summary::summarize;
    use corehop_plan::samples::Sample;

    /// Makes at most twelve replicates of four samples that lose `delay_ns`, and 0, 10, … 110 ns more in shuffled
    /// order.
    fn samples(event: Event, wss_bytes: u64, delay_ns: u64, replicates: u64) -> Vec<Sample> {
        let preempted_by =
            if event == Event::Preemption { Absence::Preemptor } else { Absence::Nothing };
        let one = |at: u64| Sample {
            event,
            preempted_by,
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
        let events: Vec<Event> = headline.costs().map(|it| it.event).collect();
        assert_eq!(events, [Event::Preemption, Event::L3Migration, Event::MemoryMigration]);
        // Twelve replicates at 20,000 ns and 0, 10, … 110 ns more: their median is 55 ns above.
        let costs: Vec<&HeadlineCost> = headline.costs().collect();
        assert!((costs[0].median_us - 20.055).abs() < 0.01);
        assert!(costs[0].interval_us.is_some_and(|(low, high)| low < 20.055 && high > 20.055));
        assert_eq!((costs[2].interval_us, costs[2].replicates), (None, 2));
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

    #[test]
    fn a_preemption_in_company_is_never_in_one_group_with_a_migration_without_it() {
        let all = [
            samples(Event::IdleLeave, 8192, 5_000, 12),
            samples(Event::Preemption, 8192, 40_000, 12),
            samples(Event::L3Migration, 8192, 30_000, 12),
        ];
        let headline = of(&all).unwrap();
        let groups: Vec<(bool, Vec<Event>)> = headline
            .groups
            .iter()
            .map(|it| (it.compares(), it.costs.iter().map(|it| it.event).collect()))
            .collect();
        let quiet = vec![Event::IdleLeave, Event::L3Migration];
        assert_eq!(groups, [(true, quiet), (false, vec![Event::Preemption])]);
        assert!((headline.control.unwrap().median_us - 5.055).abs() < 0.01);
    }

    #[test]
    fn a_length_at_which_a_job_stayed_and_moved_in_one_company_comes_before_one_with_more_cells() {
        let quiet = |event| {
            let short = |it: Sample| Sample {
                preempted_by: Absence::Nothing,
                preemption_length: "fixed_1ms".into(),
                ..it
            };
            samples(event, 8192, 9_000, 12).into_iter().map(short).collect::<Vec<_>>()
        };
        let all = [
            samples(Event::Preemption, 8192, 40_000, 12),
            samples(Event::L3Migration, 8192, 30_000, 12),
            samples(Event::MemoryMigration, 8192, 30_000, 12),
            quiet(Event::Preemption),
            quiet(Event::L3Migration),
        ];
        let headline = of(&all).unwrap();
        assert_eq!(&**headline.length(), "fixed_1ms");
        assert_eq!(headline.groups.len(), 1);
    }

    #[test]
    fn the_middle_size_is_that_of_the_sizes_and_not_of_the_order_of_the_cells() {
        let all = [4096, 8192, 16384].map(|wss| samples(Event::Preemption, wss, 10_000, 12));
        let mut cells = summarize(&all.concat(), Estimator::Difference);
        for _ in 0..3 {
            cells.rotate_left(1);
            assert_eq!(headline(&cells).unwrap().cell.wss_bytes, 8192);
        }
        // Of two the larger.
        cells.retain(|it| it.cell.wss_bytes != 4096);
        assert_eq!(headline(&cells).unwrap().cell.wss_bytes, 16384);
    }
}
