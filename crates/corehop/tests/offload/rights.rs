// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that give up rights: no partner keeps them, and each call answers as it does without the library.

use std::process::{Command, Output};

use super::{compiled, offload, said, two_cpus};

const RIGHTS: &str = include_str!("rights.c");
const SEVERAL: &str = include_str!("several.c");

const ALL: [&str; 5] = ["--decide", "always", "--threshold", "1B", "-q"];
/// The mechanisms with a partner.
const MECHANISMS: [&str; 4] = ["v2", "v3", "v4", "v5"];

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program in a folder, with every call there, by this mechanism.
fn there(folder: &tempfile::TempDir, mechanism: &str, program: &[&str]) -> Output {
    let mut command = offload(&[&ALL[..], &["--mechanism", mechanism]].concat(), program);
    command.current_dir(folder.path()).output().unwrap()
}

#[test]
fn no_thread_keeps_rights_that_the_program_gave_up_by_a_function_or_by_syscall() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "rights", RIGHTS);
    let alone = Command::new(&program).current_dir(folder.path()).output().unwrap();
    assert!(alone.status.success() && text(&alone).lines().count() == 46, "{}", text(&alone));
    assert!(!text(&alone).contains("rights 1") && said(&alone).contains("partners 0"));
    for mechanism in MECHANISMS {
        let there = there(&folder, mechanism, &[&program]);
        assert_eq!(text(&there), text(&alone), "{mechanism}");
        // Each child had a partner before.
        assert!(said(&there).contains("partners 46"), "{mechanism}: {}", said(&there));
    }
}

/// 1000 by `COREHOP_CHILDREN=1000`.
#[test]
fn a_user_namespace_is_made_as_without_the_library() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "rights", RIGHTS);
    let children = std::env::var("COREHOP_CHILDREN").unwrap_or_else(|_| "100".to_owned());
    let alone = Command::new(&program).arg("1").current_dir(folder.path()).output().unwrap();
    if text(&alone) != "refused 0\n" {
        println!("skipped: this host refuses unshare(CLONE_NEWUSER)");
        return;
    }
    for mechanism in MECHANISMS {
        let there = there(&folder, mechanism, &[&program, &children]);
        assert_eq!(text(&there), "refused 0\n", "{mechanism}: {}", said(&there));
    }
}

#[test]
fn busy_threads_that_give_up_rights_in_a_handler_or_all_at_once_leave_no_partner() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "several", SEVERAL);
    for mechanism in ["v2", "v5"] {
        let there = there(&folder, mechanism, &[&program]);
        let expected = "left by handlers 0, by one call for all 0\n";
        assert_eq!(text(&there), expected, "{mechanism}: {}", said(&there));
        assert!(said(&there).contains("rounds with partners 50"), "{mechanism}: {}", said(&there));
    }
}
