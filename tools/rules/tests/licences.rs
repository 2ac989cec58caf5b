// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licences of the packages that a build takes: each can be taken under terms that programs under MIT or Apache-2.0 may carry.

use std::process::Command;

use corehop_fixtures::repository;
use serde_json::Value;

/// Licences whose terms a program under MIT or Apache-2.0 meets by naming them.
const PERMISSIVE: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether a package with this expression can be taken: of all its parts, in one of the ways that each offers.
fn is_permitted(expression: &str) -> bool {
    let parts =
        expression.split(" AND ").map(|part| part.trim_matches(['(', ')']).replace('/', " OR "));
    parts.into_iter().all(|part| part.split(" OR ").any(|it| PERMISSIVE.contains(&it.trim())))
}

#[test]
fn every_dependency_can_be_taken_under_a_permissive_licence() {
    let mut command = Command::new(env!("CARGO"));
    // The packages of other systems are on no machine that builds this one.
    let platform = "x86_64-unknown-linux-gnu";
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform]);
    let output = command.current_dir(repository("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    let wrong: Vec<String> = packages
        .iter()
        .filter(|it| !it["license"].as_str().is_some_and(is_permitted))
        .map(|it| format!("{} {}: {}", it["name"], it["version"], it["license"]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_permissive_way_suffices_and_every_part_needs_one() {
    assert!(is_permitted("MIT OR Apache-2.0 OR LGPL-2.1-or-later"));
    assert!(is_permitted("(MIT OR Apache-2.0) AND Unicode-3.0") && is_permitted("MIT/Apache-2.0"));
    assert!(!is_permitted("GPL-3.0-only") && !is_permitted("MIT AND GPL-2.0-only"));
}
