// SPDX-License-Identifier: MIT OR Apache-2.0
//! The finding about the cost of wake-ups, which is measured by hand-overs between threads of corehop.

use corehop_plan::finding::{Finding, Severity};
use corehop_plan::host::wakes::IdleWait;
use corehop_plan::platform::Platform;

use super::host::PreflightHost;
use super::{CheckFinding, Probes, idle};
use corehop_system::discover::SysRoot;

pub(super) const ID: &str = "wake-up";
pub(super) const WHY: &str = "A thread that wakes another thread on an idle CPU pays for an interrupt and for the idle-state exit: if both are expensive, one setting may help all programs more than moving a few threads.";

/// Returns the doctor's finding about wake-ups: the measured costs, the command of the setting that is expected to
/// help, if there is one, and the reasons.
pub fn wake_up(
    severity: Severity,
    found: String,
    command: Option<String>,
    remark: String,
) -> Finding {
    let verdict = CheckFinding { command, ..CheckFinding::new(severity, found).remark(remark) };
    super::finding(ID, WHY, verdict)
}

/// Returns how an idle CPU of the host below `root` waits, and the setting that would make wake-ups cheaper. Returns
/// `None` if the host's files do not show how its CPUs wait.
pub fn idle_wait(root: &SysRoot, platform: &Platform) -> Option<IdleWait> {
    let probes = if root.is_live() { Probes::ask() } else { Probes::default() };
    idle::wait(&PreflightHost::new(root, platform, &probes))
}
