// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions and man pages know the experiments and their options.

use std::process::Command;

#[test]
fn every_shell_gets_completions_that_know_the_experiments() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = Command::new(env!("CARGO_BIN_EXE_corehop"))
            .args(["completions", shell])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        for word in ["preemption-length", "preemptor-wss", "schedule-sensitive"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn there_is_a_man_page_for_each_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("man1");
    let status =
        Command::new(env!("CARGO_BIN_EXE_corehop")).arg("manual").arg(&to).status().unwrap();
    assert!(status.success());
    let page = std::fs::read_to_string(to.join("corehop-measure-synthetic.1")).unwrap();
    assert!(page.contains("preemptor") && page.contains(".TH"), "{page}");
    assert!(to.join("corehop-check.1").exists());
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let refused =
        Command::new(env!("CARGO_BIN_EXE_corehop")).arg("manual").arg(&blocked).output().unwrap();
    assert_eq!(refused.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("file"));
}
