// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions and man pages know the experiments and their options.

use std::process::Command;

#[test]
fn every_shell_gets_completions_that_know_the_experiments() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = Command::new(env!("CARGO_BIN_EXE_corehop"))
            .args(["help", "--completions", shell])
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
    assert!(String::from_utf8_lossy(&refused.stderr).replace("\n         ", " ").contains("file"));
}

#[test]
fn a_page_that_exists_is_overwritten_with_force_only_and_no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (man, secret) = (folder.path().join("man1"), folder.path().join("secret"));
    let manual = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        command.arg("manual").arg(&man).args(more).output().unwrap()
    };
    assert!(manual(&[]).status.success());
    let pages = std::fs::read_dir(&man).unwrap().count();
    let page = man.join("corehop-check.1");
    std::fs::write(&page, "mine").unwrap();
    let refused = manual(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).replace("\n         ", " ").contains("--force")
    );
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
    assert!(manual(&["--force"]).status.success());
    assert!(std::fs::read_to_string(&page).unwrap().contains(".TH"));
    std::fs::write(&secret, "secret").unwrap();
    std::fs::remove_file(&page).unwrap();
    std::os::unix::fs::symlink(&secret, &page).unwrap();
    let refused = manual(&["--force"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).replace("\n         ", " ").contains("link"));
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(&man).unwrap().count(), pages, "nothing is left behind");
}
