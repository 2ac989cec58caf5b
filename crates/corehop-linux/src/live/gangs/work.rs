// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes the rounds of one thread of a gang.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use corehop_plan::experiment::Gang;
use corehop_plan::stop::Stop;
use corehop_plan::workload::fork_join::ForkTask;
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};

use super::GangFailure;
use super::fork_join::SharedTaskTree;
use super::gate::GangBarrier;
use super::memory::GangMemory;
use corehop_system::clock::Ticks;

/// The number of rounds between two checks whether the run was stopped, far more than a burst has, so no timed burst
/// includes a check.
const ROUNDS: u64 = 4_096;
/// The number of instructions in one iteration of the loop that simulates work.
const TURN: u32 = 3;

/// The part of one thread in a gang.
#[derive(Debug)]
pub(super) struct GangShare {
    program: GangProgram,
    sharing: Sharing,
    member: usize,
    threads: usize,
    memory: Arc<GangMemory>,
    gate: Arc<GangBarrier>,
    /// The items or points that only this thread visits.
    own: Vec<u16>,
    /// The index into `own` for the next round.
    next: usize,
    /// The number of fork-join rounds that this thread has begun, and the next thread to steal from.
    begun: u32,
    victim: usize,
    numbers: Numbers,
    message: Vec<u8>,
    /// Tells whether the run was stopped.
    stop: Stop,
}

/// Random numbers by xorshift64*, at a few instructions each.
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}

/// The failure of a thread that stops waiting because another thread has given up.
fn given_up() -> GangFailure {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}

impl GangShare {
    /// Creates the part of a thread, which may share `memory` with other threads.
    pub(super) fn new(
        gang: &Gang,
        member: usize,
        memory: Arc<GangMemory>,
        gate: Arc<GangBarrier>,
        seed: u64,
    ) -> Self {
        let threads = gang.cpus.len();
        let part = (gang.program.items() as usize).div_ceil(threads).max(1);
        let (own, message) = match gang.program {
            // An item has 4 bytes, a point 2.
            GangProgram::BucketSort { .. } => (2 * part, 0),
            GangProgram::LinearRegression { .. } => (part, 0),
            GangProgram::Exchange { items, .. } => (0, items * GangProgram::MESSAGE),
            GangProgram::Swap { .. } | GangProgram::ForkJoin { .. } => (0, 0),
        };
        // Never 0, which has no successor.
        let start = ((seed << 8) ^ (member as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut numbers = Numbers(start);
        Self {
            program: gang.program.clone(),
            sharing: gang.sharing,
            member,
            threads,
            memory,
            gate,
            own: (0..own).map(|_| numbers.below(1 << 16) as u16).collect(),
            next: 0,
            begun: 0,
            victim: (member + 1) % threads,
            numbers,
            message: vec![1; message as usize],
            stop: Stop::never(),
        }
    }

    /// Sets the `stop` that ends the part early.
    pub(super) fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Waits until the other threads of the gang have arrived. Returns the time at which the last thread arrived.
    pub(super) fn pass_gate(&self) -> Result<Ticks, GangFailure> {
        self.gate.pass().ok_or_else(given_up)
    }

    /// Releases the other threads, including threads that wait for a message.
    pub(super) fn give_up(&self) {
        self.gate.fail();
        for member in 0..self.memory.channels() {
            // Whether it arrives does not matter: a reader that is gone needs none.
            let _written = self.memory.writes_for(member).write_all(&self.message);
        }
    }

    /// Executes `rounds` rounds.
    pub(super) fn rounds(&mut self, rounds: u64) -> Result<(), GangFailure> {
        let mut left = rounds;
        while left > 0 {
            let some = left.min(if matches!(self.program, GangProgram::ForkJoin { .. }) {
                1
            } else {
                ROUNDS
            });
            self.some_rounds(some)?;
            left -= some;
            if left > 0 && self.stop.is_asked() {
                return Err(GangFailure::Stopped);
            }
        }
        Ok(())
    }

    fn some_rounds(&mut self, rounds: u64) -> Result<(), GangFailure> {
        match self.program {
            GangProgram::Swap { items, fixed_low_bits } => {
                let coarse = fixed_low_bits && self.member == 0;
                let step = if coarse { 1 << items.trailing_zeros() } else { 1 };
                (0..rounds).try_for_each(|_| self.swap(items, step))
            }
            GangProgram::BucketSort { buckets, .. } => {
                (0..rounds).try_for_each(|_| self.count(buckets as usize))
            }
            GangProgram::LinearRegression { .. } => {
                (0..rounds).for_each(|_| self.add());
                Ok(())
            }
            GangProgram::Exchange { items, instructions, through: Channel::Memory } => {
                (0..rounds).try_for_each(|_| self.hand_over(items as usize, instructions))
            }
            GangProgram::Exchange { instructions, .. } => {
                (0..rounds).try_for_each(|_| self.pass_message(instructions))
            }
            GangProgram::ForkJoin { number } => {
                (0..rounds).try_for_each(|_| self.fork_join(ForkTask::root(number)))
            }
        }
    }

    /// Whether the threads only read their shared data.
    const fn reads(&self) -> bool {
        matches!(self.sharing, Sharing::Read)
    }

    fn item(&mut self, items: u64, step: u64) -> usize {
        (self.numbers.below(items / step) * step) as usize
    }

    #[inline]
    fn swap(&mut self, items: u64, step: u64) -> Result<(), GangFailure> {
        let one = self.item(items, step);
        let mut other = one;
        while other == one {
            other = self.item(items, step);
        }
        let (low, high) = (one.min(other), one.max(other));
        let memory = &self.memory;
        let (a, b) = (memory.word(low), memory.word(high));
        if self.reads() {
            let locks = [low, high].map(|at| memory.behind(at).load(Ordering::Relaxed));
            black_box((locks, a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)));
            return Ok(());
        }
        self.lock(memory.behind(low))?;
        self.lock(memory.behind(high))?;
        let of_a = a.load(Ordering::Relaxed);
        a.store(b.load(Ordering::Relaxed), Ordering::Relaxed);
        b.store(of_a, Ordering::Relaxed);
        memory.behind(high).store(0, Ordering::Release);
        memory.behind(low).store(0, Ordering::Release);
        Ok(())
    }

    /// Acquires a lock: a word that is 0 while the lock is free.
    #[inline]
    fn lock(&self, word: &AtomicU32) -> Result<(), GangFailure> {
        let take = || word.swap(1, Ordering::Acquire) == 0;
        if take() {
            return Ok(());
        }
        let free = || word.load(Ordering::Relaxed) == 0 && take();
        self.gate.until(free).ok_or_else(given_up)
    }

    /// The next of the thread's own items or points.
    #[inline]
    fn own(&mut self, words: usize) -> u16 {
        let value = self.own[self.next];
        self.next += words;
        if self.next + words > self.own.len() {
            self.next = 0;
        }
        value
    }

    #[inline]
    fn count(&mut self, buckets: usize) -> Result<(), GangFailure> {
        let bucket = (self.own(2) as usize * buckets) >> 16;
        let (mutex, counter) = (self.memory.mutex(bucket), self.memory.behind(bucket));
        if self.reads() {
            black_box((mutex.load(Ordering::Relaxed), counter.load(Ordering::Relaxed)));
            return Ok(());
        }
        self.lock(mutex)?;
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        mutex.store(0, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn add(&mut self) {
        let (x, y) = (u64::from(self.own(1)), self.next as u64);
        let reads = self.reads();
        for (which, more) in [x, y, x * x, y * y, x * y].into_iter().enumerate() {
            let sum = self.memory.sum(self.member, which);
            let value = sum.load(Ordering::Relaxed);
            if reads {
                black_box(value.wrapping_add(more));
            } else {
                sum.store(value.wrapping_add(more), Ordering::Relaxed);
            }
        }
    }

    /// Computes one Fibonacci number with all threads together. With private data, each thread computes the number
    /// alone. With read-only data a thread visits the tasks.
    fn fork_join(&mut self, root: ForkTask) -> Result<(), GangFailure> {
        let memory = self.memory.clone();
        let Some(tree) = memory.tree() else { return Ok(()) };
        if self.reads() {
            black_box(tree.read(root));
            return Ok(());
        }
        self.begun = self.begun.wrapping_add(1);
        if self.member == 0 || !self.takes_turns() {
            tree.run(self.member, root);
        }
        while let Some(task) = self.seek(tree)? {
            tree.run(self.member, task);
        }
        Ok(())
    }

    /// The next task, from the deque of this thread or of another thread; `None` if the round is finished.
    #[inline]
    fn seek(&mut self, tree: &SharedTaskTree) -> Result<Option<ForkTask>, GangFailure> {
        let mut task = tree.pop(self.member);
        if task.is_some() {
            return Ok(task);
        }
        let (begun, member, threads) = (self.begun, self.member, self.threads);
        let victim = &mut self.victim;
        let found = || {
            if tree.done().wrapping_sub(begun).cast_signed() >= 0 {
                return true;
            }
            task = tree.steal(*victim);
            let next = (*victim + 1) % threads;
            *victim = if next == member { (next + 1) % threads } else { next };
            task.is_some()
        };
        self.gate.until(found).ok_or_else(given_up)?;
        Ok(task)
    }

    /// Whether the thread's turn depends on the other threads.
    const fn takes_turns(&self) -> bool {
        matches!(self.sharing, Sharing::Write)
    }

    /// Reads the lines of the previous thread, fills this thread's lines, and passes the turn to the next thread.
    fn hand_over(&self, items: usize, instructions: u32) -> Result<(), GangFailure> {
        let turn = self.memory.behind(0);
        if self.takes_turns() {
            let mine = self.member as u32;
            self.gate.until(|| turn.load(Ordering::Acquire) == mine).ok_or_else(given_up)?;
        }
        work(instructions);
        let others = (self.member + self.threads - 1) % self.threads;
        for at in 0..items {
            let word = self.memory.word((others * items + at) * 16).load(Ordering::Relaxed);
            if self.reads() {
                black_box(word);
            } else {
                let mine = self.memory.word((self.member * items + at) * 16);
                mine.store(word.wrapping_add(1), Ordering::Relaxed);
            }
        }
        if self.takes_turns() {
            turn.store(((self.member + 1) % self.threads) as u32, Ordering::Release);
        }
        Ok(())
    }

    /// Receives the message of the previous thread and sends one to the next; the first thread sends first. Without
    /// sharing, a thread sends the message to itself.
    fn pass_message(&mut self, instructions: u32) -> Result<(), GangFailure> {
        let ring = self.takes_turns();
        let to = if ring { (self.member + 1) % self.threads } else { self.member };
        let sends_first = self.member == 0 || !ring;
        work(instructions);
        if sends_first {
            self.memory.writes_for(to).write_all(&self.message)?;
        }
        self.memory.reads(self.member).read_exact(&mut self.message)?;
        if self.gate.has_failed() {
            return Err(given_up());
        }
        if !sends_first {
            self.memory.writes_for(to).write_all(&self.message)?;
        }
        Ok(())
    }
}

/// Executes about `instructions` instructions.
fn work(instructions: u32) {
    for turn in 0..instructions / TURN {
        black_box(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_random_reach_every_item_about_as_often() {
        let mut numbers = Numbers(1);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[numbers.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
