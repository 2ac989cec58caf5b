// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer time of tasks.
//!
//! Time is a count of some unit, microseconds wherever a file is read, and no analysis asks which.
//! Limits keep every product inside 128 bits, so that nothing overflows and nothing is rounded.

/// A span of integer time.
pub type Time = u64;

/// The longest span that a task may have: 2^40, which is 12 days in microseconds.
pub const LONGEST: Time = 1 << 40;

/// The most tasks of a set.
pub const MOST_TASKS: usize = 1 << 14;

/// The most CPUs.
pub const MOST_CPUS: u32 = 1 << 16;
