// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to "should I pin this program, and to which CPUs?", with its evidence.

use serde::Serialize;

use super::arms::{LeftOutArm, PinArm, ProgramLoad};
use super::contest::{ArmGain, ContestVerdict, TrialQuantity};
use corehop_plan::units::CpuList;

/// The average results of the default or of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ArmFigures {
    /// The number of complete runs of a command, or of measured intervals of a process.
    pub runs: usize,
    /// The mean wall time of a command in seconds, or the mean progress per second.
    pub mean: f64,
    /// The mean CPU time in seconds; `None` if unknown.
    pub cpu_s: Option<f64>,
}

/// An arm that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriedArm {
    /// The set of CPUs that was tried.
    #[serde(flatten)]
    pub arm: PinArm,
    /// The arm's average results; `None` if the arm never ran.
    pub figures: Option<ArmFigures>,
    /// The arm's gain over the default; `None` with too few rounds.
    pub gain: Option<ArmGain>,
}

/// The program for which arms were tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriedProgram {
    /// A command line in shell syntax.
    Command(String),
    /// A running process, by process ID.
    Process(u32),
}

/// The complete answer to a pinning trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PinAnswer {
    /// The program that was tried.
    pub program: TriedProgram,
    /// The identifier of the platform.
    pub platform: String,
    /// The quantity by which the arms were compared.
    pub quantity: TrialQuantity,
    /// The CPUs that the program may use without pinning.
    pub default_cpus: CpuList,
    /// The load that the program puts on these CPUs.
    pub load: ProgramLoad,
    /// The seed for the order of the turns.
    pub seed: u64,
    /// The number of complete rounds.
    pub rounds: usize,
    /// The time that the trial took, in seconds.
    pub seconds: f64,
    /// The time that a round of all arms takes, in seconds.
    pub round_s: f64,
    /// The results of the kernel's default placement.
    pub default: Option<ArmFigures>,
    /// The results of the second default turn, which serves as the control.
    pub again: Option<ArmFigures>,
    /// The gain of the control over the default.
    pub floor: Option<ArmGain>,
    /// The arms that were tried.
    pub arms: Vec<TriedArm>,
    /// The arms that were left out.
    pub left_out: Vec<LeftOutArm>,
    /// The verdict of the contest.
    #[serde(flatten)]
    pub verdict: ContestVerdict,
}

/// The factor by which a trial takes longer than its rounds, because of the first run and of slow rounds.
const ROOM: f64 = 1.5;

impl PinAnswer {
    /// Returns the time that suffices for an answer, in seconds, rounded up to tens; 0 if there is an answer.
    pub fn enough_s(&self) -> f64 {
        match self.verdict {
            ContestVerdict::TooFew { needed, .. } => {
                (ROOM * self.round_s * needed as f64 / 10.0).ceil() * 10.0
            }
            _ => 0.0,
        }
    }

    /// The arm that won, with its gain.
    pub fn winner(&self) -> Option<(&PinArm, ArmGain)> {
        let ContestVerdict::Winner { arm } = self.verdict else { return None };
        let tried = self.arms.get(arm)?;
        Some((&tried.arm, tried.gain?))
    }
}

impl From<PinArm> for TriedArm {
    /// An arm before its first turn.
    fn from(arm: PinArm) -> Self {
        Self { arm, figures: None, gain: None }
    }
}
