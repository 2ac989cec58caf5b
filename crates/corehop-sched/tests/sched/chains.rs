// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains by events against pyCPA: responses of 150 random systems of up to three CPUs, as pyCPA's SPP scheduler with the propagation
//! `jitter_dmin` gives them (IDA-TUBS/pycpa, 2021), where its analysis is repeated until no response changes. By itself pyCPA stops as
//! soon as no task's own response changes, though the activations of a later task of a chain did: 15 of 600 systems had responses that
//! were too short. One of them is the test below.

use corehop_plan::workload::chains::{Activation, Chain, Chains};
use corehop_plan::workload::placement::TaskPlacement;
use corehop_sched::Time;
use corehop_sched::{TaskParameters, TaskSet, test};

/// Of each task C, the least execution time, T, J, the CPU and the rank; the tasks of each chain; pyCPA's responses.
type Published = (Vec<[u64; 6]>, Vec<Vec<usize>>, Vec<u64>);

fn set((tasks, chains, _): &Published) -> TaskSet {
    let of = |&[wcet, _, period, jitter, _, rank]: &[u64; 6]| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        jitter: Time::new(jitter),
        deadline: Some(Time::new(1 << 20)),
        priority: Some(rank as u32),
        ..TaskParameters::default()
    };
    let chain = |tasks: &Vec<usize>| Chain {
        name: "c".to_owned(),
        tasks: tasks.clone(),
        activation: Activation::Event,
        deadline: Time::new(1 << 30),
    };
    let places = tasks.iter().map(|task| TaskPlacement::Cpus(vec![task[4] as usize])).collect();
    let least = tasks.iter().map(|task| Time::new(task[1])).collect();
    let set = TaskSet::new(3, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap();
    let chains = Chains { all: chains.iter().map(chain).collect(), least };
    set.placed(places).unwrap().chained(chains).unwrap()
}

#[test]
fn responses_in_chains_are_those_of_pycpa() {
    let text = include_str!("pycpa_chains.json");
    let systems: Vec<Published> = serde_json::from_str(text).unwrap();
    assert!(systems.len() >= 150);
    for system in &systems {
        let set = set(system);
        let answer = test("p-fp-given").unwrap().run(corehop_sched::System::of(&set));
        let bounds = answer.bounds.unwrap_or_else(|| panic!("{:?} of {system:?}", answer.why));
        // pyCPA's responses count from the release.
        let local: Vec<u64> =
            bounds.iter().zip(&system.0).map(|(bound, task)| bound.ticks() - task[3]).collect();
        assert_eq!(local, system.2, "{system:?}");
        let latency = |chain: &Vec<usize>| chain.iter().map(|&at| system.2[at]).sum::<u64>();
        let expected: Vec<Time> = system.1.iter().map(latency).map(Time::new).collect();
        assert_eq!(answer.latencies, Some(expected), "{system:?}");
    }
}

#[test]
fn activations_grow_through_tasks_whose_responses_do_not() {
    // pyCPA stops at [69, 3, 10, 19, 24, 68, 49]: the jitter of the chain's last tasks grows through task 2, whose response stays. Task 6
    // lets task 2 end up to 48 late, so that two jobs of task 4 come together in its own 73.
    let tasks = vec![
        [1, 1, 10, 0, 0, 7],
        [3, 1, 50, 20, 0, 1],
        [7, 6, 75, 0, 0, 3],
        [9, 8, 75, 0, 0, 4],
        [24, 11, 75, 0, 1, 2],
        [10, 10, 100, 224, 0, 5],
        [25, 5, 75, 0, 1, 6],
    ];
    let set = set(&(tasks, vec![vec![6, 2, 4, 3]], Vec::new()));
    let bounds = test("p-fp-given").unwrap().run(corehop_sched::System::of(&set)).bounds.unwrap();
    assert_eq!(bounds, [98, 3 + 20, 10, 27, 42, 77 + 224, 73].map(Time::new));
}
