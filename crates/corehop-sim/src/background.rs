// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that do more than walk: devices that move data past the caches, locked accesses that stop everybody.

use super::tags::LineNumber;
use super::times::Picos;

/// One transfer in so many is read from memory by the device, the others are written to it, as the live load
/// has it.
const READ_EVERY: u64 = 8;
/// All threads together split locks for this long in each [`PERIOD`], as the live load does.
const BURST: Picos = 1_000_000_000;
/// See [`BURST`].
const PERIOD: Picos = 10 * BURST;

/// A device that moves a buffer, line by line, again and again.
#[derive(Debug, Clone)]
pub struct Device {
    lines: Vec<LineNumber>,
    at: usize,
    rounds: u64,
    /// The time between two lines.
    interval: Picos,
}

/// The action of a device on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) line: LineNumber,
    /// Whether it writes to memory, rather than reads.
    pub(super) writes: bool,
    /// The time until the next one.
    pub(super) takes: Picos,
}

impl Device {
    /// One that moves `lines`, which are not none, one in each `interval`.
    pub fn new(lines: Vec<LineNumber>, interval: Picos) -> Self {
        Self { lines, at: 0, rounds: 0, interval }
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Transfer {
        let line = self.lines[self.at];
        let writes = !self.rounds.is_multiple_of(READ_EVERY);
        self.at += 1;
        if self.at == self.lines.len() {
            (self.at, self.rounds) = (0, self.rounds + 1);
        }
        Transfer { line, writes, takes: self.interval }
    }
}

/// A thread that splits locks, in bursts.
#[derive(Debug, Clone)]
pub struct SplitLocks {
    /// The time for which each of them stops every CPU.
    takes: Picos,
    /// The number of locks in a burst, and those left of this one.
    burst: u64,
    left: u64,
}

impl SplitLocks {
    /// One of so many threads, whose locked accesses take so long each.
    pub fn new(takes: Picos, threads: u64) -> Self {
        let burst = (BURST / takes.max(1) / threads.max(1)).max(1);
        Self { takes, burst, left: burst }
    }

    /// The next access: how long it stops everybody, and when the one after it comes.
    pub(super) fn next(&mut self) -> (Picos, Picos) {
        self.left -= 1;
        if self.left > 0 {
            return (self.takes, self.takes);
        }
        self.left = self.burst;
        (self.takes, self.takes + PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_writes_seven_rounds_out_of_eight() {
        let mut device = Device::new(vec![3, 4], 5);
        let all: Vec<Transfer> = (0..32).map(|_| device.next()).collect();
        assert_eq!(all[..2], [3, 4].map(|line| Transfer { line, writes: false, takes: 5 }));
        assert_eq!(all.iter().filter(|it| it.writes).count(), 28);
    }

    #[test]
    fn locks_are_split_for_a_tenth_of_the_time_at_most_by_all_threads_together() {
        let (mut stopped, mut time) = (0, 0);
        let mut locks = SplitLocks::new(400_000, 2);
        while time < 20 * PERIOD {
            let (takes, until) = locks.next();
            (stopped, time) = (stopped + takes, time + until);
        }
        let share = 2.0 * stopped as f64 / time as f64;
        assert!((0.08..0.1).contains(&share), "{share}");
    }
}
