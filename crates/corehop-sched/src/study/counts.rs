// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of a whole study, or of some of its sets.

use super::breakdown::WHOLE;
use super::shard::{Shard, Shards};
use super::tally::{SetMoments, ShareEstimate};
use super::{Crossover, Measure, SchedulabilityStudy, StudyReading};
use corehop_plan::workload::task::Time;

/// The counts of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyCounts {
    /// The study that was counted.
    pub study: SchedulabilityStudy,
    /// The shards of the study that were counted.
    pub shards: Shards,
    /// The counts of each reading, in order.
    pub(super) readings: Vec<ReadingCounts>,
}

/// The counts of one reading. The compared pairs follow from the reading alone, so the counts of one study can be
/// added index by index.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReadingCounts {
    /// The number of schedulable sets, or the breakdown utilisations of the sets, by scheduler, delay and cap.
    pub(super) cells: Vec<SetMoments>,
    /// The weights of the caps at which the set is schedulable, or the mean breakdown utilisation over the caps, by
    /// scheduler and delay.
    pub(super) weighted: Vec<SetMoments>,
    /// The difference of both schedulers' weights for one stream, by crossover and step.
    pub(super) differences: Vec<SetMoments>,
}

/// The reason why counts cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StudyCountsError {
    /// The counts are from different studies, seeds or numbers of sets.
    #[error("the shards belong to different studies: {0}")]
    Different(String),
    /// Two shards have sets in common.
    #[error("the shards {0} and {1} have sets in common: pass each shard once")]
    Overlap(Shard, Shard),
    /// There are no counts to add.
    #[error("there are no shards to merge: name at least one shard")]
    Nothing,
}

impl StudyReading {
    /// The largest number that one set can add to a cell.
    pub(super) fn scale(&self) -> u64 {
        match self.measure {
            Measure::Schedulability => 1,
            Measure::Breakdown => WHOLE,
        }
    }
    /// The largest weighted number of one set.
    pub(super) fn weighted_scale(&self) -> u64 {
        match self.measure {
            Measure::Schedulability => self.caps.whole(),
            Measure::Breakdown => WHOLE,
        }
    }
    /// The delays at which a crossover is evaluated.
    pub(super) fn steps(&self, crossover: &Crossover) -> Vec<Time> {
        let last = self.delays.last().copied().unwrap_or(Time::ZERO);
        (0..=last / crossover.step_us).map(|step| step * crossover.step_us).collect()
    }
    fn scheduler(&self, name: &str) -> Option<usize> {
        self.schedulers.iter().position(|scheduler| scheduler.name == name)
    }
    fn delay(&self, delay: Time) -> Option<usize> {
        self.delays.binary_search(&delay).ok()
    }
}

impl StudyCounts {
    /// Adds the counts of another part of the study.
    ///
    /// # Errors
    /// Returns [`StudyCountsError`] if the part belongs to another study, or contains sets that are already counted.
    pub fn merge(&mut self, other: &Self) -> Result<(), StudyCountsError> {
        let (a, b) = (&self.study, &other.study);
        if a != b {
            let what = if (a.seed, a.sets) == (b.seed, b.sets) {
                format!("the descriptions of {} and {} differ", a.id, b.id)
            } else {
                format!(
                    "one study has {} sets of seed {}, the other has {} sets of seed {}",
                    a.sets, a.seed, b.sets, b.seed
                )
            };
            return Err(StudyCountsError::Different(what));
        }
        self.shards =
            self.shards.with(&other.shards).map_err(|(a, b)| StudyCountsError::Overlap(a, b))?;
        for (own, more) in self.readings.iter_mut().zip(&other.readings) {
            own.merge(more);
        }
        Ok(())
    }

    /// Adds the counts of all parts.
    ///
    /// # Errors
    /// Returns the errors of [`StudyCounts::merge`], and an error if there are no parts.
    pub fn merged(parts: impl IntoIterator<Item = Self>) -> Result<Self, StudyCountsError> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().ok_or(StudyCountsError::Nothing)?;
        for part in parts {
            all.merge(&part)?;
        }
        Ok(all)
    }

    /// Whether every set of the study is counted.
    pub fn is_whole(&self) -> bool {
        self.shards.is_whole()
    }

    /// The number of sets counted at each cap.
    pub fn sets(&self) -> u64 {
        self.shards.sets(self.study.sets)
    }

    /// Returns the schedulability S(U, D_c), which is the share of schedulable sets or the mean breakdown utilisation,
    /// by the indexes of reading, scheduler, delay and cap. Returns `None` if no set is counted or an index is out of
    /// range.
    pub fn schedulability(
        &self,
        reading: usize,
        scheduler: usize,
        delay: usize,
        cap: usize,
    ) -> Option<ShareEstimate> {
        let (about, counts) = (self.study.readings.get(reading)?, self.readings.get(reading)?);
        let at = (scheduler * about.delays.len() + delay) * about.caps.len() + cap;
        let tally = counts.cells.get(at)?;
        match about.measure {
            Measure::Schedulability => tally.share(),
            Measure::Breakdown => tally.mean_of(WHOLE),
        }
    }

    /// Returns the weighted schedulability W(D_c), or the mean breakdown utilisation, by the indexes of reading,
    /// scheduler and delay.
    pub fn weighted(
        &self,
        reading: usize,
        scheduler: usize,
        delay: usize,
    ) -> Option<ShareEstimate> {
        let about = self.study.readings.get(reading)?;
        let at = scheduler * about.delays.len() + delay;
        self.readings.get(reading)?.weighted.get(at)?.mean_of(about.weighted_scale())
    }

    /// Returns the weighted schedulability W of a scheduler at a delay, by the names of reading and scheduler.
    pub fn weighted_of(
        &self,
        reading: usize,
        scheduler: &str,
        delay: Time,
    ) -> Option<ShareEstimate> {
        let about = self.study.readings.get(reading)?;
        self.weighted(reading, about.scheduler(scheduler)?, about.delay(delay)?)
    }
}

impl ReadingCounts {
    /// Adds other counts of this reading.
    pub(super) fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.cells, &other.cells),
            (&mut self.weighted, &other.weighted),
            (&mut self.differences, &other.differences),
        ];
        for (own, more) in pairs {
            own.iter_mut().zip(more).for_each(|(own, more)| own.merge(*more));
        }
    }
}
