// SPDX-License-Identifier: MIT OR Apache-2.0
//! Response times on one CPU beside those of the crate `response-time-analysis`, in the same run.
//!
//! Both have the tasks in their own form before the clock starts, both find every bound, and a set counts only where all
//! bounds are equal: else the figure is an error.

use std::collections::HashMap;
use std::hint::black_box;

use corehop_sched::uni::edf_response::{Preemption, response_times};
use corehop_sched::uni::fixed;
use corehop_sched::{TaskSet, Time};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::edf::fully_preemptive as edf;
use response_time_analysis::fixed_priority::fully_preemptive as fp;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;
use serde_json::{Value, json};

use super::least;
use crate::Fallible;

/// Rounds in which both are timed, one after the other.
const ROUNDS: u32 = 5;
/// The point at which the peer gives up under EDF: beyond any busy period of these sets.
const FAR: u64 = 1 << 40;

/// A task as the peer has it.
struct Theirs {
    demand: RBF<Sporadic, Scalar>,
    deadline: Duration,
}

/// A set by falling priority, deadline-monotonic, as both have it.
struct Both {
    ours: TaskSet,
    theirs: Vec<Theirs>,
}

/// One figure for fixed priorities, one for EDF, on sets for one CPU.
pub(super) fn figures(suite: &str, sets: &[TaskSet]) -> Fallible<Vec<Value>> {
    let both: Vec<Both> = sets.iter().map(both).collect();
    let fits = |it: &&Both| {
        let used = |t: &corehop_sched::Task| t.wcet().as_f64() / t.period().as_f64();
        it.ours.tasks().iter().map(used).sum::<f64>() <= 1.0
    };
    // Beyond U = 1 there is nothing to find under EDF, and the peer would search for long.
    let fitting: Vec<&Both> = both.iter().filter(fits).collect();
    let all: Vec<&Both> = both.iter().collect();
    Ok(vec![
        pair(&format!("p-fp-rta-vs-response-time-analysis-{suite}"), &all, ours_fp, theirs_fp)?,
        pair(
            &format!("edf-rta-vs-response-time-analysis-{suite}"),
            &fitting,
            ours_edf,
            theirs_edf,
        )?,
    ])
}

fn both(set: &TaskSet) -> Both {
    let of = |task: &corehop_sched::Task| Theirs {
        demand: RBF::new(
            Sporadic::new_zero_jitter(Duration::from(task.period().ticks())),
            Scalar::new(Service::from(task.wcet().ticks())),
        ),
        deadline: Duration::from(task.deadline().ticks()),
    };
    let mut sorted = set.tasks().to_vec();
    sorted.sort_by_key(corehop_sched::Task::deadline);
    Both { ours: set.clone(), theirs: sorted.iter().map(of).collect() }
}

/// Bounds by rising deadline; nothing where one is missed.
type Find = fn(&Both) -> Option<Vec<Time>>;

fn ours_fp(both: &Both) -> Option<Vec<Time>> {
    let mut bounds = vec![Time::ZERO; both.ours.tasks().len()];
    let verdict = fixed::response_time_analysis(both.ours.tasks(), Some(&mut bounds));
    verdict.is_schedulable().then_some(bounds)
}

fn theirs_fp(both: &Both) -> Option<Vec<Time>> {
    let demands: Vec<&RBF<_, _>> = both.theirs.iter().map(|it| &it.demand).collect();
    let bound = |(at, it): (usize, &Theirs)| {
        let bound = fp::dedicated_uniproc_rta(&it.demand, &demands[..at], it.deadline);
        bound.ok().map(|bound| Time::new(bound.into()))
    };
    both.theirs.iter().enumerate().map(bound).collect()
}

fn ours_edf(both: &Both) -> Option<Vec<Time>> {
    response_times(both.ours.tasks(), Preemption::Free)
}

fn theirs_edf(both: &Both) -> Option<Vec<Time>> {
    let task = |it: &'_ Theirs| (it.demand.clone(), it.deadline);
    let all: Vec<_> = both.theirs.iter().map(task).collect();
    let bound = |at: usize| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != at);
        let others: Vec<_> =
            others.map(|(_, (rbf, deadline))| edf::Task { rbf, deadline: *deadline }).collect();
        let own = edf::Task { rbf: &all[at].0, deadline: all[at].1 };
        let bound = edf::dedicated_uniproc_rta(&own, &others, Duration::from(FAR));
        bound.ok().map(|bound| Time::new(bound.into()))
    };
    (0..all.len()).map(bound).collect()
}

/// Ours and theirs in turn, in microseconds a set.
fn pair(name: &str, sets: &[&Both], ours: Find, theirs: Find) -> Fallible<Value> {
    let mut accepted = 0;
    for (at, set) in sets.iter().enumerate() {
        let (found, expected) = (ours(set).map(counted), theirs(set).map(counted));
        if found != expected {
            return Err(
                format!("{name}, set {at}: {found:?}, and the peer has {expected:?}").into()
            );
        }
        accepted += u32::from(found.is_some());
    }
    let (mut own, mut peer) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        own = own.min(least(|set: &Both| ours(black_box(set)).is_some(), sets));
        peer = peer.min(least(|set: &Both| theirs(black_box(set)).is_some(), sets));
    }
    Ok(json!({
        "name": format!("check/{name}"),
        "value": own,
        "unit": "us per set",
        "peer": peer,
        "ratio": peer / own,
        "sets": sets.len(),
        "with_bounds": accepted,
    }))
}

/// The number of times each bound occurs: the two have the tasks in different orders.
fn counted(bounds: Vec<Time>) -> HashMap<Time, usize> {
    let mut counts = HashMap::new();
    for bound in bounds {
        *counts.entry(bound).or_default() += 1;
    }
    counts
}
