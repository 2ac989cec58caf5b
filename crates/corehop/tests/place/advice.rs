// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice: what a placer that may move nothing says of running processes, when, and where.

use super::*;

/// A look at its terminal, by Python: the output of a command whose stderr is one.
const TERMINAL: &str = "import os, pty, subprocess, sys
here, there = pty.openpty()
command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=there)
os.close(there)
try:
    while data := os.read(here, 4096): sys.stdout.buffer.write(data)
except OSError: pass
sys.exit(command.wait())
";

fn windows(log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap().matches("\"window\":{").count()
}

#[test]
fn advice_is_printed_after_the_first_windows_and_the_placer_ends_unless_it_is_told_to_go_on() {
    let Some(scene) = scene() else { return };
    let Scene { turns, count, before, folder, .. } = &scene;
    let log = folder.path().join("log.jsonl");
    let name = log.to_str().unwrap();
    let pid = turns.pid();
    for more in [&[][..], &["--dry-run", "--progress", count]] {
        let words = [&["--window", "50ms", "--force", "-o", name], more, &[&pid]].concat();
        let output = place(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(windows(&log), 20, "{words:?}");
        // The sentences, then the evidence for them; nothing else in a pipe. A setting for all programs comes first.
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let first = text.split("\n\n").next().unwrap().replace('\n', " ");
        let placement = first.split("changes no setting. ").last().unwrap();
        assert!(
            placement.starts_with("No placement is worth") || placement.contains("), not tried: "),
            "{text}"
        );
        let cures = first.contains("One setting first");
        assert_eq!(cures, placement != first, "{text}");
        assert!(!cures || first.starts_with("One setting first"), "{text}");
        assert!(
            text.contains("A wake-up costs ") || text.contains("What a wake-up costs"),
            "{text}"
        );
        assert!(text.contains("wake-ups/s") && text.contains(" looks"), "{text}");
        assert!(text.lines().all(|it| it.chars().count() <= 100), "{text}");
        assert!(!said(&output).contains("window"), "{}", said(&output));
        let replayed = corehop(&["place", "replay", name]);
        assert_eq!(replayed.status.code(), Some(0), "{}", said(&replayed));
        let shown = corehop(&["report", "contents", "--json", name]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(shown["whole"], true);
        check_advice(&shown["answer"]);
    }
    // Twenty windows would be over before.
    let words = ["--window", "20ms", "--for", "3s", "--force", "-o", name, &pid];
    let begin = Instant::now();
    let output = place(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(begin.elapsed() >= Duration::from_secs(3) && windows(&log) >= 5, "{}", windows(&log));
    assert_eq!(turns.cpus(), *before);
}

#[test]
fn on_a_terminal_every_window_renews_a_line() {
    let Some(scene) = scene() else { return };
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL, env!("CARGO_BIN_EXE_corehop"), "place", &scene.turns.pid()]);
    let output = command.env("TERM", "xterm").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // A line that is drawn too soon after another one is left out.
    let drawn = (1..=20).filter(|it| text.contains(&format!("window {it} of 20: "))).count();
    assert!(drawn > 5, "{drawn}: {text}");
}
