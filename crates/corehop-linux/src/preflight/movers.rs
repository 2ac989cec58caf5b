// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for other software that moves threads: the kernel's cache-aware balancing, a loaded
//! scheduler, numad.

use super::host::PreflightHost;
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "cache-aware-balancing",
        why: "From Linux 7.2 on, the kernel itself moves the threads of a process below one cache, while corehop measures or places them.",
        check: cache_aware_balancing,
    },
    Concern {
        id: "sched-ext",
        why: "A loaded scheduler replaces the kernel's own, so its program causes all preemptions, migrations and placements.",
        check: sched_ext,
    },
    Concern {
        id: "numad",
        why: "numad binds processes to nodes, and may change the binding while corehop measures or places the processes.",
        check: numad,
    },
];

const LLC_BALANCING: &str = "sys/kernel/debug/sched/llc_balancing/enabled";

fn cache_aware_balancing(host: &PreflightHost) -> Option<CheckFinding> {
    let is_on = host.text(LLC_BALANCING).is_some_and(|it| matches!(it.as_str(), "1" | "Y"));
    if !is_on {
        return Some(CheckFinding::ok("the kernel does not gather threads below a cache"));
    }
    let found = "the kernel gathers the threads of each process below one cache";
    Some(CheckFinding::note(found).command(host.write(0, &format!("/{LLC_BALANCING}"))))
}

fn sched_ext(host: &PreflightHost) -> Option<CheckFinding> {
    let state = host.text("sys/kernel/sched_ext/state");
    if state.as_deref() != Some("enabled") {
        return Some(CheckFinding::ok("the kernel's own scheduler decides"));
    }
    let name =
        host.text("sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "without a name".to_owned());
    let found = format!("the scheduler `{name}` is loaded");
    Some(
        CheckFinding::note(found)
            .remark("Stop the scheduler's program to return to the kernel's own scheduler."),
    )
}

fn numad(host: &PreflightHost) -> Option<CheckFinding> {
    let Some(numad) = host.processes().iter().find(|it| it.name == "numad") else {
        return Some(CheckFinding::ok("numad does not run"));
    };
    let found = format!("numad runs (process {})", numad.pid);
    Some(CheckFinding::warning(found).command(format!("{}systemctl stop numad", host.sudo())))
}
