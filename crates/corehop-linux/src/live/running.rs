// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that continue from one phase to the next: load, preemptors and measured threads.
//!
//! A phase without a condition restarts all these threads. A phase with a condition keeps the
//! threads whose random choices are those of the previous phase, also across plans. The machine
//! ends the threads when it is dropped.

use std::collections::BTreeMap;

use corehop_plan::experiment::{Condition, Job, Jobs, Phase, Step};
use corehop_plan::machine::MachineError;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::{Absence, Load, Mover};

use super::crew::Crew;
use super::load::RunningLoad;
use super::polluter::Preemptor;

/// The threads that continue from one phase to the next, if phases state what they renew.
#[derive(Debug, Default)]
pub(super) struct Running {
    pub(super) load: Option<(Load, RunningLoad)>,
    pub(super) preemptors: BTreeMap<(Cpu, usize), Preemptor>,
    pub(super) crew: Option<((Mover, CpuList), Crew)>,
}

impl Running {
    /// Ends the threads that `phase` restarts: all of them, unless the phase states that it keeps
    /// some.
    pub(super) fn end_what_is_renewed(&mut self, phase: &Phase, before: Option<Condition>) {
        let kept = phase.condition.zip(before);
        if kept.is_none_or(|(now, before)| now.threads != before.threads) {
            self.crew = None;
        }
        let other_load = self.load.as_ref().is_some_and(|(load, _)| *load != phase.load);
        if other_load || kept.is_none_or(|(now, before)| now.others != before.others) {
            (self.load, self.preemptors) = (None, BTreeMap::new());
        }
    }
}

/// Returns a preemptor for every CPU on which a preemptor takes a job's CPU in this phase, reusing
/// parked preemptors.
pub(super) fn park_preemptors(
    plan: &Jobs,
    phase: &Phase,
    seed: u64,
    mut parked: BTreeMap<(Cpu, usize), Preemptor>,
) -> Result<BTreeMap<(Cpu, usize), Preemptor>, MachineError> {
    for job in &phase.jobs {
        let own = plan.preemptor_of(job).zip(plan.which_preemptor(job));
        let Some((polluter, which)) = own else { continue };
        for cpu in preempted_on(job) {
            if let std::collections::btree_map::Entry::Vacant(place) = parked.entry((cpu, which)) {
                let seed = seed.wrapping_add(which as u64);
                let parked = Preemptor::park(polluter, cpu, seed);
                place.insert(parked.map_err(|error| super::not_possible(&error))?);
            }
        }
    }
    Ok(parked)
}

/// Whether a preemptor takes the CPU of any job of the phase.
pub(super) fn preempts(phase: &Phase) -> bool {
    phase.jobs.iter().any(|job| !preempted_on(job).is_empty())
}

/// The CPUs that a job leaves to a preemptor.
fn preempted_on(job: &Job) -> Vec<Cpu> {
    let mut here = job.start;
    let mut left = Vec::new();
    for step in &job.steps {
        if let Step::Leave(away) = step {
            if away.to_whom == Absence::Preemptor {
                left.push(here);
            }
            here = away.to;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::Renewed;
    use corehop_plan::units::Bytes;
    use corehop_plan::workload::{Pattern, Polluter};

    fn condition(others: u32, threads: u32) -> Condition {
        Condition { renewed: Renewed::Nothing, frames: 0, order: 0, others, threads }
    }

    fn phase(condition: Option<Condition>) -> Phase {
        Phase { replicate: Some(1), condition, load: Load::Idle, jobs: Vec::new() }
    }

    /// One running thread of each kind.
    fn running() -> Running {
        let cpus = corehop_system::thread::affinity().unwrap();
        let first = cpus.first().unwrap();
        let polluter =
            Polluter { wss: Bytes::from_kib(64), pattern: Pattern::Shuffled, write_ratio: 0.0 };
        let ordinary = Err("this is a test".to_owned());
        let one = CpuList::new([first]);
        let crew = Crew::start(Mover::Affinity, &one, &ordinary).unwrap();
        Running {
            load: Some((Load::Idle, RunningLoad::idle())),
            preemptors: [((first, 0), Preemptor::park(&polluter, first, 1).unwrap())].into(),
            crew: Some(((Mover::Affinity, one), crew)),
        }
    }

    /// Whether load, preemptors and measured threads still run when `phase` begins.
    fn left(phase: &Phase, before: Option<Condition>) -> [bool; 3] {
        let mut running = running();
        running.end_what_is_renewed(phase, before);
        [running.load.is_some(), !running.preemptors.is_empty(), running.crew.is_some()]
    }

    #[test]
    fn a_phase_keeps_the_threads_whose_draw_it_does_not_renew() {
        let before = Some(condition(3, 5));
        assert_eq!(left(&phase(Some(condition(3, 5))), before), [true, true, true]);
        assert_eq!(left(&phase(Some(condition(4, 5))), before), [false, false, true]);
        assert_eq!(left(&phase(Some(condition(3, 6))), before), [true, true, false]);
    }

    #[test]
    fn a_phase_that_says_nothing_or_has_another_load_starts_anew() {
        let before = Some(condition(3, 5));
        assert_eq!(left(&phase(None), before), [false, false, false]);
        let load = Load::Dma {
            transfer: corehop_plan::workload::Transfer::Direct,
            cpus: CpuList::default(),
        };
        let other = Phase { load, ..phase(Some(condition(3, 5))) };
        assert_eq!(left(&other, before), [false, false, true]);
    }
}
