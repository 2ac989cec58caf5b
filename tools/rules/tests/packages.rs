// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages of the crates that are published: each is whole without its surroundings, and a registry can show what it is.

use std::path::Path;
use std::process::Command;

use corehop_fixtures::repository;
use corehop_rules::sources;
use serde_json::Value;

/// The published packages of the workspace, as cargo describes them.
fn published() -> Vec<Value> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--locked", "--no-deps"]);
    let output = command.current_dir(repository("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().clone();
    packages.into_iter().filter(|package| package["publish"].is_null()).collect()
}

/// The keys of a manifest that a registry shows, and that this package lacks.
fn missing(package: &Value) -> Vec<&'static str> {
    let keys = ["description", "license", "readme", "rust_version"].into_iter();
    let lists = ["keywords", "categories"].into_iter();
    let no_text = keys.filter(|key| package[*key].as_str().is_none_or(str::is_empty));
    let is_short =
        |key: &&str| package[*key].as_array().is_none_or(|list| !(1..=5).contains(&list.len()));
    no_text.chain(lists.filter(is_short)).collect()
}

#[test]
fn every_published_package_says_what_it_is() {
    let packages = published();
    assert!(packages.len() > 10, "{}", packages.len());
    for package in packages {
        assert_eq!(missing(&package), [""; 0], "{}", package["name"]);
    }
}

#[test]
fn a_package_without_a_readme_or_with_too_many_keywords_is_found() {
    let mut package = published().swap_remove(0);
    package["readme"] = Value::Null;
    package["keywords"] = vec!["a"; 6].into();
    assert_eq!(missing(&package), ["readme", "keywords"]);
}

/// The paths that a source embeds and that lead out of its package. `path` is relative to the package.
fn foreign_files(path: &Path, text: &str) -> Vec<String> {
    let depth = path.components().count() - 1;
    let macros = ["include_str!(", "include_bytes!(", "include_bytes_aligned!(", "include!("];
    let begins =
        macros.iter().flat_map(|name| text.match_indices(name).map(|(at, name)| at + name.len()));
    let named = begins.filter_map(|at| text[at..].split('"').nth(1));
    let climbs = |path: &&str| path.matches("../").count() > depth || path.starts_with('/');
    // What a build script wrote is in OUT_DIR.
    named.filter(|path| *path != "OUT_DIR").filter(climbs).map(str::to_owned).collect()
}

#[test]
fn no_published_package_embeds_a_file_of_its_surroundings() {
    for package in published() {
        let folder = format!("crates/{}", package["name"].as_str().unwrap());
        let found = sources(&repository(&folder), "rs");
        assert!(!found.is_empty(), "{folder}");
        for (path, text) in found {
            let within = Path::new(&path).strip_prefix(&folder).unwrap();
            assert_eq!(foreign_files(within, &text), [""; 0], "{path}");
        }
    }
}

#[test]
fn a_file_outside_of_the_package_is_found() {
    let embeds = |path: &str| format!("const A: &str = include_str{}{path}\");", "!(\"");
    let of = |path: &str| foreign_files(Path::new("src/kinds/mod.rs"), &embeds(path));
    assert_eq!(of("../../../../docs/a.md"), ["../../../../docs/a.md"]);
    assert_eq!(of("../../bpf/a.o"), [""; 0]);
    assert_eq!(of("a.css"), [""; 0]);
    assert_eq!(of("/etc/hostname"), ["/etc/hostname"]);
}
