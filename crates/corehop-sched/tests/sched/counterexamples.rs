// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedules that miss are schedules: a slow checker replays them unit by unit, and knows nothing of how they were made. Exact tests
//! that say no have one.

use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::{JobPreference, Scheduler};
use corehop_sched::Time;
use corehop_sched::charge::DelayCharge;
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::schedule::search::SearchResult;
use corehop_sched::schedule::{CpuActivity, Schedule, ScheduledJob, Stretch};
use corehop_sched::{SchedulabilityQuestion, Task, TaskParameters, TaskSet, TestAnswer, Verdict};

use crate::mixed::Dice;

/// The reloads of all jobs, when they resume on their CPU and on another one.
const RELOADS: u64 = 3;

/// The rules that a schedule has to keep.
struct Rules<'a> {
    set: &'a TaskSet,
    order: JobPreference,
    /// The tasks by priority, where the answer assigns it.
    assigned: Option<Vec<usize>>,
    delay: u64,
}

impl Rules<'_> {
    fn task(&self, job: &ScheduledJob) -> &Task {
        &self.set.tasks()[job.task]
    }

    /// The place of a job in the order of the scheduler: the smaller goes first.
    fn key(&self, job: &ScheduledJob) -> (u64, u64) {
        let monotonic = || {
            let mut order: Vec<usize> = (0..self.set.tasks().len()).collect();
            order.sort_by_key(|&at| self.set.tasks()[at].deadline());
            let order = self.assigned.clone().unwrap_or(order);
            order.iter().position(|&at| at == job.task).unwrap() as u64
        };
        match self.order {
            JobPreference::Deadline => (job.due_us.ticks(), 0),
            _ => (
                self.task(job).priority().map_or_else(monotonic, u64::from),
                job.release_us.ticks(),
            ),
        }
    }

    /// The first rule that a schedule breaks.
    fn broken(&self, it: &Schedule) -> Option<String> {
        self.broken_jobs(it)
            .or_else(|| (0..it.to_us.ticks()).find_map(|now| self.broken_at(it, now)))
            .or_else(|| (0..it.jobs.len()).find_map(|job| self.broken_work(it, job)))
    }

    /// Jobs come as their tasks may release them.
    fn broken_jobs(&self, it: &Schedule) -> Option<String> {
        for (at, job) in it.jobs.iter().enumerate() {
            let task = self.task(job);
            let before = it.jobs[..at].iter().rev().find(|other| other.task == job.task);
            let late = job.release_us - job.arrival_us;
            let wrong = before.is_some_and(|it| it.arrival_us + task.period() > job.arrival_us)
                || late > task.jitter()
                || job.due_us != job.arrival_us + task.deadline()
                || !(1..=task.wcet().ticks()).contains(&job.work_us.ticks());
            if wrong {
                return Some(format!("job {at} may not come so"));
            }
        }
        None
    }

    /// The CPUs serve the most urgent jobs, of each task its first.
    fn broken_at(&self, it: &Schedule, now: u64) -> Option<String> {
        let here =
            it.stretches.iter().filter(|it| (it.from_us.ticks()..it.to_us.ticks()).contains(&now));
        let mut running: Vec<usize> = here.clone().map(|it| it.job).collect();
        let mut cpus: Vec<usize> = here.map(|it| it.cpu).collect();
        let pending = |job: &ScheduledJob| {
            job.release_us <= Time::new(now) && job.ended_us.is_none_or(|end| now < end.ticks())
        };
        let first = |at: usize| {
            let same = |other: &ScheduledJob| other.task == it.jobs[at].task && pending(other);
            !it.jobs[..at].iter().any(same)
        };
        let ready: Vec<usize> =
            (0..it.jobs.len()).filter(|&at| pending(&it.jobs[at]) && first(at)).collect();
        let (count, used) = (running.len(), cpus.len());
        running.sort_unstable();
        running.dedup();
        cpus.sort_unstable();
        cpus.dedup();
        if running.len() < count
            || cpus.len() < used
            || cpus.iter().any(|cpu| !it.cpus.contains(cpu))
        {
            return Some(format!("at {now} a CPU or a job is there twice"));
        }
        if running.iter().any(|at| !ready.contains(at)) {
            return Some(format!("at {now} a job runs that is not ready"));
        }
        if count != ready.len().min(it.cpus.len()) {
            return Some(format!("at {now} {count} of {} ready jobs run", ready.len()));
        }
        let worst = running.iter().map(|&at| self.key(&it.jobs[at])).max();
        let waiting = ready.iter().filter(|at| !running.contains(at));
        let best = waiting.map(|&at| self.key(&it.jobs[at])).min();
        (best.is_some() && best < worst).then(|| format!("at {now} a less urgent job runs"))
    }

    /// A job executes for its work, and reloads whenever it resumes.
    fn broken_work(&self, it: &Schedule, at: usize) -> Option<String> {
        let own: Vec<&Stretch> = it.stretches.iter().filter(|it| it.job == at).collect();
        let of = |doing| {
            own.iter().filter(move |it| it.doing == doing).map(|it| (it.to_us - it.from_us).ticks())
        };
        let (worked, job) = (of(CpuActivity::Work).sum::<u64>(), &it.jobs[at]);
        let end = own.last().map(|it| it.to_us);
        let done = worked == job.work_us.ticks() && end == job.ended_us;
        if (job.ended_us.is_some() && !done)
            || (job.ended_us.is_none() && worked >= job.work_us.ticks())
        {
            return Some(format!("job {at} executes for {worked} of {}", job.work_us));
        }
        let turns: Vec<&[&Stretch]> =
            own.chunk_by(|a, b| a.to_us == b.from_us && a.cpu == b.cpu).collect();
        for pair in turns.windows(2) {
            let same = pair[0][0].cpu == pair[1][0].cpu;
            let kind = if same { CpuActivity::Preemption } else { CpuActivity::Migration };
            let delay = if it.with_delays { self.delay } else { 0 };
            let span = pair[1].iter().map(|it| (it.to_us - it.from_us).ticks()).sum::<u64>();
            let reload = |it: &&&Stretch| it.doing != CpuActivity::Work;
            let reloads = pair[1].iter().filter(reload).map(|it| (it.to_us - it.from_us).ticks());
            if reloads.sum::<u64>() != delay.min(span)
                || (delay > 0 && pair[1][0].doing != kind)
                || pair[1].iter().skip(1).any(|it| it.doing != CpuActivity::Work)
            {
                return Some(format!("job {at} does not reload for {delay}"));
            }
        }
        let begins = turns.first().is_some_and(|it| it[0].doing != CpuActivity::Work);
        begins.then(|| format!("job {at} reloads before it began"))
    }
}

/// The answer for a set, and the result of its simulation.
fn found(
    set: &TaskSet,
    scheduler: Scheduler,
    delay: u64,
) -> (TestAnswer, Result<SearchResult, String>) {
    let each = |_: &TaskSet| {
        Some(if delay > 0 { DelayCharge::Each(Time::new(delay)) } else { DelayCharge::Nothing })
    };
    let asking = TestSettings {
        platform: None,
        delay: &each,
        overheads: None,
        accept_largest: false,
        supply: None,
    };
    let question = SchedulabilityQuestion::of(set, Some(scheduler));
    let tests = question.tests(set, None).unwrap();
    let mut charged = asking.charged(set, each(set).unwrap());
    let answered = question.ask(set, &tests, &mut charged).unwrap();
    let wishes = MarginRequest { slack: Some(false), schedule: true };
    let margin = Margin::of(set, &answered, Some(question), &asking, wishes);
    (answered.asked.answer, margin.schedule.unwrap())
}

/// A set around what its CPUs can do: with jitter, shared priorities, deadlines within and beyond periods, and pins.
fn draw(dice: &mut Dice, scheduler: Scheduler) -> TaskSet {
    let partitioned = [Scheduler::PEdf, Scheduler::PFp].contains(&scheduler);
    let cpus = if partitioned && dice.one_in(2) { 1 } else { 1 + dice.below(3) };
    let ranked = scheduler.order() == JobPreference::Rank && dice.one_in(2);
    let n = cpus + 1 + dice.below(4);
    let fill = cpus * (70 + dice.below(45));
    let shares: Vec<u64> = (0..n).map(|_| 5 + dice.below(30)).collect();
    let sum: u64 = shares.iter().sum();
    let jittery = scheduler == Scheduler::PFp && dice.one_in(3);
    let beyond = cpus == 1 && !ranked && dice.one_in(4);
    let mut task = |share: &u64| {
        let period = [10, 20, 40, 50, 100][dice.below(5) as usize] + dice.below(5);
        let wcet = (period * share * fill / sum / 100).clamp(1, period);
        let within = wcet + dice.below(period - wcet + 1);
        let deadline = match dice.below(3) {
            0 => within,
            1 if beyond => period + dice.below(period),
            _ => period,
        };
        TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            deadline: Some(Time::new(deadline)),
            priority: ranked.then(|| dice.below(3) as u32),
            jitter: if jittery { Time::new(dice.below(period)) } else { Time::ZERO },
            ..TaskParameters::default()
        }
    };
    let tasks: Vec<TaskParameters> = shares.iter().map(&mut task).collect();
    let set = TaskSet::new(cpus as u32, &tasks).unwrap();
    if cpus == 1 || !partitioned {
        return set;
    }
    let pins = tasks.iter().map(|_| TaskPlacement::Cpus(vec![dice.below(cpus) as usize]));
    set.placed(pins.collect()).unwrap()
}

const SCHEDULERS: [Scheduler; 4] =
    [Scheduler::PEdf, Scheduler::PFp, Scheduler::GEdf, Scheduler::GFp];

#[test]
fn a_missed_deadline_is_shown_by_a_schedule_that_keeps_all_rules() {
    for scheduler in SCHEDULERS {
        let mut shown = 0;
        for index in 0..200 {
            let mut dice = Dice::new(21, index);
            let set = draw(&mut dice, scheduler);
            let delay = if dice.one_in(2) { RELOADS } else { 0 };
            let (answer, found) = found(&set, scheduler, delay);
            let Some((schedule, _)) = found.unwrap().schedule else { continue };
            let assigned = answer.priorities.clone();
            let rules = Rules { set: &set, order: scheduler.order(), assigned, delay };
            if let Some(why) = rules.broken(&schedule) {
                panic!("{scheduler}, set {index}: {why}: {set:?} {schedule:?}");
            }
            if answer.verdict != Verdict::Schedulable {
                let ScheduledJob { due_us, ended_us, .. } = *schedule.subject();
                assert!(ended_us.is_none_or(|end| end > due_us) && due_us <= schedule.to_us);
                shown += 1;
            }
        }
        assert!(shown > 50, "{scheduler}: {shown}");
    }
}

#[test]
fn what_an_exact_test_refuses_misses_in_a_simulation() {
    let mut refused = 0;
    for index in 0..400 {
        let mut dice = Dice::new(22, index);
        let scheduler = SCHEDULERS[dice.below(2) as usize];
        let set = draw(&mut dice, scheduler);
        let (answer, found) = found(&set, scheduler, 0);
        if answer.verdict == Verdict::Unschedulable {
            refused += 1;
            let found = found.unwrap();
            assert!(found.schedule.is_some(), "{scheduler}, set {index}: {set:?}");
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn no_response_of_the_busiest_window_exceeds_its_bound() {
    use corehop_sched::{charge::ChargedSet, test};
    let mut attained = 0;
    for index in 0..150 {
        let mut dice = Dice::new(23, index);
        let scheduler = SCHEDULERS[dice.below(2) as usize];
        let set = draw(&mut dice, scheduler);
        let name = if scheduler == Scheduler::PEdf { "edf-rta" } else { "p-fp-rta" };
        let bounds =
            ChargedSet::new(&set, None, DelayCharge::Nothing, None).ask(test(name).unwrap());
        let (answer, found) = found(&set, scheduler, 0);
        let (Verdict::Schedulable, Ok(found)) = (answer.verdict, found) else { continue };
        let Some(bounds) = bounds.unwrap().answer.bounds else { continue };
        let (schedule, _) = found.schedule.unwrap();
        let bound = bounds[schedule.subject().task];
        assert!(schedule.response_us() <= bound, "set {index}: {set:?}");
        attained += usize::from(schedule.response_us() == bound);
    }
    assert!(attained > 15, "{attained}");
}

#[test]
fn a_schedule_that_breaks_a_rule_is_found_out() {
    type Change = fn(&mut Schedule, usize);
    // Dhall: the two short ones go first, and the long one misses.
    let task = |wcet, period| TaskParameters { wcet, period, ..TaskParameters::default() };
    let set = TaskSet::new(
        2,
        &[
            task(Time::new(1), Time::new(10)),
            task(Time::new(1), Time::new(10)),
            task(Time::new(11), Time::new(11)),
        ],
    )
    .unwrap();
    let (_, found) = found(&set, Scheduler::GEdf, 0);
    let (good, _) = found.unwrap().schedule.unwrap();
    let rules = Rules { set: &set, order: JobPreference::Deadline, assigned: None, delay: 0 };
    assert_eq!(rules.broken(&good), None);
    assert_eq!((good.subject().task, good.subject().ended_us), (2, Some(Time::new(12))));
    let last = good.stretches.len() - 1;
    let breaks: [(&str, Change); 6] = [
        ("less work", |it, _| it.jobs[2].work_us -= Time::new(1)),
        ("more work than the WCET", |it, _| it.jobs[0].work_us = Time::new(2)),
        ("an arrival too soon", |it, _| it.jobs[3].arrival_us -= Time::new(1)),
        ("two jobs on a CPU", |it, _| it.stretches[1].cpu = it.stretches[0].cpu),
        ("an idle CPU", |it, last| it.stretches[last].from_us += Time::new(1)),
        ("the wrong job first", |it, _| {
            let (one, other) = (it.stretches[0].job, it.jobs.iter().position(|it| it.task == 2));
            it.stretches[0].job = other.unwrap();
            assert_ne!(Some(one), other);
        }),
    ];
    for (what, change) in breaks {
        let mut wrong = good.clone();
        change(&mut wrong, last);
        assert!(rules.broken(&wrong).is_some(), "{what}: {wrong:?}");
    }
}

#[test]
fn the_end_of_a_long_schedule_has_the_jobs_around_the_one_in_question() {
    // One unit too much in 100: the backlog grows until a job is late.
    let task = |wcet| TaskParameters { wcet, period: Time::new(100), ..TaskParameters::default() };
    let set = TaskSet::new(1, &[task(Time::new(50)), task(Time::new(51))]).unwrap();
    let longer = TaskParameters { deadline: Some(Time::new(1_000)), ..task(Time::new(51)) };
    let patient = TaskSet::new(
        1,
        &[TaskParameters { deadline: Some(Time::new(1_000)), ..task(Time::new(50)) }, longer],
    )
    .unwrap();
    let (_, short) = found(&set, Scheduler::PEdf, 0);
    let (_, found) = found(&patient, Scheduler::PEdf, 0);
    let whole = found.unwrap().schedule.unwrap().0;
    assert!(whole.jobs.len() > 100 && short.unwrap().schedule.unwrap().0.jobs.len() < 10);
    let end = whole.end(20);
    assert_eq!(
        (end.subject(), end.late_us(), end.to_us),
        (whole.subject(), whole.late_us(), whole.to_us)
    );
    assert!(end.from_us > Time::ZERO && end.jobs.len() < 80, "{}", end.jobs.len());
    let own = |it: &Schedule| -> u64 {
        let mine = it.stretches.iter().filter(|stretch| stretch.job == it.subject);
        mine.map(|stretch| (stretch.to_us - stretch.from_us).ticks()).sum()
    };
    assert_eq!(own(&end), own(&whole));
    assert_eq!(whole.end(100_000), whole);
}
