// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether a placement helps: intervals with and without the placement alternate, and the progress in each is
//! compared.
//!
//! A pair consists of one interval of each kind. The order changes from pair to pair (ABBA), so that drift affects
//! both kinds alike. The first window after a change does not count. The statistic is the ratio of the mean rates,
//! with an interval from sign flips of the pairs ([`ratio_of_means`]). The statistic compares long-run progress with
//! and without the placement, even if either is fast in one interval and slow in the next.
//!
//! A window whose progress cannot be read is left out. A hypervisor may move its virtual CPUs during a trial. A pair
//! of intervals in which the time of a line changed compares two different machines, and is set aside. A trial is
//! invalid if the threads were already together without the placement, or were not together with it.

use serde::{Deserialize, Serialize};

use corehop_plan::host::LineTimes;
use corehop_stats::ratio::ratio_of_means;

/// The kind of an interval in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialArm {
    /// An interval without the placement.
    Before,
    /// An interval with the placement.
    Placed,
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialOutcome {
    /// The number of pairs of intervals.
    pub pairs: usize,
    /// The mean progress with the placement divided by the mean progress without it.
    pub ratio: f64,
    /// The lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// The upper end of the 95 % interval of the ratio.
    pub high: f64,
    /// The largest change, in either direction, between consecutive intervals without the placement. The trial cannot
    /// distinguish smaller effects.
    pub floor: f64,
    /// The number of pairs that do not count because the distance of CPUs changed during them.
    #[serde(default)]
    pub set_aside: usize,
}

/// The verdict of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum TrialVerdict {
    /// Progress is surely higher with the placement.
    Better(TrialOutcome),
    /// Progress is surely lower with the placement.
    Worse(TrialOutcome),
    /// The trial found no difference.
    Same(TrialOutcome),
    /// The trial has no result, because progress stood still or ran backwards, or its conditions did not hold.
    Invalid {
        /// The reason why the trial has no result.
        why: UndecidedReason,
    },
}

/// The reason why a trial has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndecidedReason {
    /// An interval had no progress.
    StoodStill,
    /// The progress count decreased.
    RanBackwards,
    /// The progress count was missing in too many windows.
    Unknown,
    /// The distance of the CPUs changed too often within a pair of intervals.
    DistanceChanged,
    /// Without the placement, the threads were already together.
    NoControl,
    /// With the placement, the threads were not together.
    NotPlaced,
}

/// Writes the reason in words.
impl std::fmt::Display for UndecidedReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::StoodStill => "progress stood still",
            Self::RanBackwards => "progress ran backwards",
            Self::Unknown => "progress could not be read",
            Self::DistanceChanged => "the distance of the CPUs changed repeatedly",
            Self::NoControl => "without the placement, the threads ran together",
            Self::NotPlaced => "with the placement, the threads did not run together",
        })
    }
}

/// The part of a window that a trial uses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrialObservation {
    /// The progress count at the end of the window.
    pub progress: Option<f64>,
    /// The length of the window.
    pub seconds: f64,
    /// The time of a cache line, if measured.
    pub lines: Option<LineTimes>,
    /// Whether all threads of the placement were where the placement puts them, or together elsewhere; `None` if the
    /// host does not report where threads run.
    pub together: Option<bool>,
}

/// The number of pairs before the first look: six pairs that all agree give an interval of 96.9 %.
pub(crate) const FIRST_LOOK: usize = 6;
/// The number of pairs after which an undecided trial ends.
pub(crate) const LAST_LOOK: usize = 15;
/// The number of set-aside pairs after which a trial is given up.
const MOST_SET_ASIDE: usize = 15;
/// The number of windows with unknown progress after which a trial is given up.
const MOST_UNREAD: usize = 30;
/// The ratio of line times above which two line times belong to different distances. On one pair of CPUs line times
/// vary by some tens of percent, and a line from a core of another cache takes four to six times as long.
const CHANGED: f64 = 2.0;
/// The share of windows in which threads must be together to count as together.
const TOGETHER: f64 = 0.9;
/// The error probabilities of the first and the last look, which together make 5 %.
pub(crate) const ALPHA: [f64; 2] = [0.032, 0.018];

/// A trial in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    arm: TrialArm,
    /// Whether the next window is the first after a change.
    settles: bool,
    last: Option<f64>,
    /// The rate without the placement in the current pair.
    before: Option<f64>,
    placed: Option<f64>,
    /// The smallest and the largest line times in the current pair.
    lines: LineTimeRange,
    /// The rates of each pair, without and with the placement.
    rates: Vec<[f64; 2]>,
    set_aside: usize,
    unread: usize,
    /// For each kind of interval, the number of windows; `together` counts the windows with the threads together.
    seen: [u32; 2],
    together: [u32; 2],
}

/// The smallest and the largest time of a line, with and without a common cache.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LineTimeRange([Option<(f64, f64)>; 2]);

impl LineTimeRange {
    fn take(&mut self, times: LineTimes) {
        for (at, time) in [times.shared_cache_ns, times.separate_ns].into_iter().enumerate() {
            let Some(time) = time else { continue };
            let (least, most) = self.0[at].unwrap_or((time, time));
            self.0[at] = Some((least.min(time), most.max(time)));
        }
    }

    fn has_changed(self) -> bool {
        self.0.into_iter().flatten().any(|(least, most)| most > CHANGED * least)
    }
}

/// The next step of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrialAction {
    /// The trial needs another window of the current kind.
    GoOn,
    /// The trial changes to intervals of the other kind.
    Change(TrialArm),
    /// The trial is over.
    End(TrialVerdict),
}

impl Trial {
    /// Begins a trial with the current state, without the placement.
    pub fn begin(progress: f64) -> Self {
        Self {
            arm: TrialArm::Before,
            settles: true,
            last: Some(progress),
            before: None,
            placed: None,
            lines: LineTimeRange::default(),
            rates: Vec::new(),
            set_aside: 0,
            unread: 0,
            seen: [0; 2],
            together: [0; 2],
        }
    }

    /// Returns the kind of the current window.
    pub const fn arm(&self) -> TrialArm {
        self.arm
    }

    /// Passes over a window that belongs to neither kind, with the progress at its end.
    pub fn pass(&mut self, progress: Option<f64>) {
        self.last = progress;
    }

    /// Adds a window, and returns what to do next.
    pub fn take(&mut self, look: TrialObservation) -> TrialAction {
        let invalid = |why| TrialAction::End(TrialVerdict::Invalid { why });
        look.lines.into_iter().for_each(|it| self.lines.take(it));
        let last = std::mem::replace(&mut self.last, look.progress);
        let (Some(now), Some(last)) = (look.progress, last) else {
            self.unread += usize::from(look.progress.is_none());
            return if self.unread > MOST_UNREAD {
                invalid(UndecidedReason::Unknown)
            } else {
                TrialAction::GoOn
            };
        };
        if now < last {
            return invalid(UndecidedReason::RanBackwards);
        }
        if std::mem::take(&mut self.settles) {
            return TrialAction::GoOn;
        }
        let rate = (now - last) / look.seconds;
        if rate <= 0.0 {
            return invalid(UndecidedReason::StoodStill);
        }
        self.count(look.together);
        match self.arm {
            TrialArm::Before => self.before = Some(rate),
            TrialArm::Placed => self.placed = Some(rate),
        }
        if let (Some(before), Some(placed)) = (self.before, self.placed) {
            (self.before, self.placed) = (None, None);
            // The next pair begins as this one ended.
            return self.pair(before, placed).map_or(TrialAction::GoOn, TrialAction::End);
        }
        self.arm = match self.arm {
            TrialArm::Before => TrialArm::Placed,
            TrialArm::Placed => TrialArm::Before,
        };
        self.settles = true;
        TrialAction::Change(self.arm)
    }

    /// Counts a window of the current kind.
    fn count(&mut self, together: Option<bool>) {
        let Some(together) = together else { return };
        self.seen[self.arm as usize] += 1;
        self.together[self.arm as usize] += u32::from(together);
    }

    /// The share of windows of this kind in which the threads were together.
    fn share_together(&self, arm: TrialArm) -> Option<f64> {
        let (seen, together) = (self.seen[arm as usize], self.together[arm as usize]);
        (seen > 0).then(|| f64::from(together) / f64::from(seen))
    }

    /// Adds a complete pair of intervals.
    fn pair(&mut self, before: f64, placed: f64) -> Option<TrialVerdict> {
        if std::mem::take(&mut self.lines).has_changed() {
            self.set_aside += 1;
            let given_up = self.set_aside == MOST_SET_ASIDE;
            return given_up
                .then_some(TrialVerdict::Invalid { why: UndecidedReason::DistanceChanged });
        }
        self.rates.push([before, placed]);
        let verdict = self.verdict()?;
        Some(self.fault().map_or(verdict, |why| TrialVerdict::Invalid { why }))
    }

    /// The reason why the threads were not placed as the kind of an interval requires, or `None` if they were.
    fn fault(&self) -> Option<UndecidedReason> {
        let placed = self.share_together(TrialArm::Placed);
        if placed.is_some_and(|it| it < 1.0 - TOGETHER) {
            return Some(UndecidedReason::NotPlaced);
        }
        let control = self.share_together(TrialArm::Before);
        control.is_some_and(|it| it >= TOGETHER).then_some(UndecidedReason::NoControl)
    }

    fn verdict(&self) -> Option<TrialVerdict> {
        let last = self.rates.len() == LAST_LOOK;
        if self.rates.len() != FIRST_LOOK && !last {
            return None;
        }
        let (ratio, interval) = ratio_of_means(&self.rates, ALPHA[usize::from(last)])?;
        let changes = self.rates.windows(2).map(|pair| (pair[1][0] / pair[0][0]).ln().abs());
        let outcome = TrialOutcome {
            pairs: self.rates.len(),
            ratio,
            low: interval.low,
            high: interval.high,
            floor: changes.fold(0.0, f64::max).exp(),
            set_aside: self.set_aside,
        };
        match outcome {
            _ if outcome.low > 1.0 => Some(TrialVerdict::Better(outcome)),
            _ if outcome.high < 1.0 => Some(TrialVerdict::Worse(outcome)),
            // Half of the windows are in what may be a bad placement: what shows no gain so far has no further ones.
            _ => (last || outcome.ratio <= 1.0).then_some(TrialVerdict::Same(outcome)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(progress: f64) -> TrialObservation {
        TrialObservation { progress: Some(progress), seconds: 0.1, ..TrialObservation::default() }
    }

    /// The verdict if each window has the progress that `rate` returns for its kind and number.
    fn tried(rate: impl Fn(TrialArm, u32) -> f64) -> (TrialVerdict, Vec<TrialArm>) {
        let (mut trial, mut progress, mut arms) = (Trial::begin(0.0), 0.0, Vec::new());
        for window in 0..1000 {
            arms.push(trial.arm());
            progress += rate(trial.arm(), window) * 0.1;
            if let TrialAction::End(verdict) = trial.take(look(progress)) {
                return (verdict, arms);
            }
        }
        panic!("no end");
    }

    /// Pseudo-random numbers between 0 and 1 that depend only on the window.
    fn noise(window: u32) -> f64 {
        f64::from(window.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24)
    }

    #[test]
    fn twice_the_progress_is_better_after_six_pairs_and_half_of_it_worse() {
        let (verdict, arms) =
            tried(|arm, at| if arm == TrialArm::Placed { 200.0 + noise(at) } else { 100.0 });
        let TrialVerdict::Better(outcome) = verdict else { panic!("{verdict:?}") };
        assert_eq!(outcome.pairs, 6);
        assert!((2.0..2.02).contains(&outcome.ratio) && outcome.low > 1.9, "{outcome:?}");
        // One window to settle in after each change, and the arms in the order ABBA.
        let expected = [
            TrialArm::Before,
            TrialArm::Before,
            TrialArm::Placed,
            TrialArm::Placed,
            TrialArm::Placed,
            TrialArm::Before,
        ];
        assert_eq!(arms[..6], expected);
        let (verdict, _) =
            tried(|arm, at| if arm == TrialArm::Placed { 50.0 + noise(at) } else { 100.0 });
        assert!(matches!(verdict, TrialVerdict::Worse(_)), "{verdict:?}");
    }

    #[test]
    fn arms_that_are_the_same_are_not_told_apart() {
        let (verdict, _) = tried(|_, at| 100.0 * (1.0 + noise(at)));
        let TrialVerdict::Same(outcome) = verdict else { panic!("{verdict:?}") };
        assert!(outcome.low <= 1.0 && outcome.high >= 1.0);
        assert!(outcome.floor > 1.05, "{outcome:?}");
    }

    #[test]
    fn a_gain_that_is_not_sure_has_fifteen_pairs_and_none_at_all_has_six() {
        let pairs = |gain: f64| {
            let rate =
                |arm, at| if arm == TrialArm::Placed { gain } else { 1.0 } * (1.0 + 0.2 * noise(at));
            match tried(rate).0 {
                TrialVerdict::Same(outcome) => outcome.pairs,
                verdict => panic!("{verdict:?}"),
            }
        };
        assert_eq!((pairs(1.03), pairs(0.95)), (LAST_LOOK, FIRST_LOOK));
    }

    #[test]
    fn a_trend_is_not_taken_for_a_difference() {
        let (verdict, _) = tried(|_, at| 100.0 * 1.01_f64.powi(at as i32));
        assert!(matches!(verdict, TrialVerdict::Same(_)), "{verdict:?}");
    }

    #[test]
    fn progress_that_stands_still_or_runs_backwards_or_is_lost_makes_it_invalid() {
        let why = |progress: [Option<f64>; 3]| {
            let mut trial = Trial::begin(100.0);
            let looks = progress.map(|progress| TrialObservation {
                progress,
                seconds: 0.1,
                ..TrialObservation::default()
            });
            looks.into_iter().map(|it| trial.take(it)).find_map(|next| match next {
                TrialAction::End(TrialVerdict::Invalid { why }) => Some(why),
                _ => None,
            })
        };
        assert_eq!(why([Some(110.0), Some(110.0), Some(110.0)]), Some(UndecidedReason::StoodStill));
        assert_eq!(
            why([Some(110.0), Some(90.0), Some(110.0)]),
            Some(UndecidedReason::RanBackwards)
        );
        assert_eq!(why([Some(110.0), None, None]), None);
        assert_eq!(why([Some(110.0), Some(120.0), Some(130.0)]), None);
    }

    #[test]
    fn windows_whose_progress_cannot_be_read_are_left_out_and_only_too_many_of_them_void_a_trial() {
        let with_gaps = |every: u32| {
            let (mut trial, mut progress) = (Trial::begin(0.0), 0.0);
            for window in 0..400 {
                let gain = if trial.arm() == TrialArm::Placed { 200.0 } else { 100.0 };
                progress += 0.1 * (gain + noise(window));
                let read = Some(progress).filter(|_| !window.is_multiple_of(every));
                if let TrialAction::End(verdict) =
                    trial.take(TrialObservation { progress: read, ..look(0.0) })
                {
                    return verdict;
                }
            }
            panic!("no end");
        };
        let verdict = with_gaps(4);
        let TrialVerdict::Better(outcome) = verdict else { panic!("{verdict:?}") };
        assert!((1.9..2.1).contains(&outcome.ratio) && outcome.pairs == 6, "{outcome:?}");
        assert_eq!(with_gaps(1), TrialVerdict::Invalid { why: UndecidedReason::Unknown });
    }

    #[test]
    fn a_program_that_is_fast_in_some_stretches_left_alone_is_judged_by_the_mean() {
        // Left alone, the kernel has the threads together in one stretch of three: as fast as placed there, and slow elsewhere.
        let (verdict, _) = tried(|arm, at| {
            let fast = arm == TrialArm::Placed || at / 3 % 3 == 0;
            if fast { 650.0 + 20.0 * noise(at) } else { 100.0 + noise(at) }
        });
        let TrialVerdict::Better(outcome) = verdict else { panic!("{verdict:?}") };
        assert!((1.5..4.0).contains(&outcome.ratio), "{outcome:?}");
    }

    /// The verdict of a trial in which the placement doubles the progress; `more` gives the other values of each
    /// window.
    fn told(more: impl Fn(TrialArm, u32) -> TrialObservation) -> TrialVerdict {
        let (mut trial, mut progress) = (Trial::begin(0.0), 0.0);
        for window in 0..1000 {
            let rate = if trial.arm() == TrialArm::Placed { 200.0 } else { 100.0 };
            progress += rate + noise(window);
            let look = TrialObservation {
                progress: Some(progress),
                seconds: 0.1,
                ..more(trial.arm(), window)
            };
            if let TrialAction::End(verdict) = trial.take(look) {
                return verdict;
            }
        }
        panic!("no end");
    }

    fn lines(ns: f64) -> TrialObservation {
        let times = LineTimes { shared_cache_ns: Some(ns), separate_ns: None };
        TrialObservation { lines: Some(times), ..TrialObservation::default() }
    }

    #[test]
    fn pairs_of_stretches_on_cpus_that_changed_their_distance_are_set_aside() {
        // The distance changes once, in the third pair.
        let verdict = told(|_, window| lines(if window < 8 { 26.0 } else { 160.0 }));
        let TrialVerdict::Better(outcome) = verdict else { panic!("{verdict:?}") };
        assert_eq!((outcome.pairs, outcome.set_aside), (6, 1));
        // One that varies as one pair of CPUs does.
        let verdict = told(|_, window| lines(30.0 + 8.0 * noise(window)));
        assert!(matches!(verdict, TrialVerdict::Better(it) if it.set_aside == 0), "{verdict:?}");
        // Each arm on CPUs of its own distance.
        let verdict = told(|arm, _| lines(if arm == TrialArm::Placed { 26.0 } else { 160.0 }));
        assert_eq!(verdict, TrialVerdict::Invalid { why: UndecidedReason::DistanceChanged });
    }

    #[test]
    fn an_arm_that_is_not_what_it_is_called_makes_a_trial_invalid() {
        let with = |before: bool, placed: bool| {
            told(|arm, _| TrialObservation {
                together: Some(if arm == TrialArm::Placed { placed } else { before }),
                ..TrialObservation::default()
            })
        };
        assert!(matches!(with(false, true), TrialVerdict::Better(_)));
        assert_eq!(with(true, true), TrialVerdict::Invalid { why: UndecidedReason::NoControl });
        assert_eq!(with(false, false), TrialVerdict::Invalid { why: UndecidedReason::NotPlaced });
        // Threads that the kernel has together in every other window are a control.
        let verdict = told(|arm, window| TrialObservation {
            together: Some(arm == TrialArm::Placed || window % 4 < 2),
            ..TrialObservation::default()
        });
        assert!(matches!(verdict, TrialVerdict::Better(_)), "{verdict:?}");
    }
}
