// SPDX-License-Identifier: MIT OR Apache-2.0
//! Response times that charge cache reloads by the cache lines that tasks use, for fixed priorities and EDF on one
//! CPU.
//!
//! UCBs are the useful cache blocks of a task: the blocks that the task may use again after a preemption. ECBs are
//! all blocks that a task touches. These blocks may evict blocks of other tasks. `BRT` is the time to reload a block.
//! `hep(i)` is the set of tasks with at least the priority of `i`, and `aff(i, j)` is the part of `hep(i)` that `j`
//! may preempt.

pub mod edf;
pub mod fixed;
pub mod pairs;

pub use corehop_plan::workload::blocks::{CacheBlockSet, CacheUse, Footprint, Reload};

/// The bound on the reload cost of preemptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Approach {
    /// The bound is `|ECB_j|`, the number of blocks that the preempting task can evict (Busquets-Mataix et al. 1996).
    EcbOnly,
    /// The bound is `max over aff of |UCB_k|`, the number of blocks that a preempted task can lose (Lee et al. 1998).
    UcbOnly,
    /// The bound is `|union over aff of UCB_k, cut with ECB_j|` (Tan and Mooney 2007).
    UcbUnion,
    /// The bound is `max over aff of |UCB_k cut with the union of ECB_h over hep(j)|` (Altmeyer, Davis and Maiza 2011).
    EcbUnion,
    /// The UCB-union bound with every preemption counted individually (Altmeyer, Davis and Maiza, RTS 48(5), 2012).
    UcbUnionMultiset,
    /// The ECB-union bound with every preemption counted individually (also RTS 48(5), 2012).
    EcbUnionMultiset,
    /// The smaller response of the two multiset bounds, task by task.
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

/// Sums the costs of the `jobs` most expensive preemptions, each given as its cost and how often it may occur.
fn dearest(mut preemptions: Vec<(u64, u64)>, jobs: u64) -> u64 {
    preemptions.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = jobs;
    preemptions.into_iter().fold(0, |sum, (cost, times)| {
        let taken = times.min(left);
        left -= taken;
        sum.saturating_add(taken.saturating_mul(cost))
    })
}
