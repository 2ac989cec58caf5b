// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sim calibrate` and `validate FILE.toml` as they are typed.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn corehop(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).current_dir(folder).args(words).output().unwrap()
}

/// Its exit code, and its words on stderr.
fn refused(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = corehop(folder, words);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).replace("\n         ", " "))
}

/// A folder with a description, and samples of some cells that were simulated on it.
fn described() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let written = corehop(at, &["sim", "platform", "xeon_x5650", "-o", "me.toml"]);
    assert!(written.status.success(), "{written:?}");
    let few =
        ["--wss", "4KiB,16KiB", "--event", "none,flush,preemption", "--samples", "24", "--quiet"];
    let measure = ["measure", "synthetic", "--on", "me.toml", "-o", "live.parquet", "--seed", "7"];
    let measured = corehop(at, &[&measure[..], &few].concat());
    assert!(measured.status.success(), "{measured:?}");
    folder
}

#[test]
fn a_machine_that_is_as_described_is_within_the_aims() {
    let folder = described();
    let output =
        corehop(folder.path(), &["sim", "validate-host", "me.toml", "--live", "live.parquet"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("judged: ") && text.contains("order of events: "), "{text}");
    // A row that is too long for the terminal goes on below.
    let rows = text.replace("\n  ", " ");
    assert!(rows.lines().any(|it| it.starts_with("none ") && it.contains(" control")), "{text}");
    let words = ["sim", "validate-host", "me.toml", "--live", "live.parquet", "--json"];
    let answer: serde_json::Value =
        serde_json::from_slice(&corehop(folder.path(), &words).stdout).unwrap();
    assert!(answer["judged"]["median"].as_f64().unwrap() < 0.1, "{}", answer["judged"]);
    assert!(answer["cells"].as_array().unwrap().len() >= 6);
}

#[test]
fn a_description_that_is_wrong_is_found_out() {
    let folder = described();
    let path = folder.path().join("me.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    // Three times as long to everything beyond the caches.
    let wrong = text
        .replace("[memory]\n", "[memory]\n# three times as far\n")
        .replace("183 cycles", "549 cycles");
    assert_ne!(wrong, text.replace("[memory]\n", "[memory]\n# three times as far\n"), "{text}");
    std::fs::write(&path, wrong).unwrap();
    let output =
        corehop(folder.path(), &["sim", "validate-host", "me.toml", "--live", "live.parquet"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn samples_of_another_host_and_options_of_studies_are_refused_by_name() {
    let folder = described();
    let at = folder.path();
    let other = corehop(at, &["sim", "platform", "xeon_l7455", "-o", "other.toml"]);
    assert!(other.status.success());
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["sim", "validate-host", "other.toml", "--live", "live.parquet"],
            2,
            "has samples of xeon_x5650",
        ),
        (&["sim", "validate", "--live", "live.parquet"], 2, "unexpected argument '--live'"),
        (&["sim", "validate-host", "me.toml", "waechtler-a4"], 2, "unexpected argument"),
        (
            &["sim", "validate-host", "me.toml", "--samples", "3"],
            2,
            "unexpected argument '--samples'",
        ),
        (&["sim", "validate-host", "me.toml", "--live", "absent.parquet"], 2, "no such file"),
        (&["sim", "validate-host", "me.toml"], 3, "does not describe this machine"),
    ];
    for (words, code, said) in cases {
        let (exit, text) = refused(at, words);
        assert!(exit == Some(code) && text.contains(said), "{words:?}: {exit:?} {text}");
    }
    // Nothing was measured for it.
    assert!(!at.join("me.live.parquet").exists());
}

#[test]
fn a_calibration_needs_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("me.toml"), "mine").unwrap();
    std::fs::write(at.join("rows.parquet"), "mine").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["sim", "calibrate"], "--output"),
        (&["sim", "calibrate", "-o", "me.toml"], "me.toml: this file exists"),
        (&["sim", "calibrate", "-o", "rows.toml"], "rows.parquet: this file exists"),
        (&["sim", "calibrate", "--measure", "-o", "new.toml"], "unexpected argument '--measure'"),
        (&["sim", "platform", "--resume", "-o", "new.toml"], "--resume"),
    ];
    for (words, said) in cases {
        let (exit, text) = refused(at, words);
        assert!(exit == Some(2) && text.contains(said), "{words:?}: {exit:?} {text}");
    }
    assert_eq!(std::fs::read_to_string(at.join("me.toml")).unwrap(), "mine");
}

/// Interrupts a calibration once it has rows; its exit code, and what it said on stderr.
fn interrupted(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let child =
        command.current_dir(folder).args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let stream = folder.join("me.parquet.part");
    let deadline = Instant::now() + Duration::from_mins(4);
    let long = |path: &Path| std::fs::metadata(path).is_ok_and(|it| it.len() > 200_000);
    while !long(&stream) {
        assert!(Instant::now() < deadline, "no rows in {}", stream.display());
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: takes two integers; the process is a child of this one.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).replace("\n         ", " "))
}

/// The number of rows in a file.
fn rows(folder: &Path, file: &str) -> usize {
    let output = corehop(folder, &["report", "contents", "--rows", "1000000", file]);
    output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{")).count()
}

#[test]
fn an_interrupted_calibration_keeps_its_samples_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (exit, said) = interrupted(at, &["sim", "calibrate", "-o", "me.toml"]);
    assert_eq!(exit, Some(130), "{said}");
    assert!(said.contains("--resume -o me.toml`"), "{said}");
    assert!(!at.join("me.toml").exists() && !at.join("me.parquet.part").exists());
    let first = rows(at, "me.parquet");
    assert!(first > 50, "{first}");
    let (exit, said) = interrupted(at, &["sim", "calibrate", "--resume", "-o", "me.toml"]);
    assert_eq!(exit, Some(130), "{said}");
    assert!(rows(at, "me.parquet") >= first);
}
