// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor: what a host allows, what would disturb a measurement on it, and how to fix that.

use std::fmt::Write as _;
use std::time::Duration;

use corehop_decide::wake_cost::WakeCost;
use corehop_plan::finding::{Finding, Severity};
use corehop_plan::host::wakes::{IdleWait, WakeBatches};
use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::{DistanceLevel, ExchangeSeries};
use corehop_plan::shown;
use corehop_report::wake_cost;
use corehop_stats::restless;
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::{self, Restored};
use serde_json::json;

use crate::answer::Answer;
use crate::failure::{Exit, Failure};
use crate::here::found;
use crate::layout::{Paint, TerminalLayout};
use crate::words::counted;

/// Examines a host; the caller provides the implementation.
pub trait HostExaminer {
    /// Returns the findings from the files below `root`, the most severe first.
    fn findings(&self, root: &SysRoot, platform: &Platform) -> Vec<Finding>;

    /// Measures line exchanges between CPUs, for the given time and at the given interval.
    ///
    /// # Errors
    /// Fails with exit code 6 if the host failed.
    fn watched(
        &self,
        platform: &Platform,
        long: Duration,
        every: Duration,
    ) -> Result<Vec<ExchangeSeries>, Failure>;

    /// Returns the finding about distances that were measured over this time.
    fn distance(&self, platform: &Platform, distances: &[DistanceLevel], long: Duration)
    -> Finding;

    /// Measures wake-ups for at most this time.
    fn wake_batches(&self, platform: &Platform, most: Duration) -> WakeBatches;

    /// Returns the way in which an idle CPU waits; `None` if the host does not show the way.
    fn idle_wait(&self, root: &SysRoot, platform: &Platform) -> Option<IdleWait>;

    /// Returns the finding about wake-ups: the measured costs, the command of the helpful setting, and the reasons.
    fn wake_up(
        &self,
        severity: Severity,
        found: String,
        command: Option<String>,
        remark: String,
    ) -> Finding;
}

/// Examines the host whose files are below `root`; on this host, also measures CPU distances for a second.
///
/// # Errors
/// Fails with exit code 3 for a host without CPUs to describe, and with exit code 6 if the host failed.
pub fn examine(
    root: &SysRoot,
    host: &dyn HostExaminer,
    layout: TerminalLayout,
) -> Result<Answer, Failure> {
    let platform = found(root)?;
    let mut findings = host.findings(root, &platform);
    if root.is_live() {
        findings.push(distance(host, &platform)?);
        findings.push(wake_up(host, root, &platform));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    let impossible = findings.iter().any(|finding| finding.severity == Severity::Obstacle);
    Ok(Answer {
        sentence: sentence(&findings, impossible),
        json: json!({
            "platform": platform.id,
            "possible": !impossible,
            "findings": findings,
        }),
        text: text(&platform, &findings, layout),
        exit: if impossible { Exit::NotPossible } else { Exit::Done },
    })
}

/// The time for which the doctor measures the distance of CPUs, and the interval of its samples.
const WATCH: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(20)];

/// The finding about the distance of CPUs, from a short measurement.
fn distance(host: &dyn HostExaminer, platform: &Platform) -> Result<Finding, Failure> {
    let [long, every] = WATCH;
    let watched = host.watched(platform, long, every)?;
    Ok(host.distance(platform, &restless::distances(platform, &watched), long))
}

/// The longest time for which the doctor measures wake-ups.
const WAKES: Duration = Duration::from_millis(500);

/// The finding about the cost of wake-ups with the reasons, and the setting that is expected to help all programs.
fn wake_up(host: &dyn HostExaminer, root: &SysRoot, platform: &Platform) -> Finding {
    let wait = host.idle_wait(root, platform);
    let cost = WakeCost::of(&host.wake_batches(platform, WAKES), wait);
    let unknown = cost.trouble.is_some() || (cost.cpus.is_some() && cost.idle.is_none());
    let is_open = cost.expected.is_some() || unknown;
    let severity = if is_open { Severity::Note } else { Severity::Ok };
    let (command, price) = wake_cost::remedy(&cost).unwrap_or_default();
    let cure = wake_cost::cure(&cost).unwrap_or_default();
    let parts = [wake_cost::reasons(&cost), cure, price, wake_cost::not_tried(&cost)];
    let remark = parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    host.wake_up(severity, wake_cost::costs(&cost), command, remark)
}

/// The groups of the listing, with their headings.
const GROUPS: [(Severity, Paint, &str); 4] = [
    (Severity::Obstacle, Paint::Red, "OBSTACLES make measuring impossible"),
    (Severity::Warning, Paint::Yellow, "WARNINGS spoil samples, or weaken conclusions"),
    (
        Severity::Note,
        Paint::Blue,
        "NOTES change the meaning of a number, or limit what can be measured",
    ),
    (Severity::Ok, Paint::Green, "AS IT SHOULD BE"),
];

fn text(platform: &Platform, findings: &[Finding], page: TerminalLayout) -> String {
    let mut text = format!("{}\n", page.paint(&platform.name, Paint::Bold));
    for (severity, paint, title) in GROUPS {
        let group: Vec<_> = findings.iter().filter(|one| one.severity == severity).collect();
        if group.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}", page.paint(title, paint));
        let close = severity == Severity::Ok;
        let each =
            |finding: &&Finding| if close { line(finding, page) } else { open(finding, page) };
        text.extend(group.iter().map(each));
    }
    text
}

/// Says whether measurements are possible on this host, and the number of findings.
fn sentence(findings: &[Finding], impossible: bool) -> String {
    let possible = if impossible {
        "cannot measure here until the obstacles are removed"
    } else {
        "can measure here"
    };
    format!("corehop {possible}: {}.", counts(findings))
}

/// The number of findings of each severity: "4 warnings, 11 notes, 21 as it should be".
fn counts(findings: &[Finding]) -> String {
    let of = |severity| findings.iter().filter(|one| one.severity == severity).count();
    let several = |count: usize, noun: &str| match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        _ => Some(format!("{count} {noun}s")),
    };
    let open = [
        several(of(Severity::Obstacle), "obstacle"),
        several(of(Severity::Warning), "warning"),
        several(of(Severity::Note), "note"),
    ];
    let fine = format!("{} as it should be", of(Severity::Ok));
    open.into_iter().flatten().chain([fine]).collect::<Vec<_>>().join(", ")
}

/// The number of columns for the names of findings that are as they should be.
const NAMES: usize = 26;

fn line(finding: &Finding, page: TerminalLayout) -> String {
    format!("  {:<24}{}\n", finding.id, page.wrap(&finding.found, NAMES))
}

/// The number of columns for the labels within a finding.
const LABELS: usize = 8;

fn open(finding: &Finding, page: TerminalLayout) -> String {
    let label = |name: &str| page.paint(&format!("  {name:<4}  "), Paint::Dim);
    let head = format!("{}: {}", finding.id, finding.found);
    let head = page.wrap(&head, 2).replacen(&finding.id, &page.paint(&finding.id, Paint::Bold), 1);
    let mut text = format!("\n  {head}\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}{}", label("why"), page.wrap(&finding.why, LABELS));
    if let Some(command) = &finding.remedy {
        // Whole, however long: it is there to be copied.
        let _ = writeln!(text, "{}{command}", label("type"));
    }
    if let Some(remark) = &finding.remark {
        let name = if finding.remedy.is_some() { "note" } else { "fix" };
        let _ = writeln!(text, "{}{}", label(name), page.wrap(remark, LABELS));
    }
    text
}

/// Reverts the changes listed in the journals of crashed runs. Returns the answer, and the journals that could not be
/// read as a failure with exit code 6.
pub fn restore() -> (Answer, Option<Failure>) {
    let mut restored = Vec::new();
    let mut unusable = None;
    for directory in supervisor::journal_directories() {
        match supervisor::restore(&directory) {
            Ok(journals) => restored.extend(journals),
            // The other directories may still be good.
            Err(error) => unusable = Some(error),
        }
    }
    let each = |one: &Restored| {
        let (journal, settled) = (shown::value(&one.journal), one.is_settled());
        json!({"journal": journal, "settled": settled, "what": one.to_string()})
    };
    let json = json!({"restored": restored.iter().map(each).collect::<Vec<_>>()});
    let text = restored.iter().flat_map(|one| [one.to_string(), "\n".to_owned()]).collect();
    let unsettled = restored.iter().filter(|one| !one.is_settled()).count() as u64;
    let found = counted(restored.len() as u64, "journal");
    let sentence = match (restored.len(), unsettled) {
        (0, _) => "No run has left a change behind.".to_owned(),
        (_, 0) => {
            format!("corehop undid the changes that killed runs left behind, as listed in {found}.")
        }
        _ => format!(
            "corehop could not undo the changes in {unsettled} of {found} that killed runs left behind."
        ),
    };
    let exit = if unsettled == 0 { Exit::Done } else { Exit::Failed };
    let failure = unusable.map(|error| Failure::new(Exit::Failed, error));
    (Answer { sentence, json, text, exit }, failure)
}
