// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enough samples, and no more: which cells get how many samples next.

use crate::model::sequential::{Decided, Precision, decided};
use crate::samples::Observation;

/// What a campaign is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// As many valid samples of each cell as the experiment asks for.
    Count,
    /// Every cell's median delay this precisely, relative to its warm touch.
    Precision(Precision),
    /// Nothing in particular: go on until somebody ends it, the worst cells first.
    Time,
}

/// The most jobs in a block: some minutes of work between two looks.
const MOST_PER_BLOCK: u32 = 20_000;

/// The samples of a cell before its precision is looked at for the first time.
const FIRST_LOOK: u32 = 40;

/// How many attempts per valid sample asked for are made before a cell is given up.
const MOST_ATTEMPTS: u32 = 4;

#[derive(Debug, Clone, Default)]
struct CellState {
    asked: u32,
    attempts: u32,
    values: Vec<f64>,
    scales: f64,
}

impl CellState {
    fn valid(&self) -> u32 {
        self.values.len() as u32
    }

    fn given_up(&self) -> bool {
        self.attempts >= MOST_ATTEMPTS * self.asked.max(FIRST_LOOK)
    }

    /// How many more valid samples a fixed count takes.
    fn missing(&self) -> u32 {
        if self.given_up() { 0 } else { self.asked.saturating_sub(self.valid()) }
    }

    /// The half width of the median's interval relative to the scale, and the samples it will take.
    fn precision(&self, precision: Precision) -> (f64, u32) {
        let scale = self.scales / f64::from(self.valid().max(1));
        match decided(&self.values, scale, precision) {
            Ok(Decided::Yes { plus_minus, .. }) => (plus_minus, 0),
            Ok(Decided::No { plus_minus, projected_more }) => {
                // A projection from few samples is rough: at most double what there is.
                let more = u32::try_from(projected_more).unwrap_or(u32::MAX);
                (plus_minus.unwrap_or(f64::INFINITY), more.min(self.valid().max(FIRST_LOOK)))
            }
            Err(_) => (f64::INFINITY, FIRST_LOOK),
        }
    }
}

/// The state of a campaign: what each cell has, and what it is to reach.
#[derive(Debug, Clone)]
pub struct Campaign {
    goal: Goal,
    cells: Vec<CellState>,
}

/// How far a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellProgress {
    /// Valid samples.
    pub valid: u32,
    /// Samples taken.
    pub attempts: u32,
    /// Samples asked for.
    pub asked: u32,
    /// Whether it gets no more although it lacks some.
    pub given_up: bool,
}

impl Campaign {
    /// A campaign for cells of which so many samples are asked.
    pub fn new(asked: &[u32], goal: Goal) -> Self {
        let cell = |&asked: &u32| CellState { asked, ..CellState::default() };
        Self { goal, cells: asked.iter().map(cell).collect() }
    }

    /// Enters a sample.
    pub fn note(&mut self, observation: Observation) {
        let Some(cell) = self.cells.get_mut(observation.cell as usize) else { return };
        cell.attempts += 1;
        if observation.valid {
            cell.values.push(observation.value_ns);
            cell.scales += observation.scale_ns;
        }
    }

    /// How many samples of each cell to take next; none of any: the goal is reached, or out of reach.
    pub fn next(&self) -> Vec<u32> {
        match self.goal {
            Goal::Count => self.rounds(CellState::missing),
            Goal::Precision(precision) => self.rounds(|cell| cell.more_for(precision)),
            Goal::Time => self.worst_first(),
        }
    }

    /// What `wanted` says, cut down evenly where it is more than a block.
    fn rounds(&self, wanted: impl Fn(&CellState) -> u32) -> Vec<u32> {
        let wanted: Vec<u32> = self.cells.iter().map(wanted).collect();
        let unfinished = wanted.iter().filter(|&&more| more > 0).count() as u32;
        let each = (MOST_PER_BLOCK / unfinished.max(1)).max(1);
        wanted.into_iter().map(|more| more.min(each)).collect()
    }

    /// First as asked; then the worse half of the cells gets as many again as their first look.
    fn worst_first(&self) -> Vec<u32> {
        let first = self.rounds(CellState::missing);
        if first.iter().any(|&more| more > 0) {
            return first;
        }
        let aim = Precision { relative: f64::MIN_POSITIVE, alpha: 0.05 };
        // A cell that yields nothing is not the worst one, but a lost one.
        let width = |cell: &CellState| (!cell.hopeless()).then(|| cell.precision(aim).0);
        let widths: Vec<Option<f64>> = self.cells.iter().map(width).collect();
        let mut sorted: Vec<f64> = widths.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let more =
            |width: &Option<f64>| if width.is_some_and(|it| it >= middle) { FIRST_LOOK } else { 0 };
        widths.iter().map(more).collect()
    }

    /// How many valid samples each cell is to have: as many as asked for, or, where only the samples
    /// will tell how many are enough, what it has and the `quota` of the next block.
    pub fn targets(&self, quota: &[u32]) -> Vec<u32> {
        let of = |(cell, &more): (&CellState, &u32)| match self.goal {
            Goal::Count => cell.asked,
            Goal::Precision(_) | Goal::Time => cell.valid() + more,
        };
        self.cells.iter().zip(quota).map(of).collect()
    }

    /// How many cells lack samples that were asked for.
    pub fn lacking(&self) -> usize {
        self.cells.iter().filter(|cell| cell.valid() < cell.asked).count()
    }

    /// How far each cell is.
    pub fn progress(&self) -> Vec<CellProgress> {
        let of = |cell: &CellState| CellProgress {
            valid: cell.valid(),
            attempts: cell.attempts,
            asked: cell.asked,
            given_up: cell.given_up() && cell.valid() < cell.asked,
        };
        self.cells.iter().map(of).collect()
    }
}

impl CellState {
    /// Whether hardly any of its samples is valid.
    fn hopeless(&self) -> bool {
        self.attempts > FIRST_LOOK && self.valid() * MOST_ATTEMPTS < self.attempts
    }

    /// How many more samples a precision takes.
    fn more_for(&self, precision: Precision) -> u32 {
        match self.valid() {
            _ if self.hopeless() => 0,
            few if few < FIRST_LOOK => FIRST_LOOK - few,
            _ => self.precision(precision).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cell: u64, valid: bool, value_ns: f64) -> Observation {
        Observation { cell, valid, value_ns, scale_ns: 100.0 }
    }

    #[test]
    fn what_is_not_valid_is_taken_again_until_the_count_is_reached() {
        let mut campaign = Campaign::new(&[3, 2], Goal::Count);
        assert_eq!(campaign.next(), [3, 2]);
        for valid in [true, false, true] {
            campaign.note(of(0, valid, 1.0));
        }
        assert_eq!(campaign.next(), [1, 2]);
        campaign.note(of(0, true, 1.0));
        campaign.note(of(1, true, 1.0));
        campaign.note(of(1, true, 1.0));
        assert_eq!(campaign.next(), [0, 0]);
    }

    #[test]
    fn a_target_is_what_was_asked_for_or_else_what_the_next_block_adds() {
        for (goal, targets) in [
            (Goal::Count, [3, 2]),
            (Goal::Precision(Precision { relative: 0.05, alpha: 0.05 }), [8, 1]),
            (Goal::Time, [8, 1]),
        ] {
            let mut campaign = Campaign::new(&[3, 2], goal);
            campaign.note(of(0, true, 1.0));
            campaign.note(of(1, false, 1.0));
            assert_eq!(campaign.targets(&[7, 1]), targets);
        }
    }

    #[test]
    fn a_cell_that_yields_nothing_is_given_up_and_says_so() {
        let mut campaign = Campaign::new(&[100], Goal::Count);
        for _ in 0..400 {
            campaign.note(of(0, false, 1.0));
        }
        assert_eq!(campaign.next(), [0]);
        assert!(campaign.progress()[0].given_up);
    }

    #[test]
    fn a_block_is_shared_evenly_where_more_is_asked_than_it_holds() {
        let campaign = Campaign::new(&[50_000, 50_000, 10], Goal::Count);
        assert_eq!(campaign.next(), [6_666, 6_666, 10]);
    }

    #[test]
    fn a_precise_cell_is_done_and_a_scattered_one_goes_on() {
        let aim = Precision { relative: 0.05, alpha: 0.05 };
        let mut campaign = Campaign::new(&[1, 1], Goal::Precision(aim));
        assert_eq!(campaign.next(), [FIRST_LOOK, FIRST_LOOK]);
        for i in 0..FIRST_LOOK {
            campaign.note(of(0, true, 50.0));
            campaign.note(of(1, true, f64::from(i * 7919 % 400)));
        }
        let next = campaign.next();
        assert!(next[0] == 0 && next[1] > 0, "{next:?}");
    }

    #[test]
    fn with_time_to_spend_the_worse_half_gets_it() {
        let mut campaign = Campaign::new(&[40, 40, 40, 40], Goal::Time);
        for cell in 0..4 {
            for i in 0..40 {
                campaign.note(of(cell, true, f64::from(i * 7919 % (10 << cell))));
            }
        }
        assert_eq!(campaign.next(), [0, 0, FIRST_LOOK, FIRST_LOOK]);
    }
}
