// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares arms with the kernel's default in rounds, and decides which arm is surely faster, or that none is.
//!
//! A round has one turn of each arm and two turns of the default, in random order, so that drift and order effects
//! favour none of them. An arm without effect is as likely to be faster than the default in a round as slower, by any
//! amount. The sign flips of [`ratio_of_means`] need only this symmetry. As in a trial of the placer, there are two
//! looks at the data: the first as soon as an interval can exist, and the last after 15 rounds or when the time is
//! over. Both looks and all arms share an error of 5 %, so all intervals hold together, however many arms there are.
//!
//! The second turn of the default is the control: its difference from the first turn has no cause. An arm wins only
//! if its gain is larger than the control's difference. An arm whose interval at the first look excludes gains above
//! 2 % gets no further rounds.

use serde::Serialize;

use corehop_plan::words::words;
use corehop_plan::workload::draw::DrawStream;
use corehop_stats::ratio::ratio_of_means;

use crate::placer::trial::{ALPHA, FIRST_LOOK, LAST_LOOK};

words! {
    /// The quantity by which arms are compared.
    TrialQuantity, "a quantity of a trial" {
        /// The wall time of a command; a shorter time is better.
        WallTime = "wall_time",
        /// The progress of a program per second: more is better.
        Progress = "progress",
    }
}

/// The smallest gain that justifies pinning a program.
pub const SMALL: f64 = 0.02;

/// The part of a contest that runs in one turn of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// The program with the kernel's default placement.
    Default,
    /// The second turn of the default, which serves as the control.
    Again,
    /// An arm, by its index in the list of arms.
    Arm(usize),
}

/// The gain of an arm or of the control over the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ArmGain {
    /// The number of rounds with this arm.
    pub rounds: usize,
    /// The speed relative to the default, minus 1: 0.1 means 10 % faster.
    pub gain: f64,
    /// The lower end of the interval; the intervals of all arms hold together with 95 % confidence.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The result of a contest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ContestVerdict {
    /// An arm is surely faster than the default.
    Winner {
        /// The index of the winning arm in the list of arms.
        arm: usize,
    },
    /// No arm is surely faster than the default.
    Nothing {
        /// The largest gain that an arm may have: the largest upper end of an interval, or the control's difference if
        /// that difference is larger.
        at_most: f64,
    },
    /// There are no arms to try.
    NoArm,
    /// There were too few rounds for an interval.
    TooFew {
        /// The number of rounds so far.
        rounds: usize,
        /// The number of rounds from which an interval exists.
        needed: usize,
    },
}

/// A contest between arms and the default.
#[derive(Debug, Clone)]
pub struct ArmContest {
    quantity: TrialQuantity,
    seed: u64,
    /// The values of the default and of the control, by round.
    plain: Vec<[f64; 2]>,
    arms: Vec<ArmRecord>,
}

/// The results of one arm.
#[derive(Debug, Clone, Default)]
struct ArmRecord {
    /// The values of the arm, by round.
    values: Vec<f64>,
    /// The gain at the last look.
    gain: Option<ArmGain>,
    /// Whether the arm gets no further rounds.
    is_out: bool,
}

impl ArmContest {
    /// Creates a contest between `arms` arms. The seed determines the order within rounds.
    pub fn new(quantity: TrialQuantity, arms: usize, seed: u64) -> Self {
        Self { quantity, seed, plain: Vec::new(), arms: vec![ArmRecord::default(); arms] }
    }

    /// Returns the turns of the next round, in their order.
    pub fn order(&self) -> Vec<Contender> {
        let in_play = |at: &usize| !self.arms[*at].is_out;
        let arms = (0..self.arms.len()).filter(in_play).map(Contender::Arm);
        let mut turns: Vec<Contender> =
            [Contender::Default, Contender::Again].into_iter().chain(arms).collect();
        DrawStream::new(self.seed, self.plain.len() as u64).shuffle(&mut turns);
        turns
    }

    /// Adds the values of a complete round. Returns a verdict if a look at this point decides the contest.
    pub fn take(&mut self, round: &[(Contender, f64)]) -> Option<ContestVerdict> {
        let mut plain = [f64::NAN; 2];
        for &(turn, value) in round {
            match turn {
                Contender::Default => plain[0] = value,
                Contender::Again => plain[1] = value,
                Contender::Arm(at) => self.arms[at].values.push(value),
            }
        }
        self.plain.push(plain);
        match self.rounds() {
            LAST_LOOK => Some(self.last_look()),
            now if now == self.needed(0) => self.first_look(),
            _ => None,
        }
    }

    /// Returns the number of rounds so far.
    pub const fn rounds(&self) -> usize {
        self.plain.len()
    }

    /// Returns the numbers of rounds after which the contest may end: at the first look, and at the latest.
    pub fn looks(&self) -> (usize, usize) {
        (self.needed(0), LAST_LOOK)
    }

    /// Returns the gain of each arm at its last look; `None` before its first look.
    pub fn gains(&self) -> Vec<Option<ArmGain>> {
        self.arms.iter().map(|arm| arm.gain).collect()
    }

    /// Returns the gain of the control over the default; `None` with too few rounds.
    pub fn floor(&self) -> Option<ArmGain> {
        let again: Vec<f64> = self.plain.iter().map(|plain| plain[1]).collect();
        self.gain(&again, ALPHA[0] + ALPHA[1])
    }

    /// Ends the contest because the time is over.
    pub fn last_look(&mut self) -> ContestVerdict {
        let (rounds, needed) = (self.rounds(), self.needed(1));
        if rounds < needed {
            return ContestVerdict::TooFew { rounds, needed };
        }
        self.look(1);
        self.best(|_| true).map_or_else(|| self.nothing(), |arm| ContestVerdict::Winner { arm })
    }

    /// The first look. Ends the contest at a look if the leading arm wins, or if no arm can gain much.
    fn first_look(&mut self) -> Option<ContestVerdict> {
        self.look(0);
        let gain = |arm: usize| self.arms[arm].gain.map_or(0.0, |it| it.gain);
        let ahead = (0..self.arms.len()).map(gain).fold(0.0, f64::max);
        if let Some(arm) = self.best(|gain| gain >= ahead) {
            return Some(ContestVerdict::Winner { arm });
        }
        for arm in &mut self.arms {
            arm.is_out = arm.gain.is_some_and(|it| it.high <= SMALL);
        }
        self.arms.iter().all(|arm| arm.is_out).then(|| self.nothing())
    }

    /// The error probability of a look for each arm.
    fn level(&self, look: usize) -> f64 {
        ALPHA[look] / self.arms.len().max(1) as f64
    }

    /// The number of rounds from which a look has intervals. With `n` pairs, all signs agree by chance with
    /// probability `2^-n` on each side.
    fn needed(&self, look: usize) -> usize {
        let least = (2.0 / self.level(look)).log2().ceil() as usize;
        least.clamp(FIRST_LOOK, LAST_LOOK)
    }

    /// Updates the gains of all remaining arms.
    fn look(&mut self, look: usize) {
        let level = self.level(look);
        let gains: Vec<Option<ArmGain>> =
            self.arms.iter().map(|arm| self.gain(&arm.values, level)).collect();
        for (arm, gain) in self.arms.iter_mut().zip(gains).filter(|(arm, _)| !arm.is_out) {
            arm.gain = gain;
        }
    }

    /// The gain of an arm's values over the default in the corresponding rounds.
    fn gain(&self, values: &[f64], alpha: f64) -> Option<ArmGain> {
        let pairs: Vec<[f64; 2]> = self
            .plain
            .iter()
            .zip(values)
            .map(|(plain, &value)| self.pair(plain[0], value))
            .collect();
        let (ratio, interval) = ratio_of_means(&pairs, alpha)?;
        Some(ArmGain {
            rounds: pairs.len(),
            gain: ratio - 1.0,
            low: interval.low - 1.0,
            high: interval.high - 1.0,
        })
    }

    /// Orders two values so that the second divided by the first is a speed ratio.
    const fn pair(&self, default: f64, value: f64) -> [f64; 2] {
        match self.quantity {
            TrialQuantity::WallTime => [value, default],
            TrialQuantity::Progress => [default, value],
        }
    }

    /// The arm with the largest gain among the arms that are surely faster and exceed the control's difference.
    fn best(&self, is_among: impl Fn(f64) -> bool) -> Option<usize> {
        let floor = self.floor().map_or(0.0, |it| it.gain.abs());
        let wins = |it: &ArmGain| it.low > 0.0 && it.gain > floor && is_among(it.gain);
        let gains =
            self.arms.iter().enumerate().filter_map(|(at, arm)| Some((at, arm.gain.filter(wins)?)));
        gains.max_by(|(_, a), (_, b)| a.gain.total_cmp(&b.gain)).map(|(at, _)| at)
    }

    fn nothing(&self) -> ContestVerdict {
        let control = self.floor().map_or(0.0, |it| (it.high - it.low) / 2.0);
        let ends = self.arms.iter().filter_map(|arm| arm.gain).map(|it| it.high);
        ContestVerdict::Nothing { at_most: ends.fold(control, f64::max) }
    }
}

#[cfg(test)]
mod tests {
    use corehop_fixtures::designs::SeededSource;

    use super::*;

    /// A simulated machine on which each arm has a gain, every turn varies by a share, and everything slows down over
    /// time.
    struct Bench {
        gains: Vec<f64>,
        noise: f64,
        draw: SeededSource,
    }

    impl Bench {
        fn new(gains: &[f64], noise: f64, seed: u64) -> Self {
            Self { gains: gains.to_vec(), noise, draw: SeededSource::new(seed) }
        }

        fn speed(&mut self, turn: Contender, turns: usize) -> f64 {
            let gain = match turn {
                Contender::Arm(at) => self.gains[at],
                _ => 0.0,
            };
            let drift = 1.0 - 0.001 * turns as f64;
            100.0 * (1.0 + gain) * drift * (self.noise * self.draw.normal()).exp()
        }

        /// Runs the contest to its end.
        fn contest(&mut self, quantity: TrialQuantity, seed: u64) -> (ContestVerdict, ArmContest) {
            let (mut contest, mut turns) = (ArmContest::new(quantity, self.gains.len(), seed), 0);
            loop {
                let mut round = Vec::new();
                for turn in contest.order() {
                    turns += 1;
                    let speed = self.speed(turn, turns);
                    let is_time = quantity == TrialQuantity::WallTime;
                    round.push((turn, if is_time { 1.0 / speed } else { speed }));
                }
                if let Some(verdict) = contest.take(&round) {
                    return (verdict, contest);
                }
            }
        }
    }

    fn ended(gains: &[f64], noise: f64, seed: u64) -> (ContestVerdict, ArmContest) {
        Bench::new(gains, noise, seed).contest(TrialQuantity::WallTime, seed)
    }

    #[test]
    fn a_round_has_each_arm_once_and_the_default_twice_in_an_order_of_the_seed() {
        let order = |seed, rounds| {
            let mut contest = ArmContest::new(TrialQuantity::WallTime, 2, seed);
            let mut all = Vec::new();
            for _ in 0..rounds {
                let order = contest.order();
                let round: Vec<_> = order.iter().map(|&turn| (turn, 1.0)).collect();
                assert_eq!(contest.take(&round), None);
                all.push(order);
            }
            all
        };
        assert_eq!(order(1, 5), order(1, 5));
        assert_ne!(order(1, 5), order(2, 5));
        for mut turns in order(1, 5) {
            turns.sort_unstable();
            let all = [Contender::Default, Contender::Again, Contender::Arm(0), Contender::Arm(1)];
            assert_eq!(turns, all);
        }
        let first = |turn| order(3, 6).iter().filter(|it| it[0] == turn).count();
        assert!(first(Contender::Default) < 6, "the default comes first at times");
    }

    #[test]
    fn a_planted_gain_of_ten_percent_is_found_in_its_arm_with_an_interval_that_holds_it() {
        let (mut found, mut held) = (0, 0);
        for seed in 0..100 {
            let (verdict, contest) = ended(&[0.0, 0.1, -0.2, 0.02], 0.02, seed);
            found += u32::from(verdict == ContestVerdict::Winner { arm: 1 });
            let it = contest.gains()[1].unwrap();
            held += u32::from(it.low <= 0.1 && 0.1 <= it.high);
        }
        assert!(found >= 98, "{found} of 100");
        assert!(held >= 95, "{held} of 100");
    }

    #[test]
    fn an_arm_that_may_gain_has_all_rounds_and_one_that_cannot_has_the_first_ones_alone() {
        let (_, contest) = ended(&[0.03, -0.3], 0.1, 4);
        let rounds: Vec<usize> = contest.gains().iter().map(|it| it.unwrap().rounds).collect();
        assert_eq!(rounds, [contest.looks().1, contest.looks().0]);
    }

    #[test]
    fn twice_the_time_and_half_the_progress_are_the_same_loss() {
        for quantity in [TrialQuantity::WallTime, TrialQuantity::Progress] {
            let (verdict, contest) = Bench::new(&[-0.5], 0.01, 7).contest(quantity, 7);
            let it = contest.gains()[0].unwrap();
            assert!((-0.52..-0.48).contains(&it.gain), "{quantity}: {it:?}");
            // Half is lost, so that no gain is left: what the control tells apart is the answer.
            let ContestVerdict::Nothing { at_most } = verdict else { panic!("{verdict:?}") };
            assert!((0.0..0.03).contains(&at_most), "{at_most}");
            assert_eq!(contest.rounds(), contest.looks().0, "no further rounds");
        }
    }

    #[test]
    fn without_a_gain_winners_are_no_more_frequent_than_the_error_that_was_stated() {
        let wins = |seed: &u64| {
            matches!(ended(&[0.0; 4], 0.05, 1_000 + seed).0, ContestVerdict::Winner { .. })
        };
        let false_winners = (0..400).filter(wins).count();
        assert!(false_winners <= 20, "{false_winners} of 400");
    }

    #[test]
    fn no_gain_lies_beyond_the_bound_that_nothing_states() {
        let mut beyond = 0;
        for seed in 0..200 {
            let (verdict, _) = ended(&[0.005, 0.0], 0.03, 5_000 + seed);
            let ContestVerdict::Nothing { at_most } = verdict else { continue };
            beyond += u32::from(at_most < 0.005);
        }
        assert!(beyond <= 10, "{beyond} of 200");
    }

    #[test]
    fn a_gain_that_the_control_shows_too_is_none() {
        let mut contest = ArmContest::new(TrialQuantity::WallTime, 1, 1);
        let mut verdict = None;
        while verdict.is_none() {
            // The arm gains 10 % in every round, and so does the default on itself.
            let order = contest.order();
            let time = |turn| if turn == Contender::Default { 1.1 } else { 1.0 };
            let round: Vec<_> = order.into_iter().map(|turn| (turn, time(turn))).collect();
            verdict = contest.take(&round);
        }
        assert!(matches!(verdict, Some(ContestVerdict::Nothing { .. })), "{verdict:?}");
    }

    #[test]
    fn more_arms_need_more_rounds_and_too_few_rounds_say_nothing() {
        let looks = |arms| ArmContest::new(TrialQuantity::WallTime, arms, 1).looks();
        assert_eq!([1, 2, 4, 5].map(|arms| looks(arms).0), [6, 7, 8, 9]);
        let mut contest = ArmContest::new(TrialQuantity::WallTime, 4, 1);
        for _ in 0..8 {
            let round: Vec<_> = contest.order().into_iter().map(|turn| (turn, 1.0)).collect();
            contest.take(&round);
        }
        assert_eq!(contest.last_look(), ContestVerdict::TooFew { rounds: 8, needed: 9 });
    }

    #[test]
    fn time_that_is_over_early_still_has_its_answer() {
        let mut contest = ArmContest::new(TrialQuantity::WallTime, 1, 1);
        for number in 0..8 {
            let time = |turn| match turn {
                Contender::Arm(_) => 0.9 + 0.3 * f64::from(number % 2),
                _ => 1.0 + 0.01 * f64::from(number % 3),
            };
            let round: Vec<_> =
                contest.order().into_iter().map(|turn| (turn, time(turn))).collect();
            if contest.take(&round).is_some() {
                return;
            }
        }
        assert!(matches!(contest.last_look(), ContestVerdict::Nothing { .. }));
    }
}
