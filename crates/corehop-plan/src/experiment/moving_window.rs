// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a program with a changing working set touches its memory; live and simulated
//! programs use this order.

use super::DrawStream;
use crate::workload::{MovingProgram, fraction};

/// The sequence of lines that a program with a changing working set visits: each line is new, or is
/// drawn from the recently new lines.
#[derive(Debug, Clone)]
pub struct MovingWindow {
    lines: u64,
    /// The number of the newest line that entered the window so far.
    newest: u64,
    /// The number of recently new lines from which the program draws.
    window: u64,
    /// The share of visits that go to a new line, as a fraction of 2^64.
    fresh: u64,
    draw: DrawStream,
}

impl MovingWindow {
    /// Makes a sequence over `lines` lines, which represent all of the program's memory.
    pub fn new(program: &MovingProgram, lines: u64, draw: DrawStream) -> Self {
        let window = u128::from(program.window.get()) * u128::from(lines);
        let window = (window / u128::from(program.memory().get())) as u64;
        Self { lines, newest: 0, window: window.max(1), fresh: fraction(program.fresh), draw }
    }

    /// Returns the next line to visit, counted from 0.
    #[inline]
    pub fn next_line(&mut self) -> u64 {
        if self.draw.bits() < self.fresh {
            self.newest = if self.newest + 1 == self.lines { 0 } else { self.newest + 1 };
            return self.newest;
        }
        let back = self.draw.below(self.window);
        if back <= self.newest { self.newest - back } else { self.lines + self.newest - back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    #[test]
    fn it_stays_in_its_window_and_moves_on_by_its_share_of_new_lines() {
        let program =
            MovingProgram { window: Bytes::from_kib(64), fresh: 0.25, ..MovingProgram::COMPILER };
        let mut window =
            MovingWindow::new(&program, program.memory().get() / 64, DrawStream::new(1, 1));
        let (mut fresh, mut seen) = (0, window.newest);
        for _ in 0..10_000 {
            let line = window.next_line();
            let back = (window.newest + window.lines - line) % window.lines;
            assert!(back < 1_024, "{back}");
            fresh += u64::from(window.newest != seen);
            seen = window.newest;
        }
        assert!((2_300..2_700).contains(&fresh), "{fresh}");
    }
}
