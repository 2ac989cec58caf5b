// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of a mechanism: by the host, and by the cost of some empty calls.

use std::ffi::c_void;
use std::ptr;

use crate::mechanism::Mechanism;
use crate::options::{Fallback, Options};
use crate::switch::Switch;
use crate::sys;

/// Calls of each mechanism. The slowest takes some 100 µs for each.
const CALLS: usize = 20;

/// The mechanisms that are tried. V4 is not: it takes a core from others, and has to be asked for.
const TRIED: [Mechanism; 4] =
    [Mechanism::Adaptive, Mechanism::HandOff, Mechanism::Linked, Mechanism::Affinity];

/// Starts the mechanism whose empty call is the cheapest, at the median.
pub(crate) fn cheapest(switch: &mut Switch, limit: u64, options: &Options) {
    let mut costs = Vec::new();
    for mechanism in TRIED {
        match switch.try_start(mechanism, limit, options) {
            Ok(()) => costs.push((mechanism, cost(switch))),
            Err(error) if mechanism == Mechanism::Linked => switch.note(Fallback::Ring(error)),
            Err(error) => switch.note(Fallback::Resources(error)),
        }
    }
    switch.stop();
    if let Some(&(best, _)) = costs.iter().min_by_key(|&&(_, cost)| cost) {
        switch.start(best, limit, options);
    }
    switch.set_costs(costs);
}

/// The median cost of an empty call, in nanoseconds.
fn cost(switch: &mut Switch) -> u64 {
    let mut costs = [0; CALLS];
    for cost in &mut costs {
        let begun = sys::now();
        // SAFETY: it does nothing.
        unsafe { switch.call(nothing, ptr::null_mut()) };
        *cost = sys::now() - begun;
    }
    costs.sort_unstable();
    costs[CALLS / 2]
}

unsafe extern "C" fn nothing(_: *mut c_void) -> u64 {
    0
}
