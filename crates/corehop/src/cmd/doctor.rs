// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop doctor`

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use corehop_decide::wake_cost::WakeCost;
use corehop_linux::preflight;
use corehop_linux::probe::{wake_batches, watch};
use corehop_plan::finding::{Finding, Severity};
use corehop_plan::platform::Platform;
use corehop_plan::shown;
use corehop_report::wake_cost;
use corehop_stats::restless;
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::{self, Restored};
use serde_json::json;

use crate::cmd::VerbOrMode;
use crate::output::{Paint, TerminalLayout, counted, either, stdout_layout};
use corehop_app::failure::{Exit, Failure};
use corehop_app::here::found;

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<DoctorOptions, Mode>;

/// Check what this host allows, what would spoil a measurement, and how to fix it.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Check the host whose sys/ and proc/ were copied to this folder.
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Undo the changes of a run that was killed together with its supervisor.
    Restore {
        /// Print the journals as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(host) => check(host),
        VerbOrMode::Mode(Mode::Restore { json }) => restore(*json),
    }
}

fn check(args: &DoctorOptions) -> Result<Exit, Failure> {
    let root = args.sysfs_root.as_ref().map_or_else(SysRoot::live, SysRoot::at);
    let platform = found(&root)?;
    let mut findings = preflight::doctor(&root, &platform);
    if root.is_live() {
        findings.push(distance(&platform)?);
        findings.push(wake_up(&root, &platform));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    let impossible = preflight::is_impossible(&findings);
    let json = args.json.then(|| {
        json!({
            "platform": platform.id,
            "possible": !impossible,
            "findings": findings,
        })
    });
    let text = || text(&platform, &findings, stdout_layout());
    either(&sentence(&findings, impossible), json.as_ref(), text)?;
    Ok(if impossible { Exit::NotPossible } else { Exit::Done })
}

/// The time for which the doctor watches the distance of CPUs, and the interval of its samples.
const WATCH: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(20)];

/// The distance of CPUs, from a short watch.
fn distance(platform: &Platform) -> Result<Finding, Failure> {
    let [long, every] = WATCH;
    let watched = watch(platform, long, every, &mut |_| {});
    let watched = watched.map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok(preflight::distance(platform, &restless::distances(platform, &watched), long))
}

/// The time for which the doctor measures wake-ups, at most.
const WAKES: Duration = Duration::from_millis(500);

/// The cost of wake-ups with the reasons, and the setting that is expected to help all programs.
fn wake_up(root: &SysRoot, platform: &Platform) -> Finding {
    let wait = preflight::idle_wait(root, platform);
    let cost = WakeCost::of(&wake_batches(platform, WAKES), wait);
    let unknown = cost.trouble.is_some() || (cost.cpus.is_some() && cost.idle.is_none());
    let is_open = cost.expected.is_some() || unknown;
    let severity = if is_open { Severity::Note } else { Severity::Ok };
    let (command, price) = wake_cost::remedy(&cost).unwrap_or_default();
    let cure = wake_cost::cure(&cost).unwrap_or_default();
    let parts = [wake_cost::reasons(&cost), cure, price, wake_cost::not_tried(&cost)];
    let remark = parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    preflight::wake_up(severity, wake_cost::costs(&cost), command, remark)
}

/// The groups of the listing, with their subjects.
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

/// Whether measuring is possible here, and the number of findings.
fn sentence(findings: &[Finding], impossible: bool) -> String {
    let possible = if impossible {
        "cannot measure here until the obstacles are gone"
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

/// The columns before what was found, among those that are as they should be.
const NAMES: usize = 26;

fn line(finding: &Finding, page: TerminalLayout) -> String {
    format!("  {:<24}{}\n", finding.id, page.wrap(&finding.found, NAMES))
}

/// The columns before what belongs to a finding.
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

/// Undoes the changes in the journals of dead runs.
fn restore(as_json: bool) -> Result<Exit, Failure> {
    let mut restored = Vec::new();
    let mut unusable = None;
    for directory in supervisor::journal_directories() {
        match supervisor::restore(&directory) {
            Ok(journals) => restored.extend(journals),
            // The other directories may still be good.
            Err(error) => unusable = Some(error),
        }
    }
    let json = as_json.then(|| {
        let each = |one: &Restored| {
            let (journal, settled) = (shown::value(&one.journal), one.is_settled());
            json!({"journal": journal, "settled": settled, "what": one.to_string()})
        };
        json!({"restored": restored.iter().map(each).collect::<Vec<_>>()})
    });
    let lines = || restored.iter().flat_map(|one| [one.to_string(), "\n".to_owned()]).collect();
    let unsettled = restored.iter().filter(|one| !one.is_settled()).count() as u64;
    let found = counted(restored.len() as u64, "journal");
    let sentence = match (restored.len(), unsettled) {
        (0, _) => "No run has left a change behind.".to_owned(),
        (_, 0) => format!("The changes in {found} of dead runs are undone."),
        _ => format!("Of {found} of dead runs, the changes of {unsettled} could not be undone."),
    };
    either(&sentence, json.as_ref(), lines)?;
    match unusable {
        Some(error) => Err(Failure::new(Exit::Failed, error)),
        None if restored.iter().all(Restored::is_settled) => Ok(Exit::Done),
        None => Ok(Exit::Failed),
    }
}
