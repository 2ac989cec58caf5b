// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random machines and random accesses, all from a seed.

use crate::spec::{CacheSpec, Spec};
use corehop_plan::platform::{CacheKind, Inclusion, Index, Lookup, Protocol, Replacement};

/// A random number generator (Steele, Lea and Flood's SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    pub(super) fn in_100(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn groups(cpus: usize, by: usize) -> Vec<Vec<usize>> {
    (0..cpus).step_by(by).map(|first| (first..first + by).collect()).collect()
}

const POLICIES: [Replacement; 15] = [
    Replacement::Lru,
    Replacement::Lru,
    Replacement::Lru,
    Replacement::Fifo,
    Replacement::TreePlru,
    Replacement::BitPlru,
    Replacement::Nru,
    Replacement::Random,
    Replacement::Srrip,
    Replacement::Drrip,
    Replacement::Drrip,
    Replacement::QuadAge,
    Replacement::QlruH11M1R0U0,
    Replacement::QlruH11M1R1U2,
    Replacement::QlruH00M1R0U1,
];
/// The inclusion rules to draw from; the rules that fill a cache when a line moves inwards are
/// listed twice, because the quick loop handles only caches with such rules.
const INCLUSIONS: [Inclusion; 6] = [
    Inclusion::Inclusive,
    Inclusion::Inclusive,
    Inclusion::Exclusive,
    Inclusion::MostlyExclusive,
    Inclusion::NonInclusive,
    Inclusion::NonInclusive,
];

fn cache(dice: &mut Dice, level: u32, kind: CacheKind, instances: Vec<Vec<usize>>) -> CacheSpec {
    let (sets, ways): (&[u32], &[u32]) = match level {
        1 => (&[1, 2, 3, 4], &[1, 2, 3, 4]),
        2 => (&[1, 2, 3, 4, 6], &[1, 2, 4, 6, 8, 9]),
        _ => (&[1, 2, 3, 5, 6, 8], &[2, 4, 8, 12, 16, 17, 20, 32]),
    };
    let mut cache = CacheSpec::new(level, kind, *dice.one(sets), *dice.one(ways));
    cache.replacement = *dice.one(&POLICIES);
    cache.inclusion = *dice.one(&INCLUSIONS);
    let indices = [Index::Modulo, Index::Modulo, Index::Fold(3), Index::Parity(vec![0x15])];
    cache.index = dice.one(&indices).clone();
    if !cache.index.fits(u64::from(cache.sets)) {
        cache.index = Index::Modulo;
    }
    cache.instances = instances;
    if level > 1 && cache.inclusion != Inclusion::Inclusive && dice.in_100(40) {
        cache.snoop_filter = Some(Box::new(snoop_filter(dice, level)));
    }
    cache
}

/// Creates a snoop filter that is mostly too small for the caches inside.
fn snoop_filter(dice: &mut Dice, level: u32) -> CacheSpec {
    let (sets, ways) = (*dice.one(&[1, 2, 3, 4]), *dice.one(&[1, 2, 4, 6, 12]));
    let mut filter = CacheSpec::new(level, CacheKind::Unified, sets, ways);
    filter.replacement = *dice.one(&POLICIES);
    filter
}

/// A machine of one or two packages, with or without SMT, of one to three levels.
pub(super) fn machine(dice: &mut Dice) -> Spec {
    let packages = 1 + dice.below(2) as usize;
    let cores = *dice.one(&[1, 2, 2, 4]);
    let threads = *dice.one(&[1, 1, 1, 2]);
    let each = cores * threads;
    let cpus = packages * each;
    let shape = dice.below(5);
    let mut caches = vec![cache(dice, 1, CacheKind::Data, groups(cpus, threads))];
    if dice.in_100(60) {
        caches.push(cache(dice, 1, CacheKind::Instruction, groups(cpus, threads)));
    } else {
        caches[0].kind = CacheKind::Unified;
    }
    let pair = if cores > 1 { 2 * threads } else { threads };
    match shape {
        0 => caches.push(cache(dice, 2, CacheKind::Unified, groups(cpus, each))),
        1 => caches.push(cache(dice, 2, CacheKind::Unified, groups(cpus, threads))),
        2 | 3 => {
            caches.push(cache(dice, 2, CacheKind::Unified, groups(cpus, threads)));
            caches.push(cache(dice, 3, CacheKind::Unified, groups(cpus, each)));
        }
        _ => {
            caches.push(cache(dice, 2, CacheKind::Unified, groups(cpus, pair)));
            caches.push(cache(dice, 3, CacheKind::Unified, groups(cpus, each)));
        }
    }
    let around = caches.iter().find(|cache| cache.level == 2).unwrap().inclusion;
    if !around.takes_victims() {
        caches[0].write_through = dice.in_100(20);
        caches[0].write_allocate = !dice.in_100(15);
    }
    Spec {
        caches,
        cores: (0..cpus).map(|cpu| cpu / threads).collect(),
        packages: (0..cpus).map(|cpu| cpu / each).collect(),
        protocol: *dice.one(&[Protocol::Mesi, Protocol::Mesif, Protocol::Moesi]),
        lookup: *dice.one(&[Lookup::Snooping, Lookup::Directory]),
        line: 64,
    }
}
