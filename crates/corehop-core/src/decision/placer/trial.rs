// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a placement pays: stretches with and without it, in turns, and the progress in each.
//!
//! A pair of stretches is one of each kind; which comes first changes from pair to pair (ABBA), so that what drifts falls
//! on both alike. The first window after a change is not counted. The statistic is the median of the pairs' log ratios,
//! with an interval from its order statistics, which assumes nothing of the law.

use serde::{Deserialize, Serialize};

use crate::model::ordered::Ordered;
use crate::model::quantile::{median, median_interval};

/// One of the two kinds of stretches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Left alone.
    Before,
    /// Placed.
    Placed,
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The pairs of stretches.
    pub pairs: usize,
    /// Progress placed over progress left alone: the median of the pairs.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Progress left alone over progress left alone, a pair later: the largest change either way. What the trial could not
    /// have told apart.
    pub floor: f64,
}

/// The verdict of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// More progress, beyond doubt.
    Better(Outcome),
    /// Less.
    Worse(Outcome),
    /// Not told apart.
    Same(Outcome),
    /// No statement: progress stood still, or ran backwards.
    Invalid {
        /// The reason.
        why: Why,
    },
}

/// The reason for no statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// No progress in a stretch.
    StoodStill,
    /// The count became less.
    RanBackwards,
    /// The count is not given any more.
    Unknown,
}

/// Pairs before the first look at them: with six that all agree, a median has an interval of 96.9 %.
const FIRST_LOOK: usize = 6;
/// Pairs before a trial that cannot tell ends.
const LAST_LOOK: usize = 15;
/// The error of the first look and of the last, so that both together have 5 %.
const ALPHA: [f64; 2] = [0.032, 0.018];

/// A trial under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    arm: Arm,
    /// Whether the next window is the first one after a change.
    settles: bool,
    last: Option<f64>,
    /// Of the pair under way.
    before: Option<f64>,
    placed: Option<f64>,
    log_ratios: Vec<f64>,
    alone: Vec<f64>,
}

/// The next thing to do in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Another window of the same kind.
    GoOn,
    /// Change to the other kind.
    Change(Arm),
    /// The trial is over.
    End(Verdict),
}

impl Trial {
    /// Begins with the arm that the threads are in: left alone.
    pub fn begin(progress: f64) -> Self {
        Self {
            arm: Arm::Before,
            settles: true,
            last: Some(progress),
            before: None,
            placed: None,
            log_ratios: Vec::new(),
            alone: Vec::new(),
        }
    }

    /// The arm of the window that runs.
    pub const fn arm(&self) -> Arm {
        self.arm
    }

    /// Takes the progress at the end of a window, and its length in seconds.
    pub fn take(&mut self, progress: Option<f64>, seconds: f64) -> Next {
        let invalid = |why| Next::End(Verdict::Invalid { why });
        let (Some(now), Some(last)) = (progress, self.last) else { return invalid(Why::Unknown) };
        self.last = Some(now);
        if now < last {
            return invalid(Why::RanBackwards);
        }
        if std::mem::take(&mut self.settles) {
            return Next::GoOn;
        }
        let rate = (now - last) / seconds;
        if rate <= 0.0 {
            return invalid(Why::StoodStill);
        }
        match self.arm {
            Arm::Before => self.before = Some(rate),
            Arm::Placed => self.placed = Some(rate),
        }
        if let (Some(before), Some(placed)) = (self.before, self.placed) {
            (self.before, self.placed) = (None, None);
            self.log_ratios.push((placed / before).ln());
            self.alone.push(before);
            // The next pair begins as this one ended.
            return self.verdict().map_or(Next::GoOn, Next::End);
        }
        self.arm = match self.arm {
            Arm::Before => Arm::Placed,
            Arm::Placed => Arm::Before,
        };
        self.settles = true;
        Next::Change(self.arm)
    }

    fn verdict(&self) -> Option<Verdict> {
        let last = self.log_ratios.len() == LAST_LOOK;
        if self.log_ratios.len() != FIRST_LOOK && !last {
            return None;
        }
        let ordered = Ordered::new(&self.log_ratios).ok()?;
        let interval = median_interval(&ordered, ALPHA[usize::from(last)]).ok()?.interval()?;
        let changes = self.alone.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs());
        let outcome = Outcome {
            pairs: self.log_ratios.len(),
            ratio: median(&ordered).exp(),
            low: interval.low.exp(),
            high: interval.high.exp(),
            floor: changes.fold(0.0, f64::max).exp(),
        };
        match outcome {
            _ if outcome.low > 1.0 => Some(Verdict::Better(outcome)),
            _ if outcome.high < 1.0 => Some(Verdict::Worse(outcome)),
            _ => last.then_some(Verdict::Same(outcome)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict where each window has the progress that `rate` says, by its arm and its number.
    fn tried(rate: impl Fn(Arm, u32) -> f64) -> (Verdict, Vec<Arm>) {
        let (mut trial, mut progress, mut arms) = (Trial::begin(0.0), 0.0, Vec::new());
        for window in 0..1000 {
            arms.push(trial.arm());
            progress += rate(trial.arm(), window) * 0.1;
            if let Next::End(verdict) = trial.take(Some(progress), 0.1) {
                return (verdict, arms);
            }
        }
        panic!("no end");
    }

    /// Numbers between 0 and 1 that look like chance, the same for the same window.
    fn noise(window: u32) -> f64 {
        f64::from(window.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24)
    }

    #[test]
    fn twice_the_progress_is_better_after_six_pairs_and_half_of_it_worse() {
        let (verdict, arms) =
            tried(|arm, at| if arm == Arm::Placed { 200.0 + noise(at) } else { 100.0 });
        let Verdict::Better(outcome) = verdict else { panic!("{verdict:?}") };
        assert_eq!(outcome.pairs, 6);
        assert!((2.0..2.02).contains(&outcome.ratio) && outcome.low > 1.9, "{outcome:?}");
        // One window to settle in after each change, and the arms in the order ABBA.
        let expected =
            [Arm::Before, Arm::Before, Arm::Placed, Arm::Placed, Arm::Placed, Arm::Before];
        assert_eq!(arms[..6], expected);
        let (verdict, _) =
            tried(|arm, at| if arm == Arm::Placed { 50.0 + noise(at) } else { 100.0 });
        assert!(matches!(verdict, Verdict::Worse(_)), "{verdict:?}");
    }

    #[test]
    fn arms_that_are_the_same_are_not_told_apart() {
        let (verdict, _) = tried(|_, at| 100.0 * (1.0 + noise(at)));
        let Verdict::Same(outcome) = verdict else { panic!("{verdict:?}") };
        assert!(outcome.pairs == LAST_LOOK && outcome.low <= 1.0 && outcome.high >= 1.0);
        assert!(outcome.floor > 1.05, "{outcome:?}");
    }

    #[test]
    fn a_trend_is_not_taken_for_a_difference() {
        let (verdict, _) = tried(|_, at| 100.0 * 1.01_f64.powi(at as i32));
        assert!(matches!(verdict, Verdict::Same(_)), "{verdict:?}");
    }

    #[test]
    fn progress_that_stands_still_or_runs_backwards_or_is_lost_makes_it_invalid() {
        let why = |progress: [Option<f64>; 3]| {
            let mut trial = Trial::begin(100.0);
            progress.into_iter().map(|it| trial.take(it, 0.1)).find_map(|next| match next {
                Next::End(Verdict::Invalid { why }) => Some(why),
                _ => None,
            })
        };
        assert_eq!(why([Some(110.0), Some(110.0), Some(110.0)]), Some(Why::StoodStill));
        assert_eq!(why([Some(110.0), Some(90.0), Some(110.0)]), Some(Why::RanBackwards));
        assert_eq!(why([Some(110.0), None, None]), Some(Why::Unknown));
        assert_eq!(why([Some(110.0), Some(120.0), Some(130.0)]), None);
    }
}
