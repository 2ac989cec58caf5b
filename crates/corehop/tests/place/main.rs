// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop place` as a user types it, on two processes that take turns.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corehop_linux::bpf::sharing::WakeGraph;
use corehop_plan::units::CpuList;
use corehop_system::thread::affinity_of;
use serde_json::Value;

mod advice;
mod emit;
mod life;
mod luck;
mod names;
mod progress;
mod starved;

/// Two processes that hand a byte to and fro, and write the count of their turns into a file.
const TURNS: &str = "import os, sys, time
count, end = sys.argv[1], time.time() + float(sys.argv[2])
a, b = os.pipe(), os.pipe()
child = os.fork()
turns = 0
os.close(a[0] if child else a[1])
while True:
    if child:
        os.write(a[1], b'x'); os.read(b[0], 1); turns += 1
        if turns % 200 == 0:
            with open(count + '.new', 'w') as file: file.write(str(turns))
            os.rename(count + '.new', count)
            if time.time() > end: break
    else:
        if not os.read(a[0], 1): break
        os.write(b[1], b'x')
";

fn place(more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.arg("place").args(more);
    command
}

/// One placer moves threads at a time.
fn alone() -> MutexGuard<'static, ()> {
    static MOVING: Mutex<()> = Mutex::new(());
    MOVING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn can_see() -> bool {
    let two = corehop_system::thread::affinity().is_ok_and(|cpus| cpus.len() > 1);
    match WakeGraph::open() {
        Ok(_) if two => return true,
        Ok(_) => println!("skipped: one CPU is usable, and placing needs two"),
        Err(error) => println!("skipped: {error}"),
    }
    false
}

fn counter(folder: &Path) -> String {
    let path = folder.join("count").to_string_lossy().into_owned();
    std::fs::write(&path, "0").unwrap();
    path
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

/// Both processes, under way. They end with this.
struct Turns(Child);

impl Turns {
    /// Begins; also the file with the count.
    fn begin(folder: &Path) -> (Self, String) {
        let count = counter(folder);
        (Self::write(&count, Command::new("python3")), count)
    }

    /// Begins by a command that starts Python.
    fn write(count: &str, mut program: Command) -> Self {
        let turns = Self(program.args(["-c", TURNS, count, "90"]).spawn().unwrap());
        until("turns", || std::fs::read_to_string(count).is_ok_and(|it| it != "0"));
        turns
    }

    /// Its number.
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The CPUs of both.
    fn cpus(&self) -> Vec<CpuList> {
        self.both().into_iter().filter_map(|tid| affinity_of(tid).ok()).collect()
    }

    /// The child, and the one that started it.
    fn both(&self) -> Vec<i32> {
        let all = children(self.0.id()).into_iter().chain([self.0.id()]);
        all.map(u32::cast_signed).collect()
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Two processes under way, and this the only test that moves threads.
struct Scene {
    turns: Turns,
    /// The file with the count of their turns.
    count: String,
    /// The CPUs of both.
    before: Vec<CpuList>,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

fn scene() -> Option<Scene> {
    let guard = can_see().then(alone)?;
    let folder = tempfile::tempdir().unwrap();
    let (turns, count) = Turns::begin(folder.path());
    let before = turns.cpus();
    Some(Scene { turns, count, before, folder, _alone: guard })
}

/// A placer under way that writes a log. It ends with this.
struct Placer {
    child: Option<Child>,
    log: std::path::PathBuf,
}

impl Placer {
    fn begin(folder: &Path, more: &[&str]) -> Self {
        let log = folder.join("log.jsonl");
        // That of a placer before is not taken for its own.
        let _none = std::fs::remove_file(&log);
        let mut command = place(&["--window", "20ms", "--json", "--force", "-o"]);
        command.arg(&log).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: Some(command.spawn().unwrap()), log }
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    fn written(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn until_it_writes(&self, what: &str) {
        until(what, || self.written().contains(what));
    }

    /// Some windows pass, and it has not ended.
    fn goes_on(&mut self) {
        let windows = |it: &Self| it.written().matches("\"window\":{").count();
        let before = windows(self);
        until("further windows", || windows(self) > before + 3);
        assert!(self.child.as_mut().unwrap().try_wait().unwrap().is_none(), "{}", self.written());
    }

    /// Ends by itself.
    fn ends(mut self) -> Output {
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // One that does not end by itself has the exit code of a signal, which no test expects.
        let _ended = child.kill();
        child.wait_with_output().unwrap()
    }

    /// Ends at Ctrl-C, with its answer.
    fn interrupted(self) -> Value {
        signal(self.id(), libc::SIGINT);
        let output = self.ends();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A test has failed.
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// Waits until `holds`. The patience is for a host whose neighbours take most of its time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The advice for two threads that take turns goes by where they ran, and exceeds neither their CPU time nor the host.
fn check_advice(answer: &Value) {
    let looks = &answer["together"][0];
    let (all, on_one) = (looks["looks"].as_u64().unwrap(), looks["on_one_cpu"].as_u64().unwrap());
    assert!(0 < all && all <= 20 && on_one <= all, "{answer}");
    let proposals = answer["proposals"].as_array().unwrap();
    assert!(
        on_one < all || all < 19 || proposals.is_empty() || answer["windows"] != 20,
        "{answer}"
    );
    for it in proposals {
        assert_eq!(it["moves"].as_array().unwrap().len(), 2, "{answer}");
        assert!((0.0..=2.0).contains(&it["saved"].as_f64().unwrap()), "{answer}");
    }
}

#[test]
fn without_progress_the_pair_is_named_and_nothing_is_moved() {
    if !can_see() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let count = counter(folder.path());
    let log = folder.path().join("log.jsonl");
    let log = log.to_str().unwrap();
    let program = ["--json", "-o", log, "--", "python3", "-c", TURNS, &count, "4"];
    let output = place(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["may_move"], false);
    assert_eq!(answer["ties"].as_array().unwrap().len(), 1, "{answer}");
    check_advice(&answer);
    assert!(answer["trials"].as_array().unwrap().is_empty());
    // Each line of the log is JSON; the first says what it is.
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["corehop_placement"], 1);
    assert!(!text.contains("\"action\":\"place\""));
    // What is shown of it later is what was said then.
    let corehop = |words: &[&str]| {
        let output = corehop(words);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown: Value =
        serde_json::from_str(&corehop(&["report", "contents", "--json", log])).unwrap();
    assert_eq!((&shown["answer"], &shown["whole"]), (&answer, &Value::Bool(true)));
    let words = if answer["proposals"].as_array().unwrap().is_empty() {
        "No placement is worth its moves"
    } else {
        "Nothing was moved"
    };
    assert!(corehop(&["report", "contents", log]).contains(words));
    assert_eq!(corehop(&["report", "contents", "--rows", "3", log]).lines().count(), 3);
    let page = folder.path().join("page.html");
    corehop(&["report", "-o", page.to_str().unwrap(), log]);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn a_trial_is_judged_and_ends_with_every_thread_back() {
    let Some(scene) = scene() else { return };
    let Scene { turns, count, before, folder, .. } = &scene;
    let pid = turns.0.id().to_string();
    let log = folder.path().join("log.jsonl");
    let log = log.to_str().unwrap();
    let options =
        ["--json", "--for", "25s", "--window", "50ms", "--progress", count, "-o", log, &pid];
    // Left alone, the kernel may have the pair on one CPU already: then nothing is tried.
    let output = place(&[&["--start", "spread"][..], &options].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trials = answer["trials"].as_array().unwrap();
    assert!(!trials.is_empty(), "{answer}");
    for it in trials {
        assert_eq!(it["kept"] == true, it["verdict"] == "better", "{answer}");
    }
    assert_eq!(turns.cpus(), *before);
    let replayed = corehop(&["place", "replay", log, "--json"]);
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!((&replayed["windows"], &replayed["difference"]), (&answer["windows"], &Value::Null));
    assert!(replayed["actions"].as_u64() > Some(3), "{replayed}");
}

#[test]
fn a_placer_that_is_killed_leaves_no_thread_pinned() {
    let Some(scene) = scene() else { return };
    let Scene { folder, turns, count, before, .. } = &scene;
    assert_eq!(before.len(), 2);
    let log = folder.path().join("log.jsonl");
    let log_name = log.to_str().unwrap();
    for _ in 0..3 {
        let pid = turns.0.id().to_string();
        let words = ["--window", "50ms", "--progress", count, "--force", "-o", log_name, &pid];
        let _none = std::fs::remove_file(&log);
        let mut placer = place(&[&["--start", "spread"][..], &words].concat());
        let mut placer = placer.stderr(Stdio::null()).spawn().unwrap();
        let written = || std::fs::read_to_string(&log).unwrap_or_default();
        until("a trial", || written().contains("\"action\":\"try\""));
        until("placed", || turns.cpus().iter().all(|it| it.len() == 1));
        placer.kill().unwrap();
        placer.wait().unwrap();
        until("put back", || turns.cpus() == *before);
        let kept = std::fs::read_to_string(&log).unwrap();
        assert!(kept.lines().count() > 5 && kept.contains("\"place\""), "{kept}");
    }
    let kept = std::fs::read_to_string(&log).unwrap();
    let refused = place(&["--force", "-o", log_name, "4194303"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), kept, "a refused command writes nothing");
}

#[test]
fn a_placer_and_its_supervisor_killed_at_any_time_leave_no_thread_pinned() {
    // `COREHOP_TEST_KILLS=100` takes longer.
    let kills: u32 = std::env::var("COREHOP_TEST_KILLS").map_or(9, |it| it.parse().unwrap());
    let mut state = 88_172_645_463_325_252;
    for first in (0..kills).step_by(20) {
        // The program ends by itself after a while.
        let Some(scene) = scene() else { return };
        kill_at_any_time(&scene, first..kills.min(first + 20), &mut state);
    }
}

fn kill_at_any_time(scene: &Scene, kills: std::ops::Range<u32>, state: &mut u64) {
    let Scene { turns, count, before, folder, .. } = scene;
    let pid = turns.0.id().to_string();
    let words = ["--start", "packed", "--window", "20ms", "--progress", count, &pid];
    for kill in kills {
        let mut placer = place(&words);
        let errors = std::fs::File::create(folder.path().join("errors")).unwrap();
        let mut placer = placer.stderr(errors).stdout(Stdio::null()).spawn().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        // From before it has begun until a trial is under way.
        let after = *state % 2_500;
        std::thread::sleep(Duration::from_millis(after));
        let supervisor = children(placer.id());
        // The placer, its supervisor, or both; without a supervisor the placer ends by itself or is told to.
        let both = kill % 3;
        if both != 1 {
            placer.kill().unwrap();
        }
        if both != 0 {
            for &pid in &supervisor {
                signal(pid, libc::SIGKILL);
            }
        }
        signal(placer.id(), libc::SIGTERM);
        placer.wait().unwrap();
        if both == 2 {
            // Nothing is left that could put the threads back: a journal says where they were.
            let restored = corehop(&["doctor", "restore"]);
            assert!(restored.status.code().is_some(), "{}", said(&restored));
        }
        let case = format!("kill {kill} (kind {both}) after {after} ms: {:?}", turns.cpus());
        until(&case, || turns.cpus() == *before);
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|it| it.parse().unwrap()).collect()
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: sends a signal to a process that this test started, directly or not; it may be gone.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

fn corehop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

#[test]
fn on_a_simulated_machine_pairs_are_placed_and_compared_with_leaving_them_alone() {
    let answer = |more: &[&str]| {
        place(&[&["simulate", "--on", "xeon_e5520"], more].concat()).output().unwrap()
    };
    let json = answer(&["--pairs", "2", "--json"]);
    assert!(json.status.success(), "{}", said(&json));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let rate = |what: &str| json["rounds_per_s"][what].as_f64().unwrap();
    // Started on two packages, a pair gains by any cache in common.
    assert!(rate("together") > 1.3 * rate("alone"), "{json}");
    assert!(rate("placed") > 0.95 * rate("same").max(rate("together")), "{json}");
    let text = answer(&["--pairs", "1", "--start", "packed"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("1 pair of threads"));
    for (more, word) in [
        (&["4711"][..], "unexpected argument '4711'"),
        (&["--pairs", "0"], "--pairs"),
        (&["--", "true"], "unexpected argument 'true'"),
    ] {
        let refused = answer(more);
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(said(&refused).contains(word), "{}", said(&refused));
    }
    for (machine, code) in [("live", 2), ("no_such_machine", 2)] {
        assert_eq!(
            place(&["simulate", "--on", machine]).output().unwrap().status.code(),
            Some(code),
            "{machine}"
        );
    }
}

#[test]
fn what_cannot_be_placed_is_refused_by_name() {
    if !can_see() {
        return;
    }
    let _alone = alone();
    let answer = |more: &[&str]| {
        let output = place(more).output().unwrap();
        (output.status.code(), said(&output))
    };
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words");
    std::fs::write(&words, "many").unwrap();
    let words = words.to_str().unwrap();
    for (more, code, what) in [
        (&["4194303"][..], 3, "no such process"),
        (&["2"], 3, "a thread of the kernel"),
        (&[], 2, "missing program"),
        (&["--start", "scatter", "1"][..], 2, "`scatter`"),
        (&["--window", "1ms", "1"], 2, "shorter than 10 ms"),
        (&["--progress", "syscalls:gettid", "1"], 2, "calls of `gettid` cannot stand for progress"),
        (&["--progress", "/nowhere/count", "--", "true"], 3, "/nowhere/count"),
        (&["--progress", words, "--", "true"], 3, "`many` is not a number"),
        (&["--", "/nowhere/program"], 3, "/nowhere/program"),
        (&["--cgroup", "/nowhere"], 3, "/nowhere"),
        (&["--cgroup", "/tmp"], 3, "/tmp is a plain folder and not a cgroup"),
    ] {
        let (status, text) = answer(more);
        assert_eq!(status, Some(code), "{more:?}: {text}");
        assert!(text.contains(what), "{more:?}: {text}");
    }
    // The exit code of a command is its own.
    assert_eq!(answer(&["--", "sh", "-c", "exit 7"]).0, Some(7));
}

#[test]
fn a_start_puts_each_thread_somewhere_and_its_end_puts_it_back() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, .. } = &scene;
    let all: Vec<_> = before[0].iter().collect();
    for (start, expected) in [
        (all[0].0.to_string(), [all[0], all[0]]),
        (format!("{},{}", all[0].0, all[1].0), [all[0], all[1]]),
    ] {
        let pid = turns.0.id().to_string();
        let mut placer = place(&["--start", &start, &pid]).stderr(Stdio::null()).spawn().unwrap();
        let one = |cpu| CpuList::new([cpu]);
        let mut expected = expected.map(one);
        expected.sort();
        until(&start, || {
            let mut now = turns.cpus();
            now.sort();
            now == expected
        });
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(placer.id().cast_signed(), libc::SIGINT) };
        placer.wait().unwrap();
        assert_eq!(turns.cpus(), *before, "after --start {start}");
    }
}
