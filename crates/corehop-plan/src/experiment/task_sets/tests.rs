// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the drawn sets, the placement of tasks, and the releases of jobs.

use super::*;
use crate::workload::scheduler::Scheduler;

fn sets(scheduler: Scheduler, count: u32) -> TaskSets {
    let drawn = RandomSets {
        task_counts: vec![count],
        sets: 2,
        working_sets: vec![WorkingSet::list(Bytes::from_kib(64), 0.5)],
        ..RandomSets::bastoni()
    };
    TaskSets {
        scheduler,
        sched_ext: None,
        source: TaskOrigin::Drawn(drawn),
        duration: Nanos::from_secs(1),
        loads: vec![Load::Idle],
        share: 1.0,
        paired: false,
        cpus: CpuList::default(),
        cluster_level: None,
    }
}

fn l7455() -> Platform {
    Platform::named("xeon_l7455").unwrap().unwrap()
}

#[test]
fn every_scheduler_gets_the_same_tasks_on_its_own_clusters() {
    let of = |scheduler| sets(scheduler, 75).tasks(&l7455(), 1).unwrap();
    let (global, clustered, partitioned) =
        (of(Scheduler::GEdf), of(Scheduler::CEdf), of(Scheduler::PEdf));
    let clusters = |plan: &Tasks| plan.runs[0].clusters.len();
    assert_eq!((clusters(&global), clusters(&clustered), clusters(&partitioned)), (1, 4, 24));
    let same = |plan: &Tasks| -> Vec<_> {
        plan.runs[1].tasks.iter().map(|it| (it.period, it.rank, it.offset)).collect()
    };
    assert_eq!(same(&global), same(&partitioned));
    let pairs = TaskSets { cluster_level: Some(2), ..sets(Scheduler::CEdf, 25) };
    assert_eq!(clusters(&pairs.tasks(&l7455(), 1).unwrap()), 12);
    let error = TaskSets { cpus: "0-3".parse().unwrap(), ..sets(Scheduler::CEdf, 25) };
    let error = TaskSets { cluster_level: Some(4), ..error };
    let error = error.tasks(&l7455(), 1).unwrap_err().to_string();
    assert!(error.contains("level-4") && error.ends_with("name one of 1, 2, 3"), "{error}");
}

#[test]
fn a_set_that_does_not_fit_its_share_is_scaled_by_one_factor() {
    let whole = sets(Scheduler::GEdf, 250).tasks(&l7455(), 1).unwrap();
    assert!((whole.runs[0].scale - 1.0).abs() < 1e-12);
    let half = TaskSets { share: 0.25, ..sets(Scheduler::PEdf, 250) };
    let half = half.tasks(&l7455(), 1).unwrap();
    let run = &half.runs[0];
    assert!(run.scale < 1.0);
    for (cluster, cpus) in run.clusters.iter().enumerate() {
        let own = run.tasks.iter().filter(|task| task.cluster == cluster);
        let used: f64 = own.map(PlannedTask::utilisation).sum();
        assert!(used <= 0.25 * cpus.len() as f64 + 1e-6, "{cpus}: {used}");
    }
    for (task, was) in run.tasks.iter().zip(&whole.runs[0].tasks) {
        let factor = task.wcet.get() as f64 / was.wcet.get() as f64;
        assert!((factor - run.scale).abs() < 1e-3);
    }
}

#[test]
fn releases_are_periodic_or_late_by_a_drawn_time_and_the_same_each_time() {
    let plan = sets(Scheduler::GEdf, 25).tasks(&l7455(), 1).unwrap();
    let task = &plan.runs[0].tasks[3];
    let all: Vec<u64> = plan.releases(1, 0, 3).collect();
    assert_eq!(all[0], task.offset.get());
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] == task.period.get()));
    assert!(all.last().unwrap() + task.period.get() >= 1_000_000_000);
    let TaskOrigin::Drawn(drawn) = sets(Scheduler::GEdf, 25).source else { unreachable!() };
    let source = TaskOrigin::Drawn(RandomSets { sporadic: 0.5, ..drawn });
    let late = TaskSets { source, ..sets(Scheduler::GEdf, 25) }.tasks(&l7455(), 1).unwrap();
    let all: Vec<u64> = late.releases(1, 0, 3).collect();
    let gaps: Vec<u64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = (task.period.get(), task.period.get() * 3 / 2);
    assert!(gaps.iter().all(|gap| (least..=most).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|&gap| gap > least));
    assert_eq!(all, late.releases(1, 0, 3).collect::<Vec<_>>());
}

#[test]
fn parameters_that_make_no_sense_are_named() {
    let refused = |sets: TaskSets, part: &str| {
        let error = sets.tasks(&l7455(), 1).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(TaskSets { share: 0.0, ..sets(Scheduler::GEdf, 25) }, "share of 0");
    refused(sets(Scheduler::GEdf, 0), "0 tasks");
    let TaskOrigin::Drawn(drawn) = sets(Scheduler::GEdf, 25).source else { unreachable!() };
    let source = TaskOrigin::Drawn(RandomSets { sets: 0, ..drawn });
    refused(TaskSets { source, ..sets(Scheduler::GEdf, 25) }, "0 sets");
    refused(TaskSets { duration: Nanos::new(0), ..sets(Scheduler::GEdf, 25) }, "duration");
    refused(TaskSets { cpus: "99".parse().unwrap(), ..sets(Scheduler::GEdf, 25) }, "99");
    let task = GivenTask {
        budget: None,
        name: None,
        wcet: Nanos::from_millis(5),
        period: Nanos::from_millis(4),
        deadline: Nanos::from_millis(4),
        priority: None,
        cpu: None,
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let source = TaskOrigin::Given(vec![task]);
    refused(TaskSets { source, ..sets(Scheduler::GEdf, 25) }, "at most the period");
}

#[test]
fn given_tasks_are_ranked_by_their_priorities_or_by_deadline() {
    let task = |deadline: u64, priority| GivenTask {
        budget: None,
        name: Some(format!("due {deadline}")),
        wcet: Nanos::from_millis(1),
        period: Nanos::from_millis(100),
        deadline: Nanos::from_millis(deadline),
        priority,
        cpu: None,
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let ranks = |tasks: &[GivenTask]| -> Vec<u32> {
        given(tasks).unwrap().iter().map(|task| task.rank).collect()
    };
    assert_eq!(ranks(&[task(30, None), task(10, None), task(20, None)]), [2, 0, 1]);
    assert_eq!(ranks(&[task(30, Some(1)), task(10, Some(3)), task(20, Some(2))]), [0, 2, 1]);
    // Equal priorities stay equal: SCHED_FIFO preempts no equal.
    assert_eq!(ranks(&[task(30, Some(9)), task(10, Some(3)), task(20, Some(9))]), [1, 0, 1]);
    assert_eq!(ranks(&[task(10, None), task(10, None)]), [0, 1]);
}

/// Draws task sets as `sets` does, with parameters that `change` changes.
fn drawn(scheduler: Scheduler, count: u32, change: impl Fn(&mut RandomSets)) -> Tasks {
    let mut sets = sets(scheduler, count);
    if let TaskOrigin::Drawn(drawn) = &mut sets.source {
        change(drawn);
    }
    sets.tasks(&l7455(), 1).unwrap()
}

#[test]
fn both_ends_of_a_range_of_periods_are_drawn_and_delays_are_a_share_of_them() {
    let us = Nanos::from_micros;
    let plan = drawn(Scheduler::GEdf, 100, |drawn| {
        drawn.period = (us(10_000), us(10_002));
        drawn.sporadic = 0.5;
    });
    let mut periods: Vec<Nanos> = plan.runs[0].tasks.iter().map(|task| task.period).collect();
    periods.sort_unstable();
    periods.dedup();
    assert_eq!(periods, [us(10_000), us(10_001), us(10_002)]);
    for task in &plan.runs[0].tasks {
        assert_eq!(task.longest_delay.get(), task.period.get() / 2);
        assert!(task.offset < task.period && task.offset.get().is_multiple_of(1_000));
    }
}

#[test]
fn every_working_set_gets_the_same_tasks_and_every_set_others() {
    let plan = drawn(Scheduler::GEdf, 25, |drawn| {
        drawn.working_sets = vec![
            WorkingSet::list(Bytes::from_kib(64), 0.5),
            WorkingSet::list(Bytes::from_kib(256), 0.25),
        ];
    });
    let of = |run: usize| -> Vec<_> {
        plan.runs[run].tasks.iter().map(|it| (it.wcet, it.period, it.offset)).collect()
    };
    assert_eq!(plan.runs.len(), 4);
    assert_eq!((of(0), of(1)), (of(2), of(3)));
    assert_ne!(of(0), of(1));
}

#[test]
fn no_task_alone_uses_more_than_the_share_of_a_cpu_and_an_early_deadline_is_no_more_use() {
    let mut large = sets(Scheduler::GEdf, 2);
    large.share = 0.25;
    if let TaskOrigin::Drawn(drawn) = &mut large.source {
        drawn.utilisation = (0.5, 0.6);
    }
    let run = &large.tasks(&l7455(), 1).unwrap().runs[0];
    let most = run.tasks.iter().map(PlannedTask::utilisation).fold(0.0, f64::max);
    assert!((most - 0.25).abs() < 1e-3, "{most}");
    let early = GivenTask {
        budget: None,
        name: None,
        wcet: Nanos::from_millis(2),
        period: Nanos::from_millis(10),
        deadline: Nanos::from_millis(3),
        priority: None,
        cpu: None,
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let given = TaskSets { source: TaskOrigin::Given(vec![early]), ..large };
    assert!((given.tasks(&l7455(), 1).unwrap().runs[0].scale - 1.0).abs() < 1e-12);
}

#[test]
fn tasks_go_where_most_is_free_for_each_cpu() {
    let tasks = given(&vec![
        GivenTask {
            budget: None,
            name: None,
            wcet: Nanos::from_millis(1),
            period: Nanos::from_millis(10),
            deadline: Nanos::from_millis(10),
            priority: None,
            cpu: None,
            cpus: Vec::new(),
            set: WorkingSet::list(Bytes::from_kib(4), 0.5),
        };
        8
    ]);
    let clusters = ["0-2".parse().unwrap(), "3".parse().unwrap()];
    let tasks = placed(tasks.unwrap(), &clusters);
    assert_eq!(tasks.iter().filter(|task| task.cluster == 0).count(), 6);
}

#[test]
fn tasks_that_were_assigned_a_cpu_run_there_and_nowhere_else() {
    let task = |cpu| GivenTask {
        budget: None,
        name: None,
        wcet: Nanos::from_millis(1),
        period: Nanos::from_millis(10),
        deadline: Nanos::from_millis(10),
        priority: None,
        cpu: Some(cpu),
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let on = |scheduler, cpus: &[usize]| {
        let source = TaskOrigin::Given(cpus.iter().map(|&cpu| task(cpu)).collect());
        let cpus = "2-3".parse().unwrap();
        TaskSets { source, cpus, ..sets(scheduler, 1) }.tasks(&l7455(), 1)
    };
    // First fit would leave the second CPU empty, and worst fit would deal them out.
    let run = on(Scheduler::PFp, &[1, 0, 1]).unwrap().runs.remove(0);
    let clusters: Vec<String> =
        run.tasks.iter().map(|task| run.clusters[task.cluster].to_string()).collect();
    assert_eq!(clusters, ["3", "2", "3"]);
    let refused = on(Scheduler::PEdf, &[0, 2, 1]).unwrap_err().to_string();
    assert!(
        refused.contains("task 1") && refused.contains("CPU 2, but the set has 2 CPUs"),
        "{refused}"
    );
    let migrating = on(Scheduler::GEdf, &[0, 1]).unwrap_err().to_string();
    assert!(migrating.contains("p-edf or p-fp"), "{migrating}");
}

#[test]
fn tasks_that_were_assigned_several_cpus_run_in_that_cluster_or_are_refused_by_name() {
    let task = |name: &str, cpus: &[usize]| GivenTask {
        budget: None,
        name: Some(name.to_owned()),
        wcet: Nanos::from_millis(1),
        period: Nanos::from_millis(10),
        deadline: Nanos::from_millis(10),
        priority: None,
        cpu: cpus.first().copied().filter(|_| cpus.len() == 1),
        cpus: if cpus.len() > 1 { cpus.to_vec() } else { Vec::new() },
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let on = |scheduler, all: &[&[usize]]| {
        let named = |(at, cpus): (usize, &&[usize])| task(&format!("t{at}"), cpus);
        let source = TaskOrigin::Given(all.iter().enumerate().map(named).collect());
        let cpus = "0-3".parse().unwrap();
        TaskSets { source, cpus, ..sets(scheduler, 1) }.tasks(&l7455(), 1)
    };
    // The level-2 caches of this machine serve pairs: the first fit would be another one.
    let run = on(Scheduler::CEdf, &[&[2, 3], &[2, 3], &[0, 1]]).unwrap().runs.remove(0);
    let clusters = run.tasks.iter().map(|task| run.clusters[task.cluster].to_string());
    assert_eq!(clusters.collect::<Vec<_>>(), ["2-3", "2-3", "0-1"]);
    for (scheduler, cpus, words) in [
        (Scheduler::CEdf, [&[0, 1][..], &[1, 2]], "`t1`) may run on CPUs 1-2"),
        (Scheduler::PFp, [&[0][..], &[1, 2]], "`t1`) may run on CPUs 1-2"),
        (Scheduler::PEdf, [&[0][..], &[]], "`t1`) may run on all CPUs"),
        (Scheduler::GEdf, [&[][..], &[0, 1]], "`t1`) may run on CPUs 0-1"),
        (Scheduler::GEdf, [&[0, 1][..], &[]], "`t0`) may run on CPUs 0-1"),
    ] {
        let error = on(scheduler, &cpus).unwrap_err().to_string();
        assert!(error.contains(words), "{scheduler} {cpus:?}: {error}");
    }
}

#[test]
fn loads_alternate_between_runs_and_take_turns_to_be_first() {
    let polluter = crate::experiment::Preset::polluter(&l7455());
    let beside = Load::Constructed { polluter, cpus: CpuList::default() };
    let both = TaskSets { loads: vec![Load::Idle, beside], ..sets(Scheduler::GEdf, 25) };
    let plan = both.tasks(&l7455(), 1).unwrap();
    let turns: Vec<_> = plan.runs.iter().map(|run| (run.index, run.load.word())).collect();
    let words = [(0, "idle"), (0, "constructed"), (1, "constructed"), (1, "idle")];
    assert_eq!(turns, words);
}

#[test]
fn watched_and_unwatched_take_turns_to_be_first() {
    let paired = TaskSets { paired: true, ..sets(Scheduler::GEdf, 25) };
    let plan = paired.tasks(&l7455(), 1).unwrap();
    let turns: Vec<_> = plan.runs.iter().map(|run| (run.index, run.watched)).collect();
    assert_eq!(turns, [(0, false), (0, true), (1, true), (1, false)]);
}

#[test]
fn a_budget_is_what_the_kernel_reserves_and_is_kept_where_the_work_is_scaled() {
    let of = |wcet: u64, budget: u64| GivenTask {
        name: None,
        wcet: Nanos::from_micros(wcet),
        budget: Some(Nanos::from_micros(budget)),
        period: Nanos::from_micros(1_000),
        deadline: Nanos::from_micros(1_000),
        priority: None,
        cpu: Some(0),
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    };
    let run = |share| {
        let sets = TaskSets {
            source: TaskOrigin::Given(vec![of(200, 260)]),
            share,
            ..sets(Scheduler::PEdf, 1)
        };
        sets.tasks(&l7455(), 1).unwrap().runs.remove(0).tasks.remove(0)
    };
    let whole = run(1.0);
    assert_eq!((whole.wcet.get(), whole.runtime().get()), (200_000, 260_000));
    assert!((whole.reserved() - 0.26).abs() < 1e-9 && (whole.utilisation() - 0.2).abs() < 1e-9);
    let halved = run(0.1);
    assert_eq!((halved.wcet.get(), halved.runtime().get()), (100_000, 260_000));
}
