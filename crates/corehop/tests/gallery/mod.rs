// SPDX-License-Identifier: MIT OR Apache-2.0
//! An entry of the gallery of measured machines: a folder with a quick run. `corehop report --bundle` writes such
//! folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A machine of the gallery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GalleryEntry {
    /// The machine's name.
    pub(crate) machine: String,
    /// The kernel's version, and its way of preemption.
    pub(crate) kernel: String,
    /// The day of the measurement.
    pub(crate) day: String,
    /// The sentence of `corehop report`.
    pub(crate) headline: String,
}

/// The standard output of the program in a folder.
fn printed(folder: &Path, words: &[&str]) -> String {
    let answer = Command::new(env!("CARGO_BIN_EXE_corehop"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}: {words:?}: {answer:?}", folder.display());
    String::from_utf8(answer.stdout).unwrap()
}

/// `6.18.44, PREEMPT_DYNAMIC`: no more of the kernel's release than its version.
fn kernel(host: &Value) -> String {
    let word = |key: &str| host[key].as_str().unwrap_or_default().to_owned();
    let release = word("kernel");
    let version = release.split('-').next().unwrap_or_default();
    let built = word("kernel_version");
    let preemption = built.split(' ').find(|word| word.starts_with("PREEMPT"));
    preemption.map_or_else(|| version.to_owned(), |model| format!("{version}, {model}"))
}

/// The run that the gallery shows of each machine, so that all sentences have the same design.
pub(crate) const SHOWN: &str = "quick.parquet";

/// The entry of a folder; None without a quick run.
pub(crate) fn entry(folder: &Path) -> Option<GalleryEntry> {
    if !folder.join(SHOWN).exists() {
        return None;
    }
    let about: Value =
        serde_json::from_str(&printed(folder, &["report", "contents", "--json", SHOWN])).unwrap();
    let of = &about["provenance"];
    let platform = of["platform"].as_str().unwrap();
    let name = platform.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let report = printed(folder, &["report", SHOWN]);
    let sentence = report.lines().take_while(|line| !line.is_empty());
    Some(GalleryEntry {
        machine: name.expect("the platform has a name").to_owned(),
        kernel: kernel(&of["machine"]["host"]),
        day: of["date"].as_str().unwrap().split('T').next().unwrap().to_owned(),
        headline: sentence.collect::<Vec<_>>().join(" "),
    })
}

/// The parts of an unpacked bundle whose bytes are not those of its provenance. A folder without provenance is no bundle.
pub(crate) fn altered(folder: &Path) -> Vec<String> {
    let Ok(provenance) = fs::read_to_string(folder.join("provenance.json")) else {
        return Vec::new();
    };
    let provenance: Value = serde_json::from_str(&provenance).unwrap();
    let parts = provenance["parts"].as_array().unwrap().iter();
    let differs = |part: &&Value| {
        let mut command = Command::new("sha256sum");
        let output = command.arg(part["file"].as_str().unwrap()).current_dir(folder).output();
        let sum = String::from_utf8(output.unwrap().stdout).unwrap();
        sum.split(' ').next() != part["sha256"].as_str()
    };
    parts.filter(differs).map(|part| part["file"].to_string()).collect()
}
