// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `changing`: a synthetic program whose working set moves through its memory, like a compiler's (Wächtler
//! 3.3.2, 5.1.1).

use std::sync::atomic::{AtomicU64, Ordering};

use corehop_plan::experiment::{DrawStream, MovingWindow};
use corehop_plan::units::Cpu;
use corehop_plan::workload::{LINE, MovingProgram, Page, fraction};

use super::LoadWork;
use crate::memory::{Mapping, MemoryError};
use corehop_system::clock::{TickClock, Ticks, roughly_now};

/// The number of lines touched between two checks for orders.
const STRIDE: u64 = 64;

/// A synthetic program that moves through its memory.
#[derive(Debug)]
pub(crate) struct WindowWalker {
    memory: Mapping,
    window: MovingWindow,
    /// The share of lines that are written, as a fraction of 2^64, and its running sum.
    written: u64,
    accumulator: u64,
    pause: Ticks,
}

impl WindowWalker {
    /// Creates one program for each of `cpus`, with its own memory.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory.
    pub(crate) fn on(
        changing: &MovingProgram,
        cpus: &[Cpu],
        clock: TickClock,
        seed: u64,
    ) -> Result<Vec<(Cpu, Self)>, MemoryError> {
        let one = |(index, &cpu): (usize, &Cpu)| {
            Ok((cpu, Self::new(changing, clock, DrawStream::new(seed, 3_000 + index as u64))?))
        };
        cpus.iter().enumerate().map(one).collect()
    }

    fn new(
        changing: &MovingProgram,
        clock: TickClock,
        draw: DrawStream,
    ) -> Result<Self, MemoryError> {
        Ok(Self {
            memory: Mapping::new(changing.memory(), Page::Transparent, None)?,
            window: MovingWindow::new(changing, changing.memory().get() / LINE, draw),
            written: fraction(changing.write_ratio),
            accumulator: 0,
            pause: clock.ticks(changing.pause.get() as f64),
        })
    }

    fn touch(&mut self, line: u64) {
        let word = (self.memory.address() + line * LINE) as *const AtomicU64;
        // SAFETY: an aligned word of `memory`, which lives as long as this and is not used otherwise.
        let word = unsafe { &*word };
        let (sum, writes) = self.accumulator.overflowing_add(self.written);
        self.accumulator = sum;
        if writes {
            word.store(line, Ordering::Relaxed);
        } else {
            std::hint::black_box(word.load(Ordering::Relaxed));
        }
    }
}

impl LoadWork for WindowWalker {
    fn step(&mut self) -> Result<u64, String> {
        for _ in 0..STRIDE {
            let line = self.window.next_line();
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
    use corehop_plan::units::{Bytes, Nanos};

    #[test]
    fn a_step_touches_lines_of_its_memory_and_writes_the_share_that_is_asked() {
        let changing = MovingProgram {
            window: Bytes::from_kib(64),
            fresh: 1.0,
            write_ratio: 0.5,
            pause: Nanos::new(0),
        };
        let mut program =
            WindowWalker::new(&changing, TickClock::of_rate(1.0), DrawStream::new(1, 1)).unwrap();
        for _ in 0..16 {
            assert_eq!(program.step(), Ok(STRIDE * LINE));
        }
        // Each of the lines 1 to 1,024 was touched once, in this order; a written one holds its number.
        let word = |line: usize| {
            let at = line * LINE as usize;
            let bytes = &program.memory.bytes_mut()[at..at + 8];
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let words: Vec<u64> = (1..=1_024).map(word).collect();
        let written = words.iter().zip(1..).filter(|&(&word, line)| word == line).count();
        assert_eq!(written, 512);
        assert_eq!(words.iter().filter(|&&word| word == 0).count(), 512);
    }
}
