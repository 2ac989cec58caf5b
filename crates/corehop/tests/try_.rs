// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop try` as a user types it, on small commands and on a process that counts.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corehop_plan::units::CpuList;
use corehop_system::proc::ProcEntry;
use corehop_system::thread::{affinity, affinity_of, set_affinity_of};
use serde_json::Value;
use tempfile::TempDir;

fn corehop(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.arg("try").args(words);
    command
}

fn output(words: &[&str]) -> Output {
    corehop(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).replace('\n', " ")
}

fn json(output: &Output) -> Value {
    let said = said(output);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The CPUs of this process, where there are two to try.
fn own_cpus() -> Option<CpuList> {
    let own = affinity().unwrap();
    if own.len() < 2 {
        println!("skipped: one CPU is usable");
        return None;
    }
    Some(own)
}

/// One trial moves threads at a time.
fn alone() -> MutexGuard<'static, ()> {
    static MOVING: Mutex<()> = Mutex::new(());
    MOVING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < end, "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that counts, and writes its count into a file. It ends with this.
struct Counter {
    child: Child,
    count: PathBuf,
    _folder: TempDir,
}

/// `$0` is the file.
const COUNTS: &str = "i=0; while :; do i=$((i+1)); \
    if [ $((i%200)) = 0 ]; then echo $i > $0.new; mv $0.new $0; fi; done";

impl Counter {
    fn begin(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        std::fs::write(&count, "0\n").unwrap();
        let mut counter = Command::new("sh");
        counter.args(["-c", script]).arg(&count).process_group(0).stdout(Stdio::null());
        let child = counter.stderr(Stdio::null()).spawn().unwrap();
        Self { child, count, _folder: folder }
    }

    fn cpus(&self) -> CpuList {
        affinity_of(self.child.id().cast_signed()).unwrap()
    }

    fn trial(&self, more: &[&str]) -> Command {
        let pid = self.child.id().to_string();
        let mut command = corehop(&["--pid", &pid, "--progress"]);
        command.arg(&self.count).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: the group of a child that has not been waited for.
        unsafe { libc::kill(-self.child.id().cast_signed(), libc::SIGKILL) };
        let _status = self.child.wait();
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a child that has not been waited for, so that its number is its own.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

#[test]
fn a_command_runs_on_the_cpus_of_each_arm_and_on_all_of_its_own_otherwise() {
    let Some(own) = own_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let script = "grep ^Cpus_allowed_list: /proc/self/status >> $0";
    let words = ["--duration", "60s", "--json", "--", "sh", "-c", script, seen.to_str().unwrap()];
    let output = output(&words);
    let answer = json(&output);
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", said(&output));
    let rounds = answer["rounds"].as_u64().unwrap() as usize;
    assert!(rounds >= 6, "{answer}");
    let text = std::fs::read_to_string(&seen).unwrap();
    let ran: Vec<&str> = text.lines().filter_map(|it| it.split_whitespace().nth(1)).collect();
    let on = |cpus: &str| ran.iter().filter(|it| **it == cpus).count();
    // The first run counts threads.
    let runs = |figures: &Value| figures["runs"].as_u64().unwrap() as usize;
    let plain = runs(&answer["default"]) + runs(&answer["again"]);
    assert_eq!(on(&own.to_string()), 1 + plain, "{answer}");
    assert!(plain >= 2 * rounds, "{answer}");
    let arms = answer["arms"].as_array().unwrap();
    assert!(!arms.is_empty());
    for arm in arms {
        let runs = runs(&arm["figures"]);
        assert!(runs >= rounds, "{arm}");
        assert_eq!(on(arm["cpus"].as_str().unwrap()), runs, "{arm}");
    }
    let names: BTreeSet<&str> = arms
        .iter()
        .chain(answer["left_out"].as_array().unwrap())
        .map(|arm| arm["kind"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 5, "each arm is tried or left out: {names:?}");
    assert!(names.contains("one-cpu"));
    assert_eq!(affinity().unwrap(), own);
    assert_eq!(answer["seed"], 1);
}

#[test]
fn a_command_that_is_slower_where_it_is_pinned_is_left_unpinned_with_the_bound() {
    let Some(_) = own_cpus() else { return };
    // Pinned to one CPU, the command sleeps ten times as long.
    let script = "n=$(grep -c '^Cpus_allowed_list:[[:space:]]*[0-9]*$' /proc/self/status); \
        if [ $n = 1 ]; then sleep 0.2; else sleep 0.02; fi";
    let output = output(&["--duration", "60s", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = printed(&output);
    assert!(text.starts_with("Nothing beats the kernel's default by more than "), "{text}");
    assert!(!text.contains("taskset -c"), "{text}");
}

#[test]
fn a_command_that_is_faster_where_it_is_pinned_wins_with_four_lines_to_paste() {
    let Some(own) = own_cpus() else { return };
    let script = "n=$(grep -c '^Cpus_allowed_list:[[:space:]]*[0-9]*$' /proc/self/status); \
        if [ $n = 1 ]; then sleep 0.02; else sleep 0.2; fi";
    let output = output(&["--duration", "90s", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (text, cpu) = (printed(&output), own.first().unwrap().0);
    assert!(text.contains("(one-cpu): ") && text.contains("% faster"), "{text}");
    for line in ["taskset -c C sh -c '", "CPUAffinity=C ", "--cpuset-cpus=C ", "pin_cores=C "] {
        let line = line.replace('C', &cpu.to_string()).replace(&format!("{cpu}PU"), "CPU");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[test]
fn a_command_that_fails_ends_the_trial_with_the_arm_its_status_and_the_remedy() {
    let Some(own) = own_cpus() else { return };
    let failed = output(&["--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7));
    let text = said(&failed);
    assert!(text.contains("arm default") && text.contains("status 7"), "{text}");
    assert!(text.contains("`sh -c 'exit 7'` shows why"), "{text}");
    // Only where it is pinned.
    let script = "grep -q '^Cpus_allowed_list:.*[-,]' /proc/self/status || exit 3";
    let failed = output(&["--", "sh", "-c", script]);
    assert_eq!(failed.status.code(), Some(3));
    let (text, cpu) = (said(&failed), own.first().unwrap().0);
    assert!(
        text.contains("arm one-cpu") && text.contains(&format!("`taskset -c {cpu} sh")),
        "{text}"
    );
}

#[test]
fn a_command_that_is_not_there_or_goes_into_the_background_is_refused_with_the_remedy() {
    let Some(_) = own_cpus() else { return };
    let absent = output(&["--", "no-such-program"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(said(&absent).contains("`no-such-program`: No such file"), "{}", said(&absent));
    let stray = output(&["--", "sh", "-c", "setsid sleep 3 & exit 0"]);
    assert_eq!(stray.status.code(), Some(2));
    assert!(said(&stray).contains("--pid PID --progress SOURCE"), "{}", said(&stray));
}

#[test]
fn a_command_that_takes_longer_than_there_is_time_is_ended_and_told_what_is_enough() {
    let Some(_) = own_cpus() else { return };
    let endless = output(&["--duration", "1s", "--", "sleep", "100"]);
    assert_eq!(endless.status.code(), Some(1));
    assert!(said(&endless).contains("was stopped after 1 s"), "{}", said(&endless));
    let begin = Instant::now();
    let long = output(&["--duration", "5s", "--", "sleep", "0.5"]);
    assert_eq!(long.status.code(), Some(1), "{}", said(&long));
    assert!(printed(&long).starts_with("Cannot tell: ") && printed(&long).contains("--duration "));
    assert!(begin.elapsed() < Duration::from_secs(5), "a trial that cannot end is not begun");
}

#[test]
fn a_short_command_is_told_and_one_cpu_is_nothing_to_try() {
    let Some(own) = own_cpus() else { return };
    let short = output(&["--duration", "30s", "--", "true"]);
    assert!(said(&short).contains("process start"), "{}", said(&short));
    let quiet = output(&["--duration", "30s", "--quiet", "--", "true"]);
    assert_eq!(said(&quiet), "");
    let cpu = own.first().unwrap().0.to_string();
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &cpu, env!("CARGO_BIN_EXE_corehop"), "try", "--", "false"]);
    let one = pinned.output().unwrap();
    assert_eq!((one.status.code(), &*printed(&one)), (Some(1), "One CPU: nothing to try. "));
}

#[test]
fn words_that_do_not_belong_together_are_refused_by_name() {
    for (words, part) in [
        (&[][..], "missing command"),
        (&["--duration", "10ms", "--", "true"], "--duration 3min"),
        (&["--progress", "count", "--", "true"], "--progress"),
        (&["--pid", "1"], "--progress"),
        (&["--pid", "1", "--progress", "/proc/self/stat", "--", "true"], "--pid"),
        (&["--pid", "x", "--progress", "f"], "pgrep x"),
        (&["--platform", "no-such", "--", "true"], "no-such"),
    ] {
        let refused = output(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", said(&refused));
        assert!(said(&refused).contains(part), "{words:?}: {}", said(&refused));
    }
}

#[test]
fn a_platform_that_lacks_the_cpus_of_the_program_is_refused() {
    let Some(own) = own_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.toml");
    let text = "schema = 1\nid = \"other\"\nname = \"other\"\n\
        cpus = { value = \"0\", source = \"assumed: x\" }\n\
        packages = { value = [\"0\"], source = \"assumed: x\" }\n\
        cores = { value = [\"0\"], source = \"assumed: x\" }\n";
    std::fs::write(&file, text).unwrap();
    let refused = output(&["--platform", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let text = said(&refused);
    assert!(text.contains("CPUs 0,") && text.contains(&own.to_string()), "{text}");
}

#[test]
fn a_process_is_tried_in_stretches_and_has_its_cpus_again() {
    let (Some(own), _alone) = (own_cpus(), alone()) else { return };
    let counter = Counter::begin(COUNTS);
    let output = counter.trial(&["--duration", "25s", "--json"]).output().unwrap();
    let answer = json(&output);
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", said(&output));
    assert_eq!(answer["quantity"], "progress");
    assert_eq!(answer["program"]["process"], counter.child.id());
    assert!(answer["default"]["mean"].as_f64().unwrap() > 0.0, "{answer}");
    assert!(answer["arms"][0]["figures"]["runs"].as_u64().unwrap() > 0, "{answer}");
    assert_eq!(counter.cpus(), own);
}

#[test]
fn a_process_has_its_cpus_again_after_an_interrupt_and_after_sigkill() {
    let (Some(own), _alone) = (own_cpus(), alone()) else { return };
    let counter = Counter::begin(COUNTS);
    for (kind, code) in
        [(libc::SIGINT, Some(130)), (libc::SIGTERM, Some(130)), (libc::SIGKILL, None)]
    {
        let trial = counter.trial(&["--duration", "90s"]).spawn().unwrap();
        until("pinned", || counter.cpus().len() == 1);
        signal(&trial, kind);
        let ended = trial.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), code, "{}", said(&ended));
        until("put back", || counter.cpus() == own);
    }
}

#[test]
fn a_thread_with_cpus_of_its_own_choice_keeps_them() {
    let (Some(own), _alone) = (own_cpus(), alone()) else { return };
    // The first process is alone in its choice, with those that move its count. The three others have all CPUs.
    let busy = "while :; do :; done & ".repeat(3);
    let counter = Counter::begin(&format!("{busy}{COUNTS}"));
    let pid = counter.child.id();
    until("counting", || std::fs::read_to_string(&counter.count).is_ok_and(|it| it != "0\n"));
    // Those that it started first; the others move the count, and end at once.
    let busy: Vec<u32> = ProcEntry::process(pid).children().into_iter().take(3).collect();
    let last = own.iter().last().unwrap();
    set_affinity_of(counter.child.id().cast_signed(), [last]).unwrap();
    let trial = counter.trial(&["--duration", "90s"]).spawn().unwrap();
    until("the others pinned", || affinity_of(busy[0].cast_signed()).unwrap().len() == 1);
    let kept = counter.cpus();
    signal(&trial, libc::SIGINT);
    let ended = trial.wait_with_output().unwrap();
    for pid in &busy {
        until("put back", || affinity_of(pid.cast_signed()).unwrap() == own);
    }
    assert_eq!(kept, CpuList::new([last]));
    assert!(said(&ended).contains("CPUs that the program chose"), "{}", said(&ended));
}

#[test]
fn progress_that_stands_still_is_said_with_the_remedy() {
    let (Some(own), _alone) = (own_cpus(), alone()) else { return };
    let counter = Counter::begin("echo 5 > $0; while :; do :; done");
    let output = counter.trial(&["--duration", "20s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("progress stood still"), "{}", said(&output));
    assert!(said(&output).contains("load the program"), "{}", said(&output));
    assert_eq!(counter.cpus(), own);
}
