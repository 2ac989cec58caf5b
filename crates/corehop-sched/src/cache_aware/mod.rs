// SPDX-License-Identifier: MIT OR Apache-2.0
//! Response times that charge cache reloads by which lines tasks use: fixed priorities and EDF on one CPU.
//!
//! UCBs are the useful cache blocks of a task: those that it may use again after a preemption. ECBs are
//! all blocks that it touches, by which it may evict others'. `BRT` is the time to reload a block. `hep(i)` are the
//! tasks of at least the priority of `i`, `aff(i, j)` those of them that `j` may preempt.

pub mod edf;
pub mod fixed;
pub mod pairs;

pub use corehop_plan::workload::blocks::{CacheBlockSet, CacheUse, Footprint, Reload};

/// The bound on the reload cost of preemptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Approach {
    /// `|ECB_j|`: what the preempting task can evict (Busquets-Mataix et al. 1996).
    EcbOnly,
    /// `max over aff of |UCB_k|`: what a preempted task can lose (Lee et al. 1998).
    UcbOnly,
    /// `|union over aff of UCB_k, cut with ECB_j|` (Tan and Mooney 2007).
    UcbUnion,
    /// `max over aff of |UCB_k cut with the union of ECB_h over hep(j)|` (Altmeyer, Davis and Maiza 2011).
    EcbUnion,
    /// The first union with every preemption counted for itself (Altmeyer, Davis and Maiza, RTS 48(5), 2012).
    UcbUnionMultiset,
    /// The second one likewise.
    EcbUnionMultiset,
    /// The smaller response of both multiset forms, task by task.
    Combined,
}

impl Approach {
    /// Every approach.
    pub const ALL: [Self; 7] = [
        Self::EcbOnly,
        Self::UcbOnly,
        Self::UcbUnion,
        Self::EcbUnion,
        Self::UcbUnionMultiset,
        Self::EcbUnionMultiset,
        Self::Combined,
    ];
}

/// The sum of the `jobs` dearest of these preemptions, each given as its cost and how often it may occur.
fn dearest(mut preemptions: Vec<(u64, u64)>, jobs: u64) -> u64 {
    preemptions.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = jobs;
    preemptions.into_iter().fold(0, |sum, (cost, times)| {
        let taken = times.min(left);
        left -= taken;
        sum.saturating_add(taken.saturating_mul(cost))
    })
}
