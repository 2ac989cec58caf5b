// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of this process's privileges: real-time scheduling, locked memory, tracing.

use corehop_plan::shown;
use corehop_plan::units::Bytes;

use super::host::PreflightHost;
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "procfs",
        why: "The supervisor, which undoes every change if a run dies, identifies processes by /proc; without /proc corehop changes no setting.",
        check: procfs,
    },
    Concern {
        id: "real-time",
        why: "Under SCHED_OTHER any other thread can preempt the measured job in the middle of a touch: more samples are disturbed, and few long touches stay undisturbed.",
        check: real_time,
    },
    Concern {
        id: "memory-lock",
        why: "The kernel can reclaim unlocked memory between the warm and the resumed touch, and the page fault then counts as the cost of a preemption.",
        check: memory_lock,
    },
    Concern {
        id: "tracing",
        why: "Tracing programs in the kernel identify the interrupt, switch or theft that disturbed a \
              sample; without them a disturbance is detected but not explained.",
        check: tracing,
    },
];

/// Capabilities by their number (linux/capability.h).
#[derive(Clone, Copy)]
pub(super) enum Capability {
    IpcLock = 14,
    SysAdmin = 21,
    SysNice = 23,
    Perfmon = 38,
    Bpf = 39,
}

/// Whether the process has an effective capability; a capability inside the process's own user
/// namespace does not count.
pub(super) fn has(host: &PreflightHost, capability: Capability) -> bool {
    let all_users = |map: String| map.split_whitespace().nth(2) == Some("4294967295");
    let whole = host.text("proc/self/uid_map").is_none_or(all_users);
    let effective = host.line("proc/self/status", "CapEff");
    let mask = effective.and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0);
    whole && mask >> capability as u32 & 1 == 1
}

/// Whether tracing is allowed: by the two capabilities made for it, or by the older capability.
pub(super) fn may_trace(host: &PreflightHost) -> bool {
    has(host, Capability::SysAdmin) || has(host, Capability::Bpf) && has(host, Capability::Perfmon)
}

/// The soft limit of that name in `/proc/self/limits`; `u64::MAX` for no limit.
fn limit(host: &PreflightHost, name: &str) -> Option<u64> {
    let text = host.text("proc/self/limits")?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The group of users who may run an executable with its own privileges.
const GROUP: &str = "corehop";

/// Adds to a finding how the privileges can be given.
fn with_rights(host: &PreflightHost, verdict: CheckFinding) -> CheckFinding {
    if host.line("proc/self/status", "NoNewPrivs").as_deref() == Some("1") {
        return verdict.remark(
            "A process inside cannot gain these rights (no_new_privs is set, as in many containers): start the container with the rights, for example docker run --cap-add SYS_NICE --cap-add IPC_LOCK --cap-add BPF --cap-add PERFMON.",
        );
    }
    let program = host.probes.program.as_ref().map(|path| shown::path(path));
    let program = program.unwrap_or_else(|| "\"$(command -v corehop)\"".to_owned());
    let rights = "cap_sys_nice,cap_ipc_lock,cap_bpf,cap_perfmon+ep";
    let sudo = host.sudo();
    // Another group clears capabilities, so they come last.
    verdict.command(format!(
        "{sudo}groupadd -f {GROUP} && {sudo}chgrp {GROUP} {program} && {sudo}chmod 0750 {program} && \
         {sudo}setcap {rights} {program}"
    ))
    .remark(format!(
        "Members of the group {GROUP} can then use these rights (usermod -aG {GROUP} NAME); see SECURITY.md."
    ))
}

fn procfs(host: &PreflightHost) -> Option<CheckFinding> {
    if !host.names("proc").is_empty() {
        return Some(CheckFinding::ok("/proc is mounted"));
    }
    let mount = format!("{}mount -t proc proc /proc", host.sudo());
    Some(CheckFinding::obstacle("/proc is not mounted").command(mount))
}

fn real_time(host: &PreflightHost) -> Option<CheckFinding> {
    let right = if has(host, Capability::SysNice) {
        Some("CAP_SYS_NICE")
    } else if limit(host, "Max realtime priority").is_some_and(|limit| limit > 0) {
        Some("RLIMIT_RTPRIO")
    } else {
        None
    };
    match (host.probes.real_time, right) {
        (Some(Ok(())), _) => Some(CheckFinding::ok("SCHED_FIFO is allowed")),
        (None, Some(right)) => Some(CheckFinding::ok(format!("SCHED_FIFO is allowed by {right}"))),
        (Some(Err(error)), Some(right)) => {
            let error = std::io::Error::from_raw_os_error(error);
            let found = format!("SCHED_FIFO is denied in spite of {right} ({error})");
            Some(CheckFinding::warning(found).remark(
                "A seccomp profile may deny SCHED_FIFO, or a control group without a real-time budget (see rt-group): try outside the container or group.",
            ))
        }
        (Some(Err(_)), None) => {
            let found = "SCHED_FIFO is not allowed: this process has neither CAP_SYS_NICE nor RLIMIT_RTPRIO";
            Some(with_rights(host, CheckFinding::warning(found)))
        }
        (None, None) => {
            host.line("proc/self/status", "CapEff")?;
            let found = "neither CAP_SYS_NICE nor RLIMIT_RTPRIO allows SCHED_FIFO";
            Some(with_rights(host, CheckFinding::warning(found)))
        }
    }
}

/// The locked memory that suffices for all presets: 32 MiB for the largest working set, and 32 MiB for everything else.
const ENOUGH_LOCKED: u64 = 64 << 20;

fn memory_lock(host: &PreflightHost) -> Option<CheckFinding> {
    if has(host, Capability::IpcLock) {
        return Some(CheckFinding::ok("any memory may be locked (CAP_IPC_LOCK)"));
    }
    let limit = limit(host, "Max locked memory")?;
    if limit >= ENOUGH_LOCKED {
        return Some(CheckFinding::ok("enough memory may be locked (RLIMIT_MEMLOCK)"));
    }
    let found = format!("only {} may be locked", Bytes::new(limit));
    // Without swap a page can still be moved, but not taken away.
    let verdict = if super::memory::swaps(host) {
        CheckFinding::warning(found)
    } else {
        CheckFinding::note(found)
    };
    Some(with_rights(host, verdict))
}

fn tracing(host: &PreflightHost) -> Option<CheckFinding> {
    let types = "sys/kernel/btf";
    host.line("proc/self/status", "CapEff")?;
    if !may_trace(host) {
        let found = "tracing programs cannot run: this process has neither CAP_BPF with CAP_PERFMON nor CAP_SYS_ADMIN";
        return Some(with_rights(host, CheckFinding::note(found)));
    }
    if !host.names(types).iter().any(|name| name == "vmlinux") {
        return Some(
            CheckFinding::note(
                "tracing programs cannot run, because the kernel has no type information",
            )
            .remark("Only a kernel with CONFIG_DEBUG_INFO_BTF=y helps."),
        );
    }
    Some(CheckFinding::ok("tracing programs are allowed, and the kernel describes its types (BTF)"))
}
