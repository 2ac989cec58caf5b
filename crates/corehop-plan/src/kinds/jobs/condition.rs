// SPDX-License-Identifier: MIT OR Apache-2.0
//! The condition of a phase: the draws that are new and the draws kept from the phase before.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The draw that a step of `conditions` renews.
    Renewed, "what a step renews" {
        /// The step of `measure conditions` renews nothing: only time passes.
        Nothing = "nothing",
        /// The step of `measure conditions` draws new page frames for the job's working set.
        Frames = "frames",
        /// The step of `measure conditions` draws a new order in which the job accesses its working set.
        Order = "order",
        /// The step of `measure conditions` renews polluters, preemptors and the eviction buffer: their threads, page
        /// frames and orders.
        Others = "others",
        /// The step of `measure conditions` starts new measured threads.
        Threads = "threads",
        /// The step of `measure conditions` renews page frames, order, threads, polluters and preemptors together.
        Everything = "everything",
    }
}

impl Renewed {
    /// The renewals of a single draw each.
    pub const SINGLE: [Self; 4] = [Self::Frames, Self::Order, Self::Others, Self::Threads];

    pub(crate) const fn includes(self, one: Self) -> bool {
        matches!(self, Self::Everything) || self as u8 == one as u8
    }
}

/// The number of each draw with which a phase runs. A machine keeps a draw whose number equals the number
/// in the phase before. A machine also probes the last-level cache before and after a phase with a
/// condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The draw that this phase renews.
    pub renewed: Renewed,
    /// The draw of the job's page frames, counted from 0.
    pub frames: u32,
    /// The draw of the order of the job's accesses.
    pub order: u32,
    /// The draw of the polluters, the preemptors and the eviction buffer.
    pub others: u32,
    /// The draw of the measured threads.
    pub threads: u32,
}

impl Condition {
    /// Makes a condition that draws everything anew in each replicate.
    pub const fn whole(replicate: u32) -> Self {
        let (frames, order, others, threads) = (replicate, replicate, replicate, replicate);
        Self { renewed: Renewed::Everything, frames, order, others, threads }
    }
}
