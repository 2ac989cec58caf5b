// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory and the channels that the threads of a gang share, laid out as in Kamali's programs (2010, section
//! 4.3): items and locks of 4 bytes, mutexes of 40, records of sums of 64.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use corehop_plan::experiment::Gang;
use corehop_plan::workload::fork_join::fibonacci;
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};

use super::fork_join::SharedTaskTree;

/// The number of words of a mutex.
const MUTEX: usize = 10;
const LINE: u64 = 64;

#[derive(Debug, Default)]
#[repr(align(64))]
struct SharedLine([AtomicU32; 16]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct SumLine([AtomicU64; 8]);

/// The error of a gang whose final data differs from what its rounds must produce.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the final data of the gang is {got} instead of {expected}: locks or memory of this host are broken"
)]
pub(super) struct WrongResult {
    got: u64,
    expected: u64,
}

/// The memory of a gang, and the channels of a message exchange.
#[derive(Debug)]
pub(super) struct GangMemory {
    lines: Vec<SharedLine>,
    sums: Vec<SumLine>,
    /// For every thread, the two ends of its channel: the end from which the thread reads, and the end to which another
    /// thread writes.
    channels: Vec<(File, File)>,
    /// The tasks of a fork-join program.
    tree: Option<SharedTaskTree>,
    /// The index of the first word of the second data area, which holds locks or counters.
    second: usize,
}

impl GangMemory {
    /// The memory of each thread of a gang: one shared memory, or one for each thread.
    ///
    /// # Errors
    /// Fails if a channel is not available.
    pub(super) fn of(gang: &Gang) -> io::Result<Vec<Arc<Self>>> {
        let first = Arc::new(Self::new(gang)?);
        // A channel of its own is all that a thread needs which sends to itself.
        let has_channels = first.channels() > 0;
        let next = |at: usize| match gang.sharing {
            Sharing::None if at > 0 && !has_channels => Self::new(gang).map(Arc::new),
            _ => Ok(first.clone()),
        };
        (0..gang.cpus.len()).map(next).collect()
    }

    /// The approximate number of bytes that a gang needs.
    pub(super) fn bytes(gang: &Gang) -> u64 {
        let threads = gang.cpus.len() as u64;
        let copies = if gang.sharing == Sharing::None { threads } else { 1 };
        match &gang.program {
            GangProgram::Swap { items, .. } => items * 8 * copies,
            GangProgram::BucketSort { items, buckets } => {
                items * 4 + u64::from(*buckets) * 44 * copies
            }
            GangProgram::LinearRegression { items } => items * 2,
            GangProgram::Exchange { items, .. } => items * LINE * threads * copies,
            GangProgram::ForkJoin { number } => SharedTaskTree::bytes(*number, threads) * copies,
        }
    }

    fn new(gang: &Gang) -> io::Result<Self> {
        let threads = gang.cpus.len();
        let words = |words: usize| words.next_multiple_of(16);
        let (first, second, sums) = match &gang.program {
            GangProgram::Swap { items, .. } => (words(*items as usize), *items as usize, 0),
            GangProgram::BucketSort { buckets, .. } => {
                (words(*buckets as usize * MUTEX), *buckets as usize, 0)
            }
            GangProgram::LinearRegression { .. } => (0, 0, threads + 1),
            GangProgram::Exchange { items, .. } => (*items as usize * 16 * threads, 1, 0),
            GangProgram::ForkJoin { .. } => (0, 0, 0),
        };
        let lines: Vec<SharedLine> = std::iter::repeat_with(SharedLine::default)
            .take((first + words(second)) / 16)
            .collect();
        if let GangProgram::Swap { items, .. } = &gang.program {
            let number = |at: u64| {
                lines[at as usize / 16].0[at as usize % 16].store(at as u32, Ordering::Relaxed);
            };
            (0..*items).for_each(number);
        }
        let through = match &gang.program {
            GangProgram::Exchange { through, .. } => *through,
            _ => Channel::Memory,
        };
        let channels = (0..threads).filter_map(|_| channel(through)).collect::<io::Result<_>>()?;
        let sums = std::iter::repeat_with(SumLine::default).take(sums).collect();
        let tree = match gang.program {
            GangProgram::ForkJoin { number } => Some(SharedTaskTree::new(number, threads)),
            _ => None,
        };
        Ok(Self { lines, sums, channels, tree, second: first })
    }

    /// A word of the first data area: an item, a mutex's first word, or a word that is handed over.
    #[inline]
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        &self.lines[at / 16].0[at % 16]
    }

    /// A word of the second area: a lock, a counter, or the number of the thread whose turn it is.
    #[inline]
    pub(super) fn behind(&self, at: usize) -> &AtomicU32 {
        self.word(self.second + at)
    }

    /// The first word of a mutex.
    #[inline]
    pub(super) fn mutex(&self, bucket: usize) -> &AtomicU32 {
        self.word(bucket * MUTEX)
    }

    /// One of the five sums of a thread, whose record begins in the middle of a line.
    #[inline]
    pub(super) fn sum(&self, member: usize, which: usize) -> &AtomicU64 {
        // 16 bytes of a header, and 24 of the record before the sums.
        let at = 2 + member * 8 + 3 + which;
        &self.sums[at / 8].0[at % 8]
    }

    /// The tasks of a fork-join program; `None` for other programs.
    #[inline]
    pub(super) const fn tree(&self) -> Option<&SharedTaskTree> {
        self.tree.as_ref()
    }

    /// The end of a channel from which a thread reads.
    pub(super) fn reads(&self, member: usize) -> &File {
        &self.channels[member].0
    }

    /// The end of a channel to which other threads write for a thread.
    pub(super) fn writes_for(&self, member: usize) -> &File {
        &self.channels[member].1
    }

    /// The number of channels: zero for a program that needs none.
    pub(super) fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Checks whether the data are what `rounds` rounds of each thread produce.
    ///
    /// # Errors
    /// Fails with [`WrongResult`], which has the expected and the actual number.
    pub(super) fn check(&self, gang: &Gang, rounds: u64) -> Result<(), WrongResult> {
        let all = |count: u64, word: &dyn Fn(usize) -> u32| {
            (0..count as usize).map(|at| u64::from(word(at))).sum::<u64>()
        };
        let (got, expected) = match (&gang.program, gang.sharing) {
            (GangProgram::Swap { items, .. }, _) => {
                let item = |at: usize| self.word(at).load(Ordering::Relaxed);
                (all(*items, &item), items * (items - 1) / 2)
            }
            (GangProgram::BucketSort { buckets, .. }, Sharing::Write) => {
                let count = |at: usize| self.behind(at).load(Ordering::Relaxed);
                (all(u64::from(*buckets), &count), rounds * gang.cpus.len() as u64)
            }
            (GangProgram::ForkJoin { number }, Sharing::Write | Sharing::None) => {
                let got = self.tree().map_or(0, SharedTaskTree::results);
                (got, rounds * fibonacci(*number))
            }
            _ => return Ok(()),
        };
        if got == expected { Ok(()) } else { Err(WrongResult { got, expected }) }
    }
}

/// A new channel, if the program needs one.
fn channel(through: Channel) -> Option<io::Result<(File, File)>> {
    let file = |end: OwnedFd| File::from(end);
    match through {
        Channel::Memory => None,
        Channel::Socket => {
            Some(UnixStream::pair().map(|(read, write)| (file(read.into()), file(write.into()))))
        }
        Channel::Pipe => {
            Some(io::pipe().map(|(read, write)| (file(read.into()), file(write.into()))))
        }
    }
}
