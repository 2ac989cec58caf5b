// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background loads other than walks: devices that move data past the caches, and locked accesses that block all
//! CPUs.

use super::tags::LineNumber;
use super::times::Picos;

/// The period of device reads: one in this many transfers reads from memory, all others write, as in the live load.
const READ_EVERY: u64 = 8;
/// The time in each [`PERIOD`] for which the threads together execute split locks, as in the live load.
const BURST: Picos = 1_000_000_000;
/// The time between the starts of two bursts of split locks.
const PERIOD: Picos = 10 * BURST;

/// A device that transfers a buffer line by line, again and again.
#[derive(Debug, Clone)]
pub struct Device {
    lines: Vec<LineNumber>,
    at: usize,
    rounds: u64,
    /// The time between two transfers of a line.
    interval: Picos,
}

/// The action of a device on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) line: LineNumber,
    /// Whether the device writes the line to memory, rather than reads the line.
    pub(super) writes: bool,
    /// The time until the next transfer.
    pub(super) takes: Picos,
}

impl Device {
    /// Creates a device that transfers one of `lines`, which must not be empty, in each `interval`.
    pub fn new(lines: Vec<LineNumber>, interval: Picos) -> Self {
        Self { lines, at: 0, rounds: 0, interval }
    }

    /// Returns the device's next line transfer.
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
    /// The time for which each split lock blocks all CPUs.
    takes: Picos,
    /// The number of locks in a burst, and the number left in the current burst.
    burst: u64,
    left: u64,
}

impl SplitLocks {
    /// Creates one of `threads` threads whose locked accesses take `takes` each.
    pub fn new(takes: Picos, threads: u64) -> Self {
        let burst = (BURST / takes.max(1) / threads.max(1)).max(1);
        Self { takes, burst, left: burst }
    }

    /// Returns the time for which the next locked access blocks all CPUs, and the time until the access after it.
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
