// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results in a file of JSON lines, and the list of mutants that change nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::sites::MutationKind;
use crate::trial::MutantFate;

/// A mutant as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MutantText {
    pub package: String,
    /// The path relative to the workspace.
    pub file: String,
    pub line: usize,
    pub kind: MutationKind,
    /// The lines of the source that the mutation changes, and the changed lines.
    pub before: String,
    pub after: String,
    /// The first byte of the place, because a line can have the same text twice.
    pub byte: usize,
}

/// A result: valid for one state of the tree, and for the tests that were asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgedMutant {
    pub tree: String,
    pub tests: String,
    #[serde(flatten)]
    pub mutant: MutantText,
    #[serde(flatten)]
    pub fate: MutantFate,
    pub seconds: f64,
}

/// The results of this and of earlier runs.
#[derive(Debug)]
pub(crate) struct MutantResults {
    file: File,
    known: Vec<JudgedMutant>,
    tree: String,
    tests: String,
}

impl MutantResults {
    /// Opens the file of results, for a state of the tree and a choice of tests.
    pub(crate) fn open(path: &Path, tree: &str, tests: &str) -> Result<Self> {
        let said = || format!("{} cannot be opened", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(said)?;
        }
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut file = File::options().append(true).create(true).open(path).with_context(said)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // A line that was cut off must not swallow the next.
            writeln!(file)?;
        }
        let known = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { file, known, tree: tree.to_owned(), tests: tests.to_owned() })
    }

    pub(crate) fn of(&self, mutant: &MutantText) -> Option<&MutantFate> {
        let is = |judged: &&JudgedMutant| {
            judged.mutant == *mutant && judged.tree == self.tree && judged.tests == self.tests
        };
        // The last result holds: a mutant can be judged again.
        self.known.iter().rev().find(is).map(|judged| &judged.fate)
    }

    pub(crate) fn add(
        &mut self,
        mutant: &MutantText,
        fate: MutantFate,
        seconds: f64,
    ) -> Result<()> {
        let (tree, tests) = (self.tree.clone(), self.tests.clone());
        let judged = JudgedMutant { tree, tests, mutant: mutant.clone(), fate, seconds };
        writeln!(self.file, "{}", serde_json::to_string(&judged)?)?;
        self.known.push(judged);
        Ok(())
    }
}

/// A mutant that a person judged to change nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Equivalent {
    file: String,
    before: Vec<String>,
    after: Vec<String>,
}

impl Equivalent {
    pub(crate) fn is(&self, mutant: &MutantText) -> bool {
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(plain).filter(|line| !line.is_empty()).collect()
        };
        self.file == mutant.file
            && self.before == lines(&mutant.before)
            && self.after == lines(&mutant.after)
    }
}

fn plain(line: &str) -> String {
    line.trim().to_owned()
}

/// Reads the list: for each mutant the file, the lines `-` before and `+` after, and the reason after `=`.
pub(crate) fn equivalents(text: &str) -> Result<Vec<Equivalent>> {
    let mut found: Vec<(Equivalent, bool)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let Some(sign) = line.chars().next().filter(|sign| *sign != '#') else { continue };
        if !['-', '+', '='].contains(&sign) {
            let file = line.trim().to_owned();
            found.push((Equivalent { file, before: Vec::new(), after: Vec::new() }, false));
            continue;
        }
        let Some((last, has_reason)) = found.last_mut() else {
            bail!("line {number} of the list of equivalent mutants stands before a file");
        };
        let rest = plain(&line[1..]);
        match sign {
            _ if rest.is_empty() => {}
            '-' => last.before.push(rest),
            '+' => last.after.push(rest),
            _ => *has_reason = true,
        }
    }
    let incomplete =
        found.iter().find(|(mutant, has_reason)| mutant.before.is_empty() || !has_reason);
    if let Some((mutant, _)) = incomplete {
        bail!("an equivalent mutant of {} lacks its line `-` or its reason `=`", mutant.file);
    }
    Ok(found.into_iter().map(|(mutant, _)| mutant).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(before: &str, after: &str) -> MutantText {
        MutantText {
            package: "x".to_owned(),
            file: "src/a.rs".to_owned(),
            line: 3,
            kind: MutationKind::Operator,
            before: before.to_owned(),
            after: after.to_owned(),
            byte: 10,
        }
    }

    #[test]
    fn results_hold_for_their_tree_and_their_tests_alone_and_survive_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/results.jsonl");
        let fate = MutantFate::Survived { passed: 4 };
        let mut results = MutantResults::open(&path, "t", "all").unwrap();
        assert_eq!(results.of(&mutant("a", "b")), None);
        results.add(&mutant("a", "b"), fate.clone(), 0.5).unwrap();
        assert_eq!(results.of(&mutant("a", "b")), Some(&fate));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{}", &text[..20])).unwrap();
        let mut results = MutantResults::open(&path, "t", "all").unwrap();
        results.add(&mutant("c", "d"), MutantFate::NotExecuted, 0.0).unwrap();
        let results = MutantResults::open(&path, "t", "all").unwrap();
        assert_eq!(results.of(&mutant("a", "b")), Some(&fate));
        assert_eq!(results.of(&mutant("c", "d")), Some(&MutantFate::NotExecuted));
        assert_eq!(results.of(&mutant("a", "c")), None);
        assert_eq!(MutantResults::open(&path, "u", "all").unwrap().of(&mutant("a", "b")), None);
        assert_eq!(MutantResults::open(&path, "t", "own").unwrap().of(&mutant("a", "b")), None);
    }

    #[test]
    fn an_equivalent_mutant_is_known_by_its_file_and_its_lines() {
        let text = "# A comment.\n\nsrc/a.rs\n-    a < b\n+    a <= b\n= never equal\n\nsrc/a.rs\n- f();\n= only a hint\n";
        let list = equivalents(text).unwrap();
        let is = |before, after| list.iter().any(|one| one.is(&mutant(before, after)));
        assert!(is("  a < b", "  a <= b"));
        assert!(is("        f();", "        "), "a deleted statement leaves an empty line");
        assert!(!is("a < b", "a > b") && !is("a < c", "a <= b"));
        let other = MutantText { file: "src/b.rs".to_owned(), ..mutant("a < b", "a <= b") };
        assert!(!list[0].is(&other));
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        for text in ["src/a.rs\n- a\n+ b\n", "src/a.rs\n= why\n", "- a\n", "src/a.rs\n- a\n=\n"] {
            assert!(equivalents(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_list_of_the_project_names_lines_that_its_files_still_have() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(folder.join("equivalent.txt")).unwrap();
        for one in equivalents(&text).unwrap() {
            let path = folder.join("../..").join(&one.file);
            let source = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = source.lines().map(str::trim).collect();
            let has = one.before.iter().all(|line| lines.contains(&line.as_str()));
            assert!(has, "{} has no longer {:?}: remove the entry", one.file, one.before);
        }
    }
}
