// SPDX-License-Identifier: MIT OR Apache-2.0
//! `validate` as it is typed, on few samples of small working sets.

use std::process::Command;

#[test]
fn with_fewer_samples_than_a_study_takes_its_aim_is_not_judged() {
    let run = |more: &[&str]| {
        let asked = ["sim", "validate", "waechtler-a4", "--wss", "4KiB", "--samples", "2"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let output = command.args(asked).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    assert!(text.contains("aim not judged") && text.contains("2 samples per value"), "{text}");
    assert!(!text.contains("aim reached"), "{text}");
    let answer: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(answer["studies"][0]["aim"]["outcome"], "not_judged");
}

fn validate(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output = command.args(["sim", "validate"]).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\n         ", " ");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_study_that_reaches_its_aims_ends_with_0_and_one_whose_rows_judge_nothing_with_1() {
    let (exit, text, _) = validate(&["waechtler-5-3"]);
    assert_eq!(exit, Some(0), "{text}");
    assert!(text.contains("judged: 5 rows") && text.contains("aim reached"), "{text}");
    let (exit, text, _) = validate(&["strong-5"]);
    assert_eq!(exit, Some(1), "{text}");
    assert!(text.contains("chosen on: 6 rows") && text.contains("aim not judged"), "{text}");
    assert!(!text.contains(" judged:"), "{text}");
}

#[test]
fn what_is_no_study_and_a_platform_that_a_study_does_not_use_are_refused() {
    for (words, said) in [
        (&["strong-2b", "strong-4"][..], "`strong-4` is neither a study"),
        (&["strong-2b", "--on", "xeon_x5650"], "strong-2b does not describe a single machine"),
        (
            &["kamali-regression", "--on", "xeon_x5650"],
            "kamali-regression does not describe a single machine",
        ),
    ] {
        let (exit, _, error) = validate(words);
        assert!(exit == Some(2) && error.contains(said), "{words:?}: {exit:?} {error}");
    }
}
