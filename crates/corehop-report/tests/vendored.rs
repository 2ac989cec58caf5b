// SPDX-License-Identifier: MIT OR Apache-2.0
//! Vendored files are as their manifest says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn vendor() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/html/vendor")
}

fn manifest() -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(vendor().join("vendored.json")).unwrap()).unwrap()
}

/// The SHA-256 of a file in hexadecimal digits, by coreutils.
fn sha256(path: &Path) -> String {
    let answer = Command::new("sha256sum").arg(path).output().expect("sha256sum, of coreutils");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let line = String::from_utf8(answer.stdout).unwrap();
    line.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn the_chart_library_is_the_one_that_its_manifest_names() {
    let manifest = manifest();
    let said = |key: &str| manifest[key].as_str().unwrap().to_owned();
    let library = vendor().join(said("file"));
    assert_eq!(sha256(&library), said("sha256"));
    assert!(fs::read_to_string(library).unwrap().contains(&said("version")));
}

#[test]
fn its_licence_stands_beside_it() {
    assert_eq!(manifest()["licence"], "Apache-2.0");
    let licence = fs::read_to_string(vendor().join("echarts.LICENSE")).unwrap();
    assert!(licence.contains("Apache License") && licence.contains("Version 2.0"));
}
