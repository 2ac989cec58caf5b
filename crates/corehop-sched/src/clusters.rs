// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters of CPUs that the caches of a machine form.

use corehop_plan::platform::{Cache, Platform};
use corehop_plan::units::{Cpu, CpuList};

/// Returns the number of CPUs that share one cache of level `cache` (`l2`, `L3`, …), and the level.
///
/// # Errors
/// Returns an error if the machine has no data cache of that level, or if the caches of that level serve different
/// numbers of CPUs.
pub fn by_cache(platform: &Platform, cache: &str) -> Result<(u32, u32), String> {
    let level: Option<u32> = cache.strip_prefix(['l', 'L']).and_then(|digits| digits.parse().ok());
    let level =
        level.ok_or_else(|| format!("`{cache}` is not a cache level: expected l2, l3, …"))?;
    let mut found = platform.caches.iter().filter(|it| it.level == level && it.holds_data());
    let sizes: Vec<usize> = found
        .clone()
        .filter_map(Cache::sharers)
        .flat_map(|groups| groups.iter().map(CpuList::len))
        .collect();
    match sizes.as_slice() {
        [] if found.next().is_some() => Err(format!(
            "the description of {} is contradicted about which CPUs share a level-{level} cache: name the size of the clusters",
            platform.id
        )),
        [] => Err(format!("{} has no level-{level} cache for data", platform.id)),
        [first, rest @ ..] if rest.iter().all(|size| size == first) => Ok((*first as u32, level)),
        _ => Err(format!(
            "the level-{level} caches of {} serve unequal numbers of CPUs",
            platform.id
        )),
    }
}

/// Returns the cluster sizes (with the cache level) that the caches of a machine form, innermost level first. Each
/// size is more than one CPU and less than all.
pub fn sizes(platform: &Platform) -> Vec<(u32, u32)> {
    let all = platform.cpus.value.len() as u32;
    let mut levels: Vec<u32> = platform.caches.iter().map(|cache| cache.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let clusters = levels.iter().filter_map(|level| by_cache(platform, &format!("l{level}")).ok());
    clusters.filter(|&(size, _)| 1 < size && size < all).collect()
}

/// The CPUs of each cluster, or why there are no clusters.
pub(crate) type OfSet = Result<Vec<Vec<usize>>, String>;

/// The clusters of a set on the first `cpus` CPUs of a machine, numbered from 0, by size.
///
/// A size has an error if the CPUs do not form whole clusters.
pub(crate) fn of_set(platform: &Platform, cpus: u32) -> Vec<(u32, OfSet)> {
    let place = |cpu: Cpu| platform.cpus.value.iter().position(|it| it == cpu);
    let of_level = |(size, level): (u32, u32)| {
        let found = platform.caches.iter().filter(|it| it.level == level);
        let groups = found.filter_map(Cache::sharers).flat_map(|it| it.iter());
        let groups = groups.map(|group| group.iter().filter_map(place).collect::<Vec<_>>());
        let mut own: Vec<Vec<usize>> =
            groups.filter(|group| group.iter().all(|&at| at < cpus as usize)).collect();
        own.sort();
        let whole = own.len() * size as usize == cpus as usize;
        let why = || {
            format!(
                "the first {cpus} CPUs of {} do not make whole clusters of {size} that share a level-{level} cache",
                platform.id
            )
        };
        (size, if whole { Ok(own) } else { Err(why()) })
    };
    sizes(platform).into_iter().map(of_level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::CpuGroups;

    #[test]
    fn clusters_are_those_of_the_caches_however_cpus_are_numbered() {
        let mut platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let pairs = (0..12).map(|at| CpuList::new([Cpu(at), Cpu(at + 12)]));
        let level_2 = platform.caches.iter_mut().find(|it| it.level == 2).unwrap();
        level_2.instances.value = CpuGroups::new(pairs);
        let (2, Ok(found)) = &of_set(&platform, 24)[0] else { panic!() };
        assert_eq!(found[1], [1, 13]);
        // The first two have no cache in common.
        assert!(of_set(&platform, 2)[0].1.as_ref().unwrap_err().contains("first 2 CPUs"));
    }

    #[test]
    fn the_l7455_has_pairs_by_level_2_and_sixes_by_level_3() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        assert_eq!(by_cache(&platform, "l2"), Ok((2, 2)));
        assert_eq!(by_cache(&platform, "L3"), Ok((6, 3)));
        assert_eq!(sizes(&platform), [(2, 2), (6, 3)]);
        let [(2, Ok(pairs)), (6, Err(_))] = &of_set(&platform, 4)[..] else { panic!() };
        assert_eq!(pairs, &[vec![0, 1], vec![2, 3]]);
        assert!(by_cache(&platform, "l4").unwrap_err().contains("level-4"));
        assert!(by_cache(&platform, "two").unwrap_err().contains("two"));
    }
}
