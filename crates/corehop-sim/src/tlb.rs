// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation: the number of TLB levels that a page misses. Simulating a core without TLBs costs nothing.
//!
//! Each TLB level is a set-associative list of pages in order of use; lists are fast enough because a TLB has only
//! some hundred entries. A miss of a level brings the page into that level and all levels before.

use corehop_plan::platform::{CacheKind, Platform};

/// The page number that marks an empty entry.
const NO_PAGE: u64 = u64::MAX;

/// One level of a TLB.
#[derive(Debug, Clone)]
struct TlbLevel {
    /// The pages, set by set, most recently used page first in each set; empty if sets have four ways.
    pages: Vec<u64>,
    /// The pages of a TLB with four ways, set by set.
    fours: Vec<[u64; 4]>,
    misses: u64,
    ways: usize,
    sets: u64,
    /// The number of sets minus one, if that number is a power of two.
    mask: Option<u64>,
}

/// Two levels are equal if they hold the same pages; the miss counters do not count, because no translation depends
/// on them.
impl PartialEq for TlbLevel {
    fn eq(&self, other: &Self) -> bool {
        self.pages == other.pages && self.fours == other.fours
    }
}

impl TlbLevel {
    fn new(entries: u32, ways: u32) -> Self {
        let sets = u64::from(entries / ways);
        let mask = sets.is_power_of_two().then(|| sets - 1);
        let (fours, others) = if ways == 4 { (sets as usize, 0) } else { (0, entries as usize) };
        let (pages, fours) = (vec![NO_PAGE; others], vec![[NO_PAGE; 4]; fours]);
        Self { pages, fours, misses: 0, ways: ways as usize, sets, mask }
    }

    /// Looks up `page`, inserts it if missing, and makes it the most recently used page of its set. Returns whether
    /// the level had the page.
    #[inline(always)]
    fn look_up(&mut self, page: u64) -> bool {
        let set = self.mask.map_or_else(|| page % self.sets, |mask| page & mask);
        if let Some(four) = self.fours.get_mut(set as usize) {
            return moved_to_front(four, page);
        }
        let mut moved = page;
        for entry in &mut self.pages[set as usize * self.ways..][..self.ways] {
            let old = std::mem::replace(entry, moved);
            if old == page {
                return true;
            }
            moved = old;
        }
        false
    }
}

/// Looks up `page` as [`TlbLevel::look_up`] does, in a set of four ways, the usual size; only the test of the first
/// way is a branch.
#[inline(always)]
fn moved_to_front(set: &mut [u64; 4], page: u64) -> bool {
    let [first, second, third, fourth] = *set;
    if first == page {
        return true;
    }
    let (is_second, is_third) = (second == page, third == page);
    let at_third = if is_second { third } else { second };
    let at_fourth = if is_second || is_third { fourth } else { third };
    *set = [page, first, at_third, at_fourth];
    is_second || is_third || fourth == page
}

/// The TLBs of one core for one kind of use and one size of page.
#[derive(Debug, Clone, PartialEq)]
pub struct TlbHierarchy {
    levels: Vec<TlbLevel>,
    /// The page of the last access, which is usually also the page of the next access.
    last: u64,
}

impl TlbHierarchy {
    /// Creates empty TLB levels with these numbers of entries and ways, first level first.
    ///
    /// # Panics
    /// Panics if the entries of a level are not a whole number of sets.
    pub fn new(levels: &[(u32, u32)]) -> Self {
        let level = |&(entries, ways): &(u32, u32)| {
            assert!(ways > 0 && entries > 0 && entries.is_multiple_of(ways), "{entries}/{ways}");
            TlbLevel::new(entries, ways)
        };
        let levels: Vec<TlbLevel> = levels.iter().map(level).collect();
        Self { levels, last: u64::MAX }
    }

    /// The TLB of `platform` for pages of `page` bytes, for data or instructions.
    pub fn from_platform(platform: &Platform, page: u64, instruction: bool) -> Self {
        let other = if instruction { CacheKind::Data } else { CacheKind::Instruction };
        let serves = |tlb: &&corehop_plan::platform::Tlb| {
            tlb.kind != other && tlb.pages.value.iter().any(|size| size.get() == page)
        };
        let mut tlbs: Vec<_> = platform.tlbs.iter().filter(serves).collect();
        tlbs.sort_by_key(|tlb| tlb.level);
        let shape = |tlb: &&corehop_plan::platform::Tlb| {
            let entries = tlb.entries.value;
            (entries, tlb.ways.as_ref().map_or(entries, |ways| ways.value))
        };
        Self::new(&tlbs.iter().map(shape).collect::<Vec<_>>())
    }

    /// Looks up `page`, and returns the number of levels that missed. If all levels miss, the hardware walks the
    /// page tables.
    #[inline(always)]
    pub fn access(&mut self, page: u64) -> usize {
        if page == self.last {
            return 0;
        }
        self.last = page;
        for (place, level) in self.levels.iter_mut().enumerate() {
            if level.look_up(page) {
                return place;
            }
            level.misses += 1;
        }
        self.levels.len()
    }

    /// The misses of each level so far.
    pub fn misses(&self) -> Vec<u64> {
        self.levels.iter().map(|level| level.misses).collect()
    }

    /// Adds the misses between the two readings once more.
    pub(super) fn count_again(&mut self, [before, after]: [&[u64]; 2]) {
        for ((level, before), after) in self.levels.iter_mut().zip(before).zip(after) {
            level.misses += after - before;
        }
    }

    /// Removes all translations, as a change of address space may.
    pub fn flush(&mut self) {
        self.last = u64::MAX;
        for level in &mut self.levels {
            level.pages.fill(NO_PAGE);
            level.fours.fill([NO_PAGE; 4]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_beyond_the_first_level_misses_it_and_hits_the_second() {
        let mut tlb = TlbHierarchy::new(&[(2, 2), (4, 1)]);
        assert_eq!([0, 1, 2].map(|page| tlb.access(page)), [2, 2, 2]);
        // 0 was the last one of two, and is in its own set of the second level.
        assert_eq!(tlb.access(0), 1);
        assert_eq!(tlb.access(0), 0);
        // Evicted from the second level by 4, which shares the set.
        assert_eq!(tlb.access(4), 2);
        assert_eq!([1, 2, 0].map(|page| tlb.access(page)), [1, 1, 2]);
        assert_eq!(tlb.misses(), [8, 5]);
        tlb.flush();
        assert_eq!(tlb.access(0), 2);
    }

    #[test]
    fn sets_of_four_answer_as_a_list_in_order_of_use() {
        let mut tlb = TlbHierarchy::new(&[(8, 4)]);
        let mut lists = [Vec::new(), Vec::new()];
        let mut state = 1_u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = (state >> 33) % 12;
            let list = &mut lists[page as usize % 2];
            let place = list.iter().position(|&other| other == page);
            place.map(|place| list.remove(place));
            list.insert(0, page);
            list.truncate(4);
            assert_eq!(tlb.access(page), usize::from(place.is_none()), "{page}: {list:?}");
        }
    }

    #[test]
    fn without_levels_nothing_misses() {
        assert_eq!(TlbHierarchy::new(&[]).access(7), 0);
    }
}
