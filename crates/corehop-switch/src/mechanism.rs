// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways to another core.

use std::fmt;

/// A way to run a function on another core. V1 to V5 are the steps of Strong et al., table 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// No switch: the function runs on the caller's core.
    Local = 0,
    /// V1: the thread moves itself with `sched_setaffinity`, there and back.
    Affinity = 1,
    /// V2: a partner thread is parked on the other core and woken for a call (futex).
    HandOff = 2,
    /// V3: the same in fewer steps: either thread wakes the other and sleeps in one entry into the kernel (io_uring).
    Linked = 3,
    /// V4: the partner polls all the time, and costs a core.
    Polling = 4,
    /// V5: the partner polls as long as that has paid lately, then sleeps; it can be woken ahead of need.
    Adaptive = 5,
}

impl Mechanism {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Local, Self::Affinity, Self::HandOff, Self::Linked, Self::Polling, Self::Adaptive];

    /// The mechanism of a number, which is also its number in the C interface.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Whether a thread waits on the other core.
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
