// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transfers of nothing, files that wait, and files that each thread has for itself: as without the library.

use std::process::{Command, Stdio};

use super::{compiled, offload, said, two_cpus};

const FILES: &str = include_str!("files.c");

#[test]
fn empty_transfers_files_that_wait_and_files_of_a_thread_are_as_without_the_library() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "files", FILES);
    let run = |command: &mut Command| {
        let inner = tempfile::tempdir().unwrap();
        let output = command.current_dir(inner.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // A program that waits for ever fails the test.
    let bounded = ["timeout", "--signal=KILL", "60"];
    let alone = run(Command::new(bounded[0]).args(&bounded[1..]).arg(&program));
    assert!(alone.contains("open 1\nopenat 1\nlink 1\nO_PATH 1\nstat 1 1 1\nlstat 1\n"), "{alone}");
    for missing in ["no FUSE", "no tracefs"] {
        if alone.contains(missing) {
            println!("skipped in part: {missing}");
        }
    }
    for mechanism in ["v2", "v5"] {
        let all = ["--decide", "always", "--threshold", "0B", "--mechanism", mechanism, "-q"];
        let there = run(&mut offload(&all, &[&bounded[..], &[&program]].concat()));
        assert_eq!(there, alone, "{mechanism}");
    }
}
