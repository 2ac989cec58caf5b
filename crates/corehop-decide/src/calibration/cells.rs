// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of a calibration experiment: the cells of the quick experiment, and additional calibration cells.

use corehop_plan::experiment::{Length, Preset, SamplingGroup, Synthetic, migrations};
use corehop_plan::platform::{Cache, Fact, Latency, Platform};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Absence, Event, Load, Page, WorkingSet};
use corehop_stats::cell::CellKey;

/// The working set sizes that are flushed or left alone; the quick experiment uses other sizes.
pub(super) const SIZES: [Bytes; 3] =
    [Bytes::from_kib(32), Bytes::from_kib(512), Bytes::from_mib(2)];
/// The sizes that migrate; they fit into private caches.
pub(super) const SMALL: [Bytes; 2] = [SIZES[0], SIZES[1]];
/// The lengths of absences without a preemptor; the quick experiment uses other lengths.
pub(super) const LENGTHS: [Nanos; 3] =
    [Nanos::from_micros(500), Nanos::from_millis(2), Nanos::from_millis(8)];
/// The number of samples of a normal cell, and of a cell with a large working set.
const SAMPLES: [u32; 2] = [60, 12];
/// The number of samples of an absence cell, which needs more because its loss is a distribution.
const OF_ABSENCE: u32 = 100;
/// The largest working set; touching it takes some milliseconds.
const LARGEST: Bytes = Bytes::from_mib(24);
/// The sizes of the quick experiment that count as large.
const QUICK: [Bytes; 2] = [Bytes::from_mib(1), Bytes::from_mib(4)];

/// Returns the live experiment of a calibration: the cells of the quick experiment, and the calibration cells.
pub fn experiment(platform: &Platform) -> Synthetic {
    let mut quick = Preset::Quick.synthetic(platform, None, None);
    quick.groups.extend(own(platform));
    quick
}

/// Changes groups so that `described` can run them. A class of migration that `described` lacks becomes the farthest
/// class, as on a host whose cores are apart.
pub(crate) fn on_described(groups: &mut [SamplingGroup], described: &Platform) {
    let classes = migrations(described);
    for group in groups {
        for event in &mut group.events {
            if event.is_migration() && !classes.contains(event) {
                *event = Event::MemoryMigration;
            }
        }
        group.events.dedup();
    }
}

/// The groups of calibration cells.
pub(super) fn own(platform: &Platform) -> Vec<SamplingGroup> {
    let classes = migrations(platform);
    let near = near_second(platform).map(|wss| [set(wss, Page::Base), set(wss, Page::Transparent)]);
    let of_near = group(&[], vec![Event::None], Length::ZERO, SAMPLES[1]);
    let mut groups = vec![
        SamplingGroup { sets: near.concat(), ..of_near },
        group(&SIZES, vec![Event::None, Event::Flush], Length::ZERO, SAMPLES[0]),
        group(&large(platform), vec![Event::None], Length::ZERO, SAMPLES[1]),
    ];
    groups
        .extend(LENGTHS.map(|length| {
            group(&SIZES, vec![Event::IdleLeave], Length::Fixed(length), OF_ABSENCE)
        }));
    if !classes.is_empty() {
        groups.push(group(&SMALL, classes, Length::ZERO, SAMPLES[0]));
    }
    groups
}

/// A cache of the first usable CPU, on which jobs begin: its index and its stated size.
fn cache_of(platform: &Platform, is: impl Fn(&Cache) -> bool) -> Option<(usize, Bytes)> {
    let cpu = platform.usable().first()?;
    let mut caches = platform.caches.iter().enumerate();
    let (place, cache) = caches.find(|(_, cache)| cache.holds_data_of(cpu) && is(cache))?;
    Some((place, cache.size.as_ref()?.value))
}

/// The index and the stated size of the second cache level.
pub(super) fn second_level(platform: &Platform) -> Option<(usize, Bytes)> {
    cache_of(platform, |cache| cache.level == 2)
}

/// The index and the stated size of the last cache level.
pub(super) fn last_level(platform: &Platform) -> Option<(usize, Bytes)> {
    let last = platform.caches.iter().map(|cache| cache.level).max()?;
    cache_of(platform, |cache| cache.level == last)
}

fn second_size(platform: &Platform) -> Bytes {
    second_level(platform).map_or(Bytes::from_mib(1), |(_, size)| size)
}

/// The sizes that reveal the room in the second cache level: below its stated size, and above.
pub(super) fn near_second(platform: &Platform) -> [Bytes; 2] {
    let kib = second_size(platform).get() >> 10;
    // In whole pages.
    [3 * kib / 4, 3 * kib / 2].map(|kib| Bytes::from_kib(kib & !3))
}

fn group(sizes: &[Bytes], events: Vec<Event>, length: Length, samples: u32) -> SamplingGroup {
    let sets = sizes.iter().map(|&wss| set(wss, Page::Base)).collect();
    SamplingGroup { load: Load::Idle, sets, events, length, absence: Absence::Nothing, samples }
}

fn set(wss: Bytes, page: Page) -> WorkingSet {
    WorkingSet { page, ..WorkingSet::list(wss, 0.5) }
}

/// The sizes that reveal the capacity of the last cache level: by half octaves from twice the second level to twice
/// the stated size of the last level.
pub(super) fn large(platform: &Platform) -> Vec<Bytes> {
    let last = last_level(platform).map_or(LARGEST, |(_, size)| size);
    let second = second_size(platform);
    // Without a third level, the second is looked for from below its size on.
    let least = if second < last { 2 * second.get() } else { second.get() / 2 };
    let most = (2 * last.get()).min(LARGEST.get());
    let fits = |size: &Bytes| size.get() >= least && size.get() <= most && !QUICK.contains(size);
    Bytes::half_octaves(20).filter(fits).collect()
}

/// Assumes a hit time for each data cache without an observed plateau, so that the machine can be simulated. Returns
/// the cache names and the assumed nanoseconds.
pub fn complete(platform: &mut Platform) -> Vec<(String, u32)> {
    let mut assumed = Vec::new();
    for cache in
        platform.caches.iter_mut().filter(|cache| cache.holds_data() && cache.latency.is_none())
    {
        let ns = USUAL_NS[(cache.level as usize).clamp(1, USUAL_NS.len()) - 1];
        let why = "no plateau of the level was found; a typical value";
        cache.latency = Some(Fact::assumed(Latency::Picos(u64::from(ns) * 1_000), why));
        assumed.push((cache.label(), ns));
    }
    assumed
}

/// Typical hit times by cache level, in nanoseconds.
const USUAL_NS: [u32; 4] = [1, 4, 15, 40];

/// Whether a cell is a calibration cell and not a cell of the quick experiment.
pub fn is_own(cell: &CellKey, platform: &Platform) -> bool {
    let size = Bytes::new(cell.wss_bytes);
    &*cell.load == Load::Idle.word()
        && (SIZES.contains(&size)
            || near_second(platform).contains(&size)
            || large(platform).contains(&size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_the_quick_experiment_is_one_that_gives_a_number() {
        for platform in Platform::names() {
            let platform = Platform::named(platform).unwrap().unwrap();
            let quick = Preset::Quick.synthetic(&platform, None, None);
            let idle = |group: &&SamplingGroup| group.load == Load::Idle;
            let sizes = |groups: &[SamplingGroup]| -> Vec<Bytes> {
                groups
                    .iter()
                    .filter(idle)
                    .flat_map(|group| group.sets.iter().map(|set| set.wss))
                    .collect()
            };
            let quick = sizes(&quick.groups);
            let own = sizes(&own(&platform));
            assert!(!own.iter().any(|size| quick.contains(size)), "{}: {own:?}", platform.id);
            assert!(own.len() >= 8, "{}: {own:?}", platform.id);
        }
    }
}
