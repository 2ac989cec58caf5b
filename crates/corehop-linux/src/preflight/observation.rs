// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether runs can be observed.

use super::host::{PreflightHost, chosen};
use super::rights::{Capability, has, may_trace};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "rseq",
        why: "Restartable sequences detect a context switch during a touch at no cost; without them only a gap in time shows the switch.",
        check: rseq,
    },
    Concern {
        id: "hardware-counters",
        why: "If the processor counts cache misses, the number of misses times the service time of a cache level gives a second, independent estimate of the cost.",
        check: hardware_counters,
    },
    Concern {
        id: "perf-events",
        why: "If `kernel.perf_event_paranoid` is high, the kernel denies ordinary users all counters, even for their own processes.",
        check: perf_events,
    },
    Concern {
        id: "lockdown",
        why: "A locked-down kernel does not let even root read its memory and the processor's registers, so corehop has no tracing programs and no counts of system-management interrupts.",
        check: lockdown,
    },
];

fn rseq(host: &PreflightHost) -> Option<CheckFinding> {
    match host.probes.rseq? {
        Ok(()) => Some(CheckFinding::ok("restartable sequences are available (rseq)")),
        Err(error) => {
            let error = std::io::Error::from_raw_os_error(error);
            Some(CheckFinding::warning(format!("no restartable sequences ({error})")).remark(
                "No command helps: restartable sequences need Linux 4.18 with CONFIG_RSEQ=y, and in a container a seccomp profile that allows rseq(2).",
            ))
        }
    }
}

fn hardware_counters(host: &PreflightHost) -> Option<CheckFinding> {
    let devices = host.names("sys/bus/event_source/devices");
    let is_core = |name: &String| name.starts_with("cpu") || name.starts_with("armv8");
    let answer = host.probes.hardware_counters.or_else(|| {
        let present = !devices.is_empty();
        present.then(|| if devices.iter().any(is_core) { Ok(()) } else { Err(libc::ENOENT) })
    })?;
    Some(match answer {
        Ok(()) => CheckFinding::ok("hardware counters are available"),
        Err(libc::EACCES | libc::EPERM) => CheckFinding::note("hardware counters are denied")
            .command(host.sysctl("kernel.perf_event_paranoid", 2))
            .remark("In a container a seccomp profile may deny hardware counters."),
        Err(_) => CheckFinding::note("there are no hardware counters").remark(if host.is_guest() {
            "Nothing can be done inside the guest: the host has to expose the counters."
        } else {
            "No command helps: the kernel has no driver for this processor's counters, or the firmware uses them."
        }),
    })
}

/// The highest value of the kernel setting at which users may count events in their own processes.
const OWN_PROCESS: i32 = 2;

fn perf_events(host: &PreflightHost) -> Option<CheckFinding> {
    let level: i32 = host.value("proc/sys/kernel/perf_event_paranoid")?;
    let found = format!("perf_event_paranoid is {level}");
    if level <= OWN_PROCESS || has(host, Capability::Perfmon) || has(host, Capability::SysAdmin) {
        return Some(CheckFinding::ok(found));
    }
    let command = host.sysctl("kernel.perf_event_paranoid", OWN_PROCESS);
    Some(CheckFinding::note(format!("{found}: no counters for ordinary users")).command(command))
}

fn lockdown(host: &PreflightHost) -> Option<CheckFinding> {
    let Some(text) = host.text("sys/kernel/security/lockdown") else {
        // Without securityfs nothing locks it down, as far as can be seen.
        return host.text("proc/version").map(|_| CheckFinding::ok("no kernel lockdown found"));
    };
    let level = chosen(&text);
    if level == "none" {
        return Some(CheckFinding::ok("the kernel is not locked down"));
    }
    let found = format!("the kernel is locked down ({level})");
    let lost =
        if level == "confidentiality" && may_trace(host) { ": no tracing programs" } else { "" };
    Some(
        CheckFinding::note(format!("{found}{lost}"))
            .remark("Restart without lockdown= (or without Secure Boot) to remove the lockdown."),
    )
}
