// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for one CPU: EDF and fixed priorities, preemptive and non-preemptive.

pub mod edf;
pub mod edf_response;
pub mod fifo;
pub mod fixed;
pub mod nonpreemptive;
pub mod suspension;

use crate::supply::{FULL, Supply};
use corehop_plan::workload::task::{Task, Time};

/// The number of steps after which an analysis answers "unknown". The limit is a count, not a time, so the verdict is
/// the same on every machine.
pub(crate) const STEPS: u64 = 1 << 24;

/// The length at which a busy period is given up: far beyond any deadline, and far inside 64 bits.
const HORIZON: Time = Time::new(1 << 61);

/// The longest synchronous busy period, `L = sum of ceil(L / T) C`, starting with `first` work beside the tasks' own;
/// `None` if the search takes too long. The utilisation must be at most 1.
pub(crate) fn busy_period(tasks: &[Task], first: Time) -> Option<Time> {
    busy_period_on(tasks, first, &FULL)
}

/// The longest synchronous busy period on a CPU with this supply: the least `L` with `sbf(L) >= sum of ceil(L / T)
/// C`.
pub(crate) fn busy_period_on(tasks: &[Task], first: Time, supply: &Supply) -> Option<Time> {
    if !supply.sustains(tasks.iter()) {
        return None;
    }
    let mut length = supply.time_for(first + tasks.iter().map(|task| task.wcet).sum::<Time>());
    for _ in 0..STEPS / tasks.len().max(1) as u64 {
        let work = |task: &Task| (length + task.jitter).div_ceil(task.period) * task.wcet;
        let next = supply.time_for(first + tasks.iter().map(work).sum::<Time>());
        if next == length {
            return Some(length);
        }
        if next > HORIZON {
            return None;
        }
        length = next;
    }
    None
}
