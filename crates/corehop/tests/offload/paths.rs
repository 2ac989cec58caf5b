// SPDX-License-Identifier: MIT OR Apache-2.0
//! Library and board beside other users: who can change them, who can use them, and what is left of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{answered, compiled, offload, said, two_cpus};

const CHANGES: &str = include_str!("changes.c");
const STEALS: &str = include_str!("steals.sh");
/// A library that leaves a trace wherever it is loaded.
const PLANTED: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void) { open("loaded", O_CREAT | O_WRONLY, 0666); }
"#;
/// The user who has no rights.
const STRANGER: u32 = 65534;

/// Whether this process is root: a test that becomes other users needs that.
fn root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        println!("skipped: only root becomes another user");
    }
    root
}

fn open_to_all() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The argument of dd(1) for a file of 2,000 blocks of 8 KiB that all users can read.
fn input(folder: &TempDir) -> String {
    let path = folder.path().join("from");
    fs::write(&path, vec![0; 2000 * 8192]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    format!("if={}", path.display())
}

/// Waits until a file is there.
fn await_file(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The value of a variable in the output of env(1).
fn value<'a>(environment: &'a str, name: &str) -> &'a str {
    let found = environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{name} is not in {environment}"))
}

/// A shell as another user: `script`, with the words after it.
fn as_stranger(script: &str, words: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(words).uid(STRANGER).gid(STRANGER);
    command.current_dir("/").output().unwrap()
}

/// The environment of a program that runs until its input ends.
fn environment_of(child: &mut std::process::Child) -> String {
    use std::io::BufRead;
    let mut text = String::new();
    let mut output = std::io::BufReader::new(child.stdout.as_mut().unwrap());
    while !text.ends_with("ready\n") {
        assert_ne!(output.read_line(&mut text).unwrap(), 0, "{text}");
    }
    text
}

/// A program that prints its environment and waits for the end of its input.
fn waits() -> std::process::Child {
    let mut command = offload(&["-q"], &["sh", "-c", "env; echo ready; read line; exit 0"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn nothing_in_the_environment_of_a_program_names_a_process() {
    if !two_cpus() {
        return;
    }
    let output = offload(&["-q"], &["env"]).env_remove("LD_PRELOAD").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for name in ["LD_PRELOAD", "COREHOP_OFFLOAD"] {
        let path = value(&text, name);
        assert!(path.starts_with('/') && !path.starts_with("/proc"), "{name}={path}");
    }
    assert!(Path::new(value(&text, "LD_PRELOAD")).exists(), "the library does not stay");
    assert!(!Path::new(value(&text, "COREHOP_OFFLOAD")).exists(), "the board stays");
}

#[test]
fn a_daemon_that_starts_programs_after_the_end_of_the_command_prints_nothing() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "(while [ ! -e go ]; do sleep 0.02; done; true; cat /dev/null; $1 id >who; mv who done) \
                  2>errors >/dev/null </dev/null & exit 7";
    let becomes = if root() { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    let mut command = offload(&["-q"], &["sh", "-c", script, "sh", becomes]);
    assert_eq!(command.current_dir(folder.path()).status().unwrap().code(), Some(7));
    fs::write(folder.path().join("go"), "").unwrap();
    await_file(&folder.path().join("done"));
    assert_eq!(fs::read_to_string(folder.path().join("errors")).unwrap(), "");
}

#[test]
fn a_process_with_the_number_of_the_command_that_ended_has_no_say_in_what_a_daemon_loads() {
    if !two_cpus() || !root() {
        return;
    }
    let folder = open_to_all();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let library = folder.path().join("planted.so");
    let source = folder.path().join("planted.c");
    fs::write(&source, PLANTED).unwrap();
    let mut built = Command::new("cc");
    built.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(built.status().unwrap().success());
    // The library does what the test looks for.
    let mut itself = Command::new("true");
    itself.env("LD_PRELOAD", &library).current_dir(folder.path()).status().unwrap();
    fs::remove_file(folder.path().join("loaded")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", STEALS, "sh"]);
    let output = command.arg(env!("CARGO_BIN_EXE_corehop")).current_dir(folder.path()).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let refused = said(&output);
    if refused.starts_with("unshare:") || refused.contains("ns_last_pid") {
        println!("skipped: {}", refused.trim());
        return;
    }
    assert_eq!(text, "stolen\n", "{}", said(&output));
    assert!(!folder.path().join("loaded").exists(), "a library of another user ran as root");
    assert_eq!(fs::read_to_string(folder.path().join("errors")).unwrap(), "");
}

#[test]
fn another_user_can_replace_change_or_list_neither_library_nor_board() {
    if !two_cpus() || !root() {
        return;
    }
    let mut child = waits();
    let environment = environment_of(&mut child);
    let (library, board) =
        (value(&environment, "LD_PRELOAD"), value(&environment, "COREHOP_OFFLOAD"));
    let before = fs::read(library).unwrap();
    let attempts = [
        ": >>$1",
        "rm -f $1 && test ! -e $1",
        "mv $1 $1.old",
        "ln -sf /dev/null $1",
        "touch $(dirname $1)/x",
        "mv $(dirname $1) $(dirname $1).old",
        "ls $2",
        "ls $(dirname $2)",
        "rm -rf $2; test ! -e $2",
        "mv $2 $2.old",
        ": >>$2/wishes",
        ": >>$2/0",
        "cat $2/0",
        "truncate -s 0 $2/0",
        "rm -f $2/wishes || false",
        "mv -f $(mktemp) $2/wishes",
        "mkdir $(dirname $2)/board-x",
        "ln -s /etc/shadow $2/wishes",
    ];
    for attempt in attempts {
        let output = as_stranger(attempt, &[library, board]);
        assert!(!output.status.success(), "{attempt} succeeds on {library} and {board}");
    }
    assert!(as_stranger("cat $1 && cat $2/wishes", &[library, board]).status.success());
    assert!(fs::read(library).unwrap() == before);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(board).exists());
}

#[test]
fn a_program_that_becomes_another_user_is_off_loaded_and_counted() {
    if !two_cpus() || !root() {
        return;
    }
    let folder = open_to_all();
    let become_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let input = input(&folder);
    let dd = ["dd", &input, "of=/dev/null", "bs=8192", "status=none"];
    let (output, answer) = answered(folder.path(), &[&become_other[..], &dd].concat());
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert!(answer["offloaded"].as_u64().unwrap() > 1500, "{answer}");
    assert_eq!(answer["processes"], 2);
}

#[test]
fn a_board_that_its_program_changes_leaves_the_exit_code_and_is_called_unknown() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(&folder, "changes", CHANGES);
    for how in
        ["nothing", "cut", "shorten", "lengthen", "fill", "wrap", "remove", "link", "fifo", "all"]
    {
        let (output, answer) = answered(folder.path(), &[&program, how]);
        assert_eq!(output.status.code(), Some(7), "{how}: {}", said(&output));
        let is_known = how == "nothing";
        assert_eq!(answer["calls"].is_u64(), is_known, "{how}: {answer}");
        assert_eq!(answer["unknown"].is_string(), !is_known, "{how}: {answer}");
        let output = offload(&[], &[&program, how]).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{how}: {}", said(&output));
        assert_eq!(
            said(&output).contains("The counts are unknown"),
            !is_known,
            "{how}: {}",
            said(&output)
        );
    }
}

#[test]
fn the_board_of_a_command_that_was_killed_is_removed_by_the_next_run() {
    if !two_cpus() {
        return;
    }
    let mut child = waits();
    let board = PathBuf::from(value(&environment_of(&mut child), "COREHOP_OFFLOAD"));
    assert!(offload(&["-q"], &["true"]).status().unwrap().success());
    assert!(board.exists(), "a board in use was removed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(board.exists());
    assert!(offload(&["-q"], &["true"]).status().unwrap().success());
    assert!(!board.exists());
}

/// A copy of the program that another user can start, with a right of its own; None, and a printed reason, where none can be
/// made.
fn with_a_right(folder: &TempDir) -> Option<PathBuf> {
    let copy = folder.path().join("corehop-with-rights");
    fs::copy(env!("CARGO_BIN_EXE_corehop"), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    let mut setcap = Command::new("setcap");
    let given =
        setcap.arg("cap_sys_nice,cap_ipc_lock+ep").arg(&copy).stderr(Stdio::null()).status();
    // A container may allow setcap and not the rights themselves: the file cannot be started then.
    let starts = || Command::new(&copy).arg("--version").stdout(Stdio::null()).status().is_ok();
    if given.is_ok_and(|status| status.success()) && starts() {
        return Some(copy);
    }
    println!("skipped: rights that are lent (needs setcap on this file system, and these rights)");
    None
}

#[test]
fn a_program_file_with_rights_off_loads_for_a_user_without() {
    if !two_cpus() || !root() {
        return;
    }
    let folder = open_to_all();
    let Some(program) = with_a_right(&folder) else { return };
    // Root's run installs the library for all users.
    assert!(offload(&["-q"], &["true"]).status().unwrap().success());
    let mut command = Command::new(program);
    command.args([
        "offload",
        "--os-cores",
        "1",
        "--decide",
        "always",
        "--threshold",
        "1B",
        "--json",
        "--",
    ]);
    command.args(["dd", &input(&folder), "of=/dev/null", "bs=8192", "status=none"]);
    let output = command.uid(STRANGER).gid(STRANGER).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // The sentence of the answer alone: no line of ld.so.
    let said = said(&output);
    assert!(said.trim_end().lines().count() == 1 && said.contains("calls that qualify"), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["offloaded"].as_u64().unwrap() > 1500, "{answer}");
}

/// Runs a script of root's in a mount namespace of its own; None, and a printed reason, where there can be none.
fn with_own_mounts(script: &str, words: &[&str]) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_corehop")]).args(words);
    let output = command.output().unwrap();
    if said(&output).starts_with("unshare:") || said(&output).starts_with("mount:") {
        println!("skipped: {}", said(&output).trim());
        return None;
    }
    Some(output)
}

#[test]
fn a_folder_from_which_nothing_is_executed_is_passed_over_and_refused_if_there_is_no_other() {
    if !two_cpus() || !root() {
        return;
    }
    let mounts = "mount -t tmpfs -o noexec,mode=755 tmpfs /var/lib && mount -t tmpfs -o $1,mode=755 tmpfs /run && \
                  exec $0 offload -q --os-cores 1 -- sh -c 'echo $LD_PRELOAD'";
    let Some(output) = with_own_mounts(mounts, &["exec"]) else { return };
    let library = String::from_utf8_lossy(&output.stdout);
    assert!(
        library.starts_with("/run/corehop-library/corehop_shim-"),
        "{library} {}",
        said(&output)
    );
    let output = with_own_mounts(mounts, &["noexec"]).unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    for part in ["/var/lib/corehop", "/run/corehop-library", "noexec", "as root"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}

#[test]
fn a_folder_that_others_can_write_a_link_and_a_foreign_file_are_not_used() {
    if !two_cpus() || !root() {
        return;
    }
    let run = |prepare: &str| {
        let mounts = format!(
            "mount -t tmpfs -o mode=755 tmpfs /var/lib && mount -t tmpfs -o noexec,mode=755 tmpfs /run && {prepare} && \
             exec $0 offload -q --os-cores 1 -- true"
        );
        with_own_mounts(&mounts, &[])
    };
    let Some(sound) = run("true") else { return };
    assert!(sound.status.success(), "{}", said(&sound));
    let refused = [
        ("chmod 777 /var/lib", "/var/lib` can be written by other users (mode 0777)"),
        ("chmod 1777 /var/lib", "/var/lib` can be written by other users (mode 1777)"),
        ("mkdir -m 700 /var/lib/corehop", "cannot be entered by all users (mode 0700)"),
        ("mkdir /var/lib/x && ln -s x /var/lib/corehop", "is a symbolic link"),
        ("mkdir /var/lib/corehop && chown 65534 /var/lib/corehop", "belongs to user 65534"),
        (
            "$0 offload -q --os-cores 1 -- true && chown 65534 /var/lib/corehop/*.so",
            "belongs to user 65534",
        ),
        (
            "$0 offload -q --os-cores 1 -- true && chmod 666 /var/lib/corehop/*.so",
            "can be written by other users (mode 0666)",
        ),
    ];
    for (prepare, why) in refused {
        let output = run(prepare).unwrap();
        assert_eq!(output.status.code(), Some(3), "{prepare}: {}", said(&output));
        assert!(said(&output).contains(why), "{prepare}: {}", said(&output));
    }
}

#[test]
fn a_user_without_a_place_for_the_library_is_told_how_to_get_one() {
    if !two_cpus() || !root() {
        return;
    }
    let folder = open_to_all();
    let program = folder.path().join("corehop");
    fs::copy(env!("CARGO_BIN_EXE_corehop"), &program).unwrap();
    let script = "mount -t tmpfs -o mode=755 tmpfs /var/lib && \
                  HOME=/none exec setpriv --reuid=65534 --regid=65534 --clear-groups $1 offload --os-cores 1 -- true";
    let Some(output) = with_own_mounts(script, &[program.to_str().unwrap()]) else { return };
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("by one run of `corehop offload` as root"), "{}", said(&output));
}
