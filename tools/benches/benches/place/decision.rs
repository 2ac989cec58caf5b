// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a decision on a large host: 1,024 CPUs, 10,000 threads, 100,000 pairs that wake each other.

use std::hint::black_box;
use std::time::Instant;

use corehop_decide::placer::terrain::{Terrain, WakeCosts};
use corehop_decide::placer::{Action, Placer, Settings};
use corehop_plan::host::{ActiveThread, Activity, Contact};
use corehop_plan::units::{Cpu, CpuList};
use serde_json::{Value, json};

use crate::Fallible;

const CACHES: u32 = 64;
const CPUS_EACH: u32 = 16;
const THREADS: u32 = 10_000;
const PAIRS: usize = 100_000;
/// Threads that wake each other: most pairs are within such a team.
const TEAM: u32 = 25;
const SPAN_NS: u64 = 1_000_000_000;
const WINDOWS: usize = 15;

/// The median time of a window in which everything is decided anew, from the activity to the actions.
pub(crate) fn figure() -> Fallible<Value> {
    let mut draw = Draw(1);
    let mut placer = Placer::new(Settings { evidence: 1, ..Settings::default() }, terrain());
    let mut times = Vec::new();
    let mut activity = activity(&mut draw);
    for window in 0..WINDOWS {
        for it in &mut activity.contacts {
            it.count += u64::from(draw.below(3));
        }
        let begun = Instant::now();
        let actions = black_box(placer.step(black_box(&activity)));
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let advice = actions.iter().any(|it| matches!(it, Action::Advise(_)));
        if window == 0 && !advice {
            return Err("the large host gets no placement: nothing was timed".into());
        }
        times.push(took);
    }
    times.sort_by(f64::total_cmp);
    Ok(json!({
        "name": "place/decision-1024cpu-ms",
        "value": times[WINDOWS / 2],
        "unit": "ms",
        "worst": times[WINDOWS - 1],
        "threads": THREADS,
        "pairs": PAIRS,
    }))
}

fn terrain() -> Terrain {
    let group = |cache: u32| CpuList::new((cache * CPUS_EACH..(cache + 1) * CPUS_EACH).map(Cpu));
    let groups: Vec<CpuList> = (0..CACHES).map(group).collect();
    let costs = WakeCosts { same_cpu_ns: 2_000.0, shared_cache_ns: 6_000.0, separate_ns: 10_000.0 };
    Terrain::new(&groups, costs)
}

/// A window of teams, with nine pairs of ten inside of them.
fn activity(draw: &mut Draw) -> Activity {
    let all = CpuList::new((0..CACHES * CPUS_EACH).map(Cpu));
    let active = |tid: u32| ActiveThread {
        tid,
        pid: tid / TEAM,
        busy_ns: SPAN_NS / 20,
        allowed: all.clone(),
        cpu: Some(Cpu(tid * 7 % (CACHES * CPUS_EACH))),
        ..ActiveThread::default()
    };
    let threads = (1..=THREADS).map(active).collect();
    let contacts = (0..PAIRS).map(|_| {
        let waker = draw.below(THREADS);
        let near = draw.below(10) < 9;
        let woken = if near { waker / TEAM * TEAM + draw.below(TEAM) } else { draw.below(THREADS) };
        let count = u64::from(if near { 50 + draw.below(100) } else { 1 + draw.below(10) });
        Contact { waker: waker + 1, woken: woken + 1, count }
    });
    Activity { span_ns: SPAN_NS, threads, contacts: contacts.collect(), ..Activity::default() }
}

/// Numbers that are the same in each run (multiplicative congruential generator, as in Steele and Vigna, 2021).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        let high = self.0 >> 32;
        ((high * u64::from(end)) >> 32) as u32
    }
}
