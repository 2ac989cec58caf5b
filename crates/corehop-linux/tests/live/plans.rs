// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans by hand, and what comes of them.

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{Absent, Cell, Job, JobRows, Jobs, Length, Phase, Plan, Step};
use corehop_plan::machine::{Machine, MachineError, Records};
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::samples::JobRecord;
use corehop_plan::units::{Bytes, Cpu, Nanos};
use corehop_plan::workload::{Absence, Event, LineState, Load, Mover, WorkingSet};
use corehop_system::discover::{SysRoot, discover};

/// This host.
pub(crate) fn platform() -> Platform {
    discover(&SysRoot::live()).unwrap()
}

/// Its usable CPUs.
pub(crate) fn cpus() -> Vec<Cpu> {
    platform().usable().iter().collect()
}

/// This host as a machine whose measured thread is an ordinary one.
pub(crate) fn machine() -> LiveMachine {
    let ordinary = LiveMachineOptions {
        no_real_time: Some("this is a test".to_owned()),
        ..LiveMachineOptions::default()
    };
    LiveMachine::new(platform(), ordinary)
}

/// A shuffled list of which a fifth of the accesses write.
pub(crate) fn list(kib: u64) -> WorkingSet {
    WorkingSet::list(Bytes::from_kib(kib), 0.2)
}

/// A plan without jobs yet, and one cell.
pub(crate) fn plan_on(set: WorkingSet, load: Load) -> Jobs {
    let cell = Cell {
        load: load.clone(),
        set: 0,
        event: Event::None,
        length: Length::ZERO,
        absence: Absence::Nothing,
        preemptor: None,
        state: LineState::Invalid,
    };
    Jobs {
        rows: JobRows::Samples,
        mover: Mover::Affinity,
        preemptor: None,
        sets: vec![set],
        cells: vec![cell],
        phases: vec![Phase { replicate: None, condition: None, load, jobs: Vec::new() }],
    }
}

/// A plan of `count` jobs with the same steps, on the first CPU.
pub(crate) fn plan_of(set: WorkingSet, load: Load, count: usize, steps: &[Step]) -> Jobs {
    let mut plan = plan_on(set, load);
    let job = Job { cell: 0, start: cpus()[0], steps: steps.to_vec() };
    plan.phases[0].jobs = vec![job; count];
    plan
}

/// An absence on the way to `to`.
pub(crate) fn leave(to: Cpu, length: Nanos) -> Step {
    Step::Leave(Absent { to, length, to_whom: Absence::Nothing })
}

/// The plan with its cells called what their jobs do.
pub(crate) fn named(plan: &Jobs, platform: &Platform) -> Plan {
    let mut plan = plan.clone();
    for job in plan.phases.iter().flat_map(|phase| &phase.jobs) {
        let away = job.steps.iter().find_map(|step| match step {
            Step::Leave(away) => Some(away.to),
            _ => None,
        });
        let Some(to) = away else { continue };
        plan.cells[job.cell].event = match platform.affinity(job.start, to) {
            Affinity::SameCpu => Event::IdleLeave,
            class => class.event().parse().unwrap(),
        };
    }
    Plan::new("by-hand", 1, plan)
}

/// Runs `plan`; its records, or the error and those before it.
pub(crate) fn run(
    machine: &mut LiveMachine,
    plan: &Jobs,
) -> Result<Vec<JobRecord>, (MachineError, Vec<JobRecord>)> {
    let mut kept = Records::default();
    match machine.run(&named(plan, machine.platform()), &mut kept) {
        Ok(_) => Ok(kept.jobs),
        Err(error) => Err((error, kept.jobs)),
    }
}

/// The records of a plan that runs to its end, one for each of its jobs, in order.
pub(crate) fn records(machine: &mut LiveMachine, plan: &Jobs) -> Vec<JobRecord> {
    let records = run(machine, plan).map_err(|(error, _)| error.to_string()).unwrap();
    let order: Vec<(usize, usize)> =
        records.iter().map(|record| (record.phase, record.job)).collect();
    let planned = plan.phases.iter().enumerate();
    let planned: Vec<(usize, usize)> = planned
        .flat_map(|(phase, jobs)| (0..jobs.jobs.len()).map(move |job| (phase, job)))
        .collect();
    assert_eq!(order, planned);
    records
}

/// The median of what `of` finds in each record.
pub(crate) fn median(records: &[JobRecord], of: impl Fn(&JobRecord) -> f64) -> f64 {
    let mut values: Vec<f64> = records.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
