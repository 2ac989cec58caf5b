// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of modules and crates: the invariants of ARCHITECTURE.md that a reader of sources can check.

use std::fs;
use std::path::{Path, PathBuf};

/// The last module that the live machine may use: the seam, and all above it.
const SEAM: &str = "host";

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A source file without its comments.
struct Source {
    /// Its place below `src`, with slashes.
    path: String,
    code: String,
}

fn sources(crate_name: &str) -> Vec<Source> {
    let root = crates().join(crate_name).join("src");
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let code = without_comments(&fs::read_to_string(&path).unwrap());
                let path = path.strip_prefix(&root).unwrap().display().to_string();
                found.push(Source { path, code });
            }
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The modules that `lib.rs` declares, in order.
fn modules(lib: &str) -> Vec<String> {
    let names = lib.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    names.map(ToOwned::to_owned).collect()
}

/// The first parts of the paths that begin with `prefix`: of `crate::{a::b, c}` both `a` and `c`.
fn named_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        names.extend(first_parts(&code[at + prefix.len()..]));
    }
    names
}

/// The first part of a path, or of each path in braces.
fn first_parts(path: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut depth, mut parts, mut start) = (0, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(word(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(word(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The modules that `code`, which belongs to the core's module `own`, must not use.
fn trespasses(code: &str, own: &str, order: &[String]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|module| module == name);
    let Some(here) = place(own) else { return Vec::new() };
    let mut used = named_after(code, "crate::");
    used.extend(named_after(code, "$crate::"));
    // `super::` beyond the module itself leads to the crate as well.
    used.extend(named_after(code, "super::"));
    used.extend(named_after(code, "super::super::"));
    let mut wrong: Vec<_> = used
        .into_iter()
        .filter_map(|name| {
            let there = place(&name)?;
            if there > here {
                return Some(format!("uses `{name}`, which comes after `{own}` in src/lib.rs"));
            }
            let judged_by_itself = own == "model" && name == "sim";
            judged_by_itself.then(|| "uses `sim`: a model must not be tested against itself".into())
        })
        .collect();
    wrong.dedup();
    wrong
}

/// The core's modules that may be used up to and including `last`.
fn up_to<'a>(order: &'a [String], last: &str) -> &'a [String] {
    let place = order.iter().position(|module| module == last).unwrap();
    &order[..=place]
}

fn order() -> Vec<String> {
    let lib = sources("corehop-core").into_iter().find(|source| source.path == "lib.rs").unwrap();
    modules(&lib.code)
}

#[test]
fn a_module_of_the_core_uses_only_those_above_it() {
    let order = order();
    assert!(order.len() >= 9 && order.contains(&SEAM.to_owned()), "{order:?}");
    let mut wrong = Vec::new();
    for source in sources("corehop-core") {
        let own = source.path.split(['/', '.']).next().unwrap();
        let found = trespasses(&source.code, own, &order);
        wrong.extend(found.into_iter().map(|what| format!("src/{} {what}", source.path)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_live_machine_knows_the_core_only_up_to_the_seam() {
    let order = order();
    let known = up_to(&order, SEAM);
    let mut wrong = Vec::new();
    for source in sources("corehop-linux") {
        let used = named_after(&source.code, "corehop_core::");
        let beyond = used.into_iter().filter(|name| order.contains(name) && !known.contains(name));
        wrong.extend(beyond.map(|name| format!("corehop-linux/src/{} uses {name}", source.path)));
    }
    assert!(wrong.is_empty(), "beyond `{SEAM}`: {wrong:#?}");
}

#[test]
fn the_core_touches_no_file_no_clock_and_no_process() {
    let outside =
        ["std::fs", "std::env", "std::process", "std::net", "std::os", "Instant::", "SystemTime"];
    let mut wrong = Vec::new();
    for source in sources("corehop-core") {
        // Tests inside of modules may read the files that come with the repository.
        let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
        let used = outside.iter().filter(|name| code.contains(*name));
        wrong.extend(used.map(|name| format!("src/{} uses {name}", source.path)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_core_depends_on_nothing_that_talks_to_an_operating_system() {
    let manifest = fs::read_to_string(crates().join("corehop-core/Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    for name in ["libc", "nix", "rustix", "corehop-linux", "indicatif", "clap", "tokio"] {
        assert!(!dependencies.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn core_switching_depends_on_libc_alone_and_its_policies_on_nothing() {
    let manifest = fs::read_to_string(crates().join("corehop-switch/Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
    let dependencies = dependencies.split("\n\n").next().unwrap();
    assert_eq!(dependencies, "libc = { workspace = true, optional = true }");
    for source in sources("corehop-switch") {
        assert!(!source.code.contains("corehop_core"), "{} uses the core", source.path);
        if ["policy.rs", "budget.rs"].contains(&source.path.as_str()) {
            let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(named_after(code, "crate::").is_empty(), "{} uses others", source.path);
            assert!(!code.contains("std::") && !code.contains("libc"), "{}", source.path);
        }
    }
}

#[test]
fn python_computes_and_the_program_acts() {
    let manifest = fs::read_to_string(crates().join("../python/Cargo.toml")).unwrap();
    assert!(manifest.contains("\ncorehop-core.workspace"));
    for name in ["corehop-linux", "corehop ", "corehop.", "libc"] {
        assert!(!manifest.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn a_use_from_above_is_found_however_it_is_written() {
    let order: Vec<_> = ["units", "samples", "sim", "model"].map(String::from).to_vec();
    let bad = [
        "use crate::model::quantile;",
        "use crate::{units::Cpu, model};",
        "use crate::{\n    units::{Bytes, Cpu},\n    model::{\n        summary,\n    },\n};",
        "fn f() { crate::model::f() }",
        "use super::model;",
        "use super::super::model::x;",
    ];
    for code in bad {
        assert_eq!(trespasses(code, "samples", &order).len(), 1, "{code}");
    }
    let good = [
        "use crate::units::Cpu;",
        "use crate::samples::row;",
        "use self::model;",
        "use other_crate::model;",
        "use super::record;",
    ];
    for code in good {
        assert_eq!(trespasses(code, "samples", &order), Vec::<String>::new(), "{code}");
    }
    assert_eq!(trespasses("use crate::sim::Cache;", "model", &order).len(), 1);
    assert!(trespasses(&without_comments("//! [`crate::model`]"), "samples", &order).is_empty());
}

#[test]
fn the_modules_are_read_in_their_order() {
    let lib = "#![forbid(unsafe_code)]\n\npub mod b;\nmod a;\npub mod inline {}\n";
    assert_eq!(modules(lib), ["b", "a"]);
}
