// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole tool on a small crate whose mutants have known fates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = r#"
[package]
name = "fixture"
version = "0.1.0"
edition = "2024"

[features]
more = []

[profile.dev]
debug = false
"#;

const LIBRARY: &str = r#"//! Functions whose mutants have known fates.
#![forbid(unsafe_code)]

pub mod inner;

pub fn both(a: bool, b: bool) -> bool {
    a && b
}

pub fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

pub fn unseen(a: u32) -> u32 {
    a + a
}

pub fn join(a: &str, b: &str) -> String {
    a.to_owned() + b
}

pub fn last(list: &mut Vec<f64>) {
    list.push(0.0);
}

pub fn steps(n: u64) -> u64 {
    let mut at = n;
    for _ in std::iter::once(true) {
        at += n;
    }
    at
}

#[cfg(feature = "more")]
pub fn more(a: &str, b: &str) -> String {
    a.to_owned() + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_is_and() {
        assert!(both(true, true) && !both(true, false));
    }

    #[test]
    fn the_least_is_found_by_another_thread() {
        let ask = || (least(1, 2), least(2, 1), least(1, 1));
        assert_eq!(std::thread::spawn(ask).join().unwrap(), (1, 1, 1));
    }

    #[test]
    fn texts_are_joined() {
        assert_eq!(join("a", "b"), "ab");
    }

    #[test]
    fn a_number_is_added() {
        let mut list = vec![1.0];
        last(&mut list);
        assert_eq!(list.len(), 2);
    }

    #[test]
    #[should_panic(expected = "4")]
    fn steps_are_doubled() {
        assert_eq!(steps(2), 5);
    }
}
"#;

const INNER: &str = r#"//! A module whose code only the program reaches.

/// A loop that ends.
pub fn greeting(loud: bool) -> &'static str {
    let mut left = 3_u64;
    while left != 0 {
        left = left.saturating_sub(1);
    }
    match loud {
        yes if yes => "HELLO",
        _ => "hello",
    }
}
"#;

const PROGRAM: &str = r#"//! A program that a test starts.

fn main() {
    println!("{}", fixture::inner::greeting(std::env::args().count() > 1));
}
"#;

const TEST: &str = r#"//! A test of the program.

#[test]
fn the_program_greets() {
    let greet = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_fixture")).args(words).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!((greet(&[]), greet(&["loud"])), ("hello\n".to_owned(), "HELLO\n".to_owned()));
}

#[test]
fn a_test_that_fails_anyway_says_nothing() {
    assert!(fixture::inner::greeting(true).is_empty());
}
"#;

const EQUIVALENT: &str = "\
src/lib.rs
-    if a < b { a } else { b }
+    if a <= b { a } else { b }
= equal numbers are the same number
";

fn write_crate(root: &Path) {
    for (path, text) in [
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", LIBRARY),
        ("src/inner.rs", INNER),
        ("src/main.rs", PROGRAM),
        ("tests/program.rs", TEST),
        (".gitignore", "/target\n/out\n"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let git = Command::new("git").args(["init", "-q"]).current_dir(root).status().unwrap();
    let mut lock = Command::new(env!("CARGO"));
    lock.args(["generate-lockfile", "--offline"]).current_dir(root);
    assert!(git.success() && lock.status().unwrap().success());
}

/// Runs the tool, and returns what it prints.
fn mutants(root: &Path, options: &[&str]) -> String {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_corehop-mutants"));
    tool.args(["-n", "1000", "--patience", "2", "--root"]).arg(root).args(options);
    let output = tool.env_remove("CARGO_TARGET_DIR").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

/// The outcome of each mutant: the file with the line, and the line after the mutation.
fn outcomes(root: &Path) -> BTreeMap<(String, String), String> {
    let text = fs::read_to_string(root.join("out/mutants.jsonl")).unwrap();
    let outcome = |line: &str| {
        let judged: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| judged[key].as_str().unwrap().trim().to_owned();
        let place = format!("{} {}", word("file"), word("before"));
        ((place, word("after")), word("outcome"))
    };
    text.lines().map(outcome).collect()
}

#[test]
fn mutants_are_caught_survive_or_are_not_executed_as_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write_crate(root);
    let before = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let report = mutants(root, &[]);
    let found = outcomes(root);
    let mut expected = BTreeMap::new();
    for (file, line, fates) in [
        ("src/lib.rs", "a && b", &[("(a || b)", "caught")][..]),
        (
            "src/lib.rs",
            "if a < b { a } else { b }",
            &[
                ("if a <= b { a } else { b }", "survived"),
                ("if !(a < b) { a } else { b }", "caught"),
                ("if true { a } else { b }", "caught"),
                ("if false { a } else { b }", "caught"),
            ],
        ),
        ("src/lib.rs", "a + a", &[("a - a", "not-executed")]),
        ("src/lib.rs", "list.push(0.0);", &[("", "caught"), ("list.push(1.0);", "survived")]),
        (
            "src/lib.rs",
            "for _ in std::iter::once(true) {",
            &[("for _ in std::iter::once(false) {", "survived")],
        ),
        ("src/lib.rs", "at += n;", &[("", "caught"), ("at -= n;", "caught")]),
        (
            "src/inner.rs",
            "let mut left = 3_u64;",
            &[("let mut left = 4u64;", "survived"), ("let mut left = 0u64;", "survived")],
        ),
        (
            "src/inner.rs",
            "while left != 0 {",
            &[
                ("while left == 0 {", "survived"),
                ("while left != 1 {", "survived"),
                ("while !(left != 0) {", "survived"),
                ("while true {", "timed-out"),
                ("while false {", "survived"),
            ],
        ),
        (
            "src/inner.rs",
            "left = left.saturating_sub(1);",
            &[
                ("", "timed-out"),
                ("left = left.saturating_sub(0);", "timed-out"),
                ("left = left.saturating_sub(2);", "survived"),
            ],
        ),
        (
            "src/inner.rs",
            "yes if yes => \"HELLO\",",
            &[
                ("yes if !(yes) => \"HELLO\",", "caught"),
                ("yes if true => \"HELLO\",", "caught"),
                ("yes if false => \"HELLO\",", "caught"),
            ],
        ),
    ] {
        for (after, fate) in fates {
            expected.insert((format!("{file} {line}"), (*after).to_owned()), (*fate).to_owned());
        }
    }
    let of_functions = found.iter().filter(|((place, _), _)| !place.contains("println"));
    let of_functions: BTreeMap<_, _> =
        of_functions.map(|(key, fate)| (key.clone(), fate.clone())).collect();
    assert_eq!(of_functions, expected, "{report}");
    assert!(report.contains("src/lib.rs:15: mutant"), "{report}");
    assert_eq!(
        fs::read_to_string(root.join("src/lib.rs")).unwrap(),
        before,
        "the tree is untouched"
    );

    // All results are known, one of them as a mutant that changes nothing.
    fs::write(root.join("out/equivalent.txt"), EQUIVALENT).unwrap();
    let list = root.join("out/equivalent.txt");
    let again = mutants(root, &["--equivalent", list.to_str().unwrap()]);
    assert_eq!(outcomes(root), found);
    assert!(!again.contains("\n1/"), "a known mutant was judged again: {again}");
    assert!(report.contains("\n1/"), "{report}");
    assert!(again.contains("1 more change nothing"), "{again}");
}
