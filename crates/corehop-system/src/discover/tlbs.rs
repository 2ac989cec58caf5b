// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data translation lookaside buffers of the current CPU, as the processor states them: AMD's CPUID leaves
//! 0x80000005 and 0x80000006, Intel's leaf 0x18. No Linux file states TLBs, and a hypervisor may state arbitrary
//! values.

use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

use corehop_plan::platform::{CacheKind, Fact, Latency, Tlb};
use corehop_plan::units::Bytes;

const BASE: Bytes = Bytes::from_kib(4);
const HUGE: Bytes = Bytes::from_mib(2);
/// The time of a hit in the second level, from vendors' guides for most cores.
const SECOND_LEVEL: Latency = Latency::cycles(7);

/// Returns the data TLBs of this processor, the first level first; empty if the processor does not state them. The
/// time of a page-table walk is unknown until it is measured.
pub fn tlbs() -> Vec<Tlb> {
    let amd = |leaf: u32| (__cpuid(0x8000_0000).eax >= leaf).then(|| __cpuid(leaf));
    let found = match (amd(0x8000_0005), amd(0x8000_0006)) {
        (Some(first), Some(second)) if first.ebx & 0x00ff_0000 != 0 => of_amd(first, second),
        _ => of_intel(),
    };
    with_penalties(found)
}

/// A number of entries that no TLB exceeds, because a hypervisor may state arbitrary values.
const MOST_ENTRIES: u32 = 1 << 20;

/// A TLB as stated by the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TlbStatement {
    level: u32,
    pages: Bytes,
    entries: u32,
    /// The number of entries per set; `None` if any entry can contain any page.
    ways: Option<u32>,
}

/// Decodes the data fields of both AMD leaves: entries in the low bits, the ways above them.
fn of_amd(first: CpuidResult, second: CpuidResult) -> Vec<TlbStatement> {
    let level_1 = |pages, word: u32| {
        let (entries, ways) = (word >> 16 & 0xff, word >> 24);
        TlbStatement { level: 1, pages, entries, ways: (ways != 0xff).then_some(ways) }
    };
    let level_2 = |pages, word: u32| {
        let (entries, code) = (word >> 16 & 0xfff, (word >> 28) as usize);
        let ways = [0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128, 0][code];
        TlbStatement { level: 2, pages, entries, ways: (ways > 0).then_some(ways) }
    };
    let all = [
        level_1(BASE, first.ebx),
        level_1(HUGE, first.eax),
        level_2(BASE, second.ebx),
        level_2(HUGE, second.eax),
    ];
    all.into_iter().filter(|it| it.entries > 0).collect()
}

/// Decodes Intel's leaf 0x18, subleaf by subleaf.
fn of_intel() -> Vec<TlbStatement> {
    if __cpuid(0).eax < 0x18 {
        return Vec::new();
    }
    let last = __cpuid_count(0x18, 0).eax.min(32);
    (0..=last).flat_map(|at| of_subleaf(__cpuid_count(0x18, at))).collect()
}

/// The data TLBs in a subleaf, one for each page size.
fn of_subleaf(leaf: CpuidResult) -> Vec<TlbStatement> {
    let (kind, level) = (leaf.edx & 0x1f, leaf.edx >> 5 & 7);
    let (ways, sets) = (leaf.ebx >> 16, leaf.ecx);
    let full = leaf.edx >> 8 & 1 == 1;
    // 1 is data, 3 unified, 4 loads alone; 5 is stores alone, of which the walks here have few.
    let entries = ways.checked_mul(sets).filter(|entries| (1..=MOST_ENTRIES).contains(entries));
    let (Some(entries), 1..=3, 1 | 3 | 4) = (entries, level, kind) else { return Vec::new() };
    let of = |(bit, pages): (u32, Bytes)| {
        (leaf.ebx >> bit & 1 == 1).then_some(TlbStatement {
            level,
            pages,
            entries,
            ways: (!full).then_some(ways),
        })
    };
    [(0, BASE), (1, HUGE)].into_iter().filter_map(of).collect()
}

/// Converts the statements to the form of a platform. TLBs that are stated twice (for loads, and for loads and
/// stores) count once; TLBs whose sets do not divide evenly are left out.
fn with_penalties(mut found: Vec<TlbStatement>) -> Vec<Tlb> {
    found.sort_by_key(|it| (it.level, it.pages, std::cmp::Reverse(it.entries)));
    found.dedup_by_key(|it| (it.level, it.pages));
    let last = |it: &TlbStatement| {
        !found.iter().any(|other| other.pages == it.pages && other.level > it.level)
    };
    let tlb = |it: &TlbStatement| Tlb {
        level: it.level,
        kind: CacheKind::Data,
        entries: Fact::cited(it.entries, "CPUID"),
        ways: it
            .ways
            .filter(|ways| *ways > 0 && it.entries.is_multiple_of(*ways))
            .map(|ways| Fact::cited(ways, "CPUID")),
        pages: Fact::cited(vec![it.pages], "CPUID"),
        penalty: if last(it) {
            Fact::assumed(Latency::Picos(0), "the walk of the page tables is not measured")
        } else {
            Fact::assumed(SECOND_LEVEL, "a hit in the second level, usual")
        },
    };
    found.iter().map(tlb).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidResult {
        CpuidResult { eax, ebx, ecx, edx }
    }

    #[test]
    fn the_leaves_of_a_zen_3_are_read() {
        // 64 entries of any page; 2,048 in sets of eight.
        let first = leaf(0xff40_ff40, 0xff40_ff40, 0, 0);
        let second = leaf(0x6800_4200, 0x6800_4200, 0, 0);
        let found = of_amd(first, second);
        let base: Vec<_> = found.iter().filter(|it| it.pages == BASE).collect();
        assert_eq!((base[0].level, base[0].entries, base[0].ways), (1, 64, None));
        assert_eq!((base[1].level, base[1].entries, base[1].ways), (2, 2_048, Some(8)));
        let tlbs = with_penalties(found);
        assert_eq!(tlbs.len(), 4);
        assert!(tlbs.iter().all(|it| (it.level == 1) == (it.penalty.value == SECOND_LEVEL)));
    }

    #[test]
    fn a_subleaf_of_leaf_0x18_is_one_tlb_for_each_size_of_page() {
        // Unified, level 2, 1,536 entries in sets of twelve, pages of 4 KiB and 2 MiB.
        let shared = of_subleaf(leaf(0, 12 << 16 | 0b11, 128, 2 << 5 | 3));
        assert_eq!(shared.len(), 2);
        assert!(
            shared.iter().all(|it| it.entries == 1_536 && it.ways == Some(12) && it.level == 2)
        );
        // Instructions, and nothing at all.
        assert_eq!(of_subleaf(leaf(0, 8 << 16 | 1, 8, 1 << 5 | 2)), []);
        assert_eq!(of_subleaf(leaf(0, 0, 0, 0)), []);
    }

    #[test]
    fn what_this_processor_states_is_a_description_that_can_be_read_again() {
        let all = tlbs();
        let mut platform = crate::discover::discover(&crate::discover::SysRoot::live()).unwrap();
        platform.tlbs = all;
        platform.validate().unwrap();
    }
}
