// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard: does the program get on faster with off-load than without?
//!
//! A prediction is about a call. What a call there does to the rest (caches, the other threads, the CPUs that the program
//! has) only the progress of the whole shows: its calls, and the bytes that they move. The guard lets stretches with and
//! without take turns (with, without, without, with: a trend cancels) and compares. Where the progress with off-load is
//! less in so many such blocks that chance is unlikely (a sign test, below 2 % at each look), it turns off-load off, and
//! tries again later. Where the prediction keeps nearly all calls here, or loses, it tries once whether sending all of
//! them pays nevertheless: a call that is slower there may still save its thread a sleep. That has to be won by the same
//! test, and is given up at the first block that is clearly lost.
//!
//! The OS cores are taken from the program only where all calls go there, or where the prediction has proved to send some:
//! a program that makes no use of off-load does not lose them even for a trial.

/// The rule for the places of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadRule {
    /// All stay, and the program has all of its CPUs.
    Here,
    /// By prediction.
    Predicted,
    /// All go to an OS core.
    All,
}

/// The progress of a program since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramProgress {
    /// Calls that qualify.
    pub calls: u64,
    /// Those that were made on an OS core.
    pub gone: u64,
    /// The bytes that calls moved.
    pub bytes: u64,
}

/// The stretches of a block: with off-load or without.
const BLOCK: [bool; 4] = [true, false, false, true];
/// Calls in a stretch, at least.
const LEAST_CALLS: u64 = 32;
/// So many bytes are as much progress as a call.
const BYTES: u64 = 1024;
/// A block counts as lost from this part of the progress without on, and as won from that one on.
const LOST: f64 = 0.99;
const WON: f64 = 1.03;
/// Blocks of a trial, and how many of them may be otherwise if it is to be lost, or won.
const LOOKS: [(u32, u32); 4] = [(6, 0), (9, 1), (12, 2), (15, 3)];
/// So many blocks, all lost by a tenth or more, are enough.
const CLEAR: (u32, f64) = (3, 0.9);
/// An attempt to send all calls ends with a block below this.
const HOPELESS: f64 = 0.8;
/// Fewer than one in so many calls off-loaded: the prediction makes no use of it.
const USED: u64 = 16;

/// The times of a guard, in ticks.
#[derive(Debug, Clone, Copy)]
pub struct TrialSchedule {
    /// The length of a stretch, if there are enough calls.
    pub stretch: u64,
    /// A stretch of this length is not a measurement: the program waits.
    pub idle: u64,
    /// The pause between trials, at first and at most.
    pub pause: (u64, u64),
}

impl TrialSchedule {
    /// 10 ms; 1 s; 2 to 60 s.
    pub fn usual(ticks_per_microsecond: u64) -> Self {
        let ms = 1000 * ticks_per_microsecond;
        Self { stretch: 10 * ms, idle: 1000 * ms, pause: (2_000 * ms, 60_000 * ms) }
    }
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GuardVerdict {
    /// Off-load is turned off: this is its part of the progress without, over the trial.
    Loses(f64),
    /// Nothing speaks against it.
    Stays,
    /// The prediction keeps nearly all calls here: off-load is turned off.
    Unused,
    /// All calls are sent: this is the progress as a multiple of that without.
    Gains(f64),
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialGoal {
    /// The first rule stays unless it loses.
    Keep,
    /// Sending all calls has to win.
    Win,
}

#[derive(Debug, Clone, Copy)]
enum GuardPhase {
    Trial(TrialGoal),
    /// Between trials.
    Pause {
        until: u64,
        rule: OffloadRule,
    },
}

/// The blocks of a trial so far.
#[derive(Debug, Clone, Copy, Default)]
struct TrialBlocks {
    blocks: u32,
    lost: u32,
    won: u32,
    clearly: u32,
    ratios: f64,
    last: f64,
    calls: u64,
    gone: u64,
}

/// The stretches of a block so far.
#[derive(Debug, Clone, Copy, Default)]
struct TrialBlock {
    at: usize,
    rates: [f64; 4],
}

/// The guard of a process.
#[derive(Debug)]
pub struct OffloadGuard {
    pace: TrialSchedule,
    first: OffloadRule,
    state: GuardPhase,
    tally: TrialBlocks,
    block: TrialBlock,
    /// The prediction sends calls.
    used: bool,
    begun: Option<(u64, ProgramProgress)>,
    pause: u64,
}

impl OffloadGuard {
    /// A guard that begins with a trial of this rule.
    pub fn new(pace: TrialSchedule, first: OffloadRule) -> Self {
        Self {
            pace,
            first,
            state: GuardPhase::Trial(TrialGoal::Keep),
            tally: TrialBlocks::default(),
            block: TrialBlock::default(),
            used: false,
            begun: None,
            pause: pace.pause.0,
        }
    }

    /// The rule for calls now.
    pub fn rule(&self) -> OffloadRule {
        match self.state {
            GuardPhase::Pause { rule, .. } => rule,
            GuardPhase::Trial(_) if !BLOCK[self.block.at] => OffloadRule::Here,
            GuardPhase::Trial(TrialGoal::Keep) => self.first,
            GuardPhase::Trial(TrialGoal::Win) => OffloadRule::All,
        }
    }

    /// Whether the OS cores are kept from the program now.
    pub fn confines(&self) -> bool {
        match self.rule() {
            OffloadRule::Here => false,
            OffloadRule::Predicted => self.used,
            OffloadRule::All => true,
        }
    }

    /// Whether a trial is under way: then the progress counts.
    pub fn compares(&self) -> bool {
        matches!(self.state, GuardPhase::Trial(_))
    }

    /// A call is made; the verdict if a trial has ended.
    pub fn called(&mut self, now: u64, progress: ProgramProgress) -> Option<GuardVerdict> {
        let (begun, then) = *self.begun.get_or_insert((now, progress));
        let aim = match self.state {
            GuardPhase::Pause { until, .. } => {
                if now >= until {
                    self.begin_trial(TrialGoal::Keep, now, progress);
                }
                return None;
            }
            GuardPhase::Trial(aim) => aim,
        };
        let (took, calls) = (now.saturating_sub(begun), progress.calls - then.calls);
        if took >= self.pace.idle {
            // Begins the block anew.
            self.block = TrialBlock::default();
            self.begun = Some((now, progress));
        } else if took >= self.pace.stretch && calls >= LEAST_CALLS {
            let work = calls as f64 + (progress.bytes - then.bytes) as f64 / BYTES as f64;
            if BLOCK[self.block.at] {
                self.tally.calls += calls;
                self.tally.gone += progress.gone - then.gone;
            }
            self.block.rates[self.block.at] = work / took as f64;
            self.block.at += 1;
            self.begun = Some((now, progress));
            if self.block.at == BLOCK.len() {
                self.tally.add(self.block.ratio());
                self.block = TrialBlock::default();
                return self.judge(aim, now, progress);
            }
        }
        None
    }

    fn begin_trial(&mut self, aim: TrialGoal, now: u64, progress: ProgramProgress) {
        self.state = GuardPhase::Trial(aim);
        self.tally = TrialBlocks::default();
        self.block = TrialBlock::default();
        self.begun = Some((now, progress));
    }

    fn judge(
        &mut self,
        aim: TrialGoal,
        now: u64,
        progress: ProgramProgress,
    ) -> Option<GuardVerdict> {
        let tally = self.tally;
        if aim == TrialGoal::Win {
            let wins = tally.wins()?;
            self.rest(now, if wins { OffloadRule::All } else { OffloadRule::Here });
            return wins.then(|| GuardVerdict::Gains(tally.ratio()));
        }
        let verdict = match tally.loses()? {
            true => GuardVerdict::Loses(tally.ratio()),
            false if self.first == OffloadRule::Predicted && !tally.is_used() => {
                GuardVerdict::Unused
            }
            false => GuardVerdict::Stays,
        };
        let first_use =
            verdict == GuardVerdict::Stays && self.first == OffloadRule::Predicted && !self.used;
        self.used = verdict == GuardVerdict::Stays;
        if first_use {
            // Once more, without the OS cores.
            self.begin_trial(TrialGoal::Keep, now, progress);
            return None;
        }
        if verdict == GuardVerdict::Stays {
            self.rest(now, self.first);
        } else if self.first == OffloadRule::Predicted {
            self.begin_trial(TrialGoal::Win, now, progress);
        } else {
            self.rest(now, OffloadRule::Here);
        }
        Some(verdict)
    }

    fn rest(&mut self, now: u64, rule: OffloadRule) {
        self.state = GuardPhase::Pause { until: now + self.pause, rule };
        self.pause = (2 * self.pause).min(self.pace.pause.1);
    }
}

impl TrialBlock {
    /// The progress with off-load as a part of that without.
    fn ratio(&self) -> f64 {
        let mut sums = [0.0, 0.0];
        for (with, rate) in BLOCK.into_iter().zip(self.rates) {
            sums[usize::from(with)] += rate;
        }
        sums[1] / sums[0]
    }
}

impl TrialBlocks {
    fn add(&mut self, ratio: f64) {
        self.blocks += 1;
        self.lost += u32::from(ratio < LOST);
        self.won += u32::from(ratio > WON);
        self.clearly += u32::from(ratio < CLEAR.1);
        self.ratios += ratio;
        self.last = ratio;
    }

    fn ratio(&self) -> f64 {
        self.ratios / f64::from(self.blocks)
    }

    /// The number of blocks that may be otherwise, at a look.
    fn look(&self) -> Option<u32> {
        LOOKS.iter().find(|(blocks, _)| *blocks == self.blocks).map(|&(_, may)| may)
    }

    /// Whether a look would be the last one, with so many blocks that are otherwise.
    fn is_over(&self, otherwise: u32) -> bool {
        let (most, may) = LOOKS[LOOKS.len() - 1];
        otherwise > may || self.blocks == most
    }

    /// Whether the trial is lost. None: not yet known.
    fn loses(&self) -> Option<bool> {
        if self.blocks == CLEAR.0 && self.clearly == CLEAR.0 {
            return Some(true);
        }
        let (may, kept) = (self.look()?, self.blocks - self.lost);
        if kept <= may { Some(true) } else { self.is_over(kept).then_some(false) }
    }

    /// Whether the trial is won. None: not yet known.
    fn wins(&self) -> Option<bool> {
        if self.last < HOPELESS {
            return Some(false);
        }
        let (may, missed) = (self.look()?, self.blocks - self.won);
        if missed <= may { Some(true) } else { self.is_over(missed).then_some(false) }
    }

    /// Whether a prediction sends any calls to speak of.
    fn is_used(&self) -> bool {
        self.gone * USED >= self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: TrialSchedule =
        TrialSchedule { stretch: 1_000, idle: 100_000, pause: (50_000, 200_000) };

    /// A program whose calls take these ticks by each rule.
    struct Program {
        guard: OffloadGuard,
        now: f64,
        progress: ProgramProgress,
        /// Here, by prediction, all there.
        ticks: [f64; 3],
        /// Bytes of a call, by each rule.
        bytes: [u64; 3],
        /// One in so many calls is predicted to be faster there.
        one_in: u64,
    }

    impl Program {
        fn new(first: OffloadRule, ticks: [f64; 3]) -> Self {
            let guard = OffloadGuard::new(PACE, first);
            let progress = ProgramProgress::default();
            Self { guard, now: 0.0, progress, ticks, bytes: [0; 3], one_in: 1 }
        }

        fn call(&mut self) -> Option<GuardVerdict> {
            let rule = self.guard.rule();
            self.now += self.ticks[rule as usize];
            self.progress.calls += 1;
            self.progress.bytes += self.bytes[rule as usize];
            let goes = rule == OffloadRule::All
                || rule == OffloadRule::Predicted
                    && self.progress.calls.is_multiple_of(self.one_in);
            self.progress.gone += u64::from(goes);
            self.guard.called(self.now as u64, self.progress)
        }

        /// The next verdict, and the ticks until it.
        fn verdict(&mut self) -> (GuardVerdict, f64) {
            let begun = self.now;
            loop {
                if let Some(verdict) = self.call() {
                    return (verdict, self.now - begun);
                }
            }
        }

        /// Calls until no trial is under way.
        fn settle(&mut self) -> Option<GuardVerdict> {
            let mut last = None;
            while self.guard.compares() {
                last = self.call().or(last);
            }
            last
        }
    }

    #[test]
    fn a_clear_loss_ends_off_load_after_three_blocks_and_a_small_one_after_six() {
        let mut program = Program::new(OffloadRule::All, [10.0, 0.0, 20.0]);
        let (clear, after) = program.verdict();
        assert!(matches!(clear, GuardVerdict::Loses(ratio) if (0.45..0.55).contains(&ratio)));
        assert!((12_000.0..13_000.0).contains(&after), "{after}");
        assert_eq!(program.guard.rule(), OffloadRule::Here);
        let mut program = Program::new(OffloadRule::All, [20.0, 0.0, 21.0]);
        let (small, after) = program.verdict();
        assert!(matches!(small, GuardVerdict::Loses(ratio) if (0.9..0.99).contains(&ratio)));
        assert!((24_000.0..26_000.0).contains(&after), "{after}");
    }

    #[test]
    fn a_gain_or_no_difference_lets_it_stay() {
        for first in [OffloadRule::All, OffloadRule::Predicted] {
            for there in [10.0, 9.0, 5.0] {
                let mut program = Program::new(first, [10.0, there, there]);
                assert_eq!(program.verdict().0, GuardVerdict::Stays);
                assert_eq!(program.guard.rule(), first);
            }
        }
    }

    #[test]
    fn the_os_cores_are_taken_where_calls_go_there_and_not_for_a_prediction_that_keeps_them() {
        let mut kept = Program::new(OffloadRule::Predicted, [10.0, 10.0, 30.0]);
        kept.one_in = 1000;
        while kept.guard.rule() != OffloadRule::All {
            assert!(!kept.guard.confines());
            kept.call();
        }
        assert!(kept.guard.confines());
        kept.settle();
        assert!(!kept.guard.confines());
        let mut sends = Program::new(OffloadRule::Predicted, [10.0, 9.0, 9.0]);
        assert!(!sends.guard.confines());
        let (verdict, after) = sends.verdict();
        // Two trials: the second one without the OS cores.
        assert!(
            verdict == GuardVerdict::Stays && sends.guard.confines() && after > 30_000.0,
            "{after}"
        );
    }

    #[test]
    fn a_trend_is_no_loss() {
        let mut program = Program::new(OffloadRule::All, [10.0; 3]);
        loop {
            program.ticks = program.ticks.map(|ticks| ticks * 1.000_2);
            if let Some(verdict) = program.call() {
                assert_eq!(verdict, GuardVerdict::Stays);
                break;
            }
        }
    }

    #[test]
    fn a_prediction_that_keeps_all_calls_is_turned_off_even_if_it_costs_nothing() {
        let mut program = Program::new(OffloadRule::Predicted, [10.0, 10.0, 30.0]);
        program.one_in = 20;
        assert_eq!(program.verdict().0, GuardVerdict::Unused);
        // Sending all of them is tried, and given up after one block.
        assert_eq!(program.guard.rule(), OffloadRule::All);
        let begun = program.now;
        assert_eq!(program.settle(), None);
        assert_eq!(program.guard.rule(), OffloadRule::Here);
        assert!((4_000.0..5_000.0).contains(&(program.now - begun)), "{}", program.now - begun);
    }

    #[test]
    fn sending_all_calls_is_kept_where_it_wins_though_the_prediction_is_against_it() {
        let mut program = Program::new(OffloadRule::Predicted, [10.0, 10.0, 8.0]);
        program.one_in = 1000;
        assert_eq!(program.verdict().0, GuardVerdict::Unused);
        let gain = program.settle();
        assert!(matches!(gain, Some(GuardVerdict::Gains(ratio)) if (1.2..1.3).contains(&ratio)));
        assert_eq!(program.guard.rule(), OffloadRule::All);
        // What neither wins nor loses does not stay.
        let mut even = Program::new(OffloadRule::Predicted, [10.0, 12.0, 10.0]);
        assert!(matches!(even.verdict().0, GuardVerdict::Loses(_)));
        assert_eq!((even.settle(), even.guard.rule()), (None, OffloadRule::Here));
    }

    #[test]
    fn more_calls_that_move_fewer_bytes_are_no_gain() {
        let mut program = Program::new(OffloadRule::Predicted, [10.0, 10.0, 8.0]);
        (program.one_in, program.bytes) = (1000, [65_536, 65_536, 32_768]);
        assert_eq!(program.verdict().0, GuardVerdict::Unused);
        assert_eq!((program.settle(), program.guard.rule()), (None, OffloadRule::Here));
    }

    #[test]
    fn it_tries_again_after_a_pause_that_grows() {
        let mut program = Program::new(OffloadRule::All, [10.0, 0.0, 20.0]);
        let (_, first) = program.verdict();
        let (again, second) = program.verdict();
        assert!(matches!(again, GuardVerdict::Loses(_)) && second > first + 45_000.0, "{second}");
        program.ticks = [20.0, 0.0, 10.0];
        let (better, third) = program.verdict();
        assert!(better == GuardVerdict::Stays && third > second + 45_000.0, "{third}");
    }

    #[test]
    fn a_program_that_waits_is_not_judged() {
        let mut waits = Program::new(OffloadRule::All, [PACE.idle as f64; 3]);
        assert!((0..10_000).all(|_| waits.call().is_none()));
        let mut busy_and_idle = Program::new(OffloadRule::All, [30.0; 3]);
        for _ in 0..1_000 {
            assert!((0..40).all(|_| busy_and_idle.call().is_none()));
            busy_and_idle.now += PACE.idle as f64;
        }
    }
}
