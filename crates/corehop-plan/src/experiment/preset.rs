// SPDX-License-Identifier: MIT OR Apache-2.0
//! Presets: the parameters of the published studies, and of a quick run.

use super::synthetic::{SamplingGroup, Synthetic, migration_of};
use super::{AccessTime, Conditions, PolluterSweep, PreemptionLength};
use crate::kinds::Length;
use crate::platform::Platform;
use crate::units::{Bytes, CpuList, Nanos};
use crate::words::words;
use crate::workload::{
    Absence, Event, LineState, Load, Mover, Page, Pattern, Polluter, WorkingSet,
};

words! {
    /// A named set of parameters for every experiment.
    Preset, "a preset" {
        /// A run of some minutes, which is enough for a first look at the machine.
        Quick = "quick",
        /// The parameters of Bastoni, Brandenburg and Anderson (2010, section 4.1); a run takes many hours.
        Bastoni = "bastoni",
        /// The parameters of Wächtler (2012, section 3.4 and chapter 5); a run takes an hour or more.
        Waechtler = "waechtler",
    }
}

/// The error for the name of a preset that does not exist.
pub type UnknownPreset = crate::words::UnknownWord;

/// The largest cache that a preset fills completely: a guest's declared size above this limit is not credible, and one
/// walk would take longer than any real-time budget.
const LARGEST_CACHE: Bytes = Bytes::from_mib(64);

impl Preset {
    /// Returns the synthetic method with the preset's parameters. If `load` is given, only this load runs; otherwise
    /// the preset's own loads run, and also the load `realistic` if the caller gives this load.
    pub fn synthetic(
        self,
        platform: &Platform,
        load: Option<&Load>,
        realistic: Option<&Load>,
    ) -> Synthetic {
        let classes = migrations(platform);
        let groups = match self {
            Self::Quick => quick(platform, &classes, realistic),
            Self::Bastoni => bastoni(platform, &classes, realistic),
            Self::Waechtler => waechtler(platform, &classes, realistic),
        };
        let groups = match load {
            Some(load) => under(groups, load),
            None => groups,
        };
        // Wächtler, section 4.1, hands the job over to a thread that waits on the other core.
        let mover = if self == Self::Waechtler { Mover::Handover } else { Mover::Affinity };
        let (preemptor, cpus) = (preemptor(platform), CpuList::default());
        Synthetic { mover, preemptor, preemptor_sizes: Vec::new(), passes: 0, groups, cpus }
    }

    /// Returns whether the preset's study also measured under the load `realistic`, which needs a command from the
    /// user.
    pub fn has_realistic(self) -> bool {
        self == Self::Waechtler
    }

    /// Returns the default walk of polluters of the load `constructed`.
    pub fn polluter(platform: &Platform) -> Polluter {
        preemptor(platform)
    }

    /// Returns the experiment on access times with the preset's parameters.
    pub fn access_time(self, platform: &Platform) -> AccessTime {
        let (sizes, states) = match self {
            Self::Quick => (
                doubling(4, 8 * 1024),
                [(LineState::Valid, 30), (LineState::Invalid, 10), (LineState::Modified, 6)],
            ),
            // The 10 million accesses to valid lines per point are walks of the smallest size; larger
            // sizes get as many walks, hence more accesses.
            _ => (
                doubling(4, 32 * 1024),
                [(LineState::Valid, 1000), (LineState::Invalid, 1000), (LineState::Modified, 250)],
            ),
        };
        let nodes: Vec<Option<u32>> = match platform.nodes.len() {
            0 | 1 => vec![None],
            _ => platform.nodes.iter().map(|node| Some(node.id)).collect(),
        };
        let ratios: &[f64] = if self == Self::Quick { &[0.0] } else { &[0.0, 0.5] };
        let sets = sizes
            .iter()
            .flat_map(|&wss| ratios.iter().map(move |&ratio| WorkingSet::list(wss, ratio)));
        let placed =
            |set: WorkingSet| nodes.iter().map(move |&node| WorkingSet { node, ..set.clone() });
        AccessTime { sets: sets.flat_map(placed).collect(), states: states.to_vec(), cpu: None }
    }

    /// Returns the experiment on preemption lengths with the preset's parameters.
    pub fn preemption_length(self) -> PreemptionLength {
        let micros: &[u64] =
            &[10, 22, 50, 100, 200, 500, 1_000, 2_000, 4_000, 10_000, 25_000, 50_000];
        let (lengths, samples) =
            if self == Self::Quick { (&micros[..10], 50) } else { (micros, 500) };
        let lengths = lengths.iter().copied().map(Nanos::from_micros).collect();
        PreemptionLength { lengths, loads: vec![Load::Idle], samples, cpu: None }
    }

    /// Returns the experiment on the causes of one cell's spread. The examined cell is a migration of
    /// 1 MiB of the farthest class beside polluters, or a preemption if the platform has no class of migration.
    pub fn conditions(self, platform: &Platform) -> Conditions {
        let event = migrations(platform).last().copied().unwrap_or(Event::Preemption);
        let preemptor = preemptor(platform);
        let group = SamplingGroup {
            load: constructed(preemptor.wss),
            sets: lists(&[Bytes::from_mib(1)], Page::Base),
            events: vec![event],
            length: Length::Fixed(Nanos::from_millis(4)),
            absence: Absence::Load,
            samples: 1_440,
        };
        let (mover, cpus) = (Mover::Affinity, CpuList::default());
        let (groups, preemptor_sizes) = (vec![group], Vec::new());
        let cell = Synthetic { mover, preemptor, preemptor_sizes, passes: 0, groups, cpus };
        Conditions { cell, rounds: if self == Self::Quick { 30 } else { 100 } }
    }

    /// Returns the experiment that relates the delay to the preemption length, with the preset's parameters.
    pub fn polluter_sweep(self, platform: &Platform) -> PolluterSweep {
        let millis: &[u64] = &[1, 2, 4, 8, 12, 16, 20, 24, 27, 32, 40, 50, 80, 120, 160, 200];
        let (lengths, sizes, samples) = match self {
            Self::Quick => (&millis[..6], vec![256, 1024], 20),
            _ => (millis, vec![64, 256, 1024, 2048, 4096, 8192, 10_240], 200),
        };
        PolluterSweep {
            sets: sizes
                .into_iter()
                .map(|kib| WorkingSet::list(Bytes::from_kib(kib), 0.5))
                .collect(),
            lengths: lengths.iter().copied().map(Nanos::from_millis).collect(),
            loads: vec![Load::Idle],
            polluter: polluter(twice_the_llc(platform)),
            samples,
            cpus: CpuList::default(),
        }
    }
}

/// Returns the classes of migration to which some pair of usable CPUs belongs.
pub fn migrations(platform: &Platform) -> Vec<Event> {
    let usable = platform.usable();
    let pairs = usable.iter().flat_map(|from| usable.iter().map(move |to| (from, to)));
    let mut classes: Vec<Event> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| migration_of(platform.affinity(from, to)))
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Returns the sizes from `low` to `high` KiB, where each size is twice the previous size.
fn doubling(low: u64, high: u64) -> Vec<Bytes> {
    std::iter::successors(Some(low), |kib| Some(kib * 2))
        .take_while(|&kib| kib <= high)
        .map(Bytes::from_kib)
        .collect()
}

fn cache_sizes(platform: &Platform) -> impl Iterator<Item = (u32, Bytes)> + '_ {
    platform.cache_sizes().into_iter().filter(|&(_, size)| size <= LARGEST_CACHE)
}

/// Adds the sizes of the platform's caches beyond the first level, unless a cache is larger than a preset fills.
fn with_cache_sizes(platform: &Platform, mut sizes: Vec<Bytes>) -> Vec<Bytes> {
    let whole = |size: Bytes| Bytes::from_kib(size.get() >> 10);
    sizes
        .extend(cache_sizes(platform).filter(|&(level, _)| level > 1).map(|(_, size)| whole(size)));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn twice_the_llc(platform: &Platform) -> Bytes {
    let largest = cache_sizes(platform).map(|(_, size)| size).max().unwrap_or(Bytes::from_mib(16));
    Bytes::new((2 * largest.get()).min(LARGEST_CACHE.get()))
}

fn polluter(wss: Bytes) -> Polluter {
    Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.5 }
}

/// Returns a preemptor that walks a working set of twice the size of the largest private cache, and of at least 4 MiB.
fn preemptor(platform: &Platform) -> Polluter {
    // What is found of a cache later must not change the experiment that it is compared with.
    let private = platform.largest_stated_private_cache().unwrap_or(Bytes::from_mib(2));
    polluter(Bytes::new((2 * private.get()).clamp(4 << 20, LARGEST_CACHE.get())))
}

fn constructed(wss: Bytes) -> Load {
    Load::Constructed { polluter: polluter(wss), cpus: CpuList::default() }
}

/// Returns the groups of the preset's idle part, changed to run under `load`.
fn under(groups: Vec<SamplingGroup>, load: &Load) -> Vec<SamplingGroup> {
    let idle = groups.into_iter().filter(|group| group.load == Load::Idle);
    let absence =
        |group: &SamplingGroup| if *load == Load::Idle { group.absence } else { load.absence() };
    idle.map(|group| SamplingGroup { load: load.clone(), absence: absence(&group), ..group })
        .collect()
}

const CONTROLS: [Event; 2] = [Event::None, Event::IdleLeave];

fn lists(sizes: &[Bytes], page: Page) -> Vec<WorkingSet> {
    sizes.iter().map(|&wss| WorkingSet { page, ..WorkingSet::list(wss, 0.5) }).collect()
}

/// The number of samples of a cell from which a verdict on deadlines charges the 90 % quantile. A preset takes this
/// number of samples so that each of twenty replicates keeps ten valid samples even if a disturbance spoils up to two;
/// ten samples suffice for a quantile of the replicate.
const FOR_P90: u32 = 240;

fn quick(platform: &Platform, classes: &[Event], realistic: Option<&Load>) -> Vec<SamplingGroup> {
    let four = Length::Fixed(Nanos::from_millis(4));
    let every = [&CONTROLS[..], &[Event::Flush, Event::Preemption], classes].concat();
    let moves = [&[Event::None, Event::Preemption], classes].concat();
    let kib = |sizes: &[u64]| sizes.iter().copied().map(Bytes::from_kib).collect::<Vec<_>>();
    let group = |load, sets, events, length, absence, samples| SamplingGroup {
        load,
        sets,
        events,
        length,
        absence,
        samples,
    };
    let idle = |sets, events, length, samples| {
        group(Load::Idle, sets, events, length, Absence::Preemptor, samples)
    };
    let loaded =
        |load, sets, samples| group(load, sets, moves.clone(), four, Absence::Load, samples);
    let polluters = constructed(preemptor(platform).wss);
    let under_load = lists(&kib(&[64, 256, 1024]), Page::Base);
    let mut groups = vec![
        idle(lists(&kib(&[4, 16, 64, 256, 1024]), Page::Base), every.clone(), four, FOR_P90),
        idle(lists(&kib(&[4096]), Page::Base), every.clone(), four, 60),
        idle(lists(&kib(&[256, 1024]), Page::Transparent), every, four, 60),
        idle(
            lists(&kib(&[256]), Page::Base),
            vec![Event::Preemption],
            Length::Uniform(Nanos::new(0), Nanos::from_millis(20)),
            // A model cuts drawn lengths into four parts, each with a quantile of its own.
            4 * FOR_P90,
        ),
        // Leaving the CPU beside migrations with nothing else running, for Bastoni's third observation.
        idle(
            lists(&kib(&[16, 64, 256, 1024]), Page::Base),
            [&[Event::IdleLeave], classes].concat(),
            Length::Fixed(Nanos::from_millis(1)),
            200,
        ),
        loaded(polluters.clone(), under_load.clone(), FOR_P90),
        // As large as the second-level cache, for his first.
        loaded(polluters, lists(&[second_level(platform)], Page::Base), 60),
    ];
    groups.extend(realistic.map(|load| loaded(load.clone(), under_load, FOR_P90)));
    groups
}

/// Returns the size of the second-level cache, limited to what a quick run can fill. The function uses the stated size,
/// so that later runs compare the same experiment even after a measurement contradicts that size.
fn second_level(platform: &Platform) -> Bytes {
    let sizes = platform.caches.iter().filter(|cache| cache.level == 2 && cache.holds_data());
    let size = sizes.filter_map(|cache| cache.size.as_ref()).map(|size| size.value).min();
    let size = size.map_or(Bytes::from_mib(2), |size| Bytes::from_kib(size.get() >> 10));
    size.clamp(Bytes::from_kib(128), Bytes::from_mib(4))
}

fn bastoni(platform: &Platform, classes: &[Event], realistic: Option<&Load>) -> Vec<SamplingGroup> {
    let sizes = with_cache_sizes(platform, doubling(4, 8 * 1024));
    let ratios = [0.0, 1.0 / 128.0, 1.0 / 64.0, 1.0 / 16.0, 0.25, 0.5, 1.0];
    let scan = |(&wss, &write_ratio): (&Bytes, &f64)| WorkingSet {
        pattern: Pattern::Scan,
        ..WorkingSet { write_ratio, ..WorkingSet::list(wss, 0.0) }
    };
    let sets: Vec<WorkingSet> = sizes
        .iter()
        .flat_map(|wss| ratios.iter().map(move |ratio| (wss, ratio)))
        .map(scan)
        .collect();
    let group = |load: Load, absence| SamplingGroup {
        load,
        sets: sets.clone(),
        events: [&CONTROLS[..], &[Event::Preemption], classes].concat(),
        length: Length::Uniform(Nanos::new(0), Nanos::from_millis(50)),
        absence,
        samples: 5_000,
    };
    let polluters = constructed(twice_the_llc(platform));
    let loaded = [&polluters].into_iter().chain(realistic);
    let loaded = loaded.map(|load| group(load.clone(), Absence::Load));
    std::iter::once(group(Load::Idle, Absence::Nothing)).chain(loaded).collect()
}

fn waechtler(
    platform: &Platform,
    classes: &[Event],
    realistic: Option<&Load>,
) -> Vec<SamplingGroup> {
    // A smaller hierarchy is full before 16 MiB; beyond it nothing is left to lose.
    let large = platform.cache_sizes().last().is_none_or(|&(_, llc)| llc >= Bytes::from_mib(8));
    let mut sizes = doubling(4, if large { 32 * 1024 } else { 16 * 1024 });
    sizes.push(Bytes::from_mib(12));
    sizes.sort_unstable();
    let four = Length::Fixed(Nanos::from_millis(4));
    let groups = |load: &Load, absence| {
        [
            (CONTROLS.to_vec(), four, 128),
            (vec![Event::Preemption], four, 128),
            (vec![Event::Preemption], Length::Mean25, 1024),
            // Who migrates goes on at once (section 3.4.4): the tables have no length for it.
            (classes.to_vec(), Length::ZERO, 512),
        ]
        .map(|(events, length, samples)| SamplingGroup {
            load: load.clone(),
            sets: lists(&sizes, Page::Base),
            events,
            length,
            absence,
            samples,
        })
    };
    let polluters = constructed(Bytes::from_mib(4));
    let loaded = [&polluters].into_iter().chain(realistic);
    let loaded = loaded.flat_map(|load| groups(load, Absence::Load));
    groups(&Load::Idle, Absence::Nothing).into_iter().chain(loaded).collect()
}
