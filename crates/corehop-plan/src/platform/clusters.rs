// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clusters of CPUs under clustered schedulers: the CPUs that share a cache. Analysis and measurement both call
//! this module, so that they use equal clusters.

use super::{Cache, Platform};
use crate::units::CpuList;

/// Returns the clusters into which the caches of a level divide the given CPUs. The function uses the outermost
/// level that yields more than one cluster if no level is given.
///
/// # Errors
/// Returns the reason why the platform has no clusters.
pub fn of_cpus(
    platform: &Platform,
    cpus: &CpuList,
    level: Option<u32>,
) -> Result<Vec<CpuList>, String> {
    let of_level = |level: u32| -> Vec<CpuList> {
        let caches = platform.caches.iter().filter(|it| it.level == level && it.holds_data());
        let groups = caches.filter_map(Cache::sharers).flat_map(|it| it.iter());
        groups.map(|group| group.intersection(cpus)).filter(|group| !group.is_empty()).collect()
    };
    let whole = |groups: &[CpuList]| groups.iter().map(CpuList::len).sum::<usize>() == cpus.len();
    let mut levels: Vec<u32> = platform.caches.iter().map(|cache| cache.level).collect();
    levels.sort_unstable_by(|a, b| b.cmp(a));
    levels.dedup();
    if let Some(level) = level {
        let groups = of_level(level);
        let none = || {
            let all: Vec<String> = levels
                .iter()
                .rev()
                .filter(|&&it| whole(&of_level(it)))
                .map(u32::to_string)
                .collect();
            let here =
                format!("{} has no level-{level} cache for all of the CPUs {cpus}", platform.id);
            format!("{here}: name one of {}", all.join(", "))
        };
        return if whole(&groups) { Ok(groups) } else { Err(none()) };
    }
    let several = |groups: &Vec<CpuList>| whole(groups) && groups.len() > 1;
    let clusters = levels.into_iter().map(of_level).find(several);
    clusters.ok_or_else(|| {
        let all = format!("the CPUs {cpus} of {} share all caches", platform.id);
        format!("{all}, so there is one cluster: use g-edf, or name more CPUs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Cpu;

    #[test]
    fn the_clusters_of_some_cpus_are_those_of_the_outermost_cache_that_makes_several() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let of = |count: u32| of_cpus(&platform, &CpuList::new((0..count).map(Cpu)), None);
        let sizes = |count: u32| of(count).unwrap().iter().map(CpuList::len).collect::<Vec<_>>();
        assert_eq!(sizes(24), [6; 4]);
        assert_eq!(sizes(12), [6; 2]);
        // The first six CPUs share one level-3 cache.
        assert_eq!(sizes(6), [2; 3]);
        assert_eq!(sizes(9), [6, 3]);
    }
}
