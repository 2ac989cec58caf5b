// SPDX-License-Identifier: MIT OR Apache-2.0
//! The assignment of CPUs: by hand, and against sorting all ready jobs.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::dispatch::{Cluster, JobSwitch, Places, Urgency};
use super::job::{JobPhase, SimulatedJob};
use corehop_plan::samples::JobOutcome;

/// A machine whose CPUs share caches in pairs, with the last CPU of each task.
struct Pairs(BTreeMap<usize, usize>);

impl Places for Pairs {
    fn last(&self, task: usize) -> usize {
        self.0.get(&task).copied().unwrap_or(0)
    }
    fn distance(&self, from: usize, to: usize) -> u8 {
        if from == to {
            0
        } else if from / 2 == to / 2 {
            1
        } else {
            2
        }
    }
}

fn job(by: u64, task: usize) -> Urgency {
    Urgency { by, since: 0, task }
}

fn gets(cpu: usize, gains: usize) -> JobSwitch {
    JobSwitch { cpu, loses: None, gains }
}

#[test]
fn a_job_goes_where_its_task_was_then_near_then_to_the_latest_deadline() {
    let homes = |of: &[usize]| Pairs(of.iter().copied().enumerate().collect());
    let mut four = Cluster::new(0..4);
    // Both were on CPU 2: the more urgent one has it, the other one its neighbour.
    four.ready(job(20, 0));
    four.ready(job(10, 1));
    assert_eq!(four.decide(&homes(&[2, 2])), [gets(2, 1), gets(3, 0)]);
    // Far from home, and the least urgent of all has to go: from the CPU that it has.
    four.ready(job(30, 2));
    four.ready(job(31, 3));
    assert_eq!(four.decide(&homes(&[3, 2, 2, 2])), [gets(0, 2), gets(1, 3)]);
    four.ready(job(15, 4));
    let change = JobSwitch { cpu: 1, loses: Some(3), gains: 4 };
    assert_eq!(four.decide(&homes(&[3, 2, 0, 1, 2])), [change]);
    // It comes back to the first CPU that is free, its own or not.
    four.ended(0);
    assert_eq!(four.decide(&homes(&[3, 2, 0, 1, 1])), [gets(0, 3)]);
}

#[test]
fn of_two_that_lose_their_cpus_each_gives_its_own_to_who_was_there() {
    let mut two = Cluster::new(0..2);
    let homes = |of: &[usize]| Pairs(of.iter().copied().enumerate().collect());
    two.ready(job(50, 0));
    two.ready(job(60, 1));
    two.decide(&homes(&[0, 1]));
    two.ready(job(10, 2));
    two.ready(job(20, 3));
    let of = |cpu, loses, gains| JobSwitch { cpu, loses: Some(loses), gains };
    assert_eq!(two.decide(&homes(&[0, 1, 0, 1])), [of(0, 0, 2), of(1, 1, 3)]);
    // No job moves for one that is as urgent, of a task that comes later.
    two.ready(job(20, 4));
    assert_eq!(two.decide(&homes(&[0, 1, 0, 1, 0])), []);
}

#[test]
fn who_cannot_go_home_takes_the_cpu_of_the_least_urgent_first() {
    let mut three = Cluster::new(0..3);
    let homes = |of: &[usize]| Pairs(of.iter().copied().enumerate().collect());
    for (by, task) in [(30, 0), (40, 1), (5, 2)] {
        three.ready(job(by, task));
    }
    three.decide(&homes(&[0, 1, 2]));
    // Both were on CPU 2, which is kept: the more urgent one takes from the job that is due at 40.
    three.ready(job(20, 3));
    three.ready(job(10, 4));
    let of = |cpu, loses, gains| JobSwitch { cpu, loses: Some(loses), gains };
    assert_eq!(three.decide(&homes(&[0, 1, 2, 2, 2])), [of(1, 1, 4), of(0, 0, 3)]);
}

/// A job of 10 us that passes over two lines at a time, on CPU 0 from the start.
fn begun() -> SimulatedJob {
    let mut job = SimulatedJob::new(0, 0, 10_000);
    job.gain(0, 0, 2);
    job
}

/// Makes a job visit lines of a pass until the clock shows `until`; each visit takes 100 ps and has one miss.
fn visit(job: &mut SimulatedJob, until: u64) {
    while let Some((at, false)) = job.event().filter(|event| event.0 < until) {
        if job.passes(at) {
            job.visited(at, 100, 1);
        } else {
            job.visited(at, 1_000, 0);
        }
    }
}

#[test]
fn a_job_makes_up_for_the_rest_of_the_visit_in_which_it_lost_its_cpu() {
    let mut job = begun();
    visit(&mut job, 100);
    job.lose(140, Some(1));
    assert_eq!(job.event(), None);
    job.gain(1, 1_000, 2);
    // The visit that began at 0 was over at 100; there was none under way at 140 but the one from there.
    assert_eq!(job.event(), Some((1_000, false)));
    let mut job = begun();
    visit(&mut job, 101);
    job.lose(140, Some(1));
    job.gain(1, 1_000, 2);
    assert_eq!(job.event(), Some((1_060, false)));
    visit(&mut job, 1_061);
    let cold = job.over[0];
    assert_eq!((cold.cpus, cold.picos, cold.switches, cold.misses), ([0, 1], 1_060, 1, 2));
    assert_eq!((job.doing, job.end(1_100)), (JobPhase::Warm, JobOutcome::AwayInCold));
}

#[test]
fn each_touch_has_its_own_misses_and_a_job_whose_time_is_over_in_the_warm_one_was_too_short() {
    let mut job = begun();
    visit(&mut job, 401);
    let [cold, warm] = job.over.as_slice() else { panic!("{:?}", job.over) };
    assert_eq!((cold.misses, warm.misses, warm.picos), (2, 2, 200));
    assert_eq!(job.end(500), JobOutcome::NotAway);
    let mut job = begun();
    visit(&mut job, 301);
    assert_eq!((job.doing, job.end(350)), (JobPhase::Warm, JobOutcome::TooShort));
}

#[test]
fn a_job_touches_its_working_set_again_with_more_than_one_and_a_half_cold_touches_left() {
    // Its cold touch takes 200 ps; it loses its CPU with so much of its 10,000 left.
    for (left, course) in
        [(300, JobOutcome::TooShort), (301, JobOutcome::Sample), (200, JobOutcome::TooShort)]
    {
        let mut job = begun();
        visit(&mut job, 10_000 - left);
        job.lose(10_000 - left, Some(1));
        job.gain(0, 20_000, 2);
        visit(&mut job, 20_000 + left);
        assert_eq!(job.end(20_000 + left), course, "{left}");
    }
}

/// The slow twin of the cluster: a list of all ready jobs, with the job on each CPU.
#[derive(Default)]
struct Plain {
    ready: Vec<Urgency>,
    on: BTreeMap<usize, usize>,
}

impl Plain {
    /// The tasks that should run: the most urgent of all ready tasks.
    fn chosen(&mut self, cpus: usize) -> Vec<usize> {
        self.ready.sort();
        self.ready.iter().take(cpus).map(|job| job.task).collect()
    }
}

proptest! {
    /// The test applies random releases and ends, some of them at one instant.
    #[test]
    fn the_most_urgent_run_each_on_one_cpu_and_those_that_go_on_stay(
        cpus in 1..6_usize,
        steps in prop::collection::vec((prop::collection::vec((0..12_usize, 0..40_u64), 0..4),
                                        prop::collection::vec(0..6_usize, 0..3)), 1..40),
    ) {
        let mut quick = Cluster::new(0..cpus);
        let mut plain = Plain::default();
        let mut homes = Pairs(BTreeMap::new());
        for (released, ended) in steps {
            for cpu in ended {
                if let Some(task) = plain.on.remove(&cpu) {
                    plain.ready.retain(|job| job.task != task);
                    quick.ended(cpu);
                }
            }
            for (task, by) in released {
                if plain.ready.iter().all(|job| job.task != task) {
                    plain.ready.push(job(by, task));
                    quick.ready(job(by, task));
                }
            }
            let before = plain.on.clone();
            for change in quick.decide(&homes) {
                prop_assert_eq!(plain.on.insert(change.cpu, change.gains), change.loses);
                homes.0.insert(change.gains, change.cpu);
            }
            let mut run: Vec<usize> = plain.on.values().copied().collect();
            let mut chosen = plain.chosen(cpus);
            run.sort_unstable();
            chosen.sort_unstable();
            prop_assert_eq!(&run, &chosen);
            for (cpu, task) in before {
                if chosen.contains(&task) {
                    prop_assert_eq!(plain.on.get(&cpu), Some(&task));
                }
            }
        }
    }
}
