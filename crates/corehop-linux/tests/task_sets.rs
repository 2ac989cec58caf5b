// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets on this host. Real-time ones need CAP_SYS_NICE, and are skipped with the reason where it is
//! not there; all of them leave most of the machine idle.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{GivenTask, Plan, TaskOrigin, TaskSets, Tasks};
use corehop_plan::machine::{Machine, MachineError, Records, RunEnd, SinkFn};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Batch, JobOutcome, Projector, TaskJobRecord};
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::{Event, Load, WorkingSet};
use corehop_system::discover::{SysRoot, discover};

/// Runs that others on this host may disturb are made at most so often.
const ATTEMPTS: u32 = 4;

fn host() -> Platform {
    discover(&SysRoot::live()).unwrap()
}

/// A task that executes for `wcet` of every `period`, both in microseconds.
fn task(wcet: u64, period: u64, kib: u64) -> GivenTask {
    GivenTask {
        budget: None,
        name: None,
        wcet: Nanos::from_micros(wcet),
        period: Nanos::from_micros(period),
        deadline: Nanos::from_micros(period),
        priority: None,
        cpu: None,
        cpus: Vec::new(),
        set: WorkingSet::list(Bytes::from_kib(kib), 0.5),
    }
}

/// A second of these tasks on the first CPU, or on all.
fn plan(scheduler: Scheduler, tasks: Vec<GivenTask>, one_cpu: bool) -> Tasks {
    let host = host();
    let first = CpuList::new(host.usable().first());
    let sets = TaskSets {
        scheduler,
        sched_ext: None,
        source: TaskOrigin::Given(tasks),
        duration: Nanos::from_secs(1),
        loads: vec![Load::Idle],
        share: 0.5,
        paired: false,
        cpus: if one_cpu { first } else { CpuList::default() },
        cluster_level: None,
    };
    sets.tasks(&host, 1).unwrap()
}

fn planned(tasks: &Tasks) -> Plan {
    Plan::new("schedule-sensitive", 1, tasks.clone())
}

/// One set at a time: what one reserves, another would not be admitted with.
static ALONE: Mutex<()> = Mutex::new(());

fn run(plan: &Tasks) -> Result<Vec<TaskJobRecord>, MachineError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run_beside_others(plan)
}

fn run_beside_others(plan: &Tasks) -> Result<Vec<TaskJobRecord>, MachineError> {
    let mut machine = LiveMachine::new(host(), LiveMachineOptions::default());
    let mut all = Records::default();
    assert_eq!(machine.run(&planned(plan), &mut all)?, RunEnd::Complete);
    Ok(all.tasks)
}

/// The records, or nothing and the reason why this host does not allow real-time tasks.
fn allowed(plan: &Tasks) -> Option<Vec<TaskJobRecord>> {
    match run(plan) {
        Ok(records) => Some(records),
        Err(error @ MachineError::NotPossible { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Every release has one job, in order, and times that are possible.
fn assert_whole(plan: &Tasks, records: &[TaskJobRecord]) {
    for task in 0..plan.runs[0].tasks.len() {
        let mut own: Vec<&TaskJobRecord> = records.iter().filter(|it| it.task == task).collect();
        own.sort_by_key(|record| record.job);
        let releases: Vec<u64> = own.iter().map(|record| record.release_ns).collect();
        assert_eq!(releases, plan.releases(1, 0, task).collect::<Vec<_>>());
        for record in own {
            assert!(record.release_ns <= record.began_ns && record.began_ns <= record.ended_ns);
            // The kernel's account begins with the wake-up, a little before the job does.
            assert!(record.executed_ns <= record.ended_ns - record.release_ns + 1_000_000);
        }
    }
}

#[test]
fn every_release_has_one_job_whatever_the_scheduler() {
    for scheduler in [Scheduler::Eevdf, Scheduler::GEdf, Scheduler::GFp, Scheduler::PFp] {
        let tasks = vec![task(1_000, 20_000, 16), task(2_000, 30_000, 64), task(500, 10_000, 4)];
        let plan = plan(scheduler, tasks, false);
        let Some(records) = allowed(&plan) else { continue };
        assert_whole(&plan, &records);
        assert!(records.iter().any(|record| record.course == JobOutcome::NotAway), "{scheduler}");
    }
}

/// Records in which at least five jobs of the second task were off their CPU while the first one ran. The host itself may be
/// away, and take some of those jobs.
fn undisturbed(plan: &Tasks) -> Option<Vec<TaskJobRecord>> {
    for attempt in 1..=ATTEMPTS {
        let records = allowed(plan)?;
        assert_whole(plan, &records);
        let of_low = |it: &&TaskJobRecord| it.task == 1 && it.course == JobOutcome::Sample;
        let by_first = |it: &&TaskJobRecord| it.away.is_some_and(|away| away.by == Some(0));
        let seen = records.iter().filter(of_low).filter(by_first).count();
        if seen >= 5 || attempt == ATTEMPTS {
            return Some(records);
        }
        eprintln!("attempt {attempt} of {ATTEMPTS}: {seen} jobs give a sample by the first task");
    }
    None
}

#[test]
fn a_task_of_low_rank_is_preempted_by_the_one_above_it_and_says_so() {
    // The second is released together with the first every 50 ms, and is longer than its period.
    let tasks = vec![task(1_000, 5_000, 4), task(10_000, 50_000, 64)];
    let plan = plan(Scheduler::PFp, tasks, true);
    let Some(records) = undisturbed(&plan) else { return };
    let (host, low) = (host(), records.iter().filter(|record| record.task == 1));
    let planned = planned(&plan);
    let mut rows = Projector::new(&planned, &host, 0);
    let samples: Vec<_> = low.clone().filter(|it| it.course == JobOutcome::Sample).collect();
    let by_first = |it: &&&TaskJobRecord| it.away.is_some_and(|away| away.by == Some(0));
    // Most of its twenty jobs are away while they wait; a host that is busy otherwise takes some.
    assert!(samples.iter().filter(by_first).count() >= 5, "{samples:?}");
    for record in samples {
        let sample = &rows.rows(Batch::Tasks(std::slice::from_ref(record))).samples[0];
        assert_eq!(
            (sample.event, sample.task, sample.task_count),
            (Event::Preemption, Some(1), Some(2))
        );
        assert!(sample.length_ns > 0.0 && sample.cold_ns > 0.0);
    }
    let migrations: u32 = low.map(|record| record.migrations).sum();
    assert_eq!(migrations, 0, "a task with one CPU does not migrate");
}

/// Nothing but an end of the execution time or an absence comes before such a working set is warm, whatever else runs. Where
/// nothing else runs, most jobs end so.
#[test]
fn jobs_too_short_for_their_working_set_end_with_their_execution_time() {
    use JobOutcome::{AwayInCold, AwayInWarm, Blocked, TooShort};
    let plan = plan(Scheduler::Eevdf, vec![task(50, 10_000, 1024)], false);
    let mut some = 0;
    for attempt in 1..=ATTEMPTS {
        let records = run(&plan).unwrap();
        assert_whole(&plan, &records);
        assert!(records.iter().all(|record| record.touched.is_none()));
        let early = [TooShort, AwayInCold, AwayInWarm, Blocked];
        let late = records.iter().find(|record| !early.contains(&record.course));
        assert!(late.is_none(), "{late:?}");
        let short = records.iter().filter(|record| record.course == TooShort).count();
        if short * 2 > records.len() {
            return;
        }
        some += short;
        eprintln!("attempt {attempt} of {ATTEMPTS}: others interrupted all but {short} jobs");
    }
    assert!(some > 0, "no job ended with its execution time");
}

#[test]
fn more_than_half_of_a_cpu_is_refused_for_real_time_tasks() {
    let mut plan = plan(Scheduler::GFp, vec![task(1_000, 10_000, 4)], true);
    plan.runs[0].tasks[0].wcet = Nanos::from_millis(6);
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("0.60") && error.contains("--share"), "{error}");
    plan.scheduler = Scheduler::Eevdf;
    assert!(run(&plan).is_ok(), "an ordinary task may");
}

#[test]
fn working_sets_that_the_memory_does_not_hold_together_are_refused() {
    // 64 GiB each, which a large host may have once.
    let tasks = (0..1_000).map(|_| task(100, 100_000, 1 << 26)).collect();
    let error = run(&plan(Scheduler::Eevdf, tasks, false)).unwrap_err().to_string();
    assert!(error.contains("1000 tasks") && error.contains("64000 GiB"), "{error}");
    assert!(error.contains("--wss"), "{error}");
}

#[test]
fn jobs_so_frequent_that_waking_up_takes_more_than_half_of_a_cpu_are_refused() {
    let plan = plan(Scheduler::GFp, vec![task(1, 40, 4)], true);
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("0.75") && error.contains("--period"), "{error}");
}

#[test]
fn a_set_that_the_kernel_does_not_admit_is_refused_with_what_it_adds() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Threads that reserve most of every CPU, and sleep all the time.
    let (reserve, reserved) = channel();
    let (end, ended) = channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    let holders: Vec<_> = host()
        .usable()
        .iter()
        .map(|_| {
            let (reserve, ended) = (reserve.clone(), ended.clone());
            std::thread::spawn(move || {
                reserve.send(reserve_deadline(70_000_000, 100_000_000)).unwrap();
                // Both end when the sender is gone.
                let _ended = ended.lock().unwrap().recv();
            })
        })
        .collect();
    let all = holders.iter().all(|_| reserved.recv().unwrap());
    if all {
        let half = |_| task(5_000, 10_000, 4);
        let plan = plan(Scheduler::GEdf, (0..host().usable().len()).map(half).collect(), false);
        let error = run_beside_others(&plan).unwrap_err().to_string();
        assert!(
            !error.contains("-0.000")
                && error.contains("does not admit")
                && error.contains("this task adds 0.500"),
            "{error}"
        );
    } else {
        eprintln!("skipped: this process may not reserve time (CAP_SYS_NICE)");
    }
    drop(end);
    for holder in holders {
        holder.join().unwrap();
    }
}

/// Reserves time for the calling thread by `SCHED_DEADLINE`; whether that was possible.
fn reserve_deadline(runtime: u64, period: u64) -> bool {
    let attributes: [u64; 6] = [0x30 | 6 << 32, 1, 0, runtime, period, period];
    // SAFETY: the kernel reads 48 bytes of `attributes`, as its first field says: `struct sched_attr`.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes.as_ptr(), 0) == 0 }
}

#[test]
fn two_users_run_task_sets_at_once() {
    let one = || {
        let plan =
            plan(Scheduler::Eevdf, vec![task(500, 10_000, 16), task(1_000, 20_000, 16)], false);
        let records = run_beside_others(&plan).unwrap();
        assert_whole(&plan, &records);
    };
    let other = std::thread::spawn(one);
    one();
    other.join().unwrap();
}

#[test]
fn a_run_ends_early_when_no_more_jobs_are_wanted_and_keeps_what_there_is() {
    let plan = plan(Scheduler::Eevdf, vec![task(500, 10_000, 4)], false);
    let mut machine = LiveMachine::new(host(), LiveMachineOptions::default());
    let mut jobs = 0;
    let mut take = SinkFn(|batch: Batch<'_>| {
        jobs += if let Batch::Tasks(records) = batch { records.len() } else { 0 };
        Ok(false)
    });
    assert_eq!(machine.run(&planned(&plan), &mut take).unwrap(), RunEnd::Stopped);
    assert!(0 < jobs && jobs < 100, "{jobs}");
}

#[test]
fn the_end_of_a_run_does_not_wait_for_a_release_that_is_far_away() {
    let tasks = vec![task(500, 10_000, 4), task(500, 200_000_000, 4)];
    let mut plan = plan(Scheduler::Eevdf, tasks, false);
    plan.runs[0].duration = Nanos::from_secs(300);
    let begin = std::time::Instant::now();
    let mut machine = LiveMachine::new(host(), LiveMachineOptions::default());
    let mut none = SinkFn(|_: Batch<'_>| Ok(false));
    assert_eq!(machine.run(&planned(&plan), &mut none).unwrap(), RunEnd::Stopped);
    assert!(begin.elapsed().as_secs() < 100, "half of the period: {:?}", begin.elapsed());
}
