// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads run together on common data (Kamali, "Sharing Aware Scheduling on Multicore
//! Systems", 2010, sections 4.3 and 5.1), and how they share it and where they run.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The way the threads of a gang share their common data.
    Sharing, "a sharing" {
        /// As the program has it: all read and write it.
        Write = "write",
        /// All threads read it; none writes it or locks it.
        Read = "read",
        /// Every thread has a copy of its own, and does to it what it would do to the common one.
        None = "none",
    }
}

words! {
    /// The placement of the threads of a gang.
    Placing, "a placing" {
        /// On two cores with a cache in common: the outermost that any two cores share.
        Shared = "shared",
        /// On two cores without a common cache, on two packages as a rule.
        Separate = "separate",
    }
}

/// A program of two threads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    /// SwapTest: every thread picks two items of an array at random, locks both (the lower one
    /// first), and swaps them. Items and locks have 4 bytes each.
    Swap {
        /// The items of the array.
        items: u64,
        /// Whether the low bits of the first thread's random numbers never change, as those of a
        /// poor generator: it then visits only one of 2^k items, where 2^k is the largest power of
        /// two that divides their number.
        #[serde(default)]
        fixed_low_bits: bool,
    },
    /// BucketSort: every thread goes through its part of an array of 4-byte items, and counts each
    /// one in its bucket, under that bucket's mutex. A mutex has 40 bytes, a counter 4.
    BucketSort {
        /// The items of both parts.
        items: u64,
        /// The buckets.
        buckets: u32,
    },
    /// Linear regression with false sharing: every thread adds up five sums over its own points (2
    /// bytes each), in a record of 64 bytes that begins in the middle of a line, next to the other's.
    LinearRegression {
        /// The points of both threads.
        items: u64,
    },
    /// NetworkTest's exchange: one thread fills buffers, the other reads them and fills its own, in
    /// turn.
    Exchange {
        /// The lines that one hands to the other: the message, and what the system keeps of it.
        items: u64,
        /// The instructions of one hand-over.
        instructions: u32,
    },
}

/// A gang program that cannot run as described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{program}` with {what}: {remedy}")]
pub struct GangError {
    /// The program.
    pub program: &'static str,
    /// The problem.
    pub what: String,
    /// The change that helps.
    pub remedy: &'static str,
}

impl Program {
    /// The words for them on the command line and in the column `program`.
    pub const WORDS: [&str; 4] = ["swap", "bucket-sort", "linear-regression", "exchange"];

    /// The most items: line numbers have 32 bits, and simulated memory has fewer lines.
    const MOST: u64 = 1 << 30;

    /// The word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Swap { .. } => Self::WORDS[0],
            Self::BucketSort { .. } => Self::WORDS[1],
            Self::LinearRegression { .. } => Self::WORDS[2],
            Self::Exchange { .. } => Self::WORDS[3],
        }
    }

    /// The size of its data: items, points, or the lines of an exchange.
    pub const fn items(&self) -> u64 {
        match self {
            Self::Swap { items, .. }
            | Self::BucketSort { items, .. }
            | Self::LinearRegression { items }
            | Self::Exchange { items, .. } => *items,
        }
    }

    /// Its other parameters, as in the column `parameters`: `buckets=4`.
    pub fn parameters(&self) -> String {
        match self {
            Self::Swap { fixed_low_bits: true, .. } => "fixed_low_bits".to_owned(),
            Self::Swap { .. } | Self::LinearRegression { .. } => String::new(),
            Self::BucketSort { buckets, .. } => format!("buckets={buckets}"),
            Self::Exchange { instructions, .. } => format!("instructions={instructions}"),
        }
    }

    /// Whether it can run as described.
    ///
    /// # Errors
    /// [`GangError`] names what is impossible.
    pub fn check(&self) -> Result<(), GangError> {
        let wrong = |what: String, remedy| Err(GangError { program: self.word(), what, remedy });
        let least = match self {
            Self::Swap { items, fixed_low_bits: true } => 2 << items.trailing_zeros().min(40),
            Self::Swap { .. } | Self::BucketSort { .. } | Self::LinearRegression { .. } => 2,
            Self::Exchange { .. } => 1,
        };
        match self {
            Self::BucketSort { buckets: 0, .. } => {
                wrong("no bucket".to_owned(), "take one or more")
            }
            _ if self.items() < least => {
                wrong(format!("{} items", self.items()), "every thread needs two to choose from")
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
        let swap = |items, fixed_low_bits| Program::Swap { items, fixed_low_bits };
        assert!(swap(2, false).check().is_ok() && swap(10, true).check().is_ok());
        for (program, what) in [
            (swap(1, false), "1 items"),
            // One of four items is all that the first thread could pick.
            (swap(4, true), "4 items"),
            (Program::BucketSort { items: 100, buckets: 0 }, "no bucket"),
            (swap(1 << 31, false), "2147483648 items"),
        ] {
            let error = program.check().unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(program.word()), "{error}");
        }
    }

    #[test]
    fn a_program_says_what_it_is_in_json_and_takes_it_back() {
        let program = Program::BucketSort { items: 320, buckets: 4 };
        let json = serde_json::json!(program);
        assert_eq!(json["kind"], "bucket-sort");
        assert_eq!(serde_json::from_value::<Program>(json).unwrap(), program);
        assert_eq!(program.parameters(), "buckets=4");
    }
}
