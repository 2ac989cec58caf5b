// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways in which a server is run.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The CPU that makes the calls of an off-loaded server.
const OS_CORE: usize = 1;
/// The CPU that is left to it, and that a bound server has.
pub(crate) const APPLICATION_CORE: usize = 0;

/// A way of running a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    /// As it is, on all CPUs.
    Plain,
    /// The same once more: what differs from [`Arm::Plain`] is chance.
    Again,
    /// On the application core, without the library.
    Bound,
    /// With the library, and nothing off-loaded.
    Loaded,
    /// Off-loaded as it is by default: by prediction, guarded.
    Guarded,
    /// Every call that qualifies goes to the OS core, by this mechanism.
    Forced(u8),
}

impl Arm {
    /// Those that are compared with intervals.
    pub(crate) const COMPARED: [Self; 5] =
        [Self::Plain, Self::Again, Self::Bound, Self::Loaded, Self::Guarded];
    /// Those that are shown beside them, with fewer trials.
    pub(crate) const SHOWN: [Self; 5] =
        [Self::Forced(1), Self::Forced(2), Self::Forced(3), Self::Forced(4), Self::Forced(5)];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Plain => "unmodified".to_owned(),
            Self::Again => "again".to_owned(),
            Self::Bound => "bound".to_owned(),
            Self::Loaded => "loaded".to_owned(),
            Self::Guarded => "guarded".to_owned(),
            Self::Forced(mechanism) => format!("v{mechanism}"),
        }
    }

    /// The rule and the mechanism of an off-loaded server.
    fn offload(self) -> Option<(&'static str, u8)> {
        match self {
            Self::Plain | Self::Again | Self::Bound => None,
            Self::Loaded => Some(("never", 5)),
            Self::Guarded => Some(("predicted", 5)),
            Self::Forced(mechanism) => Some(("always", mechanism)),
        }
    }

    /// The command for a program. Off-loaded, it writes what became of its calls to `answer`.
    pub(crate) fn command(self, program: &OsStr, answer: &Path, coverage: bool) -> Command {
        if let Some((rule, mechanism)) = self.offload() {
            let mut command = Command::new(corehop_benches::PROGRAM);
            command.args(["offload", "-q", "--force", "--decide", rule, "--os-cores"]);
            command.arg(OS_CORE.to_string()).arg("--mechanism").arg(format!("v{mechanism}"));
            command.args(coverage.then_some("--coverage")).arg("-o").arg(answer);
            command.arg("--").arg(program);
            return command;
        }
        if self == Self::Bound {
            let mut command = Command::new("taskset");
            command.arg("-c").arg(APPLICATION_CORE.to_string()).arg(program);
            return command;
        }
        Command::new(program)
    }
}
