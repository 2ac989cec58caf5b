// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invented answers that tests can vary. Tests in this crate and in crates that print answers use the invented
//! answers.

#![expect(clippy::missing_panics_doc, reason = "what is made up is sound")]

use corehop_plan::host::residence::Residence;
use corehop_plan::host::wakes::{IdleWait, Setting, WakeArm, WakeBatch, WakeBatches};
use corehop_plan::host::{ActiveThread, Activity, LineTimes, Move};
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::{Cpu, CpuList};

use crate::placer::log::{PlacementFindings, PlacementLogEntry, PlacementLogHeader};
use crate::placer::pin::{Pin, PinHost};
use crate::placer::settings::Settings;
use crate::placer::step::{Action, Proposal};
use crate::placer::terrain::{Terrain, WakeCosts};
use crate::placer::trial::{TrialOutcome, TrialVerdict};
use crate::validation::host::{HostSheet, cells_of, sheet};

/// `count` batches around one cost, differing by at most 1 %.
pub(crate) fn batches(arm: WakeArm, ns: f64, idle: Option<bool>, count: usize) -> Vec<WakeBatch> {
    let one = |at: usize| WakeBatch {
        arm,
        ns: ns * (1.0 + 0.01 * at as f64 / count as f64),
        idle,
        crossed: f64::from(u8::from(arm != WakeArm::SameCpu)),
    };
    (0..count).map(one).collect()
}

/// Wake-up batches with these costs in ns: on one CPU, on an idle CPU, and on a CPU that is kept awake.
pub fn seen(costs: [f64; 3]) -> WakeBatches {
    let [same, idle, awake] = costs;
    WakeBatches {
        cpus: Some((Cpu(0), Cpu(1))),
        batches: [
            batches(WakeArm::SameCpu, same, Some(false), 20),
            batches(WakeArm::OtherCpu, idle, Some(true), 20),
            batches(WakeArm::KeptAwake, awake, Some(false), 20),
            batches(WakeArm::Free, idle, None, 20),
        ]
        .concat(),
        line_ns: Some(200.0),
        trouble: None,
    }
}

/// An idle CPU that halts immediately, and the setting that lets it poll.
pub fn halts() -> IdleWait {
    IdleWait {
        how: "an idle CPU halts at once (governor haltpoll, guest_halt_poll_ns 0)".to_owned(),
        setting: Some(Setting {
            name: "guest_halt_poll_ns = 200000".to_owned(),
            command: Some("echo 200000 | tee /sys/x".to_owned()),
            left_ns: 0.0,
            price: "An idle CPU then polls for up to 200 us.".to_owned(),
        }),
    }
}

/// The wake-up costs on the host of [`placed`].
const COSTS: WakeCosts =
    WakeCosts { same_cpu_ns: 2_000.0, shared_cache_ns: 6_000.0, separate_ns: 10_000.0 };

fn list(text: &str) -> CpuList {
    text.parse().expect("a list of CPUs")
}

/// The outcome of six pairs with a clear gain.
pub const OUTCOME: TrialOutcome =
    TrialOutcome { pairs: 6, ratio: 2.41, low: 2.1, high: 2.66, floor: 1.1, set_aside: 1 };

fn proposal(moves: &[(u32, &str)]) -> Proposal {
    let moves = moves.iter().map(|&(tid, cpus)| Move { tid, cpus: list(cpus) }).collect();
    Proposal { moves, saved: Some(0.4), cost: 0.0, seen: true, ratio: None }
}

/// The findings of a placer that tried a placement for threads 7 and 8 of process 7, and for thread 21 of process 20.
pub fn placed(moves: &[(u32, &str)], verdict: TrialVerdict, kept: bool) -> PlacementFindings {
    let terrain = Terrain::new(&[list("0-1")], COSTS);
    let settings = Settings { may_move: true, ..Settings::default() };
    let head =
        PlacementLogHeader::new(settings, &terrain, &["process 7".to_owned()], Vec::new(), None);
    let mut answer = PlacementFindings::new(&head);
    let thread = |(tid, pid, busy_ns)| ActiveThread {
        tid,
        pid,
        name: format!("worker-{tid}"),
        busy_ns,
        allowed: list("0-1"),
        ..ActiveThread::default()
    };
    let all = [(7, 7, 40_000_000), (8, 7, 40_000_000), (9, 7, 100_000), (21, 20, 10_000_000)];
    let lines = |ns| Some(LineTimes { shared_cache_ns: Some(ns), separate_ns: None });
    for (ns, actions) in [
        (200.0, vec![Action::Try(proposal(moves))]),
        (150.0, vec![Action::Judge { verdict, kept }]),
    ] {
        let threads = all.into_iter().map(thread).collect();
        let window =
            Activity { span_ns: 100_000_000, threads, lines: lines(ns), ..Activity::default() };
        answer.take(&PlacementLogEntry::Window { window, actions });
    }
    answer
}

/// The residences of the processes in [`placed`].
pub fn residences() -> Vec<Residence> {
    let of = |pid, name: &str, unit: Option<&str>, threads: &[u32]| Residence {
        pid,
        name: name.to_owned(),
        unit: unit.map(str::to_owned),
        cgroup: Some("/system.slice/redis.service".to_owned()),
        cpuset: Some("/sys/fs/cgroup/system.slice/redis.service".to_owned()),
        threads: threads.to_vec(),
    };
    vec![of(7, "redis", Some("redis.service"), &[7, 8, 9]), of(20, "bench", None, &[21])]
}

/// The kept placement of these threads, using the names in the executable files.
pub fn pin(moves: &[(u32, &str)]) -> Pin {
    let answer = placed(moves, TrialVerdict::Better(OUTCOME), true);
    answer.pin(&residences(), "a file", PinHost::default()).expect("the placement is kept")
}

/// A comparison of live samples with simulated samples; all live samples were taken on the host as declared.
pub fn held_against(declared: &Platform, live: &[Sample], simulated: &[Sample]) -> HostSheet {
    sheet(declared, cells_of(declared, live, simulated, false))
}
