// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines and plans that make no sense, and files that must not be touched.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::process::Stdio;

use super::*;

#[test]
fn what_is_no_ordinary_file_is_never_replaced_by_a_result() {
    let (directory, file) = scratch();
    let place = |name: &str| directory.path().join(name);
    let (pipe, link, folder) = (place("pipe"), place("link"), place("folder"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(place("precious"), b"precious").unwrap();
    std::os::unix::fs::symlink(place("precious"), &link).unwrap();
    std::fs::create_dir(&folder).unwrap();
    refused(small(&pipe, &[]), 2, &["not an ordinary file"]);
    refused(small(&link, &[]), 2, &["not an ordinary file"]);
    refused(small(&folder, &[]), 2, &["is a folder"]);
    refused(small(&place("nowhere/run.parquet"), &[]), 2, &["its folder does not exist"]);
    assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(files_in(&directory), ["folder", "link", "pipe", "precious"]);
    // An earlier result is an ordinary file.
    assert!(small(&file, &[]).status().unwrap().success());
    refused(small(&file, &[]), 2, &["this file exists", "--force"]);
    assert!(small(&file, &["--force"]).status().unwrap().success());
}

#[test]
fn options_that_would_do_nothing_are_refused_by_name() {
    for (line, option) in [
        ("access-time --event preemption", "--event"),
        ("access-time --mover handover", "--mover"),
        ("preemption-length --wss 1MiB", "--wss"),
        ("preemption-length --length 1ms..2ms", "--length"),
        ("polluter-sweep --length 0..5ms", "--length"),
        ("shared-data --rounds 4 --load idle", "--load"),
        ("schedule-sensitive --items 4", "--items"),
        ("access-time --rounds 3", "--rounds"),
        ("shared-data --budget 0s", "--budget 0"),
        ("synthetic --load idle --polluter 4MiB", "--polluter"),
        ("synthetic --load idle --load-cpus 0", "--load-cpus"),
        ("synthetic --load constructed --split-locks", "--split-locks"),
        ("synthetic --preemptor 4MiB,scan,0.5,more", "unexpected `more`"),
        ("synthetic --samples 0", "--samples 0"),
        ("synthetic --budget 0s", "--budget 0"),
        ("synthetic --json --stream", "--stream"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        refused(corehop(&[&["measure"], &words[..], &["--dry-run"]].concat()), 2, &[option]);
    }
    refused(corehop(&["measure", "synthetic", "--dry-run", "--cpus", ""]), 2, &["--cpus"]);
}

/// A plan of five touches in a file.
fn plan(directory: &TempDir, file: &Path) -> (PathBuf, String) {
    let dry = small(file, &["--dry-run", "--json"]).output().unwrap();
    let (path, text) = (directory.path().join("plan.json"), String::from_utf8(dry.stdout).unwrap());
    std::fs::write(&path, &text).unwrap();
    (path, text)
}

#[test]
fn a_plan_is_outlined_by_a_dry_run_and_not_changed_by_other_options() {
    let (directory, file) = scratch();
    let (path, text) = plan(&directory, &file);
    let with = |more: &[&str]| {
        let mut command = corehop(&["measure", "--no-real-time", "-q", "--plan"]);
        command.arg(&path).args(more);
        command
    };
    let outline = with(&["--dry-run"]).output().unwrap();
    assert!(String::from_utf8(outline.stdout).unwrap().contains("5  none 4 KiB"));
    let same = with(&["--dry-run", "--json"]).output().unwrap();
    assert_eq!(String::from_utf8(same.stdout).unwrap(), text);
    refused(with(&["--dry-run", "--wss", "8KiB"]), 2, &["--wss"]);
    refused(with(&["--dry-run", "--precision", "5%"]), 2, &["--precision"]);
    assert!(!file.exists());
}

#[test]
fn a_plan_whose_jobs_are_not_what_their_cells_say_is_refused() {
    let (directory, file) = scratch();
    let (path, text) = plan(&directory, &file);
    let run = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut command = corehop(&["measure", "--no-real-time", "-q", "--plan"]);
        command.arg(&path).arg("-o").arg(&file);
        command
    };
    let renamed = text.replace("\"event\": \"none\"", "\"event\": \"l3_migration\"");
    assert_ne!(renamed, text);
    refused(run(&renamed), 4, &["l3_migration", "without an absence"]);
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["jobs"]["phases"][0]["jobs"][0]["steps"] = serde_json::json!([]);
    refused(run(&value.to_string()), 4, &["neither touches"]);
    value["jobs"]["phases"] = serde_json::json!([]);
    refused(run(&value.to_string()), 4, &["no jobs"]);
    assert!(!file.exists());
}

#[test]
fn a_run_is_not_resumed_on_another_machine() {
    let (directory, file) = scratch();
    let (event, more) = (["--event", "none"], ["--samples", "5", "--on", "xeon_x5650"]);
    assert!(small(&file, &event).status().unwrap().success());
    let before = std::fs::read(&file).unwrap();
    refused(small(&file, &[&event[..], &more, &["--resume"]].concat()), 2, &["began on"]);
    let part = directory.path().join("run.parquet.part");
    let kept = std::fs::read(if part.exists() { &part } else { &file }).unwrap();
    assert_eq!(kept, before);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_directory, file) = scratch();
    for more in [&["--dry-run"][..], &["--json"]] {
        let mut child =
            small(&file, more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    std::io::stdout().flush().unwrap();
}

#[test]
fn two_interrupts_at_once_are_one() {
    let (directory, file) = scratch();
    let arguments = ["--samples", "4000", "--event", "idle_leave", "--length", "2ms"];
    let child = small(&file, &arguments).spawn().unwrap();
    let part = directory.path().join("run.parquet.part");
    assert!(eventually(|| std::fs::metadata(&part).is_ok_and(|meta| meta.len() > 80_000)));
    for _ in 0..2 {
        // SAFETY: a signal to our own child.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(end_of(child), Some(130));
    assert_eq!(files_in(&directory), ["run.parquet"]);
}

/// A memory cgroup of version 1 below that of this process, removed in the end.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    fn with_limit(bytes: u64) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = groups.lines().find_map(|line| line.split_once(":memory:/"))?.1.to_owned();
        let name = format!("corehop-test-{}", std::process::id());
        let group = Self(std::path::Path::new("/sys/fs/cgroup/memory").join(own).join(name));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("memory.limit_in_bytes"), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _removed_by_another = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_working_set_beyond_the_limit_of_the_cgroup_is_refused_and_not_killed() {
    let Some(group) = MemoryGroup::with_limit(64 << 20) else {
        return println!("skipped: no memory cgroup of version 1 can be made here");
    };
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    let corehop = env!("CARGO_BIN_EXE_corehop");
    let run = "measure synthetic --wss 256MiB --load idle --samples 1 --quiet --stream";
    let output = std::process::Command::new("sh")
        .args(["-c", &enter, "sh", corehop])
        .args(run.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a working set of 256 MiB does not fit into memory"), "{said}");
}
