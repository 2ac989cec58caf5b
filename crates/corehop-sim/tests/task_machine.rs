// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets on the simulated machine: schedules solved by hand, and what no schedule may do.

use corehop_plan::experiment::{
    Experiment, Plan, PlannedTask, Preset, RandomSets, TaskOrigin, TaskRun, TaskSets, Tasks,
};
use corehop_plan::machine::{Machine, MachineError, Records, RunEnd, SinkFn, samples_of};
use corehop_plan::platform::{Fact, Latency, Platform};
use corehop_plan::samples::{Batch, JobOutcome, Projector, Rows, TaskJobRecord};
use corehop_plan::units::{Bytes, Cpu, CpuList, Nanos};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::{Absence, Event, Load, WorkingSet};
use corehop_sim::SimMachine;

/// Without prefetchers, which would keep small working sets from being sampled.
fn x5650() -> Platform {
    let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
    platform.prefetchers.clear();
    platform
}

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// A task by offset, execution time and deadline, in microseconds, which runs once; its rank is its
/// place.
fn task(offset: u64, wcet: u64, deadline: u64) -> PlannedTask {
    PlannedTask {
        budget: None,
        name: None,
        wcet: us(wcet),
        period: us(100_000),
        deadline: us(deadline),
        rank: 0,
        cluster: 0,
        offset: us(offset),
        longest_delay: Nanos::new(0),
        set: WorkingSet::list(Bytes::from_kib(4), 0.5),
    }
}

fn of_size(kib: u64, task: PlannedTask) -> PlannedTask {
    PlannedTask { set: WorkingSet::list(Bytes::from_kib(kib), 0.5), ..task }
}

fn plan(scheduler: Scheduler, clusters: &[&str], tasks: Vec<PlannedTask>) -> Tasks {
    let ranked = tasks.into_iter().enumerate();
    let tasks = ranked.map(|(rank, task)| PlannedTask { rank: rank as u32, ..task }).collect();
    let run = TaskRun {
        number: None,
        index: 0,
        load: Load::Idle,
        duration: us(100_000),
        watched: true,
        scale: 1.0,
        clusters: clusters.iter().map(|cpus| cpus.parse().unwrap()).collect(),
        tasks,
    };
    Tasks { scheduler, sched_ext: None, runs: vec![run] }
}

fn planned(tasks: &Tasks) -> Plan {
    Plan::new("schedule-sensitive", 1, tasks.clone())
}

fn run_on(machine: &mut SimMachine, plan: &Plan) -> Vec<TaskJobRecord> {
    let mut records = Records::default();
    assert_eq!(machine.run(plan, &mut records).unwrap(), RunEnd::Complete);
    records.tasks
}

/// The rows of one record.
fn rows(plan: &Plan, record: &TaskJobRecord) -> Rows {
    Projector::new(plan, &x5650(), 0).rows(Batch::Tasks(std::slice::from_ref(record)))
}

/// The records of all jobs, by task.
fn run(plan: &Tasks) -> Vec<TaskJobRecord> {
    let mut records = run_on(&mut SimMachine::new(x5650()).unwrap(), &planned(plan));
    records.sort_by_key(|record| (record.run, record.task, record.job));
    records
}

/// When each job began and ended, in microseconds.
fn times(records: &[TaskJobRecord]) -> Vec<(u64, u64)> {
    records.iter().map(|it| (it.began_ns / 1_000, it.ended_ns / 1_000)).collect()
}

fn three() -> Vec<PlannedTask> {
    vec![task(0, 4_000, 10_000), task(0, 6_000, 12_000), task(2_000, 3_000, 5_000)]
}

#[test]
fn the_latest_deadline_of_two_cpus_gives_way_and_goes_on_where_one_is_free_first() {
    // At 2 ms the third task is due first, and takes CPU 1 from the second one. At 4 ms the first
    // one ends; the second goes on with its last 4 ms there.
    let plan = plan(Scheduler::GEdf, &["0-1"], three());
    let records = run(&plan);
    assert_eq!(times(&records), [(0, 4_000), (0, 8_000), (2_000, 5_000)]);
    let moved = &records[1];
    assert_eq!((moved.preemptions, moved.migrations, moved.course), (0, 1, JobOutcome::Sample));
    let away = moved.away.unwrap();
    assert_eq!((away.from, away.to, away.by), (Cpu(1), Cpu(0), Some(2)));
    assert!((away.length_ns - 2e6).abs() < 1e-6);
    assert!(records[0].away.is_none() && records[2].away.is_none());
    assert_eq!([records[0].course, records[2].course], [JobOutcome::NotAway; 2]);

    let plan = planned(&plan);
    let made = rows(&plan, moved);
    let sample = &made.samples[0];
    assert!(sample.valid, "{:?}", sample.disturbed_by);
    assert_eq!((sample.event, sample.from_cpu, sample.to_cpu), (Event::L3Migration, 1, 0));
    assert!((sample.length_ns - 2e6).abs() < 1e-6);
    assert!(sample.warm_ns < sample.resumed_ns && sample.resumed_ns < sample.cold_ns * 2.0);
    let job = &made.task_jobs[0];
    assert_eq!((job.response_ns as i64, job.lateness_ns as i64), (8_000_000, -4_000_000));
    assert_eq!(records[1].executed_ns, 6_000_000);
    let left = moved.touched.as_ref().unwrap().leaves[0];
    assert_eq!((left.from, left.to, sample.preempted_by), (Cpu(1), Cpu(0), Absence::Preemptor));
    // The third one is released at 2 ms.
    let job = &rows(&plan, &records[2]).task_jobs[0];
    assert_eq!((job.latency_ns as i64, job.response_ns as i64), (0, 3_000_000));
    assert_eq!(job.lateness_ns as i64, -2_000_000);
}

#[test]
fn with_fixed_priorities_the_last_rank_waits_for_a_cpu() {
    let records = run(&plan(Scheduler::GFp, &["0-1"], three()));
    assert_eq!(times(&records), [(0, 4_000), (0, 6_000), (4_000, 7_000)]);
    let plan = planned(&plan(Scheduler::GFp, &["0-1"], three()));
    let job = &rows(&plan, &records[2]).task_jobs[0];
    assert_eq!((job.latency_ns as i64, job.response_ns as i64), (2_000_000, 5_000_000));
    assert!(records.iter().all(|it| it.away.is_none()));
}

#[test]
fn on_its_own_cpu_a_preempted_job_comes_back_when_the_other_has_ended() {
    let tasks = vec![task(0, 6_000, 20_000), task(2_000, 2_000, 5_000)];
    let records = run(&plan(Scheduler::PEdf, &["0", "1"], tasks));
    assert_eq!(times(&records), [(0, 8_000), (2_000, 4_000)]);
    let away = records[0].away.unwrap();
    assert_eq!((away.from, away.to, away.by), (Cpu(0), Cpu(0), Some(1)));
    assert_eq!((records[0].preemptions, records[0].migrations), (1, 0));
    assert!((away.length_ns - 2e6).abs() < 1e-6);
}

#[test]
fn a_task_that_comes_back_walks_for_its_pages_where_a_switch_flushed_the_tlb() {
    let resumed = |flushes| {
        let mut platform = x5650();
        platform.core.switch_flushes_tlb = Some(Fact::assumed(flushes, ""));
        for tlb in &mut platform.tlbs {
            tlb.penalty = Fact::assumed(Latency::Picos(100_000), "");
        }
        let tasks = vec![of_size(16, task(0, 4_000, 20_000)), task(1_000, 1_000, 5_000)];
        let plan = planned(&plan(Scheduler::PEdf, &["0"], tasks));
        let mut records = run_on(&mut SimMachine::new(platform).unwrap(), &plan);
        records.sort_by_key(|record| record.task);
        let sample = &rows(&plan, &records[0]).samples[0];
        assert_eq!(sample.event, Event::Preemption);
        sample.resumed_ns - sample.warm_ns
    };
    // Four pages that two levels miss.
    let more = resumed(true) - resumed(false);
    assert!((more - 800.0).abs() < 10.0, "{more}");
}

#[test]
fn equal_deadlines_are_served_by_number_and_a_late_job_keeps_the_next_waiting() {
    let tasks = vec![task(0, 3_000, 10_000), task(0, 3_000, 10_000)];
    let records = run(&plan(Scheduler::PEdf, &["0"], tasks));
    assert_eq!(times(&records), [(0, 3_000), (3_000, 6_000)]);
    // 6 of every 5 ms are asked for: the second job of the first task begins when its first has ended.
    let often = |task| PlannedTask { period: us(5_000), ..task };
    let tasks = vec![often(task(0, 3_000, 5_000)), often(task(0, 3_000, 5_000))];
    let mut plan = plan(Scheduler::PEdf, &["0"], tasks);
    plan.runs[0].duration = us(10_000);
    let records = run(&plan);
    assert_eq!(times(&records), [(0, 3_000), (6_000, 9_000), (3_000, 6_000), (9_000, 12_000)]);
}

#[test]
fn each_way_that_differs_from_figure_1_has_its_word() {
    let course = |tasks: Vec<PlannedTask>| run(&plan(Scheduler::PEdf, &["0"], tasks))[0].clone();
    // A mebibyte takes longer than 100 us the first time, and longer than 20 us at any time.
    let long = || of_size(1_024, task(0, 20_000, 90_000));
    let brief = |offset| task(offset, 1_000, 2_000);
    assert_eq!(course(vec![long()]).course, JobOutcome::NotAway);
    assert_eq!(course(vec![of_size(1_024, task(0, 20, 90_000))]).course, JobOutcome::TooShort);
    assert_eq!(course(vec![long(), brief(100)]).course, JobOutcome::AwayInCold);
    let whole = course(vec![long(), brief(10_000)]);
    assert_eq!(whole.course, JobOutcome::Sample);
    let touches = whole.touched.unwrap().touches;
    let cold = (touches[0].ns / 1e3) as u64;
    assert_eq!(course(vec![long(), brief(cold + 20)]).course, JobOutcome::AwayInWarm);
    // The second brief one comes 20 us after the job has gone on.
    let again = course(vec![long(), brief(10_000), brief(11_020)]);
    assert_eq!((again.course, again.preemptions), (JobOutcome::AwayAgain, 2));
    // With the third touch it has been away twice, so that no sample of it is valid.
    let tasks = vec![long(), brief(10_000), brief(11_020)];
    let plan = planned(&plan(Scheduler::PEdf, &["0"], tasks));
    assert!(!rows(&plan, &again).samples[0].valid);
    assert!(again.touched.unwrap().touches[2].ns > 1e6);
}

#[test]
fn a_job_ends_on_time_and_does_not_begin_a_touch_that_it_cannot_finish() {
    // It loses its CPU 10 us before its end, or 10 ms.
    for (wcet, course) in [(10_010, JobOutcome::TooShort), (20_000, JobOutcome::Sample)] {
        let tasks = vec![of_size(1_024, task(0, wcet, 90_000)), task(10_000, 1_000, 2_000)];
        let record = &run(&plan(Scheduler::PEdf, &["0"], tasks))[0];
        assert_eq!((record.course, record.preemptions), (course, 1));
        assert_eq!(record.touched.is_some(), course == JobOutcome::Sample);
        assert_eq!(record.executed_ns, wcet * 1_000);
        assert_eq!(record.ended_ns, (wcet + 1_000) * 1_000);
    }
}

fn drawn(scheduler: Scheduler, load: Load, sets: u32, millis: u64) -> Plan {
    let drawn = RandomSets {
        task_counts: vec![40],
        sets,
        utilisation: (0.1, 0.9),
        working_sets: vec![WorkingSet::list(Bytes::from_kib(64), 0.5)],
        ..RandomSets::bastoni()
    };
    let sets = TaskSets {
        scheduler,
        sched_ext: None,
        source: TaskOrigin::Drawn(drawn),
        duration: Nanos::from_millis(millis),
        loads: vec![load],
        share: 0.95,
        paired: false,
        cpus: CpuList::default(),
        cluster_level: None,
    };
    sets.plan(&x5650(), 5).unwrap()
}

#[test]
fn no_task_migrates_further_than_the_scheduler_lets_it() {
    let platform = x5650();
    let moved = |scheduler| {
        let records = run_on(
            &mut SimMachine::new(x5650()).unwrap().sampled(),
            &drawn(scheduler, Load::Idle, 1, 100),
        );
        let classes = records.iter().filter_map(|it| it.away);
        let event = |away: corehop_plan::samples::JobAbsence| platform.affinity(away.from, away.to);
        let mut events: Vec<_> = classes.map(event).collect();
        events.sort_unstable();
        events.dedup();
        events.iter().map(|affinity| affinity.event()).collect::<Vec<_>>()
    };
    assert_eq!(moved(Scheduler::PEdf), ["preemption"]);
    assert_eq!(moved(Scheduler::PFp), ["preemption"]);
    assert_eq!(moved(Scheduler::CEdf), ["preemption", "l3_migration"]);
    assert_eq!(moved(Scheduler::GFp)[..], ["l3_migration", "memory_migration"]);
}

#[test]
fn any_number_of_threads_gives_the_same_records_in_the_same_order() {
    let platform = x5650();
    let polluter = Preset::polluter(&platform);
    let load = Load::Constructed { polluter, cpus: CpuList::default() };
    let plan = drawn(Scheduler::GEdf, load, 2, 40);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run_on(&mut SimMachine::new(x5650()).unwrap().sampled(), &plan))
    };
    let (one, two) = (with(1), with(2));
    assert!(one.len() > 50, "{}", one.len());
    assert!(one.is_sorted_by_key(|record| record.run));
    // Times count from the start of the run, with a load that had begun before as well.
    for record in &one {
        let tasks = plan.tasks().unwrap();
        let released = tasks.releases(5, record.run, record.task).nth(record.job as usize);
        assert_eq!(Some(record.release_ns), released);
    }
    assert_eq!(one, two);
}

#[test]
fn under_load_a_working_set_comes_from_memory_and_idle_it_does_not() {
    let platform = x5650();
    let mean = |load| {
        let plan = drawn(Scheduler::PEdf, load, 1, 60);
        let samples = samples_of(&mut SimMachine::new(x5650()).unwrap().sampled(), &plan).unwrap();
        let samples: Vec<f64> =
            samples.iter().filter(|sample| sample.valid).map(|sample| sample.cold_ns).collect();
        assert!(!samples.is_empty(), "{}", samples.len());
        samples.iter().sum::<f64>() / samples.len() as f64
    };
    let polluter = Preset::polluter(&platform);
    let loaded = mean(Load::Constructed { polluter, cpus: CpuList::default() });
    let idle = mean(Load::Idle);
    assert!(loaded > 1.2 * idle, "{loaded} {idle}");
}

#[test]
fn a_run_ends_where_it_is_asked_to() {
    let plan = drawn(Scheduler::GEdf, Load::Idle, 3, 20);
    let mut calls = 0;
    let mut take = SinkFn(|_: Batch<'_>| {
        calls += 1;
        Ok(calls < 2)
    });
    let outcome = SimMachine::new(x5650()).unwrap().run(&plan, &mut take).unwrap();
    assert_eq!((outcome, calls), (RunEnd::Stopped, 2));
}

#[test]
fn schedulers_whose_rules_are_the_kernels_are_refused_with_a_remedy() {
    for scheduler in [Scheduler::Eevdf, Scheduler::SchedExt] {
        let plan = plan(scheduler, &["0-1"], three());
        let mut machine = SimMachine::new(x5650()).unwrap();
        let error = machine.run(&planned(&plan), &mut Records::default()).unwrap_err();
        assert!(matches!(error, MachineError::NotPossible { .. }));
        let text = error.to_string();
        assert!(text.contains(&scheduler.to_string()) && text.contains("g-edf"), "{text}");
    }
}
