// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of a report, to which each kind of measurement adds one part and the files add another part.

use corehop_plan::finding::Severity;
use corehop_results::{FileNote, Results};

use crate::front::{PageFront, SurenessCheck, WordedChart, shell_path};

/// The part of the first screen that a kind of measurement supplies.
pub(super) struct KindFront {
    /// The title of the page, without the machine.
    pub(super) title: String,
    /// The answer on the first screen, or `None` if the first screen shows the sentence that the terminal shows.
    pub(super) answer: Option<String>,
    /// The chart of the first screen, or `None` if the measurement has no numbers to compare.
    pub(super) chart: Option<WordedChart>,
    /// The checks that this kind of measurement adds to the first screen.
    pub(super) checks: Vec<SurenessCheck>,
    /// The next command that the first screen recommends, and what the command does.
    pub(super) next: (String, &'static str),
}

/// Makes the first screen of the given data; `kind` is the part that the first measured kind supplies. Access times and
/// lengths of absences supply no part, because they belong to the results of other kinds.
pub(super) fn front(data: &Results, kind: Option<KindFront>) -> PageFront {
    let kind = kind.unwrap_or_else(|| KindFront {
        title: "Results".to_owned(),
        answer: data.files.is_empty().then(String::new),
        chart: None,
        checks: Vec::new(),
        next: (
            "corehop measure synthetic".to_owned(),
            "measures the cost of preemptions and migrations.",
        ),
    });
    let common = [simulated(data), of_files(data), doctor(data)];
    PageFront {
        title: titled(&kind.title, data),
        answer: kind.answer.unwrap_or_else(|| crate::listing::answer(data)),
        checks: kind.checks.into_iter().chain(common.into_iter().flatten()).collect(),
        chart: kind.chart.filter(|it| !it.lines.is_empty()),
        next: Some(kind.next),
        everything: format!("corehop report {} --table text", files(data)),
        facts: facts(data),
        warnings: warnings(data),
    }
}

fn titled(title: &str, data: &Results) -> String {
    let name = |machine: &corehop_results::MachineNote| {
        machine.platform.as_ref().map_or(machine.id.clone(), |it| it.name.clone())
    };
    let names: Vec<String> = data.machines.iter().map(name).collect();
    if names.is_empty() { title.to_owned() } else { format!("{title} on {}", names.join(" and ")) }
}

/// Returns the names of the files as words of a command.
fn files(data: &Results) -> String {
    let names: Vec<String> = data.files.iter().map(|it| shell_path(&it.name)).collect();
    if names.is_empty() { "FILE".to_owned() } else { names.join(" ") }
}

/// Returns the name of the first file as a word of a command.
pub(super) fn first_file(data: &Results) -> String {
    data.files.first().map_or_else(|| "FILE".to_owned(), |it| shell_path(&it.name))
}

/// Returns the date, the seed, the number of samples and the files, as short facts.
fn facts(data: &Results) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    if let Some(first) = data.files.first() {
        parts.push(first.provenance.date.clone());
        parts.push(format!("seed {}", first.provenance.seed));
    }
    let total = &data.budget.total;
    if total.n_all > 0 {
        parts.push(format!("{} of {} samples valid", total.n_valid, total.n_all));
    }
    let names: Vec<&str> = data.files.iter().map(|file| file.name.as_str()).collect();
    parts.push(names.join(", "));
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the doubts about the files, each with its heading.
fn warnings(data: &Results) -> Vec<(&'static str, String)> {
    let of_file = |file: &FileNote| {
        let named = |why: &str| format!("{}: {why}", file.name);
        let incomplete = file.incomplete.as_deref().map(|why| ("Incomplete", named(why)));
        let doubt = file.verification.doubt().map(|why| ("No checksums", named(why)));
        incomplete.into_iter().chain(doubt)
    };
    let missing = data.missing.iter().map(|file| ("Missing file", file.to_string()));
    data.files.iter().flat_map(of_file).chain(missing).collect()
}

/// Returns a check whether the numbers come from a simulated machine.
fn simulated(data: &Results) -> Option<SurenessCheck> {
    let kinds = data.files.iter().filter_map(|it| it.provenance.machine.get("kind"));
    let is_simulated = kinds.into_iter().any(|it| it.as_str() == Some("simulated"));
    is_simulated.then(|| {
        SurenessCheck::new(false, "the machine is simulated; nothing was measured on a real one")
    })
}

/// Returns a check whether the files are whole.
fn of_files(data: &Results) -> Option<SurenessCheck> {
    let parts = data.files.iter().filter(|it| it.incomplete.is_some()).count();
    (parts > 0).then(|| {
        SurenessCheck::new(false, format!("{parts} of {} files are incomplete", data.files.len()))
    })
}

/// Returns a check whether the doctor warned about the host.
fn doctor(data: &Results) -> Option<SurenessCheck> {
    let findings = || data.machines.iter().flat_map(|it| &it.findings);
    findings().next()?;
    let grave = findings().filter(|it| it.severity >= Severity::Warning).count();
    let text = match grave {
        0 => "the doctor found no obstacle on this host".to_owned(),
        1 => "the doctor has a warning about this host".to_owned(),
        _ => format!("the doctor has {grave} warnings about this host"),
    };
    Some(SurenessCheck::new(grave == 0, text))
}
