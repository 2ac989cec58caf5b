// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine's scheduler against the one that is walked through a unit at a time, and
//! against exact tests.

use corehop_plan::experiment::{Plan, PlannedTask, TaskRun, Tasks};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, Cpu, CpuList, Nanos};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::{Load, WorkingSet};
use corehop_sched::{TaskSet, Verdict};
use corehop_sim::SimMachine;
use proptest::prelude::*;

use crate::draw::{Due, sets, verdict};
use crate::simulator::{Policy, Run, Seen, simulate};

/// A unit of time: long against a touch of 64 lines, so that no resumed touch outlasts its job.
const UNIT: u64 = 1_000_000;

fn plan(set: &TaskSet, scheduler: Scheduler, order: &[usize], run: &Run<'_>) -> Tasks {
    let task = |(at, task): (usize, &corehop_sched::Task)| PlannedTask {
        budget: None,
        name: None,
        wcet: Nanos::new((task.wcet() * UNIT).ticks()),
        period: Nanos::new((task.period() * UNIT).ticks()),
        deadline: Nanos::new((task.deadline() * UNIT).ticks()),
        rank: order.iter().position(|&other| other == at).unwrap_or(at) as u32,
        cluster: 0,
        offset: Nanos::new(run.offsets[at] * UNIT),
        longest_delay: Nanos::new(0),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let tasks = set.tasks().iter().enumerate().map(task).collect();
    Tasks {
        scheduler,
        sched_ext: None,
        runs: vec![TaskRun {
            number: None,
            index: 0,
            load: Load::Idle,
            duration: Nanos::new(run.horizon * UNIT),
            watched: true,
            scale: 1.0,
            clusters: vec![CpuList::new((0..set.cpus()).map(Cpu))],
            tasks,
        }],
    }
}

/// The same, on the simulated machine: what has ended by the horizon.
fn on_machine(plan: &Tasks, horizon: u64) -> Seen {
    let tasks = &plan.runs[0].tasks;
    let mut seen = Seen { responses: vec![0; tasks.len()], missed: false };
    let mut machine = SimMachine::new(Platform::named("xeon_x5650").unwrap().unwrap()).unwrap();
    let mut records = Records::default();
    machine.run(&Plan::new("schedule-sensitive", 1, plan.clone()), &mut records).unwrap();
    for record in records.tasks {
        let (release, ended) = (record.release_ns / UNIT, record.ended_ns / UNIT);
        let due = release + tasks[record.task].deadline.get() / UNIT;
        seen.missed |= ended > due && due <= horizon;
        if ended <= horizon {
            let worst = &mut seen.responses[record.task];
            *worst = (ended - release).max(*worst);
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_machine_s_scheduler_does_what_the_obvious_one_does(
        set in sets(3, 12, Due::Constrained),
        offsets in prop::collection::vec(0_u64..12, 7),
        fixed in any::<bool>(),
    ) {
        let order: Vec<usize> = (0..set.tasks().len()).rev().collect();
        let policy = if fixed { Policy::Fixed } else { Policy::Edf };
        let scheduler = if fixed { Scheduler::GFp } else { Scheduler::GEdf };
        let horizon = 60;
        let run = Run {
            set: &set,
            policy,
            preemptive: true,
            order: &order,
            offsets: &offsets,
            delays: &[0],
            horizon,
        };
        let quick = on_machine(&plan(&set, scheduler, &order, &run), horizon);
        prop_assert_eq!(simulate(&run), quick);
    }

    #[test]
    fn earliest_deadline_first_misses_nothing_on_a_cpu_whose_exact_test_says_so(
        set in sets(1, 14, Due::Constrained),
        offsets in prop::collection::vec(0_u64..14, 7),
    ) {
        let run = Run {
            set: &set,
            policy: Policy::Edf,
            preemptive: true,
            order: &[],
            offsets: &offsets,
            delays: &[0],
            horizon: 400,
        };
        let at_once = Run { offsets: &[0; 7], ..run.clone() };
        let misses = |run: &Run<'_>| on_machine(&plan(&set, Scheduler::PEdf, &[], run), 400).missed;
        match verdict("qpa", &set) {
            Verdict::Schedulable => prop_assert!(!misses(&run) && !misses(&at_once)),
            _ => prop_assert!(misses(&at_once)),
        }
    }
}
