// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of an access as a function of its outcome, on an otherwise idle machine. Each kind of core may have its
//! own caches and its own clock.

use corehop_plan::platform::{
    Affinity, Core, CoreKind, Distance, Fact, Found, Home, Latency, LatencyRow, LineRequest,
    Platform, Supplier,
};
use corehop_plan::units::Cpu;

use super::outcome::AccessOutcome;
use super::spec::{MAX_LEVELS, SpecError};

/// A simulated time or duration in picoseconds.
pub type Picos = u64;

const LEVELS: usize = MAX_LEVELS + 1;
/// The table size: room for every combination of the fields of an [`AccessPath`], each in its own bits.
const PLACES: usize = 1 << 11;
const DISTANCES: [Distance; 5] =
    [Distance::Core, Distance::L2, Distance::L3, Distance::Package, Distance::Machine];

/// The time of every kind of outcome on every CPU of a machine.
#[derive(Debug, Clone)]
pub struct OutcomeTimes {
    kinds: Vec<CoreTimes>,
    /// The times on a core whose package has just been idle, by kind of core.
    waking: Vec<CoreTimes>,
    /// The kind of core of each CPU.
    kind_of: Vec<usize>,
}

/// The largest number of levels that an access can miss, plus one, rounded up to a power of two.
pub(super) const MOST_MISSED: usize = 8;

/// The number of misses in flight at once, in thousandths, by the number of levels that the access misses.
pub type MissParallelism = [u64; MOST_MISSED];

/// The time of every kind of outcome on one kind of core, with the core's own limits.
#[derive(Debug, Clone)]
pub struct CoreTimes {
    /// Times by request, supplier, level, state, distance and home; see [`AccessPath::place`].
    table: Box<[Picos; PLACES]>,
    /// The core's own work for each access to a word, without cache latency.
    pub work: Picos,
    /// The number of misses that independent accesses keep in flight, in thousandths, by the number of levels
    /// missed; limited by `outstanding`.
    pub parallelism: MissParallelism,
    /// The largest number of misses that a core can have in flight.
    pub outstanding: u64,
}

impl OutcomeTimes {
    /// Computes the times from the latencies that `platform` states.
    ///
    /// # Errors
    /// Returns [`SpecError`], which names the cache or memory without a latency, or the missing clock that converts
    /// its cycles into time.
    pub fn from_platform(platform: &Platform) -> Result<Self, SpecError> {
        let cpus: Vec<Cpu> = platform.cpus.value.iter().collect();
        let kind = |cpu| platform.core_kinds.iter().position(|kind| kind.cpus.value.contains(cpu));
        let mut known: Vec<Option<usize>> = Vec::new();
        let (mut kinds, mut waking, mut kind_of) = (Vec::new(), Vec::new(), Vec::new());
        for cpu in cpus {
            let kind = kind(cpu);
            let place = known.iter().position(|&other| other == kind);
            if place.is_none() {
                known.push(kind);
                kinds.push(CoreTimes::new(&Compiler { platform, cpu, waking: false })?);
                waking.push(CoreTimes::new(&Compiler { platform, cpu, waking: true })?);
            }
            kind_of.push(place.unwrap_or(known.len() - 1));
        }
        Ok(Self { kinds, waking, kind_of })
    }

    /// The times on the CPU at this index.
    #[inline(always)]
    pub fn on(&self, cpu: usize) -> &CoreTimes {
        &self.kinds[self.kind_of[cpu]]
    }

    /// The times on the CPU at this index while the CPU's clock is not yet up to speed.
    #[inline(always)]
    pub fn waking_on(&self, cpu: usize) -> &CoreTimes {
        &self.waking[self.kind_of[cpu]]
    }
}

/// Converts a latency on a CPU of `platform` to picoseconds, by the CPU's clock.
///
/// # Errors
/// Returns [`SpecError`] if the latency is in cycles and the clock is not stated.
pub(super) fn picos(platform: &Platform, cpu: Cpu, latency: Latency) -> Result<Picos, SpecError> {
    Compiler { platform, cpu, waking: false }.picos(latency)
}

impl CoreTimes {
    fn new(compiler: &Compiler<'_>) -> Result<Self, SpecError> {
        let mut table = Box::new([0; PLACES]);
        for way in AccessPath::all() {
            table[way.place()] = compiler.time(&way)?;
        }
        let work = compiler.core(|core| core.work.as_ref());
        let number = |fact: Option<&Fact<u32>>, otherwise| {
            fact.map_or(otherwise, |fact| u64::from(fact.value))
        };
        // A core that can have no miss under way could not miss.
        let outstanding = number(compiler.core(|core| core.outstanding.as_ref()), 10).max(1);
        let of_core = number(compiler.core(|core| core.parallelism.as_ref()), 1_000);
        let mut of_levels = [of_core; MOST_MISSED];
        for cache in compiler.platform.data_caches(compiler.cpu) {
            if let Some(of_level) = of_levels.get_mut(cache.level as usize) {
                *of_level = number(cache.mechanism.parallelism.as_ref(), of_core);
            }
        }
        Ok(Self {
            table,
            work: work.map(|fact| compiler.core_picos(fact.value)).transpose()?.unwrap_or(0),
            parallelism: of_levels.map(|most| most.clamp(1, outstanding * 1_000)),
            outstanding,
        })
    }

    /// The load-to-use time of an access with this outcome to memory of this home.
    #[inline(always)]
    pub fn of(&self, outcome: &AccessOutcome, home: Home) -> Picos {
        self.table[AccessPath::of(*outcome, home).place()]
    }
}

/// One kind of access, as the latency tables distinguish them.
struct AccessPath {
    request: LineRequest,
    supplier: Supplier,
    level: u32,
    state: Found,
    distance: Distance,
    home: Home,
}

impl AccessPath {
    /// Classifies an access by its outcome. An access that invalidated copies requested ownership of the line.
    #[inline(always)]
    fn of(outcome: AccessOutcome, home: Home) -> Self {
        let request =
            if outcome.invalidated > 0 { LineRequest::Ownership } else { LineRequest::Copy };
        let AccessOutcome { supplier, level, state, distance, .. } = outcome;
        Self { request, supplier, level: u32::from(level), state, distance, home }
    }

    /// Every possible kind of access.
    fn all() -> impl Iterator<Item = Self> {
        let suppliers = [Supplier::Own, Supplier::Peer, Supplier::Memory];
        let requests = || [LineRequest::Copy, LineRequest::Ownership].into_iter();
        let states = || [Found::Clean, Found::Dirty].into_iter();
        let homes = || [Home::Local, Home::Remote].into_iter();
        let levels =
            suppliers.into_iter().flat_map(|it| (0..LEVELS as u32).map(move |at| (it, at)));
        let farther = levels.flat_map(|it| DISTANCES.map(|distance| (it, distance)));
        let asked = farther.flat_map(move |it| requests().map(move |request| (it, request)));
        let found = asked.flat_map(move |it| states().map(move |state| (it, state)));
        found.flat_map(move |((((supplier, level), distance), request), state)| {
            homes().map(move |home| Self { request, supplier, level, state, distance, home })
        })
    }

    #[inline(always)]
    fn place(&self) -> usize {
        const { assert!(LEVELS <= 8) };
        let (request, supplier) = ((self.request as usize) << 10, (self.supplier as usize) << 8);
        let (level, distance) = ((self.level as usize & 7) << 5, (self.distance as usize) << 2);
        let (state, home) = ((self.state as usize) << 1, self.home as usize);
        (request | supplier | level | distance | state | home) & (PLACES - 1)
    }

    /// The number of stated properties of a latency row that match this access; None if a property differs.
    fn fit(&self, row: &LatencyRow) -> Option<u32> {
        fn one<T: PartialEq>(stated: Option<&T>, is: &T) -> Option<u32> {
            match stated {
                None => Some(0),
                Some(stated) => (stated == is).then_some(1),
            }
        }
        if row.supplier != self.supplier {
            return None;
        }
        Some(
            one(row.level.as_ref(), &self.level)?
                + one(row.state.as_ref(), &self.state)?
                + one(row.distance.as_ref(), &self.distance)?
                + one(row.home.as_ref(), &self.home)?
                + one(row.request.as_ref(), &self.request)?,
        )
    }
}

/// Compiles the stated latencies of a platform into times on one of its CPUs.
struct Compiler<'a> {
    platform: &'a Platform,
    cpu: Cpu,
    /// Whether the package has just been idle, so that its clock is slow.
    waking: bool,
}

impl<'a> Compiler<'a> {
    fn kind(&self) -> Option<&'a CoreKind> {
        self.platform.core_kinds.iter().find(|kind| kind.cpus.value.contains(self.cpu))
    }

    /// A fact stated for the CPU's kind of core, or else for all cores.
    fn core<T>(&self, fact: impl Fn(&'a Core) -> Option<&'a Fact<T>>) -> Option<&'a Fact<T>> {
        self.kind().and_then(|kind| fact(&kind.core)).or(fact(&self.platform.core))
    }

    fn picos(&self, latency: Latency) -> Result<Picos, SpecError> {
        let own = self.kind().and_then(|kind| kind.frequency.as_ref());
        match (latency, own.or(self.platform.clock.core.as_ref())) {
            (Latency::Picos(picos), _) => Ok(picos),
            (cycles, Some(core)) => Ok(cycles.picos(core.value)),
            (_, None) => Err(SpecError::Missing { fact: "clock.core".to_owned() }),
        }
    }

    /// Converts a latency that follows the core's clock: the core's own work, and caches on the core's way to
    /// memory.
    fn core_picos(&self, latency: Latency) -> Result<Picos, SpecError> {
        let slow = self.platform.clock.after_idle.as_ref().filter(|_| self.waking);
        match (latency, slow) {
            (Latency::MilliCycles(_), Some(slow)) => Ok(latency.picos(slow.value)),
            _ => self.picos(latency),
        }
    }

    /// The time of one kind of access: the time in the matching latency row with the most stated properties, or
    /// else the time of the cache, of a measured exchange of lines between CPUs at this distance, or of memory.
    fn time(&self, way: &AccessPath) -> Result<Picos, SpecError> {
        let rows = self.platform.latencies.iter();
        let fitting = rows.filter_map(|row| Some((way.fit(row)?, row)));
        // Of rows that state as much, the first one: `max_by_key` would take the last.
        let best = fitting.fold(None, |best: Option<(u32, &LatencyRow)>, one| match best {
            Some(best) if best.0 >= one.0 => Some(best),
            _ => Some(one),
        });
        match best {
            Some((_, row)) => self.picos(row.time.value),
            None if way.supplier == Supplier::Own => self.cache(way.level),
            None => match self.exchange(way).filter(|_| way.supplier == Supplier::Peer) {
                Some(time) => self.picos(time),
                None => self.memory(way.home),
            },
        }
    }

    /// The measured undisturbed time of a line transfer between CPUs at this distance.
    fn exchange(&self, way: &AccessPath) -> Option<Latency> {
        let affinity = match way.distance {
            Distance::Core => Affinity::Smt,
            Distance::L2 => Affinity::L2,
            Distance::L3 => Affinity::L3,
            Distance::Package | Distance::Machine => Affinity::Memory,
        };
        let classes = self.platform.exchange_classes();
        classes.into_iter().find(|class| class.affinity == affinity).map(|class| class.least)
    }

    fn cache(&self, level: u32) -> Result<Picos, SpecError> {
        let mut caches = self.platform.data_caches(self.cpu);
        let Some(cache) = caches.find(|cache| cache.level == level) else { return Ok(0) };
        let missing = || SpecError::Missing { fact: format!("the latency of {}", cache.label()) };
        self.core_picos(cache.latency.as_ref().ok_or_else(missing)?.value)
    }

    fn memory(&self, home: Home) -> Result<Picos, SpecError> {
        let memory = &self.platform.memory;
        let missing = || SpecError::Missing { fact: "memory.local".to_owned() };
        let local = memory.local.as_ref().ok_or_else(missing)?;
        let fact = match home {
            Home::Local => local,
            Home::Remote => memory.remote.as_ref().unwrap_or(local),
        };
        self.picos(fact.value)
    }
}

/// The index of the node of each CPU of a platform, in the platform's order.
pub(super) fn nodes_of_cpus(platform: &Platform) -> Vec<usize> {
    let place = |cpu: Cpu| {
        platform.nodes.iter().position(|node| node.cpus.value.contains(cpu)).unwrap_or(0)
    };
    platform.cpus.value.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(supplier: Supplier, cycles: u64) -> LatencyRow {
        let time = Fact::assumed(Latency::cycles(cycles), "");
        LatencyRow::of(supplier, time)
    }

    fn x5650() -> Platform {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.latencies.clear();
        platform
    }

    fn cycles(platform: &Platform, outcome: AccessOutcome, home: Home) -> u64 {
        let picos = OutcomeTimes::from_platform(platform).unwrap().on(0).of(&outcome, home);
        (picos * 2_660 + 500_000) / 1_000_000
    }

    const REMOTE_DIRTY: AccessOutcome = AccessOutcome {
        supplier: Supplier::Peer,
        level: 2,
        state: Found::Dirty,
        distance: Distance::Machine,
        ..AccessOutcome::HIT
    };

    #[test]
    fn without_rows_the_caches_and_the_memory_say_how_long() {
        let platform = x5650();
        let own = |level| AccessOutcome { level, ..AccessOutcome::HIT };
        assert_eq!([1, 2, 3].map(|level| cycles(&platform, own(level), Home::Local)), [4, 10, 42]);
        let memory = AccessOutcome { supplier: Supplier::Memory, level: 0, ..AccessOutcome::HIT };
        assert_eq!(cycles(&platform, memory, Home::Local), 183);
        assert_eq!(cycles(&platform, memory, Home::Remote), 312);
        assert_eq!(cycles(&platform, REMOTE_DIRTY, Home::Local), 183);
    }

    #[test]
    fn the_row_that_states_most_applies() {
        let mut platform = x5650();
        platform.latencies = vec![
            row(Supplier::Peer, 100),
            LatencyRow { distance: Some(Distance::Machine), ..row(Supplier::Peer, 200) },
            LatencyRow {
                distance: Some(Distance::Machine),
                level: Some(2),
                ..row(Supplier::Peer, 300)
            },
        ];
        assert_eq!(cycles(&platform, REMOTE_DIRTY, Home::Local), 300);
        let l3 = AccessOutcome { level: 3, ..REMOTE_DIRTY };
        assert_eq!(cycles(&platform, l3, Home::Local), 200);
        let near = AccessOutcome { distance: Distance::L3, ..REMOTE_DIRTY };
        assert_eq!(cycles(&platform, near, Home::Local), 100);
    }

    #[test]
    fn a_copy_of_a_line_and_the_line_itself_have_times_of_their_own() {
        let mut platform = x5650();
        let owned =
            LatencyRow { request: Some(LineRequest::Ownership), ..row(Supplier::Peer, 178) };
        platform.latencies = vec![row(Supplier::Peer, 273), owned];
        let taken = AccessOutcome { invalidated: 1, ..REMOTE_DIRTY };
        let times = [REMOTE_DIRTY, taken].map(|it| cycles(&platform, it, Home::Local));
        assert_eq!(times, [273, 178]);
    }

    #[test]
    fn a_slow_core_needs_longer_for_its_cycles_and_as_long_for_what_is_shared() {
        let chip = Platform::named("m5_cs_slow").unwrap().unwrap();
        let times = OutcomeTimes::from_platform(&chip).unwrap();
        let level = |cpu: usize, level| {
            times.on(cpu).of(&AccessOutcome { level, ..AccessOutcome::HIT }, Home::Local)
        };
        // Two cycles of 3 GHz, one of 750 MHz; 4 ns for both.
        assert_eq!([level(0, 1), level(1, 1)], [666, 1_333]);
        assert_eq!([level(0, 2), level(1, 2)], [4_000, 4_000]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut platform = x5650();
        platform.memory.local = None;
        let text = OutcomeTimes::from_platform(&platform).unwrap_err().to_string();
        assert!(text.contains("memory.local"), "{text}");
        let mut platform = x5650();
        platform.clock.core = None;
        assert!(
            OutcomeTimes::from_platform(&platform).unwrap_err().to_string().contains("clock.core")
        );
    }
}
