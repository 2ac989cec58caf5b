// SPDX-License-Identifier: MIT OR Apache-2.0
//! One round of a thread of a gang, as a script of loads, stores and locks.
//!
//! Each instruction takes one cycle, and a thread overlaps as many accesses as the program has independent
//! accesses. The numbers of instructions were derived from the tables of Kamali (2010), chapter 4, wherever a
//! quotient of two printed numbers gives them; see [`instructions`].

use super::fork_join::{self, ForkJoinStep};
use corehop_plan::experiment::DrawStream;
use corehop_plan::workload::gang::{Channel, GangProgram};

/// The size of a line in bytes.
const LINE: u64 = 64;
/// The size of an item, of a lock and of a counter, in bytes.
const WORD: u64 = 4;
/// The size of a mutex of the C library, in bytes.
const MUTEX: u64 = 40;
/// The size of a point in bytes.
const POINT: u64 = 2;
/// The address of the first record of sums, and the length of a record. An allocator header precedes the first
/// record, so that a line contains parts of two records.
const FIRST_RECORD: u64 = 16;
const RECORD: u64 = 64;
/// The offsets of the five sums in a record.
const SUMS: [u64; 5] = [24, 32, 40, 48, 56];
/// The operating system's part of a hand-over through a local socket or a pipe: the number of instructions, and the
/// number of the system's own lines (from the study `kamali-4-6`; assumed for pipes too).
const SYSTEM_INSTRUCTIONS: u32 = 10_000;
const SYSTEM_LINES: u64 = 65;

/// A line of the gang's common memory, or of the thread's own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryLine {
    /// The line with this number in the common memory.
    Common(u32),
    /// The line with this number in the thread's own memory.
    Own(u32),
}

/// One step of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Executes this number of instructions.
    Compute(u32),
    /// Loads from a line and waits for it.
    Load(MemoryLine),
    /// Stores to a line without waiting, because the store buffer completes the store.
    Store(MemoryLine),
    /// Takes the lock with this number, on a line, by a locked instruction; waits while another thread holds the
    /// lock.
    Lock(u32, MemoryLine),
    /// Releases the lock with this number, by a store.
    Unlock(u32, MemoryLine),
    /// Waits for the thread's turn by polling a line.
    Take(MemoryLine),
    /// Passes the turn to the other thread by a store.
    Give(MemoryLine),
    /// Changes a line by a locked instruction.
    Update(MemoryLine),
    /// Decides on the thread's next work; always the last act of a script.
    Decide(ForkJoinStep),
}

impl Act {
    /// The line that the act accesses; None if the act accesses no line.
    pub(super) const fn place(self) -> Option<MemoryLine> {
        match self {
            Self::Compute(_) | Self::Decide(_) => None,
            Self::Load(place)
            | Self::Update(place)
            | Self::Store(place)
            | Self::Lock(_, place)
            | Self::Unlock(_, place)
            | Self::Take(place)
            | Self::Give(place) => Some(place),
        }
    }
}

/// One thread's part of a program.
#[derive(Debug, Clone)]
pub(super) struct ThreadProgram {
    program: GangProgram,
    member: u64,
    /// The number of threads in the gang.
    members: u64,
    draw: DrawStream,
    /// The number of rounds so far.
    done: u64,
}

/// The number of instructions of a round, without the instructions for waiting.
///
/// A swap takes 144 instructions, because both threads together execute 14.4 thousand million instructions for 100
/// million swaps. The 14.4 thousand million are the misses of Table 4.4 over the misses per million instructions of
/// Table 4.5, for the largest arrays, which have four misses per swap except for data that the caches hold. An item
/// of `bucket-sort` takes 71 instructions: above 4 million items, every round reads the array into the cache again,
/// with a miss for every 16 items, and Table 4.8 states 880 misses per million instructions. A point of
/// `linear-regression` takes 20 instructions (assumed): a load of two bytes, three products and five sums. A round
/// of `fork-join` takes the instructions of a task.
pub(super) const fn instructions(program: &GangProgram) -> u32 {
    match program {
        GangProgram::Swap { .. } => 144,
        GangProgram::BucketSort { .. } => 71,
        GangProgram::LinearRegression { .. } => 20,
        GangProgram::Exchange { instructions, through: Channel::Memory, .. } => *instructions,
        GangProgram::Exchange { instructions, .. } => *instructions + SYSTEM_INSTRUCTIONS,
        GangProgram::ForkJoin { .. } => fork_join::INSTRUCTIONS,
    }
}

/// The number of accesses that one thread keeps in flight at the same time.
///
/// A swap's two items do not depend on each other, but each item depends on its lock. All other programs access one
/// line after the other.
pub(super) const fn parallelism(program: &GangProgram) -> u64 {
    match program {
        GangProgram::Swap { .. } => 2,
        _ => 1,
    }
}

/// The number of lines in one hand-over.
fn handed_over(items: u64, through: Channel) -> u64 {
    match through {
        Channel::Memory => items,
        Channel::Socket | Channel::Pipe => {
            (items * GangProgram::MESSAGE).div_ceil(LINE) + SYSTEM_LINES
        }
    }
}

/// The number of lines in the common memory of a gang with `members` threads.
pub(super) fn common_lines(program: &GangProgram, members: u64) -> u64 {
    let lines = |bytes: u64| bytes.div_ceil(LINE);
    match program {
        GangProgram::Swap { items, .. } => 2 * lines(items * WORD),
        GangProgram::BucketSort { buckets, .. } => {
            lines(u64::from(*buckets) * MUTEX) + lines(u64::from(*buckets) * WORD)
        }
        GangProgram::LinearRegression { .. } => lines(FIRST_RECORD + members * RECORD),
        // The line on which they look whose turn it is comes after all buffers.
        GangProgram::Exchange { items, through, .. } => members * handed_over(*items, *through) + 1,
        GangProgram::ForkJoin { number } => fork_join::lines(*number, members),
    }
}

/// The number of lines in each thread's own memory.
pub(super) fn own_lines(program: &GangProgram, members: u64) -> u64 {
    let part = |bytes: u64| (program.items().div_ceil(members) * bytes).div_ceil(LINE);
    match program {
        GangProgram::Swap { .. } | GangProgram::Exchange { .. } | GangProgram::ForkJoin { .. } => 0,
        GangProgram::BucketSort { .. } => part(WORD),
        GangProgram::LinearRegression { .. } => part(POINT),
    }
}

impl ThreadProgram {
    /// Creates the part of thread `member` of `members`; random choices come from `draw`.
    pub(super) fn new(
        program: &GangProgram,
        (member, members): (u64, u64),
        draw: DrawStream,
    ) -> Self {
        Self { program: program.clone(), member, members, draw, done: 0 }
    }

    /// The number of the thread.
    pub(super) const fn member(&self) -> u64 {
        self.member
    }

    /// Replaces the contents of `script` by the acts of the next round.
    pub(super) fn round(&mut self, script: &mut Vec<Act>) {
        script.clear();
        match self.program {
            GangProgram::Swap { items, fixed_low_bits } => self.swap(items, fixed_low_bits, script),
            GangProgram::BucketSort { buckets, .. } => self.count(buckets, script),
            GangProgram::LinearRegression { .. } => self.add(script),
            GangProgram::Exchange { items, through, .. } => {
                self.exchange(handed_over(items, through) as u32, script);
            }
            GangProgram::ForkJoin { .. } => script.push(Act::Decide(ForkJoinStep::Begin)),
        }
        self.done += 1;
    }

    /// A random item. If the low bits are fixed, the low bits of all items of the first thread are equal.
    fn item(&mut self, items: u64, fixed_low_bits: bool) -> u64 {
        let step = if fixed_low_bits && self.member == 0 { 1 << items.trailing_zeros() } else { 1 };
        self.draw.below(items / step) * step
    }

    fn swap(&mut self, items: u64, fixed_low_bits: bool, script: &mut Vec<Act>) {
        let one = self.item(items, fixed_low_bits);
        let mut other = one;
        while other == one {
            other = self.item(items, fixed_low_bits);
        }
        let (low, high) = (one.min(other), one.max(other));
        let line = |item: u64| (item * WORD / LINE) as u32;
        let locks = (items * WORD).div_ceil(LINE) as u32;
        let item = |item| MemoryLine::Common(line(item));
        let lock = |item| MemoryLine::Common(locks + line(item));
        script.extend([
            Act::Compute(instructions(&self.program)),
            Act::Lock(low as u32, lock(low)),
            Act::Lock(high as u32, lock(high)),
            Act::Load(item(low)),
            Act::Load(item(high)),
            Act::Store(item(low)),
            Act::Store(item(high)),
            Act::Unlock(high as u32, lock(high)),
            Act::Unlock(low as u32, lock(low)),
        ]);
    }

    /// Streams through the thread's own array repeatedly, with `of` elements per line. Returns a load of the next
    /// line if this round begins one.
    fn stream(&self, of: u64) -> Option<Act> {
        let lines = own_lines(&self.program, self.members);
        self.done
            .is_multiple_of(of)
            .then(|| Act::Load(MemoryLine::Own((self.done / of % lines) as u32)))
    }

    fn count(&mut self, buckets: u32, script: &mut Vec<Act>) {
        let bucket = self.draw.below(u64::from(buckets));
        let mutex = MemoryLine::Common((bucket * MUTEX / LINE) as u32);
        let mutexes = (u64::from(buckets) * MUTEX).div_ceil(LINE);
        let counter = MemoryLine::Common((mutexes + bucket * WORD / LINE) as u32);
        script.extend(self.stream(LINE / WORD));
        script.extend([
            Act::Compute(instructions(&self.program)),
            Act::Lock(bucket as u32, mutex),
            Act::Load(counter),
            Act::Store(counter),
            Act::Unlock(bucket as u32, mutex),
        ]);
    }

    fn add(&mut self, script: &mut Vec<Act>) {
        script.extend(self.stream(LINE / POINT));
        script.push(Act::Compute(instructions(&self.program)));
        let record = FIRST_RECORD + self.member * RECORD;
        let mut last = None;
        for line in SUMS.map(|sum| ((record + sum) / LINE) as u32) {
            if last != Some(line) {
                script.extend([
                    Act::Load(MemoryLine::Common(line)),
                    Act::Store(MemoryLine::Common(line)),
                ]);
            }
            last = Some(line);
        }
    }

    /// Reads the data of the previous thread, and writes data for the next thread.
    fn exchange(&mut self, items: u32, script: &mut Vec<Act>) {
        let members = self.members as u32;
        let turn = MemoryLine::Common(members * items);
        let mine = self.member as u32 * items;
        let others = (self.member as u32 + members - 1) % members * items;
        script.push(Act::Take(turn));
        script.push(Act::Compute(instructions(&self.program)));
        for at in 0..items {
            script.push(Act::Load(MemoryLine::Common(others + at)));
            script.push(Act::Store(MemoryLine::Common(mine + at)));
        }
        script.push(Act::Give(turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(program: &GangProgram, member: u64) -> Vec<Act> {
        let mut script = Vec::new();
        ThreadProgram::new(program, (member, 2), DrawStream::new(1, member)).round(&mut script);
        script
    }

    #[test]
    fn a_swap_locks_the_lower_of_two_items_first_and_locks_are_behind_the_items() {
        let program = GangProgram::Swap { items: 100, fixed_low_bits: false };
        assert_eq!(common_lines(&program, 2), 14);
        for member in 0..2 {
            let script = round(&program, member);
            let (
                Act::Lock(low, MemoryLine::Common(first)),
                Act::Lock(high, MemoryLine::Common(second)),
            ) = (script[1], script[2])
            else {
                panic!("{script:?}")
            };
            assert!(low < high && high < 100);
            assert_eq!([first, second], [7 + low / 16, 7 + high / 16]);
            assert_eq!(script[3], Act::Load(MemoryLine::Common(low / 16)));
            assert_eq!(script[8], Act::Unlock(low, MemoryLine::Common(first)));
        }
    }

    #[test]
    fn with_fixed_low_bits_the_first_thread_has_one_in_64_of_64_times_25_items_the_other_all() {
        let program = GangProgram::Swap { items: 1_600, fixed_low_bits: true };
        let items = |member| {
            let mut part = ThreadProgram::new(&program, (member, 2), DrawStream::new(1, member));
            let mut script = Vec::new();
            let mut items = std::collections::BTreeSet::new();
            for _ in 0..20_000 {
                part.round(&mut script);
                for act in &script {
                    if let Act::Lock(item, _) = act {
                        items.insert(*item);
                    }
                }
            }
            items
        };
        assert_eq!(items(0), (0..25).map(|at| at * 64).collect());
        assert_eq!(items(1).len(), 1_600);
    }

    #[test]
    fn a_count_loads_a_line_of_the_array_every_16_items_and_counters_are_behind_the_mutexes() {
        let program = GangProgram::BucketSort { items: 64, buckets: 4 };
        assert_eq!([common_lines(&program, 2), own_lines(&program, 2)], [4, 2]);
        let mut part = ThreadProgram::new(&program, (0, 2), DrawStream::new(1, 0));
        let mut script = Vec::new();
        let mut loads = Vec::new();
        for at in 0..48 {
            part.round(&mut script);
            if let Act::Load(MemoryLine::Own(line)) = script[0] {
                loads.push((at, line));
            }
            assert_eq!(script[script.len() - 3], Act::Load(MemoryLine::Common(3)));
        }
        assert_eq!(loads, [(0, 0), (16, 1), (32, 0)]);
    }

    #[test]
    fn the_sums_of_two_threads_have_one_line_in_common() {
        let program = GangProgram::LinearRegression { items: 1_000 };
        let lines = |member| {
            let script = round(&program, member);
            let stored = script.into_iter().filter_map(|act| match act {
                Act::Store(MemoryLine::Common(line)) => Some(line),
                _ => None,
            });
            stored.collect::<Vec<_>>()
        };
        assert_eq!([lines(0), lines(1)], [[0, 1], [1, 2]]);
    }

    #[test]
    fn who_has_its_turn_reads_the_others_buffer_and_fills_its_own() {
        let program =
            GangProgram::Exchange { items: 2, instructions: 10, through: Channel::Memory };
        let (turn, line) = (MemoryLine::Common(4), MemoryLine::Common);
        assert_eq!(
            round(&program, 1),
            [
                Act::Take(turn),
                Act::Compute(10),
                Act::Load(line(0)),
                Act::Store(line(2)),
                Act::Load(line(1)),
                Act::Store(line(3)),
                Act::Give(turn),
            ]
        );
        assert_eq!(round(&program, 0)[2..4], [Act::Load(line(2)), Act::Store(line(0))]);
    }
}
