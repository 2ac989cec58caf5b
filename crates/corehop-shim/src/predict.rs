// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the faster core for a call from recent durations of calls of its kind and size.
//!
//! Each kind and size class has a moving mean for both the caller's core and the OS core. The predictor uses the
//! faster core and rechecks the other one periodically, less often the longer the choice has been stable.

use crate::call::{CALLS, Call};

/// The core that executes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPlace {
    /// The caller's core.
    Here,
    /// The call runs on an OS core.
    There,
}

/// The number of size classes, which are powers of two.
const CLASSES: usize = 12;
/// The number of timed calls on each core before there is a prediction.
const FIRST: u32 = 4;
/// The number of calls between two trials of the other core, at first and at most.
const SOONEST: u32 = 16;
const LATEST: u32 = 4096;
/// A duration counts for at most this many times the mean, because longer durations mean that something else had the
/// CPU.
const OUTLIER: f32 = 8.0;
/// The weight of a new duration in the mean.
const WEIGHT: f32 = 0.125;

#[derive(Debug, Clone, Copy)]
struct CallPrediction {
    /// The mean ticks on the caller's core and on the OS core.
    mean: [f32; 2],
    known: [u32; 2],
    /// The number of calls since the other core was tried, and the number after which it is tried again.
    since: u32,
    interval: u32,
    better: CallPlace,
}

const UNKNOWN: CallPrediction = CallPrediction {
    mean: [0.0; 2],
    known: [0; 2],
    since: 0,
    interval: SOONEST,
    better: CallPlace::Here,
};

/// The predictor of a thread, which chooses the core for each call from the recent timings of similar calls.
#[derive(Debug)]
pub struct Predictor {
    kinds: [[CallPrediction; CLASSES]; CALLS],
}

impl Default for Predictor {
    fn default() -> Self {
        Self { kinds: [[UNKNOWN; CLASSES]; CALLS] }
    }
}

fn class(size: u64) -> usize {
    (size.max(1).ilog2().saturating_sub(8) as usize).min(CLASSES - 1)
}

impl Predictor {
    /// Returns the core for a call, and whether the call must be timed.
    pub fn place(&mut self, call: Call, size: u64) -> (CallPlace, bool) {
        let kind = &mut self.kinds[call as usize][class(size)];
        if kind.known.iter().any(|&known| known < FIRST) {
            let fewer =
                if kind.known[1] < kind.known[0] { CallPlace::There } else { CallPlace::Here };
            return (fewer, true);
        }
        kind.since += 1;
        if kind.since < kind.interval {
            // Timing takes time, too.
            return (kind.better, kind.since.is_multiple_of(8));
        }
        kind.since = 0;
        kind.interval = (kind.interval * 2).min(LATEST);
        (other(kind.better), true)
    }

    /// Adds the duration of a call, in ticks, on this core.
    pub fn learn(&mut self, call: Call, size: u64, place: CallPlace, ticks: u64) {
        let kind = &mut self.kinds[call as usize][class(size)];
        let (at, ticks) = (place as usize, ticks as f32);
        kind.mean[at] = if kind.known[at] == 0 {
            ticks
        } else {
            kind.mean[at] + WEIGHT * (ticks.min(OUTLIER * kind.mean[at]) - kind.mean[at])
        };
        kind.known[at] = kind.known[at].saturating_add(1);
        let better = if kind.mean[1] < kind.mean[0] { CallPlace::There } else { CallPlace::Here };
        if better != kind.better {
            kind.better = better;
            kind.interval = SOONEST;
        }
    }
}

fn other(place: CallPlace) -> CallPlace {
    match place {
        CallPlace::Here => CallPlace::There,
        CallPlace::There => CallPlace::Here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes calls that take these ticks on each core, and counts the off-loaded ones.
    fn there(predictor: &mut Predictor, calls: u32, here: u64, there: u64) -> u32 {
        let mut count = 0;
        for _ in 0..calls {
            let (place, timed) = predictor.place(Call::Read, 4096);
            count += u32::from(place == CallPlace::There);
            if timed {
                let ticks = if place == CallPlace::There { there } else { here };
                predictor.learn(Call::Read, 4096, place, ticks);
            }
        }
        count
    }

    #[test]
    fn the_faster_place_is_taken_and_the_other_tried_ever_more_rarely() {
        let mut predictor = Predictor::default();
        assert!(there(&mut predictor, 10_000, 100, 200) < 30);
        let mut predictor = Predictor::default();
        assert!(there(&mut predictor, 10_000, 200, 100) > 9_970);
    }

    #[test]
    fn it_notices_when_the_other_place_becomes_faster() {
        let mut predictor = Predictor::default();
        there(&mut predictor, 10_000, 100, 200);
        there(&mut predictor, 100_000, 400, 200);
        assert!(there(&mut predictor, 1_000, 400, 200) > 900);
    }

    #[test]
    fn one_disturbed_call_does_not_decide() {
        let mut predictor = Predictor::default();
        there(&mut predictor, 1_000, 100, 200);
        predictor.learn(Call::Read, 4096, CallPlace::Here, 1_000_000);
        assert!(there(&mut predictor, 100, 100, 200) < 30);
    }

    #[test]
    fn sizes_and_calls_are_told_apart() {
        let mut predictor = Predictor::default();
        there(&mut predictor, 1_000, 100, 200);
        assert_eq!(predictor.kinds[Call::Read as usize][class(1 << 20)].known, [0; 2]);
        assert_eq!(predictor.kinds[Call::Write as usize][class(4096)].known, [0; 2]);
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert_eq!(class(0), 0);
    }
}
