// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polluters and preemptors, which walk their own working set and prove that they ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use corehop_plan::experiment::DrawStream;
use corehop_plan::units::Cpu;
use corehop_plan::workload::{LINE, Page, Pattern, Polluter, WorkingSet, fraction};

use super::load::workers::LoadWork;
use crate::memory::MemoryError;
use crate::set_memory::SetMemory;
use corehop_system::clock::{Ticks, roughly_now};
use corehop_system::thread::{SchedulingPolicy, set_affinity, set_policy};

/// The number of lines walked between two checks for orders.
const STRIDE: u64 = 64;

/// A polluter's position in its working set: the work of the load `constructed`.
#[derive(Debug)]
pub(super) struct Cursor {
    memory: SetMemory,
    at: u64,
    pattern: Pattern,
    step: u64,
    accumulator: u64,
}

impl Cursor {
    /// Starts at the first line of a new working set.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory.
    pub(super) fn new(polluter: &Polluter, draw: &mut DrawStream) -> Result<Self, MemoryError> {
        let set = WorkingSet {
            pattern: polluter.pattern,
            page: Page::Base,
            ..WorkingSet::list(polluter.wss, polluter.write_ratio)
        };
        let memory = SetMemory::new(&set, draw)?;
        let share =
            if set.pattern == Pattern::Scan { set.write_ratio } else { set.written_lines() };
        let step = fraction(share);
        Ok(Self { at: memory.linked().start, memory, pattern: set.pattern, step, accumulator: 0 })
    }

    /// Advances by [`STRIDE`] lines.
    pub(super) fn stride(&mut self) {
        for _ in 0..STRIDE {
            let (sum, write) = self.accumulator.overflowing_add(self.step);
            self.accumulator = sum;
            let element = self.at as *mut u64;
            // SAFETY: `at` is always the address of a line of `memory`, which only this thread uses.
            let next = unsafe {
                if write {
                    element.add(1).write_volatile(self.step);
                }
                element.read_volatile()
            };
            self.at = if self.pattern == Pattern::Shuffled { next } else { self.following_line() };
        }
    }

    fn following_line(&self) -> u64 {
        let next = self.at + LINE;
        let linked = self.memory.linked();
        if next < linked.end { next } else { linked.start }
    }
}

impl LoadWork for Cursor {
    fn step(&mut self) -> Result<u64, String> {
        self.stride();
        Ok(STRIDE * LINE)
    }
}

/// A counter on its own cache lines, so that reading it does not slow down the counting thread.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedCounter(AtomicU64);

/// A preemptor parked on one CPU, which has the CPU exactly while a job is away from it.
#[derive(Debug)]
pub(crate) struct Preemptor {
    /// The CPU on which the preemptor is parked.
    pub(crate) cpu: Cpu,
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Orders {
    /// The time stamp until which the preemptor walks.
    until: AtomicU64,
    lines: PaddedCounter,
    end: AtomicBool,
}

impl Preemptor {
    /// Parks a preemptor on `cpu`, under the ordinary policy.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory for the preemptor's working set, or the system starts
    /// no more threads.
    pub(crate) fn park(polluter: &Polluter, cpu: Cpu, seed: u64) -> Result<Self, MemoryError> {
        let cursor = Cursor::new(polluter, &mut DrawStream::new(seed, 2000 + u64::from(cpu.0)))?;
        let orders = Arc::new(Orders::default());
        let shared = orders.clone();
        let builder = std::thread::Builder::new().name(format!("preempt-{}", cpu.0));
        let thread = builder.spawn(move || preempt(cursor, cpu, &shared));
        let refused = |error| MemoryError::Refused { what: "starting a preemptor", error };
        Ok(Self { cpu, orders, thread: Some(thread.map_err(refused)?) })
    }

    /// Lets the preemptor walk until the stamp `until`, starting when the caller leaves the CPU.
    pub(crate) fn go(&self, until: Ticks) {
        self.orders.until.store(until, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Stops the preemptor in any state.
    pub(crate) fn stop(&self) {
        self.orders.until.store(0, Ordering::Relaxed);
    }

    /// The number of lines walked so far.
    pub(crate) fn lines(&self) -> u64 {
        self.orders.lines.0.load(Ordering::Relaxed)
    }
}

fn preempt(mut cursor: Cursor, cpu: Cpu, orders: &Orders) {
    if set_affinity([cpu]).is_err() || set_policy(SchedulingPolicy::Other(0)).is_err() {
        return;
    }
    while !orders.end.load(Ordering::Relaxed) {
        if roughly_now() >= orders.until.load(Ordering::Relaxed) {
            std::thread::park();
            continue;
        }
        cursor.stride();
        orders.lines.0.fetch_add(STRIDE, Ordering::Relaxed);
    }
}

impl Drop for Preemptor {
    fn drop(&mut self) {
        self.orders.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A preemptor that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::units::Bytes;
    use std::time::{Duration, Instant};

    fn small(pattern: Pattern) -> Polluter {
        Polluter { wss: Bytes::from_kib(64), pattern, write_ratio: 0.25 }
    }

    fn eventually(what: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(1)))
            .map(|()| what())
            .take_while(|_| start.elapsed() < Duration::from_secs(20))
            .any(|is| is)
    }

    #[test]
    fn a_polluter_comes_by_every_line_and_writes_its_share_of_them() {
        for (pattern, written) in [(Pattern::Shuffled, 1024.0 / 3.0), (Pattern::Scan, 256.0)] {
            let mut cursor = Cursor::new(&small(pattern), &mut DrawStream::new(1, 0)).unwrap();
            let rounds = 1024 / STRIDE;
            let moved: u64 = (0..rounds).map(|_| cursor.step().unwrap()).sum();
            assert_eq!((moved, cursor.at), (64 << 10, cursor.memory.linked().start), "{pattern}");
            let (start, length) = cursor.memory.raw();
            let second_words = (start..start + length as u64).step_by(LINE as usize);
            // SAFETY: the second word of a line of the cursor's memory.
            let data = second_words.map(|line| unsafe { *((line + 8) as *const u64) });
            let lines = data.filter(|&word| word != 0).count() as f64;
            assert!((lines - written).abs() <= 2.0, "{pattern}: {lines}");
        }
    }

    #[test]
    fn a_preemptor_walks_only_when_told_to_and_stops_when_told_to() {
        let preemptor = Preemptor::park(&small(Pattern::Shuffled), Cpu(0), 1).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(preemptor.lines(), 0);
        preemptor.go(Ticks::MAX);
        assert!(eventually(|| preemptor.lines() > 0));
        preemptor.stop();
        let rests = || {
            let before = preemptor.lines();
            std::thread::sleep(Duration::from_millis(3));
            preemptor.lines() == before
        };
        assert!(eventually(rests));
    }
}
