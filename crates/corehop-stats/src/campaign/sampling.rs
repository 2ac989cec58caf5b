// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides how many samples each cell gets in each replicate, so that a run takes enough samples and no
//! more.
//!
//! The replicate is the unit of sampling. A requested number of samples is spread over the requested
//! replicates. A requested precision is judged by the medians of the replicates. If they do not suffice,
//! corehop takes more replicates, each with the number of samples that pays. Kalibera and Jones (ISMM
//! 2013, section 6.1) weigh the cost of a replicate against the cost of a further sample by the variance
//! at each level.

use crate::moments::variance;
use crate::ordered::Ordered;
use crate::quantile::median;
use crate::sequential::{Precision, StoppingDecision, decided};
use corehop_plan::experiment::share;
use corehop_plan::samples::RowObservation;

/// The goal at which a campaign ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The campaign takes the requested number of valid samples of each cell.
    Count,
    /// The campaign takes samples until the median delay of every cell has this precision, relative to its
    /// warm touch.
    Precision(Precision),
    /// The campaign has no goal and continues until the time is used up; the worst cells come first.
    Time,
}

/// The largest number of jobs in a block; such a block takes some minutes, and the campaign decides only
/// between blocks.
const MOST_PER_BLOCK: u32 = 20_000;

/// The number of samples of a cell after which its precision is judged for the first time.
const FIRST_LOOK: u32 = 40;

/// The number of attempts for each requested valid sample after which a cell is given up.
const MOST_ATTEMPTS: u32 = 4;

/// The number of attempts after which a cell without any measured value is given up.
const MOST_UNMEASURED: u32 = 5;

/// The cost of starting a replicate (threads, memory, a load that settles), in samples of a cell.
const REPLICATE_COST: f64 = 8.0;

/// The smallest and the largest number of a cell's samples in a replicate that is added for precision.
const IN_A_REPLICATE: [f64; 2] = [4.0, 40.0];

/// The next round of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingRound {
    /// The replicate of the round, counted from 0.
    pub replicate: u32,
    /// The number of samples of each cell.
    pub quota: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
struct CellState {
    asked: u32,
    attempts: u32,
    /// The number of attempts that yielded a value, valid or not.
    measured: u32,
    /// The valid samples by replicate, for replicates that have valid samples.
    replicates: Vec<(u64, Vec<f64>)>,
    scales: f64,
}

impl CellState {
    fn valid(&self) -> u32 {
        self.replicates.iter().map(|(_, values)| values.len() as u32).sum()
    }

    fn note(&mut self, observation: RowObservation) {
        self.attempts += 1;
        self.measured += u32::from(observation.measured);
        if !observation.valid {
            return;
        }
        self.scales += observation.scale_ns;
        let number = observation.replicate.unwrap_or(0);
        match self.replicates.iter_mut().find(|(known, _)| *known == number) {
            Some((_, values)) => values.push(observation.value_ns),
            None => self.replicates.push((number, vec![observation.value_ns])),
        }
    }

    fn given_up(&self) -> bool {
        self.is_impossible() || self.attempts >= MOST_ATTEMPTS * self.asked.max(FIRST_LOOK)
    }

    /// Returns whether several attempts were made and none yielded a value.
    const fn is_impossible(&self) -> bool {
        self.measured == 0 && self.attempts >= MOST_UNMEASURED
    }

    /// Returns the number of further valid samples that the cell needs to have `wanted` valid samples.
    fn missing(&self, wanted: u32) -> u32 {
        if self.given_up() { 0 } else { wanted.saturating_sub(self.valid()) }
    }

    /// Returns the medians of the replicates of the cell.
    fn medians(&self) -> Vec<f64> {
        let of = |values: &Vec<f64>| Ordered::new(values).ok().map(|values| median(&values));
        self.replicates.iter().filter_map(|(_, values)| of(values)).collect()
    }

    /// Returns the half width of the median's interval relative to the scale, and whether it is narrow
    /// enough.
    fn precision(&self, precision: Precision) -> (f64, bool) {
        let scale = self.scales / f64::from(self.valid().max(1));
        match decided(&self.medians(), scale, precision) {
            Ok(StoppingDecision::Yes { plus_minus, .. }) => (plus_minus, true),
            Ok(StoppingDecision::No { plus_minus, .. }) => {
                (plus_minus.unwrap_or(f64::INFINITY), false)
            }
            Err(_) => (f64::INFINITY, false),
        }
    }

    /// Returns the number of samples that are worth taking in a further replicate, which is
    /// `sqrt(c_replicate/c_sample · within/between)`.
    fn worthwhile(&self) -> u32 {
        let several = self.replicates.iter().map(|(_, values)| values).filter(|it| it.len() > 1);
        let within: Vec<f64> = several.map(|values| variance(values)).collect();
        let [fewest, most] = IN_A_REPLICATE;
        if within.is_empty() {
            return fewest as u32;
        }
        let within = within.iter().sum::<f64>() / within.len() as f64;
        let mean_size = f64::from(self.valid()) / self.replicates.len() as f64;
        // What the medians vary beyond what their own samples make them vary.
        let between = variance(&self.medians()) - within / mean_size;
        let best = (REPLICATE_COST * within / between.max(within * 1e-6)).sqrt();
        if best.is_finite() { best.clamp(fewest, most) as u32 } else { fewest as u32 }
    }

    /// Returns whether hardly any sample of the cell is valid.
    fn hopeless(&self) -> bool {
        self.is_impossible()
            || self.attempts > FIRST_LOOK && self.valid() * MOST_ATTEMPTS < self.attempts
    }
}

/// The state of a campaign: the samples that each cell has, and the goal.
#[derive(Debug, Clone)]
pub struct Campaign {
    goal: Goal,
    replicates: u32,
    /// The share of the requested samples that the planned replicates take, so that all replicates fit
    /// into the budget.
    pace: f64,
    /// The number of replicates that have begun.
    begun: u32,
    /// Whether the replicate in progress takes more blocks.
    under_way: bool,
    cells: Vec<CellState>,
}

/// The progress of a cell in its campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellProgress {
    /// The number of valid samples that the cell has.
    pub valid: u32,
    /// The number of samples that were taken for the cell.
    pub attempts: u32,
    /// The number of samples that the plan requested for the cell.
    pub asked: u32,
    /// Whether the cell gets no further samples although some are missing.
    pub given_up: bool,
    /// Whether the cell was given up because no attempt yielded a value.
    pub impossible: bool,
}

impl Campaign {
    /// Makes a campaign for cells with the given requested numbers of samples, in `replicates` replicates.
    pub fn new(asked: &[u32], replicates: u32, goal: Goal) -> Self {
        let cell = |&asked: &u32| CellState { asked, ..CellState::default() };
        Self {
            goal,
            replicates: replicates.max(1),
            pace: 1.0,
            begun: 0,
            under_way: false,
            cells: asked.iter().map(cell).collect(),
        }
    }

    /// Returns the campaign with only the share `share` of the samples in its replicates, so that all
    /// replicates fit into a budget; further replicates add the missing samples while time remains.
    #[must_use]
    pub fn paced(self, share: f64) -> Self {
        Self { pace: share.clamp(0.0, 1.0), ..self }
    }

    /// Adds a sample to the campaign. A sample from an earlier part of the run ends its replicate.
    pub fn note(&mut self, observation: RowObservation) {
        let Some(cell) = self.cells.get_mut(observation.cell as usize) else { return };
        cell.note(observation);
        if let Some(number) = observation.replicate {
            self.begun = self.begun.max(u32::try_from(number).unwrap_or(u32::MAX - 1) + 1);
        }
    }

    /// Returns the number of replicates that have begun.
    pub const fn begun(&self) -> u32 {
        self.begun
    }

    /// Returns the next round, or `None` if the goal is reached or cannot be reached.
    pub fn next_round(&mut self) -> Option<SamplingRound> {
        loop {
            let replicate = if self.under_way { self.begun.saturating_sub(1) } else { self.begun };
            let wanted = self.wanted(replicate);
            let planned = replicate + 1 < self.replicates;
            if wanted.iter().all(|&more| more == 0) {
                self.under_way = false;
                if !planned {
                    return None;
                }
                // Nothing is left to do in this one.
                self.begun = replicate + 1;
                continue;
            }
            let each = most_each(&wanted);
            self.begun = replicate + 1;
            // What did not fit into the block goes on in the same replicate, and so does the last one
            // until every cell has what it was asked for.
            self.under_way = wanted.iter().any(|&more| more > each) || self.stays(replicate);
            let quota = wanted.into_iter().map(|more| more.min(each)).collect();
            return Some(SamplingRound { replicate, quota });
        }
    }

    /// Returns whether invalid samples of this replicate are repeated in the same replicate, as in the
    /// last replicate if the goal is a count.
    fn stays(&self, replicate: u32) -> bool {
        self.goal == Goal::Count && self.pace >= 1.0 && replicate + 1 >= self.replicates
    }

    /// Returns the number of samples of each cell to take in this replicate.
    fn wanted(&self, replicate: u32) -> Vec<u32> {
        let of = |cell: &CellState| match self.goal {
            _ if replicate < self.replicates => {
                let first = match self.goal {
                    Goal::Precision(_) => cell.asked.min(FIRST_LOOK).max(self.replicates),
                    Goal::Count | Goal::Time => self.at_this_pace(cell),
                };
                if cell.hopeless() && self.goal != Goal::Count {
                    return 0;
                }
                cell.missing(share(first, replicate + 1, self.replicates))
            }
            Goal::Count | Goal::Time if cell.missing(cell.asked) > 0 => {
                let usual = share(self.at_this_pace(cell), 1, self.replicates);
                cell.missing(cell.asked).min(usual.max(1))
            }
            Goal::Precision(precision) if !cell.hopeless() && !cell.precision(precision).1 => {
                cell.worthwhile()
            }
            _ => 0,
        };
        let wanted: Vec<u32> = self.cells.iter().map(of).collect();
        let done = wanted.iter().all(|&more| more == 0);
        if done && self.goal == Goal::Time && replicate >= self.replicates {
            return self.worst_first();
        }
        wanted
    }

    /// Returns the number of a cell's samples that the planned replicates take together; at least one in
    /// each replicate.
    fn at_this_pace(&self, cell: &CellState) -> u32 {
        let paced = (f64::from(cell.asked) * self.pace).ceil() as u32;
        paced.max(self.replicates).min(cell.asked)
    }

    /// Adds a replicate for the worse half of the cells.
    fn worst_first(&self) -> Vec<u32> {
        let aim = Precision { relative: f64::MIN_POSITIVE, alpha: 0.05 };
        // A cell that yields nothing is not the worst one, but a lost one.
        let width = |cell: &CellState| (!cell.hopeless()).then(|| cell.precision(aim).0);
        let widths: Vec<Option<f64>> = self.cells.iter().map(width).collect();
        let mut sorted: Vec<f64> = widths.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let more = |(cell, width): (&CellState, &Option<f64>)| {
            if width.is_some_and(|it| it >= middle) { cell.worthwhile() } else { 0 }
        };
        self.cells.iter().zip(&widths).map(more).collect()
    }

    /// Returns the intended number of valid samples of each cell: the requested number if the goal is a
    /// count, or else the number that the cell has plus the `quota` of the next block.
    pub fn targets(&self, quota: &[u32]) -> Vec<u32> {
        let of = |(cell, &more): (&CellState, &u32)| match self.goal {
            Goal::Count => cell.asked,
            Goal::Precision(_) | Goal::Time => cell.valid() + more,
        };
        self.cells.iter().zip(quota).map(of).collect()
    }

    /// Returns the number of cells that lack requested samples.
    pub fn lacking(&self) -> usize {
        self.cells.iter().filter(|cell| cell.valid() < cell.asked).count()
    }

    /// Returns the progress of each cell of the campaign.
    pub fn progress(&self) -> Vec<CellProgress> {
        let of = |cell: &CellState| CellProgress {
            valid: cell.valid(),
            attempts: cell.attempts,
            asked: cell.asked,
            given_up: cell.given_up() && cell.valid() < cell.asked,
            impossible: cell.is_impossible(),
        };
        self.cells.iter().map(of).collect()
    }
}

/// Returns the largest number of a cell's samples in a block, if more samples are wanted than fit into a
/// block.
fn most_each(wanted: &[u32]) -> u32 {
    let unfinished = wanted.iter().filter(|&&more| more > 0).count() as u32;
    (MOST_PER_BLOCK / unfinished.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cell: u64, valid: bool, value_ns: f64, replicate: u32) -> RowObservation {
        let replicate = Some(u64::from(replicate));
        RowObservation { cell, valid, measured: true, value_ns, scale_ns: 100.0, replicate }
    }

    /// Runs a campaign whose samples come out as `value` says, and returns its rounds.
    fn carry_out(
        campaign: &mut Campaign,
        most: usize,
        mut value: impl FnMut(usize, u32) -> Option<f64>,
    ) -> Vec<SamplingRound> {
        let mut rounds = Vec::new();
        while let Some(round) = campaign.next_round().filter(|_| rounds.len() < most) {
            for (cell, &quota) in round.quota.iter().enumerate() {
                for _ in 0..quota {
                    let value = value(cell, round.replicate);
                    let (valid, ns) = (value.is_some(), value.unwrap_or_default());
                    campaign.note(of(cell as u64, valid, ns, round.replicate));
                }
            }
            rounds.push(round);
        }
        rounds
    }

    #[test]
    fn a_count_is_spread_evenly_over_the_replicates() {
        let mut campaign = Campaign::new(&[40, 25], 10, Goal::Count);
        let rounds = carry_out(&mut campaign, 99, |_, _| Some(1.0));
        let numbers: Vec<u32> = rounds.iter().map(|round| round.replicate).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        assert!(rounds.iter().all(|round| round.quota[0] == 4));
        assert!(rounds.iter().all(|round| (2..=3).contains(&round.quota[1])));
        assert_eq!(rounds.iter().map(|round| round.quota[1]).sum::<u32>(), 25);
        assert_eq!(campaign.next_round(), None);
    }

    #[test]
    fn what_is_not_valid_is_made_up_for_in_the_next_replicate_and_at_last_in_the_last() {
        let mut campaign = Campaign::new(&[4], 2, Goal::Count);
        let mut taken = 0;
        let rounds = carry_out(&mut campaign, 99, |_, _| {
            taken += 1;
            (taken > 1 && taken != 3).then_some(1.0)
        });
        let quotas: Vec<(u32, u32)> =
            rounds.iter().map(|round| (round.replicate, round.quota[0])).collect();
        assert_eq!(quotas, [(0, 2), (1, 3), (1, 1)]);
    }

    #[test]
    fn a_cell_with_fewer_samples_than_replicates_is_in_some_of_them() {
        let mut campaign = Campaign::new(&[3, 10], 10, Goal::Count);
        let rounds = carry_out(&mut campaign, 99, |_, _| Some(1.0));
        assert_eq!(rounds.len(), 10);
        assert_eq!(rounds.iter().filter(|round| round.quota[0] == 1).count(), 3);
    }

    #[test]
    fn a_target_is_what_was_asked_for_or_else_what_the_next_block_adds() {
        for (goal, targets) in [
            (Goal::Count, [3, 2]),
            (Goal::Precision(Precision { relative: 0.05, alpha: 0.05 }), [8, 1]),
            (Goal::Time, [8, 1]),
        ] {
            let mut campaign = Campaign::new(&[3, 2], 1, goal);
            campaign.note(of(0, true, 1.0, 0));
            campaign.note(of(1, false, 1.0, 0));
            assert_eq!(campaign.targets(&[7, 1]), targets);
        }
    }

    #[test]
    fn a_cell_that_yields_nothing_is_given_up_and_says_so() {
        let mut campaign = Campaign::new(&[100], 10, Goal::Count);
        let rounds = carry_out(&mut campaign, 999, |_, _| None);
        assert!(rounds.len() < 99 && campaign.progress()[0].given_up);
    }

    #[test]
    fn a_cell_that_cannot_be_measured_is_tried_a_few_times_whatever_the_goal() {
        let precision = Goal::Precision(Precision { relative: 0.05, alpha: 0.05 });
        for goal in [Goal::Count, Goal::Time, precision] {
            let mut campaign = Campaign::new(&[30, 30], 10, goal);
            for _ in 0..40 {
                let Some(round) = campaign.next_round() else { break };
                for (cell, &quota) in (0..).zip(&round.quota) {
                    for _ in 0..quota {
                        let observation = of(cell, cell == 0, 1.0, round.replicate);
                        campaign.note(RowObservation { measured: cell == 0, ..observation });
                    }
                }
            }
            let [measured, lost] = &campaign.progress()[..] else { panic!() };
            assert!(lost.impossible && lost.given_up && !measured.given_up, "{goal:?}");
            // What the first replicates had planned when the fifth attempt failed is carried out.
            assert!(
                lost.attempts < 3 * MOST_UNMEASURED && measured.valid >= 30,
                "{goal:?} {lost:?}"
            );
        }
    }

    #[test]
    fn a_block_is_shared_evenly_and_goes_on_in_the_same_replicate() {
        let mut campaign = Campaign::new(&[50_000, 50_000, 10], 1, Goal::Count);
        let first = campaign.next_round().unwrap();
        assert_eq!(first, SamplingRound { replicate: 0, quota: vec![6_666, 6_666, 10] });
        assert_eq!(campaign.next_round().unwrap().replicate, 0);
    }

    #[test]
    fn a_resumed_run_begins_with_a_replicate_of_its_own() {
        let mut campaign = Campaign::new(&[40], 10, Goal::Count);
        (0..6).for_each(|_| campaign.note(of(0, true, 1.0, 1)));
        let round = campaign.next_round().unwrap();
        assert_eq!((round.replicate, round.quota[0]), (2, 6));
    }

    #[test]
    fn precision_takes_more_replicates_of_the_cell_whose_replicates_differ() {
        let aim = Precision { relative: 0.05, alpha: 0.05 };
        let mut campaign = Campaign::new(&[40, 40], 10, Goal::Precision(aim));
        let scatter = |number: u32| f64::from(number * 7919 % 97);
        let mut taken = 0;
        let rounds = carry_out(&mut campaign, 30, |cell, replicate| {
            taken += 1;
            // The second cell is alike within a replicate, and differs between them.
            Some(if cell == 0 { 50.0 + f64::from(taken % 3) } else { scatter(replicate) })
        });
        let after = &rounds[20];
        assert!(after.replicate == 20 && after.quota[0] == 0 && after.quota[1] > 0, "{after:?}");
        assert!(after.quota[1] < 10, "more samples of a replicate would say little: {after:?}");
    }

    #[test]
    fn with_time_to_spend_the_worse_half_gets_it() {
        let mut campaign = Campaign::new(&[40, 40, 40, 40], 10, Goal::Time);
        let mut taken = 0;
        let rounds = carry_out(&mut campaign, 40, |cell, _| {
            taken += 1;
            Some(f64::from(taken * 7919 % (10 << cell)))
        });
        let last = &rounds[39];
        assert!(last.quota[0] == 0 && last.quota[3] > 0 && last.replicate == 39, "{last:?}");
    }

    #[test]
    fn a_short_budget_gives_every_replicate_less_rather_than_losing_some() {
        let mut campaign = Campaign::new(&[100, 100], 10, Goal::Time).paced(0.2);
        let rounds = carry_out(&mut campaign, 10, |_, _| Some(1.0));
        assert!(rounds.iter().all(|round| round.quota == [2, 2]), "{rounds:?}");
        assert!(campaign.begun() >= 10);
        // Time is left: what is missing comes in further replicates.
        assert!(campaign.next_round().unwrap().replicate >= 10);
    }
}
