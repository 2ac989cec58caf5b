// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets whose jobs come late, wait at locks, suspend themselves or activate others, as `check`, `convert` and `advise` take them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn corehop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// The answer to an example that was changed by replacing texts, and the exit code.
fn checked(name: &str, changes: &[(&str, &str)], more: &[&str]) -> (Value, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    let mut text = std::fs::read_to_string(example(name)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&file, text).unwrap();
    let output = corehop(&[&["check", file.to_str().unwrap(), "--json"], more].concat());
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output.status.code())
}

#[test]
fn locks_are_charged_by_their_protocol() {
    // `control` waits for 400 of `video`; with priority inheritance not for `log`, which it does not use, nor do more urgent ones.
    let (answer, code) = checked("locks.json", &[], &[]);
    assert_eq!((&answer["test"], code), (&json!("p-fp-rta"), Some(0)));
    // 600 + 400; 4000 + 900 and two jobs of 600; 3000 + 4000 and two of 600.
    assert_eq!(answer["bounds_us"], json!([1_000, 6_100, 8_200]));
    let two =
        [(r#""resource": "log", "longest_us": 900"#, r#""resource": "bus", "longest_us": 900"#)];
    let bound = |locking: &str| {
        let changes = [two[0], (r#""pi""#, locking)];
        checked("locks.json", &changes, &["--scheduler", "p-fp"]).0["bounds_us"][0].clone()
    };
    // Two less urgent tasks with sections of one lock: it has one holder.
    assert_eq!(
        (bound(r#""pi""#), bound(r#""pcp""#), bound(r#""srp""#)),
        (json!(1_500), json!(1_500), json!(1_500))
    );
    let other = [(
        r#""longest_us": 100}"#,
        r#""longest_us": 100}, {"resource": "log", "longest_us": 100}"#,
    )];
    let bound = |locking: &str| {
        let changes = [other[0], (r#""pi""#, locking)];
        checked("locks.json", &changes, &["--scheduler", "p-fp"]).0["bounds_us"][0].clone()
    };
    // Of two locks each less urgent task can hold one.
    assert_eq!((bound(r#""pi""#), bound(r#""pcp""#)), (json!(600 + 400 + 900), json!(600 + 900)));
}

#[test]
fn who_does_not_know_of_locks_says_so() {
    for (more, words) in [
        (
            &["--test", "g-edf"][..],
            "has critical sections (`locks`), which the test does not charge",
        ),
        (&["--scheduler", "p-edf"], "stack resource policy"),
        (&["--delay", "10us"], "priority inheritance"),
    ] {
        let (answer, code) = checked("locks.json", &[], more);
        assert_eq!((&answer["schedulable"], code), (&json!("unknown"), Some(1)), "{more:?}");
        assert!(answer["why"].as_str().unwrap().contains(words), "{more:?}: {answer}");
    }
    assert_eq!(checked("locks.json", &[(r#""pi""#, r#""pcp""#)], &["--delay", "10us"]).1, Some(0));
    assert_eq!(
        checked(
            "locks.json",
            &[(r#", "locks": [{"resource": "log", "longest_us": 900}]"#, r#", "lock": []"#)],
            &[]
        )
        .1,
        Some(4)
    );
}

#[test]
fn chains_have_latencies_from_end_to_end() {
    let (answer, code) = checked("chain.json", &[], &[]);
    assert_eq!((&answer["test"], code), (&json!("p-fp-given"), Some(0)));
    // 10 on one CPU, 2 on the other; the sensor's response counts from its arrival, 5 before.
    assert_eq!(
        (&answer["latencies_us"], &answer["bounds_us"]),
        (&json!([12]), &json!([15, 13, 2]))
    );
    let (answer, code) =
        checked("chain.json", &[(r#""deadline_us": 15"#, r#""deadline_us": 11"#)], &[]);
    assert_eq!((&answer["schedulable"], code), (&json!("unknown"), Some(1)));
    assert_eq!(answer["sentence"], "unknown: chain `brake` can take 12 us and has 11 us");
    // By timers each task adds its period: 15 + 30 and 2 + 30.
    let timers = [(r#""event", "deadline_us": 15"#, r#""periodic", "deadline_us": 77"#)];
    assert_eq!(checked("chain.json", &timers, &[]).0["latencies_us"], json!([77]));
}

#[test]
fn converters_and_runs_say_what_they_leave_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let set = example("locks.json");
    let set = set.to_str().unwrap();
    let written = corehop(&["convert", "rt-app", set, "-o", &file("rtapp.json")]);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let says = String::from_utf8_lossy(&written.stderr).replace('\n', " ");
    assert!(says.contains("rt-app does not support: locks"), "{says}");
    let back = corehop(&["convert", "tasks", &file("rtapp.json"), "-o", &file("back.json")]);
    assert_eq!(back.status.code(), Some(0), "{back:?}");
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(name).unwrap()).unwrap()
    };
    let (first, back) = (read(set), read(&file("back.json")));
    assert_eq!(
        (&back["locking"], &back["tasks"][1]["locks"]),
        (&first["locking"], &first["tasks"][1]["locks"])
    );
}
