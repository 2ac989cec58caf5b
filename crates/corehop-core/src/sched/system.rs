// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks and CPUs as a schedulability test sees them.

use super::bill::Bill;
use super::cache_aware::pairs::Pairs;
use crate::workload::blocks::CacheUse;
use crate::workload::placement::TaskPlacement;
use crate::workload::task::{Task, TaskSet};

/// Tasks and CPUs as a test sees them.
#[derive(Debug, Clone, Copy)]
pub struct System<'a> {
    pub(crate) cpus: u32,
    pub(crate) tasks: &'a [Task],
    /// In the order of the tasks, where it is known.
    pub(crate) cache: Option<&'a CacheUse>,
    /// The charge, where it depends on the placement.
    pub(crate) bill: Option<&'a Bill>,
    /// Measured delays by pair of tasks, where they are known.
    pub(crate) pairs: Option<&'a Pairs>,
    /// The CPUs of each task, in the order of the tasks, if given.
    pub(crate) placement: Option<&'a [TaskPlacement]>,
}

impl<'a> System<'a> {
    /// These tasks on so many CPUs, of whose caches nothing is known.
    pub(crate) fn of(cpus: u32, tasks: &'a [Task]) -> Self {
        Self { cpus, tasks, cache: None, bill: None, pairs: None, placement: None }
    }
    /// The number of CPUs, m.
    pub fn cpus(self) -> u32 {
        self.cpus
    }
    /// The tasks.
    pub fn tasks(self) -> &'a [Task] {
        self.tasks
    }
    pub(crate) fn m(self) -> u64 {
        u64::from(self.cpus)
    }
}

impl TaskSet {
    /// The input of a test.
    pub fn system(&self) -> System<'_> {
        System {
            cpus: self.cpus(),
            tasks: self.tasks(),
            cache: self.cache(),
            bill: None,
            pairs: None,
            placement: self.placement(),
        }
    }
}
