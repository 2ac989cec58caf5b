// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background load that is asked for.

use corehop_core::experiment::Preset;
use corehop_core::platform::Platform;
use corehop_core::units::CpuList;
use corehop_core::workload::{Changing, Load, Polluter, Transfer};

use super::super::quantities::{changing, polluter};
use crate::exit::{Exit, Failure, refuse};

/// A load that most machines can run, as it is typed.
const EXAMPLE_COMMAND: &str = "--command 'make -C /usr/src/linux -j1'";

/// What else runs.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// idle, constructed, changing, realistic, dma or buslock
    #[arg(long, help_heading = "Background load")]
    load: Option<String>,
    /// The command that the load `realistic` runs: of --load realistic, or, without --load, beside the
    /// preset's own loads
    #[arg(long, value_name = "COMMAND", help_heading = "Background load")]
    command: Option<String>,
    /// The CPUs that the load runs on
    #[arg(long, value_name = "LIST", help_heading = "Background load")]
    pub(super) load_cpus: Option<CpuList>,
    /// What the polluters of --load constructed walk: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO
    #[arg(long, value_parser = polluter, help_heading = "Background load")]
    pub(super) polluter: Option<Polluter>,
    /// What the programs of --load changing have in use at a time, the share of new lines in what they
    /// touch, and their time between two lines: WINDOW, or WINDOW,FRESH, or WINDOW,FRESH,PAUSE
    #[arg(long, value_parser = changing, value_name = "PROGRAM", help_heading = "Background load")]
    changing: Option<Changing>,
    /// What --load dma does: direct (the usual) or loopback
    #[arg(long, help_heading = "Background load")]
    transfer: Option<Transfer>,
    /// Let --load buslock use split locks, which stall every CPU
    #[arg(long, help_heading = "Background load")]
    split_locks: bool,
}

impl LoadArgs {
    /// The load `realistic`, where there is a command for it.
    pub(super) fn realistic(&self) -> Option<Load> {
        let cpus = self.load_cpus.clone().unwrap_or_default();
        Some(Load::Realistic { command: self.command.clone()?, cpus })
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

    /// Options that another load has.
    pub(super) fn refuse_unused(&self) -> Result<(), Failure> {
        let load = self.load.as_deref();
        let unless =
            |given: bool, loads: &[&str]| given && !load.is_some_and(|load| loads.contains(&load));
        let runs = ["constructed", "changing", "realistic", "dma", "buslock"];
        let load_cpus = self.load_cpus.is_some() && self.command.is_none();
        refuse(
            "that is an option of another background load",
            &[
                ("--polluter", unless(self.polluter.is_some(), &["constructed"])),
                ("--changing", unless(self.changing.is_some(), &["changing"])),
                ("--transfer", unless(self.transfer.is_some(), &["dma"])),
                ("--split-locks", unless(self.split_locks, &["buslock"])),
                ("--load-cpus", unless(load_cpus, &runs)),
            ],
        )
    }

    /// Says so where a load of the preset's is not measured.
    #[expect(clippy::print_stderr, reason = "what is not done is said before anything is done")]
    pub(super) fn say_what_is_left_out(&self, preset: Preset) {
        let given = self.load.is_some() || self.command.is_some();
        if preset.has_realistic() && !given {
            eprintln!(
                "corehop: the load `realistic` of the preset {preset} is left out: it needs a command, \
                 for instance {EXAMPLE_COMMAND}"
            );
        }
    }
}
