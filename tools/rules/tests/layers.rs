// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of modules and crates: the invariants of ARCHITECTURE.md that a reader of sources can check.

use std::fs;
use std::path::PathBuf;

use corehop_fixtures::repository;
use corehop_rules::sources;

/// The crates, in the order in which data flows through them, and those that each may depend on.
const DEPENDENCIES: [(&str, &[&str]); 17] = [
    ("plan", &[]),
    ("switch", &[]),
    ("shim", &["switch"]),
    ("sim", &["plan", "switch"]),
    // Not on `sim`: a model would be tested against itself.
    ("stats", &["plan"]),
    ("sched", &["plan", "stats"]),
    ("decide", &["plan", "sim", "stats", "sched"]),
    ("results", &["plan", "stats", "sched", "decide"]),
    ("report", &["plan", "sim", "stats", "sched", "decide", "results"]),
    // The live machine knows the seams and nothing that follows from samples.
    ("system", &["plan"]),
    ("linux", &["plan", "shim", "switch", "system"]),
    ("app", &["plan", "sim", "shim", "stats", "sched", "decide", "results", "report", "system"]),
    (
        "",
        &["app", "plan", "sim", "stats", "sched", "decide", "results", "report", "system", "linux"],
    ),
    ("fixtures", &["plan"]),
    ("rules", &["fixtures"]),
    ("repeat", &["plan", "stats"]),
    ("benches", &[]),
];

/// The crates that touch no operating system: a machine, a host, a file are handed in.
const PURE: [&str; 7] = ["plan", "sim", "stats", "sched", "decide", "results", "report"];

fn crates() -> PathBuf {
    repository("crates")
}

/// A source file without its comments.
struct Source {
    /// Its place below `src`, with slashes.
    path: String,
    code: String,
}

/// The sources of a crate by its short name.
fn of_crate(name: &str) -> Vec<Source> {
    let folder = format!("crates/corehop-{name}/src");
    let source = |(path, text): (String, String)| Source {
        path: path.strip_prefix(&format!("{folder}/")).unwrap().to_owned(),
        code: without_comments(&text),
    };
    sources(&repository(&folder), "rs").into_iter().map(source).collect()
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

/// The crates of this project in the dependencies of a manifest, without those of tests.
fn ours(manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = dependencies.split("\n[").next().unwrap_or_default().lines();
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next()?.strip_prefix("corehop-"))
        .map(str::to_owned)
        .collect()
}

/// The manifest of a crate or tool by its short name; of the program by an empty one.
fn manifest(name: &str) -> String {
    let folder = if name.is_empty() { "corehop".to_owned() } else { format!("corehop-{name}") };
    let places = [crates().join(folder), crates().join("../tools").join(name)];
    let found = places.iter().find_map(|it| fs::read_to_string(it.join("Cargo.toml")).ok());
    found.unwrap_or_else(|| panic!("no crate {name}"))
}

/// The modules that `code`, which belongs to the module `own`, must not use.
fn trespasses(code: &str, own: &str, order: &[String]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|module| module == name);
    let Some(here) = place(own) else { return Vec::new() };
    let mut used = named_after(code, "crate::");
    used.extend(named_after(code, "$crate::"));
    // `super::` beyond the module itself leads to the crate as well.
    used.extend(named_after(code, "super::"));
    used.extend(named_after(code, "super::super::"));
    let below = |name: &String| place(name).is_some_and(|there| there > here);
    let mut wrong: Vec<_> = used
        .into_iter()
        .filter(below)
        .map(|name| format!("uses `{name}`, which comes after `{own}` in src/lib.rs"))
        .collect();
    wrong.dedup();
    wrong
}

#[test]
fn a_crate_depends_only_on_those_that_its_line_names() {
    for (name, allowed) in DEPENDENCIES {
        for used in ours(&manifest(name)) {
            assert!(allowed.contains(&&*used), "corehop-{name} depends on corehop-{used}");
        }
    }
    let folders = fs::read_dir(crates()).unwrap().map(|it| it.unwrap().file_name());
    for folder in folders.map(|it| it.into_string().unwrap()) {
        let name = folder.strip_prefix("corehop").unwrap().trim_start_matches('-');
        assert!(DEPENDENCIES.iter().any(|(known, _)| *known == name), "{folder} has no line");
    }
    let planted = "[package]\n\n[dependencies]\ncorehop-sim.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\ncorehop-plan = {}\n";
    assert_eq!(ours(planted), ["sim"]);
}

#[test]
fn a_module_of_plans_uses_only_those_above_it() {
    let all = of_crate("plan");
    let lib = all.iter().find(|source| source.path == "lib.rs").unwrap();
    let order = modules(&lib.code);
    assert!(order.len() >= 12, "{order:?}");
    let mut wrong = Vec::new();
    for source in &all {
        let own = source.path.split(['/', '.']).next().unwrap();
        let found = trespasses(&source.code, own, &order);
        wrong.extend(found.into_iter().map(|what| format!("src/{} {what}", source.path)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn pure_crates_touch_no_file_no_clock_and_no_process() {
    let outside =
        ["std::fs", "std::env", "std::process", "std::net", "std::os", "Instant::", "SystemTime"];
    let mut wrong = Vec::new();
    for name in PURE {
        for source in of_crate(name) {
            // Tests inside of modules may read the files that come with the repository.
            let code = source.code.split("#[cfg(test)]").next().unwrap_or_default();
            let used = outside.iter().filter(|it| code.contains(*it));
            wrong.extend(used.map(|it| format!("corehop-{name}/src/{} uses {it}", source.path)));
        }
        let manifest = manifest(name);
        for outside in ["libc", "nix", "rustix", "indicatif", "clap", "tokio"] {
            let names = |line: &str| line.split(['.', ' ', '=']).next() == Some(outside);
            assert!(!manifest.lines().any(names), "corehop-{name} depends on {outside}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_crate_includes_a_file_from_beside_its_folder() {
    let mut wrong = Vec::new();
    for (name, _) in DEPENDENCIES
        .iter()
        .filter(|(name, _)| !["", "fixtures", "rules", "repeat", "benches"].contains(name))
    {
        for source in of_crate(name) {
            let depth = source.path.matches('/').count() + 1;
            let out = "../".repeat(depth + 1);
            let lines = source.code.lines().filter(|line| line.contains("include_"));
            wrong.extend(lines.filter(|line| line.contains(&out)).map(|_| source.path.clone()));
        }
    }
    assert!(wrong.is_empty(), "it could not be packaged: {wrong:#?}");
}

#[test]
fn core_switching_depends_on_libc_alone_and_its_policies_on_nothing() {
    let manifest = manifest("switch");
    let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
    let dependencies = dependencies.split("\n\n").next().unwrap();
    assert_eq!(dependencies, "libc = { workspace = true, optional = true }");
    for source in of_crate("switch") {
        assert!(!source.code.contains("corehop_plan"), "{} uses others", source.path);
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
    assert!(manifest.contains("\ncorehop-plan.workspace"));
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
    assert!(trespasses(&without_comments("//! [`crate::model`]"), "samples", &order).is_empty());
}

#[test]
fn the_modules_are_read_in_their_order() {
    let lib = "#![forbid(unsafe_code)]\n\npub mod b;\nmod a;\npub mod inline {}\n";
    assert_eq!(modules(lib), ["b", "a"]);
}
