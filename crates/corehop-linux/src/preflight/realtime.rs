// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the kernel's limits on real-time threads: throttling, the fair server, group budgets,
//! and the kernel's preemption model.

use std::path::PathBuf;

use corehop_plan::units::Nanos;

use super::cgroup::groups;
use super::host::{PreflightHost, chosen, percent};
use super::{CheckFinding, Concern};

pub(super) const CONCERNS: &[Concern] = &[
    Concern {
        id: "rt-throttling",
        why: "If a real-time thread has used its share of a period, the kernel stops the thread until the period ends: a stop within a touch looks like a giant outlier, but without throttling nothing ends a runaway thread.",
        check: throttling,
    },
    Concern {
        id: "fair-server",
        why: "While ordinary threads wait behind a real-time thread, the kernel gives the ordinary threads a share of the CPU, and preempts a long touch for them.",
        check: fair_server,
    },
    Concern {
        id: "rt-group",
        why: "In a control group without a real-time budget the kernel denies SCHED_FIFO, even to root.",
        check: group_budget,
    },
    Concern {
        id: "preemption-model",
        why: "If the kernel is not preemptible, a job resumes late, which affects preemption lengths and wake-up times but not touches.",
        check: preemption_model,
    },
];

/// The duty budget that the live machine enforces itself: half of any 100 ms.
const DUTY: f64 = 0.5;

fn throttling(host: &PreflightHost) -> Option<CheckFinding> {
    let runtime: i64 = host.value("proc/sys/kernel/sched_rt_runtime_us")?;
    let period: i32 = host.value("proc/sys/kernel/sched_rt_period_us")?;
    let period = i64::from(period).max(1);
    let usual = host.sysctl("kernel.sched_rt_runtime_us", period / 20 * 19);
    if runtime < 0 {
        let found = "the kernel does not throttle real-time threads, so a runaway thread would keep its CPU";
        return Some(CheckFinding::warning(found).command(usual));
    }
    let (part, whole) = (runtime as f64, period as f64);
    let span = Nanos::from_micros(period as u64);
    let found = format!("real-time threads may use {} % of each {span}", percent(part, whole));
    if part < DUTY * whole {
        let found = format!("{found}, less than the 50 % that a measurement needs");
        return Some(CheckFinding::warning(found).command(usual));
    }
    if runtime >= period && fair_share(host).is_none_or(|share| share == 0.0) {
        let found = format!(
            "{found}, and corehop sees no fair server that would interrupt a runaway thread"
        );
        return Some(CheckFinding::note(found).command(usual));
    }
    Some(CheckFinding::ok(found))
}

/// The largest share of a CPU that is reserved for ordinary work, from debugfs.
fn fair_share(host: &PreflightHost) -> Option<f64> {
    let folder = "sys/kernel/debug/sched/fair_server";
    let share = |cpu: u32| {
        let runtime: f64 = host.value(format!("{folder}/cpu{cpu}/runtime"))?;
        let period: f64 = host.value(format!("{folder}/cpu{cpu}/period"))?;
        (period > 0.0).then(|| runtime / period)
    };
    host.numbered(folder, "cpu").into_iter().filter_map(share).reduce(f64::max)
}

fn fair_server(host: &PreflightHost) -> Option<CheckFinding> {
    let share = fair_share(host)?;
    let found =
        format!("the fair server reserves {} % of a CPU for ordinary threads", percent(share, 1.0));
    if share <= 1.0 - DUTY {
        return Some(CheckFinding::ok(found));
    }
    let usual = "for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 50000000";
    let command = format!("{usual} | {}tee $f; done", host.sudo());
    Some(
        CheckFinding::warning(format!("{found}, which leaves a measurement too little"))
            .command(command),
    )
}

fn group_budget(host: &PreflightHost) -> Option<CheckFinding> {
    let budget = |group: PathBuf| {
        let file = group.join("cpu.rt_runtime_us");
        Some((host.value::<i64>(&file)?, file))
    };
    let (budget, file) = groups(host, "cpu").into_iter().find_map(budget)?;
    if budget != 0 {
        return Some(CheckFinding::ok("the control group has a real-time budget"));
    }
    let found = "the control group of this process has no real-time budget";
    let command = host.write_below(500_000, &file);
    Some(CheckFinding::warning(found).command(command).remark(
        "The parent groups need the same budget first; or start corehop from the root group.",
    ))
}

fn preemption_model(host: &PreflightHost) -> Option<CheckFinding> {
    let version = host.text("proc/version")?;
    if host.text("sys/kernel/realtime").as_deref() == Some("1") || version.contains("PREEMPT_RT") {
        return Some(CheckFinding::ok("the kernel is fully preemptible (PREEMPT_RT)"));
    }
    let now = host.text("sys/kernel/debug/sched/preempt");
    let now = now.map(|text| text.split(['(', ')']).nth(1).unwrap_or_else(|| chosen(&text)).into());
    let model = match now.or_else(|| host.boot_parameter("preempt")) {
        Some(word) => format!("PREEMPT_DYNAMIC, set to {word}"),
        None if version.contains("PREEMPT_DYNAMIC") => "PREEMPT_DYNAMIC".to_owned(),
        None if version.contains("PREEMPT") => "PREEMPT".to_owned(),
        None => "not preemptible".to_owned(),
    };
    Some(CheckFinding::note(format!("the kernel is not PREEMPT_RT (it is {model})")).remark(
        "No command helps: full preemption needs another kernel. The cost of touches does not depend on full preemption.",
    ))
}
