// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of verbs on files: no input is destroyed, nothing existing is overwritten, a run owns its output.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "../../corehop-linux/tests/harness/denied.rs"]
mod denied;

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(words);
    command
}

fn corehop(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A short simulated run.
const RUN: &str = "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 --quiet";
/// One that takes minutes, and writes soon.
const LONG: &str =
    "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 40000 --quiet";

/// The words of a command line, and more of them.
fn words<'a>(line: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    line.split_whitespace().chain(more.iter().copied()).collect()
}

fn samples(folder: &Path) -> PathBuf {
    let path = folder.join("q.parquet");
    let output = corehop(&words(RUN, &["-o", text(&path)]));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    path
}

#[test]
fn no_verb_writes_over_its_input_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let input = samples(folder.path());
    let link = folder.path().join("link.parquet");
    fs::hard_link(&input, &link).unwrap();
    let (input, link) = (text(&input), text(&link));
    let before = fs::read(input).unwrap();
    for output in [input, link] {
        for words in [
            &["report", input, "--force", "-o", output][..],
            &["advise", "fit", input, "--force", "-o", output],
            &["advise", input, "--force", "-o", output],
            &["convert", "costs", input, "--force", "-o", output],
            &["check", "study", input, "--force", "-o", output],
            &["check", "study", input, "--force", "--page", output],
        ] {
            let refused = corehop(words);
            assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", said(&refused));
            assert!(said(&refused).contains("already"), "{words:?}: {}", said(&refused));
            assert!(fs::read(input).unwrap() == before, "{words:?}");
        }
    }
}

#[test]
fn an_existing_file_is_overwritten_with_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let input = samples(folder.path());
    let notes = folder.path().join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let onto_notes = [
        &["report", text(&input), "-o", text(&notes)][..],
        &["advise", "fit", text(&input), "-o", text(&notes)],
        &["sim", "platform", "xeon_l7455", "-o", text(&notes)],
        &["sim", "platform", "xeon_l7455", "--svg", text(&notes)],
    ];
    for words in onto_notes {
        let refused = corehop(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", said(&refused));
        assert!(said(&refused).contains("--force"), "{words:?}: {}", said(&refused));
        assert_eq!(fs::read_to_string(&notes).unwrap(), "mine", "{words:?}");
    }
    let again = words(RUN, &["-o", text(&input)]);
    let before = fs::read(&input).unwrap();
    let refused = corehop(&again);
    assert_eq!((refused.status.code(), fs::read(&input).unwrap() == before), (Some(2), true));
    for words in onto_notes {
        let done = corehop(&[words, &["--force"]].concat());
        assert!(matches!(done.status.code(), Some(0 | 1)), "{words:?}: {}", said(&done));
    }
    let done = corehop(&[&again[..], &["--force", "--seed", "2"]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert!(fs::read(&input).unwrap() != before);
}

#[test]
fn a_planted_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, target) = (folder.path().join("secret"), folder.path().join("q.parquet"));
    fs::write(&secret, "root's").unwrap();
    for planted in ["q.parquet.part", "q.parquet", "q.parquet.converting"] {
        let planted = folder.path().join(planted);
        std::os::unix::fs::symlink(&secret, &planted).unwrap();
        let _refused_or_done = corehop(&words(RUN, &["--force", "-o", text(&target)]));
        assert_eq!(fs::read_to_string(&secret).unwrap(), "root's", "{}", planted.display());
        fs::remove_file(&planted).unwrap();
        let _ = fs::remove_file(&target);
    }
}

#[test]
fn nothing_to_resume_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.parquet");
    let refused = corehop(&words(RUN, &["--resume", "-o", text(&path)]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("nothing to resume"), "{}", said(&refused));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A run that ends with the test, however that ends.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run under way, which has written its first rows.
fn under_way(output: &Path) -> Run {
    let part = PathBuf::from(format!("{}.part", output.display()));
    let words = words(LONG, &["-o", text(output)]);
    let run = Run(command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let size = || fs::metadata(&part).map_or(0, |about| about.len());
    let begin = Instant::now();
    let head = loop {
        let now = size();
        if now > 0 {
            break now;
        }
        assert!(begin.elapsed() < Duration::from_mins(2), "the run does not begin");
        std::thread::sleep(Duration::from_millis(20));
    };
    while size() <= head {
        assert!(begin.elapsed() < Duration::from_mins(3), "the run writes nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    run
}

#[test]
fn a_second_run_into_the_same_file_is_refused_with_the_owner_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("q.parquet");
    let mut run = under_way(&output);
    let pid = run.0.id().to_string();
    for more in [&[][..], &["--resume"], &["--force"]] {
        let refused = corehop(&[&words(LONG, &["-o", text(&output)])[..], more].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}: {}", said(&refused));
        assert!(said(&refused).contains("another run"), "{more:?}: {}", said(&refused));
        assert!(said(&refused).contains(&pid), "{more:?}: {}", said(&refused));
    }
    // SAFETY: signals a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.0.id().cast_signed(), libc::SIGINT) }, 0);
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    let shown = corehop(&["report", "contents", text(&output), "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown["n_rows"].as_u64().unwrap() > 0, "{shown}");
}

#[test]
fn after_a_kill_the_rows_are_resumed_and_the_lock_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("q.parquet");
    let mut run = under_way(&output);
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    let part = PathBuf::from(format!("{}.part", output.display()));
    let rows = |path: &Path| {
        let shown = corehop(&["report", "contents", text(path), "--json"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["n_rows"].as_u64().unwrap()
    };
    let before = rows(&part);
    // What an older corehop left beside a newer stream is not the run to resume.
    let stale = PathBuf::from(format!("{}.earlier", output.display()));
    fs::write(&stale, "stale").unwrap();
    let resumed = corehop(&words(LONG, &["--resume", "--budget", "1ms", "-o", text(&output)]));
    assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
    assert!(before > 0 && rows(&output) >= before);
    assert!(!part.exists());
    assert_eq!(fs::read_to_string(&stale).unwrap(), "stale");
}

#[test]
fn rows_of_one_kind_outlive_a_resumed_run_that_cannot_read_those_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("s.parquet");
    let run = "measure schedule-sensitive --scheduler eevdf --tasks 2 --sets 1 --wss 16KiB \
               --duration 300ms --load idle --seed 3 --quiet";
    let made = corehop(&words(run, &["-o", text(&output)]));
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let stream = |file: &Path| PathBuf::from(format!("{}.part", file.display()));
    let kinds: Vec<PathBuf> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(kinds.len() > 1, "{kinds:?}");
    // As an interrupted run leaves them, but one is damaged, each in its turn.
    for damaged in &kinds {
        let here = tempfile::tempdir().unwrap();
        let place = |file: &Path| here.path().join(file.file_name().unwrap());
        for file in &kinds {
            fs::copy(file, stream(&place(file))).unwrap();
        }
        fs::write(stream(&place(damaged)), "damaged").unwrap();
        let again = corehop(&words(run, &["--resume", "-o", text(&place(&output))]));
        assert_eq!(again.status.code(), Some(4), "{}", said(&again));
        for file in kinds.iter().filter(|&file| file != damaged) {
            let shown = corehop(&["report", "contents", text(&stream(&place(file))), "--json"]);
            let before = corehop(&["report", "contents", text(file), "--json"]);
            let rows = |output: &Output| -> u64 {
                let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                shown["n_rows"].as_u64().unwrap()
            };
            assert_eq!(rows(&shown), rows(&before), "{} is lost", file.display());
        }
        assert_eq!(fs::read_to_string(stream(&place(damaged))).unwrap(), "damaged");
    }
}

#[test]
fn where_locks_are_refused_a_run_leaves_nothing_that_blocks_the_next() {
    let folder = tempfile::tempdir().unwrap();
    for errno in [libc::ENOLCK, libc::EOPNOTSUPP, libc::EPERM, libc::ENOSYS] {
        let path = folder.path().join(format!("{errno}.parquet"));
        for more in [&[][..], &["--force"], &["--resume"]] {
            let more = [&["-o", text(&path)], more].concat();
            let mut run = command(&words(RUN, &more));
            // SAFETY: `deny` makes system calls only; it neither allocates nor locks.
            unsafe {
                run.pre_exec(move || denied::deny(libc::SYS_flock, errno));
            }
            let output = run.output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{errno} {more:?}: {}", said(&output));
            assert!(path.exists() && !path.with_extension("parquet.part").exists());
        }
    }
}

#[test]
fn a_second_placer_with_the_same_log_is_refused_before_its_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mark) = (folder.path().join("log.jsonl"), folder.path().join("started"));
    let place = |program: &[&str], more: &[&str]| {
        let words = ["place", "--dry-run", "-o", text(&log)];
        command(&[&words[..], more, &["--"], program].concat())
    };
    let mut first = place(&["sleep", "20"], &[]);
    let mut first = Run(first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    while !fs::metadata(&log).is_ok_and(|about| about.len() > 0) {
        if let Some(status) = first.0.try_wait().unwrap() {
            return println!("skipped: placing here: {status}");
        }
        assert!(begin.elapsed() < Duration::from_mins(2), "the placer does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    for more in [&["--force"][..], &[]] {
        let refused = place(&["touch", text(&mark)], more).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{more:?}: {}", said(&refused));
        assert!(!mark.exists(), "{more:?}: the program ran");
    }
    let refused = place(&["true"], &["--force"]).output().unwrap();
    let owner = format!("process {}", first.0.id());
    assert!(said(&refused).contains(&owner), "{}", said(&refused));
    assert_eq!(first.0.wait().unwrap().code(), Some(0));
    let lines = fs::read_to_string(&log).unwrap();
    for line in lines.lines() {
        let parsed = serde_json::from_str::<serde_json::Value>(line);
        assert!(parsed.is_ok(), "a torn line: {line}");
    }
    let heads = lines.lines().filter(|line| line.contains("\"caches\"")).count();
    assert_eq!(heads, 1, "{lines}");
    let shown = corehop(&["report", "contents", text(&log)]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("windows") && !shown.contains("torn off"), "{shown}");
}
