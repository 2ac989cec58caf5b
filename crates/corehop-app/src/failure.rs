// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exit codes, and errors with an exit code.

use std::fmt::Display;
use std::process::ExitCode;

use corehop_decide::calibration::CalibrationError;
use corehop_decide::simulated::SimulationError;
use corehop_decide::validation::ValidationError;
use corehop_plan::experiment::{BodyError, ExperimentError, PlanError, SwitchesError};
use corehop_plan::machine::MachineError;
use corehop_plan::platform::PlatformError;
use corehop_plan::samples::FileError;
use corehop_stats::costs::SelectError;

use corehop_system::supervisor::interrupt;

/// The exit code with which the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded; if it answers a question, the answer is yes.
    Done,
    /// The command ran, but the answer is no or unknown.
    No,
    /// The command line is invalid.
    Usage,
    /// The command is not possible on this host.
    NotPossible,
    /// An input file is damaged or not of the expected kind.
    Damaged,
    /// The host failed midway; the recorded data is kept.
    Failed,
    /// A signal interrupted the command; the recorded data is kept.
    Interrupted,
    /// A recorded program ended with this exit code.
    Of(u8),
}

impl Exit {
    /// Returns the number of the exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NotPossible => 3,
            Self::Damaged => 4,
            Self::Failed => 6,
            Self::Interrupted => 130,
            Self::Of(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with its message and exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// Creates a failure with `error` as the reason for `exit`.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }

    /// Creates a failure with a sentence as the reason for `exit`.
    pub fn says(exit: Exit, sentence: impl Display) -> Self {
        Self { exit, error: anyhow::anyhow!("{sentence}") }
    }

    /// Puts the description of the operation that failed in front of the message.
    #[must_use]
    pub fn context(self, doing: impl Display + Send + Sync + 'static) -> Self {
        Self { exit: self.exit, error: self.error.context(doing) }
    }

    /// Returns the intended exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns the error with its causes.
    pub fn sentence(&self) -> String {
        let mut line = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            // Some errors already say what caused them.
            if !line.contains(&cause) {
                line.push_str(if line.is_empty() { "" } else { ": " });
                line.push_str(&cause);
            }
        }
        line
    }

    /// Returns the exit code; after an interrupt, errors count as interrupted because an interrupt
    /// cuts calls and waits short.
    pub fn code(&self) -> Exit {
        match self.exit {
            Exit::Failed | Exit::NotPossible if interrupt::requested() => Exit::Interrupted,
            other => other,
        }
    }
}

/// Rejects a command if the user gave one of these options.
///
/// # Errors
/// Fails with exit code 2 if one of the options was given.
pub fn refuse(why: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::says(Exit::Usage, format!("{why}: leave {option} out"))),
        None => Ok(()),
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let exit = if matches!(error, FileError::Io(_)) { Exit::Failed } else { Exit::Damaged };
        Self::new(exit, error)
    }
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Self {
        Self::new(Exit::Damaged, error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(Exit::Damaged, error)
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let not_here = matches!(
            error,
            ExperimentError::NotMeasurable { .. }
                | ExperimentError::Body(BodyError::Switches(SwitchesError::OneCpu { .. }))
        );
        Self::new(if not_here { Exit::NotPossible } else { Exit::Usage }, error)
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        let exit = match error {
            MachineError::Plan(PlanError::NoProgram { .. }) => Exit::Usage,
            MachineError::Plan(_) | MachineError::NotPossible { .. } | MachineError::Refused(_) => {
                Exit::NotPossible
            }
            MachineError::RunFailed { status, .. } => {
                u8::try_from(status).map_or(Exit::Failed, Exit::Of)
            }
            MachineError::Failed { .. } | MachineError::Sink(_) => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        Self::new(Exit::Usage, error)
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Experiment(error) => error.into(),
            SimulationError::Machine(error) => error.into(),
        }
    }
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        match error {
            CalibrationError::Machine(error) => error.into(),
            CalibrationError::Experiment(error) => error.into(),
            CalibrationError::Stopped => Self::new(Exit::Interrupted, error),
        }
    }
}

impl From<ValidationError> for Failure {
    fn from(error: ValidationError) -> Self {
        match error {
            ValidationError::Study(error) => Self::new(Exit::Damaged, error),
            ValidationError::Experiment(error) => error.into(),
            ValidationError::Machine(error) => error.into(),
            ValidationError::NoServer { .. } => Self::new(Exit::NotPossible, error),
            ValidationError::Rehearsal(error) => Self::new(Exit::NotPossible, error),
            ValidationError::Samples(error) => Self::new(Exit::Failed, error),
        }
    }
}
