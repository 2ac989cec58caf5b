// SPDX-License-Identifier: MIT OR Apache-2.0
//! Visits per second of a user: a plan carried out by `Machine::run`, everything included.
//!
//! The machine of `sim/run-*` is the Xeon X5650 as its file has it, with TLBs, prefetcher and memory
//! controllers. Its jobs are those of an experiment: the rate is that of the timed visits, and the
//! flush before the first touch and the passes before the second, three or more, are not timed. With
//! 8 KiB they and the clones of the machine take more than the touches. The peer is a random walk over a table as large as what is kept of its level-3 cache,
//! each block of which names the next one.
//!
//! The machine of `sim/chase-*` is that of `machine.toml`, which the peers simulate too: caches alone.
//! One job walks there again and again and does nothing else, as the peers do.

use corehop_plan::experiment::{
    Body, DrawStream, Experiment, Length, Plan, SamplingGroup, Step, Synthetic,
};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, CpuList};
use corehop_plan::workload::{Absence, Event, Load, Mover, Pattern, Polluter, WorkingSet};
use corehop_sim::SimMachine;
use serde_json::Value;

use super::{Fallible, compared, median};

const ROUNDS: usize = 3;
/// The number of visits of a plan, if they are not too many jobs.
const VISITS: u64 = 6_000_000;
const MOST_JOBS: u64 = 2_000;
/// The visits of the one job that only walks: enough for a clock with ticks of 10 ms.
const CHASED: u64 = 24_000_000;
/// The sets of the level-3 cache.
const SETS: usize = 12_288;

/// The state of a set of 16 ways.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Block([u64; 16]);

/// The figures of this file.
pub(super) fn figures() -> Fallible<Vec<Value>> {
    let mut figures = Vec::new();
    for (name, write_ratio) in [("reads", 0.0), ("writes", 0.5)] {
        for (size, wss) in [
            ("8kib", Bytes::from_kib(8)),
            ("8mib", Bytes::from_mib(8)),
            ("64mib", Bytes::from_mib(64)),
        ] {
            let plan = plan(&x5650()?, wss, write_ratio)?;
            let (mut own, mut least) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                own.push(visits_per_second(x5650()?, &plan)?);
                least.push(blocks_per_second()?);
            }
            let name = format!("sim/run-{name}-{size}");
            figures.push(compared(&name, "M visits/s", median(own), median(least)));
        }
    }
    Ok(figures)
}

/// Jobs that touch one working set three times each.
fn plan(platform: &Platform, wss: Bytes, write_ratio: f64) -> Fallible<Plan> {
    let set = WorkingSet::list(wss, write_ratio);
    let touches = VISITS / set.lines();
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
    let mut machine = SimMachine::new(platform)?;
    let mut records = Records::default();
    let begin = process_seconds()?;
    machine.run(plan, &mut records)?;
    let took = process_seconds()? - begin;
    let touches = records.jobs.iter().flat_map(|record| &record.touches);
    Ok(touches.map(|touch| touch.lines).sum::<u64>() as f64 / took)
}

fn blocks_per_second() -> Fallible<f64> {
    let mut table = vec![Block([1; 16]); SETS];
    for (block, next) in table.iter_mut().zip(DrawStream::new(1, 0).cycle(SETS)) {
        block.0[0] = u64::from(next);
    }
    let table = std::hint::black_box(table);
    let begin = process_seconds()?;
    let mut at = 0;
    for _ in 0..8 * VISITS {
        at = table[at as usize].0[0];
    }
    std::hint::black_box(at);
    Ok(8.0 * VISITS as f64 / (process_seconds()? - begin))
}

/// CPU seconds of all threads of this process, those that ended among them.
fn process_seconds() -> Fallible<f64> {
    super::seconds_of_fields([11, 12])
}
