// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the partitioned, split and soft tests of the list are run.

use super::with_bounds;
use crate::decision::sched::partition::split::{self, Piece};
use crate::decision::sched::partition::{Admission, Fit, Packing, edf_os, exhaustive};
use crate::decision::sched::soft::{self, compliant, tardiness};
use crate::decision::sched::task::System;
use crate::decision::sched::verdict::{Answer, Verdict};

/// Packs by utilisation; with implicit deadlines a bin that is not over-full meets all of them.
pub(super) fn by_utilisation<const FIT: usize, const DECREASING: bool>(
    system: System<'_>,
) -> Answer {
    pack(system, FIT, DECREASING, Admission::Utilisation)
}

/// Packs by processor demand.
pub(super) fn by_demand<const FIT: usize, const DECREASING: bool>(system: System<'_>) -> Answer {
    pack(system, FIT, DECREASING, Admission::Demand)
}

fn pack(system: System<'_>, fit: usize, decreasing: bool, admission: Admission) -> Answer {
    let packing = Packing { fit: Fit::ALL[fit], decreasing, admission, cluster: 1 };
    match packing.pack(system) {
        Ok(bins) => Answer { partition: Some(bins), ..Answer::plain(Verdict::Schedulable) },
        Err(task) => Answer::unknown(format!("no CPU admits task {task}")),
    }
}

/// Clusters of so many CPUs, worst fit by falling utilisation; then global EDF in each.
pub(super) fn clustered<const SIZE: u32>(system: System<'_>) -> Answer {
    let bins = match clusters(system, SIZE) {
        Ok(bins) => bins,
        Err(answer) => return answer,
    };
    for (cluster, bin) in bins.iter().enumerate() {
        let tasks: Vec<_> = bin.iter().map(|&at| system.tasks[at]).collect();
        let own = System::of(SIZE, &tasks);
        if !bin.is_empty() && super::entries::g_edf(own).verdict != Verdict::Schedulable {
            return Answer::unknown(format!("no test for global EDF accepts cluster {cluster}"));
        }
    }
    Answer { partition: Some(bins), ..Answer::plain(Verdict::Schedulable) }
}

/// Clusters of so many CPUs, worst fit by falling utilisation: none is over-full, so tardiness is bounded.
pub(super) fn softly_clustered<const SIZE: u32>(system: System<'_>) -> Answer {
    match clusters(system, SIZE) {
        Ok(bins) => Answer { partition: Some(bins), ..Answer::plain(Verdict::Schedulable) },
        Err(answer) => answer,
    }
}

fn clusters(system: System<'_>, cluster: u32) -> Result<Vec<Vec<usize>>, Answer> {
    if !system.cpus.is_multiple_of(cluster) {
        let why = format!("{} CPUs make no clusters of {cluster}", system.cpus);
        return Err(Answer::unknown(why));
    }
    let packing =
        Packing { fit: Fit::Worst, decreasing: true, admission: Admission::Utilisation, cluster };
    packing.pack(system).map_err(|task| Answer::unknown(format!("no cluster admits task {task}")))
}

/// Every assignment, while they are few.
pub(super) fn every_assignment(system: System<'_>) -> Answer {
    match exhaustive::partition(system) {
        Ok(bins) => Answer { partition: Some(bins), ..Answer::plain(Verdict::Schedulable) },
        Err(Verdict::Unknown) => Answer::unknown("there are too many assignments to try"),
        Err(verdict) => Answer::plain(verdict),
    }
}

/// C=D splitting.
pub(super) fn c_equals_d(system: System<'_>) -> Answer {
    match split::c_equals_d(system) {
        Ok(pieces) => Answer {
            partition: Some(of_each_cpu(system, &pieces)),
            ..Answer::plain(Verdict::Schedulable)
        },
        Err(task) => Answer::unknown(format!("no splitting places task {task}")),
    }
}

/// EDF-os: fixed tasks, and tasks that change their CPU between jobs.
pub(super) fn edf_os(system: System<'_>) -> Answer {
    let Some(assignment) = edf_os::assign(system) else {
        return Answer::plain(soft::bounded(system));
    };
    let mut cpus = assignment.fixed;
    for portion in assignment.cut {
        cpus[portion.cpu].push(portion.task);
    }
    Answer { partition: Some(cpus), ..soft_bounds(system, edf_os::responses(system)) }
}

fn of_each_cpu(system: System<'_>, pieces: &[Piece]) -> Vec<Vec<usize>> {
    let mut cpus = vec![Vec::new(); system.cpus as usize];
    for piece in pieces {
        cpus[piece.cpu].push(piece.task);
    }
    cpus
}

/// `U <= m` and each `u <= 1`.
pub(super) fn bounded_tardiness(system: System<'_>) -> Answer {
    Answer::plain(soft::bounded(system))
}

/// Devi and Anderson's bounds.
pub(super) fn devi_anderson(system: System<'_>) -> Answer {
    soft_bounds(system, tardiness::devi_anderson(system))
}

/// Compliant-vector bounds.
pub(super) fn compliant(system: System<'_>, points: compliant::Points) -> Answer {
    soft_bounds(system, compliant::responses(system, points))
}

/// What is not bounded is known not to be.
fn soft_bounds(system: System<'_>, bounds: Option<Vec<u64>>) -> Answer {
    match bounds {
        None => Answer::plain(soft::bounded(system)),
        bounds => with_bounds(bounds),
    }
}
