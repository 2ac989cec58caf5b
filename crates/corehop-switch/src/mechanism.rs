// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mechanisms for running a function on another core.

use std::fmt;

/// A mechanism for running a function on another core. V1 to V5 are the steps in Strong et al., table 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// No switch: the function runs on the caller's core.
    Local = 0,
    /// V1: the thread migrates itself by `sched_setaffinity`, there and back.
    Affinity = 1,
    /// V2: a partner thread sleeps on the other core and is woken for each call (futex).
    HandOff = 2,
    /// V3: like V2 with fewer system calls: each thread wakes the other and sleeps in a single system call
    /// (io_uring).
    Linked = 3,
    /// V4: the partner polls all the time, which occupies a core.
    Polling = 4,
    /// V5: the partner polls as long as polling has recently saved time, then sleeps; it can be woken in advance.
    Adaptive = 5,
}

impl Mechanism {
    /// All mechanisms, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Local, Self::Affinity, Self::HandOff, Self::Linked, Self::Polling, Self::Adaptive];

    /// Returns the mechanism with this number, which the C interface uses too.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Whether a partner thread waits on the other core.
    pub(crate) fn has_partner(self) -> bool {
        !matches!(self, Self::Local | Self::Affinity)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Affinity => "v1",
            Self::HandOff => "v2",
            Self::Linked => "v3",
            Self::Polling => "v4",
            Self::Adaptive => "v5",
        })
    }
}
