// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests that charge cache reloads by the blocks that tasks use.

use super::Deadlines::Constrained;
use super::partitioned::{NO_BLOCKS, by_pairs};
use super::{CACHED as BASE, Equals, RANKS, Suffers, Test, with_bounds};
use crate::cache_aware::{Approach, edf, fixed, pairs};
use crate::system::System;
use crate::verdict::{TestAnswer, Verdict};

pub(super) const RELOADS: &str = "A preemption costs no more than the time to reload the blocks that were lost, and nothing else \
                       is lost with the cache (no timing anomalies).";
pub(super) const SETS: &str =
    "ECBs and UCBs are those of a direct-mapped cache, or bound those of an LRU cache.";

/// Creates one test for fixed priorities and one for EDF, by one approach.
macro_rules! both {
    ($fixed:literal, $edf:literal, $at:literal, $gamma:literal, $source:literal) => {
        [
            Test {
                name: $fixed,
                scheduler: "fixed priorities on one CPU, with cache reloads",
                title: concat!(
                    "R = C + sum over hp of (ceil(R / T) C + gamma), gamma = BRT ",
                    $gamma
                ),
                deadlines: Constrained,
                one_cpu: true,
                equals: Equals::NotKnown,
                assumes: &[RANKS, RELOADS, SETS],
                citation: concat!($source, "; Altmeyer, Davis and Maiza, RTS 48(5), 2012"),
                run: fixed_priority::<$at>,
                ..BASE
            },
            Test {
                name: $edf,
                scheduler: "EDF on one CPU, with cache reloads",
                title: concat!(
                    "DBF(t) + sum of gamma <= t at every deadline, gamma = BRT ",
                    $gamma
                ),
                deadlines: Constrained,
                one_cpu: true,
                assumes: &[RELOADS, SETS],
                citation: concat!($source, "; Lunniss, Altmeyer, Maiza and Davis, RTAS 2013"),
                run: earliest_deadline::<$at>,
                ..BASE
            },
        ]
    };
}

/// The pairs of tests (fixed priorities, EDF), in the order of [`Approach::ALL`].
pub(super) static BY_BLOCKS: [[Test; 2]; 7] = [
    both!("p-fp-ecb-only", "edf-ecb-only", 0, "|ECB_j|", "Busquets-Mataix et al., RTAS 1996"),
    both!(
        "p-fp-ucb-only",
        "edf-ucb-only",
        1,
        "max |UCB_k| over aff",
        "Lee et al., IEEE TC 47(6), 1998"
    ),
    both!(
        "p-fp-ucb-union",
        "edf-ucb-union",
        2,
        "|union of UCB_k over aff, intersected with ECB_j|",
        "Tan and Mooney, ACM TECS 6(1), 2007"
    ),
    both!(
        "p-fp-ecb-union",
        "edf-ecb-union",
        3,
        "max over aff of |UCB_k intersected with the union of ECB_h over hep(j)|",
        "Altmeyer, Davis and Maiza, RTSS 2011"
    ),
    both!(
        "p-fp-ucb-union-multiset",
        "edf-ucb-union-multiset",
        4,
        "|M_ucb intersected with M_ecb|, where each block counts as often as the block can be useful",
        "Altmeyer, Davis and Maiza, RTS 48(5), 2012"
    ),
    both!(
        "p-fp-ecb-union-multiset",
        "edf-ecb-union-multiset",
        5,
        "sum of the E_j(R_i) largest of |UCB_k intersected with the union of ECB_h|",
        "Altmeyer, Davis and Maiza, RTS 48(5), 2012"
    ),
    both!(
        "p-fp-multiset-combined",
        "edf-multiset-combined",
        6,
        "the smaller of the two multiset forms",
        "Altmeyer, Davis and Maiza, RTS 48(5), 2012"
    ),
];

/// The assumption that the delays of one task do not grow when another task also preempts.
const SUBADDITIVE: &str = "The loss of a job to several preemptors is at most the sum of the losses to each alone, and at most \
                           the loss to one preemptor of their sizes together.";

/// The refusal of tests by pair when no delays by pair are given.
pub const NO_PAIRS: &str = "the test charges delays by pair of tasks: give --costs samples or a model with preemptors of several \
                            sizes (`corehop measure synthetic --preemptor-wss 16KiB,256KiB,4MiB`), or --delay";

/// The tests that charge measured delays by pair.
pub(super) static BY_PAIRS: [Test; 5] = [
    Test {
        name: "p-fp-pairs",
        scheduler: "fixed priorities on one CPU, with delays by pair",
        title: "R = C + sum over hp of (ceil(R / T) C + gamma), gamma from measured delays d(k, s)",
        by_pair: true,
        equals: Equals::NotKnown,
        assumes: &[RANKS, SUBADDITIVE],
        citation: "after Altmeyer, Davis and Maiza, RTS 48(5), 2012, with sizes in place of blocks",
        run: |system| {
            let Some(pairs) = system.pairs else { return TestAnswer::unknown(NO_PAIRS) };
            with_bounds(pairs::responses(system.tasks, pairs))
        },
        ..PAIRED
    },
    Test {
        name: "edf-pairs",
        scheduler: "EDF on one CPU, with delays by pair",
        title: "DBF(t) + sum of gamma <= t at every deadline, gamma from measured delays d(k, s)",
        by_pair: true,
        assumes: &[SUBADDITIVE],
        citation: "after Lunniss, Altmeyer, Maiza and Davis, RTAS 2013, with sizes in place of blocks",
        run: |system| {
            let Some(pairs) = system.pairs else { return TestAnswer::unknown(NO_PAIRS) };
            TestAnswer::plain(Verdict::sufficient(
                pairs::schedulable(system.tasks, pairs).is_schedulable(),
            ))
        },
        ..PAIRED
    },
    Test {
        name: "p-fp-ffd-pairs",
        title: "first fit packs the tasks by falling utilisation; p-fp-pairs accepts each CPU",
        run: by_pairs::<1>,
        ..PACKED
    },
    Test {
        name: "p-fp-bfd-pairs",
        title: "best fit packs the tasks by falling utilisation; p-fp-pairs accepts each CPU",
        run: by_pairs::<2>,
        ..PACKED
    },
    Test {
        name: "p-fp-wfd-pairs",
        title: "worst fit packs the tasks by falling utilisation; p-fp-pairs accepts each CPU",
        run: by_pairs::<3>,
        ..PACKED
    },
];

/// The fields that both tests on one CPU share. The tests charge nothing to jobs, although preemptions happen.
const PAIRED: Test =
    Test { suffers: Suffers::Preemptions, deadlines: Constrained, one_cpu: true, ..BASE };

/// The fields that the partitioned tests by pair share.
const PACKED: Test = Test {
    scheduler: "partitioned fixed priorities, with delays by pair",
    one_cpu: false,
    by_pair: true,
    equals: Equals::NotKnown,
    assumes: &[RANKS, SUBADDITIVE],
    citation: "after Altmeyer, Davis and Maiza, RTS 48(5), 2012, with sizes in place of blocks, on each CPU",
    ..PAIRED
};

fn fixed_priority<const APPROACH: usize>(system: System<'_>) -> TestAnswer {
    let Some(cache) = system.cache else { return TestAnswer::unknown(NO_BLOCKS) };
    let approach = Approach::ALL[APPROACH];
    with_bounds(fixed::responses(system.tasks, &cache.footprints, cache.reload, approach))
}

fn earliest_deadline<const APPROACH: usize>(system: System<'_>) -> TestAnswer {
    let Some(cache) = system.cache else { return TestAnswer::unknown(NO_BLOCKS) };
    let approach = Approach::ALL[APPROACH];
    let verdict = edf::schedulable(system.tasks, &cache.footprints, cache.reload, approach);
    TestAnswer::plain(Verdict::sufficient(verdict.is_schedulable()))
}
