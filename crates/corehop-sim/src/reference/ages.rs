// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference model of quad-age policies, driven by the letters of their names, and of the duel of DRRIP, with
//! lists of its leaders.

use std::collections::BTreeMap;

use corehop_plan::platform::Replacement;

/// The full name of a quad-age policy; None for other policies.
pub(super) fn quad_age_name(policy: Replacement) -> Option<&'static str> {
    let name = if policy == Replacement::QuadAge { "qlru_h21_m2_r0_u0_umo" } else { policy.word() };
    name.starts_with("qlru_").then_some(name)
}

fn digit(name: &str, at: usize) -> u32 {
    u32::from(name.as_bytes()[at] - b'0')
}

/// The ages of the ways of a set; a way that never held a line has age 3.
pub(super) type Ages = BTreeMap<u32, u32>;

fn age(ages: &Ages, way: u32) -> u32 {
    ages.get(&way).copied().unwrap_or(3)
}

/// Updates the ages after a use of `way` in a set of `ways` ways.
pub(super) fn age_by_use(name: &str, ages: &mut Ages, way: u32, ways: u32, hit: bool) {
    let new = match (hit, age(ages, way)) {
        (false, _) => digit(name, 10),
        (true, 3) => digit(name, 6),
        (true, 2) => digit(name, 7),
        (true, _) => 0,
    };
    ages.insert(way, new);
    if name.ends_with("_umo") {
        return;
    }
    let update = digit(name, 16);
    let growing: Vec<u32> = (0..ways).filter(|&other| update != 1 || other != way).collect();
    for _ in 0..if update == 2 { 1 } else { 3 } {
        if growing.iter().all(|&other| age(ages, other) < 3) {
            for &other in &growing {
                *ages.entry(other).or_insert(3) += 1;
            }
        }
    }
}

/// The victim among the ways `allowed`.
pub(super) fn age_victim(name: &str, ages: &mut Ages, allowed: &[u32]) -> u32 {
    loop {
        match allowed.iter().find(|&&way| age(ages, way) == 3) {
            Some(&way) => return way,
            None if digit(name, 13) == 1 => return allowed[0],
            None => {
                for &way in allowed {
                    *ages.entry(way).or_insert(3) += 1;
                }
            }
        }
    }
}

/// The leader sets of SRRIP and the leader sets of BRRIP in a cache of `sets` sets.
pub(super) fn leaders(sets: u32) -> [Vec<u32>; 2] {
    if sets < 2 {
        return [vec![0], Vec::new()];
    }
    let count = if sets < 8 { 1 } else { (sets / 4).min(32) };
    let span = sets / count - sets / count % 2;
    let first = |duel: u32| duel * span;
    let own: Vec<u32> = (0..count).map(|duel| first(duel) + duel % span).collect();
    [own, (0..count).map(|duel| first(duel + 1) - 1 - duel % span).collect()]
}
