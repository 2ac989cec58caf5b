// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `changing`: a made-up program whose working set moves on through its memory, as a compiler's does
//! (Wächtler 3.3.2, 5.1.1).

use std::sync::atomic::{AtomicU64, Ordering};

use corehop_core::experiment::Draw;
use corehop_core::units::Cpu;
use corehop_core::workload::{Changing, LINE, Page};

use super::Work;
use crate::clock::{Clock, Ticks, roughly_now};
use crate::memory::{Mapping, MemoryError};

/// The lines touched between two looks at the orders.
const STRIDE: u64 = 64;

/// Such a program on its way through its memory.
#[derive(Debug)]
pub(crate) struct Program {
    memory: Mapping,
    lines: u64,
    newest: u64,
    window: u64,
    /// Shares of lines that are new and that are written, as fractions of 2^64.
    fresh: u64,
    written: u64,
    pause: Ticks,
    draw: Draw,
}

impl Program {
    /// One for each of `cpus`, with memory of its own.
    ///
    /// # Errors
    /// [`MemoryError`] where there is none.
    pub(crate) fn on(
        changing: &Changing,
        cpus: &[Cpu],
        clock: Clock,
        seed: u64,
    ) -> Result<Vec<(Cpu, Self)>, MemoryError> {
        let one = |(index, &cpu): (usize, &Cpu)| {
            Ok((cpu, Self::new(changing, clock, Draw::new(seed, 3_000 + index as u64))?))
        };
        cpus.iter().enumerate().map(one).collect()
    }

    fn new(changing: &Changing, clock: Clock, draw: Draw) -> Result<Self, MemoryError> {
        let fraction = |share: f64| (share * 2_f64.powi(64)) as u64;
        Ok(Self {
            memory: Mapping::new(changing.memory(), Page::Transparent, None)?,
            lines: changing.memory().get() / LINE,
            newest: 0,
            window: changing.window.get() / LINE,
            fresh: fraction(changing.fresh),
            written: fraction(changing.write_ratio),
            pause: clock.ticks(changing.pause.get() as f64),
            draw,
        })
    }

    /// The line it touches next.
    fn next(&mut self) -> u64 {
        if self.draw.bits() < self.fresh {
            self.newest = (self.newest + 1) % self.lines;
            return self.newest;
        }
        (self.newest + self.lines - self.draw.below(self.window)) % self.lines
    }

    fn touch(&mut self, line: u64) {
        let word = (self.memory.address() + line * LINE) as *const AtomicU64;
        // SAFETY: an aligned word of `memory`, which lives as long as this and is not used otherwise.
        let word = unsafe { &*word };
        if self.draw.bits() < self.written {
            word.store(line, Ordering::Relaxed);
        } else {
            std::hint::black_box(word.load(Ordering::Relaxed));
        }
    }
}

impl Work for Program {
    fn step(&mut self) -> Result<u64, String> {
        for _ in 0..STRIDE {
            let line = self.next();
            self.touch(line);
            let until = roughly_now() + self.pause;
            while roughly_now() < until {
                std::hint::spin_loop();
            }
        }
        Ok(STRIDE * LINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_core::units::{Bytes, Nanos};

    #[test]
    fn it_stays_in_its_window_and_moves_on_by_its_share_of_new_lines() {
        let changing = Changing {
            window: Bytes::from_kib(64),
            fresh: 0.25,
            write_ratio: 0.5,
            pause: Nanos::new(0),
        };
        let mut program = Program::new(&changing, Clock::of_rate(1.0), Draw::new(1, 1)).unwrap();
        let (mut fresh, mut seen) = (0, program.newest);
        for _ in 0..10_000 {
            let line = program.next();
            let back = (program.newest + program.lines - line) % program.lines;
            assert!(back < 1_024, "{back}");
            fresh += u64::from(program.newest != seen);
            seen = program.newest;
            program.touch(line);
        }
        assert!((2_300..2_700).contains(&fresh), "{fresh}");
    }
}
