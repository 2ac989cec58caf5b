// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for background loads.

use corehop_plan::experiment::Preset;
use corehop_plan::platform::Platform;
use corehop_plan::units::CpuList;
use corehop_plan::workload::{Load, MovingProgram, Polluter, Transfer};

use crate::output::say;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::quantities::{changing, polluter};

/// An example command that most machines can run.
const EXAMPLE_COMMAND: &str = "--command 'make -C /usr/src/linux -j1'";

/// The background load.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Run this background load: idle, constructed, changing, realistic, dma or buslock
    #[arg(long, help_heading = "Background load")]
    load: Option<String>,
    /// Run this command as the load `realistic`. Without --load, corehop adds this load to the loads of the preset
    #[arg(long, value_name = "COMMAND", help_heading = "Background load")]
    command: Option<String>,
    /// Run the load on these CPUs
    #[arg(long, value_name = "LIST", help_heading = "Background load")]
    pub(super) load_cpus: Option<CpuList>,
    /// Give the polluters of --load constructed this working set: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO
    #[arg(long, value_parser = polluter, help_heading = "Background load")]
    pub(super) polluter: Option<Polluter>,
    /// Run programs like this for --load changing: WINDOW, or WINDOW,FRESH, or WINDOW,FRESH,PAUSE. WINDOW is the size
    /// of the current working set, FRESH the share of new lines, PAUSE the time between two lines
    #[arg(long, value_parser = changing, value_name = "PROGRAM", help_heading = "Background load")]
    changing: Option<MovingProgram>,
    /// Transfer data in this way for --load dma: direct (default) or loopback
    #[arg(long, help_heading = "Background load")]
    transfer: Option<Transfer>,
    /// Allow split locks for --load buslock; split locks stall every CPU
    #[arg(long, help_heading = "Background load")]
    split_locks: bool,
}

impl LoadArgs {
    /// The load `realistic`, if the options name a command for the load.
    pub(super) fn realistic(&self) -> Option<Load> {
        let cpus = self.load_cpus.clone().unwrap_or_default();
        Some(Load::Realistic { command: self.command.clone()?, cpus })
    }

    /// The requested load, with its options.
    pub(super) fn load(&self, platform: &Platform) -> Result<Option<Load>, Failure> {
        let other = self.load.as_deref().filter(|&load| load != "realistic");
        if let Some(other) = other.filter(|_| self.command.is_some()) {
            let what = format!("--command applies to the load `realistic`, not to --load {other}");
            return Err(Failure::says(Exit::Usage, what));
        }
        let cpus = self.load_cpus.clone().unwrap_or_default();
        let polluter = || self.polluter.clone().unwrap_or_else(|| Preset::polluter(platform));
        Ok(Some(match self.load.as_deref() {
            None => return Ok(None),
            Some("idle") => Load::Idle,
            Some("constructed") => Load::Constructed { polluter: polluter(), cpus },
            Some("changing") => {
                let program = self.changing.clone().unwrap_or(MovingProgram::COMPILER);
                Load::Changing { program, cpus }
            }
            Some("realistic") => self.realistic().ok_or_else(|| {
                let what =
                    format!("--load realistic needs a command, for example {EXAMPLE_COMMAND}");
                Failure::says(Exit::Usage, what)
            })?,
            Some("dma") => Load::Dma { transfer: self.transfer.unwrap_or(Transfer::Direct), cpus },
            Some("buslock") => Load::Buslock { split: self.split_locks, cpus },
            Some(other) => {
                return Err(Failure::says(
                    Exit::Usage,
                    format!(
                        "`{other}` is not a load: use idle, constructed, changing, realistic, dma or buslock"
                    ),
                ));
            }
        }))
    }

    /// Rejects options that belong to another load than the requested load.
    pub(super) fn refuse_unused(&self) -> Result<(), Failure> {
        let load = self.load.as_deref();
        let unless =
            |given: bool, loads: &[&str]| given && !load.is_some_and(|load| loads.contains(&load));
        let runs = ["constructed", "changing", "realistic", "dma", "buslock"];
        let load_cpus = self.load_cpus.is_some() && self.command.is_none();
        refuse(
            "this option belongs to another background load",
            &[
                ("--polluter", unless(self.polluter.is_some(), &["constructed"])),
                ("--changing", unless(self.changing.is_some(), &["changing"])),
                ("--transfer", unless(self.transfer.is_some(), &["dma"])),
                ("--split-locks", unless(self.split_locks, &["buslock"])),
                ("--load-cpus", unless(load_cpus, &runs)),
            ],
        )
    }

    /// Rejects load options if the experiment uses its default loads, idle and constructed.
    pub(super) fn refuse_without_load(&self) -> Result<(), Failure> {
        if self.load.is_some() {
            return self.refuse_unused();
        }
        refuse(
            "without --load the loads are idle and constructed",
            &[
                ("--command", self.command.is_some()),
                ("--changing", self.changing.is_some()),
                ("--transfer", self.transfer.is_some()),
                ("--split-locks", self.split_locks),
            ],
        )
    }

    /// Warns if the run leaves out a load of the preset.
    pub(super) fn say_what_is_left_out(&self, preset: Preset) {
        let given = self.load.is_some() || self.command.is_some();
        if preset.has_realistic() && !given {
            say(&format!(
                "corehop: the load `realistic` of the preset {preset} is omitted, because it needs a command, for example {EXAMPLE_COMMAND}\n"
            ));
        }
    }
}
