// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal during a run.

use super::*;

/// Runs it on a terminal of its own, and gives what that was sent.
fn on_a_terminal(command: &Command, directory: &TempDir) -> Option<String> {
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let sent = directory.path().join("sent");
    let script = Command::new("script")
        .args(["-q", "-e", "-c", &format!("stty cols 100 rows 12; {}", words.join(" "))])
        .arg(&sent)
        .env("TERM", "xterm")
        .stdout(std::process::Stdio::null())
        .stdin(std::process::Stdio::null())
        .status();
    match script {
        Ok(status) => {
            let sent = String::from_utf8_lossy(&std::fs::read(&sent).unwrap()).into_owned();
            assert!(status.success(), "{sent}");
            Some(sent)
        }
        Err(error) => {
            println!("skipped: bars on a terminal (script, of util-linux: {error})");
            None
        }
    }
}

#[test]
fn on_a_terminal_every_cell_that_lacks_samples_has_a_bar_and_its_time_left() {
    let (directory, file) = scratch();
    let command = corehop(&[
        "measure",
        "synthetic",
        "--load",
        "idle",
        "--no-real-time",
        "--wss",
        "4KiB,8KiB",
        "--event",
        "idle_leave",
        "--length",
        "2ms",
        "--samples",
        "400",
        "-o",
    ]);
    let mut command = command;
    command.arg(&file);
    let Some(sent) = on_a_terminal(&command, &directory) else { return };
    for (cell, whole) in
        [("idle_leave 4 KiB", "/400"), ("idle_leave 8 KiB", "/400"), ("all", "of 2")]
    {
        let line =
            |line: &&str| line.contains(cell) && line.contains(whole) && line.contains(" left");
        assert!(sent.split(['\r', '\n']).any(|it| line(&it)), "no line of `{cell}` in: {sent}");
    }
}
