// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which way makes room: each policy's memory of a set is one 64-bit word (and a byte per way for
//! exact orders of more than 16 ways).
//!
//! | policy | the word |
//! |---|---|
//! | LRU, FIFO up to 8 ways | an 8×8 matrix of bits: row a, column b: a was used after b |
//! | LRU, FIFO up to 16 ways | the ways as nibbles, the last used one lowest |
//! | LRU, FIFO beyond | nothing; the byte of a way is its place in the order |
//! | tree PLRU | bit n is node n of the tree (1 is the root): on, room is made on the right |
//! | bit PLRU, NRU | bit w is way w, on after a use |
//! | SRRIP | bits 2w and 2w+1 are the prediction for way w |

use crate::platform::Replacement;

/// A policy in the form that its number of ways allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Matrix,
    Nibbles,
    Ranks,
    Tree,
    BitPlru,
    Nru,
    Random,
    Srrip,
}

/// A policy for sets of some number of ways.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    form: Form,
    /// Whether a hit counts as a use.
    on_hit: bool,
    ways: u32,
    /// The ways as a mask.
    every: u32,
    /// Of a matrix: the rows beyond the ways.
    beyond: u64,
    /// Of nibbles: where the last one is.
    last: u32,
    /// For each way the bits of the tree that its use decides, and their values.
    tree: [(u64, u64); 32],
    /// State of the generator of `random`.
    state: u64,
}

/// A word with every way's bit in it.
pub(super) const fn all(ways: u32) -> u32 {
    if ways >= 32 { u32::MAX } else { (1 << ways) - 1 }
}

const NIBBLES: u64 = 0x1111_1111_1111_1111;
const BYTES: u64 = 0x0101_0101_0101_0101;

/// The nodes between the root and `way`, and for each whether room is made on the right after a use
/// of `way`, as masks over the word of the tree.
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

impl Policy {
    pub(super) fn new(policy: Replacement, ways: u32, seed: u64) -> Self {
        let order = match ways {
            0..=8 => Form::Matrix,
            9..=16 => Form::Nibbles,
            _ => Form::Ranks,
        };
        let form = match policy {
            Replacement::Lru | Replacement::Fifo => order,
            Replacement::TreePlru => Form::Tree,
            Replacement::BitPlru => Form::BitPlru,
            Replacement::Nru => Form::Nru,
            Replacement::Random => Form::Random,
            Replacement::Srrip => Form::Srrip,
        };
        let on_hit = !matches!(policy, Replacement::Fifo | Replacement::Random);
        let beyond = if ways < 8 { u64::MAX << (8 * ways) } else { 0 };
        let tree = std::array::from_fn(|way| path((way as u32).min(ways - 1), ways));
        Self {
            form,
            on_hit,
            ways,
            every: all(ways),
            beyond,
            last: 4 * (ways - 1),
            tree,
            state: seed,
        }
    }

    /// The ways as a mask.
    #[inline(always)]
    pub(super) fn every(&self) -> u32 {
        self.every
    }

    /// Bytes per set beside the word.
    #[inline(always)]
    pub(super) fn ranks(&self) -> usize {
        if self.form == Form::Ranks { self.ways as usize } else { 0 }
    }

    /// The word of an empty set.
    pub(super) fn empty(&self) -> u64 {
        match self.form {
            Form::Nibbles => 0xFEDC_BA98_7654_3210,
            _ => 0,
        }
    }

    /// The line in `way` was used.
    #[inline(always)]
    pub(super) fn hit(&self, word: &mut u64, ranks: &mut [u8], way: u32) {
        if bug!(HitIsNoUse) {
            return;
        }
        if self.form == Form::Srrip {
            *word &= !(3 << (2 * way));
        } else if self.on_hit || bug!(FifoUsesHits) {
            self.order(word, ranks, way);
        }
    }

    /// Which of the quick uses a hit is.
    #[inline(always)]
    pub(super) fn use_of(&self) -> Use {
        let wrong = [bug!(HitIsNoUse), bug!(FifoUsesHits), bug!(TreeNotFlipped)];
        if wrong.contains(&true) {
            return Use::Other;
        }
        match self.form {
            Form::Matrix if self.on_hit => Use::Matrix(u64::from(self.every)),
            Form::Tree => Use::Tree,
            Form::Random => Use::Nothing,
            _ => Use::Other,
        }
    }

    /// The use of `way` on a tree.
    #[inline(always)]
    pub(super) fn use_tree(&self, word: &mut u64, way: u32) {
        let (mask, value) = self.tree[way as usize & 31];
        *word = *word & !mask | value;
    }

    /// A line came into `way`.
    #[inline(always)]
    pub(super) fn fill(&self, word: &mut u64, ranks: &mut [u8], way: u32) {
        if self.form == Form::Srrip {
            let prediction = if bug!(SrripFillsNear) { 0 } else { 2 };
            *word = *word & !(3 << (2 * way)) | prediction << (2 * way);
        } else if !bug!(FillIsNoUse) {
            self.order(word, ranks, way);
        }
    }

    /// `way` comes first from now on.
    #[inline(always)]
    fn order(&self, word: &mut u64, ranks: &mut [u8], way: u32) {
        // The usual ones first, and without a table of jumps.
        if self.form == Form::Matrix {
            use_matrix(word, way, u64::from(self.every));
        } else if self.form == Form::Nibbles {
            *word = to_front(*word, way);
        } else if self.form == Form::Tree {
            let (mask, value) = self.tree[way as usize & 31];
            let value = if bug!(TreeNotFlipped) { mask & !value } else { value };
            *word = *word & !mask | value;
        } else {
            self.order_rarely(word, ranks, way);
        }
    }

    fn order_rarely(&self, word: &mut u64, ranks: &mut [u8], way: u32) {
        match self.form {
            Form::BitPlru => {
                let used = *word | 1 << way;
                let full = used == u64::from(self.every) && !bug!(BitPlruNeverClears);
                *word = if full { 1 << way } else { used };
            }
            Form::Nru => *word |= 1 << way,
            Form::Ranks => {
                let own = ranks[way as usize];
                for rank in ranks.iter_mut() {
                    *rank += u8::from(*rank < own);
                }
                ranks[way as usize] = 0;
            }
            _ => {}
        }
    }

    /// The way to make room in, one of `allowed`; all of them are taken.
    #[inline(always)]
    pub(super) fn victim(&mut self, word: &mut u64, ranks: &[u8], allowed: u32) -> u32 {
        if self.form == Form::Matrix && allowed == self.every {
            return oldest_row(*word | self.beyond);
        }
        if self.form == Form::Nibbles && allowed == self.every {
            return (*word >> self.last) as u32 & 15;
        }
        self.victim_rarely(word, ranks, allowed)
    }

    fn victim_rarely(&mut self, word: &mut u64, ranks: &[u8], allowed: u32) -> u32 {
        match self.form {
            Form::Matrix => {
                let among = u64::from(allowed);
                let newest = |way: &u32| (*word >> (8 * way)) & among == 0;
                ways_of(allowed).find(newest).unwrap_or(0)
            }
            Form::Nibbles => {
                let at = |place: u32| (*word >> (4 * place)) as u32 & 15;
                let mut places = (0..self.ways).rev().map(at);
                places.find(|&way| allowed >> way & 1 == 1).unwrap_or(0)
            }
            Form::Ranks => ways_of(allowed).max_by_key(|&way| ranks[way as usize]).unwrap_or(0),
            Form::Tree => self.leaf(*word, allowed),
            Form::BitPlru => lowest(!(*word as u32) & allowed, allowed),
            Form::Nru => {
                if !(*word as u32) & allowed == 0 {
                    *word &= !u64::from(allowed);
                }
                lowest(!(*word as u32) & allowed, allowed)
            }
            Form::Random => {
                let count = allowed.count_ones();
                let drawn = (u64::from(self.draw()) * u64::from(count)) >> 32;
                ways_of(allowed).nth(drawn as usize).unwrap_or(0)
            }
            Form::Srrip => distant(word, allowed),
        }
    }

    /// Down the tree, to the side that each node says unless nothing there is allowed.
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

    /// The next number of a 64-bit congruential generator (Knuth's multiplier), its upper half.
    fn draw(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 32) as u32
    }
}

/// The way whose row is empty: it was used after none. Rows beyond the ways are to be full.
#[inline(always)]
fn oldest_row(word: u64) -> u32 {
    // The lowest zero byte; bytes above it may be marked wrongly.
    let zero = word.wrapping_sub(BYTES) & !word & (BYTES << 7);
    zero.trailing_zeros() / 8
}

/// What a hit means to the memory of a set, where that is quick.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// [`use_matrix`] with these ways.
    Matrix(u64),
    /// [`Policy::use_tree`].
    Tree,
    /// Nothing.
    Nothing,
    /// [`Policy::hit`].
    Other,
}

/// The use of `way` on a matrix for the ways in `every`.
#[inline(always)]
pub(super) fn use_matrix(word: &mut u64, way: u32, every: u64) {
    *word = (*word | every << (8 * way)) & !(BYTES << way);
}

/// The ways of a mask, ascending.
pub(super) fn ways_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let way = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (way < 32).then_some(way)
    })
}

/// The lowest way of `first`, or of `second` where that is empty.
fn lowest(first: u32, second: u32) -> u32 {
    (if first == 0 { second } else { first }).trailing_zeros()
}

/// Moves the nibble `way` to the lowest place; those below it go up by one.
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

/// The lowest allowed way that is predicted to be used last; all grow older until there is one.
fn distant(word: &mut u64, allowed: u32) -> u32 {
    let prediction = |word: u64, way: u32| (word >> (2 * way)) & 3;
    let oldest = ways_of(allowed).map(|way| prediction(*word, way)).max().unwrap_or(0);
    for way in ways_of(allowed) {
        *word += (3 - oldest) << (2 * way);
    }
    ways_of(allowed).find(|&way| prediction(*word, way) == 3).unwrap_or(0)
}
