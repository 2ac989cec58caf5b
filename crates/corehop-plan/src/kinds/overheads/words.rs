// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of scheduling overheads and of the points that they are seen from.

use crate::words::words;

words! {
    /// A scheduling overhead of the kernel.
    Overhead, "an overhead" {
        /// A scheduling decision. From threads: a sched_yield(2) without effect, with the entry and exit
        /// of the system call.
        Decision = "scheduling_decision",
        /// A switch to another thread. From threads: the extra time of a sched_yield(2) that switches,
        /// per switch.
        Switch = "context_switch",
        /// The tick: its interrupt and the softirqs that it raised. From threads: gaps in the time of a
        /// computing thread with one timer interrupt and nothing else.
        Tick = "tick",
        /// The interrupt of the timer that releases a job. Not available from threads.
        Release = "release",
        /// The time from the expiry of that timer to the begin of its interrupt. Not available from
        /// threads.
        EventLatency = "event_latency",
        /// The time from the end of a sleep to the thread running, measured from threads.
        WakeUp = "wake_up",
        /// The time from sending an interrupt to its begin on the other CPU. Not available from threads.
        OneWay = "interrupt",
        /// The time of a request to another CPU (membarrier(2)) until it is done, measured from threads.
        RoundTrip = "interrupt_round_trip",
    }
}

words! {
    /// The vantage point of a measurement of overheads.
    Vantage, "a vantage point" {
        /// Between the kernel's tracepoints.
        Kernel = "kernel",
        /// From threads.
        Threads = "threads",
    }
}
