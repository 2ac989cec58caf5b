// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard: does the program get on faster with off-load than without?
//!
//! A prediction is about a call. What a call there does to the rest (caches, the other threads on that core) only the
//! progress of the whole shows. The guard lets stretches with and without take turns (with, without, without, with: a
//! trend cancels) and compares the rates of calls. Where the rate with off-load is lower in so many such blocks that
//! chance is unlikely (a sign test, below 2 % at each look), it turns off-load off, and tries again later.

use crate::predict::Place;

/// The stretches of a block.
const BLOCK: [Place; 4] = [Place::There, Place::Here, Place::Here, Place::There];
/// Calls in a stretch, at least.
const LEAST_CALLS: u64 = 32;
/// A block counts as lost from this part of the rate without on.
const LOST: f64 = 0.99;
/// Blocks of a trial, and how many of them may not be lost if off-load is to be turned off.
const LOOKS: [(u32, u32); 4] = [(6, 0), (9, 1), (12, 2), (15, 3)];
/// So many blocks, all lost by a tenth or more, are enough.
const CLEAR: (u32, f64) = (3, 0.9);

/// The times of a guard, in ticks.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The length of a stretch, if there are enough calls.
    pub stretch: u64,
    /// A stretch of this length is not a measurement: the program waits.
    pub idle: u64,
    /// The pause between trials, at first and at most.
    pub pause: (u64, u64),
}

impl Pace {
    /// 10 ms; 1 s; 2 to 60 s.
    pub fn usual(ticks_per_microsecond: u64) -> Self {
        let ms = 1000 * ticks_per_microsecond;
        Self { stretch: 10 * ms, idle: 1000 * ms, pause: (2_000 * ms, 60_000 * ms) }
    }
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Off-load is turned off: this is its part of the rate without, over the trial.
    Loses(f64),
    /// Nothing speaks against it.
    Stays,
}

#[derive(Debug)]
enum State {
    /// A trial: the place in the block, and the rates of its stretches so far.
    Trial { at: usize, rates: [f64; 4] },
    /// Between trials.
    Pause { until: u64, place: Place },
}

/// The guard of a process.
#[derive(Debug)]
pub struct Guard {
    pace: Pace,
    state: State,
    begun: Option<u64>,
    calls: u64,
    blocks: u32,
    lost: u32,
    clearly: u32,
    ratios: f64,
    pause: u64,
}

impl Guard {
    /// A guard that begins with a trial.
    pub const fn new(pace: Pace) -> Self {
        Self {
            pace,
            state: State::Trial { at: 0, rates: [0.0; 4] },
            begun: None,
            calls: 0,
            blocks: 0,
            lost: 0,
            clearly: 0,
            ratios: 0.0,
            pause: pace.pause.0,
        }
    }

    /// The place for calls now.
    pub fn place(&self) -> Place {
        match self.state {
            State::Trial { at, .. } => BLOCK[at],
            State::Pause { place, .. } => place,
        }
    }

    /// A call was made; the verdict if a trial has ended.
    pub fn called(&mut self, now: u64) -> Option<Verdict> {
        let begun = *self.begun.get_or_insert(now);
        self.calls += 1;
        match &mut self.state {
            State::Pause { until, .. } => {
                if now >= *until {
                    self.restart(now);
                }
                None
            }
            State::Trial { at, rates } => {
                let took = now.saturating_sub(begun);
                if took >= self.pace.idle {
                    // Begins the block anew.
                    self.state = State::Trial { at: 0, rates: [0.0; 4] };
                    self.begin(now);
                    return None;
                }
                if took < self.pace.stretch || self.calls < LEAST_CALLS {
                    return None;
                }
                rates[*at] = self.calls as f64 / took as f64;
                *at += 1;
                let block = (*at == BLOCK.len()).then_some(*rates);
                self.begin(now);
                block.and_then(|rates| self.judge(rates, now))
            }
        }
    }

    fn begin(&mut self, now: u64) {
        self.begun = Some(now);
        self.calls = 0;
    }

    fn restart(&mut self, now: u64) {
        (self.blocks, self.lost, self.clearly, self.ratios) = (0, 0, 0, 0.0);
        self.state = State::Trial { at: 0, rates: [0.0; 4] };
        self.begin(now);
    }

    fn judge(&mut self, rates: [f64; 4], now: u64) -> Option<Verdict> {
        let ratio = (rates[0] + rates[3]) / (rates[1] + rates[2]);
        self.blocks += 1;
        self.ratios += ratio;
        self.lost += u32::from(ratio < LOST);
        self.clearly += u32::from(ratio < CLEAR.1);
        self.state = State::Trial { at: 0, rates: [0.0; 4] };
        let kept = self.blocks - self.lost;
        let clear = self.blocks == CLEAR.0 && self.clearly == CLEAR.0;
        let look = LOOKS.iter().find(|(blocks, _)| *blocks == self.blocks);
        let loses = clear || look.is_some_and(|&(_, may)| kept <= may);
        let over = look.is_some() && (kept > LOOKS[3].1 || self.blocks == LOOKS[3].0);
        if !loses && !over {
            return None;
        }
        let (place, verdict) = if loses {
            (Place::Here, Verdict::Loses(self.ratios / f64::from(self.blocks)))
        } else {
            (Place::There, Verdict::Stays)
        };
        self.state = State::Pause { until: now + self.pause, place };
        self.pause = (2 * self.pause).min(self.pace.pause.1);
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { stretch: 1_000, idle: 100_000, pause: (50_000, 200_000) };

    /// Calls of a program that take these ticks, until a verdict; and when it came.
    fn verdict(guard: &mut Guard, now: &mut u64, here: u64, there: u64) -> (Verdict, u64) {
        let begun = *now;
        loop {
            *now += if guard.place() == Place::There { there } else { here };
            if let Some(verdict) = guard.called(*now) {
                return (verdict, *now - begun);
            }
        }
    }

    #[test]
    fn a_clear_loss_ends_off_load_after_three_blocks_and_a_small_one_after_six() {
        let (mut guard, mut now) = (Guard::new(PACE), 0);
        let (clear, after) = verdict(&mut guard, &mut now, 10, 20);
        assert!(matches!(clear, Verdict::Loses(ratio) if (0.45..0.55).contains(&ratio)));
        assert!((12_000..13_000).contains(&after), "{after}");
        assert_eq!(guard.place(), Place::Here);
        let (mut guard, mut now) = (Guard::new(PACE), 0);
        let (small, after) = verdict(&mut guard, &mut now, 20, 21);
        assert!(matches!(small, Verdict::Loses(ratio) if (0.9..0.99).contains(&ratio)));
        assert!((24_000..26_000).contains(&after), "{after}");
    }

    #[test]
    fn a_gain_or_no_difference_lets_it_stay() {
        for there in [10, 9, 5] {
            let (mut guard, mut now) = (Guard::new(PACE), 0);
            assert_eq!(verdict(&mut guard, &mut now, 10, there).0, Verdict::Stays);
            assert_eq!(guard.place(), Place::There);
        }
    }

    #[test]
    fn a_trend_is_no_loss() {
        let (mut guard, mut now, mut took) = (Guard::new(PACE), 0.0, 10.0);
        loop {
            took *= 1.000_2;
            now += took;
            if let Some(verdict) = guard.called(now as u64) {
                assert_eq!(verdict, Verdict::Stays);
                break;
            }
        }
    }

    #[test]
    fn it_tries_again_after_a_pause_that_grows() {
        let (mut guard, mut now) = (Guard::new(PACE), 0);
        let (_, first) = verdict(&mut guard, &mut now, 10, 20);
        let (again, second) = verdict(&mut guard, &mut now, 10, 20);
        assert!(matches!(again, Verdict::Loses(_)) && second > first + 45_000, "{second}");
        let (better, third) = verdict(&mut guard, &mut now, 20, 10);
        assert!(better == Verdict::Stays && third > second + 45_000, "{third}");
    }

    #[test]
    fn a_program_that_waits_is_not_judged() {
        let (mut guard, mut now) = (Guard::new(PACE), 0);
        for _ in 0..10_000 {
            now += PACE.idle;
            assert_eq!(guard.called(now), None);
        }
        let mut busy_and_idle = Guard::new(PACE);
        for _ in 0..1_000 {
            for _ in 0..40 {
                now += 30;
                assert_eq!(busy_and_idle.called(now), None);
            }
            now += PACE.idle;
        }
    }
}
