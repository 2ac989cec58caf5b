// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the sources that a reader of sources can check. The tests of this crate are its content; here is what several of them
//! read by.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use corehop_fixtures::repository;

/// The sources below `folder` with this extension: their paths in the repository, and their texts.
///
/// # Panics
///
/// If a folder or a file cannot be read.
pub fn sources(folder: &Path, extension: &str) -> Vec<(String, String)> {
    let (root, mut folders, mut found) = (repository(""), vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(&root).unwrap().display().to_string(), text));
            }
        }
    }
    found
}

/// The Rust sources of the programs and of the libraries, without those of tests.
///
/// # Panics
///
/// If a file cannot be read, or too few are found.
pub fn rust() -> Vec<(String, String)> {
    without_tests(&["crates"])
}

/// The Rust sources of [`rust`] and of what serves developers, without those of tests.
///
/// # Panics
///
/// As [`rust`].
pub fn everything() -> Vec<(String, String)> {
    without_tests(&["crates", "tools"])
}

fn without_tests(parents: &[&str]) -> Vec<(String, String)> {
    let members = parents.iter().flat_map(|parent| fs::read_dir(repository(parent)).unwrap());
    let folders = members.map(|entry| entry.unwrap().path().join("src"));
    let folders = folders.chain([repository("python/src")]).filter(|folder| folder.is_dir());
    let all: Vec<_> = folders.flat_map(|folder| sources(&folder, "rs")).collect();
    let tests: BTreeSet<String> =
        all.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    let is_inside = |path: &str| {
        let folders = tests.iter().filter_map(|it| it.strip_suffix("mod.rs"));
        folders.into_iter().any(|folder| path.starts_with(folder))
    };
    let is_tests = |path: &String| tests.contains(path) || is_inside(path);
    let kept: Vec<_> = all.into_iter().filter(|(path, _)| !is_tests(path)).collect();
    assert!(kept.len() > 300 && tests.len() > 15, "{} and {}", kept.len(), tests.len());
    kept
}

/// The files of the modules that this source has for tests alone.
///
/// # Panics
///
/// If the path has no folder.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap();
    let is_root = ["mod.rs", "lib.rs", "main.rs"].contains(&name);
    let inside = if is_root {
        folder.to_owned()
    } else {
        format!("{folder}/{}", name.trim_end_matches(".rs"))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut files = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| is_for_tests(line)) {
        let named = lines[at + 1].strip_prefix("#[path = \"").and_then(|it| it.strip_suffix("\"]"));
        if let Some(named) = named {
            files.push(format!("{folder}/{named}"));
        } else if let Some((_, module)) = lines[at + 1].split_once("mod ")
            && let Some(module) = module.strip_suffix(';')
        {
            files.extend([format!("{inside}/{module}.rs"), format!("{inside}/{module}/mod.rs")]);
        }
    }
    files
}

fn is_for_tests(line: &str) -> bool {
    ["#[cfg(test)]", "#[cfg(all(test"].iter().any(|it| line.trim_start().starts_with(it))
}

/// The lines of a source without comments, and without what is for tests alone. Formatted code ends an item in the column
/// where it begins.
pub fn code(text: &str) -> Vec<&str> {
    let (mut lines, mut kept) = (text.lines(), Vec::new());
    while let Some(line) = lines.next() {
        if is_for_tests(line) {
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = |line: &str| {
                line == format!("{indent}}}") || line == format!("{indent});") || {
                    let item = line.strip_prefix(indent).unwrap_or_default();
                    !item.starts_with([' ', '#']) && item.ends_with([';', '}', ','])
                }
            };
            lines.find(|line| end(line));
        } else if !line.trim_start().starts_with("//") {
            kept.push(line);
        }
    }
    kept
}
