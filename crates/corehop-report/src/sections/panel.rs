// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panel groups the cells that belong on one set of axes, and gives them names.

use crate::table::{interval, micros};
use corehop_plan::workload::Event;
use corehop_stats::cell::CellKey;
use corehop_stats::company::Company;
use corehop_stats::delay::DelayStatistics;
use corehop_stats::quantile::Quantile;
use corehop_stats::summary::CellSummary;

/// The cells of a panel differ only in the event, in its absence, and in the working-set size.
pub(super) struct Panel<'a> {
    /// The load of the cells, and the other properties that they share if these distinguish the panel from
    /// others.
    pub(super) label: String,
    /// The cells of the panel.
    pub(super) cells: Vec<&'a CellSummary>,
}

/// Groups the given cells into panels, and keeps the order of the cells.
pub(super) fn panels<'a>(cells: impl Iterator<Item = &'a CellSummary>) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel> = Vec::new();
    for cell in cells {
        match panels.iter_mut().find(|panel| panel.cells[0].cell.same_panel(&cell.cell)) {
            Some(panel) => panel.cells.push(cell),
            None => panels.push(Panel { label: String::new(), cells: vec![cell] }),
        }
    }
    let traits: Vec<Vec<String>> =
        panels.iter().map(|panel| traits(&panel.cells[0].cell)).collect();
    for (panel, own) in panels.iter_mut().zip(&traits) {
        // The load is always said; anything else only where it tells panels apart.
        let telling = own.iter().enumerate().filter(|&(place, value)| {
            place == 0 || traits.iter().any(|other| other[place] != *value)
        });
        panel.label = telling.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
    }
    panels
}

/// Returns the properties that the cells of a panel have in common, in words.
fn traits(cell: &CellKey) -> Vec<String> {
    vec![
        format!("load {}", cell.load),
        cell.machine.to_string(),
        cell.experiment.to_string(),
        cell.pattern.to_string(),
        format!("{} pages", cell.page),
        format!("write ratio {}", cell.write_ratio),
        format!("{} chains", cell.chains),
        format!("first touch {}", cell.cache_state),
        cell.workload.as_deref().unwrap_or("no own job").to_owned(),
        cell.node.map_or_else(|| "own node".to_owned(), |node| format!("memory of node {node}")),
        if cell.fresh_frames { "fresh frames" } else { "the same frames" }.to_owned(),
    ]
}

impl<'a> Panel<'a> {
    /// Returns the series of the panel, each with a name and with its cells in ascending order of
    /// working-set size.
    pub(super) fn series(&self) -> Vec<(String, Vec<&'a CellSummary>)> {
        let mut series: Vec<Vec<&CellSummary>> = Vec::new();
        for &cell in &self.cells {
            match series.iter_mut().find(|other| other[0].cell.same_series(&cell.cell)) {
                Some(other) => other.push(cell),
                None => series.push(vec![cell]),
            }
        }
        series.into_iter().map(|cells| (self.name(&cells[0].cell), cells)).collect()
    }

    /// Returns the name of a series: the event, with the length and the occupant of the absence if these
    /// distinguish the series from others.
    pub(super) fn name(&self, cell: &CellKey) -> String {
        let siblings =
            || self.cells.iter().map(|other| &other.cell).filter(|other| other.event == cell.event);
        let mut name = cell.event.to_string();
        if siblings().any(|other| other.preemption_length != cell.preemption_length) {
            name = format!("{name} {}", cell.preemption_length);
        }
        let company = |it: &CellKey| Company { pair_class: None, ..Company::of(it) }.brief();
        let of_company = self.companies_differ() && costs(cell.event);
        if of_company {
            name = format!("{name} ({})", company(cell));
        }
        let same_absence = |other: &&CellKey| {
            let absence = |it: &CellKey| (it.preemption_length.clone(), it.preempted_by);
            absence(other) == absence(cell) && (!of_company || company(other) == company(cell))
        };
        if siblings().filter(same_absence).any(|other| other.polluter != cell.polluter) {
            name = format!("{name} ({})", cell.polluter.as_deref().unwrap_or("nothing"));
        }
        if siblings().filter(same_absence).any(|other| other.mover != cell.mover) {
            name = format!("{name} by {}", cell.mover);
        }
        name
    }

    /// Returns whether jobs were away in several companies, so that some costs of the panel are not
    /// comparable.
    fn companies_differ(&self) -> bool {
        let costs = self.cells.iter().filter(|it| costs(it.cell.event));
        let mut all = costs.map(|it| (it.cell.preempted_by, &it.cell.polluter));
        let first = all.next();
        all.any(|it| Some(it) != first)
    }

    /// Returns the working-set sizes of the panel's cells, in ascending order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.cells.iter().map(|cell| cell.cell.wss_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Returns whether an event has a cost that is compared with the costs of other events.
fn costs(event: Event) -> bool {
    event == Event::Preemption || event.is_migration()
}

/// Returns the colour of an event, which is the same in every figure.
pub(super) fn colour(event: Event) -> usize {
    Event::ALL.iter().position(|&other| other == event).unwrap_or_default()
}

/// Returns the number of valid samples, such as `38 of 40`, or `40` if all samples are valid.
pub(super) fn count(cell: &CellSummary) -> String {
    if cell.n_valid == cell.n_all {
        cell.n_valid.to_string()
    } else {
        format!("{} of {}", cell.n_valid, cell.n_all)
    }
}

/// Returns a quantile with its interval, such as `12.3 [11.9, 12.8]`, or the number alone if too few samples
/// support an interval.
pub(super) fn with_interval(quantile: &Quantile) -> String {
    match (quantile.low, quantile.high) {
        (None, None) => micros(quantile.estimate),
        (low, high) => format!("{} {}", micros(quantile.estimate), interval(low, high)),
    }
}

/// Returns the median of a delay with its interval.
pub(super) fn median(delay: &DelayStatistics) -> String {
    with_interval(delay.median())
}

/// Returns a share in percent.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 || percent.abs() >= 9.95 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}
