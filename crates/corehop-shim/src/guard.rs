// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard decides whether the program makes faster progress with off-load than without.
//!
//! A prediction considers a single call. An off-loaded call also affects caches, other threads and the program's
//! CPUs. Only the progress of the whole program shows this effect: its calls, and the bytes that they move. The guard
//! alternates intervals with and without off-load (with, without, without, with, so that a trend cancels) and
//! compares them. If the progress with off-load is lower in so many blocks that chance is unlikely (a sign test,
//! below 2 % at each look), the guard turns off-load off and tries again later. If the prediction keeps nearly all
//! calls on the caller's core, or loses, the guard tries once whether sending all calls helps. A call that is slower
//! on the OS core may still save its thread a sleep. This trial must be won by the same sign test, and is given up at
//! the first block that is clearly lost.
//!
//! The OS cores are taken from the program only if all calls go there, or if the prediction has proved to send some.
//! So a program that does not benefit from off-load keeps its cores even during a trial.

/// The rule that the guard currently applies to calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadRule {
    /// All calls stay on the caller's core, and the program has all of its CPUs.
    Here,
    /// The prediction decides for each call.
    Predicted,
    /// All calls go to an OS core.
    All,
}

/// The progress of a program since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramProgress {
    /// The number of qualifying calls.
    pub calls: u64,
    /// The number of calls that ran on an OS core.
    pub gone: u64,
    /// The number of bytes that calls moved.
    pub bytes: u64,
}

/// The intervals of a block: with off-load (true) or without.
const BLOCK: [bool; 4] = [true, false, false, true];
/// The smallest number of calls in an interval.
const LEAST_CALLS: u64 = 32;
/// The number of bytes that count as much progress as one call.
const BYTES: u64 = 1024;
/// A block counts as lost if its progress ratio (with off-load over without) is below this value, and as won if the
/// ratio is above the next constant.
const LOST: f64 = 0.99;
const WON: f64 = 1.03;
/// The numbers of blocks at which a trial is judged, each with the number of differing blocks that a lost or won trial
/// allows.
const LOOKS: [(u32, u32); 4] = [(6, 0), (9, 1), (12, 2), (15, 3)];
/// The number of blocks that suffice if all of them lose a tenth or more.
const CLEAR: (u32, f64) = (3, 0.9);
/// The progress ratio of a block below which an attempt to send all calls ends.
const HOPELESS: f64 = 0.8;
/// If fewer than one in this many calls is off-loaded, the prediction does not benefit from off-load.
const USED: u64 = 16;

/// The times that the guard uses, in ticks.
#[derive(Debug, Clone, Copy)]
pub struct TrialSchedule {
    /// The length of an interval, if it contains enough calls.
    pub stretch: u64,
    /// The length from which an interval is not a measurement, because the program waits.
    pub idle: u64,
    /// The first and the longest pause between trials.
    pub pause: (u64, u64),
}

impl TrialSchedule {
    /// Returns the default times: 10 ms for an interval, 1 s for a waiting program, and 2 to 60 s for pauses.
    pub fn usual(ticks_per_microsecond: u64) -> Self {
        let ms = 1000 * ticks_per_microsecond;
        Self { stretch: 10 * ms, idle: 1000 * ms, pause: (2_000 * ms, 60_000 * ms) }
    }
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GuardVerdict {
    /// The guard turns off-load off; the value is the progress with off-load divided by the progress without off-load,
    /// over the trial.
    Loses(f64),
    /// The current rule stays in force.
    Stays,
    /// The guard turns off-load off because the prediction keeps nearly all calls on the caller's core.
    Unused,
    /// The guard sends all calls to OS cores; the value is the progress with off-load divided by the progress without
    /// off-load.
    Gains(f64),
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialGoal {
    /// The trial keeps the current rule unless this rule loses.
    Keep,
    /// The rule that sends all calls to OS cores must win the trial.
    Win,
}

#[derive(Debug, Clone, Copy)]
enum GuardPhase {
    Trial(TrialGoal),
    /// The guard pauses between trials.
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

/// The guard of a process, which measures the effect of off-load and turns off-load off if the program makes slower
/// progress.
#[derive(Debug)]
pub struct OffloadGuard {
    pace: TrialSchedule,
    first: OffloadRule,
    state: GuardPhase,
    tally: TrialBlocks,
    block: TrialBlock,
    /// Whether the prediction sends calls to OS cores.
    used: bool,
    begun: Option<(u64, ProgramProgress)>,
    pause: u64,
}

impl OffloadGuard {
    /// Creates a guard that begins with a trial of the rule `first`.
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

    /// Returns the current rule for calls.
    pub fn rule(&self) -> OffloadRule {
        match self.state {
            GuardPhase::Pause { rule, .. } => rule,
            GuardPhase::Trial(_) if !BLOCK[self.block.at] => OffloadRule::Here,
            GuardPhase::Trial(TrialGoal::Keep) => self.first,
            GuardPhase::Trial(TrialGoal::Win) => OffloadRule::All,
        }
    }

    /// Returns whether the OS cores are currently taken from the program.
    pub fn confines(&self) -> bool {
        match self.rule() {
            OffloadRule::Here => false,
            OffloadRule::Predicted => self.used,
            OffloadRule::All => true,
        }
    }

    /// Returns whether a trial is in progress, so that progress must be counted.
    pub fn compares(&self) -> bool {
        matches!(self.state, GuardPhase::Trial(_))
    }

    /// Tells the guard that the program makes a call; returns the verdict if a trial has ended.
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
    /// The progress with off-load divided by the progress without off-load.
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

    /// At a look, the number of blocks that may differ; `None` between looks.
    fn look(&self) -> Option<u32> {
        LOOKS.iter().find(|(blocks, _)| *blocks == self.blocks).map(|&(_, may)| may)
    }

    /// Whether a look with this number of differing blocks would be the last one.
    fn is_over(&self, otherwise: u32) -> bool {
        let (most, may) = LOOKS[LOOKS.len() - 1];
        otherwise > may || self.blocks == most
    }

    /// Whether the trial is lost. `None` means that the trial is undecided.
    fn loses(&self) -> Option<bool> {
        if self.blocks == CLEAR.0 && self.clearly == CLEAR.0 {
            return Some(true);
        }
        let (may, kept) = (self.look()?, self.blocks - self.lost);
        if kept <= may { Some(true) } else { self.is_over(kept).then_some(false) }
    }

    /// Whether the trial is won. `None` means that the trial is undecided.
    fn wins(&self) -> Option<bool> {
        if self.last < HOPELESS {
            return Some(false);
        }
        let (may, missed) = (self.look()?, self.blocks - self.won);
        if missed <= may { Some(true) } else { self.is_over(missed).then_some(false) }
    }

    /// Whether the prediction sends a relevant number of calls.
    fn is_used(&self) -> bool {
        self.gone * USED >= self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: TrialSchedule =
        TrialSchedule { stretch: 1_000, idle: 100_000, pause: (50_000, 200_000) };

    /// A simulated program whose calls take these ticks under each rule.
    struct Program {
        guard: OffloadGuard,
        now: f64,
        progress: ProgramProgress,
        /// The ticks of a call: local, by prediction, and all on OS cores.
        ticks: [f64; 3],
        /// The bytes of a call under each rule.
        bytes: [u64; 3],
        /// One in this many calls is predicted to be faster on an OS core.
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

        /// The next verdict, and the ticks until then.
        fn verdict(&mut self) -> (GuardVerdict, f64) {
            let begun = self.now;
            loop {
                if let Some(verdict) = self.call() {
                    return (verdict, self.now - begun);
                }
            }
        }

        /// Makes calls until no trial is in progress.
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
