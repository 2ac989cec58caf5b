// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that accept more than others, and sets that stay accepted when they get easier.

use corehop_sched::Time;
use corehop_sched::{TaskSet, Verdict, all};
use proptest::prelude::*;

use crate::draw::{Due, accepts, parameters, sets, verdict};

/// The second accepts all that the first accepts.
const DOMINATED: [(&str, &str); 30] = [
    ("density", "qpa"),
    ("liu-layland", "hyperbolic"),
    ("hyperbolic", "p-fp-rta"),
    ("p-fp-rta", "p-fp-audsley"),
    ("p-fp-rta", "qpa"),
    ("np-fp-rta", "np-edf"),
    ("gfb", "g-edf"),
    ("load", "g-edf"),
    ("ff-dbf", "g-edf"),
    ("g-fp-bertogna-plain", "g-fp-bertogna"),
    ("g-fp-bertogna", "g-fp-guan"),
    ("g-fp-da-lc", "g-fp-guan"),
    ("g-fp-da-lc", "g-fp-da-lc-opa"),
    ("g-fp-dkc", "g-fp-da-lc-opa"),
    ("bcl-iterative", "rta"),
    ("p-edf-nf", "p-edf-exact"),
    ("p-edf-ffd", "p-edf-exact"),
    ("p-edf-bf", "p-edf-exact"),
    ("p-edf-wfd-qpa", "p-edf-exact"),
    ("p-edf-awf-qpa", "p-edf-exact"),
    ("p-edf-ffd-qpa", "sp-edf-c=d"),
    ("p-edf-exact", "soft-g-edf"),
    ("g-edf", "soft-g-edf"),
    ("c-edf-2", "soft-c-edf-2"),
    ("soft-c-edf-2", "soft-g-edf"),
    ("soft-c-edf-4", "soft-g-edf"),
    ("g-fp-guan", "cva"),
    ("g-fp-guan", "g-fp"),
    ("own-cpu", "g-fp"),
    ("own-cpu", "g-edf"),
];

/// Less work, or one more CPU, never turns yes into no. (`bak` is not among them: with deadlines beyond
/// periods less work of `k` lowers its `lambda`, by which others come to count as carrying in.)
const SUSTAINABLE: [&str; 15] = [
    "density",
    "qpa",
    "edf-rta",
    "liu-layland",
    "hyperbolic",
    "p-fp-rta",
    "gfb",
    "bcl",
    "bcl-iterative",
    "rta",
    "load",
    "g-fp-bertogna",
    "g-fp-guan",
    "g-fp-da-lc",
    "g-fp-da-lc-opa",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_test_that_dominates_another_accepts_what_that_accepts(
        set in prop_oneof![
            sets(1, 30, Due::Constrained),
            sets(1, 30, Due::Arbitrary),
            sets(5, 60, Due::Implicit),
            sets(5, 60, Due::Constrained),
        ]
    ) {
        for (weak, strong) in DOMINATED {
            prop_assert!(!accepts(weak, &set) || accepts(strong, &set), "{weak} accepts {set:?}, {strong} does not");
        }
    }

    #[test]
    fn with_implicit_deadlines_demand_admits_what_utilisation_does(set in sets(5, 60, Due::Implicit)) {
        for fit in ["nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd", "awf", "awfd"] {
            let (plain, exact) = (format!("p-edf-{fit}"), format!("p-edf-{fit}-qpa"));
            prop_assert_eq!(accepts(&plain, &set), accepts(&exact, &set), "{} {:?}", fit, set);
        }
    }

    #[test]
    fn fair_lateness_is_bounded_exactly_where_tardiness_is(set in sets(5, 60, Due::Arbitrary)) {
        for name in ["cva", "g-fl"] {
            prop_assert_eq!(verdict(name, &set), verdict("soft-g-edf", &set), "{} {:?}", name, set);
        }
    }

    #[test]
    fn nothing_accepts_what_no_scheduler_can_do(set in sets(4, 30, Due::Arbitrary)) {
        // Bounded tardiness is less than every deadline.
        if verdict("necessary", &set) == Verdict::Unschedulable {
            for test in all().filter(|it| !it.is_soft()) {
                prop_assert!(!accepts(test.name, &set), "{} accepts {:?}", test.name, set);
            }
        }
    }

    #[test]
    fn what_is_accepted_stays_accepted_with_less_work_or_one_more_cpu(
        set in prop_oneof![sets(1, 30, Due::Arbitrary), sets(4, 40, Due::Constrained)], which in 0..7_usize
    ) {
        let at = which % set.tasks().len();
        let mut less = parameters(&set);
        less[at].wcet = (less[at].wcet - Time::new(1)).max(Time::new(1));
        let less = TaskSet::new(set.cpus(), &less).unwrap();
        let more = TaskSet::new(set.cpus() + 1, &parameters(&set)).unwrap();
        for name in SUSTAINABLE {
            if accepts(name, &set) {
                prop_assert!(accepts(name, &less), "{} with less work: {:?}", name, set);
                let one_cpu = corehop_sched::test(name).unwrap().one_cpu;
                prop_assert!(one_cpu || accepts(name, &more), "{} with a CPU more: {:?}", name, set);
            }
        }
    }

    #[test]
    fn what_one_cpu_accepts_stays_accepted_with_longer_periods(set in sets(1, 30, Due::Constrained), which in 0..7_usize) {
        let at = which % set.tasks().len();
        let mut longer = parameters(&set);
        longer[at].period += Time::new(1);
        let longer = TaskSet::new(1, &longer).unwrap();
        for name in ["density", "qpa", "edf-rta", "p-fp-rta", "gfb", "g-fp-guan"] {
            prop_assert!(!accepts(name, &set) || accepts(name, &longer), "{} with a longer period: {:?}", name, set);
        }
    }
}
