// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop compare` with exports of hyperfine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The exit code, stdout and stderr of a comparison.
fn compare(files: &[&Path], options: &[&str]) -> (Option<i32>, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output = program.arg("compare").args(files).args(options).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace("\n      ", " ");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A result of 30 runs of a command around a time in seconds, in an order without a trend.
fn result(command: &str, seconds: f64) -> String {
    let time = |run: u32| format!("{}", seconds * (1.0 + f64::from(run * 7 % 10) / 1e3));
    let times: Vec<String> = (0..30).map(time).collect();
    format!(r#"{{"command": "{command}", "mean": 0.1, "times": [{}]}}"#, times.join(", "))
}

/// An export with these results.
fn export(folder: &Path, name: &str, results: &[String]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("{{\n  \"results\": [{}]}}\n", results.join(", "))).unwrap();
    path
}

#[test]
fn a_slower_command_of_one_export_fails_the_gate_and_an_equal_one_passes() {
    let scratch = tempfile::tempdir().unwrap();
    let slower = [result("old", 0.1), result("new", 0.12)];
    let (exit, said, _) = compare(&[&export(scratch.path(), "a.json", &slower)], &[]);
    assert_eq!(exit, Some(1), "{said}");
    let sentence = "B is slower than A in 1 of 1 cell, most in old -> new (wall time of commands)";
    assert!(said.starts_with(sentence), "{said}");
    let equal = [result("old", 0.1), result("new", 0.1004)];
    let (exit, said, _) = compare(&[&export(scratch.path(), "b.json", &equal)], &[]);
    assert!(exit == Some(0) && said.contains("1 equivalent"), "{said}");
}

#[test]
fn two_exports_are_compared_by_their_commands_or_one_with_the_other() {
    let scratch = tempfile::tempdir().unwrap();
    let of = |name: &str, results: &[String]| export(scratch.path(), name, results);
    let (a, b) = (of("a.json", &[result("x", 0.1)]), of("b.json", &[result("y", 0.08)]));
    let (exit, said, _) = compare(&[&a, &b], &[]);
    assert!(exit == Some(0) && said.contains("x -> y") && said.contains("1 faster"), "{said}");
    let both = of("c.json", &[result("x", 0.12), result("y", 0.08)]);
    let (exit, said, _) = compare(&[&both, &both], &[]);
    assert!(exit == Some(0) && said.contains("2 equivalent"), "{said}");
    let (exit, said, _) = compare(&[&a, &both], &[]);
    assert!(exit == Some(1) && said.contains("1 cell is only in B"), "{said}");
}

#[test]
fn runs_that_failed_count_and_are_said() {
    let scratch = tempfile::tempdir().unwrap();
    let failing = result("old", 0.1).replace("\"mean\"", "\"exit_codes\": [0, 1, null], \"mean\"");
    let file = export(scratch.path(), "a.json", &[failing, result("new", 0.1)]);
    let (_, _, said) = compare(&[&file], &[]);
    let words = "2 of 30 runs of `old` failed (exit code other than 0)";
    assert!(said.contains(words), "{said}");
    let (_, told, _) = compare(&[&file], &["--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["failed_runs"][0].as_str().unwrap().contains(words), "{told}");
}

#[test]
fn an_export_that_cannot_be_compared_is_refused_with_the_remedy() {
    let scratch = tempfile::tempdir().unwrap();
    let of = |name: &str, results: &[String]| export(scratch.path(), name, results);
    let three = of("three.json", &[result("x", 0.1), result("y", 0.1), result("z", 0.1)]);
    let (exit, _, said) = compare(&[&three], &[]);
    assert!(exit == Some(2) && said.contains("`x`, `y`, `z`: compare two exports"), "{said}");
    let without = of("without.json", &[r#"{"command": "x", "mean": 1}"#.to_owned()]);
    let (exit, _, said) = compare(&[&without, &three], &[]);
    assert!(exit == Some(4) && said.contains("without.json") && said.contains("`times`"), "{said}");
    let (exit, _, said) = compare(&[&three, &three], &["--estimator", "ratio"]);
    assert!(exit == Some(2) && said.contains("--estimator"), "{said}");
}

#[test]
fn a_mark_of_the_encoding_before_an_export_is_no_part_of_the_export() {
    let scratch = tempfile::tempdir().unwrap();
    let plain = export(scratch.path(), "a.json", &[result("x", 0.1)]);
    let marked = scratch.path().join("b.json");
    fs::write(&marked, format!("\u{feff}{}", fs::read_to_string(&plain).unwrap())).unwrap();
    let (exit, said, _) = compare(&[&plain, &marked], &[]);
    assert!(exit == Some(0) && said.contains("1 equivalent"), "{said}");
}

#[test]
fn a_comparison_is_a_page_too() {
    let scratch = tempfile::tempdir().unwrap();
    let file = export(scratch.path(), "a.json", &[result("old", 0.1), result("new", 0.2)]);
    let page = scratch.path().join("page.html");
    let to = page.to_str().unwrap();
    let (exit, said, _) = compare(&[&file], &["-o", to]);
    assert_eq!(exit, Some(1));
    let written = fs::read_to_string(&page).unwrap();
    let sentence = said.lines().next().unwrap();
    assert!(sentence.starts_with("B is slower than A"), "{said}");
    // The terminal breaks the sentence into lines, the page does not.
    let whole = sentence.trim_end().replace('>', "&gt;");
    assert!(written.contains(&whole) && written.contains("class=\"words\""), "{whole}");
    let (exit, _, said) = compare(&[&file], &["-o", to]);
    assert!(exit == Some(2) && said.contains("--force"), "{said}");
    let (exit, _, said) = compare(&[&file], &["--force", "-o", file.to_str().unwrap()]);
    assert!(exit == Some(2) && said.contains("a.json"), "{said}");
    let folder = scratch.path().join("results");
    fs::create_dir(&folder).unwrap();
    let inside = export(&folder, "get-1.json", &[result("x", 0.1)]);
    let output = ["--force", "-o", inside.to_str().unwrap()];
    let (exit, _, said) = compare(&[&folder, &folder], &output);
    assert!(exit == Some(2) && said.contains("is one of the compared results"), "{said}");
}
