// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that mean nothing where they are given.

use corehop_core::experiment::Length;
use corehop_core::units::CpuList;

use super::{Args, ExperimentName};
use crate::exit::{Exit, Failure, refuse};

impl Args {
    /// A run that is to take nothing is a slip.
    pub(super) fn refuse_empty_goals(&self) -> Result<(), Failure> {
        let empty = match (self.samples, self.budget) {
            (Some(0), _) => "--samples 0 takes no sample: leave it out for the preset's number",
            (_, Some(time)) if time.get() == 0 => {
                "--budget 0 leaves no time for a sample: leave it out"
            }
            _ if self.replicates == Some(0) => {
                "--replicates 0 measures nothing: ask for 6 or more, or leave it out for the usual number"
            }
            _ if self.cpus.as_ref().is_some_and(CpuList::is_empty) => {
                "--cpus names no CPU: leave it out, or write for instance --cpus 0,1"
            }
            _ => return Ok(()),
        };
        Err(Failure::says(Exit::Usage, empty))
    }

    /// A plan from a file is run as it stands: what would change it is refused.
    pub(super) fn refuse_beside_a_plan(&self) -> Result<(), Failure> {
        let why = "--plan runs a plan as it stands";
        refuse(
            why,
            &[
                ("--samples", self.samples.is_some()),
                ("--precision", self.precision.is_some()),
                ("--replicates", self.replicates.is_some()),
                ("--load", self.load.is_some()),
                ("--command", self.command.is_some()),
            ],
        )?;
        refuse(why, &self.of_working_sets())?;
        refuse(
            why,
            &[
                ("--event", !self.events.is_empty()),
                ("--length", self.length.is_some()),
                ("--preemptor", self.preemptor.is_some()),
                ("--preemptor-wss", !self.preemptor_wss.is_empty()),
                ("--mover", self.mover.is_some()),
                ("--cpus", self.cpus.is_some()),
            ],
        )
    }

    /// The options that describe working sets, and whether each was given.
    pub(super) fn of_working_sets(&self) -> [(&'static str, bool); 8] {
        [
            ("--wss", !self.wss.is_empty()),
            ("--write-ratio", !self.write_ratio.is_empty()),
            ("--pattern", self.pattern.is_some()),
            ("--page", self.page.is_some()),
            ("--chains", self.chains.is_some()),
            ("--node", self.node.is_some()),
            ("--fresh-frames", self.fresh_frames),
            ("--workload", self.workload.is_some()),
        ]
    }

    /// Options that an experiment, or a load, has no use for.
    pub(super) fn refuse_unused(&self) -> Result<(), Failure> {
        if self.experiment != Some(ExperimentName::SharedData) {
            refuse("that is an option of shared-data", &self.gangs.given())?;
        }
        let synthetic = matches!(self.experiment, None | Some(ExperimentName::Synthetic));
        if !synthetic {
            let given = ("--preemptor-wss", !self.preemptor_wss.is_empty());
            refuse("sizes of preemptors are an axis of synthetic", &[given])?;
        }
        if let Some(size) = self.preemptor_wss.iter().find(|size| size.get() < 4096) {
            let what =
                format!("--preemptor-wss {size}: a preemptor walks whole pages, 4 KiB at least");
            return Err(Failure::says(Exit::Usage, what));
        }
        let event = ("--event", !self.events.is_empty());
        let preemptor = ("--preemptor", self.preemptor.is_some());
        let mover = ("--mover", self.mover.is_some());
        let range = ("--length LOW..HIGH", !matches!(self.length, None | Some(Length::Fixed(_))));
        match self.experiment {
            Some(ExperimentName::AccessTime) => refuse(
                "access-time walks working sets without leaving the CPU",
                &[event, preemptor, mover, ("--length", self.length.is_some())],
            )?,
            Some(ExperimentName::PreemptionLength) => {
                let why = "preemption-length sleeps and touches nothing";
                refuse(why, &[event, preemptor, mover, range])?;
                refuse(why, &self.of_working_sets())?;
            }
            Some(ExperimentName::PolluterSweep) => {
                refuse(
                    "polluter-sweep goes through fixed lengths of preemptions",
                    &[event, mover, range],
                )?;
            }
            Some(ExperimentName::SharedData) => {
                let why = "shared-data runs programs of its own";
                refuse(why, &[event, preemptor, mover, ("--length", self.length.is_some())])?;
                refuse(
                    why,
                    &[
                        ("--load", self.load.is_some()),
                        ("--precision", self.precision.is_some()),
                        ("--replicates", self.replicates.is_some()),
                    ],
                )?;
                refuse(why, &self.of_working_sets())?;
            }
            Some(_) | None => {}
        }
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
}
