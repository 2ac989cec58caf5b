// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reports on made-up runs, counted by hand.

use super::schedule::DeadlineMisses;
use super::*;
use crate::example::sample;
use crate::verdict::TestOutcome;
use corehop_plan::samples::example::task_job;

fn job(scheduler: Scheduler, run: u64, task_count: u64, at: u64) -> TaskJob {
    TaskJob {
        scheduler,
        run,
        task: at % 2,
        task_count,
        job: at / 2,
        release_ns: at * 5_000_000,
        length_ns: Some(1e6 * (at + 1) as f64),
        ..task_job()
    }
}

/// Returns a sample of a migration that cost `delay_us` microseconds, for the job at this index.
fn moved(job: u64, task_count: u64, delay_us: f64) -> Sample {
    Sample {
        job,
        load: "constructed".into(),
        event: Event::L3Migration,
        task: Some(0),
        task_count: Some(task_count),
        resumed_ns: 1_000.0 + 1e3 * delay_us,
        ..sample()
    }
}

fn of(date: &str) -> Provenance {
    Provenance { plan_digest: "plan".to_owned(), date: date.to_owned(), ..Provenance::default() }
}

/// Returns a report of two runs with 20 and 40 jobs under a scheduler, with 75 and 250 tasks and the
/// given delays.
fn report(delays: [fn(u64) -> f64; 2]) -> TaskReport {
    let mut runs = TaskRuns::default();
    let (mut jobs, mut samples) = (Vec::new(), Vec::new());
    for (run, (count, tasks)) in [(20, 75), (40, 250)].into_iter().enumerate() {
        for at in 0..count {
            samples.push(moved(jobs.len() as u64, tasks, delays[run](at)));
            jobs.push(job(Scheduler::GEdf, run as u64, tasks, at));
        }
    }
    jobs[0].lateness_ns = 3_000.0;
    jobs[1].course = JobOutcome::NotAway;
    runs.samples(&of("today"), Estimator::Difference, &samples);
    runs.jobs(&of("today"), &jobs);
    runs.finish().unwrap()
}

/// Returns a delay of 100 to 109 us, in turn.
fn level(at: u64) -> f64 {
    100.0 + (at % 10) as f64
}

#[test]
fn jobs_deadlines_and_lengths_are_counted() {
    let report = report([level, level]);
    assert_eq!(report.courses[0].jobs, 60);
    assert_eq!(report.courses[0].courses[&JobOutcome::NotAway], 1);
    let scheduler = &report.schedulers[0];
    assert_eq!((scheduler.runs, scheduler.samples, scheduler.migrations), (2, Some(60), 60));
    assert_eq!((scheduler.misses.missed, scheduler.misses.jobs), (1, 60));
    assert!((scheduler.misses.tardiness_us - 3.0).abs() < 1e-9);
    // The last jobs end at 97 and 197 ms.
    assert!((scheduler.seconds - 0.294).abs() < 1e-9, "{}", scheduler.seconds);
    assert_eq!(scheduler.migration_share, Some(1.0));
    assert_eq!((report.runs.len(), report.tasks.len()), (2, 4));
    assert_eq!(report.tasks[0].misses.missed, 1);
    assert_eq!(report.lengths[0].n, 60);
    assert!((report.lengths[0].max_us - 40e3).abs() < 1e-9);
    assert_eq!(report.samples_without_jobs, 0);
}

#[test]
fn maxima_are_over_as_many_samples_of_the_shorter_trace_as_of_the_longer() {
    // The longer trace has its largest delay after as many samples as the shorter one has.
    let report = report([level, |at| if at == 30 { 900.0 } else { level(at) }]);
    let [few, many] = report.sizes.as_slice() else { panic!("{:?}", report.sizes) };
    assert_eq!((few.k_min, many.k_min, few.n, many.n), (Some(20), Some(20), 20, 40));
    assert!((many.max_us.unwrap() - 109.0).abs() < 1e-9);
    assert!((many.max_of_all_us - 900.0).abs() < 1e-9);
}

#[test]
fn delays_that_do_not_depend_on_the_number_of_tasks_let_observation_5_hold() {
    let report = report([level, level]);
    assert_eq!(report.effects.len(), 3);
    for effect in &report.effects {
        assert_eq!((effect.from_tasks, effect.to_tasks), (75, 250));
        assert!((effect.comparison.estimate - 1.0).abs() < 1e-9);
        assert!(effect.detectable.unwrap() < 1.1);
    }
    assert_eq!(report.verdicts["box"].outcome, TestOutcome::Holds);
}

#[test]
fn twice_the_delay_with_more_tasks_contradicts_it_and_few_samples_leave_it_open() {
    let twice = report([level, |at| 2.0 * level(at)]);
    assert_eq!(twice.verdicts["box"].outcome, TestOutcome::DoesNot);
    assert!((twice.effects[0].comparison.estimate - 2.0).abs() < 1e-9);
    // Half of them cost nearly nothing, in no order.
    let wide = report([|at| if at % 2 == 0 { 1.0 } else { 50.0 }, |at| (at * 7 % 40) as f64 + 0.1]);
    assert_eq!(wide.verdicts["box"].outcome, TestOutcome::CannotTell);
    let mut runs = TaskRuns::default();
    let jobs: Vec<TaskJob> = (0..5).map(|at| job(Scheduler::GEdf, 0, 75, at)).collect();
    runs.jobs(&of("today"), &jobs);
    let few: Vec<Sample> = (0..5).map(|at| moved(at, 75, 1.0)).collect();
    runs.samples(&of("today"), Estimator::Difference, &few);
    let report = runs.finish().unwrap();
    assert_eq!((report.sizes[0].k_min, report.effects.len()), (None, 0));
    assert_eq!(report.verdicts["box"].outcome, TestOutcome::CannotTell);
}

#[test]
fn two_schedulers_are_compared_task_by_task() {
    let mut runs = TaskRuns::default();
    for (scheduler, response) in [(Scheduler::GEdf, 2e6), (Scheduler::PEdf, 3e6)] {
        let of_task = |at| TaskJob {
            response_ns: response,
            lateness_ns: response - 2.5e6,
            ..job(scheduler, 0, 75, at)
        };
        let jobs: Vec<TaskJob> = (0..20).map(of_task).collect();
        let delay = if scheduler == Scheduler::GEdf { 100.0 } else { 90.0 };
        let samples: Vec<Sample> = (0..20).map(|at| moved(at, 75, delay)).collect();
        runs.jobs(&of(scheduler.word()), &jobs);
        runs.samples(&of(scheduler.word()), Estimator::Difference, &samples);
    }
    let report = runs.finish().unwrap();
    let [pair] = report.pairs.as_slice() else { panic!("{:?}", report.pairs) };
    assert_eq!((pair.schedulers, pair.tasks), ([Scheduler::GEdf, Scheduler::PEdf], 2));
    assert_eq!(pair.fewer_misses, [2, 0]);
    let ratio = pair.response_ratio.as_ref().unwrap();
    assert!((ratio.estimate - 1.5).abs() < 1e-9);
    assert_eq!(
        (ratio.interval, ratio.replicates, ratio.samples),
        (None, 1, 2),
        "one set, two tasks"
    );
    assert_eq!(
        pair.delays[0].difference.why_none.unwrap().to_string(),
        "1 replicates; an interval needs 6"
    );
    assert_eq!(pair.delays[0].n, [20, 20]);
    assert!((pair.delays[0].difference.estimate + 10.0).abs() < 1e-9);
}

#[test]
fn samples_of_no_task_and_samples_without_their_jobs_are_told_apart() {
    let mut runs = TaskRuns::default();
    runs.samples(&of("today"), Estimator::Difference, &[sample()]);
    assert!(runs.finish().is_none());
    runs.samples(&of("today"), Estimator::Difference, &[moved(0, 75, 1.0)]);
    assert_eq!(runs.finish().unwrap().samples_without_jobs, 1);
}

#[test]
fn the_interval_of_a_share_of_late_jobs_comes_from_how_runs_differ() {
    // Twelve runs of ten jobs; in so many of each, jobs are late.
    let under = |late: [u64; 12]| {
        let (mut runs, mut jobs) = (TaskRuns::default(), Vec::new());
        for (run, late) in late.into_iter().enumerate() {
            let of = |at| TaskJob {
                lateness_ns: if at < late { 1.0 } else { -1.0 },
                ..job(Scheduler::GEdf, run as u64, 75, at)
            };
            jobs.extend((0..10).map(of));
        }
        runs.jobs(&self::of("today"), &jobs);
        runs.finish().unwrap().schedulers[0].misses
    };
    let (together, apart) = (
        under([10, 0, 10, 0, 0, 10, 0, 10, 10, 0, 0, 10]),
        under([5, 4, 6, 5, 6, 4, 5, 6, 4, 5, 4, 6]),
    );
    assert!((together.ratio - 0.5).abs() < 1e-12 && (apart.ratio - 0.5).abs() < 1e-12);
    let width = |misses: DeadlineMisses| misses.interval.unwrap().width();
    // Six of twelve runs: 0.5 ± 2.2 × 0.522 / √12. As jobs they would be 0.5 ± 0.09.
    assert!((width(together) - 0.66).abs() < 0.03, "{}", width(together));
    assert!(width(apart) < 0.12, "{}", width(apart));
    let none = under([0; 12]);
    assert_eq!(none.interval, None);
    assert!(none.why_none.unwrap().to_string().contains("all replicates show the same"));
}

#[test]
fn runs_that_were_not_watched_are_counted_among_the_courses_and_nowhere_else() {
    let mut runs = TaskRuns::default();
    // The same set twice: 20 jobs unwatched, which are late and take 99 ms, then 20 watched ones.
    let unwatched = |at| TaskJob {
        course: JobOutcome::Unwatched,
        response_ns: 99e6,
        lateness_ns: 89e6,
        migrations: 0,
        length_ns: None,
        ..job(Scheduler::GEdf, 0, 75, at)
    };
    let mut jobs: Vec<TaskJob> = (0..20).map(unwatched).collect();
    jobs.extend((0..20).map(|at| job(Scheduler::GEdf, 1, 75, at)));
    runs.jobs(&of("today"), &jobs);
    let samples: Vec<Sample> = (20..40).map(|at| moved(at, 75, 100.0)).collect();
    runs.samples(&of("today"), Estimator::Difference, &samples);
    let other: Vec<TaskJob> = (0..20).map(|at| job(Scheduler::PEdf, 0, 75, at)).collect();
    runs.jobs(&of("tomorrow"), &other);
    let report = runs.finish().unwrap();
    assert_eq!(
        (report.courses[0].jobs, report.courses[0].courses[&JobOutcome::Unwatched]),
        (40, 20)
    );
    let global = report.schedulers.iter().find(|it| it.under.scheduler == Scheduler::GEdf).unwrap();
    assert_eq!((global.runs, global.misses.jobs, global.misses.missed), (1, 20, 0));
    // The last watched job ends at 97 ms.
    assert!((global.samples_per_second.unwrap() - 20.0 / 0.097).abs() < 1e-6);
    assert_eq!((report.runs.len(), report.tasks.len()), (2, 4));
    let pair = &report.pairs[0];
    assert_eq!((pair.tasks, pair.fewer_misses), (2, [0, 0]));
    assert!((pair.response_ratio.as_ref().unwrap().estimate - 1.0).abs() < 1e-9);
}

/// Returns a report of the same 20 jobs under two schedulers; `other` changes the jobs of the second.
fn against(other: impl Fn(&mut TaskJob)) -> TaskReport {
    let mut runs = TaskRuns::default();
    let first: Vec<TaskJob> = (0..20).map(|at| job(Scheduler::GEdf, 0, 75, at)).collect();
    let mut second: Vec<TaskJob> = (0..20).map(|at| job(Scheduler::PEdf, 0, 75, at)).collect();
    second.iter_mut().for_each(other);
    runs.jobs(&of("today"), &first);
    runs.jobs(&of("tomorrow"), &second);
    runs.finish().unwrap()
}

#[test]
fn tasks_of_other_seeds_sets_or_periods_are_no_pairs_and_scaled_ones_are_named() {
    assert_eq!(against(|_| ()).pairs[0].tasks, 2);
    assert_eq!(against(|job| job.seed = 2).pairs[0].tasks, 0);
    assert_eq!(against(|job| job.set = 1).pairs[0].tasks, 0);
    assert_eq!(against(|job| job.period_ns += 1).pairs[0].tasks, 0);
    assert_eq!(against(|job| job.deadline_ns -= 1).pairs[0].tasks, 0);
    let scaled = against(|job| job.wcet_ns = 800_000);
    assert_eq!((scaled.pairs[0].tasks, scaled.pairs[0].execution_ratio), (2, Some(0.8)));
}

#[test]
fn a_task_that_ran_twice_under_a_scheduler_has_the_misses_of_both_runs() {
    let mut runs = TaskRuns::default();
    let late =
        |at| TaskJob { lateness_ns: 1.0, response_ns: 9e6, ..job(Scheduler::GEdf, 0, 75, at) };
    runs.jobs(&of("today"), &(0..20).map(late).collect::<Vec<_>>());
    let again: Vec<TaskJob> = (0..20).map(|at| job(Scheduler::GEdf, 0, 75, at)).collect();
    runs.jobs(&of("tomorrow"), &again);
    let other: Vec<TaskJob> = (0..20).map(|at| job(Scheduler::PEdf, 0, 75, at)).collect();
    runs.jobs(&of("after that"), &other);
    let pair = &runs.finish().unwrap().pairs[0];
    assert_eq!((pair.tasks, pair.fewer_misses), (2, [0, 2]));
    assert!((pair.response_ratio.as_ref().unwrap().estimate - 2.0 / 9.0).abs() < 1e-9);
}

#[test]
fn delays_are_compared_within_one_write_ratio() {
    let mut runs = TaskRuns::default();
    for (scheduler, write_ratio) in [(Scheduler::GEdf, 0.5), (Scheduler::PEdf, 0.25)] {
        let jobs: Vec<TaskJob> =
            (0..20).map(|at| TaskJob { write_ratio, ..job(scheduler, 0, 75, at) }).collect();
        let sample = |at| Sample { write_ratio, ..moved(at, 75, 100.0) };
        runs.jobs(&of(scheduler.word()), &jobs);
        let samples: Vec<Sample> = (0..20).map(sample).collect();
        runs.samples(&of(scheduler.word()), Estimator::Difference, &samples);
    }
    let report = runs.finish().unwrap();
    assert_eq!((report.pairs[0].tasks, report.pairs[0].delays.len()), (0, 0));
    assert_eq!(report.sizes.len(), 2);
}

#[test]
fn each_machine_has_a_verdict_of_its_own() {
    let mut runs = TaskRuns::default();
    for (machine, factor) in [("box", 1.0), ("other", 2.0)] {
        let (mut jobs, mut samples) = (Vec::new(), Vec::new());
        for (run, (tasks, factor)) in [(75, 1.0), (250, factor)].into_iter().enumerate() {
            for at in 0..40 {
                samples.push(moved(jobs.len() as u64, tasks, factor * level(at)));
                let job = job(Scheduler::GEdf, run as u64, tasks, at);
                jobs.push(TaskJob { machine: machine.into(), ..job });
            }
        }
        // The same plan within the same second: what tells them apart is where they write.
        let from = Provenance { command: vec![machine.to_owned()], ..of("today") };
        runs.jobs(&from, &jobs);
        runs.samples(&from, Estimator::Difference, &samples);
    }
    let report = runs.finish().unwrap();
    assert_eq!(report.verdicts["box"].outcome, TestOutcome::Holds);
    assert_eq!(report.verdicts["other"].outcome, TestOutcome::DoesNot);
    assert_eq!((report.runs.len(), report.courses.len()), (4, 2));
    assert_eq!(report.courses[0].jobs, 80);
}

#[test]
fn jobs_whose_samples_are_not_there_are_told() {
    let mut runs = TaskRuns::default();
    let mut jobs: Vec<TaskJob> = (0..5).map(|at| job(Scheduler::GEdf, 0, 75, at)).collect();
    jobs[2].course = JobOutcome::NotAway;
    runs.jobs(&of("today"), &jobs);
    let report = runs.finish().unwrap();
    assert_eq!((report.jobs_without_samples, report.schedulers[0].samples), (4, None), "not 0");
    assert_eq!(report.schedulers[0].samples_per_second, None);
    // None of them is valid, but they are there.
    let invalid = Sample { valid: false, ..moved(0, 75, 1.0) };
    runs.samples(&of("today"), Estimator::Difference, &[invalid]);
    let report = runs.finish().unwrap();
    assert_eq!((report.jobs_without_samples, report.schedulers[0].samples), (0, Some(0)));
}

#[test]
fn a_trace_of_exactly_the_least_is_compared() {
    let of = |count: u64| {
        let mut runs = TaskRuns::default();
        let jobs: Vec<TaskJob> = (0..count).map(|at| job(Scheduler::GEdf, 0, 75, at)).collect();
        runs.jobs(&of("today"), &jobs);
        let samples: Vec<Sample> = (0..count).map(|at| moved(at, 75, level(at))).collect();
        runs.samples(&of("today"), Estimator::Difference, &samples);
        runs.finish().unwrap().sizes[0].k_min
    };
    assert_eq!((of(LEAST_SAMPLES as u64), of(LEAST_SAMPLES as u64 - 1)), (Some(10), None));
}

#[test]
fn the_first_samples_of_a_trace_are_taken_from_its_runs_in_turn() {
    let mut runs = TaskRuns::default();
    let (mut jobs, mut samples) = (Vec::new(), Vec::new());
    // 20 samples with 75 tasks; with 250 twice 20, the sixteenth of the first run the largest of all.
    for (run, tasks) in [(0, 75), (1, 250), (2, 250)] {
        for at in 0..20 {
            let delay = if run == 1 && at == 15 { 900.0 } else { level(at) };
            samples.push(moved(jobs.len() as u64, tasks, delay));
            jobs.push(job(Scheduler::GEdf, run, tasks, at));
        }
    }
    runs.samples(&of("today"), Estimator::Difference, &samples);
    runs.jobs(&of("today"), &jobs);
    let sizes = runs.finish().unwrap().sizes;
    assert_eq!((sizes[1].runs, sizes[1].n, sizes[1].k_min), (2, 40, Some(20)));
    assert!((sizes[1].max_us.unwrap() - 109.0).abs() < 1e-9);
}

#[test]
fn half_the_delay_contradicts_it_as_twice_does_and_idle_runs_say_nothing() {
    let half = report([|at| 2.0 * level(at), level]);
    assert_eq!(half.verdicts["box"].outcome, TestOutcome::DoesNot);
    let mut runs = TaskRuns::default();
    let (mut jobs, mut samples) = (Vec::new(), Vec::new());
    for (run, tasks) in [(0, 75), (1, 250)] {
        for at in 0..40 {
            samples.push(moved(jobs.len() as u64, tasks, level(at) * (1 + run) as f64));
            jobs.push(TaskJob { load: "idle".into(), ..job(Scheduler::GEdf, run, tasks, at) });
        }
    }
    runs.samples(&of("today"), Estimator::Difference, &samples);
    runs.jobs(&of("today"), &jobs);
    let idle = runs.finish().unwrap();
    assert_eq!((idle.effects.len(), idle.verdicts["box"].outcome), (3, TestOutcome::CannotTell));
}

#[test]
fn to_contradict_takes_more_than_one_interval_beyond_a_half() {
    // 50 to 150 us and 1.735 times that, 20 and 40 samples: the mean's ratio is known to 10 %.
    let spread = |at: u64| 50.0 + (at * 37 % 101) as f64;
    let report = report([spread, |at| 1.735 * (50.0 + (at * 37 % 101) as f64)]);
    let mean = report.effects.iter().find(|it| it.statistic == size::Statistic::Mean).unwrap();
    let interval = mean.comparison.interval.unwrap();
    assert!(interval.low > 1.5, "{interval:?}");
    assert_eq!(mean.comparison.says, crate::verdict::Says::Open, "{interval:?}");
    // Half of a 90 % interval, and what shows in four of five experiments beyond it.
    let half = (interval.high / interval.low).ln() / 2.0;
    assert!((mean.detectable.unwrap().ln() / half - 1.511_7).abs() < 1e-3);
}

#[test]
fn a_job_on_its_deadline_is_in_time_and_quantiles_are_of_all_jobs() {
    let mut runs = TaskRuns::default();
    let jobs: Vec<TaskJob> = (0..200)
        .map(|at| TaskJob {
            task: 0,
            response_ns: 1e6 * (at + 1) as f64,
            lateness_ns: if at == 0 { 0.0 } else { -1.0 },
            preemptions: 3,
            length_ns: Some(1e6 * (at + 1) as f64),
            ..job(Scheduler::GEdf, 0, 75, at)
        })
        .collect();
    runs.jobs(&of("today"), &jobs);
    let twice: Vec<TaskJob> = jobs
        .iter()
        .map(|job| {
            let doubled = if job.response_ns > 100e6 { 2.0 } else { 1.0 };
            TaskJob {
                scheduler: Scheduler::PEdf,
                response_ns: doubled * job.response_ns,
                ..job.clone()
            }
        })
        .collect();
    runs.jobs(&of("tomorrow"), &twice);
    let report = runs.finish().unwrap();
    let scheduler = &report.schedulers[0];
    assert_eq!((scheduler.misses.missed, scheduler.misses.tardiness_us), (0, 0.0));
    assert_eq!(scheduler.migration_share, Some(0.25));
    let within = |value: f64| (197_000.0..=200_000.0).contains(&value);
    assert!(within(scheduler.responses.p99_us) && within(report.lengths[0].quantiles_us[3]));
    // The longest response is twice as long, the median is not.
    assert!((report.pairs[0].response_ratio.as_ref().unwrap().estimate - 2.0).abs() < 1e-9);
}
