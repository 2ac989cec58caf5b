// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves jobs so that both touches are timed at their memory, on machines where only some nodes
//! have memory.
//!
//! A planned migration between nodes has its warm touch on one node and its resumed touch on
//! another, so the difference would also include the difference between two memories. Some
//! published rows show no such effect: a set far beyond the caches costs hardly more after a
//! migration. For these studies both touches run at home. The job moves away, its working set
//! settles there, and the way back is the measured migration.

use corehop_plan::experiment::{Absent, Body, Job, Plan, Step};
use corehop_plan::platform::{Node, Platform};
use corehop_plan::units::{Cpu, Nanos};
use corehop_plan::workload::{Event, LineState};

/// Makes all jobs of `plan` start on a node with memory, and makes jobs that migrate between nodes
/// return to that node.
pub(super) fn bring(plan: &mut Plan, platform: &Platform) {
    let Body::Jobs(jobs) = &mut plan.body else { return };
    let (cells, phases) = (&jobs.cells, &mut jobs.phases);
    for job in phases.iter_mut().flat_map(|phase| &mut phase.jobs) {
        home(job, platform);
        if cells[job.cell].event == Event::MemoryMigration {
            round_trip(job);
        }
    }
}

/// Whether a node has memory; if no node states its memory, each node has some.
fn has_memory(platform: &Platform, node: &Node) -> bool {
    node.memory.is_some() || platform.nodes.iter().all(|node| node.memory.is_none())
}

/// Moves a job that starts on a node without memory to the corresponding CPUs of a node with
/// memory.
fn home(job: &mut Job, platform: &Platform) {
    let of = |cpu: Cpu| platform.nodes.iter().find(|node| node.cpus.value.contains(cpu));
    let Some(away) = of(job.start).filter(|node| !has_memory(platform, node)) else { return };
    let Some(own) = platform.nodes.iter().find(|node| has_memory(platform, node)) else { return };
    let twin = |cpu: Cpu| {
        let (from, to) = if away.cpus.value.contains(cpu) { (away, own) } else { (own, away) };
        let place = from.cpus.value.iter().position(|other| other == cpu);
        place.and_then(|place| to.cpus.value.iter().nth(place)).unwrap_or(cpu)
    };
    job.start = twin(job.start);
    for step in &mut job.steps {
        if let Step::Leave(absent) = step {
            absent.to = twin(absent.to);
        }
    }
}

/// Lets the working set settle at the migration target, and makes the job return from there.
fn round_trip(job: &mut Job) {
    let Some(place) = job.steps.iter().rposition(|step| matches!(step, Step::Leave(_))) else {
        return;
    };
    let Step::Leave(absent) = job.steps[place] else { return };
    let out = Absent { length: Nanos::new(0), ..absent };
    let back = Absent { to: job.start, ..absent };
    let steps = [Step::Leave(out), Step::Prepare(LineState::Valid), Step::Leave(back)];
    job.steps.splice(place..=place, steps);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::tables::TableStudy;
    use crate::validation::{Lab, PublishedStudy};

    #[test]
    fn a_job_is_timed_where_its_memory_is_and_comes_back_to_it() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let mut study = TableStudy::named("waechtler-a4").unwrap().unwrap();
        assert!(study.narrow(&[4]));
        let lab = Lab::new(1, Some(8), false);
        let plan = study.plan(&platform, &lab).unwrap();
        let home = platform.nodes[0].cpus.value.clone();
        let plan = plan.jobs().unwrap();
        for job in plan.phases.iter().flat_map(|phase| &phase.jobs) {
            let event = plan.cells[job.cell].event;
            let resumes = job.ends_on();
            assert!(home.contains(job.start) && home.contains(resumes), "{event}: {job:?}");
            let leaves: Vec<Cpu> = job
                .steps
                .iter()
                .filter_map(|step| if let Step::Leave(away) = step { Some(away.to) } else { None })
                .collect();
            let away = leaves.iter().filter(|&&cpu| !home.contains(cpu)).count();
            assert_eq!(away, usize::from(event == Event::MemoryMigration));
            assert_eq!(event == Event::L3Migration, resumes != job.start, "{event}");
        }
    }
}
