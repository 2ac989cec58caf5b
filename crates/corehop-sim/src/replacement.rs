// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replacement policies, which choose the victim way. Each policy's state for a set is one 64-bit word, plus a byte
//! per way for exact orders of more than 16 ways.
//!
//! | policy | the word |
//! |---|---|
//! | LRU, FIFO up to 8 ways | an 8×8 matrix of bits: row a, column b: a was used after b |
//! | LRU, FIFO up to 16 ways | the ways as nibbles, the last used one lowest |
//! | LRU, FIFO beyond | nothing; the byte of a way is its place in the order |
//! | tree PLRU | bit n is node n of the tree (1 is the root): on, room is made on the right |
//! | bit PLRU, NRU | bit w is way w, on after a use |
//! | SRRIP, DRRIP, quad-age | bits 2w and 2w+1 are the prediction for way w, or its age: see [`super::ageing`] |

use std::sync::Arc;

use corehop_plan::platform::Replacement;

use super::ageing::{QuadAgeRules, SetDuel};
use super::generator::CongruentialGenerator;

/// The layout of a policy's state, which depends on the number of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyLayout {
    Matrix,
    Nibbles,
    Ranks,
    Tree,
    BitPlru,
    Nru,
    Random,
    Srrip,
    Drrip,
    QuadAge,
}

/// The effect of a use of each way on the word of a set. The table covers all policies except nibbles, ranks and
/// ages, and the fills of DRRIP.
#[derive(Debug, Clone)]
struct Uses {
    /// For each way, the mask of bits that stay and the bits that are set afterwards.
    ways: [(u64, u64); 32],
    /// The word that must not remain after a use: if a use would produce it, only the bits of that use stay set.
    full: u64,
}

/// A policy for sets of some number of ways.
#[derive(Debug, Clone)]
pub(super) struct ReplacementPolicy {
    form: PolicyLayout,
    /// Whether the policy counts a hit as a use.
    on_hit: bool,
    ways: u32,
    /// The mask of all ways.
    every: u32,
    /// The rows of a matrix beyond the last way.
    beyond: u64,
    /// The nodes of a tree that have ways on their right.
    forks: u64,
    /// The position of the last nibble, if the layout has nibbles.
    last: u32,
    /// The effects of hits and of fills; the caches of a level share these tables.
    hits: Arc<Uses>,
    fills: Arc<Uses>,
    /// Whether the tables `hits` and `fills` describe the policy completely.
    by_table: bool,
    /// The rules of a quad-age policy.
    ages: Option<QuadAgeRules>,
    /// The set duel of DRRIP.
    duel: Option<SetDuel>,
    /// The random numbers of `random` and DRRIP.
    generator: CongruentialGenerator,
}

/// The mask of `ways` ways.
pub(super) const fn all(ways: u32) -> u32 {
    if ways >= 32 { u32::MAX } else { (1 << ways) - 1 }
}

/// The policy key of a loop that is compiled without knowledge of the caches' policies.
pub(super) const ANY: u8 = 0;
/// The policy key if every cache of a path to memory replaces the least recently used line of all its ways.
pub(super) const LRU: u8 = 1;
/// The policy key if sets of up to 8 lanes are full trees of 8 ways and wider sets use bit PLRU over all their
/// ways.
pub(super) const TREES: u8 = 2;

const NIBBLES: u64 = 0x1111_1111_1111_1111;
const BYTES: u64 = 0x0101_0101_0101_0101;

/// The victim of a tree of 8 ways, indexed by the tree's seven bits.
static LEAVES: [u8; 128] = leaves();

const fn leaves() -> [u8; 128] {
    let mut leaves = [0; 128];
    let mut word = 0;
    while word < 128 {
        let mut node = 1;
        while node < 8 {
            node = 2 * node + ((word << 1) >> node) % 2;
        }
        leaves[word] = (node - 8) as u8;
        word += 1;
    }
    leaves
}

/// The nodes between the root and `way`, and the values of their bits after a use of `way`, as masks over the word
/// of the tree. A set bit directs the victim search to the right.
fn path(way: u32, ways: u32) -> (u64, u64) {
    let leaves = ways.next_power_of_two();
    let (mut mask, mut value) = (0, 0);
    let mut node = leaves + way;
    while node > 1 {
        let from_left = node & 1 == 0;
        node >>= 1;
        mask |= 1 << node;
        value |= u64::from(from_left) << node;
    }
    (mask, value)
}

impl Uses {
    /// Computes the effect of hits or, if `hit` is false, of fills under a policy of this layout.
    fn new(form: PolicyLayout, ways: u32, hit: bool, counts: bool) -> Self {
        let every = u64::from(all(ways));
        let of = |way: u32| {
            let way = way.min(ways - 1);
            match form {
                PolicyLayout::Srrip | PolicyLayout::Drrip => {
                    let far = if hit || bug!(SrripFillsNear) { 0 } else { 2 };
                    (!(3 << (2 * way)), far << (2 * way))
                }
                _ if !counts => (u64::MAX, 0),
                PolicyLayout::Matrix => {
                    let keep = !(BYTES << way);
                    (keep, every << (8 * way) & keep)
                }
                PolicyLayout::Tree => {
                    let (mask, value) = path(way, ways);
                    (!mask, if bug!(TreeNotFlipped) { mask & !value } else { value })
                }
                PolicyLayout::BitPlru | PolicyLayout::Nru => (u64::MAX, 1 << way),
                PolicyLayout::Nibbles
                | PolicyLayout::Ranks
                | PolicyLayout::Random
                | PolicyLayout::QuadAge => (u64::MAX, 0),
            }
        };
        let wraps = form == PolicyLayout::BitPlru && counts && !bug!(BitPlruNeverClears);
        Self {
            ways: std::array::from_fn(|way| of(way as u32)),
            full: if wraps { every } else { u64::MAX },
        }
    }

    #[inline(always)]
    fn apply(&self, word: &mut u64, way: u32) {
        let (keep, on) = self.ways[way as usize & 31];
        let used = *word & keep | on;
        *word = if used == self.full { on } else { used };
    }
}

impl ReplacementPolicy {
    pub(super) fn new(policy: Replacement, (sets, ways): (u32, u32), seed: u64) -> Self {
        let order = match ways {
            0..=8 => PolicyLayout::Matrix,
            9..=16 => PolicyLayout::Nibbles,
            _ => PolicyLayout::Ranks,
        };
        let form = match policy {
            Replacement::Lru | Replacement::Fifo => order,
            Replacement::TreePlru => PolicyLayout::Tree,
            Replacement::BitPlru => PolicyLayout::BitPlru,
            Replacement::Nru => PolicyLayout::Nru,
            Replacement::Random => PolicyLayout::Random,
            Replacement::Srrip => PolicyLayout::Srrip,
            Replacement::Drrip => PolicyLayout::Drrip,
            Replacement::QuadAge
            | Replacement::QlruH11M1R0U0
            | Replacement::QlruH11M1R1U2
            | Replacement::QlruH00M1R0U1 => PolicyLayout::QuadAge,
        };
        let ordered = policy != Replacement::Random;
        let on_hit = (ordered && policy != Replacement::Fifo) || bug!(FifoUsesHits);
        let on_hit = on_hit && !bug!(HitIsNoUse);
        let on_fill = ordered && !bug!(FillIsNoUse);
        Self {
            form,
            on_hit,
            ways,
            every: all(ways),
            beyond: if ways < 8 { u64::MAX << (8 * ways) } else { 0 },
            forks: forks(ways),
            last: 4 * (ways - 1),
            hits: Arc::new(Uses::new(form, ways, true, on_hit)),
            fills: Arc::new(Uses::new(form, ways, false, on_fill)),
            by_table: !matches!(
                form,
                PolicyLayout::Nibbles
                    | PolicyLayout::Ranks
                    | PolicyLayout::Drrip
                    | PolicyLayout::QuadAge
            ),
            ages: QuadAgeRules::of(policy, all(ways)),
            duel: (form == PolicyLayout::Drrip).then(|| SetDuel::new(sets)),
            generator: CongruentialGenerator(seed),
        }
    }

    /// The mask of all ways.
    #[inline(always)]
    pub(super) fn every(&self) -> u32 {
        self.every
    }

    /// The number of bytes per set in addition to the word.
    #[inline(always)]
    pub(super) fn ranks(&self) -> usize {
        if self.form == PolicyLayout::Ranks { self.ways as usize } else { 0 }
    }

    /// The states of the random number generator and of the duel's selector.
    pub(super) fn drawn(&self) -> (u64, u16) {
        (self.generator.0, self.duel.as_ref().map_or(0, SetDuel::selector))
    }

    /// The word of an empty set.
    pub(super) fn empty(&self) -> u64 {
        match self.form {
            PolicyLayout::Nibbles => 0xFEDC_BA98_7654_3210,
            PolicyLayout::QuadAge => u64::MAX,
            _ => 0,
        }
    }

    /// Updates the state of a set after a hit in `way`.
    #[inline(always)]
    pub(super) fn hit(&self, word: &mut u64, ranks: &mut [u8], way: u32) {
        if self.form == PolicyLayout::Nibbles {
            *word = if self.on_hit { to_front(*word, way) } else { *word };
        } else if self.form == PolicyLayout::Ranks {
            if self.on_hit {
                rank_first(ranks, way);
            }
        } else if let Some(ages) = &self.ages {
            ages.hit(word, way);
        } else {
            self.hits.apply(word, way);
        }
    }

    /// Updates the state of a set after a fill of `way`.
    #[inline(always)]
    pub(super) fn fill(&mut self, word: &mut u64, ranks: &mut [u8], set: u32, way: u32) {
        if self.form == PolicyLayout::Nibbles {
            *word = if bug!(FillIsNoUse) { *word } else { to_front(*word, way) };
        } else if self.form == PolicyLayout::Ranks {
            if !bug!(FillIsNoUse) {
                rank_first(ranks, way);
            }
        } else if self.by_table {
            self.fills.apply(word, way);
        } else {
            self.fill_by_age(word, set, way);
        }
    }

    /// Updates the state of a set after a fill, for policies in which a new line gets an age.
    fn fill_by_age(&mut self, word: &mut u64, set: u32, way: u32) {
        if let Some(ages) = &self.ages {
            ages.fill(word, way);
        } else if let Some(duel) = &mut self.duel {
            let age = duel.age_of_new(set, &mut self.generator);
            *word = *word & !(3 << (2 * way)) | (age << (2 * way));
        }
    }

    /// The policy key for sets of this width, if only the `allowed` ways may be filled.
    pub(super) fn known(&self, allowed: u32) -> u8 {
        let whole = allowed == self.every && self.on_hit;
        match self.form {
            PolicyLayout::Matrix | PolicyLayout::Nibbles if whole => LRU,
            PolicyLayout::Tree if whole && self.ways == 8 => TREES,
            PolicyLayout::BitPlru if whole && matches!(self.ways, 9..=16) => TREES,
            _ => ANY,
        }
    }

    /// Updates a set as [`ReplacementPolicy::hit`] does, in a block of `N` lanes, up to 16, whose policy has the
    /// key `KNOWN`.
    #[inline(always)]
    pub(super) fn hit_in<const N: usize, const KNOWN: u8>(&self, word: &mut u64, way: u32) {
        match (N, KNOWN) {
            (8, LRU) | (_, TREES) => self.hits.apply(word, way),
            (8, _) if self.by_table => self.hits.apply(word, way),
            (_, LRU) => *word = to_front(*word, way),
            _ => self.hit(word, &mut [], way),
        }
    }

    /// Updates a set as [`ReplacementPolicy::fill`] does, in a block of `N` lanes whose policy has the key `KNOWN`.
    #[inline(always)]
    pub(super) fn fill_in<const N: usize, const KNOWN: u8>(
        &mut self,
        word: &mut u64,
        set: usize,
        way: u32,
    ) {
        match (N, KNOWN) {
            (8, LRU) | (_, TREES) => self.fills.apply(word, way),
            (8, _) if self.by_table => self.fills.apply(word, way),
            (_, LRU) if !bug!(FillIsNoUse) => *word = to_front(*word, way),
            _ => self.fill(word, &mut [], set as u32, way),
        }
    }

    /// Chooses a victim as [`ReplacementPolicy::victim`] does, in a block of `N` lanes whose policy has the key
    /// `KNOWN`.
    #[inline(always)]
    pub(super) fn victim_in<const N: usize, const KNOWN: u8>(
        &mut self,
        word: &mut u64,
        allowed: u32,
    ) -> u32 {
        match (N, KNOWN) {
            (8, LRU) => oldest_row(*word | self.beyond),
            (_, LRU) => (*word >> self.last) as u32 & 15,
            (8, TREES) => u32::from(LEAVES[(*word >> 1) as usize & 127]),
            (_, TREES) => lowest(!(*word as u32) & allowed, allowed),
            _ => self.victim(word, &[], allowed),
        }
    }

    /// The next victim of a full set, if the policy can find the victim quickly.
    #[inline(always)]
    pub(super) fn next_victim<const N: usize, const KNOWN: u8>(&self, word: u64) -> Option<u32> {
        match (N, KNOWN) {
            (8, LRU) => Some(oldest_row(word | self.beyond)),
            (8, TREES) => Some(u32::from(LEAVES[(word >> 1) as usize & 127])),
            _ => None,
        }
    }

    /// The next victim of a full set whose policy is not known at compile time, if all ways may be filled.
    #[inline(always)]
    pub(super) fn next_victim_of(&self, word: u64) -> Option<u32> {
        match self.form {
            PolicyLayout::Matrix => Some(oldest_row(word | self.beyond)),
            PolicyLayout::Nibbles => Some((word >> self.last) as u32 & 15),
            PolicyLayout::BitPlru => Some(lowest(!(word as u32) & self.every, self.every)),
            PolicyLayout::Tree => Some(self.leaf_of_all(word)),
            _ => None,
        }
    }

    /// Chooses the victim among the ways `allowed`, all of which hold lines.
    #[inline(always)]
    pub(super) fn victim(&mut self, word: &mut u64, ranks: &[u8], allowed: u32) -> u32 {
        let quick = if allowed == self.every { self.next_victim_of(*word) } else { None };
        quick.unwrap_or_else(|| self.victim_rarely(word, ranks, allowed))
    }

    fn victim_rarely(&mut self, word: &mut u64, ranks: &[u8], allowed: u32) -> u32 {
        match self.form {
            PolicyLayout::Matrix => {
                let among = u64::from(allowed);
                let newest = |way: &u32| (*word >> (8 * way)) & among == 0;
                ways_of(allowed).find(newest).unwrap_or(0)
            }
            PolicyLayout::Nibbles => {
                let at = |place: u32| (*word >> (4 * place)) as u32 & 15;
                let mut places = (0..self.ways).rev().map(at);
                places.find(|&way| allowed >> way & 1 == 1).unwrap_or(0)
            }
            PolicyLayout::Ranks => {
                ways_of(allowed).max_by_key(|&way| ranks[way as usize]).unwrap_or(0)
            }
            PolicyLayout::Tree => self.leaf(*word, allowed),
            PolicyLayout::BitPlru => lowest(!(*word as u32) & allowed, allowed),
            PolicyLayout::Nru => {
                if !(*word as u32) & allowed == 0 {
                    *word &= !u64::from(allowed);
                }
                lowest(!(*word as u32) & allowed, allowed)
            }
            PolicyLayout::Random => {
                let drawn = self.generator.below(allowed.count_ones());
                ways_of(allowed).nth(drawn as usize).unwrap_or(0)
            }
            PolicyLayout::Srrip | PolicyLayout::Drrip => distant(word, allowed),
            PolicyLayout::QuadAge => {
                self.ages.as_ref().map_or(0, |ages| ages.victim(word, allowed))
            }
        }
    }

    /// Follows the bits of the tree to a victim; at a node without ways on the indicated side, takes the other
    /// side.
    #[inline(always)]
    fn leaf_of_all(&self, word: u64) -> u32 {
        let (mut node, leaves, word) = (1, self.ways.next_power_of_two(), word & self.forks);
        while node < leaves {
            node = 2 * node + (word >> node) as u32 % 2;
        }
        node - leaves
    }

    /// Follows the bits of the tree to a victim; at a node without allowed ways on the indicated side, takes the
    /// other side.
    fn leaf(&self, word: u64, allowed: u32) -> u32 {
        let leaves = self.ways.next_power_of_two();
        let (mut node, mut low, mut size) = (1, 0, leaves);
        while size > 1 {
            size /= 2;
            let side = |low: u32| (u64::from(allowed) >> low) & ((1 << size) - 1) != 0;
            let wanted = word >> node & 1 == 1;
            let right = if wanted { side(low + size) } else { !side(low) };
            node = 2 * node + u64::from(right);
            low += if right { size } else { 0 };
        }
        low
    }
}

/// The nodes of the tree over `ways` ways that have a way on their right.
fn forks(ways: u32) -> u64 {
    let leaves = ways.next_power_of_two();
    let has = |node: &u32| {
        // The leftmost leaf below the node's right child.
        let mut leaf = 2 * node + 1;
        while leaf < leaves {
            leaf *= 2;
        }
        leaf - leaves < ways
    };
    (1..leaves).filter(has).fold(0, |forks, node| forks | 1 << node)
}

/// The way whose matrix row is empty, so that every other way was used later. Rows beyond the ways must be full.
#[inline(always)]
fn oldest_row(word: u64) -> u32 {
    // The lowest zero byte; bytes above it may be marked wrongly.
    let zero = word.wrapping_sub(BYTES) & !word & (BYTES << 7);
    zero.trailing_zeros() / 8
}

/// The ways of a mask, ascending.
pub(super) fn ways_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let way = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (way < 32).then_some(way)
    })
}

/// The lowest way of `first`, or of `second` if `first` is empty.
#[inline(always)]
fn lowest(first: u32, second: u32) -> u32 {
    (if first == 0 { second } else { first }).trailing_zeros()
}

/// Moves `way` to the first rank; the ways ranked before `way` each move one rank back.
#[cold]
fn rank_first(ranks: &mut [u8], way: u32) {
    let own = ranks[way as usize];
    for rank in ranks.iter_mut() {
        *rank += u8::from(*rank < own);
    }
    ranks[way as usize] = 0;
}

/// Moves the nibble `way` to the lowest position; the nibbles below shift up by one position.
#[inline(always)]
fn to_front(word: u64, way: u32) -> u64 {
    let differs = word ^ (NIBBLES * u64::from(way));
    // The lowest zero nibble is where `way` is.
    let zero = differs.wrapping_sub(NIBBLES) & !differs & (NIBBLES << 3);
    let shift = zero.trailing_zeros() & !3;
    let below = word & ((1 << shift) - 1);
    let upto = (0xF << shift) | ((1 << shift) - 1);
    (word & !upto) | below << 4 | u64::from(way)
}

/// The lowest allowed way with the last age; all ages grow until such a way exists.
fn distant(word: &mut u64, allowed: u32) -> u32 {
    let prediction = |word: u64, way: u32| (word >> (2 * way)) & 3;
    let oldest = ways_of(allowed).map(|way| prediction(*word, way)).max().unwrap_or(0);
    for way in ways_of(allowed) {
        *word += (3 - oldest) << (2 * way);
    }
    ways_of(allowed).find(|&way| prediction(*word, way) == 3).unwrap_or(0)
}
