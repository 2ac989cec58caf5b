// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of `corehop doctor`: what this host allows, and what would disturb a measurement on it.
//!
//! There is one small check per concern. A check reads files below one directory, so that a copy of another host's
//! files describes that host. A check also uses the results of a few system calls ([`Probes`]). A check returns what
//! it found and a command to type. The reason why the concern matters is the same on every host, and is stored beside
//! its name.
//!
//! The checks change nothing and do not wait: they take some milliseconds, so every run makes them. Only the verb
//! `doctor` measures the distance of the CPUs ([`distance()`]), which takes a second, and the cost of wake-ups
//! ([`wake_up()`]), which takes some tenths of a second.

#![expect(clippy::unnecessary_wraps, reason = "every check has the same type")]

use corehop_plan::finding::{Finding, Severity};
use corehop_plan::platform::Platform;

use corehop_system::discover::SysRoot;
use corehop_system::supervisor::all_leftovers;

mod cgroup;
mod distance;
mod frequency;
mod host;
mod idle;
mod isolation;
mod leftovers;
mod memory;
mod movers;
mod neighbours;
mod observation;
mod probe;
mod processor;
mod realtime;
mod rights;
mod wake_up;

pub use distance::distance;
use host::PreflightHost;
pub use probe::{ProbeResult, Probes};
pub use wake_up::{idle_wait, wake_up};

/// A property of a host that affects measurements.
struct Concern {
    /// The name of the concern.
    id: &'static str,
    /// The reason why the concern matters, in one sentence.
    why: &'static str,
    /// Checks a host for the concern. The function returns `None` if the host does not show the concern.
    check: fn(&PreflightHost) -> Option<CheckFinding>,
}

/// The result of a check.
struct CheckFinding {
    severity: Severity,
    found: String,
    command: Option<String>,
    remark: Option<String>,
}

impl CheckFinding {
    fn new(severity: Severity, found: impl Into<String>) -> Self {
        Self { severity, found: found.into(), command: None, remark: None }
    }
    fn ok(found: impl Into<String>) -> Self {
        Self::new(Severity::Ok, found)
    }
    fn note(found: impl Into<String>) -> Self {
        Self::new(Severity::Note, found)
    }
    fn warning(found: impl Into<String>) -> Self {
        Self::new(Severity::Warning, found)
    }
    fn obstacle(found: impl Into<String>) -> Self {
        Self::new(Severity::Obstacle, found)
    }
    /// Adds the command to type.
    fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }
    /// Adds a remark to the command; without a command, the remark stands alone.
    fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: Some(remark.into()), ..self }
    }
}

/// Every concern, in the order in which findings of one severity are listed.
fn concerns() -> impl Iterator<Item = &'static Concern> {
    let groups = [
        rights::CONCERNS,
        realtime::CONCERNS,
        processor::CONCERNS,
        neighbours::CONCERNS,
        isolation::CONCERNS,
        frequency::CONCERNS,
        memory::CONCERNS,
        movers::CONCERNS,
        observation::CONCERNS,
    ];
    groups.into_iter().flatten()
}

const NOT_TOLD: &str = "not-told";
const NOT_TOLD_WHY: &str =
    "A setting that corehop cannot read may be correct, or may spoil every sample.";

/// Returns every possible name of a finding, with the reason why it matters.
pub fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = [
        (distance::ID, distance::WHY),
        (wake_up::ID, wake_up::WHY),
        (leftovers::ID, leftovers::WHY),
        (NOT_TOLD, NOT_TOLD_WHY),
    ];
    concerns().map(|concern| (concern.id, concern.why)).chain(others)
}

/// Returns the findings on the host whose files are below `root`, the most severe first.
///
/// `platform` must describe that host. System calls are made only if `root` is this host.
pub fn doctor(root: &SysRoot, platform: &Platform) -> Vec<Finding> {
    let probes = if root.is_live() { Probes::ask() } else { Probes::default() };
    let mut findings = examine(root, platform, &probes);
    if root.is_live() {
        findings.extend(leftovers::of(&all_leftovers()));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    findings
}

/// Returns the findings about other software that moves threads.
pub fn movers(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    let is_one = |it: &&Finding| {
        let numa = it.id == memory::NUMA_BALANCING;
        it.severity > Severity::Ok
            && (numa || movers::CONCERNS.iter().any(|mover| mover.id == it.id))
    };
    findings.iter().filter(is_one)
}

/// Runs the checks of [`doctor`] with given results of the system calls.
pub fn examine(root: &SysRoot, platform: &Platform, probes: &Probes) -> Vec<Finding> {
    let host = PreflightHost::new(root, platform, probes);
    let mut findings = Vec::new();
    let mut silent = Vec::new();
    for concern in concerns() {
        match (concern.check)(&host) {
            Some(verdict) => findings.push(finding(concern.id, concern.why, verdict)),
            None => silent.push(concern.id),
        }
    }
    if !silent.is_empty() {
        findings.push(finding(NOT_TOLD, NOT_TOLD_WHY, not_told(&silent)));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Returns whether any finding makes measurements impossible.
pub fn is_impossible(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Obstacle)
}

fn not_told(silent: &[&str]) -> CheckFinding {
    CheckFinding::note(format!("this host does not report: {}", silent.join(", "))).remark(
        "The files are missing or not readable (no such hardware, a container, another user, or debugfs not mounted).",
    )
}

fn finding(id: &str, why: &str, verdict: CheckFinding) -> Finding {
    Finding {
        id: id.to_owned(),
        severity: verdict.severity,
        found: verdict.found,
        why: why.to_owned(),
        remedy: verdict.command,
        remark: verdict.remark,
    }
}

#[cfg(test)]
mod tests;
