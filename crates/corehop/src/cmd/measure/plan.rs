// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure plan`: runs a plan of any kind unchanged.

use std::path::{Path, PathBuf};

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::Plan;
use corehop_plan::shown;

use super::partitioning::SetSamplingOptions;
use super::to::{Resume, To};
use super::{on, outline};
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Run a plan from a file, unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the plan from this file, in the format of `--dry-run --json` and `corehop report contents --plan` (`-`:
    /// stdin)
    #[arg(value_name = "FILE")]
    plan: PathBuf,
    /// Never use the real-time policy SCHED_FIFO
    #[arg(long)]
    no_real_time: bool,
    /// Allow changes that affect the whole machine for seconds. With cgroup v1, clusters and partitions of CPUs
    /// switch off the load balancing of the machine
    #[arg(long)]
    allow_system: bool,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    again: Resume,
    #[command(flatten)]
    sampled: SetSamplingOptions,
}

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = self.to.platform()?;
        let plan = read(&self.plan)?;
        plan.check(&platform)?;
        plan.check_not_empty()?;
        if self.again.resume {
            plan.check_resumable().map_err(|error| Failure::new(Exit::Usage, error))?;
        }
        if self.to.out.dry_run {
            on::partitioning(
                &self.to.on,
                &platform,
                &self.to.partitioning,
                self.sampled.sampling(),
            )?;
            return outline::of_plan(&plan, &platform, self.to.out.json);
        }
        let options = LiveMachineOptions {
            no_real_time: refused(self.no_real_time),
            allow_system: self.allow_system,
            output_to_stderr: self.to.out.wants_stdout(),
        };
        let partitioning = (&self.to.partitioning, self.sampled.sampling());
        let mut machine = on::machine(&self.to.on, platform, options, partitioning)?;
        let answer = self.to.to_run(self.again.resume)?.plan(machine.as_mut(), &plan)?;
        self.to.out.tell(&answer)
    }
}

/// The reason for which the measured thread must not be real-time, if `no_real_time` is set.
pub(super) fn refused(no_real_time: bool) -> Option<String> {
    no_real_time.then(|| "--no-real-time was given".to_owned())
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let named =
        |failure: Failure| failure.context(format!("reading the plan {}", shown::path(path)));
    let text = input::text(path).map_err(named)?;
    Plan::from_json(&text).map_err(|error| named(error.into()))
}
