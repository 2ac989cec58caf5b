// SPDX-License-Identifier: MIT OR Apache-2.0
//! The duty budget by the kernel's account: in no window of 100 ms do the measured thread, its preemptor and the
//! thread that answers exchanges have a CPU for more than half, beside any load and with any steps.
//!
//! These runs are real-time where that is allowed. The live machine itself bounds them; each ends after
//! [`LONGEST`].

use std::time::{Duration, Instant};

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{
    Absent, Cell, Condition, Job, JobRows, Jobs, Length, Phase, Plan, Step,
};
use corehop_plan::machine::{Machine, Sink, SinkError};
use corehop_plan::samples::Batch;
use corehop_plan::units::{Bytes, Cpu, CpuList, Nanos};
use corehop_plan::workload::{
    Absence, Event, LineState, Load, Mover, MovingProgram, Pattern, Polluter, Transfer, WorkingSet,
};

use crate::account::{self, Span, busiest, monotonic_ns, without};
use crate::harness::skipped;
use crate::plans::{cpus, list, platform};

/// Half of the window, in nanoseconds.
const HALF_NS: u64 = 50_000_000;
/// The duration of a run.
const LONGEST: Duration = Duration::from_millis(2_500);

const INVALID: Step = Step::Prepare(LineState::Invalid);
const VALID: Step = Step::Prepare(LineState::Valid);
const MODIFIED: Step = Step::Prepare(LineState::Modified);

/// The place of the largest of [`sets`].
const LONG: usize = 4;

fn polluter(kib: u64) -> Polluter {
    Polluter { wss: Bytes::from_kib(kib), pattern: Pattern::Shuffled, write_ratio: 0.5 }
}

/// Short and long sets, one that takes fresh page frames for each job, and one whose jobs exceed the budget.
fn sets() -> Vec<WorkingSet> {
    let fresh = WorkingSet { fresh_frames: true, ..list(256) };
    vec![list(4), list(64), list(1024), fresh, list(4096)]
}

fn leave(to: Cpu, micros: u64, to_whom: Absence) -> Step {
    Step::Leave(Absent { to, length: Nanos::new(micros * 1_000), to_whom })
}

/// The steps of each kind of job that starts on `here`, with the event that they make.
fn kinds(here: Cpu, there: Cpu) -> Vec<(Event, Vec<Step>)> {
    let class = platform().affinity(here, there).event();
    let before = [INVALID, Step::Touch, VALID, Step::Passes(2), Step::Touch];
    let with = |steps: &[Step]| [&before[..], steps, &[Step::Touch]].concat();
    let naps = vec![[leave(here, 20, Absence::Nothing), Step::Touch]; 20].concat();
    vec![
        (Event::None, with(&[])),
        (Event::Flush, with(&[INVALID])),
        (Event::IdleLeave, with(&[leave(here, 300, Absence::Nothing)])),
        (Event::Preemption, with(&[leave(here, 2_000, Absence::Preemptor)])),
        (class.parse().unwrap(), with(&[leave(there, 300, Absence::Load)])),
        (Event::None, vec![MODIFIED, Step::Touch]),
        (Event::IdleLeave, naps),
    ]
}

/// A plan of every kind of job with every set, again and again in `phases` phases of `rounds` rounds.
fn plan(load: &Load, mover: Mover, phases: u32, rounds: usize) -> Jobs {
    let (cpus, sets) = (cpus(), sets());
    let pairs = [(cpus[0], cpus[1]), (cpus[1], cpus[0])];
    let (mut cells, mut jobs) = (Vec::new(), Vec::new());
    for (set, (start, there)) in (0..sets.len()).flat_map(|set| pairs.map(|pair| (set, pair))) {
        for (event, steps) in kinds(start, there) {
            let (length, absence, state) = (Length::ZERO, Absence::Nothing, LineState::Invalid);
            let load = load.clone();
            let cell = Cell { load, set, event, length, absence, preemptor: None, state };
            jobs.push(Job { cell: cells.len(), start, steps });
            cells.push(cell);
        }
    }
    // Jobs of all sizes follow each other, and few of them take long.
    let long = |job: &Job| cells[job.cell].set == LONG || job.steps[0] == MODIFIED;
    let short: Vec<Job> = jobs.iter().filter(|job| !long(job)).cloned().collect();
    jobs.extend(vec![short; 16].concat());
    jobs = (0..jobs.len()).map(|at| jobs[at * 37 % jobs.len()].clone()).collect();
    let phase = |number| Phase {
        replicate: Some(number),
        condition: (phases > 1).then(|| Condition::whole(number)),
        load: load.clone(),
        jobs: vec![jobs.clone(); rounds].concat(),
    };
    let phases = (0..phases).map(phase).collect();
    let preemptor = Some(polluter(1024));
    Jobs { rows: JobRows::Samples, mover, preemptor, sets, cells, phases }
}

fn cold_touches(count: usize) -> Vec<Step> {
    vec![[INVALID, Step::Touch]; count].concat()
}

/// A plan of short jobs alone: `count` of them, with `steps`, in each of `phases` phases.
fn short_jobs(event: Event, steps: &[Step], phases: u32, count: usize) -> Jobs {
    let mut plan = plan(&Load::Idle, Mover::Affinity, phases, 0);
    (plan.sets, plan.cells) =
        (vec![list(1024)], vec![Cell { set: 0, event, ..plan.cells[0].clone() }]);
    for phase in &mut plan.phases {
        phase.jobs = vec![Job { cell: 0, start: cpus()[0], steps: steps.to_vec() }; count];
    }
    plan
}

/// Keeps the policy and the beginning of each job, until the time is over.
struct Policies {
    begun: Option<Instant>,
    jobs: Vec<(u64, String)>,
}

impl Sink for Policies {
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
        if let Batch::Jobs(records) = batch {
            self.jobs.extend(records.iter().map(|it| (it.start_ns, it.policy.clone())));
        }
        Ok(self.begun.get_or_insert_with(Instant::now).elapsed() < LONGEST)
    }
}

/// The spans of the jobs that exceed the budget by themselves, which ran under the ordinary policy.
fn ordinary(jobs: &[(u64, String)], origin_ns: u64) -> Vec<Span> {
    let ends = jobs.iter().skip(1).map(|&(start, _)| start).chain([u64::MAX / 2]);
    let spans = jobs.iter().zip(ends).filter(|((_, policy), _)| !policy.starts_with("fifo"));
    spans.map(|(&(start, _), end)| (start + origin_ns, end + origin_ns)).collect()
}

/// Runs `plan` and looks at the windows of each CPU.
fn check(plan: &Jobs) {
    // Beside other programs, jobs would wait for the threads that hand them out, and use little of their budget.
    // SAFETY: sets the nice value of the calling thread, and of those that it starts; a refusal leaves it.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -19) };
    let mut machine = LiveMachine::new(platform(), LiveMachineOptions::default());
    let origin_ns = monotonic_ns();
    let mut sink = Policies { begun: None, jobs: Vec::new() };
    let plan = Plan::new("by-hand", 1, plan.clone());
    let run = account::of(&platform().usable(), || machine.run(&plan, &mut sink));
    let busy = match run {
        Err(why) => return skipped(&why),
        Ok((Err(corehop_plan::machine::MachineError::NotPossible { what, why, .. }), _)) => {
            return skipped(&format!("{what}: {why}"));
        }
        Ok((outcome, busy)) => outcome.map(|_| busy).map_err(|error| error.to_string()).unwrap(),
    };
    if !sink.jobs.iter().any(|(_, policy)| policy.starts_with("fifo")) {
        return skipped("no job ran under SCHED_FIFO: not allowed here, or every job is too long");
    }
    let cut = ordinary(&sink.jobs, origin_ns);
    println!("{} jobs, {} of them ordinary", sink.jobs.len(), cut.len());
    let mut most = 0;
    for (cpu, spans) in busy {
        let spans = without(&spans, &cut);
        let (busy_ns, end_ns) = busiest(&spans);
        println!("{cpu}: the busiest 100 ms hold {:.2} ms", busy_ns as f64 / 1e6);
        let all: Vec<_> = spans.iter().filter(|span| span.1 + 2 * HALF_NS > end_ns).collect();
        assert!(busy_ns <= HALF_NS, "{busy_ns} ns until {end_ns}: {:?}", &all[..all.len().min(9)]);
        most = most.max(busy_ns);
    }
    if most < HALF_NS / 2 {
        skipped(&format!("the budget was hardly used: {most} ns of a window"));
    }
}

fn beside(load: &Load) {
    if cpus().len() < 2 {
        return skipped("only one CPU is usable");
    }
    check(&plan(load, Mover::Affinity, 1, 50));
}

fn everywhere() -> CpuList {
    CpuList::default()
}

pub(crate) fn no_window_is_busier_than_half_without_load() {
    beside(&Load::Idle);
}

pub(crate) fn no_window_is_busier_than_half_beside_polluters() {
    beside(&Load::Constructed { polluter: polluter(4096), cpus: everywhere() });
}

pub(crate) fn no_window_is_busier_than_half_beside_changing_programs() {
    beside(&Load::Changing { program: MovingProgram::COMPILER, cpus: everywhere() });
}

pub(crate) fn no_window_is_busier_than_half_beside_transfers_and_datagrams() {
    for transfer in [Transfer::Direct, Transfer::Loopback] {
        beside(&Load::Dma { transfer, cpus: everywhere() });
    }
}

pub(crate) fn no_window_is_busier_than_half_beside_locked_instructions() {
    beside(&Load::Buslock { split: false, cpus: everywhere() });
}

pub(crate) fn no_window_is_busier_than_half_beside_a_command() {
    let command = "while :; do :; done".to_owned();
    beside(&Load::Realistic { command, cpus: everywhere() });
}

pub(crate) fn no_window_is_busier_than_half_where_parked_threads_hand_jobs_over() {
    if cpus().len() < 2 {
        return skipped("only one CPU is usable");
    }
    let load = Load::Constructed { polluter: polluter(1024), cpus: everywhere() };
    check(&plan(&load, Mover::Handover, 1, 50));
}

pub(crate) fn no_window_is_busier_than_half_where_replicates_follow_each_other() {
    if cpus().len() < 2 {
        return skipped("only one CPU is usable");
    }
    check(&plan(&Load::Idle, Mover::Affinity, 50, 1));
}

pub(crate) fn a_new_phase_goes_on_with_what_the_one_before_has_used() {
    if cpus().len() < 2 {
        return skipped("only one CPU is usable");
    }
    check(&short_jobs(Event::None, &cold_touches(4), 40, 6));
}

pub(crate) fn a_migrated_job_counts_on_the_cpu_that_it_reaches() {
    let [here, there, ..] = cpus()[..] else { return skipped("only one CPU is usable") };
    let class = platform().affinity(here, there).event().parse().unwrap();
    let steps = [&[leave(there, 0, Absence::Nothing)][..], &cold_touches(3)];
    check(&short_jobs(class, &steps.concat(), 1, 400));
}

pub(crate) fn short_absences_between_long_parts_of_a_job_do_not_make_room() {
    let [here, _, ..] = cpus()[..] else { return skipped("only one CPU is usable") };
    let part = [&cold_touches(8)[..], &[leave(here, 200, Absence::Nothing)]];
    let steps = vec![part.concat(); 4].concat();
    check(&short_jobs(Event::IdleLeave, &steps, 1, 20));
}
