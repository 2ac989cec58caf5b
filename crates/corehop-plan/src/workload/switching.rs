// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mechanisms of core switches, which execute a call on another core, and the calls (Strong et al., "Fast Switching
//! of Threads Between Cores", 2009, sections 3 and 5).
//!
//! The mechanisms `v1` to `v5` are those of the library `corehop-switch`, measured live and simulated. The mechanisms
//! `strong-v1` to `strong-v5` are those of the kernel of 2009, which are only simulated. The list also has the ways in
//! which programs reach their own worker thread, from `futex` to `crossbeam`, and a second worker that needs no calls
//! from the first.

use crate::words::words;

words! {
    /// A mechanism that executes a call on another core.
    SwitchMechanism, "a mechanism" {
        /// The call runs on the application core, without a switch.
        None = "none",
        /// V1: the thread moves itself to the other core with sched_setaffinity, makes the call, and moves back.
        V1 = "v1",
        /// V2: the caller wakes a thread on the other core (futex); that thread makes the call and wakes the caller.
        V2 = "v2",
        /// V3: as V2 with fewer system calls: each thread wakes the other thread and sleeps in one entry into the
        /// kernel.
        V3 = "v3",
        /// V4: a thread on the other core polls for calls, and the caller polls for the result.
        V4 = "v4",
        /// V5: a thread on the other core polls for calls as long as polling has paid recently, and then sleeps.
        V5 = "v5",
        /// A kernel thread on the other core polls for requests (io_uring, SQPOLL), and executes a request without
        /// effect.
        Sqpoll = "sqpoll",
        /// A worker thread on the other core and the caller wait for each other on a word of memory (futex).
        Futex = "futex",
        /// A worker thread on the other core and the caller wait for each other on a condition variable with a mutex.
        Condvar = "condvar",
        /// A worker thread on the other core and the caller each read an eventfd that the other thread writes.
        Eventfd = "eventfd",
        /// A worker thread on the other core and the caller each read a pipe that the other thread writes.
        Pipe = "pipe",
        /// A worker thread on the other core and the caller each receive from a channel of Rust's standard library.
        Mpsc = "mpsc",
        /// A worker thread on the other core and the caller each receive from a channel of the crate crossbeam.
        Crossbeam = "crossbeam",
        /// Calls are not switched: a second worker thread makes calls of its own on the other core. The time of a
        /// call is the total time divided by the calls of both threads.
        SecondWorker = "second-worker",
        /// V1 in the simulated kernel of 2009 (Strong et al.): the migration thread moves the calling thread.
        StrongV1 = "strong-v1",
        /// V2 in the simulated kernel of 2009 (Strong et al.): the scheduler hands over the calling thread.
        StrongV2 = "strong-v2",
        /// V3 in the simulated kernel of 2009 (Strong et al.): a fast path hands over the calling thread.
        StrongV3 = "strong-v3",
        /// V4 in the simulated kernel of 2009 (Strong et al.): a fast path hands over the calling thread to a core
        /// that polls.
        StrongV4 = "strong-v4",
        /// V5 in the simulated kernel of 2009 (Strong et al.): a fast path hands over the calling thread to a core
        /// that is woken ahead of need.
        StrongV5 = "strong-v5",
    }
}

words! {
    /// A call that another core executes.
    SwitchCall, "a call" {
        /// The call returns the number of the thread; this call is the shortest system call.
        Gettid = "gettid",
        /// The call reads bytes from a file in memory.
        Pread = "pread",
        /// The call writes bytes to a file in memory.
        Pwrite = "pwrite",
    }
}

impl SwitchMechanism {
    /// The mechanisms of the library; the mechanism with number n has index n − 1.
    pub const LIBRARY: [Self; 5] = [Self::V1, Self::V2, Self::V3, Self::V4, Self::V5];

    /// Returns the number of the mechanism in the library; 0 for a mechanism that the library lacks.
    pub fn number(self) -> u32 {
        let place = Self::LIBRARY.iter().position(|&it| it == self);
        place.map_or(0, |place| place as u32 + 1)
    }

    /// Returns whether the mechanism belongs to the kernel of Strong et al. (2009), which exists only in simulation.
    pub const fn is_strong(self) -> bool {
        matches!(
            self,
            Self::StrongV1 | Self::StrongV2 | Self::StrongV3 | Self::StrongV4 | Self::StrongV5
        )
    }

    /// The ways in which programs without the library reach a worker thread.
    pub const PEERS: [Self; 6] =
        [Self::Futex, Self::Condvar, Self::Eventfd, Self::Pipe, Self::Mpsc, Self::Crossbeam];

    /// Returns whether the mechanism exists only on live machines.
    pub fn is_live_only(self) -> bool {
        matches!(self, Self::Sqpoll | Self::SecondWorker) || Self::PEERS.contains(&self)
    }

    /// Returns whether a call leaves the caller's core.
    pub const fn switches(self) -> bool {
        !matches!(self, Self::None | Self::SecondWorker)
    }

    /// Returns whether a thread of this process waits on the other core.
    pub const fn has_partner(self) -> bool {
        matches!(self, Self::V2 | Self::V3 | Self::V4 | Self::V5)
    }

    /// Returns whether both sides poll, so that a call takes less than a microsecond.
    pub const fn polls(self) -> bool {
        matches!(self, Self::V4 | Self::V5 | Self::Sqpoll | Self::StrongV4 | Self::StrongV5)
    }
}

impl SwitchCall {
    /// Returns whether the call has a size.
    pub const fn is_sized(self) -> bool {
        !matches!(self, Self::Gettid)
    }
}
