// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a bundle of this machine's results: the quick run, its conditions and the platform, with their provenance,
//! in one archive.

mod sha256;
mod tar;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use corehop_plan::shown;
use corehop_report::bundle::{BundleProvenance, BundledMachine, BundledPart, BundledRun};
use corehop_results::{FileNote, Results};
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::input;
use crate::run::utc_now;
use crate::voice::note;

/// A part that every bundle has.
struct BundleRole {
    /// The name of the file in the bundle.
    file: &'static str,
    /// The experiment of the file's rows; `None` for the platform.
    experiment: Option<&'static str>,
    /// The command that creates the part.
    command: &'static str,
}

const ROLES: [BundleRole; 3] = [
    BundleRole {
        file: "quick.parquet",
        experiment: Some("synthetic"),
        command: "corehop measure synthetic --preset quick -o quick.parquet",
    },
    BundleRole {
        file: "conditions.parquet",
        experiment: Some("conditions"),
        command: "corehop measure conditions -o conditions.parquet",
    },
    BundleRole {
        file: "platform.toml",
        experiment: None,
        command: "corehop measure platform -o platform.toml",
    },
];

/// A given file with its role, and its run if the file contains rows.
struct BundleMember<'a> {
    role: &'static BundleRole,
    path: &'a Path,
    note: Option<&'a FileNote>,
}

/// Writes the bundle of the results in `files`, which `data` contains together, and notes its parts.
///
/// # Errors
/// Fails with exit code 2 if a part is missing, named twice, incomplete, simulated, of another host, or not a part of a
/// bundle, and with exit code 6 for the system's errors.
pub(super) fn write(file: &OutputFile, files: &[PathBuf], data: &Results) -> Result<(), Failure> {
    let members = members(files, data)?;
    whole_and_live(&members)?;
    one_host(&members, data)?;
    let contents = members.iter().map(|member| read(member.path)).collect::<Result<Vec<_>, _>>()?;
    let provenance = provenance(&members, &contents, data);
    let folder = provenance.folder();
    let about = format!("{:#}\n", provenance.json()).into_bytes();
    let mut archived =
        vec![("README.md", provenance.readme().into_bytes()), ("provenance.json", about)];
    archived.extend(members.iter().map(|member| member.role.file).zip(contents));
    let names: Vec<&str> = archived.iter().map(|(name, _)| *name).collect();
    let placed = archived.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    file.write(tar::tar(&placed.collect::<Vec<_>>(), seconds))?;
    note(&format!("{} unpacks to {folder}: {}", shown::path(file.path()), names.join(", ")));
    Ok(())
}

fn refused(why: &str) -> Failure {
    Failure::says(Exit::Usage, format!("--bundle: {why}"))
}

/// Rejects a file that contains another verb's answer instead of a machine's results.
pub(super) fn refuse(is_asked: bool) -> Result<(), Failure> {
    if is_asked { Err(missing(&ROLES.iter().collect::<Vec<_>>())) } else { Ok(()) }
}

/// The failure of a bundle without these parts.
fn missing(roles: &[&BundleRole]) -> Failure {
    let told = roles.iter().map(|role| format!("{} (`{}`)", role.file, role.command));
    refused(&format!(
        "these files have no {}: measure each missing part, and name its file too",
        told.collect::<Vec<_>>().join(", no ")
    ))
}

/// The given files with their roles, in the order of [`ROLES`].
fn members<'a>(files: &'a [PathBuf], data: &'a Results) -> Result<Vec<BundleMember<'a>>, Failure> {
    let mut members: Vec<BundleMember<'a>> = Vec::new();
    // The reader took the files of rows in the order in which they were given.
    let mut notes = data.files.iter();
    for path in files {
        let is_platform = path.extension().is_some_and(|it| it == "toml");
        let note = if is_platform { None } else { notes.next() };
        let experiment = note.map(|note| note.provenance.experiment.as_str());
        let Some(role) = ROLES.iter().find(|role| role.experiment == experiment) else {
            let why = format!(
                "{} contains the experiment {}, which does not belong in a bundle: omit this file",
                shown::path(path),
                shown::line(experiment.unwrap_or_default())
            );
            return Err(refused(&why));
        };
        if let Some(first) = members.iter().find(|member| member.role.file == role.file) {
            let (first, second) = (shown::path(first.path), shown::path(path));
            return Err(refused(&format!(
                "{first} and {second} would both become {} of the bundle: name only one of the two",
                role.file
            )));
        }
        members.push(BundleMember { role, path, note });
    }
    let is_absent = |role: &&BundleRole| members.iter().all(|it| it.role.file != role.file);
    let absent: Vec<&BundleRole> = ROLES.iter().filter(is_absent).collect();
    if !absent.is_empty() {
        return Err(missing(&absent));
    }
    members.sort_by_key(|member| ROLES.iter().position(|role| role.file == member.role.file));
    Ok(members)
}

/// Rejects an incomplete run, and a run of a simulated machine.
fn whole_and_live(members: &[BundleMember<'_>]) -> Result<(), Failure> {
    for BundleMember { role, path, note } in members {
        let Some(note) = note else { continue };
        let named = shown::path(path);
        if let Some(why) = &note.incomplete {
            let remedy = format!("finish the run with --resume, or repeat `{}`", role.command);
            return Err(refused(&format!("{named} is incomplete ({why}): {remedy}")));
        }
        if said(note, &["kind"]) != Some("live") {
            let why = format!(
                "{named} was not measured on a real machine: `{}` measures this machine",
                role.command
            );
            return Err(refused(&why));
        }
    }
    Ok(())
}

/// A text value from the machine description of a file.
fn said<'a>(note: &'a FileNote, keys: &[&str]) -> Option<&'a str> {
    let (first, rest) = keys.split_first()?;
    let found = note.provenance.machine.get(*first)?;
    rest.iter().try_fold(found, |at, key| at.get(key)).and_then(Value::as_str)
}

/// Rejects parts from several machines, installations or kernels.
fn one_host(members: &[BundleMember<'_>], data: &Results) -> Result<(), Failure> {
    let notes: Vec<&FileNote> = members.iter().filter_map(|member| member.note).collect();
    let machines = data.machines.iter().map(|machine| machine.id.as_str()).collect();
    let of = |keys: &[&str]| notes.iter().filter_map(|note| said(note, keys)).collect();
    let kernels: BTreeSet<&str> = of(&["host", "kernel"]);
    let hosts: BTreeSet<&str> = of(&["host", "identity"]);
    for (what, found) in [("machines", machines), ("installations", hosts), ("kernels", kernels)] {
        let found: BTreeSet<&str> = found;
        if found.len() > 1 {
            let found = found.into_iter().collect::<Vec<_>>().join(", ");
            let found = shown::line(&found);
            return Err(refused(&format!(
                "these files come from several {what} ({found}): measure all parts on one machine under one kernel"
            )));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = input::file(path)?.read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Exit::Failed, error).context(shown::path(path)))?;
    Ok(bytes)
}

/// The provenance of parts with these contents.
fn provenance(
    members: &[BundleMember<'_>],
    contents: &[Vec<u8>],
    data: &Results,
) -> BundleProvenance {
    let machine = data.machines.first();
    let kernel = members.iter().find_map(|it| said(it.note?, &["host", "kernel"]));
    let part = |(member, bytes): (&BundleMember<'_>, &Vec<u8>)| BundledPart {
        file: member.role.file.to_owned(),
        sha256: sha256::sha256(bytes),
        bytes: bytes.len() as u64,
        run: member.note.map(run),
    };
    let platform = machine.and_then(|it| it.platform.as_ref());
    BundleProvenance {
        corehop: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        date: utc_now(),
        machine: BundledMachine {
            id: machine.map(|it| it.id.clone()).unwrap_or_default(),
            name: platform.map(|it| it.name.clone()).unwrap_or_default(),
            kernel: kernel.unwrap_or_default().to_owned(),
        },
        parts: members.iter().zip(contents).map(part).collect(),
    }
}

fn run(note: &FileNote) -> BundledRun {
    let of = &note.provenance;
    BundledRun {
        corehop: of.corehop.clone(),
        command: of.command.clone(),
        date: of.date.clone(),
        experiment: of.experiment.clone(),
        rows: note.n_rows,
    }
}
