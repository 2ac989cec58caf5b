// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of other activity: load, busy processes, stolen time, and limits of the cgroup.

use std::path::{Path, PathBuf};

use corehop_plan::units::Bytes;

use super::cgroup::groups;
use super::host::{KTHREADD, PreflightHost, ProcessStat, percent};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "load",
        why: "Other processes evict cache lines and preempt the job: `idle` in a result then means only that the measurement added no load.",
        check: load,
    },
    Concern {
        id: "busy-processes",
        why: "A busy process shares the last-level cache and the memory with the measured job \
              on any CPU, and may share the job's CPU.",
        check: busy_processes,
    },
    Concern {
        id: "steal",
        why: "While the hypervisor runs other guests, time passes within a sample without any event inside this guest.",
        check: steal,
    },
    Concern {
        id: "cpu-quota",
        why: "If a control group has used its CPU quota, the kernel stops the group until the period ends, which looks like a long preemption.",
        check: cpu_quota,
    },
    Concern {
        id: "memory",
        why: "Working sets and polluters have to fit into free memory; otherwise the kernel reclaims pages in the middle of a run.",
        check: memory,
    },
];

fn load(host: &PreflightHost) -> Option<CheckFinding> {
    let text = host.text("proc/loadavg")?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cpus = host.platform.online().len().max(1);
    let noun = if cpus == 1 { "CPU" } else { "CPUs" };
    let found = format!("over the last minute {load:.2} threads ran or waited, on {cpus} {noun}");
    let who = "top -b -n 1 -o %CPU | head -20";
    let per_cpu = load / cpus as f64;
    Some(if per_cpu >= 0.25 {
        CheckFinding::warning(found)
            .command(who)
            .remark("This command lists the processes; stop as many as you can.")
    } else if per_cpu >= 0.05 {
        CheckFinding::note(found).command(who)
    } else {
        CheckFinding::ok(found)
    })
}

/// The number of ticks of `/proc/PID/stat` per second: USER_HZ, which is 100 on every relevant
/// architecture.
const TICKS: f64 = 100.0;
/// The share of a CPU above which a process counts as busy.
const BUSY: f64 = 0.1;

/// A process and its share of a CPU since its start.
struct CpuShare<'a> {
    process: &'a ProcessStat,
    share: f64,
}

fn busy_processes(host: &PreflightHost) -> Option<CheckFinding> {
    let uptime = host.text("proc/uptime")?;
    let now = uptime.split_whitespace().next()?.parse::<f64>().ok()? * TICKS;
    let own = host.own_process().map(|process| process.pid);
    let shares = host.processes().iter().map(|process| {
        let age = (now - process.start as f64).max(1.0);
        CpuShare { process, share: process.ticks as f64 / age }
    });
    let mut busy: Vec<_> = shares
        .filter(|share| share.process.pid != KTHREADD && share.process.parent != KTHREADD)
        .filter(|share| Some(share.process.pid) != own)
        .filter(|share| share.process.state == 'R' || share.share >= BUSY)
        .collect();
    busy.sort_by(|a, b| b.share.total_cmp(&a.share));
    let Some(busiest) = busy.first() else {
        return Some(CheckFinding::ok("no process is busy"));
    };
    let named: Vec<_> = busy.iter().take(3).map(CpuShare::in_words).collect();
    let more = busy.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let found = format!("other busy processes: {}{more}", named.join(", "));
    let (aside, pid) = (host.housekeeping(), busiest.process.pid);
    if host.platform.online().len() < 2 {
        return Some(
            CheckFinding::warning(found)
                .remark("Stop these processes: no other CPU is available for them."),
        );
    }
    let command = format!("{}taskset -apc {} {pid}", host.sudo(), aside.0);
    let remark = "This command moves the busiest process to one CPU; measure on other CPUs (--cpus), or stop the process.";
    Some(CheckFinding::warning(found).command(command).remark(remark))
}

impl CpuShare<'_> {
    fn in_words(&self) -> String {
        let ProcessStat { name, pid, .. } = self.process;
        if self.share >= BUSY {
            format!("{name} (process {pid}, {} % of a CPU)", percent(self.share, 1.0))
        } else {
            format!("{name} (process {pid}, running now)")
        }
    }
}

fn steal(host: &PreflightHost) -> Option<CheckFinding> {
    let text = host.text("proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> =
        line.split_whitespace().map_while(|field| field.parse().ok()).take(8).collect();
    let stolen = *ticks.get(7)?;
    let all = ticks.iter().sum::<f64>().max(1.0);
    if stolen == 0.0 {
        return Some(CheckFinding::ok("the hypervisor has stolen no time since boot"));
    }
    let found =
        format!("the hypervisor has stolen {} % of the CPU time since boot", percent(stolen, all));
    let verdict = if stolen >= 0.001 * all { CheckFinding::warning } else { CheckFinding::note };
    Some(verdict(found).remark(
        "Nothing can be done inside the guest: use a dedicated machine, or measure when the host is quiet.",
    ))
}

/// A limit on CPU time, in CPUs, and the file that sets it.
fn quota(host: &PreflightHost, group: &Path) -> Option<(f64, PathBuf, &'static str)> {
    let second = group.join("cpu.max");
    if let Some(text) = host.text(&second) {
        let (quota, period) = text.split_once(' ')?;
        let cpus = quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?;
        return Some((cpus, second, "max"));
    }
    let first = group.join("cpu.cfs_quota_us");
    let quota = host.value::<f64>(&first).filter(|&quota| quota > 0.0)?;
    let period = host.value::<f64>(group.join("cpu.cfs_period_us"))?;
    Some((quota / period, first, "-1"))
}

fn cpu_quota(host: &PreflightHost) -> Option<CheckFinding> {
    host.text("proc/self/cgroup")?;
    let quotas = groups(host, "cpu").into_iter().filter_map(|group| quota(host, &group));
    let Some((cpus, file, lift)) = quotas.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Some(CheckFinding::ok("no quota limits the CPU time of this process"));
    };
    let found = format!(
        "the control group of this process may use {cpus:.2} CPUs, and the kernel stops the group beyond this quota"
    );
    let command = host.write_below(lift, &file);
    Some(CheckFinding::warning(found).command(command).remark(
        "In a container this file is read-only: start the container without a limit (docker run without --cpus).",
    ))
}

/// Below this much memory, working sets beyond a few MiB do not fit beside the program.
const LITTLE: u64 = 256 << 20;
/// Below this much memory, not even the smallest run fits.
const TOO_LITTLE: u64 = 48 << 20;

fn memory(host: &PreflightHost) -> Option<CheckFinding> {
    let line = host.line("proc/meminfo", "MemAvailable")?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    let free = Bytes::from_kib(kib);
    let free = group_memory(host).map_or(free, |group| group.min(free));
    let found = format!("{} MiB of memory are available", free.get() >> 20);
    let advice = "Free some memory, raise the group's limit, or choose small working sets (--wss).";
    Some(match free.get() {
        0..TOO_LITTLE => CheckFinding::obstacle(found).remark(advice),
        TOO_LITTLE..LITTLE => CheckFinding::warning(found).remark(advice),
        _ => CheckFinding::ok(found),
    })
}

/// The memory that the most restrictive of the process's groups leaves.
fn group_memory(host: &PreflightHost) -> Option<Bytes> {
    let left = |group: PathBuf| {
        let value = |file: &str| host.value::<u64>(group.join(file));
        let limit = value("memory.max").or_else(|| value("memory.limit_in_bytes"))?;
        let used = value("memory.current").or_else(|| value("memory.usage_in_bytes"))?;
        Some(Bytes::new(limit.saturating_sub(used)))
    };
    groups(host, "memory").into_iter().filter_map(left).min()
}
