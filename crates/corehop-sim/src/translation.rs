// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of address translation: the TLBs of all CPUs, by page size and use.
//!
//! Each TLB level that misses a page costs that level's penalty. If all levels miss, the access costs the sum of
//! the penalties, of which the last is the walk of the page tables. A platform without TLBs has no such costs. The
//! simulation keeps page tables in no cache, and simulates a TLB that data and instructions share as two TLBs.

use corehop_plan::platform::{CacheKind, Platform};

use super::spec::SpecError;
use super::times::{Picos, picos};
use super::tlb::TlbHierarchy;

/// The sizes of base and huge pages in bytes.
const PAGES: [u64; 2] = [4 << 10, 2 << 20];

/// The TLBs of a CPU for one size of page and one use.
#[derive(Debug, Clone)]
struct TlbPath {
    tlb: TlbHierarchy,
    /// The translation time, indexed by the number of missed levels.
    cost: Vec<Picos>,
}

/// The TLBs of a machine.
#[derive(Debug, Clone, Default)]
pub struct MachineTlbs {
    /// TLBs by CPU, then by use (data, instructions), then by page size (base, huge); empty if the platform has no
    /// TLBs.
    ways: Vec<[[TlbPath; 2]; 2]>,
    walks: u64,
}

impl MachineTlbs {
    /// Creates the TLBs that `platform` states.
    ///
    /// # Errors
    /// Returns [`SpecError`] if a penalty is in cycles and the platform states no clock.
    pub fn from_platform(platform: &Platform) -> Result<Self, SpecError> {
        let mut ways = Vec::new();
        for cpu in platform.cpus.value.iter().filter(|_| !platform.tlbs.is_empty()) {
            let way = |instruction: bool, page: u64| -> Result<TlbPath, SpecError> {
                let tlb = TlbHierarchy::from_platform(platform, page, instruction);
                let other = if instruction { CacheKind::Data } else { CacheKind::Instruction };
                let mut serving: Vec<_> = platform
                    .tlbs
                    .iter()
                    .filter(|tlb| tlb.kind != other)
                    .filter(|tlb| tlb.pages.value.iter().any(|size| size.get() == page))
                    .collect();
                serving.sort_by_key(|tlb| tlb.level);
                let mut cost = vec![0];
                for (missed, tlb) in serving.into_iter().enumerate() {
                    cost.push(cost[missed] + picos(platform, cpu, tlb.penalty.value)?);
                }
                Ok(TlbPath { tlb, cost })
            };
            let sizes = |instruction| -> Result<[TlbPath; 2], SpecError> {
                Ok([way(instruction, PAGES[0])?, way(instruction, PAGES[1])?])
            };
            ways.push([sizes(false)?, sizes(true)?]);
        }
        Ok(Self { ways, walks: 0 })
    }

    /// The time that `cpu` needs to translate an address in page `page`. `huge` selects huge pages, and `fetch`
    /// selects an instruction fetch.
    pub fn of(&mut self, cpu: usize, page: u32, huge: bool, fetch: bool) -> Picos {
        self.on(cpu, huge, fetch).of(page)
    }

    /// The TLBs of `cpu` for this page size and use, for repeated look-ups.
    #[inline(always)]
    pub(super) fn on(&mut self, cpu: usize, huge: bool, fetch: bool) -> Lookup<'_> {
        let ways = self.ways.get_mut(cpu);
        let way = ways.map(|ways| &mut ways[usize::from(fetch)][usize::from(huge)]);
        Lookup { way, walks: &mut self.walks }
    }

    /// The TLB of `cpu` for this page size and use; None if the platform has no TLBs.
    pub(super) fn tlb(&self, cpu: usize, huge: bool, fetch: bool) -> Option<&TlbHierarchy> {
        let way = &self.ways.get(cpu)?[usize::from(fetch)][usize::from(huge)];
        Some(&way.tlb)
    }

    /// Adds the page-table walks, and the misses of the TLB, between two readings once more.
    pub(super) fn count_again(
        &mut self,
        (cpu, huge, fetch): (usize, bool, bool),
        walks: u64,
        misses: [&[u64]; 2],
    ) {
        self.walks += walks;
        if let Some(ways) = self.ways.get_mut(cpu) {
            ways[usize::from(fetch)][usize::from(huge)].tlb.count_again(misses);
        }
    }

    /// Empties all TLBs of `cpu`.
    pub(super) fn flush(&mut self, cpu: usize) {
        if let Some(ways) = self.ways.get_mut(cpu) {
            ways.iter_mut().flatten().for_each(|way| way.tlb.flush());
        }
    }

    /// The number of page-table walks of all CPUs so far.
    pub fn walks(&self) -> u64 {
        self.walks
    }
}

/// The TLBs that a CPU looks into, for one size of page and one use.
pub(super) struct Lookup<'a> {
    way: Option<&'a mut TlbPath>,
    walks: &'a mut u64,
}

impl Lookup<'_> {
    /// The time to translate an address in page `page`.
    #[inline(always)]
    pub(super) fn of(&mut self, page: u32) -> Picos {
        let Some(way) = &mut self.way else { return 0 };
        let missed = way.tlb.access(u64::from(page));
        if missed == 0 {
            return 0;
        }
        *self.walks += u64::from(missed + 1 == way.cost.len());
        way.cost[missed]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::{Fact, Latency, Tlb as Described};
    use corehop_plan::units::Bytes;

    fn tlb(level: u32, entries: u32, page: u64, cycles: u64) -> Described {
        Described {
            level,
            kind: CacheKind::Data,
            entries: Fact::assumed(entries, ""),
            ways: None,
            pages: Fact::assumed(vec![Bytes::new(page)], ""),
            penalty: Fact::assumed(Latency::cycles(cycles), ""),
        }
    }

    fn machine() -> MachineTlbs {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.clock.core.as_mut().unwrap().value = "1 GHz".parse().unwrap();
        platform.tlbs = vec![tlb(1, 2, 4 << 10, 7), tlb(2, 4, 4 << 10, 30), tlb(1, 2, 2 << 20, 50)];
        MachineTlbs::from_platform(&platform).unwrap()
    }

    #[test]
    fn a_page_costs_what_every_level_that_misses_it_adds() {
        let mut machine = machine();
        let mut of = |page| machine.of(0, page, false, false);
        // All levels miss; the same again; a third page sends the first one to the second level.
        assert_eq!([of(1), of(1), of(2), of(3), of(1)], [37_000, 0, 37_000, 37_000, 7_000]);
        assert_eq!(machine.walks(), 3);
    }

    #[test]
    fn huge_pages_and_other_cpus_have_their_own_and_code_has_none_here() {
        let mut machine = machine();
        assert_eq!(machine.of(0, 1, true, false), 50_000);
        assert_eq!(machine.of(1, 1, true, false), 50_000);
        assert_eq!(machine.of(0, 1, true, false), 0);
        assert_eq!(machine.of(0, 1, false, true), 0);
    }
}
