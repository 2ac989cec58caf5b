// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment `program-arms` shows whether a change in the way a program runs pays. corehop runs the
//! program with and without the change, in blocks.
//!
//! A block has one run of each arm in random order, so that neither a slowly changing machine nor the first
//! position in a block favours an arm. The unchanged command runs in two arms: in [`Arm::PLAIN`], with
//! which corehop compares the other arms, and in [`Arm::AGAIN`]. The difference between the arms `PLAIN`
//! and `AGAIN` has no cause in the program, so it is the floor of the comparison. The experiment sees an
//! effect of one run on the next run (a file left in memory) only as noise.

use serde::{Deserialize, Serialize};

use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::Plan;
use crate::kinds::program::NAME;
use crate::kinds::{Arm, Program, ProgramError, ProgramRun, Target};
use crate::platform::Platform;
use crate::units::Nanos;

/// The experiment of interleaved runs of a program in several arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramArms {
    /// The program with its arms, as a recording without runs.
    program: Program,
    /// The number of blocks of the experiment.
    repeat: u32,
}

impl ProgramArms {
    /// Returns an experiment with blocks of the unchanged command and of each arm in `changed`.
    ///
    /// # Errors
    /// Returns [`ProgramError`] if the target is not a command, if `repeat` is 0, or if an arm has a
    /// reserved or repeated name or no prefix.
    pub fn new(
        target: Target,
        estimate_wss: bool,
        changed: Vec<Arm>,
        repeat: u32,
    ) -> Result<Self, ProgramError> {
        for arm in &changed {
            if [Arm::PLAIN, Arm::AGAIN].contains(&arm.name.as_str()) {
                return Err(ProgramError::Reserved(arm.name.clone()));
            }
            if arm.prefix.is_empty() {
                return Err(ProgramError::Unchanged(arm.name.clone()));
            }
        }
        if repeat == 0 {
            return Err(ProgramError::Nothing);
        }
        let again = (!changed.is_empty()).then(|| Arm::unchanged(Arm::AGAIN));
        let arms = [Arm::unchanged(Arm::PLAIN)].into_iter().chain(again).chain(changed).collect();
        let program = Program { arms, ..Program::once(target, estimate_wss) };
        program.check()?;
        Ok(Self { program, repeat })
    }
}

impl Experiment for ProgramArms {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Returns the number of blocks, because a block is a replicate.
    fn replicates(&self) -> Option<u32> {
        Some(self.repeat)
    }

    fn units(&self, _: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        let unit = |arm: &Arm| SamplingUnit {
            name: arm.name.clone(),
            asked: self.repeat,
            each: Nanos::default(),
        };
        Ok(self.program.arms.iter().map(unit).collect())
    }

    fn block(
        &self,
        _: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let block = turn.replicate.unwrap_or_default();
        let of = |(arm, &count): (usize, &u32)| (0..count).map(move |_| ProgramRun { block, arm });
        let mut runs: Vec<ProgramRun> = quota.iter().enumerate().flat_map(of).collect();
        DrawStream::new(seed, turn.block).shuffle(&mut runs);
        Ok(Plan::new(NAME, seed, Program { runs, ..self.program.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Argument;

    fn words(text: &str) -> Vec<Argument> {
        text.split(' ').map(|word| Argument::new(word.as_bytes().to_vec())).collect()
    }

    fn pinned() -> Arm {
        Arm { name: "pinned".to_owned(), prefix: words("taskset -c 1") }
    }

    fn arms(changed: Vec<Arm>, repeat: u32) -> Result<ProgramArms, ProgramError> {
        ProgramArms::new(Target::Command(words("xz -9 file")), false, changed, repeat)
    }

    fn whole(experiment: &ProgramArms, seed: u64) -> Program {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let plan = experiment.replicated(&platform, seed, experiment.repeat).unwrap();
        assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
        plan.check(&platform).unwrap();
        plan.program().unwrap().clone()
    }

    #[test]
    fn a_block_has_each_arm_once_and_the_command_as_it_is_twice() {
        let program = whole(&arms(vec![pinned()], 20).unwrap(), 1);
        let names: Vec<&str> = program.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["plain", "again", "pinned"]);
        assert_eq!(program.runs.len(), 60);
        for (block, runs) in program.runs.chunks(3).enumerate() {
            let mut of: Vec<usize> = runs.iter().map(|run| run.arm).collect();
            of.sort_unstable();
            assert_eq!(of, [0, 1, 2]);
            assert!(runs.iter().all(|run| run.block == block as u32), "{runs:?}");
        }
    }

    #[test]
    fn the_order_within_blocks_is_random_by_the_seed_alone() {
        let experiment = arms(vec![pinned()], 20).unwrap();
        let order = |seed| whole(&experiment, seed).runs;
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let first = |arm| order(1).chunks(3).filter(|runs| runs[0].arm == arm).count();
        assert!((0..3).all(|arm| (1..20).contains(&first(arm))), "each arm comes first at times");
    }

    #[test]
    fn without_a_change_the_command_runs_once_a_block() {
        let program = whole(&arms(Vec::new(), 3).unwrap(), 1);
        assert_eq!((program.arms.len(), program.runs.len()), (1, 3));
    }

    #[test]
    fn the_words_of_an_arm_stand_in_front_of_the_command() {
        let program = whole(&arms(vec![pinned()], 1).unwrap(), 1);
        let target = |arm| program.target_of(&ProgramRun { block: 0, arm }).to_string();
        assert_eq!(target(0), "xz -9 file");
        assert_eq!(target(2), "taskset -c 1 xz -9 file");
    }

    #[test]
    fn arms_that_make_no_sense_are_refused_with_the_remedy() {
        let named = |name: &str| Arm { name: name.to_owned(), ..pinned() };
        for (changed, repeat, part) in [
            (vec![pinned(), pinned()], 1, "two arms have the name `pinned`"),
            (vec![named("plain")], 1, "`plain` always exists"),
            (vec![named("again")], 1, "`again` always exists"),
            (vec![Arm::unchanged("x")], 1, "arm `x` has no command"),
            (vec![pinned()], 0, "--repeat 0"),
        ] {
            let said = arms(changed, repeat).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        let process = ProgramArms::new(Target::Process(7), false, vec![pinned()], 2);
        assert!(process.unwrap_err().to_string().contains("process 7 cannot run repeatedly"));
    }

    #[test]
    fn a_plan_by_hand_with_a_run_of_no_arm_is_refused() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let mut program = whole(&arms(vec![pinned()], 1).unwrap(), 1);
        program.runs[1].arm = 3;
        let said = Plan::new(NAME, 1, program).check(&platform).unwrap_err().to_string();
        assert!(said.contains("run 1 names arm 3, but the plan has 3 arms"), "{said}");
    }

    #[test]
    fn an_interrupted_plan_goes_on_with_the_runs_that_are_left() {
        let program = whole(&arms(vec![pinned()], 2).unwrap(), 1);
        let plan = Plan::new(NAME, 1, program.clone());
        plan.check_resumable().unwrap();
        let rest = plan.rest(4, 4);
        assert_eq!(rest.program().unwrap().runs, program.runs[4..]);
        assert!(plan.rest(6, 6).check_not_empty().is_err(), "all have run");
        let once = Plan::new(NAME, 1, Program::once(program.target, false));
        assert!(once.check_resumable().is_err());
    }
}
