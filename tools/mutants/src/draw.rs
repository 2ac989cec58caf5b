// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seeded order in which mutations are drawn.
//!
//! An area is a folder of a crate's sources. The number of draws from an area grows with the square root of its size, so
//! that small areas are seen too; inside an area, the kinds of mutation take turns. The order is spread evenly: every
//! beginning of the order is a stratified sample.

use std::collections::BTreeMap;
use std::path::Path;

use crate::sites::{Mutation, MutationKind};

/// A mutation that can be drawn.
#[derive(Debug, Clone)]
pub(crate) struct MutantCandidate {
    /// The index of the source file.
    pub source: usize,
    /// The crate and the folder in which the file lies.
    pub area: String,
    /// A text that no other candidate has, and that does not change with other files.
    pub identity: String,
    pub mutation: Mutation,
}

/// The area of a file: the name of the package, and the first folder below `src`.
pub(crate) fn area(package: &str, folder: &Path, file: &Path) -> String {
    let below = file.strip_prefix(folder.join("src")).unwrap_or(file);
    match below.components().next() {
        Some(first) if below.components().count() > 1 => {
            format!("{package}/{}", first.as_os_str().to_string_lossy())
        }
        _ => package.to_owned(),
    }
}

/// The candidates of one area that are not drawn yet.
struct DrawArea {
    /// For each kind, the remaining candidates; the last is drawn next.
    kinds: Vec<Vec<usize>>,
    turn: usize,
    /// The place of the next draw on a line that all areas share, and the distance to the one after.
    next: f64,
    step: f64,
}

impl DrawArea {
    fn new(name: &str, members: &[usize], candidates: &[MutantCandidate], seed: u64) -> Self {
        let mut kinds: BTreeMap<MutationKind, Vec<usize>> = BTreeMap::new();
        for &at in members {
            kinds.entry(candidates[at].mutation.kind).or_default().push(at);
        }
        for list in kinds.values_mut() {
            list.sort_by_key(|&at| hash(seed, &candidates[at].identity));
        }
        let start = hash(seed, name);
        let step = 1.0 / (members.len() as f64).sqrt();
        let part = (start >> 11) as f64 / (1_u64 << 53) as f64;
        Self {
            turn: (start % kinds.len() as u64) as usize,
            kinds: kinds.into_values().collect(),
            next: part * step,
            step,
        }
    }

    fn draw(&mut self) -> Option<usize> {
        let kinds = self.kinds.len();
        let drawn = (0..kinds).find_map(|more| {
            let at = (self.turn + more) % kinds;
            self.kinds[at].pop().map(|drawn| (at, drawn))
        });
        let (at, drawn) = drawn?;
        self.turn = at + 1;
        self.next += self.step;
        Some(drawn)
    }
}

/// The indices of all candidates in the order of the draw.
pub(crate) fn order(candidates: &[MutantCandidate], seed: u64) -> Vec<usize> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        members.entry(&candidate.area).or_default().push(at);
    }
    let mut areas: Vec<_> =
        members.iter().map(|(name, list)| DrawArea::new(name, list, candidates, seed)).collect();
    let mut drawn = Vec::with_capacity(candidates.len());
    while let Some((at, area)) =
        areas.iter_mut().enumerate().min_by(|(_, one), (_, other)| one.next.total_cmp(&other.next))
    {
        match area.draw() {
            Some(next) => drawn.push(next),
            None => {
                areas.swap_remove(at);
            }
        }
    }
    drawn
}

/// A number that depends on the seed and on each byte of the text (FNV-1a, then the last step of SplitMix64).
pub(crate) fn hash(seed: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut hash = text
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(area: &str, kind: MutationKind, at: usize) -> MutantCandidate {
        let mutation = Mutation { kind, range: at..at + 1, edits: Vec::new() };
        MutantCandidate {
            source: 0,
            area: area.to_owned(),
            identity: format!("{area} {at}"),
            mutation,
        }
    }

    /// 900 candidates in a large area, of which few are statements; 100 in a small area.
    fn some() -> Vec<MutantCandidate> {
        let kind = |at: usize| match at % 90 {
            0 => MutationKind::Statement,
            odd if odd % 2 == 1 => MutationKind::Operator,
            _ => MutationKind::Constant,
        };
        let large = (0..900).map(|at| candidate("a/large", kind(at), at));
        large.chain((0..100).map(|at| candidate("a", MutationKind::Constant, at))).collect()
    }

    #[test]
    fn every_candidate_is_drawn_once_in_an_order_that_the_seed_fixes() {
        let candidates = some();
        let drawn = order(&candidates, 1);
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(drawn, order(&candidates, 1));
        assert_ne!(drawn[..50], order(&candidates, 2)[..50]);
    }

    #[test]
    fn areas_are_drawn_by_the_root_of_their_sizes_and_kinds_by_turns() {
        let candidates = some();
        for seed in 0..5 {
            // Roots 30 and 10: of 24 draws 18 and 6, each give or take the start.
            let drawn = order(&candidates, seed);
            let small = drawn[..24].iter().filter(|&&at| candidates[at].area == "a").count();
            assert!((5..=7).contains(&small), "{small}");
            let large: Vec<_> = drawn.iter().filter(|&&at| candidates[at].area != "a").collect();
            let statements = large[..9]
                .iter()
                .filter(|&&&at| candidates[at].mutation.kind == MutationKind::Statement)
                .count();
            assert_eq!(statements, 3, "a third of the first nine");
        }
    }

    #[test]
    fn an_area_is_the_first_folder_below_the_sources_of_a_package() {
        let area = |file: &str| area("x", Path::new("crates/x"), Path::new(file));
        assert_eq!(area("crates/x/src/lib.rs"), "x");
        assert_eq!(area("crates/x/src/a/b/c.rs"), "x/a");
    }
}
