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
    assert!(text.contains("aim not judged") && text.contains("2 samples a value"), "{text}");
    assert!(!text.contains("aim reached"), "{text}");
    let answer: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(answer["studies"][0]["aim"]["outcome"], "not_judged");
}

#[test]
fn simulated_core_switches_reach_the_aims_of_all_four_tables_at_once() {
    let validate = |studies: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        command.args(["sim", "validate"]).args(studies).output().unwrap()
    };
    let output = validate(&["strong-2b", "strong-3", "strong-5", "strong-6"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(text.matches("aim reached").count(), 4, "{text}");
    let output = validate(&["strong-2b", "strong-4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .replace("\n         ", " ")
            .contains("`strong-4` is neither a study")
    );
}
