// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment on the causes of the spread between replicates: in one cell, each replicate renews one kind of draw.
//!
//! Usually a replicate draws anew everything that a process draws when it starts. The experiment renews one draw in
//! each step of the run and keeps the others: the job's page frames, the order of its accesses, the other threads with
//! their memory, or the measured threads. A further kind of step renews all draws, and another kind renews none, so
//! that only time passes. The steps of a round come in random order. The difference between two consecutive steps is
//! only the second step's renewal and time, as in a one-factor-at-a-time design (Morris, Technometrics 33, 1991) whose
//! base point moves along. `model::conditions` separates the effects from the differences of neighbouring steps.

use serde::{Deserialize, Serialize};

use super::synthetic::Synthetic;
use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Cell, Condition, Plan, Renewed};
use crate::platform::Platform;
use crate::workload::{Absence, Load, WorkingSet};

/// The number of samples in each step of this experiment: two batches of a cell that takes some milliseconds, with
/// equally many samples in each direction in both halves.
const SAMPLES_OF_A_STEP: u32 = 8;

/// The parameters name one cell of the synthetic method, whose draws the experiment renews one at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The examined cell: one group with one working set and one event.
    pub cell: Synthetic,
    /// The number of renewals of each draw.
    pub rounds: u32,
}

impl Conditions {
    /// Returns the kinds of renewal in the steps of a round. If no other threads run, the round has no step that
    /// renews other threads.
    pub fn arms(&self) -> Vec<Renewed> {
        let group = self.cell.groups.first();
        let alone = group
            .is_none_or(|group| group.load == Load::Idle && group.absence != Absence::Preemptor);
        Renewed::ALL.iter().copied().filter(|&arm| !alone || arm != Renewed::Others).collect()
    }

    /// Sets the requested number of replicates, rounded up to whole rounds, and the number of samples of each cell;
    /// without a requested number, each step has the default number of samples.
    pub fn set_steps(&mut self, replicates: Option<u32>, samples: Option<u32>) {
        let arms = self.arms().len() as u32;
        if let Some(replicates) = replicates {
            self.rounds = replicates.div_ceil(arms);
        }
        let samples = samples.unwrap_or(self.steps() * SAMPLES_OF_A_STEP);
        self.cell.groups.iter_mut().for_each(|group| group.samples = samples);
    }

    /// Returns the number of steps; each step is a replicate that renews one kind of draw.
    pub fn steps(&self) -> u32 {
        self.rounds * self.arms().len() as u32
    }

    /// Returns the renewal of each step up to `step`; the first step draws everything.
    fn renewed_until(&self, seed: u64, step: u32) -> Vec<Renewed> {
        let arms = self.arms();
        let round = |number: u32| {
            let mut order = arms.clone();
            DrawStream::new(seed, ROUNDS + u64::from(number)).shuffle(&mut order);
            order
        };
        let mut renewed: Vec<Renewed> = (0..=step / arms.len() as u32).flat_map(round).collect();
        renewed.truncate(step as usize + 1);
        if let Some(first) = renewed.first_mut() {
            *first = Renewed::Everything;
        }
        renewed
    }

    /// Returns the condition of a step, counted from 0.
    pub fn condition(&self, seed: u64, step: u32) -> Condition {
        let renewed = self.renewed_until(seed, step);
        let draw = |one: Renewed| {
            renewed.iter().skip(1).filter(|renewed| renewed.includes(one)).count() as u32
        };
        Condition {
            renewed: renewed[step as usize],
            frames: draw(Renewed::Frames),
            order: draw(Renewed::Order),
            others: draw(Renewed::Others),
            threads: draw(Renewed::Threads),
        }
    }
}

/// The base number of the random streams that determine the order of the steps in each round.
const ROUNDS: u64 = 1 << 41;

impl Conditions {
    /// Returns the working sets to which the experiment's cells refer by index.
    pub fn sets(&self) -> Vec<WorkingSet> {
        self.cell.sets()
    }

    /// Returns the experiment's cells on `platform`, each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU of the experiment.
    pub fn cells(&self, platform: &Platform) -> Result<Vec<(Cell, u32)>, ExperimentError> {
        let cells = self.cell.cells(platform)?;
        match cells.len() {
            1 => Ok(cells),
            count => Err(ExperimentError::NotOneCell { count }),
        }
    }
}

impl Experiment for Conditions {
    fn name(&self) -> &'static str {
        "conditions"
    }

    fn replicates(&self) -> Option<u32> {
        Some(self.steps())
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(SamplingUnit::of_cells(&self.cells(platform)?, &self.sets()))
    }

    /// All steps use the pair of CPUs that the first replicate draws, because the CPUs of another pair can be nearer to
    /// each other or farther apart.
    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let first = RunPosition { replicate: turn.replicate.map(|_| 0), ..turn };
        let mut jobs = self.cell.jobs(platform, seed, first, quota)?;
        for phase in &mut jobs.phases {
            phase.replicate = turn.replicate;
            phase.condition = turn.replicate.map(|step| self.condition(seed, step));
        }
        Ok(Plan::new(self.name(), seed, jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Preset;
    use crate::workload::Event;

    fn conditions(rounds: u32) -> (Platform, Conditions) {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let conditions = Preset::Quick.conditions(&platform);
        (platform, Conditions { rounds, ..conditions })
    }

    #[test]
    fn each_round_renews_each_thing_once_and_the_first_step_draws_everything() {
        let (_, conditions) = conditions(4);
        let renewed = conditions.renewed_until(5, 23);
        assert_eq!((renewed.len(), renewed[0]), (24, Renewed::Everything));
        for round in renewed.chunks(6).skip(1) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, Renewed::ALL);
        }
        assert_ne!(renewed[6..12], renewed[12..18], "rounds have orders of their own");
    }

    #[test]
    fn a_step_renews_what_it_says_and_keeps_everything_else() {
        let (_, conditions) = conditions(5);
        for step in 1..conditions.steps() {
            let [before, after] = [step - 1, step].map(|step| conditions.condition(9, step));
            let changed = [
                (Renewed::Frames, before.frames != after.frames),
                (Renewed::Order, before.order != after.order),
                (Renewed::Others, before.others != after.others),
                (Renewed::Threads, before.threads != after.threads),
            ];
            for (one, changed) in changed {
                assert_eq!(changed, after.renewed.includes(one), "step {step}: {one}");
            }
        }
    }

    #[test]
    fn the_plan_says_the_condition_of_every_replicate_and_keeps_to_one_pair_of_cpus() {
        let (platform, conditions) = conditions(2);
        let plan = conditions.replicated(&platform, 3, conditions.steps()).unwrap();
        let jobs = plan.jobs().unwrap();
        assert_eq!(jobs.replicates(), Some(12));
        for (step, phase) in jobs.phases.iter().enumerate() {
            assert_eq!(phase.replicate, Some(step as u32));
            assert_eq!(phase.condition, Some(conditions.condition(3, step as u32)));
        }
        let again = Plan::from_json(&plan.to_json()).unwrap();
        assert!(again == plan, "a plan of conditions is not what its JSON says");
    }

    #[test]
    fn more_than_one_cell_is_refused() {
        let (platform, mut conditions) = conditions(2);
        conditions.cell.groups[0].events.push(Event::None);
        let refused = conditions.cells(&platform).unwrap_err();
        assert_eq!(refused, ExperimentError::NotOneCell { count: 2 });
    }

    #[test]
    fn where_nothing_else_runs_there_are_no_others_to_renew() {
        let (_, mut conditions) = conditions(2);
        conditions.cell.groups[0].load = Load::Idle;
        conditions.cell.groups[0].absence = Absence::Nothing;
        assert!(!conditions.arms().contains(&Renewed::Others));
        assert_eq!(conditions.steps(), 10);
    }
}
