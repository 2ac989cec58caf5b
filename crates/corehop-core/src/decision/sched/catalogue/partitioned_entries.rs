// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of tests that assign tasks to CPUs.

use super::Deadlines::{Arbitrary, Implicit};
use super::partitioned::{
    by_demand, by_utilisation, c_equals_d, clustered, edf_os, every_assignment, softly_clustered,
};
use super::{BASE, Kind, Test};

const P_EDF: &str = "partitioned EDF";

/// Every partitioned and semi-partitioned test.
pub(super) static PARTITIONED: &[Test] = &[
    Test {
        name: "p-edf-nf",
        scheduler: P_EDF,
        title: "next fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<0, false>,
        ..BASE
    },
    Test {
        name: "p-edf-nfd",
        scheduler: P_EDF,
        title: "next fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<0, true>,
        ..BASE
    },
    Test {
        name: "p-edf-ff",
        scheduler: P_EDF,
        title: "first fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<1, false>,
        ..BASE
    },
    Test {
        name: "p-edf-ffd",
        scheduler: P_EDF,
        title: "first fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<1, true>,
        ..BASE
    },
    Test {
        name: "p-edf-bf",
        scheduler: P_EDF,
        title: "best fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<2, false>,
        ..BASE
    },
    Test {
        name: "p-edf-bfd",
        scheduler: P_EDF,
        title: "best fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<2, true>,
        ..BASE
    },
    Test {
        name: "p-edf-wf",
        scheduler: P_EDF,
        title: "worst fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<3, false>,
        ..BASE
    },
    Test {
        name: "p-edf-wfd",
        scheduler: P_EDF,
        title: "worst fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<3, true>,
        ..BASE
    },
    Test {
        name: "p-edf-awf",
        scheduler: P_EDF,
        title: "almost-worst fit in the order of the set; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<4, false>,
        ..BASE
    },
    Test {
        name: "p-edf-awfd",
        scheduler: P_EDF,
        title: "almost-worst fit by falling utilisation; U <= 1 on each CPU",
        deadlines: Implicit,
        citation: "Lopez, Diaz and Garcia, RTS 28(1), 2004",
        run: by_utilisation::<4, true>,
        ..BASE
    },
    Test {
        name: "p-edf-nf-qpa",
        scheduler: P_EDF,
        title: "next fit in the order of the set; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<0, false>,
        ..BASE
    },
    Test {
        name: "p-edf-nfd-qpa",
        scheduler: P_EDF,
        title: "next fit by falling utilisation; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<0, true>,
        ..BASE
    },
    Test {
        name: "p-edf-ff-qpa",
        scheduler: P_EDF,
        title: "first fit in the order of the set; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<1, false>,
        ..BASE
    },
    Test {
        name: "p-edf-ffd-qpa",
        scheduler: P_EDF,
        title: "first fit by falling utilisation; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<1, true>,
        ..BASE
    },
    Test {
        name: "p-edf-bf-qpa",
        scheduler: P_EDF,
        title: "best fit in the order of the set; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<2, false>,
        ..BASE
    },
    Test {
        name: "p-edf-bfd-qpa",
        scheduler: P_EDF,
        title: "best fit by falling utilisation; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<2, true>,
        ..BASE
    },
    Test {
        name: "p-edf-wf-qpa",
        scheduler: P_EDF,
        title: "worst fit in the order of the set; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<3, false>,
        ..BASE
    },
    Test {
        name: "p-edf-wfd-qpa",
        scheduler: P_EDF,
        title: "worst fit by falling utilisation; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<3, true>,
        ..BASE
    },
    Test {
        name: "p-edf-awf-qpa",
        scheduler: P_EDF,
        title: "almost-worst fit in the order of the set; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<4, false>,
        ..BASE
    },
    Test {
        name: "p-edf-awfd-qpa",
        scheduler: P_EDF,
        title: "almost-worst fit by falling utilisation; each CPU passes qpa",
        deadlines: Arbitrary,
        citation: "Baruah and Fisher, RTSS 2005; Zhang and Burns 2009",
        run: by_demand::<4, true>,
        ..BASE
    },
    Test {
        name: "p-edf-exact",
        scheduler: P_EDF,
        title: "some assignment passes qpa on each CPU; at most 200,000 CPUs are asked",
        kind: Kind::Exact,
        deadlines: Arbitrary,
        citation: "exhaustive; Zhang and Burns 2009 on each CPU",
        run: every_assignment,
        ..BASE
    },
    Test {
        name: "sp-edf-c=d",
        scheduler: "semi-partitioned EDF",
        title: "first fit by falling utilisation; what fits nowhere is cut into (C', T, D = C') and the rest",
        deadlines: Arbitrary,
        citation: "Burns, Davis, Wang and Zhang, RTS 48(1), 2012",
        run: c_equals_d,
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
        ..BASE
    },
    Test {
        name: "c-edf-2",
        scheduler: "EDF in clusters of 2 CPUs",
        title: "worst fit by falling utilisation into clusters of 2; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<2>,
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
        ..BASE
    },
    Test {
        name: "c-edf-3",
        scheduler: "EDF in clusters of 3 CPUs",
        title: "worst fit by falling utilisation into clusters of 3; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<3>,
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
        ..BASE
    },
    Test {
        name: "c-edf-4",
        scheduler: "EDF in clusters of 4 CPUs",
        title: "worst fit by falling utilisation into clusters of 4; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<4>,
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
        ..BASE
    },
    Test {
        name: "c-edf-6",
        scheduler: "EDF in clusters of 6 CPUs",
        title: "worst fit by falling utilisation into clusters of 6; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<6>,
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
        ..BASE
    },
    Test {
        name: "c-edf-8",
        scheduler: "EDF in clusters of 8 CPUs",
        title: "worst fit by falling utilisation into clusters of 8; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<8>,
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
        ..BASE
    },
    Test {
        name: "c-edf-12",
        scheduler: "EDF in clusters of 12 CPUs",
        title: "worst fit by falling utilisation into clusters of 12; g-edf accepts each",
        deadlines: Arbitrary,
        citation: "Calandrino, Anderson and Baumberger, ECRTS 2007; g-edf",
        run: clustered::<12>,
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
        ..BASE
    },
];
