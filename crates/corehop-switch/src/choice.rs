// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses a mechanism for the host, by the cost of some empty calls.

use std::ffi::c_void;
use std::ptr;

use crate::mechanism::Mechanism;
use crate::options::{Fallback, Options};
use crate::switch::Switch;
use crate::sys;

/// The number of calls per mechanism. The slowest mechanism takes about 100 µs per call.
const CALLS: usize = 20;

/// The mechanisms whose costs are compared. All other mechanisms run only on request, because V4 takes a core from
/// other threads, V3 needs features that many hosts forbid, and V1 moves the caller itself.
const TRIED: [Mechanism; 2] = [Mechanism::Adaptive, Mechanism::HandOff];

/// Starts the mechanism with the lowest median cost of an empty call.
pub(crate) fn cheapest(switch: &mut Switch, limit: u64, options: &Options) {
    let mut costs = Vec::new();
    for mechanism in TRIED {
        match switch.try_start(mechanism, limit, options) {
            Ok(()) => costs.extend(cost(switch).map(|cost| (mechanism, cost))),
            Err(error) => switch.note(Fallback::Resources(error)),
        }
    }
    // On a host whose other cores took no call in time, the next one may.
    let best = costs.iter().min_by_key(|&&(_, cost)| cost).map_or(TRIED[0], |&(best, _)| best);
    switch.start(best, limit, options);
    switch.set_costs(costs);
}

/// The median cost of an empty call, in nanoseconds. Returns `None` if no call was switched, because a call on the
/// caller's core is cheap and says nothing about a switch.
fn cost(switch: &mut Switch) -> Option<u64> {
    let mut costs = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let (begun, before) = (sys::now(), switch.counts().switched);
        // SAFETY: it does nothing.
        unsafe { switch.call(nothing, ptr::null_mut()) };
        if switch.counts().switched > before {
            costs.push(sys::now() - begun);
        }
    }
    median(&mut costs)
}

/// The middle of the costs, or the mean of the two middle costs.
fn median(costs: &mut [u64]) -> Option<u64> {
    costs.sort_unstable();
    let (low, high) = (costs.get(costs.len().checked_sub(1)? / 2)?, costs.get(costs.len() / 2)?);
    Some(low.midpoint(*high))
}

unsafe extern "C" fn nothing(_: *mut c_void) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_two_middle_costs() {
        assert_eq!(median(&mut [9, 1, 3, 5]), Some(4));
        assert_eq!(median(&mut [9, 1, 5]), Some(5));
        assert_eq!(median(&mut []), None);
    }
}
