// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to "should I pin this program, and to which CPUs?", with its evidence.

use serde::Serialize;

use super::arms::{LeftOutArm, PinArm, ProgramLoad};
use super::contest::{ArmGain, ContestVerdict, TrialQuantity};
use corehop_plan::units::CpuList;

/// The averages of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ArmFigures {
    /// The whole runs of a command, or the stretches of a process.
    pub runs: usize,
    /// The mean wall time of a command in seconds, or the mean progress in a second.
    pub mean: f64,
    /// The mean CPU time in seconds; None where it is not known.
    pub cpu_s: Option<f64>,
}

/// An arm that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriedArm {
    /// The arm.
    #[serde(flatten)]
    pub arm: PinArm,
    /// Its averages; None where it had no turn.
    pub figures: Option<ArmFigures>,
    /// Its gain over the default; None with too few rounds.
    pub gain: Option<ArmGain>,
}

/// The program that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriedProgram {
    /// A command, in words that a shell takes.
    Command(String),
    /// A process that runs.
    Process(u32),
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PinAnswer {
    /// The program.
    pub program: TriedProgram,
    /// The identifier of the platform.
    pub platform: String,
    /// The quantity by which the arms were compared.
    pub quantity: TrialQuantity,
    /// The CPUs that the program may use if it is left alone.
    pub default_cpus: CpuList,
    /// The load that it puts on them.
    pub load: ProgramLoad,
    /// The seed of the order.
    pub seed: u64,
    /// The whole rounds.
    pub rounds: usize,
    /// The time that the trial took, in seconds.
    pub seconds: f64,
    /// The time that a round of all arms takes, in seconds.
    pub round_s: f64,
    /// The kernel's default.
    pub default: Option<ArmFigures>,
    /// The default once more: the control.
    pub again: Option<ArmFigures>,
    /// The default against itself.
    pub floor: Option<ArmGain>,
    /// The arms.
    pub arms: Vec<TriedArm>,
    /// The arms that were left out.
    pub left_out: Vec<LeftOutArm>,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: ContestVerdict,
}

/// A trial needs more time than its rounds: the first run, and rounds that take longer than the others.
const ROOM: f64 = 1.5;

impl PinAnswer {
    /// The time that is enough for an answer, in seconds, up to whole tens; 0 where there is one.
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
