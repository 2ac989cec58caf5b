// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of schedulability tests on the sets of `data/schedcat-bench`, beside the times of a peer.

mod margin;
mod packing;
mod peer;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use corehop_sched::Time;
use corehop_sched::global::{self, bar, ff_dbf, fixed, rta};
use corehop_sched::soft::{self, compliant, tardiness};
use corehop_sched::uni::{edf, fixed as uni_fixed};
use corehop_sched::{System, TaskParameters, TaskSet, test};
use serde_json::{Value, json};

use crate::Fallible;

/// A test of corehop, as a function that only decides; its name, and the peer's.
struct Contest {
    name: &'static str,
    peer: &'static str,
    accepts: fn(System<'_>) -> bool,
}

fn named(name: &str, system: System<'_>) -> bool {
    test(name).is_ok_and(|test| test.run(system).verdict.is_schedulable())
}

const CONTESTS: &[Contest] = &[
    Contest { name: "qpa", peer: "QPA C++", accepts: |s| edf::qpa(s.tasks()).is_schedulable() },
    Contest {
        name: "p-fp-rta",
        peer: "P-FP RTA py",
        accepts: |s| uni_fixed::response_time_analysis(s.tasks(), None).is_schedulable(),
    },
    Contest { name: "gfb", peer: "GFB C++", accepts: |s| global::gfb(s).is_schedulable() },
    Contest { name: "bak", peer: "BAK C++", accepts: |s| global::bak(s).is_schedulable() },
    Contest { name: "bcl", peer: "BCL C++", accepts: |s| global::bcl(s).is_schedulable() },
    Contest {
        name: "bcl-iterative",
        peer: "BCLI C++",
        accepts: |s| global::bcl_iterative(s).is_schedulable(),
    },
    Contest { name: "rta", peer: "RTA C++", accepts: |s| rta::edf(s).is_schedulable() },
    Contest { name: "bar", peer: "BAR C++", accepts: |s| bar::bar(s).is_schedulable() },
    Contest { name: "ff-dbf", peer: "FF-DBF C++", accepts: |s| ff_dbf::ff_dbf(s).is_schedulable() },
    Contest {
        name: "g-edf",
        peer: "G-EDF combined C++ (GFB+BAK+RTA+BAR)",
        accepts: |s| named("g-edf", s),
    },
    Contest { name: "g-fp-guan", peer: "G-FP Guan py", accepts: |s| fixed::guan(s).is_some() },
    Contest {
        name: "g-fp-bertogna",
        peer: "G-FP Bertogna py",
        accepts: |s| fixed::bertogna(s).is_some(),
    },
    Contest {
        name: "soft-g-edf",
        peer: "soft: U<=m py",
        accepts: |s| soft::bounded(s).is_schedulable(),
    },
    Contest {
        name: "devi-anderson",
        peer: "soft: Devi-Anderson py",
        accepts: |s| tardiness::devi_anderson(s).is_some(),
    },
    Contest {
        name: "cva",
        peer: "soft: CVA exact C++",
        accepts: |s| compliant::responses(s, compliant::Points::Edf).is_some(),
    },
    Contest {
        name: "p-edf-wfd-qpa",
        peer: "P-EDF WFD + QPA",
        accepts: |s| named("p-edf-wfd-qpa", s),
    },
];

/// One figure for each test and suite that SchedCAT was timed on; for packing by response times, of which it has no form;
/// and beside another peer on one CPU.
pub(crate) fn figures() -> Fallible<Vec<Value>> {
    let suites = read("sets.json")?;
    let times = read("times.json")?;
    let mut figures = vec![margin::figure()?];
    for (suite, content) in suites.as_object().ok_or("sets.json is no object")? {
        let sets = sets(content)?;
        figures.extend(packing::figures(suite, &sets)?);
        if content["m"] == 1 {
            figures.extend(peer::figures(suite, &sets)?);
        }
        for contest in CONTESTS {
            let of_it =
                |row: &&Value| row["suite"] == suite.as_str() && row["test"] == contest.peer;
            let Some(peer) = times.as_array().into_iter().flatten().find(of_it) else { continue };
            let some = peer["sets"].as_u64().unwrap_or(0).min(sets.len() as u64) as usize;
            let chosen: Vec<&TaskSet> = (0..some).map(|at| &sets[at * sets.len() / some]).collect();
            figures.push(figure(contest, suite, &chosen, peer));
        }
    }
    Ok(figures)
}

fn figure(contest: &Contest, suite: &str, sets: &[&TaskSet], peer: &Value) -> Value {
    let ours = micros(contest.accepts, sets);
    let theirs = peer["us_per_set"].as_f64().unwrap_or(f64::NAN);
    let accepted = sets.iter().filter(|set| (contest.accepts)(System::of(set))).count();
    json!({
        "name": format!("check/{}-{suite}", contest.name),
        "value": ours,
        "unit": "us per set",
        "peer": theirs,
        "ratio": theirs / ours,
        "accepted": accepted,
        "peer_accepted": peer["yes"],
    })
}

fn read(name: &str) -> Fallible<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/schedcat-bench");
    Ok(serde_json::from_str(&std::fs::read_to_string(folder.join(name))?)?)
}

fn sets(suite: &Value) -> Fallible<Vec<TaskSet>> {
    let cpus = suite["m"].as_u64().unwrap_or(0) as u32;
    let task = |task: &Value| {
        let at = |at: usize| task[at].as_u64().unwrap_or(0);
        TaskParameters {
            wcet: Time::new(at(0)),
            period: Time::new(at(1)),
            deadline: Some(Time::new(at(2))),
            ..TaskParameters::default()
        }
    };
    let set = |set: &Value| {
        let tasks: Vec<_> = set.as_array().into_iter().flatten().map(task).collect();
        TaskSet::new(cpus, &tasks)
    };
    let sets = suite["sets"].as_array().into_iter().flatten().map(set);
    Ok(sets.collect::<Result<_, _>>()?)
}

/// The same of a test of a system.
fn micros(accepts: impl Fn(System<'_>) -> bool, sets: &[&TaskSet]) -> f64 {
    least(|set: &TaskSet| accepts(black_box(System::of(set))), sets)
}

/// The least CPU time per set over repeated passes: what others do on the machine only adds to it.
fn least<T>(accepts: impl Fn(&T) -> bool, sets: &[&T]) -> f64 {
    let begin = Instant::now();
    let (mut best, mut passes) = (f64::INFINITY, 1);
    loop {
        let start = cpu_time();
        for _ in 0..passes {
            for set in sets {
                black_box(accepts(set));
            }
        }
        let took = cpu_time().saturating_sub(start);
        best = best.min(took.as_secs_f64() * 1e6 / (passes * sets.len()) as f64);
        if took < Duration::from_micros(200) {
            passes *= 2;
        } else if begin.elapsed() > Duration::from_millis(250) {
            return best;
        }
    }
}

/// The CPU time of this thread: others on the machine take wall-clock time, and SchedCAT's times are CPU time too.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes into `time`, which outlives it, and keeps no pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
