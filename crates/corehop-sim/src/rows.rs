// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of memory: each bank keeps the row of the last read open, and lines of an open row arrive sooner.
//!
//! Write-backs open no rows in the simulation, because memory controllers gather write-backs and issue them between
//! reads.

use corehop_plan::platform::{DramRows as PlatformRows, Platform};

use super::spec::SpecError;
use super::tags::LineNumber;
use super::times::{Picos, picos};

/// The row number that stands for no open row.
const NONE: u64 = u64::MAX;

/// The open rows of all nodes.
#[derive(Debug, Clone)]
pub(super) struct OpenRows {
    /// The number of lines in a row.
    size: u64,
    /// The number of banks of a node.
    banks: u64,
    /// The time saved by reading a line of an open row.
    saved: Picos,
    /// The number of neighbouring real lines that each simulated line represents.
    every: u64,
    /// The open row of each bank, by node and bank.
    open: Vec<u64>,
}

impl OpenRows {
    /// The rows that `platform` states, all closed; None if the platform states no rows.
    ///
    /// # Errors
    /// Returns [`SpecError`] if a time in cycles has no clock.
    pub(super) fn from_platform(
        platform: &Platform,
        every: u64,
    ) -> Result<Option<Self>, SpecError> {
        let Some(PlatformRows { size, banks, saved }) = &platform.memory.rows else {
            return Ok(None);
        };
        let cpu = platform.cpus.value.first().unwrap_or_default();
        let (size, banks) = (size.value.get() / platform.line_size().get(), u64::from(banks.value));
        let nodes = platform.nodes.len().max(1);
        Ok(Some(Self {
            size: size.max(1),
            banks: banks.max(1),
            saved: picos(platform, cpu, saved.value)?,
            every,
            open: vec![NONE; nodes * banks.max(1) as usize],
        }))
    }

    /// Reads a line of the node at index `node`. Returns the time saved compared with a closed row.
    #[inline(always)]
    pub(super) fn read(&mut self, node: usize, line: LineNumber) -> Picos {
        let row = u64::from(line) * self.every / self.size;
        let bank = node as u64 * self.banks + row % self.banks;
        let Some(open) = self.open.get_mut(bank as usize) else { return 0 };
        if std::mem::replace(open, row) == row { self.saved } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::{Fact, Latency};
    use corehop_plan::units::Bytes;

    #[test]
    fn a_row_stays_open_until_another_one_of_its_bank_is_read() {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        assert!(OpenRows::from_platform(&platform, 1).unwrap().is_none());
        platform.memory.rows = Some(PlatformRows {
            size: Fact::assumed(Bytes::from_kib(8), ""),
            banks: Fact::assumed(2, ""),
            saved: Fact::assumed(Latency::Picos(15_000), ""),
        });
        let mut rows = OpenRows::from_platform(&platform, 1).unwrap().unwrap();
        let mut read = |node, line| rows.read(node, line);
        // Rows of 128 lines: 0 and 2 are in one bank, 1 in the other, and the other node has its own.
        assert_eq!([read(0, 0), read(0, 127), read(0, 128), read(0, 5)], [0, 15_000, 0, 15_000]);
        assert_eq!([read(0, 256), read(0, 6), read(0, 129)], [0, 0, 15_000]);
        assert_eq!([read(1, 7), read(0, 7)], [0, 15_000]);
        // Of 16 lines one is simulated: the ninth of them is in the next row.
        let mut rows = OpenRows::from_platform(&platform, 16).unwrap().unwrap();
        assert_eq!([0, 7, 8].map(|line| rows.read(0, line)), [0, 15_000, 0]);
    }
}
