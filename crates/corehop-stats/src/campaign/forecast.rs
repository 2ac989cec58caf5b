// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forecasts the remaining time of a campaign, in total and for each cell, from its progress.
//!
//! The total is forecast by work: samples are weighted with their projected time, at the pace of the run so
//! far. A cell is forecast by its own pace since its first sample, because cells of one load are sampled in
//! turn, and cells of the next load come later.

use super::sampling::CellProgress;
use corehop_plan::units::Nanos;

/// The state between two forecasts of a campaign.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The projected time of one sample of each cell.
    costs: Vec<Nanos>,
    /// The number of samples that each cell had when the run began.
    had: Vec<u32>,
    /// The latest time at which each cell had no sample of this run.
    since: Vec<Nanos>,
}

/// A forecast of the samples and the time that a campaign still needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The share of the work that is complete, 0 to 1.
    pub done: f64,
    /// The remaining time, or `None` until the pace is known.
    pub left: Option<Nanos>,
    /// The number of cells of the campaign.
    pub cells: usize,
    /// The cells that still lack samples; the cell with the most work is first.
    pub unfinished: Vec<CellShortfall>,
}

/// A cell that still lacks samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellShortfall {
    /// The index of the cell that lacks samples.
    pub cell: usize,
    /// The number of valid samples that the cell has.
    pub valid: u32,
    /// The number of samples that the cell should have.
    pub target: u32,
    /// The remaining time, or `None` if the cell has no sample of this run yet.
    pub left: Option<Nanos>,
}

impl Forecast {
    /// Makes a forecast for a run that begins now; `progress` has the samples of earlier runs.
    pub fn new(costs: Vec<Nanos>, progress: &[CellProgress]) -> Self {
        let had = progress.iter().map(|cell| cell.valid).collect();
        Self { since: vec![Nanos::new(0); costs.len()], costs, had }
    }

    /// Returns the forecast at `elapsed` after the begin of the run, if every cell must get the number of
    /// valid samples in `targets`.
    pub fn look(&mut self, elapsed: Nanos, progress: &[CellProgress], targets: &[u32]) -> Outlook {
        let mut unfinished: Vec<CellShortfall> = Vec::new();
        let (mut done, mut new, mut left) = (0.0, 0.0, 0.0);
        for (cell, (its, &target)) in progress.iter().zip(targets).enumerate() {
            let fresh = its.valid.saturating_sub(self.had[cell]);
            if fresh == 0 {
                self.since[cell] = elapsed;
            }
            let lacks = if its.given_up { 0 } else { target.saturating_sub(its.valid) };
            let cost = self.costs[cell].get() as f64;
            done += cost * f64::from(its.valid.min(target));
            new += cost * f64::from(fresh);
            left += cost * f64::from(lacks);
            if lacks > 0 {
                let spent = elapsed.get().saturating_sub(self.since[cell].get());
                let left = pace(spent, f64::from(fresh), f64::from(lacks));
                unfinished.push(CellShortfall { cell, valid: its.valid, target, left });
            }
        }
        let work = |it: &CellShortfall| {
            self.costs[it.cell].get() * u64::from(it.target.saturating_sub(it.valid))
        };
        unfinished.sort_by_key(|it| (std::cmp::Reverse(work(it)), it.cell));
        let share = if done + left > 0.0 { done / (done + left) } else { 1.0 };
        let left = pace(elapsed.get(), new, left);
        Outlook { done: share, left, cells: progress.len(), unfinished }
    }
}

/// Returns the time that the amount `left` takes if the amount `new` took `spent` nanoseconds.
fn pace(spent: u64, new: f64, left: f64) -> Option<Nanos> {
    (new > 0.0).then(|| Nanos::new((spent as f64 * left / new) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(valid: u32, given_up: bool) -> CellProgress {
        CellProgress { valid, attempts: valid, asked: 100, given_up, impossible: false }
    }

    fn second(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn the_whole_is_forecast_by_work_and_a_cell_by_its_own_pace() {
        // A sample of the second cell takes three times as long.
        let costs = vec![Nanos::from_millis(10), Nanos::from_millis(30)];
        let mut forecast = Forecast::new(costs, &[cell(0, false), cell(0, false)]);
        let outlook = forecast.look(second(1), &[cell(50, false), cell(20, false)], &[100, 100]);
        // Work done 500 + 600 of 4,000; the rest at that pace: 2,900 / 1,100 s.
        assert!((outlook.done - 0.275).abs() < 1e-12);
        assert_eq!(outlook.left, Some(Nanos::new(2_636_363_636)));
        let [first, second_] = outlook.unfinished.try_into().unwrap();
        assert_eq!((first.cell, first.left), (1, Some(second(4))));
        assert_eq!((second_.cell, second_.left), (0, Some(second(1))));
    }

    #[test]
    fn a_cell_of_a_later_load_is_not_forecast_by_the_time_before_its_load() {
        let costs = vec![Nanos::from_millis(10); 2];
        let mut forecast = Forecast::new(costs, &[cell(0, false), cell(0, false)]);
        let early = forecast.look(second(10), &[cell(100, false), cell(0, false)], &[100, 100]);
        assert_eq!(early.unfinished[0].left, None);
        assert_eq!(early.left, Some(second(10)));
        let later = forecast.look(second(12), &[cell(100, false), cell(50, false)], &[100, 100]);
        assert_eq!(later.unfinished[0].left, Some(second(2)));
    }

    #[test]
    fn what_an_earlier_run_took_counts_as_done_but_not_for_the_pace() {
        let mut forecast = Forecast::new(vec![Nanos::from_millis(10)], &[cell(80, false)]);
        let outlook = forecast.look(second(5), &[cell(90, false)], &[100]);
        assert!((outlook.done - 0.9).abs() < 1e-12);
        assert_eq!(outlook.left, Some(second(5)));
    }

    #[test]
    fn a_cell_that_was_given_up_is_not_waited_for() {
        let costs = vec![Nanos::from_millis(10); 2];
        let mut forecast = Forecast::new(costs, &[cell(0, false), cell(0, false)]);
        let outlook = forecast.look(second(1), &[cell(100, false), cell(3, true)], &[100, 100]);
        assert_eq!((outlook.unfinished.len(), outlook.left), (0, Some(Nanos::new(0))));
        assert!((outlook.done - 1.0).abs() < 1e-12);
    }

    #[test]
    fn before_the_first_sample_nothing_is_forecast() {
        let mut forecast = Forecast::new(vec![Nanos::from_millis(10)], &[cell(0, false)]);
        let outlook = forecast.look(second(3), &[cell(0, false)], &[100]);
        assert_eq!((outlook.done, outlook.left), (0.0, None));
    }

    #[test]
    fn cells_that_lack_most_work_come_first_and_equal_ones_by_their_number() {
        let costs = vec![Nanos::from_millis(10), Nanos::from_millis(30), Nanos::from_millis(10)];
        let start = [cell(0, false), cell(0, false), cell(0, false)];
        let mut forecast = Forecast::new(costs, &start);
        let now = [cell(40, false), cell(90, false), cell(40, false)];
        let outlook = forecast.look(second(1), &now, &[100, 100, 100]);
        let order: Vec<(usize, u32, u32)> =
            outlook.unfinished.iter().map(|it| (it.cell, it.valid, it.target)).collect();
        assert_eq!(order, [(0, 40, 100), (2, 40, 100), (1, 90, 100)]);
        // 400 + 2,700 + 400 of 5,000, and what is beyond a target counts as its target.
        assert!((outlook.done - 0.7).abs() < 1e-12);
        let beyond = forecast.look(second(1), &[cell(500, false); 3], &[100, 100, 100]);
        assert!((beyond.done - 1.0).abs() < 1e-12 && beyond.unfinished.is_empty());
        let nothing = Forecast::new(Vec::new(), &[]).look(second(1), &[], &[]);
        assert_eq!((nothing.done, nothing.left, nothing.cells), (1.0, None, 0));
    }
}
