// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches: the ways to have one call carried out on another core, and the calls (Strong et al.,
//! "Fast Switching of Threads Between Cores", 2009, sections 3 and 5).

use crate::words::words;

words! {
    /// A way to have a call carried out on another core.
    SwitchMechanism, "a mechanism" {
        /// No switch: the call runs on the application core.
        None = "none",
        /// V1: the thread moves itself to the other core with sched_setaffinity, and back.
        V1 = "v1",
        /// V2: a thread on the other core is woken for the call (futex), and wakes the caller.
        V2 = "v2",
        /// V3: the same in fewer steps; each thread wakes the other and sleeps in one entry into the kernel.
        V3 = "v3",
        /// V4: a thread on the other core polls for calls, and the caller polls for the result.
        V4 = "v4",
        /// V5: a thread on the other core polls as long as that has paid lately, and sleeps then.
        V5 = "v5",
        /// A kernel thread on the other core polls for requests (io_uring, SQPOLL); it carries out a request
        /// without effect.
        Sqpoll = "sqpoll",
    }
}

words! {
    /// A call that is carried out on another core.
    SwitchCall, "a call" {
        /// The number of the thread: the shortest system call.
        Gettid = "gettid",
        /// Some bytes read from a file in memory.
        Pread = "pread",
        /// Some bytes written to a file in memory.
        Pwrite = "pwrite",
    }
}

impl SwitchMechanism {
    /// Whether a thread of this process waits on the other core.
    pub const fn has_partner(self) -> bool {
        matches!(self, Self::V2 | Self::V3 | Self::V4 | Self::V5)
    }

    /// Whether both sides poll, so that a call takes less than a microsecond.
    pub const fn polls(self) -> bool {
        matches!(self, Self::V4 | Self::V5 | Self::Sqpoll)
    }
}

impl SwitchCall {
    /// Whether the call has a size.
    pub const fn is_sized(self) -> bool {
        !matches!(self, Self::Gettid)
    }
}
