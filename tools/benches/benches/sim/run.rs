// SPDX-License-Identifier: MIT OR Apache-2.0
//! Visits per second of a user: a plan carried out by `Machine::run`, everything included.
//!
//! The machine of `sim/run-*` is the Xeon X5650 as its file has it, with TLBs, prefetcher and memory controllers. Its jobs are
//! those of an experiment: a flush, the passes that bring the working set to rest, and three touches. A rate is that of
//! [`PASSES`] passes in the time of a job, flush included: passes that the simulator finds a way to skip add nothing. The peer,
//! pycachesim, walks as often through caches alone.
//!
//! The machine of `sim/chase-*` is that of `machine.toml`, which the peers simulate too: caches alone.
//! One job walks there again and again and does nothing else, as the peers do.

use corehop_plan::experiment::{Body, Experiment, Length, Plan, SamplingGroup, Step, Synthetic};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, CpuList};
use corehop_plan::workload::{Absence, Event, Load, Mover, Pattern, Polluter, WorkingSet};
use corehop_sim::SimMachine;
use serde_json::{Value, json};

use super::{Fallible, VISITS, compared, median};

const ROUNDS: usize = 3;
/// The visits of the touches of a plan, if they are not too many jobs.
const TOUCHED: u64 = 6_000_000;
const MOST_JOBS: u64 = 2_000;
/// The visits of the one job that only walks: enough for a clock with ticks of 10 ms.
const CHASED: u64 = 24_000_000;
/// The working sets, and the passes over each that a job made when this figure was defined; fixed since.
const PASSES: [(&str, Bytes, f64); 4] = [
    ("8kib", Bytes::from_kib(8), 6.0),
    ("128kib", Bytes::from_kib(128), 6.0),
    ("8mib", Bytes::from_mib(8), 9.2),
    ("64mib", Bytes::from_mib(64), 6.0),
];

/// The figures of this file; `peer` has the accesses per second of pycachesim over so many bytes.
pub(super) fn figures(
    mut peer: impl FnMut(Bytes) -> Fallible<Option<f64>>,
) -> Fallible<Vec<Value>> {
    let mut figures = Vec::new();
    for (size, wss, passes) in PASSES {
        for (name, write_ratio) in [("reads", 0.0), ("writes", 0.5)] {
            let plan = plan(&x5650()?, wss, write_ratio)?;
            let (mut own, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                own.push(
                    passes * whole_jobs_per_second(x5650()?, &plan)? * (wss.get() / 64) as f64,
                );
                theirs.extend(if write_ratio > 0.0 { None } else { peer(wss)? });
            }
            let own = median(own);
            figures.push(if theirs.is_empty() {
                json!({"name": format!("sim/run-{name}-{size}"), "value": (own / 1e4).round() / 1e2, "unit": VISITS})
            } else {
                compared(&format!("sim/run-{name}-{size}-vs-pycachesim"), VISITS, own, median(theirs))
            });
        }
    }
    Ok(figures)
}

/// Jobs that touch one working set three times each.
fn plan(platform: &Platform, wss: Bytes, write_ratio: f64) -> Fallible<Plan> {
    let set = WorkingSet::list(wss, write_ratio);
    let touches = TOUCHED / set.lines();
    let experiment = Synthetic {
        mover: Mover::Affinity,
        preemptor: Polluter {
            wss: Bytes::from_kib(64),
            pattern: Pattern::Shuffled,
            write_ratio: 0.5,
        },
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups: vec![SamplingGroup {
            load: Load::Idle,
            sets: vec![set],
            events: vec![Event::None],
            length: Length::ZERO,
            absence: Absence::Nothing,
            samples: (touches / 3).clamp(1, MOST_JOBS) as u32,
        }],
        cpus: CpuList::default(),
    };
    Ok(experiment.plan(platform, 1)?)
}

fn x5650() -> Fallible<Platform> {
    Ok(Platform::named("xeon_x5650").ok_or("no such platform")??)
}

/// The machine of `sim/chase-*`, with what else is in this text.
pub(super) fn machine(besides: &str) -> Fallible<Platform> {
    Ok(Platform::from_toml(&format!("{}{besides}", include_str!("machine.toml")))?)
}

/// Visits per second to the lines of a list of so many bytes, by one job that only walks.
pub(super) fn chase(platform: &Platform, bytes: usize, write_ratio: f64) -> Fallible<f64> {
    let wss = Bytes::new(bytes as u64);
    let mut plan = plan(platform, wss, write_ratio)?;
    let Body::Jobs(body) = &mut plan.body else { return Err("a plan without jobs".into()) };
    let passes = CHASED / WorkingSet::list(wss, write_ratio).lines();
    body.phases.truncate(1);
    for phase in &mut body.phases {
        phase.jobs.truncate(1);
        phase.jobs.iter_mut().for_each(|job| job.steps = vec![Step::Touch; passes as usize]);
    }
    visits_per_second(platform.clone(), &plan)
}

fn visits_per_second(platform: Platform, plan: &Plan) -> Fallible<f64> {
    let (records, took) = carried_out(platform, plan)?;
    let touches = records.jobs.iter().flat_map(|record| &record.touches);
    Ok(touches.map(|touch| touch.lines).sum::<u64>() as f64 / took)
}

fn whole_jobs_per_second(platform: Platform, plan: &Plan) -> Fallible<f64> {
    let (records, took) = carried_out(platform, plan)?;
    Ok(records.jobs.len() as f64 / took)
}

/// The records of a plan, and the CPU seconds that it took.
fn carried_out(platform: Platform, plan: &Plan) -> Fallible<(Records, f64)> {
    let mut machine = SimMachine::new(platform)?;
    let mut records = Records::default();
    let begin = process_seconds()?;
    machine.run(plan, &mut records)?;
    Ok((records, process_seconds()? - begin))
}

/// CPU seconds of all threads of this process, those that ended among them.
fn process_seconds() -> Fallible<f64> {
    super::seconds_of_fields([11, 12])
}
