// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background load that is asked for.

use corehop_core::experiment::Preset;
use corehop_core::platform::Platform;
use corehop_core::workload::{Changing, Load, Transfer};

use super::{Args, EXAMPLE_COMMAND};
use crate::exit::{Exit, Failure};

impl Args {
    /// The load `realistic`, where there is a command for it.
    pub(super) fn realistic(&self) -> Option<Load> {
        let cpus = self.load_cpus.clone().unwrap_or_default();
        Some(Load::Realistic { command: self.command.clone()?, cpus })
    }

    /// Access times are those of an idle machine.
    pub(super) fn refuse_loads(&self) -> Result<(), Failure> {
        let idle = self.load.as_deref().is_none_or(|load| load == "idle");
        if idle && self.command.is_none() {
            return Ok(());
        }
        Err(Failure::says(
            Exit::Usage,
            "access-time is measured without a load: leave --load and --command out",
        ))
    }

    /// The load that was asked for, with its options.
    pub(super) fn load(&self, platform: &Platform) -> Result<Option<Load>, Failure> {
        let other = self.load.as_deref().filter(|&load| load != "realistic");
        if let Some(other) = other.filter(|_| self.command.is_some()) {
            let what = format!("--command is for the load `realistic`, not for --load {other}");
            return Err(Failure::says(Exit::Usage, what));
        }
        let cpus = self.load_cpus.clone().unwrap_or_default();
        let polluter = || self.polluter.clone().unwrap_or_else(|| Preset::polluter(platform));
        Ok(Some(match self.load.as_deref() {
            None => return Ok(None),
            Some("idle") => Load::Idle,
            Some("constructed") => Load::Constructed { polluter: polluter(), cpus },
            Some("changing") => {
                let program = self.changing.clone().unwrap_or(Changing::COMPILER);
                Load::Changing { program, cpus }
            }
            Some("realistic") => self.realistic().ok_or_else(|| {
                let what =
                    format!("--load realistic needs a command, for instance {EXAMPLE_COMMAND}");
                Failure::says(Exit::Usage, what)
            })?,
            Some("dma") => Load::Dma { transfer: self.transfer.unwrap_or(Transfer::Direct), cpus },
            Some("buslock") => Load::Buslock { split: self.split_locks, cpus },
            Some(other) => {
                return Err(Failure::says(
                    Exit::Usage,
                    format!(
                        "`{other}` is not a load; known are: idle, constructed, changing, realistic, dma, \
                         buslock"
                    ),
                ));
            }
        }))
    }
}
