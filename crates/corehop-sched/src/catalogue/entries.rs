// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of tests.

use super::Deadlines::{Arbitrary, Implicit};
use super::partitioned::{
    bounded_tardiness, compliant, devi_anderson, g_edf, g_fp, one_cpu_by_priority,
};
use super::{
    BASE, BLOCKED, Charging, EQUALS, Equals, G_EDF, G_FP, ONE_EDF, ONE_FP, RANKS, Suffers, Test,
    TestExactness, with_bounds,
};
use crate::bill::Payer;
use crate::contents;
use crate::global::victims::{self, Carry};
use crate::global::{self, bar, ff_dbf, fixed as global_fixed, load, rta};
use crate::held_up;
use crate::soft::compliant::Points;
use crate::system::System;
use crate::uni::edf_response::{Preemption, response_times};
use crate::uni::{edf, fixed, nonpreemptive};
use crate::verdict::{TestAnswer, Verdict};
use corehop_plan::workload::task::{Task, Time};

const SOFT: &str = "global EDF, soft";
const TOO_LONG: &str =
    "the busy period needs too many steps, or has no end with suspension as execution";
const SOFTLY: &str = "Yes means that tardiness is bounded, not that deadlines are met.";

/// Every test but the partitioned ones.
pub(super) static OTHERS: &[Test] = &[
    Test {
        name: "necessary",
        scheduler: "any scheduler",
        title: "U <= m; C <= D for each task; and tasks that the set confines to some CPUs need no more time than these CPUs \
                have, in the long run and within any time after a common release",
        kind: TestExactness::Necessary,
        deadlines: Arbitrary,
        knows: contents::ALL,
        citation: "Liu and Layland 1973; Horn 1974; Baker and Cirinei, RTSS 2006",
        run: |system| TestAnswer::plain(global::necessary(system)),
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        charging: Charging::NotNeeded,
        ..BASE
    },
    Test {
        name: "own-cpu",
        scheduler: "any global scheduler",
        title: "n <= m and C <= D for each task, so that no job waits for a CPU",
        deadlines: Arbitrary,
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        charging: Charging::NotKnown,
        citation: "at most m tasks have at most m ready jobs, because C <= T; as in Bertogna, Cirinei and Lipari, ECRTS 2005",
        run: |system| TestAnswer::plain(global::own_cpu(system)),
        ..BASE
    },
    Test {
        name: "utilisation",
        title: "U <= 1; exact if D >= T, otherwise the test can only reject",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        citation: "Liu and Layland, JACM 20(1), 1973; Baruah, Mok and Rosier, RTSS 1990",
        run: |system| TestAnswer::plain(edf::utilisation(system.tasks)),
        ..ONE_EDF
    },
    Test {
        name: "density",
        title: "sum of C / min(D, T) <= 1",
        deadlines: Arbitrary,
        citation: "Liu, Real-Time Systems, 2000, theorem 6.2",
        run: |system| TestAnswer::plain(edf::density(system.tasks)),
        ..ONE_EDF
    },
    Test {
        name: "qpa",
        title: "DBF(t) <= t at every deadline t; the test checks the deadlines from the last to the first",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        knows: contents::MOST,
        assumes: &[BLOCKED],
        citation: "Zhang and Burns, IEEE TC 58(9), 2009; Baruah, Rosier and Howell 1990; with blocking Baruah, RTSS 2006",
        run: |system| TestAnswer::plain(held_up::demand(system, &whole(system), system.tasks)),
        supplied: true,
        ..ONE_EDF
    },
    Test {
        name: "edf-rta",
        title: "R <= D for each task, where R is the worst response over all releases that can begin a busy period of the task",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        knows: contents::MOST,
        assumes: &[BLOCKED],
        citation: "Spuri, INRIA RR-2772, 1996",
        run: edf_rta,
        supplied: true,
        ..ONE_EDF
    },
    Test {
        name: "np-edf",
        scheduler: "non-preemptive EDF on one CPU",
        title: "DBF(t) + max of C_j - 1 over D_j > t is at most t",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        one_cpu: true,
        citation: "Jeffay, Stanat and Martel, RTSS 1991; George, Rivierre and Spuri, INRIA RR-2966, 1996",
        run: |system| TestAnswer::plain(nonpreemptive::edf(system.tasks)),
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        ..BASE
    },
    Test {
        name: "np-edf-rta",
        scheduler: "non-preemptive EDF on one CPU",
        title: "R <= D for each task, where R is the worst response if no job can be preempted",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        one_cpu: true,
        citation: "George, Rivierre and Spuri, INRIA RR-2966, 1996",
        run: np_edf_rta,
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        ..BASE
    },
    Test {
        name: "liu-layland",
        title: "U <= n (2^(1/n) - 1)",
        deadlines: Arbitrary,
        assumes: &[
            RANKS,
            "Priorities are rate-monotonic and D >= T; otherwise the test cannot decide.",
        ],
        equals: Equals::NotKnown,
        citation: "Liu and Layland, JACM 20(1), 1973",
        run: |system| TestAnswer::plain(fixed::liu_layland(system.tasks)),
        ..ONE_FP
    },
    Test {
        name: "hyperbolic",
        title: "the product of u + 1 is at most 2",
        deadlines: Arbitrary,
        assumes: &[
            RANKS,
            "Priorities are rate-monotonic and D >= T; otherwise the test cannot decide.",
        ],
        equals: Equals::NotKnown,
        citation: "Bini, Buttazzo and Buttazzo, ECRTS 2001",
        run: |system| TestAnswer::plain(fixed::hyperbolic(system.tasks)),
        ..ONE_FP
    },
    Test {
        name: "p-fp-rta",
        title: "w = (q + 1) C + B + sum over hp of ceil((w + J) / T) C; R = max of w + J - q T",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        knows: contents::ALL,
        assumes: &[RANKS, EQUALS, BLOCKED],
        citation: "Joseph and Pandya 1986; Lehoczky, RTSS 1990; Tindell, Burns and Wellings 1994",
        run: one_cpu_by_priority,
        payer: Payer::Affected,
        charging: Charging::FixedPriority,
        supplied: true,
        ..ONE_FP
    },
    Test {
        name: "p-fp-audsley",
        title: "p-fp-rta accepts some order of priorities; the answer states that order",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        knows: contents::MOST,
        assumes: &["Stated priorities are ignored.", BLOCKED],
        equals: Equals::NotAsked,
        citation: "Audsley, YCS 164, 1991",
        run: audsley,
        payer: Payer::Others,
        supplied: true,
        ..ONE_FP
    },
    Test {
        name: "np-fp-rta",
        scheduler: "non-preemptive fixed priorities on one CPU",
        title: "w = B + q C + sum over hp of (floor((w + J) / T) + 1) C; R = max of w + C + J - q T",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        one_cpu: true,
        knows: contents::STATED,
        assumes: &[RANKS, EQUALS, BLOCKED],
        equals: Equals::Served,
        citation: "George, Rivierre and Spuri 1996; Davis, Burns, Bril and Lukkien, RTS 35(3), 2007",
        run: |system| responses(system, nonpreemptive::fixed),
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        charging: Charging::NotKnown,
        ..BASE
    },
    Test {
        name: "g-edf",
        title: "at least one other test for global EDF accepts; the answer names that test",
        deadlines: Arbitrary,
        citation: "own-cpu, on one CPU qpa, then gfb, bak, bcl-iterative, rta, bar, load and ff-dbf; Bertogna and Baruah, JSA 57(5), 2011",
        run: g_edf,
        payer: Payer::EachTest,
        ..BASE
    },
    Test {
        name: "gfb",
        title: "sum of delta <= m - (m - 1) max delta, delta = C / min(D, T)",
        deadlines: Arbitrary,
        citation: "Goossens, Funk and Baruah, RTS 25(2-3), 2003; Baker and Baruah 2007",
        run: |system| TestAnswer::plain(global::gfb(system)),
        ..G_EDF
    },
    Test {
        name: "bak",
        title: "for each k, sum of min(1, beta_i) <= m (1 - lambda) + lambda, lambda = C_k / D_k",
        deadlines: Arbitrary,
        citation: "Baker, RTSS 2003; for D > T Baker, IEEE TPDS 16(8), 2005",
        run: |system| TestAnswer::plain(global::bak(system)),
        ..G_EDF
    },
    Test {
        name: "bcl",
        title: "for each k, sum of min(beta_i, 1 - lambda) < m (1 - lambda)",
        citation: "Bertogna, Cirinei and Lipari, ECRTS 2005",
        run: |system| TestAnswer::plain(global::bcl(system)),
        ..G_EDF
    },
    Test {
        name: "bcl-iterative",
        title: "bcl with slacks: a bound on the response of one task reduces the carry-in that the task adds to other tasks",
        citation: "Bertogna, Cirinei and Lipari, IEEE TPDS 20(4), 2009",
        run: |system| TestAnswer::plain(global::bcl_iterative(system)),
        ..G_EDF
    },
    Test {
        name: "rta",
        title: "R = C_k + floor(sum of min(W_i(R), I_i(D_k), R - C_k + 1) / m), with slacks, at most 25 rounds",
        citation: "Bertogna and Cirinei, RTSS 2007",
        run: |system| with_bounds(rta::edf_bounds(system)),
        in_windows: Some(|system, delays| with_bounds(victims::edf(system, delays))),
        ..G_EDF
    },
    Test {
        name: "bar",
        title: "the CPUs can meet the demand since all CPUs became busy, with at most m - 1 tasks carrying in; U < m",
        citation: "Baruah, RTSS 2007, with the correction for integer time",
        run: |system| TestAnswer::plain(bar::bar(system)),
        ..G_EDF
    },
    Test {
        name: "load",
        title: "max of DBF(t) / t <= max(mu - (ceil mu - 1) delta, (ceil mu - 1) - (ceil mu - 2) delta)",
        deadlines: Arbitrary,
        citation: "Baker and Baruah, RTS 43(1), 2009, corollary 2",
        run: |system| TestAnswer::plain(load::load(system)),
        ..G_EDF
    },
    Test {
        name: "ff-dbf",
        title: "for some sigma, sum of ffdbf(t, sigma) <= (m - (m - 1) sigma) t at all t",
        assumes: &["sigma is the largest density or a multiple of 1/50, and 1/10 below its limit."],
        citation: "Baruah, Bonifaci, Marchetti-Spaccamela and Stiller, RTS 46(1), 2010",
        run: |system| TestAnswer::plain(ff_dbf::ff_dbf(system)),
        ..G_EDF
    },
    Test {
        name: "g-np-edf",
        scheduler: "global non-preemptive EDF",
        title: "R = y - 1 + C_k, where y is the shortest interval that the other tasks, and m jobs that began before, cannot fill",
        citation: "Baruah, RTS 32(1), 2006; windows as in Guan et al., JSA 57(5), 2011",
        run: |system| with_bounds(global::nonpreemptive::edf(system)),
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        ..BASE
    },
    Test {
        name: "g-fp",
        title: "at least one other test for global fixed priorities accepts; the answer names that test",
        deadlines: Arbitrary,
        assumes: &[RANKS],
        equals: Equals::Served,
        citation: "own-cpu, on one CPU p-fp-rta, then g-fp-guan, g-fp-bertogna and g-fp-da-lc; Davis and Burns, RTS 47(1), 2011",
        run: g_fp,
        payer: Payer::EachTest,
        ..G_FP
    },
    Test {
        name: "g-fp-bertogna",
        title: "R = C_k + floor(sum over hp of min(W_i(R), R - C_k + 1) / m), where the tasks hp carry in what their own bounds allow",
        assumes: &[RANKS],
        equals: Equals::Served,
        citation: "Bertogna and Cirinei, RTSS 2007, with slacks (equation 8)",
        run: |system| with_bounds(global_fixed::bertogna(system)),
        in_windows: Some(|system, delays| with_bounds(victims::fixed(system, delays, Carry::All))),
        ..G_FP
    },
    Test {
        name: "g-fp-bertogna-plain",
        title: "g-fp-bertogna without slacks: the tasks hp carry in what their deadlines allow",
        assumes: &[RANKS],
        equals: Equals::Served,
        citation: "Bertogna and Cirinei, RTSS 2007",
        run: |system| with_bounds(global_fixed::bertogna_plain(system)),
        ..G_FP
    },
    Test {
        name: "g-fp-guan",
        title: "R = C_k + floor(Omega_k(R) / m), with at most m - 1 tasks carrying in",
        assumes: &[RANKS],
        citation: "Guan, Stigge, Yi and Yu, RTSS 2009",
        run: |system| with_bounds(global_fixed::guan(system)),
        in_windows: Some(|system, delays| {
            with_bounds(victims::fixed(system, delays, Carry::Limited))
        }),
        ..G_FP
    },
    Test {
        name: "g-fp-da-lc",
        title: "D_k >= C_k + floor(sum of interference in D_k / m), with at most m - 1 tasks carrying in",
        assumes: &[RANKS],
        citation: "Davis and Burns, RTS 47(1), 2011; Guan et al., RTSS 2009",
        run: |system| {
            let passes = |order: Vec<usize>| global_fixed::da_lc_in_order(system, &order);
            let accepted = global_fixed::given_order(system).is_some_and(passes);
            TestAnswer::plain(Verdict::sufficient(accepted))
        },
        in_windows: Some(|system, delays| {
            let passes = |order: Vec<usize>| victims::da_lc_in_order(system, delays, &order);
            let accepted = global_fixed::given_order(system).is_some_and(passes);
            TestAnswer::plain(Verdict::sufficient(accepted))
        }),
        ..G_FP
    },
    Test {
        name: "g-fp-da-lc-opa",
        title: "g-fp-da-lc accepts some order of priorities; the answer states that order",
        assumes: &["Stated priorities are ignored."],
        equals: Equals::NotAsked,
        citation: "Davis and Burns, RTS 47(1), 2011; Audsley, YCS 164, 1991",
        run: |system| ordered(global_fixed::da_lc_assignment(system)),
        in_windows: Some(|system, delays| ordered(victims::da_lc_assignment(system, delays))),
        payer: Payer::Others,
        ..G_FP
    },
    Test {
        name: "g-fp-dkc",
        title: "g-fp-da-lc accepts with priorities in the order of D - k C, k = (m - 1 + sqrt(5 m^2 - 6 m + 1)) / (2 m)",
        assumes: &["Stated priorities are ignored."],
        equals: Equals::NotAsked,
        citation: "Davis and Burns, RTS 47(1), 2011; after Andersson and Jonsson 2000",
        run: |system| {
            let order = global_fixed::dkc_order(system);
            ordered(global_fixed::da_lc_in_order(system, &order).then_some(order))
        },
        in_windows: Some(|system, delays| {
            let order = global_fixed::dkc_order(system);
            ordered(victims::da_lc_in_order(system, delays, &order).then_some(order))
        }),
        payer: Payer::Others,
        ..G_FP
    },
    Test {
        name: "g-np-fp",
        scheduler: "global non-preemptive fixed priorities",
        title: "R = y - 1 + C_k, where y is the shortest interval that the tasks hp, and m jobs of lower priority that began before, cannot fill",
        assumes: &[RANKS],
        equals: Equals::Served,
        citation: "Guan, Yi, Deng, Gu and Yu, JSA 57(5), 2011",
        run: |system| with_bounds(global::nonpreemptive::fixed(system)),
        suffers: Suffers::Nothing,
        payer: Payer::NoJob,
        charging: Charging::NotKnown,
        ..BASE
    },
    Test {
        name: "soft-g-edf",
        scheduler: SOFT,
        title: "U <= m and each u <= 1, so that tardiness is bounded",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        assumes: &[SOFTLY],
        citation: "Devi and Anderson, RTSS 2005; Leontyev and Anderson, RTS 44(1-3), 2010",
        run: bounded_tardiness,
        ..BASE
    },
    Test {
        name: "devi-anderson",
        scheduler: SOFT,
        title: "R = T + C + ceil(x), x = (E_L - e_min) / (m - U_{L-1}), L = ceil(U) - 1",
        kind: TestExactness::Exact,
        deadlines: Implicit,
        assumes: &[SOFTLY],
        citation: "Devi and Anderson, RTSS 2005 and RTS 38(2), 2008",
        run: devi_anderson,
        ..BASE
    },
    Test {
        name: "cva",
        scheduler: SOFT,
        title: "R = Y + x + C by compliant vectors, Y = D - min D, x = s - C/m, the least s with G(s) + S <= m s",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        assumes: &[SOFTLY],
        citation: "Erickson, Devi and Baruah, ECRTS 2010",
        run: |system| compliant(system, Points::Edf),
        ..BASE
    },
    Test {
        name: "g-fl",
        scheduler: "global fair lateness, soft",
        title: "cva with priority points D - floor((m - 1) C / m)",
        kind: TestExactness::Exact,
        deadlines: Arbitrary,
        assumes: &[SOFTLY],
        citation: "Erickson and Anderson, ECRTS 2012",
        run: |system| compliant(system, Points::FairLateness),
        ..BASE
    },
];

/// All tasks of a set for one CPU.
fn whole(system: System<'_>) -> Vec<usize> {
    (0..system.tasks.len()).collect()
}

fn np_edf_rta(system: System<'_>) -> TestAnswer {
    let tasks = system.tasks;
    if edf::utilisation(tasks) == Verdict::Unschedulable {
        return TestAnswer::plain(Verdict::Unschedulable);
    }
    let Some(bounds) = response_times(tasks, Preemption::None) else {
        return TestAnswer::unknown(TOO_LONG);
    };
    let met = bounds.iter().zip(tasks).all(|(&response, task)| response <= task.deadline);
    TestAnswer::bounded(Verdict::exact(met), bounds)
}

fn edf_rta(system: System<'_>) -> TestAnswer {
    let tasks = system.tasks;
    if edf::utilisation(tasks) == Verdict::Unschedulable {
        return TestAnswer::plain(Verdict::Unschedulable);
    }
    let Some(bounds) = held_up::responses_by_deadline(system, &whole(system), tasks) else {
        // Without an end it is no miss yet, but no supply bounds it.
        let why = "the busy period has no end within the step limit, or the CPU does not supply enough in the long run";
        return match held_up::demand(system, &whole(system), tasks) {
            Verdict::Unschedulable => TestAnswer::plain(Verdict::Unschedulable),
            _ if system.supply.is_some() => TestAnswer::unknown(why),
            _ => TestAnswer::unknown(TOO_LONG),
        };
    };
    let met = bounds.iter().zip(tasks).all(|(&response, task)| response <= task.deadline);
    match held_up::is_exact(system, tasks) {
        true => TestAnswer::bounded(Verdict::exact(met), bounds),
        false if met => TestAnswer::bounded(Verdict::Schedulable, bounds),
        // A bound need not be attained: a no is that of the set without what is only bounded.
        false => TestAnswer::plain(held_up::demand(system, &whole(system), tasks)),
    }
}

/// Runs an analysis that writes response times, and returns them if all deadlines are met.
fn responses(
    system: System<'_>,
    analysis: fn(&[Task], Option<&mut [Time]>) -> Verdict,
) -> TestAnswer {
    let mut bounds = vec![Time::ZERO; system.tasks.len()];
    match analysis(system.tasks, Some(&mut bounds)) {
        Verdict::Schedulable => TestAnswer::bounded(Verdict::Schedulable, bounds),
        other => TestAnswer::plain(other),
    }
}

fn audsley(system: System<'_>) -> TestAnswer {
    match held_up::assigned(system) {
        Ok(order) => ordered(Some(order)),
        Err(verdict) => TestAnswer {
            why: Some("no order of priorities is known to meet every deadline".to_owned()),
            ..TestAnswer::plain(verdict)
        },
    }
}

fn ordered(order: Option<Vec<usize>>) -> TestAnswer {
    match order {
        None => TestAnswer::plain(Verdict::Unknown),
        order => TestAnswer { priorities: order, ..TestAnswer::plain(Verdict::Schedulable) },
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::test;
    use crate::system::System;
    use crate::verdict::Verdict;
    use corehop_plan::workload::task::{TaskParameters, TaskSet};
    use corehop_plan::workload::time::Time;

    fn blocked(wcet: u64, blocking: u64) -> TaskParameters {
        let [wcet, period, blocking] = [wcet, 4, blocking].map(Time::new);
        TaskParameters { wcet, period, blocking, ..TaskParameters::default() }
    }

    /// The verdict and bounds of `edf-rta` for one task of period 4.
    fn told(wcet: u64, blocking: u64) -> (Verdict, Option<Vec<u64>>) {
        let set = TaskSet::new(1, &[blocked(wcet, blocking)]).unwrap();
        let answer = test("edf-rta").unwrap().run(System::of(&set));
        let ticks = |bounds: Vec<Time>| bounds.into_iter().map(Time::ticks).collect();
        (answer.verdict, answer.bounds.map(ticks))
    }

    #[test]
    fn a_bound_beyond_its_deadline_is_no_yes_and_with_blocking_no_miss_either() {
        assert_eq!(told(2, 0), (Verdict::Schedulable, Some(vec![2])));
        assert_eq!(told(2, 2).0, Verdict::Schedulable);
        assert_eq!(told(2, 3), (Verdict::Unknown, None));
    }

    #[test]
    fn work_beyond_the_cpu_is_a_miss_without_bounds() {
        let set = TaskSet::new(1, &[blocked(3, 0), blocked(2, 0)]).unwrap();
        let answer = test("edf-rta").unwrap().run(System::of(&set));
        assert_eq!((answer.verdict, answer.bounds), (Verdict::Unschedulable, None));
    }
}
