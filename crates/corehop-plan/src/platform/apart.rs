// SPDX-License-Identifier: MIT OR Apache-2.0
//! A variant of a guest whose host keeps the virtual cores apart, so that no two cores share a cache.

use super::{CpuGroups, Fact, Platform};
use crate::units::CpuList;

impl Platform {
    /// Returns the machine as it behaves while its host has separated the cores: each core has an outermost
    /// cache of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        let mut apart = self.clone();
        apart.name = format!("{}, cores apart", self.name);
        let last = self.caches.iter().map(|cache| cache.level).max();
        for cache in apart.caches.iter_mut().filter(|cache| Some(cache.level) == last) {
            let of_core = |cpus: &CpuList| {
                self.cores
                    .value
                    .iter()
                    .map(|core| core.intersection(cpus))
                    .filter(|it| !it.is_empty())
                    .collect::<Vec<_>>()
            };
            let cores: Vec<CpuList> = cache.instances.value.iter().flat_map(of_core).collect();
            let how = "lines exchanged beside the samples: these CPUs shared none";
            cache.instances = Fact::measured(CpuGroups::new(cores), how);
        }
        apart
    }
}
