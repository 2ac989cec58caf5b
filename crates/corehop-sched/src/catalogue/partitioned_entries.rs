// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of tests that assign tasks to CPUs.

use super::Deadlines::{Arbitrary, Implicit};
use super::cached_entries::{RELOADS, SETS};
use super::partitioned::{
    as_given, by_blocks, by_demand, by_response, by_utilisation, c_equals_d, clustered, edf_os,
    every_assignment, every_assignment_by_priority, given_by_deadline, given_by_priority,
    softly_clustered,
};
use super::{
    BASE, BLOCKED, CACHED, Charging, EQUALS, Equals, Kind, P_EDF, P_EDF_QPA, P_FP, RANKS, Suffers,
    Test,
};
use crate::bill::Payer;
use crate::contents;

/// Every partitioned and semi-partitioned test.
pub(super) static PARTITIONED: &[Test] = &[
    Test {
        name: "p-edf-nf",
        title: "next fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<0, false>,
        ..P_EDF
    },
    Test {
        name: "p-edf-nfd",
        title: "next fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<0, true>,
        ..P_EDF
    },
    Test {
        name: "p-edf-ff",
        title: "first fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<1, false>,
        ..P_EDF
    },
    Test {
        name: "p-edf-ffd",
        title: "first fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<1, true>,
        ..P_EDF
    },
    Test {
        name: "p-edf-bf",
        title: "best fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<2, false>,
        ..P_EDF
    },
    Test {
        name: "p-edf-bfd",
        title: "best fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<2, true>,
        ..P_EDF
    },
    Test {
        name: "p-edf-wf",
        title: "worst fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<3, false>,
        ..P_EDF
    },
    Test {
        name: "p-edf-wfd",
        title: "worst fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<3, true>,
        ..P_EDF
    },
    Test {
        name: "p-edf-awf",
        title: "almost-worst fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<4, false>,
        ..P_EDF
    },
    Test {
        name: "p-edf-awfd",
        title: "almost-worst fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<4, true>,
        ..P_EDF
    },
    Test {
        name: "p-edf-nf-qpa",
        title: "next fit in the order of the set; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<0, false>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-nfd-qpa",
        title: "next fit by falling utilisation; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<0, true>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-ff-qpa",
        title: "first fit in the order of the set; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<1, false>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-ffd-qpa",
        title: "first fit by falling utilisation; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<1, true>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-bf-qpa",
        title: "best fit in the order of the set; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<2, false>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-bfd-qpa",
        title: "best fit by falling utilisation; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<2, true>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-wf-qpa",
        title: "worst fit in the order of the set; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<3, false>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-wfd-qpa",
        title: "worst fit by falling utilisation; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<3, true>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-awf-qpa",
        title: "almost-worst fit in the order of the set; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<4, false>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-awfd-qpa",
        title: "almost-worst fit by falling utilisation; each CPU passes qpa",
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<4, true>,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-exact",
        title: "some assignment passes qpa on each CPU; at most 200,000 CPUs are asked",
        kind: Kind::Exact,
        citation: "exhaustive; Zhang and Burns 2009 on each CPU",
        assumes: &[BLOCKED],
        run: every_assignment,
        ..P_EDF_QPA
    },
    Test {
        name: "p-edf-given",
        title: "the CPU of each task, as the set states it; each CPU passes qpa",
        kind: Kind::Exact,
        citation: "Baruah, Rosier and Howell 1990, on each CPU; Zhang and Burns 2009",
        assumes: &[BLOCKED],
        run: given_by_deadline,
        ..P_EDF_QPA
    },
    Test {
        name: "p-fp-given",
        title: "the CPU of each task, as the set states it; each CPU passes p-fp-rta",
        kind: Kind::Exact,
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
        title: "some assignment passes p-fp-rta on each CPU; at most 200,000 CPUs are asked",
        kind: Kind::Exact,
        deadlines: Arbitrary,
        assumes: &[RANKS, EQUALS, BLOCKED],
        citation: "exhaustive; Lehoczky, RTSS 1990, on each CPU",
        run: every_assignment_by_priority,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-ffd",
        title: "first fit by falling utilisation; each CPU passes p-fp-rta",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        run: by_response::<1>,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-bfd",
        title: "best fit by falling utilisation; each CPU passes p-fp-rta",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        citation: "Lehoczky, RTSS 1990, on each CPU; delays as in Altmeyer, Davis and Maiza 2012, section 2",
        run: by_response::<2>,
        supplied: true,
        ..P_FP
    },
    Test {
        name: "p-fp-wfd",
        title: "worst fit by falling utilisation; each CPU passes p-fp-rta",
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
        title: "first fit by falling utilisation; each CPU passes p-fp-multiset-combined",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<1>,
        ..CACHED
    },
    Test {
        name: "p-fp-bfd-multiset-combined",
        scheduler: "partitioned fixed priorities, with cache reloads",
        title: "best fit by falling utilisation; each CPU passes p-fp-multiset-combined",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<2>,
        ..CACHED
    },
    Test {
        name: "p-fp-wfd-multiset-combined",
        scheduler: "partitioned fixed priorities, with cache reloads",
        title: "worst fit by falling utilisation; each CPU passes p-fp-multiset-combined",
        equals: Equals::NotKnown,
        assumes: &[RANKS, RELOADS, SETS],
        citation: "Altmeyer, Davis and Maiza, RTS 48(5), 2012, on each CPU",
        run: by_blocks::<3>,
        ..CACHED
    },
    Test {
        name: "sp-edf-given",
        scheduler: "semi-partitioned EDF",
        title: "the CPU of each task, or its pieces (C', T, D'), as the set states them; each CPU passes qpa",
        deadlines: Arbitrary,
        assumes: &["A piece is released when the one before it is due."],
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
        title: "first fit by falling utilisation; what fits nowhere is cut into (C', T, D = C') and the rest",
        deadlines: Arbitrary,
        assumes: &["A task that is cut is done within its period, also where it is due later."],
        citation: "Burns, Davis, Wang and Zhang, RTS 48(1), 2012",
        run: c_equals_d,
        payer: Payer::EachPiece,
        charging: Charging::NotKnown,
        ..BASE
    },
    Test {
        name: "sp-edf-os",
        scheduler: "semi-partitioned EDF, soft: tasks change their CPU between jobs only",
        title: "U <= m and each u <= 1; worst fit by falling utilisation, the rest cut; R = T + w / (1 - s)",
        kind: Kind::Exact,
        deadlines: Implicit,
        assumes: &[
            "Yes means that tardiness is bounded, not that deadlines are met.",
            "Shares are kept as whole jobs; a CPU serves tasks that were cut before its fixed ones.",
        ],
        citation: "Anderson, Erickson, Devi and Casses, RTCSA 2014 (the bounds follow from its rules)",
        run: edf_os,
        // A job that began elsewhere than the one before it begins cold, as its WCET supposes.
        suffers: Suffers::Preemptions,
        payer: Payer::Anybody,
        ..BASE
    },
    Test {
        name: "c-edf-2",
        scheduler: "EDF in clusters of 2 CPUs",
        title: "worst fit by falling utilisation into clusters of 2; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<2>,
        suffers: Suffers::Within(2),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-2",
        scheduler: "EDF in clusters of 2 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 2; U <= 2 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<2>,
        suffers: Suffers::Within(2),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "c-edf-3",
        scheduler: "EDF in clusters of 3 CPUs",
        title: "worst fit by falling utilisation into clusters of 3; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<3>,
        suffers: Suffers::Within(3),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-3",
        scheduler: "EDF in clusters of 3 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 3; U <= 3 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<3>,
        suffers: Suffers::Within(3),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "c-edf-4",
        scheduler: "EDF in clusters of 4 CPUs",
        title: "worst fit by falling utilisation into clusters of 4; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<4>,
        suffers: Suffers::Within(4),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-4",
        scheduler: "EDF in clusters of 4 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 4; U <= 4 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<4>,
        suffers: Suffers::Within(4),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "c-edf-6",
        scheduler: "EDF in clusters of 6 CPUs",
        title: "worst fit by falling utilisation into clusters of 6; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<6>,
        suffers: Suffers::Within(6),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-6",
        scheduler: "EDF in clusters of 6 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 6; U <= 6 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<6>,
        suffers: Suffers::Within(6),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "c-edf-8",
        scheduler: "EDF in clusters of 8 CPUs",
        title: "worst fit by falling utilisation into clusters of 8; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<8>,
        suffers: Suffers::Within(8),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-8",
        scheduler: "EDF in clusters of 8 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 8; U <= 8 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<8>,
        suffers: Suffers::Within(8),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "c-edf-12",
        scheduler: "EDF in clusters of 12 CPUs",
        title: "worst fit by falling utilisation into clusters of 12; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<12>,
        suffers: Suffers::Within(12),
        payer: Payer::EachGroup,
        ..BASE
    },
    Test {
        name: "soft-c-edf-12",
        scheduler: "EDF in clusters of 12 CPUs, soft",
        title: "worst fit by falling utilisation into clusters of 12; U <= 12 in each, and each u <= 1",
        deadlines: Arbitrary,
        assumes: &["Yes means that tardiness is bounded, not that deadlines are met."],
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; Devi and Anderson, RTSS 2005",
        run: softly_clustered::<12>,
        suffers: Suffers::Within(12),
        payer: Payer::EachGroup,
        ..BASE
    },
];
