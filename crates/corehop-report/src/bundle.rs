// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle: the results of one machine with their provenance, as `corehop report --bundle` writes them and `data/`
//! stores them.

use std::fmt::Write as _;

use corehop_plan::shown;
use serde_json::{Value, json};

/// The provenance of a bundle, which is its file `provenance.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleProvenance {
    /// The version of corehop that wrote the bundle.
    pub corehop: String,
    /// The command that wrote the bundle.
    pub command: Vec<String>,
    /// The date of the bundle, as UTC in ISO 8601.
    pub date: String,
    /// The machine on which all parts were measured.
    pub machine: BundledMachine,
    /// The files of results in the bundle.
    pub parts: Vec<BundledPart>,
}

/// The machine on which the results of a bundle were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledMachine {
    /// The id of the machine's platform.
    pub id: String,
    /// The name of the machine for people.
    pub name: String,
    /// The release of the machine's kernel; empty if the runs do not state it.
    pub kernel: String,
}

/// A file of results in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledPart {
    /// The file's name in the bundle.
    pub file: String,
    /// The SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The run that wrote the file, or `None` for a platform file, which states the source of each value instead.
    pub run: Option<BundledRun>,
}

/// The run behind a part of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledRun {
    /// The version of corehop that ran the measurement.
    pub corehop: String,
    /// The command with which the run was started.
    pub command: Vec<String>,
    /// The start of the run, as UTC in ISO 8601.
    pub date: String,
    /// The name of the experiment that the run made.
    pub experiment: String,
    /// The number of rows in the file.
    pub rows: u64,
}

impl BundleProvenance {
    /// Returns the day of the first part that is a run, such as `2026-11-28`; without a run, the day of the bundle.
    fn day(&self) -> &str {
        let date = self.parts.iter().find_map(|part| Some(&part.run.as_ref()?.date));
        let date = date.unwrap_or(&self.date);
        date.split('T').next().unwrap_or_default()
    }

    /// Returns the name of the folder into which the bundle unpacks, which consists of the day and the machine. The
    /// name contains only letters, digits, `-` and `_`, and at most 64 of them, whatever the files state.
    pub fn folder(&self) -> String {
        let plain =
            |sign: char| if sign.is_ascii_alphanumeric() || sign == '-' { sign } else { '_' };
        format!("{}-{}", self.day(), self.machine.id).chars().map(plain).take(64).collect()
    }

    /// Returns the contents of `provenance.json`.
    pub fn json(&self) -> Value {
        let BundledMachine { id, name, kernel } = &self.machine;
        json!({
            "corehop": self.corehop, "command": self.command, "date": self.date,
            "machine": {"id": id, "name": name, "kernel": kernel},
            "parts": self.parts.iter().map(BundledPart::json).collect::<Vec<_>>(),
        })
    }

    /// Returns the README of the bundle, in Markdown.
    pub fn readme(&self) -> String {
        let BundledMachine { name, kernel, .. } = &self.machine;
        let mut text = format!("# {}, {}\n\n", in_cell(name), in_cell(self.day()));
        // Writing to a string cannot fail.
        if !kernel.is_empty() {
            let _ = writeln!(text, "Linux {}.\n", in_cell(kernel));
        }
        text += "`provenance.json` has the command, the date and the SHA-256 of each file.\n\n";
        text += "| file | command | rows |\n|---|---|---|\n";
        for BundledPart { file, run, .. } in &self.parts {
            let (command, rows) = run.as_ref().map_or_else(Default::default, |run| {
                (format!("`{}`", in_cell(&typed(&run.command))), run.rows.to_string())
            });
            let _ = writeln!(text, "| `{file}` | {command} | {rows} |");
        }
        text + "\nThese data are under CC-BY-4.0.\n"
    }
}

impl BundledPart {
    fn json(&self) -> Value {
        let run = self.run.as_ref().map(|BundledRun { corehop, command, date, experiment, rows }| {
            json!({
                "corehop": corehop, "command": command, "date": date, "experiment": experiment, "rows": rows,
            })
        });
        json!({"file": self.file, "sha256": self.sha256, "bytes": self.bytes, "run": run})
    }
}

/// Returns a command as a user types it: `corehop` replaces the program's path.
fn typed(command: &[String]) -> String {
    let rest = command.iter().skip(1).map(String::as_str);
    std::iter::once("corehop").chain(rest).collect::<Vec<_>>().join(" ")
}

/// Returns text from a file for a line of Markdown, escaped so that it cannot end a table cell, a line or code.
fn in_cell(text: &str) -> String {
    shown::line(text).replace('|', "\\|").replace('`', "'").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(id: &str, name: &str) -> BundleProvenance {
        let run = BundledRun {
            corehop: "0.1.0".into(),
            command: ["/opt/corehop", "measure", "synthetic", "-o", "a|b.parquet"]
                .map(Into::into)
                .into(),
            date: "2026-11-22T19:42:21Z".into(),
            experiment: "synthetic".into(),
            rows: 6843,
        };
        let part = |file: &str, run| BundledPart {
            file: file.into(),
            sha256: String::new(),
            bytes: 1,
            run,
        };
        BundleProvenance {
            corehop: "0.1.0".into(),
            command: Vec::new(),
            date: "2026-11-28T00:00:00Z".into(),
            machine: BundledMachine { id: id.into(), name: name.into(), kernel: "6.18.44".into() },
            parts: vec![part("quick.parquet", Some(run)), part("platform.toml", None)],
        }
    }

    #[test]
    fn the_folder_has_the_day_of_the_run_and_no_sign_that_leads_out_of_it() {
        assert_eq!(bundle("amd_epyc", "").folder(), "2026-11-22-amd_epyc");
        assert_eq!(bundle("../../etc/x y", "").folder(), "2026-11-22-______etc_x_y");
        assert_eq!(bundle(&"x".repeat(200), "").folder().len(), 64);
    }

    #[test]
    fn the_page_names_the_machine_and_every_part_in_a_sound_table() {
        let page = bundle("m", "AMD | EPYC\n# fake").readme();
        assert!(page.starts_with("# AMD \\| EPYC"), "{page}");
        assert!(!page.contains("\n# fake") && page.contains("Linux 6.18.44."), "{page}");
        assert!(
            page.contains(
                "| `quick.parquet` | `corehop measure synthetic -o a\\|b.parquet` | 6843 |"
            )
        );
        assert!(page.contains("| `platform.toml` |  |  |"), "{page}");
    }
}
