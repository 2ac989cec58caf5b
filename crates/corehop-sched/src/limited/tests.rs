// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of regions and thresholds: by hand, against a printed example, and against simulated schedules.

use super::remedy::{Limit, Remedy, remedy};
use super::simulated::{Rules, SimulatedResponse, run};
use super::threshold::{Thresholds, largest};
use super::*;
use crate::ranking::Ranking;
use corehop_fixtures::task_sets::set;
use corehop_plan::workload::task::{TaskParameters, TaskSet};
use corehop_stats::costs::Cost;

fn tasks(of: &[(u64, u64, u64)]) -> Vec<Task> {
    set(1, of).tasks().to_vec()
}

#[test]
fn thresholds_are_those_of_the_printed_example() {
    // Wang and Saksena 1999, table 1: (C, T, D) of three tasks. Preemptive, the third misses (115 > 100); non-
    // preemptive, the first (55 > 50). With thresholds 3, 3 and 2 they respond within 40, 75 and 95.
    let example = tasks(&[(20, 70, 50), (20, 80, 80), (35, 200, 100)]);
    assert_eq!(fixed::regions(&example), Err(NoRegions::Misses { policy: "fixed priorities" }));
    let found = largest(&example).unwrap();
    assert_eq!(found.responses, [40, 75, 95].map(Time::new));
    // The second may not be preempted at all, the third by the first alone.
    let expected = Thresholds {
        order: vec![0, 1, 2],
        thresholds: vec![0, 0, 1],
        responses: vec![Time::new(40), Time::new(75), Time::new(95)],
    };
    assert_eq!(found, expected);
}

#[test]
fn regions_under_edf_are_the_least_slack_before_the_deadline() {
    // Slack at 4: 4 - 1 = 3; at 8: 8 - 2 - 3 = 3; at 12: 12 - 3 - 3 = 6, so 3 remains the least before 16.
    let set = tasks(&[(1, 4, 4), (3, 16, 8), (6, 16, 16)]);
    assert_eq!(edf::regions(&set).unwrap(), [1, 3, 3].map(Time::new));
    // With a second task of 5 the slack at 8 is 1, which holds for the third; the second looks before 8 only.
    let tight = tasks(&[(1, 4, 4), (5, 16, 8), (6, 16, 16)]);
    assert_eq!(edf::regions(&tight).unwrap(), [1, 3, 1].map(Time::new));
}

#[test]
fn regions_under_fixed_priorities_are_the_least_tolerance_above() {
    // The first tolerates 4 - 1 = 3. The second, at 4: 4 - 1 - 3 = 0, at 8: 8 - 2 - 3 = 3.
    let set = tasks(&[(1, 4, 4), (3, 16, 8), (6, 16, 16)]);
    assert_eq!(fixed::regions(&set).unwrap(), [1, 3, 3].map(Time::new));
    let tight = tasks(&[(1, 4, 4), (5, 16, 8), (4, 16, 16)]);
    assert_eq!(fixed::regions(&tight).unwrap(), [1, 3, 1].map(Time::new));
}

#[test]
fn what_the_analyses_do_not_cover_is_told_with_the_task_and_the_field() {
    let late = tasks(&[(1, 4, 4), (1, 4, 9)]);
    let told = fixed::regions(&late).unwrap_err().to_string();
    assert!(told.contains("task 1: deadline_us is 9, expected at most period_us"), "{told}");
    let of = |wcet, jitter| TaskParameters {
        wcet,
        period: Time::new(9),
        jitter,
        ..TaskParameters::default()
    };
    let jittery =
        TaskSet::new(1, &[of(Time::new(1), Time::ZERO), of(Time::new(1), Time::new(2))]).unwrap();
    for told in [edf::regions(jittery.tasks()), fixed::regions(jittery.tasks())] {
        assert!(told.unwrap_err().to_string().contains("task 1: jitter_us is 2, expected 0"));
    }
    let full = tasks(&[(3, 4, 4), (3, 8, 8)]);
    assert!(edf::regions(&full).unwrap_err().to_string().contains("misses deadlines under edf"));
    assert!(largest(&full).is_err());
}

/// A stream of random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Draws two to four tasks, sometimes with the longest first, and with deadlines up to the periods.
    fn tasks(&mut self) -> Vec<Task> {
        let one = |draw: &mut Self| {
            let period = [4, 5, 6, 8, 10, 12, 15, 20][draw.below(8) as usize];
            let wcet = 1 + draw.below(period / 2);
            (wcet, period, wcet + draw.below(period - wcet + 1))
        };
        let n = 2 + self.below(3);
        tasks(&(0..n).map(|_| one(self)).collect::<Vec<_>>())
    }

    /// Draws releases up to 200: one task (sometimes the last of all) a unit before all others, then as early as
    /// possible or sometimes later.
    fn releases(&mut self, tasks: &[Task], late: bool) -> Vec<Vec<Time>> {
        let first = self.below(tasks.len() as u64) as usize;
        let of = |(i, task): (usize, &Task)| {
            let mut at = Time::new(u64::from(i != first));
            let mut all = Vec::new();
            while at < Time::new(200) {
                all.push(at);
                at += task.period
                    + if late { Time::new(self.below(3) * self.below(2)) } else { Time::ZERO };
            }
            all
        };
        tasks.iter().enumerate().map(of).collect()
    }
}

fn rules(tasks: &[Task], edf: bool, regions: Vec<Time>) -> Rules {
    let mut rank = vec![0; tasks.len()];
    for (at, i) in Ranking::of(tasks).order().iter().copied().enumerate() {
        rank[i] = at;
    }
    Rules { edf, begun: rank.clone(), rank, regions }
}

fn misses(tasks: &[Task], seen: &[SimulatedResponse]) -> bool {
    tasks.iter().zip(seen).any(|(task, seen)| seen.response > task.deadline)
}

/// The number of random sets that miss a deadline in some schedule if each region is longer by `more`.
fn missed(regions: fn(&[Task]) -> Result<Vec<Time>, NoRegions>, edf: bool, more: Time) -> [u32; 2] {
    let mut draw = Draw(7);
    let mut count = [0; 2];
    for _ in 0..400 {
        let tasks = draw.tasks();
        let Ok(found) = regions(&tasks) else { continue };
        count[0] += 1;
        let rules = rules(&tasks, edf, found.iter().map(|&region| region + more).collect());
        let miss = (0..8).any(|k| {
            let releases = draw.releases(&tasks, k > 4);
            misses(&tasks, &run(&tasks, &rules, &releases))
        });
        count[1] += u32::from(miss);
    }
    count
}

#[test]
fn no_set_misses_with_regions_of_the_computed_length_and_some_do_with_longer_ones() {
    type Regions = fn(&[Task]) -> Result<Vec<Time>, NoRegions>;
    let both: [(Regions, bool); 2] = [(edf::regions, true), (fixed::regions, false)];
    for (regions, edf) in both {
        let [accepted, miss] = missed(regions, edf, Time::ZERO);
        assert!(accepted > 60 && miss == 0, "edf {edf}: {miss} of {accepted}");
        let [_, longer] = missed(regions, edf, Time::new(2));
        assert!(longer > 5, "edf {edf}: {longer} of {accepted} miss with longer regions");
    }
}

#[test]
fn responses_with_thresholds_bound_those_of_schedules_and_preemptive_ones_are_a_special_case() {
    let (mut draw, mut accepted, mut tight) = (Draw(11), 0, 0);
    for _ in 0..400 {
        let tasks = draw.tasks();
        let Ok(found) = largest(&tasks) else {
            assert!(fixed::regions(&tasks).is_err(), "what is feasible preemptive has thresholds");
            continue;
        };
        accepted += 1;
        let mut rules = rules(&tasks, false, vec![Time::ZERO; tasks.len()]);
        for (at, &i) in found.order.iter().enumerate() {
            rules.begun[i] = found.thresholds[at];
        }
        for k in 0..6 {
            let seen = run(&tasks, &rules, &draw.releases(&tasks, k > 3));
            for (at, &i) in found.order.iter().enumerate() {
                assert!(seen[i].response <= found.responses[at], "{tasks:?} {found:?} {seen:?}");
                tight += u32::from(seen[i].response == found.responses[at]);
            }
        }
    }
    assert!(accepted > 60 && tight > 60, "{accepted} accepted, {tight} responses as bounded");
}

fn delay(us: f64) -> Cost {
    Cost { us, low_us: Some(us / 2.0), high_us: Some(us) }
}

#[test]
fn a_remedy_counts_what_is_saved_and_makes_a_set_schedulable_that_was_not() {
    // A job of the last may be preempted by those that come by 120 - 40: two, each for 35.
    let set = tasks(&[(10, 40, 40), (30, 120, 120)]);
    let Remedy { preemptive, tasks: treated, saves_share, .. } =
        remedy(&set, Limit::EdfRegions, &[delay(0.0), delay(35.0)]).unwrap();
    // 10 of every 40 and 30 + 2 * 35 of every 120 is more than there is.
    assert_eq!((preemptive, treated[1].preemptions), (Some(false), 2));
    // At 40 the slack is 30: the whole job, which is then never preempted.
    assert_eq!((treated[1].region_us, treated[1].remaining), (Time::new(30), 0));
    assert!(
        (treated[1].saves.us - 70.0).abs() < 1e-9 && (saves_share.us - 70.0 / 120.0).abs() < 1e-9
    );
    assert_eq!(treated[1].saves.low_us, Some(35.0));
    // Half as much: 60 in pieces of 30 is preempted once, and with one reload of 10 paid, twice.
    let set = tasks(&[(10, 40, 40), (60, 120, 120)]);
    let twice = remedy(&set, Limit::EdfRegions, &[delay(0.0), delay(10.0)]).unwrap();
    assert_eq!((twice.tasks[1].region_us, twice.tasks[1].remaining), (Time::new(30), 2));
    // With 20 neither one nor two can be paid for.
    assert!(remedy(&set, Limit::EdfRegions, &[delay(0.0), delay(20.0)]).is_err());
}

#[test]
fn no_set_misses_where_each_preemption_that_remains_is_paid_for() {
    let (mut draw, mut rescued, mut saved) = (Draw(13), 0, 0);
    for _ in 0..300 {
        let tasks = draw.tasks();
        let delays = vec![delay(1.0); tasks.len()];
        for (limit, edf) in [(Limit::EdfRegions, true), (Limit::FpRegions, false)] {
            let Ok(found) = remedy(&tasks, limit, &delays) else { continue };
            rescued += u32::from(found.preemptive == Some(false));
            saved += u32::from(found.saves_share.us > 0.0);
            let paying: Vec<Task> = tasks
                .iter()
                .zip(&found.tasks)
                .map(|(task, it)| Task { wcet: task.wcet + Time::new(it.remaining), ..*task })
                .collect();
            let regions = found.tasks.iter().map(|it| it.region_us).collect();
            let rules = rules(&tasks, edf, regions);
            for k in 0..4 {
                let seen = run(&paying, &rules, &draw.releases(&tasks, k > 2));
                assert!(!misses(&tasks, &seen), "{limit} {tasks:?} {found:?} {seen:?}");
                for (seen, it) in seen.iter().zip(&found.tasks) {
                    assert!(seen.preemptions <= it.remaining, "{limit} {tasks:?} {found:?}");
                }
            }
        }
    }
    assert!(rescued > 0 && saved > 0, "{rescued} rescued, {saved} saved");
}
