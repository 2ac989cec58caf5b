// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of records and rows: overheads, vantage points, courses of jobs.

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

impl Default for JobOutcome {
    /// Of a record that tells of nothing yet.
    fn default() -> Self {
        Self::Unwatched
    }
}

words! {
    /// The course of a job of a task set, seen from Fig. 1 of Bastoni et al.
    JobOutcome, "a course" {
        /// As in Fig. 1: cold and warm, away once while it waited, and touched again.
        Sample = "sample",
        /// It was never away: it waited until its execution time was over.
        NotAway = "not_away",
        /// It was away during its cold touch.
        AwayInCold = "away_in_cold",
        /// It was away during its warm touch.
        AwayInWarm = "away_in_warm",
        /// It was away a second time, before it had touched its working set again.
        AwayAgain = "away_again",
        /// Its execution time was over before its working set was warm, or too little of it was left, when
        /// it was away, to touch it again.
        TooShort = "too_short",
        /// It gave its CPU up itself: a page fault, or the kernel made it wait.
        Blocked = "blocked",
        /// The run was not watched, to see what watching costs: its course is unknown.
        Unwatched = "unwatched",
    }
}
