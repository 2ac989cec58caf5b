// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who gets which CPU: by hand, and against sorting all jobs that are ready.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::dispatch::{Change, Cluster, Places, Urgency};

/// CPUs in pairs that share a cache, and where tasks were.
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
    Urgency { by, task }
}

fn gets(cpu: usize, gains: usize) -> Change {
    Change { cpu, loses: None, gains }
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
    let change = Change { cpu: 1, loses: Some(3), gains: 4 };
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
    let of = |cpu, loses, gains| Change { cpu, loses: Some(loses), gains };
    assert_eq!(two.decide(&homes(&[0, 1, 0, 1])), [of(0, 0, 2), of(1, 1, 3)]);
    // Nobody moves for a job that is as urgent, of a task that comes later.
    two.ready(job(20, 4));
    assert_eq!(two.decide(&homes(&[0, 1, 0, 1, 0])), []);
}

/// The obvious twin: all ready jobs in a list, and who has which CPU.
#[derive(Default)]
struct Plain {
    ready: Vec<Urgency>,
    on: BTreeMap<usize, usize>,
}

impl Plain {
    /// The tasks that are to run: the first of all that are ready.
    fn chosen(&mut self, cpus: usize) -> Vec<usize> {
        self.ready.sort();
        self.ready.iter().take(cpus).map(|job| job.task).collect()
    }
}

proptest! {
    /// Random releases and ends, some at one instant.
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
