// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journals, and places for them, that are not what they should be.

use std::fs;
use std::io::BufRead;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use corehop_system::supervisor::{
    Guard, ProcessId, RestoreOutcome, SupervisorError, Undo, UndoOutcome, restore,
};
use tempfile::TempDir;

use crate::guarded;
use crate::harness::skipped;
use crate::run::{Run, Sleeper, eventually, is_root, kill};

/// A journal that a dead process of this boot would have left in `folder`.
fn journal(folder: &Path, owner: ProcessId, lines: &[String]) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let ProcessId { pid, start_time } = owner;
    let header = format!(
        r#"{{"corehop_journal":1,"program_version":"0.1.0","owner":{{"pid":{pid},"start_time":{start_time}}},"boot_id":"{}"}}"#,
        boot.trim()
    );
    let path = folder.join(format!("{pid}-0.journal"));
    fs::write(&path, format!("{header}\n{}", lines.concat())).unwrap();
    path
}

fn line(undo: &Undo) -> String {
    format!("{{\"state\":\"live\",\"undo\":{}}}\n", serde_json::to_string(undo).unwrap())
}

fn private_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A process that was, and is no more.
fn dead() -> ProcessId {
    Sleeper::begin().id()
}

pub(crate) fn a_number_that_has_gone_to_another_process_is_not_killed() {
    let mut stranger = Sleeper::begin();
    let process = stranger.id();
    let former = ProcessId { start_time: process.start_time - 1, ..process };
    for (leader, outcome) in [(former, UndoOutcome::AlreadyGone), (process, UndoOutcome::Undone)] {
        let folder = private_folder();
        let entry = Undo::KillProcessGroup { leader };
        journal(folder.path(), dead(), &[line(&entry)]);
        assert!(process.is_alive(), "killed for {former:?}");
        let restored = restore(folder.path()).unwrap();
        let expected = vec![(entry.to_string(), outcome)];
        assert_eq!(
            restored[0].verdict,
            RestoreOutcome::Restored { entries: expected, torn: false }
        );
    }
    assert_eq!(stranger.wait().signal(), Some(libc::SIGTERM));
}

pub(crate) fn a_last_line_that_was_cut_off_is_a_change_that_was_not_made() {
    let folder = private_folder();
    let files = ["a", "b"].map(|name| folder.path().join(name));
    let [first, last] = files.each_ref().map(|path| {
        fs::write(path, "").unwrap();
        line(&Undo::RemoveFile { path: path.clone() })
    });
    let path = journal(folder.path(), dead(), &[first, last[..last.len() - 3].to_owned()]);
    let restored = restore(folder.path()).unwrap();
    assert!(matches!(&restored[0].verdict, RestoreOutcome::Restored { entries, torn: true }
        if entries.len() == 1));
    assert!(restored[0].to_string().contains("announced but not made"));
    assert!(!files[0].exists() && files[1].exists() && !path.exists());
}

pub(crate) fn a_kind_that_is_not_known_is_reported_and_its_journal_kept_for_a_later_version() {
    let folder = private_folder();
    let file = folder.path().join("a");
    fs::write(&file, "").unwrap();
    let known = line(&Undo::RemoveFile { path: file.clone() });
    let newer = r#"{"state":"live","undo":{"kind":"unmount","path":"/mnt"}}"#.to_owned() + "\n";
    let path = journal(folder.path(), dead(), &[known, newer]);
    for known_left in [1, 0] {
        let restored = restore(folder.path()).unwrap();
        assert!(!restored[0].is_settled() && restored[0].to_string().contains("unmount"));
        assert!(matches!(&restored[0].verdict, RestoreOutcome::Restored { entries, .. }
            if entries.len() == 1 + known_left));
        assert!(!file.exists() && path.exists());
    }
}

pub(crate) fn a_journal_whose_owner_lives_is_left_alone() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGKILL);
    let owner = run.own();
    assert_eq!(run.restore()[0].verdict, RestoreOutcome::StillOwned { owner });
    assert_eq!((run.setting().as_str(), run.journals().len()), ("during the run", 1));

    // By the lock alone, and by number and start time alone.
    let folder = private_folder();
    let path = journal(folder.path(), dead(), &[]);
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    assert!(matches!(
        restore(folder.path()).unwrap()[0].verdict,
        RestoreOutcome::StillOwned { .. }
    ));
    drop(held);
    // A child that another test has just started holds a copy of the lock until its exec.
    eventually("the lock is free", || {
        matches!(restore(folder.path()).unwrap()[0].verdict, RestoreOutcome::Restored { .. })
    });
    // The folder went with its last journal.
    assert!(!folder.path().exists());
    let folder = private_folder();
    journal(folder.path(), owner, &[]);
    assert!(matches!(
        restore(folder.path()).unwrap()[0].verdict,
        RestoreOutcome::StillOwned { .. }
    ));
}

pub(crate) fn a_file_that_is_not_our_journal_is_not_touched() {
    let folder = private_folder();
    let victim = folder.path().join("victim");
    fs::write(&victim, "").unwrap();
    let elsewhere = private_folder();
    let good =
        journal(elsewhere.path(), dead(), &[line(&Undo::RemoveFile { path: victim.clone() })]);
    let text = fs::read_to_string(&good).unwrap();
    let at = |name: &str| folder.path().join(name).with_extension("journal");
    symlink(&good, at("link")).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("binary"), [0, 255, 10, 7]).unwrap();
    fs::write(at("other"), "{\"name\":\"x\"}\n").unwrap();
    fs::write(at("later"), text.replace("journal\":1", "journal\":2").replace("0.1.0", "9.9.9"))
        .unwrap();
    fs::create_dir(at("folder")).unwrap();
    let mut expected = 6;
    if is_root() {
        fs::copy(&good, at("foreign")).unwrap();
        chown(at("foreign"), Some(65_534), None).unwrap();
        expected += 1;
    } else {
        skipped("in part, only root can make a file of another user's");
    }
    let restored = restore(folder.path()).unwrap();
    assert_eq!(restored.len(), expected);
    for one in &restored {
        assert!(
            matches!(one.verdict, RestoreOutcome::Refused { .. }) && one.journal.exists(),
            "{one}"
        );
    }
    assert!(restored.iter().any(|one| one.to_string().contains("corehop 9.9.9")));
    assert!(victim.exists());
}

pub(crate) fn a_directory_that_others_control_is_refused_before_the_change() {
    let base = private_folder();
    let (open, link) = (base.path().join("open"), base.path().join("link"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let elsewhere = private_folder();
    symlink(elsewhere.path(), &link).unwrap();
    let mut refused = vec![open, link];
    if is_root() {
        let foreign = base.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(65_534), None).unwrap();
        refused.push(foreign);
    } else {
        skipped("in part, only root can make a directory of another user's");
    }
    let setting = base.path().join("setting");
    fs::write(&setting, "before").unwrap();
    for directory in refused {
        let error = Guard::in_directory(&directory).set(&setting, "after").unwrap_err();
        assert!(matches!(error, SupervisorError::Directory { .. }), "{error}");
        assert!(error.to_string().contains(directory.to_str().unwrap()), "{error}");
        match restore(&directory) {
            Err(error) => assert!(matches!(error, SupervisorError::Directory { .. }), "{error}"),
            Ok(one) => assert!(matches!(one[0].verdict, RestoreOutcome::Foreign { .. }), "{one:?}"),
        }
    }
    assert_eq!(fs::read_to_string(&setting).unwrap(), "before");
}

pub(crate) fn a_name_that_another_user_planted_is_told_and_keeps_nothing_from_being_restored() {
    if !is_root() {
        skipped("only root can make a file of another user's");
        return;
    }
    let base = private_folder();
    let victim = base.path().join("victim");
    fs::write(&victim, "").unwrap();
    let [folder, file, link, pipe] =
        ["folder", "file", "link", "pipe"].map(|name| base.path().join(name));
    fs::create_dir(&folder).unwrap();
    // A journal in a planted folder is another user's word.
    journal(&folder, dead(), &[line(&Undo::RemoveFile { path: victim.clone() })]);
    fs::write(&file, "").unwrap();
    symlink(&folder, &link).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for planted in [folder, file, link, pipe] {
        lchown(&planted, Some(65_534), None).unwrap();
        let restored = restore(&planted).unwrap();
        let [one] = &restored[..] else { panic!("{restored:?}") };
        assert!(matches!(one.verdict, RestoreOutcome::Foreign { .. }) && one.is_settled(), "{one}");
        assert!(one.to_string().contains(planted.to_str().unwrap()), "{one}");
        assert!(planted.symlink_metadata().is_ok() && victim.exists());
        assert!(Guard::in_directory(&planted).set(&victim, "x").is_err());
    }
}

pub(crate) fn a_setting_that_cannot_be_written_is_an_error_and_leaves_nothing_to_restore() {
    let mut run = Run::begin();
    let error = run.ask("set /proc/version x");
    assert!(error.contains("/proc/version") && error.contains("`x`"), "{error}");
    run.tell("end");
    assert!(run.wait().success());
    assert!(run.journals().is_empty());
}

pub(crate) fn killed_with_its_supervisor_a_run_leaves_one_readable_journal() {
    let run = Run::killed_with_its_supervisor();
    let text = run.restore()[0].to_string();
    assert!(text.contains("1 of 1 changes taken back") && text.contains("write `before` to"));
    assert_eq!(run.setting(), "before");
}

pub(crate) fn a_line_of_which_only_half_can_be_written_is_cut_off_again() {
    let mut run = Run::begin_with_a_change();
    let journal = run.journals()[0].clone();
    let length = || fs::metadata(&journal).unwrap().len();
    let before = length();
    run.must(&format!("file-size {}", before + 20));
    let refusal = run.ask(&format!("set {} later", run.path("setting").display()));
    assert!(refusal.contains("was not made"), "{refusal}");
    assert_eq!((run.setting().as_str(), length()), ("during the run", before));
    run.must(&format!("file-size {}", u32::MAX));
    run.change("later");
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || run.journals().is_empty());
    assert_eq!(run.setting(), "before");
}

pub(crate) fn on_a_full_disk_the_change_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, setting) = (folder.path().join("disk"), folder.path().join("setting"));
    fs::create_dir(&disk).unwrap();
    fs::write(&setting, "before").unwrap();
    // In a mount namespace of its own, which vanishes with the processes in it.
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=700 none {0} && echo mounted && exec {1} {2} {0}",
        disk.display(),
        std::env::current_exe().unwrap().display(),
        guarded::ROLE
    );
    let mut command = Command::new("unshare");
    command.args(if is_root() { ["--mount", "--"] } else { ["-rm", "--"] });
    command.args(["sh", "-c", &script]);
    let Ok(_) = Command::new("unshare").arg("--version").output() else {
        skipped("there is no unshare(1)");
        return;
    };
    let mut run = Run::begin_as(command, folder);
    let mut mounted = String::new();
    run.answers.read_line(&mut mounted).unwrap();
    if mounted != "mounted\n" {
        skipped("no tmpfs can be mounted (it takes root, or user namespaces)");
        return;
    }
    run.change("during the run");
    let inside = PathBuf::from(format!("/proc/{}/root{}", run.process.id(), disk.display()));
    let fill = fs::write(inside.join("filler"), vec![0; 1 << 20]);
    assert_eq!(fill.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    // The journal's own page takes some more entries.
    let other = run.path("other");
    fs::write(&other, "before").unwrap();
    let mut order = 0;
    let refusal = loop {
        order += 1;
        let answer = run.ask(&format!("set {} {order}", other.display()));
        if answer != "done" {
            break answer;
        }
        assert!(order < 1_000, "a disk that is never full");
    };
    assert!(refusal.contains("was not made") && refusal.contains("Free some space"), "{refusal}");
    assert_eq!(fs::read_to_string(&other).unwrap(), (order - 1).to_string());
    // What was listed before is intact, and is taken back though nothing can be written.
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert_eq!(fs::read_to_string(&other).unwrap(), "before");
    assert_eq!(run.setting(), "before");
}
