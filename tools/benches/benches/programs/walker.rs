// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with a working set of known size: a walk over a shuffled list of lines, half of which it writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use corehop_plan::experiment::DrawStream;

/// The words of a line of 64 bytes.
const WORDS: usize = 8;
/// Lines between two entries in the file of progress.
const LINES: usize = 20_000;

/// The text of a count, always as long.
pub(crate) fn told(count: u64) -> String {
    format!("{count:20}\n")
}

/// Walks for ever, and counts in the file. A set of no line is a computation in registers.
pub(crate) fn walk(kib: u64, path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let mut walk = Walk::of(kib);
    for count in 0.. {
        if kib == 0 {
            compute(count);
        } else {
            walk.visit(LINES);
        }
        file.write_all_at(told(count).as_bytes(), 0)?;
    }
    Ok(())
}

/// A walk over a set, and its place.
pub(crate) struct Walk {
    /// The first word of each line is the number of the next line.
    set: Vec<u64>,
    at: usize,
}

impl Walk {
    /// A set of this size, shuffled.
    pub(crate) fn of(kib: u64) -> Self {
        let lines = (kib * 1024 / 64) as usize;
        let mut order: Vec<u64> = (0..lines as u64).collect();
        DrawStream::new(1, 0).shuffle(&mut order);
        let mut set = vec![0; lines * WORDS];
        for (&line, &next) in order.iter().zip(order.iter().cycle().skip(1)) {
            set[line as usize * WORDS] = next;
        }
        Self { set, at: 0 }
    }

    /// Visits some lines from this one on, and writes every other one.
    pub(crate) fn visit(&mut self, lines: usize) {
        for visit in 0..lines {
            if visit % 2 == 0 {
                self.set[self.at * WORDS + 1] += 1;
            }
            self.at = self.set[self.at * WORDS] as usize;
        }
    }
}

fn compute(seed: u64) {
    let mut state = seed;
    for _ in 0..5 * LINES {
        state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005) + 1);
    }
}
