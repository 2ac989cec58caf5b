// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the tests that assign tasks to CPUs.

use super::Deadlines::{Arbitrary, Implicit};
use super::cached_entries::{RELOADS, SETS};
use super::partitioned::{
    as_given, by_blocks, by_demand, by_response, by_utilisation, c_equals_d, clustered, edf_os,
    every_assignment, every_assignment_by_priority, given_by_deadline, given_by_priority,
    softly_clustered,
};
use super::{
    BASE, BLOCKED, CACHED, Charging, EQUALS, Equals, P_EDF, P_EDF_QPA, P_FP, RANKS, Suffers, Test,
    TestExactness,
};
use crate::bill::Payer;
use crate::contents;

/// Creates the tests of partitioned EDF for each fit and both orders. The fits follow the order of
/// [`Fit::ALL`](crate::partition::Fit::ALL).
macro_rules! packings {
    ($run:ident, $base:ident, $suffix:literal, $asks:literal, $citation:literal) => {
        packings!(@each $run, $base, $suffix, $asks, $citation;
            0 "nf" "next fit", 1 "ff" "first fit", 2 "bf" "best fit", 3 "wf" "worst fit", 4 "awf" "almost-worst fit")
    };
    (@each $run:ident, $base:ident, $suffix:literal, $asks:literal, $citation:literal;
        $($fit:literal $short:literal $long:literal),*) => {
        [$([
            Test {
                name: concat!("p-edf-", $short, $suffix),
                title: concat!($long, " packs the tasks in the order of the set; ", $asks),
                citation: $citation,
                run: $run::<$fit, false>,
                ..$base
            },
            Test {
                name: concat!("p-edf-", $short, "d", $suffix),
                title: concat!($long, " packs the tasks by falling utilisation; ", $asks),
                citation: $citation,
                run: $run::<$fit, true>,
                ..$base
            },
        ]),*]
    };
}

/// The packing tests by acceptance condition for each CPU, then by fit, then by order.
pub(super) static PACKED: [[[Test; 2]; 5]; 2] = [
    packings!(
        by_utilisation,
        P_EDF_FULL,
        "",
        "U <= 1 on each CPU",
        "Lopez, Diaz and Garcia, RTS 28(1), 2004"
    ),
    packings!(
        by_demand,
        P_EDF_QPA,
        "-qpa",
        "qpa accepts each CPU",
        "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009"
    ),
];

/// The fields of tests that fill each CPU up to its utilisation.
const P_EDF_FULL: Test = Test { deadlines: Implicit, ..P_EDF };

/// Creates a hard and a soft EDF test for clusters of the given numbers of CPUs.
macro_rules! clusters {
    ($($cpus:literal),*) => {
        [$([
            Test {
                name: concat!("c-edf-", $cpus),
                scheduler: concat!("EDF in clusters of ", $cpus, " CPUs"),
                title: concat!(
                    "worst fit packs the tasks by falling utilisation into clusters of ", $cpus, " CPUs; g-edf accepts each cluster"
                ),
                deadlines: Arbitrary,
                citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
                run: clustered::<$cpus>,
                suffers: Suffers::Within($cpus),
                payer: Payer::EachGroup,
                ..BASE
            },
            Test {
                name: concat!("soft-c-edf-", $cpus),
                scheduler: concat!("EDF in clusters of ", $cpus, " CPUs, soft"),
                title: concat!(
                    "worst fit packs the tasks by falling utilisation into clusters of ", $cpus, " CPUs; U <= ", $cpus,
                    " in each cluster, and each u <= 1"
                ),
                deadlines: Arbitrary,
                assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
                citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
                run: softly_clustered::<$cpus>,
                suffers: Suffers::Within($cpus),
                payer: Payer::EachGroup,
                ..BASE
            },
        ]),*]
    };
}

/// The tests for clusters.
pub(super) static CLUSTERED: [[Test; 2]; 6] = clusters!(2, 3, 4, 6, 8, 12);

/// Every other partitioned and semi-partitioned test.
pub(super) static PARTITIONED: &[Test] = &[
    Test {
        name: "p-edf-exact",
        title: "qpa accepts each CPU of some assignment; the search tests at most 200,000 CPUs",
        kind: TestExactness::Exact,
        citation: "exhaustive; Zhang and Burns 2009 on each CPU",
        assumes: &[BLOCKED],
        run: every_assignment,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-given",
        title: "the set states the CPU of each task; qpa accepts each CPU",
        kind: TestExactness::Exact,
        citation: "Baruah, Rosier and Howell 1990, on each CPU; Zhang and Burns 2009",
        assumes: &[BLOCKED],
        run: given_by_deadline,
        ..P_EDF_QPA
    },
    Test {
        name: "p-fp-given",
        title: "the set states the CPU of each task; p-fp-rta accepts each CPU",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        assumes: &[RANKS, EQUALS, BLOCKED],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        knows: contents::ALL,
        run: given_by_priority,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-exact",
        title: "p-fp-rta accepts each CPU of some assignment; the search tests at most 200,000 CPUs",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        assumes: &[RANKS, EQUALS, BLOCKED],
        citation: "exhaustive; Lehoczky, RTSS 1990, on each CPU",
        run: every_assignment_by_priority,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-ffd",
        title: "first fit packs the tasks by falling utilisation; p-fp-rta accepts each CPU",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        run: by_response::<1>,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-bfd",
        title: "best fit packs the tasks by falling utilisation; p-fp-rta accepts each CPU",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        run: by_response::<2>,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-wfd",
        title: "worst fit packs the tasks by falling utilisation; p-fp-rta accepts each CPU",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        run: by_response::<3>,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-ffd-multiset-combined",
        scheduler: "partitioned fixed priorities, with cache reloads",
        title: "first fit packs the tasks by falling utilisation; p-fp-multiset-combined accepts each CPU",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<1>,
        ..CACHED
    },
    Test {
        name: "p-fp-bfd-multiset-combined",
        scheduler: "partitioned fixed priorities, with cache reloads",
        title: "best fit packs the tasks by falling utilisation; p-fp-multiset-combined accepts each CPU",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<2>,
        ..CACHED
    },
    Test {
        name: "p-fp-wfd-multiset-combined",
        scheduler: "partitioned fixed priorities, with cache reloads",
        title: "worst fit packs the tasks by falling utilisation; p-fp-multiset-combined accepts each CPU",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<3>,
        ..CACHED
    },
    Test {
        name: "sp-edf-given",
        scheduler: "semi-partitioned EDF",
        title: "the set states the CPU of each task, or the task's pieces (C', T, D'); qpa accepts each CPU",
        deadlines: Arbitrary,
        assumes: &["A piece is released at the deadline of the previous piece."],
        citation: "Burns, Davis, Wang and Zhang, RTS 48(1), 2012; Zhang and Burns 2009",
        run: as_given,
        suffers: Suffers::Everything,
        payer: Payer::EachPiece,
        charging: Charging::NotKnown,
        ..BASE
    },
    Test {
        name: "sp-edf-c=d",
        scheduler: "semi-partitioned EDF",
        title: "first fit packs the tasks by falling utilisation; a task that fits on no CPU is cut into (C', T, D = C') and the rest",
        deadlines: Arbitrary,
        assumes: &["A split task finishes within its period, even if its deadline is later."],
        citation: "Burns, Davis, Wang and Zhang, RTS 48(1), 2012",
        run: c_equals_d,
        payer: Payer::EachPiece,
        charging: Charging::NotKnown,
        ..BASE
    },
    Test {
        name: "sp-edf-os",
        scheduler: "semi-partitioned EDF, soft: tasks change their CPU between jobs only",
        title: "U <= m and each u <= 1; worst fit packs the tasks by falling utilisation, and tasks that do not fit are cut; R = T + w / (1 - s)",
        kind: TestExactness::Exact,
        deadlines: Implicit,
        assumes: &[
            "Yes means that tardiness is bounded, not that deadlines are met.",
            "Shares consist of whole jobs; a CPU serves split tasks before its fixed tasks.",
        ],
        citation: "Anderson, Erickson, Devi and Casses, RTCSA 2014 (the bounds follow from its rules)",
        run: edf_os,
        // A job that began elsewhere than the one before it begins cold, as its WCET supposes.
        suffers: Suffers::Preemptions,
        payer: Payer::Anybody,
        ..BASE
    },
];
