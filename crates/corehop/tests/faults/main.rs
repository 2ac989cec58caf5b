// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failing writes: whatever call fails, the file is the one before or the whole new one, and rows are kept.
#![cfg(target_arch = "x86_64")]

mod tracer;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tracer::{Call, Fault, run};

const RUN: &str = "measure synthetic --on xeon_l7455 --wss 4KiB,8KiB --load idle --samples 6 \
                   --replicates 2 --seed 1 --quiet";
/// At most so many calls of a command fail, evenly spread.
const TRIED: usize = 24;

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(line.split_whitespace());
    command
}

fn output(line: &str) -> Output {
    let output = command(line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Whether this host lets a program be traced; says so if not.
#[expect(clippy::print_stderr, reason = "a test that cannot look says so")]
fn can_trace(folder: &Path) -> bool {
    let tried = run(&mut command("--version"), folder, None);
    if let Err(error) = &tried {
        eprintln!("skipped: a traced program cannot be run here: {error}");
    }
    tried.is_ok()
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The numbers of the calls that are to fail.
fn tried(calls: &[Call]) -> impl Iterator<Item = (usize, Call)> + '_ {
    let step = calls.len().div_ceil(TRIED).max(1);
    calls.iter().copied().enumerate().step_by(step)
}

/// A folder for the outputs of the traced command, and one for its input.
fn folders() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    (folder, out)
}

#[test]
fn a_failure_at_any_call_leaves_the_file_before_or_the_whole_new_one() {
    let (folder, out) = folders();
    if !can_trace(&out) {
        return;
    }
    let input = folder.path().join("q.parquet");
    output(&format!("{RUN} -o {}", input.display()));
    let target = out.join("target");
    for verb in ["convert rows {}", "fit {}", "report {}"] {
        let line = verb.replace("{}", input.to_str().unwrap());
        let line = format!("{line} --force -o {}", target.display());
        fs::write(&target, "before").unwrap();
        let (code, said, calls) = run(&mut command(&line), &out, None).unwrap();
        assert_eq!(code, 0, "{line}: {said}");
        assert!(
            [Call::Create, Call::Write, Call::Sync, Call::Rename]
                .iter()
                .all(|it| calls.contains(it))
        );
        let whole = fs::read(&target).unwrap();
        for (number, call) in tried(&calls) {
            for errno in [libc::EIO, libc::ENOSPC] {
                fs::write(&target, "before").unwrap();
                let fault = Some((number, Fault::Error(errno)));
                let (code, said, _) = run(&mut command(&line), &out, fault).unwrap();
                let which = format!("{line}, {call:?} {number} of {}: {said}", calls.len());
                assert_eq!(code, 6, "{which}");
                assert!(said.contains("target"), "{which}");
                let after = fs::read(&target).unwrap();
                // Only the last call, the folder's sync, comes after the file is in its place.
                let placed = number + 1 == calls.len();
                assert!(after == if placed { &whole[..] } else { b"before" }, "{which}");
                assert_eq!(names(&out), ["target"], "{which}");
            }
        }
    }
}

#[test]
fn an_interrupted_or_short_write_is_finished() {
    let (folder, out) = folders();
    if !can_trace(&out) {
        return;
    }
    let input = folder.path().join("q.parquet");
    output(&format!("{RUN} -o {}", input.display()));
    let target = out.join("target");
    for verb in ["convert rows {}", "fit {}", "report {}"] {
        let line = verb.replace("{}", input.to_str().unwrap());
        let line = format!("{line} --force -o {}", target.display());
        let (_, _, calls) = run(&mut command(&line), &out, None).unwrap();
        let whole = fs::read(&target).unwrap();
        for (number, call) in tried(&calls) {
            let faults: &[Fault] = match call {
                Call::Write => &[Fault::Error(libc::EINTR), Fault::Short],
                Call::Sync => &[Fault::Error(libc::EINTR)],
                Call::Create | Call::Rename => &[],
            };
            for &fault in faults {
                let (code, said, _) =
                    run(&mut command(&line), &out, Some((number, fault))).unwrap();
                assert_eq!(code, 0, "{line}, {call:?} {number}, {fault:?}: {said}");
                assert!(
                    fs::read(&target).unwrap() == whole,
                    "{line}, {call:?} {number}, {fault:?}"
                );
            }
        }
    }
}

/// The number of samples of each event, and what became of them.
fn counts(path: &Path) -> serde_json::Value {
    let said = output(&format!("show --json {}", path.display())).stdout;
    let mut said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    said["budget"]["by_event"].take()
}

#[test]
fn a_run_whose_write_fails_keeps_its_rows_and_goes_on_with_resume() {
    let (_folder, out) = folders();
    if !can_trace(&out) {
        return;
    }
    let target = out.join("q.parquet");
    let line = format!("{RUN} -o {}", target.display());
    let (code, said, calls) = run(&mut command(&line), &out, None).unwrap();
    assert_eq!(code, 0, "{said}");
    let whole = counts(&target);
    assert!(whole[0]["n_all"] == 12, "{whole}");
    for (number, call) in tried(&calls) {
        for name in names(&out) {
            fs::remove_file(out.join(name)).unwrap();
        }
        let fault = Some((number, Fault::Error(libc::EIO)));
        let (code, said, _) = run(&mut command(&line), &out, fault).unwrap();
        let which = format!("{call:?} {number} of {}: {said}", calls.len());
        assert_eq!(code, 6, "{which}");
        assert!(said.contains("q.parquet"), "{which}");
        let left = names(&out);
        assert!(
            left.iter().all(|name| ["q.parquet", "q.parquet.part"].contains(&name.as_str())),
            "{which} {left:?}"
        );
        let again = if left.is_empty() { line.clone() } else { format!("{line} --resume") };
        output(&again);
        assert_eq!(names(&out), ["q.parquet"], "{which}");
        assert_eq!(counts(&target), whole, "{which}");
    }
}
