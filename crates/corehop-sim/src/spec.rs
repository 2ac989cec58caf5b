// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches of a machine in the form that the simulator needs: the facts of a platform file, with defaults for
//! the facts that may be missing.

use corehop_plan::platform::{
    Cache as PlatformCache, CacheKind, Distance, Inclusion, Index, Lookup, Platform, Protocol,
    Replacement, SnoopFilter, Writes,
};
use corehop_plan::units::Cpu;

use super::replacement::all;

/// The largest number of cache levels that the simulator supports.
pub const MAX_LEVELS: usize = 4;
/// The largest number of ways of a cache that the simulator supports.
pub const MAX_WAYS: u32 = 32;

/// The reason for which a platform cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The platform file lacks a fact that the simulation needs.
    #[error("a simulation needs `{fact}`: add it to the platform file")]
    Missing {
        /// The key of the missing fact, such as `cache[2].ways`.
        fact: String,
    },
    /// The platform file states a fact that the simulator does not support.
    #[error("`{fact}`: {problem}")]
    Unsupported {
        /// The key of the unsupported fact.
        fact: String,
        /// The reason for which the fact is not supported, and the supported values.
        problem: String,
    },
}

/// All cache instances of one level and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSpec {
    /// The cache level; level 1 is next to the core.
    pub level: u32,
    /// The contents of the cache: data, instructions or both.
    pub kind: CacheKind,
    /// The number of sets of each instance; need not be a power of two.
    pub sets: u32,
    /// Lines per set, up to [`MAX_WAYS`].
    pub ways: u32,
    /// The map of a line to its set.
    pub index: Index,
    /// The replacement policy, which chooses the line to evict.
    pub replacement: Replacement,
    /// The relation of this cache to the caches inside; has no meaning at the innermost level.
    pub inclusion: Inclusion,
    /// Whether the cache passes written data to the next level at once.
    pub write_through: bool,
    /// Whether a write that misses brings the line into this cache.
    pub write_allocate: bool,
    /// Sets, ways, index and replacement of each instance's snoop filter.
    pub snoop_filter: Option<Box<Self>>,
    /// The CPUs that each instance of the cache serves.
    pub instances: Vec<Vec<usize>>,
}

impl CacheSpec {
    /// A cache of `sets` sets and `ways` ways for each group of CPUs, which is LRU, inclusive and write-back, with
    /// a modulo index.
    pub fn new(level: u32, kind: CacheKind, sets: u32, ways: u32) -> Self {
        Self {
            level,
            kind,
            sets,
            ways,
            index: Index::Modulo,
            replacement: Replacement::Lru,
            inclusion: Inclusion::Inclusive,
            write_through: false,
            write_allocate: true,
            snoop_filter: None,
            instances: Vec::new(),
        }
    }

    /// A mask with one bit for each way of the cache.
    pub fn every_way(&self) -> u32 {
        all(self.ways)
    }
}

/// The caches of a machine and their coherence protocol. CPUs are numbered from 0 without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The caches, in any order.
    pub caches: Vec<CacheSpec>,
    /// The core of each CPU.
    pub cores: Vec<usize>,
    /// The package of each CPU.
    pub packages: Vec<usize>,
    /// The coherence protocol, which defines the states of a line.
    pub protocol: Protocol,
    /// The mechanism by which a cache finds other copies of a line, such as snooping.
    pub lookup: Lookup,
    /// The size of a line, in bytes.
    pub line: u64,
}

impl Spec {
    /// The number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cores.len()
    }

    /// The smallest distance of two CPUs that share these caches.
    pub(super) fn distance(&self, cpus: &[usize], level: u32) -> Distance {
        let one = |of: &[usize]| cpus.iter().all(|&cpu| of[cpu] == of[cpus[0]]);
        match level {
            _ if one(&self.cores) => Distance::Core,
            ..=2 => Distance::L2,
            _ if one(&self.packages) => Distance::L3,
            _ => Distance::Machine,
        }
    }

    /// The caches of `platform`. CPU n of the machine is the n-th of [`Platform::cpus`]. A cache without a stated
    /// policy, inclusion or index is LRU, non-inclusive and modulo; a missing protocol is MESI, a missing lookup is
    /// snooping.
    ///
    /// # Errors
    /// Returns [`SpecError`], which names the first fact that is missing or that cannot be simulated.
    pub fn from_platform(platform: &Platform) -> Result<Self, SpecError> {
        let numbered: Vec<Cpu> = platform.cpus.value.iter().collect();
        let place = |cpu: Cpu| numbered.iter().position(|&other| other == cpu).unwrap_or(0);
        let group = |groups: &corehop_plan::platform::CpuGroups, cpu: Cpu| {
            groups.iter().position(|group| group.contains(cpu)).unwrap_or(usize::MAX)
        };
        pages_are_simulated(platform)?;
        let line = platform.line_size();
        let mut caches = Vec::new();
        for (at, cache) in platform.caches.iter().enumerate() {
            let mut spec = geometry(cache, at, line.get())?;
            let members = |cpus: &corehop_plan::units::CpuList| cpus.iter().map(place).collect();
            spec.instances = cache.instances.value.iter().map(members).collect();
            caches.push(spec);
        }
        let of = |groups| numbered.iter().map(|&cpu| group(groups, cpu)).collect();
        let spec = Self {
            caches,
            cores: of(&platform.cores.value),
            packages: of(&platform.packages.value),
            protocol: platform.coherence.protocol.as_ref().map_or(Protocol::Mesi, |f| f.value),
            lookup: platform.coherence.lookup.as_ref().map_or(Lookup::Snooping, |f| f.value),
            line: line.get(),
        };
        spec.check()?;
        Ok(spec)
    }

    /// The machine with one in `every` of its cache sets. The remaining sets behave as in the full machine, for the
    /// lines that map to these sets; lines are renumbered. Returns None if the number of sets is not divisible, if
    /// a hash chooses the set, or if sets duel.
    #[must_use]
    pub fn sampled(&self, every: u32) -> Option<Self> {
        let mut caches = self.caches.clone();
        for cache in &mut caches {
            thin_out(cache, every)?;
            if let Some(filter) = &mut cache.snoop_filter {
                thin_out(filter, every)?;
            }
        }
        Some(Self { caches, ..self.clone() })
    }

    /// Checks that every CPU has an innermost cache for data and a cache for instructions, and that no level is
    /// missing.
    ///
    /// # Errors
    /// Returns [`SpecError`], which names what is missing.
    pub fn check(&self) -> Result<(), SpecError> {
        let missing = |fact: String| Err(SpecError::Missing { fact });
        for cpu in 0..self.cpus() {
            for instruction in [false, true] {
                let way = self.way(cpu, instruction);
                let first = way.first().map(|&(cache, _)| self.caches[cache].level);
                if first != Some(1) && !(instruction && way.len() == self.way(cpu, false).len()) {
                    return missing(format!("a level-1 cache of CPU {cpu}"));
                }
            }
        }
        self.check_filters()?;
        self.check_writes()
    }

    /// Checks that only caches that have caches inside and do not include those caches have a snoop filter.
    fn check_filters(&self) -> Result<(), SpecError> {
        let known = |cache: &CacheSpec| cache.level == 1 || cache.inclusion == Inclusion::Inclusive;
        let idle = |cache: &CacheSpec| cache.snoop_filter.is_some() && known(cache);
        self.caches.iter().position(idle).map_or(Ok(()), |at| {
            Err(SpecError::Unsupported {
                fact: format!("cache[{at}].mechanism.snoop_filter"),
                problem: "this cache knows the lines inside without one".to_owned(),
            })
        })
    }

    /// Checks write-through caches: only the innermost level can be write-through, and the next level must not be
    /// exclusive, because an exclusive cache holds none of the lines inside.
    fn check_writes(&self) -> Result<(), SpecError> {
        for (at, cache) in self.caches.iter().enumerate() {
            let plain = !cache.write_through && cache.write_allocate;
            let next = self.caches.iter().filter(|other| other.level == cache.level + 1);
            let taken = next.clone().any(|other| other.inclusion.takes_victims());
            if !plain && (cache.level > 1 || taken || next.count() == 0) {
                return Err(SpecError::Unsupported {
                    fact: format!("cache[{at}].mechanism.writes"),
                    problem: "only a level-1 cache inside one that is not exclusive can be \
                              write-through or not allocate on writes"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The caches between a CPU and memory as (place in [`Spec::caches`], instance), innermost
    /// first. A CPU without an instruction cache fetches through its data cache.
    pub(super) fn way(&self, cpu: usize, instruction: bool) -> Vec<(usize, usize)> {
        let (own, other) = if instruction {
            (CacheKind::Instruction, CacheKind::Data)
        } else {
            (CacheKind::Data, CacheKind::Instruction)
        };
        let has = |kind| {
            let serves = |spec: &CacheSpec| spec.instances.iter().any(|cpus| cpus.contains(&cpu));
            self.caches.iter().any(|spec| spec.kind == kind && serves(spec))
        };
        let skipped = if instruction && !has(own) { CacheKind::Instruction } else { other };
        let mut way = Vec::new();
        for (place, spec) in self.caches.iter().enumerate() {
            let instance = spec.instances.iter().position(|cpus| cpus.contains(&cpu));
            if let Some(instance) = instance.filter(|_| spec.kind != skipped) {
                way.push((place, instance));
            }
        }
        way.sort_by_key(|&(place, _)| self.caches[place].level);
        way
    }
}

/// Reduces a cache to one in `every` of its sets; None if the cache cannot be reduced by this factor.
fn thin_out(cache: &mut CacheSpec, every: u32) -> Option<()> {
    // A duel of fewer sets than the machine's has other outcomes.
    let whole = every == 1 || cache.replacement != Replacement::Drrip;
    let can = cache.sets.is_multiple_of(every) && cache.index == Index::Modulo && whole;
    cache.sets /= every;
    can.then_some(())
}

/// The snoop filter of a cache of this level.
fn snoop_filter(filter: &SnoopFilter, level: u32) -> CacheSpec {
    let ways = filter.ways.value;
    let sets = filter.entries.value / ways.max(1);
    let mut spec = CacheSpec::new(level, CacheKind::Unified, sets, ways);
    spec.index = filter.index.as_ref().map_or(Index::Modulo, |fact| fact.value.clone());
    spec.replacement = filter.replacement.as_ref().map_or(Replacement::Lru, |fact| fact.value);
    spec
}

/// The bytes of a line that a visit of a working set reads.
const LINE: u64 = 64;

/// The page sizes in bytes: those of working sets, and 1 GiB, a size that no working set uses.
const PAGES: [u64; 3] = [4 << 10, 2 << 20, 1 << 30];

/// Rejects a TLB for other page sizes, because the simulator would never look into that TLB, as if the machine had
/// none.
fn pages_are_simulated(platform: &Platform) -> Result<(), SpecError> {
    for (at, tlb) in platform.tlbs.iter().enumerate() {
        if let Some(page) = tlb.pages.value.iter().find(|page| !PAGES.contains(&page.get())) {
            let problem =
                format!("corehop simulates pages of 4 KiB, 2 MiB and 1 GiB, not of {page}");
            return Err(SpecError::Unsupported { fact: format!("tlb[{at}].pages"), problem });
        }
    }
    Ok(())
}

/// Returns the size, the ways and the mechanisms of one cache of a platform.
fn geometry(cache: &PlatformCache, at: usize, line: u64) -> Result<CacheSpec, SpecError> {
    let fact = |name: &str| format!("cache[{at}].{name}");
    let missing = |name: &str| SpecError::Missing { fact: fact(name) };
    let beyond = |name: &str, problem: String| SpecError::Unsupported { fact: fact(name), problem };
    let ways = cache.ways.as_ref().ok_or_else(|| missing("ways"))?.value;
    let own = cache.line.as_ref().map_or(line, |line| line.value.get());
    if own != line {
        let problem = format!(
            "the machine has lines of {own} and of {line} bytes; corehop simulates only one line size"
        );
        return Err(beyond("line", problem));
    }
    if own != LINE {
        let problem = format!(
            "lines of {own} B; corehop simulates only lines of {LINE} B, which working sets visit"
        );
        return Err(beyond("line", problem));
    }
    let contradicted =
        cache.effective.as_ref().zip(cache.size.as_ref().filter(|s| s.is_contradicted()));
    let sets = match contradicted {
        Some((effective, _)) => Some(effective.value.get() / (u64::from(ways).max(1) * line)),
        None => cache.set_count(),
    };
    let sets = sets.ok_or_else(|| missing("size"))?;
    if ways == 0 || ways > MAX_WAYS {
        let problem = format!("{ways} ways; corehop simulates 1 to {MAX_WAYS} ways");
        return Err(beyond("ways", problem));
    }
    if cache.level as usize > MAX_LEVELS {
        let problem =
            format!("level {}; corehop simulates at most {MAX_LEVELS} levels", cache.level);
        return Err(beyond("level", problem));
    }
    let sets = u32::try_from(sets).ok().filter(|&sets| sets > 0 && sets < 1 << 28);
    let sets = sets.ok_or_else(|| beyond("size", "corehop simulates 1 to 2²⁸ sets".to_owned()))?;
    let mechanism = &cache.mechanism;
    let index = mechanism.index.as_ref().map_or(Index::Modulo, |fact| fact.value.clone());
    if !index.fits(u64::from(sets)) {
        return Err(beyond("mechanism.index", format!("`{index}` cannot find {sets} sets")));
    }
    let filter = mechanism.snoop_filter.as_ref().map(|filter| snoop_filter(filter, cache.level));
    if let Some(wide) = filter.as_ref().map(|filter| filter.ways).filter(|&ways| ways > MAX_WAYS) {
        let problem = format!("{wide} ways; corehop simulates 1 to {MAX_WAYS} ways");
        return Err(beyond("mechanism.snoop_filter.ways", problem));
    }
    let through = mechanism.writes.as_ref().is_some_and(|fact| fact.value == Writes::Through);
    Ok(CacheSpec {
        level: cache.level,
        kind: cache.kind,
        sets,
        ways,
        index,
        replacement: mechanism.replacement.as_ref().map_or(Replacement::Lru, |fact| fact.value),
        inclusion: mechanism.inclusion.as_ref().map_or(Inclusion::NonInclusive, |fact| fact.value),
        write_through: through,
        write_allocate: mechanism.write_allocate.as_ref().is_none_or(|fact| fact.value),
        snoop_filter: filter.map(Box::new),
        instances: Vec::new(),
    })
}
