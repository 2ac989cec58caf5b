// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies that keep an age of two bits for each way of a set, in bits 2w and 2w+1 of the set's word: the quad-age
//! variants of Intel's caches, and the adaptive insertion of DRRIP. The last age is 3.
//!
//! Four rules define a quad-age variant: the age after a hit (H), the age of a new line (M), the way that makes
//! room (R), and the growth of all ages (U). The words of platform files are the names of Abel and Reineke
//! (nanoBench, ISPASS 2020). Briongos et al. (RELOAD+REFRESH, USENIX Security 2020) and Vila et al. (CacheQuery,
//! PLDI 2020) found the same rules by other means.
//!
//! From Ivy Bridge on, some sets of Intel's level-3 caches insert at random, while other sets follow the better of
//! two variants, as in DRRIP. Sources name the leader sets for a few processors only, so no platform file has
//! leader sets.
//!
//! No source states how an invalidation changes the age of its way, or how ages change under way masks. The
//! simulator keeps the age at an invalidation, and a way mask limits only the choice of the victim.

use corehop_plan::platform::Replacement;

use super::generator::CongruentialGenerator;

/// The lower bit of each age.
const LOWER_BITS: u64 = 0x5555_5555_5555_5555;

/// The time at which ages grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgeGrowth {
    /// Ages grow when a victim is needed, until some line has the last age.
    AtMiss,
    /// All ages grow after every use, until some line has the last age.
    All,
    /// After every use, the ages of all lines but the used line grow until some line has the last age.
    Others,
    /// All ages grow by one after every use, if no line has the last age.
    ByOne,
}

/// The rules of a quad-age policy for sets of some number of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuadAgeRules {
    /// The age of a line after a hit, indexed by the age before the hit.
    after_hit: [u8; 4],
    /// The age of a new line.
    of_new: u8,
    growth: AgeGrowth,
    /// Whether the first way makes room if no line has the last age.
    takes_first: bool,
    /// The word with the lower bit of each way's age set.
    lower: u64,
    /// The mask of all ways.
    every: u32,
}

impl QuadAgeRules {
    /// The rules of `policy`, if it is a quad-age policy, for sets with the ways of the mask `every`.
    pub(super) fn of(policy: Replacement, every: u32) -> Option<Self> {
        let (after_hit, of_new, growth, takes_first) = match policy {
            Replacement::QuadAge => ([0, 0, 1, 2], 2, AgeGrowth::AtMiss, false),
            Replacement::QlruH11M1R0U0 => ([0, 0, 1, 1], 1, AgeGrowth::All, false),
            Replacement::QlruH11M1R1U2 => ([0, 0, 1, 1], 1, AgeGrowth::ByOne, true),
            Replacement::QlruH00M1R0U1 => ([0, 0, 0, 0], 1, AgeGrowth::Others, false),
            _ => return None,
        };
        let lower = lower_bits(every);
        Some(Self { after_hit, of_new, growth, takes_first, lower, every })
    }

    /// Updates the ages after a hit in `way`.
    #[inline]
    pub(super) fn hit(&self, word: &mut u64, way: u32) {
        let age = self.after_hit[(*word >> (2 * way)) as usize & 3];
        self.set(word, way, age);
    }

    /// Updates the ages after a fill of `way`.
    #[inline]
    pub(super) fn fill(&self, word: &mut u64, way: u32) {
        self.set(word, way, self.of_new);
    }

    #[inline]
    fn set(&self, word: &mut u64, way: u32, age: u8) {
        *word = *word & !(3 << (2 * way)) | (u64::from(age) << (2 * way));
        let growing = match self.growth {
            AgeGrowth::AtMiss => return,
            AgeGrowth::Others => self.lower & !(1 << (2 * way)),
            AgeGrowth::All | AgeGrowth::ByOne => self.lower,
        };
        let most = if self.growth == AgeGrowth::ByOne { 1 } else { 3 };
        if !bug!(QuadAgeNeverGrows) {
            *word += to_last_age(*word, growing).min(most) * growing;
        }
    }

    /// Chooses the victim among the ways `allowed`, all of which hold lines.
    #[inline]
    pub(super) fn victim(&self, word: &mut u64, allowed: u32) -> u32 {
        let among = if allowed == self.every { self.lower } else { lower_bits(allowed) };
        let missing = to_last_age(*word, among);
        if missing > 0 && self.takes_first {
            return allowed.trailing_zeros();
        }
        *word += missing * among;
        (*word & (*word >> 1) & among).trailing_zeros() / 2
    }
}

/// The word with the lower bit of the age of each way in `ways` set.
fn lower_bits(ways: u32) -> u64 {
    let upto = 1_u64.checked_shl(2 * (32 - ways.leading_zeros())).map_or(u64::MAX, |bit| bit - 1);
    if (ways & ways.wrapping_add(1)) == 0 {
        return LOWER_BITS & upto;
    }
    (0..32).filter(|way| ways >> way & 1 == 1).fold(0, |bits, way| bits | 1 << (2 * way))
}

/// The increment by which the oldest of the selected ages reaches the last age.
#[inline]
fn to_last_age(word: u64, of: u64) -> u64 {
    let (lower, upper) = (word & of, (word >> 1) & of);
    match (upper & lower != 0, upper != 0, lower != 0) {
        (true, ..) => 0,
        (_, true, _) => 1,
        (_, _, true) => 2,
        _ => 3,
    }
}

/// The largest number of sets of a cache that lead each of the two policies.
const LEADERS: u32 = 32;
/// The number of sets per duel in a cache with too few sets for [`LEADERS`]: two sets of each duel are leaders.
const SETS_A_DUEL: u32 = 4;
/// The largest selector value at which follower sets use static insertion; the selector has ten bits.
const HALF: u16 = 511;
const MOST: u16 = 1_023;
/// The period of the bimodal policy: one in this many new lines gets an age below the last.
const BIMODAL: u32 = 32;

/// The set dueling of DRRIP (Jaleel et al., ISCA 2010): some sets always insert as SRRIP, some always as BRRIP, and
/// all other sets follow the policy whose leader sets had fewer misses.
///
/// The complement-select rule chooses the leaders (Qureshi et al., Adaptive Insertion Policies, ISCA 2007): of
/// 1,024 sets, 0 and every 33rd lead SRRIP, 31 and every 31st lead BRRIP. The sources use 32 leaders of each kind,
/// and state neither the leaders of small caches nor the initial selector. In the simulator, two of every four sets
/// of a small cache are leaders, and the selector starts in the middle.
#[derive(Debug, Clone)]
pub(super) struct SetDuel {
    /// The number of sets in each duel, and the number of duels.
    span: u32,
    duels: u32,
    /// The misses of the SRRIP leaders minus the misses of the BRRIP leaders, around a middle value.
    selector: u16,
}

impl SetDuel {
    /// Creates the duel for a cache of `sets` sets.
    pub(super) fn new(sets: u32) -> Self {
        let duels = (sets / SETS_A_DUEL).clamp(1, LEADERS);
        Self { span: ((sets / duels) & !1).max(1), duels, selector: HALF }
    }

    /// The state of the selector.
    pub(super) const fn selector(&self) -> u16 {
        self.selector
    }

    /// Returns `None` for a follower set, and otherwise whether the set leads the bimodal policy.
    const fn leads(&self, set: u32) -> Option<bool> {
        let (number, place) = (set / self.span, set % self.span);
        let chosen = number % self.span;
        if number >= self.duels {
            None
        } else if place == chosen {
            Some(false)
        } else if place == self.span - 1 - chosen {
            Some(true)
        } else {
            None
        }
    }

    /// Returns the age of a new line in `set`, and counts the miss.
    pub(super) fn age_of_new(&mut self, set: u32, generator: &mut CongruentialGenerator) -> u64 {
        let leads = self.leads(set);
        match leads.map(|bimodal| bimodal ^ bug!(DuelVotesInverted)) {
            Some(false) => self.selector = (self.selector + 1).min(MOST),
            Some(true) => self.selector = self.selector.saturating_sub(1),
            None => {}
        }
        let bimodal = leads.unwrap_or(self.selector > HALF);
        let last = bimodal && generator.below(BIMODAL) != 0 && !bug!(BimodalIsStatic);
        if last { 3 } else { 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaders(sets: u32, bimodal: bool) -> Vec<u32> {
        let duel = SetDuel::new(sets);
        (0..sets).filter(|&set| duel.leads(set) == Some(bimodal)).collect()
    }

    #[test]
    fn the_leaders_are_at_the_places_of_the_complement_select_rule() {
        let every = |first: usize, step: usize| (first..1_024).step_by(step).map(|set| set as u32);
        assert_eq!(leaders(1_024, false), every(0, 33).collect::<Vec<_>>());
        assert_eq!(leaders(1_024, true), every(31, 31).take(32).collect::<Vec<_>>());
        for sets in [128, 768, 2_048, 12_288] {
            assert_eq!([leaders(sets, false).len(), leaders(sets, true).len()], [32; 2], "{sets}");
        }
        assert_eq!([leaders(4, false), leaders(4, true)], [[0], [3]]);
        assert_eq!([leaders(1, false), leaders(1, true)], [vec![0], vec![]]);
    }

    #[test]
    fn ages_of_some_ways_grow_alone() {
        assert_eq!(
            [lower_bits(0), lower_bits(0b1011), lower_bits(u32::MAX)],
            [0, 0b0100_0101, LOWER_BITS]
        );
        let rules = QuadAgeRules::of(Replacement::QuadAge, 0b1111).unwrap();
        // Ages 2 1 0 3, of which the first three are allowed.
        let mut word = 0b11_00_01_10;
        assert_eq!(rules.victim(&mut word, 0b0111), 0);
        assert_eq!(word, 0b11_01_10_11);
        assert_eq!(rules.victim(&mut word, 0b1110), 3);
    }
}
