// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leftovers of dead runs, rights that are lent, and files that may not grow.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use super::*;

/// A journal of this boot in `folder`, of a process that is dead, with one change to take back.
fn journal(folder: &Path, undo: &str) -> PathBuf {
    fs::create_dir(folder).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    // No number of a process is that high.
    let owner = r#"{"pid":2147483647,"start_time":1}"#;
    let header = format!(
        r#"{{"corehop_journal":1,"program_version":"0.1.0","owner":{owner},"boot_id":"{}"}}"#,
        boot.trim()
    );
    let path = folder.join("2147483647-0.journal");
    fs::write(&path, format!("{header}\n{{\"state\":\"live\",\"undo\":{undo}}}\n")).unwrap();
    path
}

#[test]
fn what_a_dead_run_has_left_is_told_and_nothing_is_measured_until_it_is_restored() {
    let (directory, file) = scratch();
    let setting = directory.path().join("setting");
    fs::write(&setting, "during the run").unwrap();
    let undo =
        format!(r#"{{"kind":"write_file","path":"{}","content":"before"}}"#, setting.display());
    let folder = directory.path().join("corehop");
    journal(&folder, &undo);
    let here = |mut command: Command| {
        command.env("XDG_RUNTIME_DIR", directory.path());
        command
    };
    let told = [&*format!("write `before` to {}", setting.display()), "corehop doctor restore"];
    refused(here(small(&file, &[])), 3, &told);
    assert!(!file.exists());
    let doctor = here(corehop(&["doctor"])).output().unwrap();
    let page = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.status.code() == Some(3) && page.contains("left-behind"), "{page}");
    assert!(here(corehop(&["doctor", "restore"])).status().unwrap().success());
    assert_eq!(fs::read_to_string(&setting).unwrap(), "before");
    assert!(!folder.exists(), "an empty folder stays");
    assert!(here(small(&file, &[])).status().unwrap().success());
}

#[test]
fn a_folder_that_another_user_planted_keeps_no_run_from_being_restored() {
    let (directory, _) = scratch();
    let planted = directory.path().join("corehop");
    fs::create_dir(&planted).unwrap();
    if chown(&planted, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("skipped: only root can make a folder of another user's");
        return;
    }
    let mut command = corehop(&["doctor", "restore"]);
    let output = command.env("XDG_RUNTIME_DIR", directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let told = format!("{}: not read, it belongs to user {NOBODY}", planted.display());
    assert!(said.contains(&told), "{said}");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The user who has no rights.
const NOBODY: u32 = 65534;

/// A copy of the program with a right of its own; None, and a printed reason, where none can be made.
fn with_a_right(directory: &TempDir) -> Option<PathBuf> {
    let copy = directory.path().join("corehop-with-rights");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    fs::copy(BINARY, &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    let given =
        Command::new("setcap").arg("cap_sys_nice+ep").arg(&copy).stderr(Stdio::null()).status();
    if given.is_ok_and(|status| status.success()) {
        return Some(copy);
    }
    println!("skipped: rights that are lent (needs root, and setcap on this file system)");
    None
}

#[test]
fn with_lent_rights_no_library_of_the_user_is_loaded() {
    let (directory, _) = scratch();
    let Some(program) = with_a_right(&directory) else { return };
    let own = directory.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let line =
        "measure synthetic --load idle --no-real-time -q --wss 4KiB --event none --samples 5";
    let mut command = Command::new(&program);
    command.args(words(line)).args(["--workload", "/none.so:f", "-o", "run.parquet"]);
    command.current_dir(&own).uid(NOBODY).gid(NOBODY);
    refused(command, 3, &["/none.so:f", "rejected", "setcap"]);
}

#[test]
fn with_lent_rights_a_journal_of_the_user_moves_no_process_of_another() {
    let (directory, _) = scratch();
    let Some(program) = with_a_right(&directory) else { return };
    let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
    let status = |field: &str| {
        let text = fs::read_to_string(format!("/proc/{}/status", victim.id())).unwrap();
        text.lines().find(|line| line.starts_with(field)).unwrap().to_owned()
    };
    let before = status("Cpus_allowed_list");
    let stat = fs::read_to_string(format!("/proc/{}/stat", victim.id())).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    let undo = format!(
        r#"{{"kind":"set_affinity","thread":{{"pid":{},"start_time":{start}}},"cpus":"0"}}"#,
        victim.id()
    );
    let folder = directory.path().join("run");
    let path = journal(&folder, &undo);
    for it in [&folder, &path] {
        chown(it, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(&program);
    command.arg("__supervise").arg(&path).uid(NOBODY).gid(NOBODY);
    command.stdin(std::os::fd::OwnedFd::from(theirs)).stdout(Stdio::null());
    let mut supervisor = command.spawn().unwrap();
    drop(command);
    drop(ours);
    supervisor.wait().unwrap();
    let after = status("Cpus_allowed_list");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_file_that_may_not_grow_is_a_failure_of_the_host_and_no_death_by_signal() {
    let (_directory, file) = scratch();
    let mut command = small(&file, &["--samples", "200"]);
    let limit = libc::rlimit { rlim_cur: 4096, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: setrlimit reads a copy of a local, and may be called between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    refused(command, 6, &["File too large"]);
}
