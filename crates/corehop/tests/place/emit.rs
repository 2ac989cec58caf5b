// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kept placement written down: the text, the exit code, and masks that are back where they were.

use super::*;

/// With every verdict that this host may give, the masks are back and the exit code says what was printed.
#[test]
fn after_a_verdict_it_ends_with_the_placement_or_the_reason_and_all_masks_are_back() {
    let Some(scene) = scene() else { return };
    let Scene { turns, count, before, folder, .. } = &scene;
    let pid = turns.pid();
    let file = folder.path().join("corehop.conf");
    let name = file.to_str().unwrap();
    let common = ["--window", "20ms", "--for", "12s", "--progress", count, "--force"];
    for more in [&["--emit", "json"][..], &["--emit", "systemd", "-o", name]] {
        let begun = Instant::now();
        let output = place(&[&common, more, &[&pid]].concat()).output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert_eq!(turns.cpus(), *before, "{more:?}: {}", said(&output));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let kept = match output.status.code() {
            Some(0) => true,
            Some(1) => false,
            code => panic!("{code:?}: {}", said(&output)),
        };
        if more.contains(&"json") {
            check_json(&serde_json::from_str(&text).unwrap(), kept, turns);
            assert_eq!(said(&output).contains("Nothing to pin: "), !kept, "{}", said(&output));
        } else {
            let sentence = text.lines().next().unwrap();
            assert_eq!(sentence.starts_with("Nothing to pin: "), !kept, "{text}");
            let written = std::fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(written.contains("\nCPUAffinity="), kept, "{written}");
            assert_eq!(file.exists(), kept, "without a placement there is no file");
            assert!(written.lines().all(|it| it.chars().count() <= 100), "{written}");
        }
    }
}

fn check_json(json: &Value, kept: bool, turns: &Turns) {
    let placement = json["placement"].as_array().unwrap();
    assert_eq!(placement.is_empty(), !kept, "{json:#}");
    if !kept {
        assert!(json["why"].as_str().unwrap().starts_with("Nothing to pin: "), "{json:#}");
        return;
    }
    let ours: Vec<u64> = turns.both().into_iter().map(|it| it.cast_unsigned().into()).collect();
    assert!(placement.iter().all(|it| ours.contains(&it["tid"].as_u64().unwrap())), "{json:#}");
    let evidence = &json["evidence"];
    assert!(evidence["low"].as_f64().unwrap() > 1.0, "{json:#}");
    assert!(evidence["pairs"].as_u64().unwrap() >= 6 && evidence["wake_up"].is_object());
    assert!(evidence["host"]["date"].as_str().unwrap().starts_with("20"), "{json:#}");
}

#[test]
fn a_program_that_does_not_hand_over_has_nothing_to_pin_and_no_file_is_left() {
    let Some(scene) = scene() else { return };
    let file = scene.folder.path().join("pin.sh");
    let words =
        ["--emit", "taskset", "--window", "20ms", "--for", "1s", "-o", file.to_str().unwrap()];
    let more = ["--progress", &scene.count, "--", "sleep", "0.6"];
    let output = place(&[&words[..], &more].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Nothing to pin: "), "{}", said(&output));
    assert!(!file.exists() && output.stdout.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_threads_move_or_ends_with_its_code_and_masks_back()
 {
    let Some(scene) = scene() else { return };
    let Scene { turns, count, before, .. } = &scene;
    let pid = turns.pid();
    let run = |file: &str, more: &[&str]| {
        let words = ["--emit", "systemd", "--window", "20ms", "--for", "12s", "--progress", count];
        place(&[&words[..], &["-o", file], more, &[&pid]].concat()).output().unwrap()
    };
    let missing = run("/nowhere/corehop.conf", &[]);
    assert_eq!(missing.status.code(), Some(2), "{}", said(&missing));
    assert!(said(&missing).contains("its folder does not exist"), "{}", said(&missing));
    // The device takes nothing; whether a write is tried depends on the verdict.
    let full = run("/dev/full", &[]);
    match full.status.code() {
        Some(6) => assert!(said(&full).contains("/dev/full"), "{}", said(&full)),
        code => assert_eq!(code, Some(1), "{}", said(&full)),
    }
    assert_eq!(turns.cpus(), *before);
}

#[test]
fn what_gives_no_verdict_cannot_be_emitted_and_the_refusal_names_the_option() {
    for (more, words) in [
        (&["--emit", "systemd", "1"][..], "--progress"),
        (&["--emit", "systemd", "--dry-run", "--progress", "x", "1"], "--dry-run"),
        (&["--emit", "json", "--json", "--progress", "x", "1"], "--json"),
        (&["--emit", "unit", "--progress", "x", "1"], "taskset, systemd, cpuset, json"),
    ] {
        let output = place(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{more:?}: {}", said(&output));
    }
}
