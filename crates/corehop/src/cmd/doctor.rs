// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop doctor`

use std::path::PathBuf;
use std::time::Duration;

use corehop_app::doctor::{HostExaminer, examine, restore};
use corehop_app::failure::{Exit, Failure};
use corehop_linux::preflight;
use corehop_linux::probe::{wake_batches, watch};
use corehop_plan::finding::{Finding, Severity};
use corehop_plan::host::wakes::{IdleWait, WakeBatches};
use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::{DistanceLevel, ExchangeSeries};
use corehop_system::discover::SysRoot;

use crate::cmd::VerbOrMode;
use crate::output::{stdout_layout, told};

/// The arguments of `corehop doctor` and of its modes.
pub(crate) type Args = VerbOrMode<DoctorOptions, Mode>;

/// Check this host for obstacles to a measurement, and print how to remove the obstacles.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Check another host by a copy of its sys/ and proc/ in this folder.
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Undo the changes of a run that was killed together with its supervisor.
    Restore {
        /// Print the journals of changes as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => {
            let root = args.sysfs_root.as_ref().map_or_else(SysRoot::live, SysRoot::at);
            told(&examine(&root, &LiveExaminer, stdout_layout())?, args.json)
        }
        VerbOrMode::Mode(Mode::Restore { json }) => {
            let (answer, failure) = restore();
            let exit = told(&answer, *json)?;
            failure.map_or(Ok(exit), Err)
        }
    }
}

/// The examiner that checks this host.
struct LiveExaminer;

impl HostExaminer for LiveExaminer {
    fn findings(&self, root: &SysRoot, platform: &Platform) -> Vec<Finding> {
        preflight::doctor(root, platform)
    }

    fn watched(
        &self,
        platform: &Platform,
        long: Duration,
        every: Duration,
    ) -> Result<Vec<ExchangeSeries>, Failure> {
        let watched = watch(platform, long, every, &mut |_| {});
        watched.map_err(|error| Failure::new(Exit::Failed, error))
    }

    fn distance(
        &self,
        platform: &Platform,
        distances: &[DistanceLevel],
        long: Duration,
    ) -> Finding {
        preflight::distance(platform, distances, long)
    }

    fn wake_batches(&self, platform: &Platform, most: Duration) -> WakeBatches {
        wake_batches(platform, most)
    }

    fn idle_wait(&self, root: &SysRoot, platform: &Platform) -> Option<IdleWait> {
        preflight::idle_wait(root, platform)
    }

    fn wake_up(
        &self,
        severity: Severity,
        found: String,
        command: Option<String>,
        remark: String,
    ) -> Finding {
        preflight::wake_up(severity, found, command, remark)
    }
}
