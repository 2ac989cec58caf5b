// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quad-age policies and DRRIP in caches small enough to follow with a pencil.

use crate::{Access, AccessOutcome, CacheSpec, Hierarchy, Spec};
use corehop_plan::platform::{CacheKind, Lookup, Protocol, Replacement};

/// One CPU with one cache of four ways.
fn cache(replacement: Replacement, sets: u32) -> Hierarchy {
    let mut cache = CacheSpec::new(1, CacheKind::Unified, sets, 4);
    cache.instances = vec![vec![0]];
    cache.replacement = replacement;
    let spec = Spec {
        caches: vec![cache],
        cores: vec![0],
        packages: vec![0],
        protocol: Protocol::Mesi,
        lookup: Lookup::Snooping,
        line: 64,
    };
    Hierarchy::new(&spec, 1).unwrap()
}

/// The number of hits among these reads.
fn hits(cache: &mut Hierarchy, lines: impl IntoIterator<Item = u32>) -> usize {
    let hit = |&line: &u32| cache.access(0, line, Access::Read) == AccessOutcome::HIT;
    lines.into_iter().filter(hit).count()
}

/// The first of the new lines 5, 6, and so on that displaces `line`, after these reads.
fn displaced_by(replacement: Replacement, reads: &[u32], line: u32) -> u32 {
    let displaces = |&new: &u32| {
        let mut cache = cache(replacement, 1);
        hits(&mut cache, reads.iter().copied().chain(5..=new));
        hits(&mut cache, [line]) == 0
    };
    (5..20).find(displaces).unwrap()
}

#[test]
fn lines_used_again_outlast_a_scan_by_their_ages() {
    // Ages after 1, 2, 3, 4, 1, 1: 0 2 2 2. Line 5 finds 1 3 3 3, and 5 to 7 take what is 3. Line 8 finds 2 3 3 3, and 11
    // finds 3 3 3 3.
    assert_eq!(displaced_by(Replacement::QuadAge, &[1, 2, 3, 4, 1, 1], 1), 11);
    // With one use: 1 2 2 2, and 8 finds 3 3 3 3.
    assert_eq!(displaced_by(Replacement::QuadAge, &[1, 2, 3, 4, 1], 1), 8);
    // The fourth line leaves 1 1 1 1, which grow to 3 3 3 3; 1 becomes 1, and 7 leaves 1 1 1 1 again.
    assert_eq!(displaced_by(Replacement::QlruH11M1R0U0, &[1, 2, 3, 4, 1], 1), 8);
    // 1, used twice, is 0; with 7 come 0 1 1 1, which grow to 2 3 3 3; 10 leaves 2 1 1 1, which grow to 3 2 2 2.
    assert_eq!(displaced_by(Replacement::QlruH11M1R0U0, &[1, 2, 3, 4, 1, 1], 1), 11);
    assert_eq!(displaced_by(Replacement::Lru, &[1, 2, 3, 4, 1, 1], 1), 8);
}

#[test]
fn where_ages_grow_by_one_the_first_way_makes_room_for_want_of_an_old_line() {
    // After 1 to 4: 2 2 2 2. Then 3 2 3 3, 3 1 3 3, 3 0 3 3, 3 0 1 3, 3 0 0 3, 1 0 0 3, and 1 0 0 1 grow to 2 1 1 2.
    let reads = [1, 2, 3, 4, 2, 2, 2, 3, 3, 1, 4];
    assert_eq!(displaced_by(Replacement::QlruH11M1R1U2, &reads, 1), 5);
    // With growth to the last age 4 would be as old as 1, and both be 3: 1 is the first of them, too. 2 and 3 tell the
    // rules apart: they are 2 for one and 1 for the other.
    let next = |policy| [2, 3].map(|line| displaced_by(policy, &reads, line));
    assert_ne!(next(Replacement::QlruH11M1R1U2), next(Replacement::QlruH11M1R0U0));
}

#[test]
fn the_line_in_use_does_not_age_with_the_others() {
    // 3 3 3 1, 0 3 3 1, 0 1 3 1 with 5, and 0 1 1 1 with 6, of which the others grow to 2 3 1 3.
    let reads = [1, 2, 3, 4, 1, 5, 6];
    let policy = Replacement::QlruH00M1R0U1;
    let after = |new: u32| {
        let mut cache = cache(policy, 1);
        hits(&mut cache, reads.into_iter().chain(7..=new));
        (1..=new).filter(|&line| hits(&mut cache.clone(), [line]) == 1).collect::<Vec<_>>()
    };
    assert_eq!(after(6), [1, 4, 5, 6]);
    assert_eq!(after(7), [1, 4, 6, 7]);
    assert_eq!(after(8), [1, 6, 7, 8]);
    assert_eq!(after(9), [6, 7, 8, 9]);
}

/// The hits of each of four sets in the last of many rounds over `lines` lines.
fn hits_by_set(replacement: Replacement, lines: u32) -> [usize; 4] {
    let mut cache = cache(replacement, 4);
    hits(&mut cache, (0..50).flat_map(|_| 0..lines));
    let mut by_set = [0; 4];
    for line in 0..lines {
        by_set[line as usize % 4] += hits(&mut cache, [line]);
    }
    by_set
}

#[test]
fn sets_that_follow_insert_as_the_leaders_with_fewer_misses() {
    // Of four sets the first leads static insertion, the last the bimodal one. Of a cycle of twice the cache, static
    // insertion keeps nothing, and bimodal insertion what came into all ways but the one that each new line takes.
    assert_eq!(hits_by_set(Replacement::Srrip, 32), [0; 4]);
    let [near, second, third, far] = hits_by_set(Replacement::Drrip, 32);
    assert_eq!(near, 0);
    for hits in [second, third, far] {
        assert!((2..=3).contains(&hits), "{hits} of 8");
    }
    // What fits is kept by both.
    assert_eq!(hits_by_set(Replacement::Drrip, 16), [4; 4]);
}
