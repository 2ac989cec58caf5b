// SPDX-License-Identifier: MIT OR Apache-2.0
//! The build of the rewritten tree: which test programs there are, and which mutants do not compile.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::cargo;

/// A test program that cargo built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The package, the kind of the target and its name: `corehop-plan lib corehop_plan`.
    pub name: String,
    /// Whether the program has the tests inside of a library or of a program, and no other.
    pub is_unit: bool,
    pub path: PathBuf,
    /// The folder of the package, in which cargo starts a test program.
    pub folder: PathBuf,
}

/// A build of the tree.
#[derive(Debug)]
pub(crate) struct BuildAttempt {
    pub programs: Vec<TestProgram>,
    pub errors: Vec<BuildFault>,
    /// The messages of cargo itself, if the build failed.
    pub said: Option<String>,
}

/// An error of the compiler.
#[derive(Debug)]
pub(crate) struct BuildFault {
    rendered: String,
    /// The file, its bytes, and whether the error is there.
    places: Vec<(PathBuf, Range<usize>, bool)>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "reason")]
enum CargoMessage {
    #[serde(rename = "compiler-message")]
    Said { message: Diagnostic },
    #[serde(rename = "compiler-artifact")]
    Made {
        manifest_path: PathBuf,
        target: BuiltTarget,
        executable: Option<PathBuf>,
        profile: Profile,
        package_id: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<CodeSpan>,
    children: Vec<Self>,
    rendered: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CodeSpan {
    file_name: PathBuf,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

#[derive(Debug, Deserialize)]
struct Expansion {
    span: CodeSpan,
}

#[derive(Debug, Deserialize)]
struct BuiltTarget {
    kind: Vec<String>,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// The folders of a build.
#[derive(Debug)]
pub(crate) struct Folders {
    /// The copy of the tree.
    pub tree: PathBuf,
    /// The target directory of cargo.
    pub target: PathBuf,
}

impl Folders {
    /// Builds the test programs of these packages, as `cargo test` does.
    pub(crate) fn build(&self, packages: &BTreeSet<String>) -> Result<BuildAttempt> {
        self.run("build", &["--tests"], packages.iter())
    }

    /// Checks the library and the programs of a package, also what its default features leave out.
    pub(crate) fn check_all(&self, package: &String) -> Result<BuildAttempt> {
        self.run("check", &["--all-features"], [package].into_iter())
    }

    fn run<'a>(
        &self,
        verb: &str,
        options: &[&str],
        packages: impl Iterator<Item = &'a String>,
    ) -> Result<BuildAttempt> {
        let mut command = Command::new(cargo());
        command.arg(verb).args(options).args(["--locked", "--message-format=json", "--target-dir"]);
        command.arg(&self.target);
        for package in packages {
            command.args(["-p", package]);
        }
        command.current_dir(&self.tree).stderr(Stdio::piped());
        let output = command.output().context("cargo cannot be started")?;
        let mut attempt = read(&output.stdout)?;
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        attempt.said = (!output.status.success()).then(said);
        Ok(attempt)
    }
}

/// Reads the messages of cargo, a line of JSON each.
fn read(messages: &[u8]) -> Result<BuildAttempt> {
    let mut attempt = BuildAttempt { programs: Vec::new(), errors: Vec::new(), said: None };
    // Warnings of the build that only repeat what the code says are left out; so is what programs of the build print.
    for line in messages.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{")) {
        let message = serde_json::from_slice(line).context("cargo answers in another format")?;
        match message {
            CargoMessage::Said { message } if message.level.starts_with("error") => {
                let mut places = Vec::new();
                places_of(&message, &mut places);
                let rendered = message.rendered.unwrap_or_default();
                attempt.errors.push(BuildFault { rendered, places });
            }
            CargoMessage::Made { manifest_path, target, executable, profile, package_id } => {
                let Some(path) = executable.filter(|_| profile.test) else { continue };
                let folder = manifest_path.parent().unwrap_or(Path::new("/")).to_owned();
                let kind = target.kind.first().map_or("lib", String::as_str);
                let name = format!("{} {kind} {}", package(&package_id), target.name);
                let is_unit = kind != "test";
                attempt.programs.push(TestProgram { name, is_unit, path, folder });
            }
            _ => {}
        }
    }
    Ok(attempt)
}

/// The name of a package in its identifier: `path+file:///w/crates/x#0.1.0`, or `…#name@0.1.0` where the folder has another
/// name.
fn package(identifier: &str) -> &str {
    let (before, after) = identifier.rsplit_once('#').unwrap_or(("", identifier));
    match after.split_once('@') {
        Some((name, _)) => name,
        None => before.rsplit('/').next().unwrap_or(before),
    }
}

fn places_of(message: &Diagnostic, places: &mut Vec<(PathBuf, Range<usize>, bool)>) {
    for span in &message.spans {
        let mut span = span;
        loop {
            let bytes = span.byte_start..span.byte_end;
            places.push((span.file_name.clone(), bytes, span.is_primary));
            let Some(expansion) = &span.expansion else { break };
            span = &expansion.span;
        }
    }
    for child in &message.children {
        places_of(child, places);
    }
}

/// A number with the file and the bytes in which its mutant is now.
pub(crate) type PlantedPlace = (u32, PathBuf, Range<usize>);

/// The mutants that an attempt which failed is due to: of each error the innermost place around it, or else all places
/// inside of it, or else those around the places that the error points to besides.
pub(crate) fn blamed(attempt: &BuildAttempt, places: &[PlantedPlace]) -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for fault in &attempt.errors {
        let of_fault = [true, false].into_iter().find_map(|primary| {
            let stated = fault.places.iter().filter(|(_, _, is_primary)| *is_primary == primary);
            let numbers: Vec<u32> = stated.flat_map(|place| around(place, places)).collect();
            (!numbers.is_empty()).then_some(numbers)
        });
        match of_fault {
            Some(numbers) => found.extend(numbers),
            // The last error of a file only counts the others.
            None if fault.places.is_empty() => {}
            None => {
                bail!("the copy of the tree has an error beside its mutants:\n{}", fault.rendered)
            }
        }
    }
    if found.is_empty() {
        let said = attempt.said.as_deref().unwrap_or_default();
        bail!("the copy of the tree cannot be built:\n{said}");
    }
    Ok(found)
}

fn around(stated: &(PathBuf, Range<usize>, bool), places: &[PlantedPlace]) -> Vec<u32> {
    let (file, bytes, _) = stated;
    let here = || places.iter().filter(|(_, path, _)| path == file);
    let contains = |place: &&PlantedPlace| place.2.start <= bytes.start && bytes.end <= place.2.end;
    let innermost = here().filter(contains).map(|(_, _, place)| place.len()).min();
    if let Some(length) = innermost {
        return here()
            .filter(contains)
            .filter(|place| place.2.len() == length)
            .map(number)
            .collect();
    }
    let touches = |place: &&PlantedPlace| place.2.start < bytes.end && bytes.start < place.2.end;
    here().filter(touches).map(number).collect()
}

fn number(place: &PlantedPlace) -> u32 {
    place.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(places: &[(&str, Range<usize>, bool)]) -> BuildFault {
        let places =
            places.iter().map(|(file, bytes, is)| (PathBuf::from(file), bytes.clone(), *is));
        BuildFault { rendered: "error: no".to_owned(), places: places.collect() }
    }

    fn blamed_of(faults: Vec<BuildFault>) -> Result<BTreeSet<u32>> {
        let attempt =
            BuildAttempt { programs: Vec::new(), errors: faults, said: Some("failed".to_owned()) };
        let place = |number, file: &str, bytes| (number, PathBuf::from(file), bytes);
        let places = [
            place(1, "a.rs", 10..50),
            place(2, "a.rs", 20..30),
            place(3, "b.rs", 10..50),
            place(4, "a.rs", 20..30),
        ];
        blamed(&attempt, &places)
    }

    #[test]
    fn an_error_is_due_to_the_innermost_mutants_around_it() {
        let blamed =
            |places: &[_]| blamed_of(vec![fault(places)]).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(blamed(&[("a.rs", 12..14, true)]), [1]);
        assert_eq!(blamed(&[("a.rs", 22..24, true)]), [2, 4], "one of the two: both go");
        assert_eq!(blamed(&[("a.rs", 0..100, true)]), [1, 2, 4], "a whole function is wrong");
        assert_eq!(blamed(&[("a.rs", 60..70, true), ("b.rs", 12..14, false)]), [3]);
        assert_eq!(blamed(&[("a.rs", 12..14, true), ("b.rs", 12..14, false)]), [1]);
    }

    #[test]
    fn an_error_beside_all_mutants_ends_the_build_with_its_text() {
        let error = blamed_of(vec![fault(&[("c.rs", 1..2, true)])]).unwrap_err();
        assert!(error.to_string().contains("error: no"), "{error}");
        let error = blamed_of(vec![fault(&[])]).unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
    }

    #[test]
    fn test_programs_and_errors_are_read_from_the_messages_of_cargo() {
        let lines = [
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/x#0.1.0","manifest_path":"/w/crates/x/Cargo.toml","target":{"kind":["rlib","cdylib"],"name":"x"},"executable":"/t/x-1","profile":{"test":true}}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/p#y@0.1.0","manifest_path":"/w/p/Cargo.toml","target":{"kind":["test"],"name":"z"},"executable":"/t/z-1","profile":{"test":true}}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/p#y@0.1.0","manifest_path":"/w/p/Cargo.toml","target":{"kind":["bin"],"name":"y"},"executable":"/t/y","profile":{"test":false}}"#,
            r#"{"reason":"compiler-message","message":{"level":"warning","spans":[],"children":[],"rendered":"w"}}"#,
            r#"{"reason":"compiler-message","message":{"level":"error","rendered":"e","children":[],"spans":[{"file_name":"a.rs","byte_start":3,"byte_end":5,"is_primary":true,"expansion":null}]}}"#,
            r#"{"reason":"build-finished","success":false}"#,
        ];
        let attempt = read(lines.join("\n").as_bytes()).unwrap();
        let programs: Vec<_> = attempt
            .programs
            .iter()
            .map(|program| (program.name.as_str(), program.is_unit))
            .collect();
        assert_eq!(programs, [("x rlib x", true), ("y test z", false)]);
        assert_eq!(attempt.errors.len(), 1);
        assert_eq!(attempt.errors[0].places, [(PathBuf::from("a.rs"), 3..5, true)]);
    }
}
