// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words for scheduling overheads and for the vantage points of their measurement.

use crate::words::words;

words! {
    /// A scheduling overhead of the kernel.
    Overhead, "an overhead" {
        /// The time of a scheduling decision. From user space, corehop measures a sched_yield(2) without effect,
        /// including the entry and exit of the system call.
        Decision = "scheduling_decision",
        /// The time of a switch to another thread. From user space, corehop measures the extra time of a
        /// sched_yield(2) that switches, per switch.
        Switch = "context_switch",
        /// The time of the tick: its interrupt and the softirqs that the interrupt raised. From user space, corehop
        /// measures gaps in the time of a computing thread that contain one timer interrupt and nothing else.
        Tick = "tick",
        /// The time of the timer interrupt that releases a job. Only BPF programs in the kernel can measure the
        /// release interrupt.
        Release = "release",
        /// The time from the expiry of the timer that releases a job to the start of its interrupt. Only BPF programs
        /// in the kernel can measure this timer latency.
        EventLatency = "event_latency",
        /// The time from the end of a sleep until the thread runs, measured from threads.
        WakeUp = "wake_up",
        /// The time from sending an inter-processor interrupt to its start on the other CPU. Only BPF programs in the
        /// kernel can measure the latency of the interrupt in one direction.
        OneWay = "interrupt",
        /// The time until another CPU has served a request (membarrier(2)), measured from threads.
        RoundTrip = "interrupt_round_trip",
    }
}

words! {
    /// The vantage point from which an overhead is measured.
    Vantage, "a vantage point" {
        /// BPF programs at the kernel's tracepoints measured the overhead.
        Kernel = "kernel",
        /// Threads in user space measured the overhead.
        Threads = "threads",
    }
}
