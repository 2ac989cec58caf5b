// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads run together on common data (Kamali, "Sharing Aware Scheduling on Multicore Systems", 2010,
//! sections 4.3 and 5.1), with their ways of sharing and placing.

use serde::{Deserialize, Serialize};

use super::fork_join::{ForkTask, tasks};
use crate::words::words;

words! {
    /// The way in which the threads of a gang share their common data.
    Sharing, "a sharing" {
        /// All threads read and write the common data, as the program requires.
        Write = "write",
        /// All threads read the common data; no thread writes or locks the data.
        Read = "read",
        /// Every thread has its own copy of the data, and uses the copy like the common data.
        None = "none",
    }
}

words! {
    /// The placement of the threads of a gang.
    Placing, "a placing" {
        /// The threads run on cores with a common cache, the outermost cache that any two cores share.
        Shared = "shared",
        /// The threads run on cores without a common cache, usually on two packages.
        Separate = "separate",
        /// All threads take turns on one core. On a host with only one shared cache, this placement is the near side of
        /// the comparison.
        Same = "same",
        /// The threads move during the run to the CPUs that the plan names.
        Moved = "moved",
    }
}

impl Placing {
    /// The placings in which no thread moves.
    pub const FIXED: [Self; 3] = [Self::Shared, Self::Separate, Self::Same];
}

words! {
    /// The channel through which the threads of an exchange pass filled buffers.
    Channel, "a channel" {
        /// The threads exchange data through lines of common memory, and a word in memory states whose turn it is.
        Memory = "memory",
        /// The threads exchange data through local stream sockets, one per thread.
        Socket = "socket",
        /// The threads exchange data through pipes, one per thread.
        Pipe = "pipe",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_memory(channel: &Channel) -> bool {
    matches!(channel, Channel::Memory)
}

const fn memory() -> Channel {
    Channel::Memory
}

/// A program of several threads with common data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum GangProgram {
    /// SwapTest: every thread picks two random items of an array, locks both (the lower one first), and swaps them.
    /// The items and the locks have 4 bytes each.
    Swap {
        /// The number of items in the array.
        items: u64,
        /// Whether the low bits of the first thread's random numbers never change, as with a poor generator. The
        /// thread then visits only one of 2^k items, where 2^k is the largest power of two that divides the number of
        /// items.
        #[serde(default)]
        fixed_low_bits: bool,
    },
    /// BucketSort: every thread goes through its part of an array of 4-byte items and counts each item in its bucket,
    /// under the bucket's mutex. A mutex has 40 bytes, and a counter has 4 bytes.
    BucketSort {
        /// The number of items in both parts.
        items: u64,
        /// The number of buckets into which the program sorts.
        buckets: u32,
    },
    /// Linear regression with false sharing: every thread adds up five sums over its own points (2 bytes each) in a
    /// record of 64 bytes. The record begins in the middle of a line, next to the other thread's record.
    LinearRegression {
        /// The number of points of both threads.
        items: u64,
    },
    /// The exchange of NetworkTest: one thread fills buffers, the next thread reads them and fills its own buffers,
    /// in turn.
    Exchange {
        /// The number of lines that a thread passes to the next: the message, and the system's data about the
        /// message. Through a socket or a pipe, the number of messages of [`GangProgram::MESSAGE`] bytes that are
        /// passed at once.
        items: u64,
        /// The number of instructions of one hand-over, without the system's instructions if the channel needs some.
        instructions: u32,
        /// The channel through which the threads exchange messages.
        #[serde(default = "memory", skip_serializing_if = "is_memory")]
        through: Channel,
    },
    /// A Fibonacci number by fork and join: in every round all threads together compute the number; each thread has
    /// its own deque and steals from the others. The module [`fork_join`](super::fork_join) describes the tasks.
    ForkJoin {
        /// The index of the Fibonacci number; 2 is the first index that forks.
        number: u32,
    },
}

/// The error for a gang program that cannot run as described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{program}` with {what}: {remedy}")]
pub struct GangError {
    /// The word for the program with the error.
    pub program: &'static str,
    /// A description of the invalid property.
    pub what: String,
    /// The change that removes the problem.
    pub remedy: &'static str,
}

impl GangProgram {
    /// The words for the programs on the command line and in the column `program`.
    pub const WORDS: [&str; 5] =
        ["swap", "bucket-sort", "linear-regression", "exchange", "fork-join"];

    /// The length of a message through a socket or a pipe, in bytes (Kamali 2010, section 4.3.3).
    pub const MESSAGE: u64 = 25;

    /// The largest number of items: line numbers have 32 bits, and simulated memory has fewer lines.
    const MOST: u64 = 1 << 30;

    /// Returns the word for the program.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Swap { .. } => Self::WORDS[0],
            Self::BucketSort { .. } => Self::WORDS[1],
            Self::LinearRegression { .. } => Self::WORDS[2],
            Self::Exchange { .. } => Self::WORDS[3],
            Self::ForkJoin { .. } => Self::WORDS[4],
        }
    }

    /// Returns the size of the program's data: items, points, the lines of an exchange, or the index of the Fibonacci
    /// number.
    pub const fn items(&self) -> u64 {
        match self {
            Self::ForkJoin { number } => *number as u64,
            Self::Swap { items, .. }
            | Self::BucketSort { items, .. }
            | Self::LinearRegression { items }
            | Self::Exchange { items, .. } => *items,
        }
    }

    /// Returns the other parameters of the program, as in the column `parameters`, for example `buckets=4`.
    pub fn parameters(&self) -> String {
        match self {
            Self::Swap { fixed_low_bits: true, .. } => "fixed_low_bits".to_owned(),
            Self::Swap { .. } | Self::LinearRegression { .. } | Self::ForkJoin { .. } => {
                String::new()
            }
            Self::BucketSort { buckets, .. } => format!("buckets={buckets}"),
            Self::Exchange { instructions, through: Channel::Memory, .. } => {
                format!("instructions={instructions}")
            }
            Self::Exchange { through, .. } => format!("through={through}"),
        }
    }

    /// Returns whether the shared data of the threads is in pages of the program and not in pages of the kernel.
    pub const fn has_own_pages(&self) -> bool {
        !matches!(self, Self::Exchange { through: Channel::Socket | Channel::Pipe, .. })
    }

    /// Returns the number of rounds that take about a fifth of a millisecond on one core, which is short enough that
    /// most runs on a live machine are undisturbed. Long runs on a shared host would always be disturbed.
    pub const fn burst(&self) -> u64 {
        match self {
            Self::Swap { .. } | Self::BucketSort { .. } => 4_000,
            Self::LinearRegression { .. } => 50_000,
            Self::Exchange { .. } => 40,
            Self::ForkJoin { .. } => self.rounds_of(8_000),
        }
    }

    /// Returns the number of rounds in which all threads together take `steps` steps, at least one round; a step is a
    /// task of a fork and join, or else a round.
    pub const fn rounds_of(&self, steps: u64) -> u64 {
        let Self::ForkJoin { number } = self else { return steps };
        let rounds = steps / tasks(*number) as u64;
        if rounds > 0 { rounds } else { 1 }
    }

    /// Checks whether the program can run as described.
    ///
    /// # Errors
    /// Returns [`GangError`] for the invalid property.
    pub fn check(&self) -> Result<(), GangError> {
        let wrong = |what: String, remedy| Err(GangError { program: self.word(), what, remedy });
        let least = match self {
            Self::Swap { items, fixed_low_bits: true } => 2 << items.trailing_zeros().min(40),
            Self::Swap { .. } | Self::BucketSort { .. } | Self::LinearRegression { .. } => 2,
            Self::Exchange { .. } => 1,
            Self::ForkJoin { .. } => 0,
        };
        match self {
            Self::ForkJoin { number: 0 | 1 } => {
                wrong(format!("Fibonacci number {}", self.items()), "2 is the first that forks")
            }
            Self::ForkJoin { number } if *number > ForkTask::MOST => {
                wrong(format!("Fibonacci number {number}"), "take at most 20, of 21,891 tasks")
            }
            Self::BucketSort { buckets: 0, .. } => {
                wrong("no bucket".to_owned(), "take one or more")
            }
            _ if self.items() < least => wrong(
                format!("{} items", self.items()),
                "every thread needs two items to choose from",
            ),
            // A writer must not wait for a reader that waits for it.
            Self::Exchange { through: Channel::Socket | Channel::Pipe, items, .. }
                if *items * Self::MESSAGE > 4_096 =>
            {
                wrong(format!("{items} messages at once"), "hand over at most 163, a page")
            }
            _ if self.items() > Self::MOST => {
                wrong(format!("{} items", self.items()), "take at most 2^30")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_run_is_refused_with_its_size() {
        let swap = |items, fixed_low_bits| GangProgram::Swap { items, fixed_low_bits };
        assert!(swap(2, false).check().is_ok() && swap(10, true).check().is_ok());
        for (program, what) in [
            (swap(1, false), "1 items"),
            // One of four items is all that the first thread could pick.
            (swap(4, true), "4 items"),
            (GangProgram::BucketSort { items: 100, buckets: 0 }, "no bucket"),
            (swap(1 << 31, false), "2147483648 items"),
            (GangProgram::ForkJoin { number: 1 }, "number 1"),
            (GangProgram::ForkJoin { number: 21 }, "number 21"),
        ] {
            let error = program.check().unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(program.word()), "{error}");
        }
    }

    #[test]
    fn a_program_says_what_it_is_in_json_and_takes_it_back() {
        let program = GangProgram::BucketSort { items: 320, buckets: 4 };
        let json = serde_json::json!(program);
        assert_eq!(json["kind"], "bucket-sort");
        assert_eq!(serde_json::from_value::<GangProgram>(json).unwrap(), program);
        assert_eq!(program.parameters(), "buckets=4");
    }
}
