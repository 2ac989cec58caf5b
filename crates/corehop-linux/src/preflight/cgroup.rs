// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that this process is in.

use std::path::PathBuf;

use corehop_core::units::Nanos;

use super::host::Host;
use super::{Concern, Verdict};
use crate::limits::{folders, of_groups};

/// The text that names the groups of this process.
const OWN: &str = "proc/self/cgroup";

pub(super) const CONCERNS: &[Concern] = &[Concern {
    id: "cpu-quota",
    why: "A control group that has used its CPU time is stopped until the period ends: what runs in the group is away for \
          milliseconds that no other thread causes.",
    check: quota,
}];

/// The directory of the process's group for `controller`, and those of the groups above it,
/// innermost first.
pub(super) fn groups(host: &Host, controller: &str) -> Vec<PathBuf> {
    folders(&host.bytes(OWN).unwrap_or_default(), controller)
}

/// The tightest quota of the groups of this process.
fn quota(host: &Host) -> Option<Verdict> {
    let limits = of_groups(host.root(), &host.bytes(OWN)?);
    let share = |runtime: u64, period: u64| runtime as f64 / period.max(1) as f64;
    let quotas = limits.iter().filter(|it| !it.realtime);
    let tightest = quotas.min_by(|x, y| {
        share(x.runtime_us, x.period_us).total_cmp(&share(y.runtime_us, y.period_us))
    });
    let Some(it) = tightest else {
        return Some(Verdict::ok("no control group of this process has a CPU quota"));
    };
    let us = |us: u64| Nanos::from_micros(us);
    let found = format!(
        "a control group of this process may use {} of CPU time in each {} (/{})",
        us(it.runtime_us),
        us(it.period_us),
        it.file
    );
    let none = if it.file.ends_with("cpu.max") { "max" } else { "-1" };
    let command = host.write(none, &format!("/{}", it.file));
    let cpus = host.platform.usable().len() as f64;
    let verdict = if share(it.runtime_us, it.period_us) < cpus {
        Verdict::warning(found)
    } else {
        Verdict::note(format!("{found}: as much as all CPUs have"))
    };
    Some(verdict.command(command))
}
