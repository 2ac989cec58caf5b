// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure program-costs` as a user types it, and the readers of its file.

mod hard;
mod readers;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use corehop_plan::experiment::{Argument, Interventions, ProgramCosts, Target};
use corehop_plan::samples::{BatchWriter, CausedBlock, Provenance, Reader, RowKind, Rows};
use corehop_plan::units::{Bytes, Cpu, Nanos};
use corehop_plan::workload::{Event, Pattern, Polluter};
use serde_json::{Value, json};

/// The turn of a test: one measurement at a time moves threads on a host.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn corehop(folder: &Path, words: &[&str]) -> Output {
    let _turn = turn();
    at_once(folder, words)
}

/// Runs the program, whatever other tests do.
fn at_once(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(words).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The variable that makes a program of a test: it names the file to count in.
const COUNTS_IN: &str = "COREHOP_TEST_COUNTS_IN";

/// The variable with the CPU to which this program binds itself.
const PINS_TO: &str = "COREHOP_TEST_PINS_TO";

/// The variable with a pipe: after a while this program starts a process that waits for a writer of the pipe before it begins, and
/// sleeps uninterruptibly meanwhile.
const STARTS_BEHIND: &str = "COREHOP_TEST_STARTS_BEHIND";

/// The variable with the number of threads that this program has besides, which sleep.
const SLEEPERS: &str = "COREHOP_TEST_SLEEPERS";

/// A program that counts in a file and uses a CPU. It ends with the test.
struct Counter(Child);

impl Counter {
    fn start(folder: &Path) -> Self {
        Self::with(folder, None)
    }

    /// A program that binds itself to a CPU after a while.
    fn pinning(folder: &Path, cpu: u32) -> Self {
        Self::with(folder, Some((PINS_TO, cpu.to_string())))
    }

    fn with(folder: &Path, variable: Option<(&str, String)>) -> Self {
        let path = folder.join("count");
        fs::write(&path, format!("{:20}\n", 0)).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_program_that_counts"]).env(COUNTS_IN, path);
        command.envs(variable);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// The CPUs that its threads may use, each list once.
    fn allowed(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let list = |task: std::io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list"))?;
            Some(line.split_whitespace().nth(1)?.to_owned())
        };
        tasks.filter_map(list).collect()
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The thread that counts: a test is run in a thread of its own.
    fn worker(&self) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let names = tasks.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.max_by_key(|it| it.parse::<u32>().unwrap()).unwrap()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // It has ended, or ends now.
        let _gone = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// No test, but the program of [`Counter`].
#[test]
fn the_program_that_counts() {
    let Some(path) = std::env::var_os(COUNTS_IN) else { return };
    let sleepers = std::env::var(SLEEPERS).map_or(0, |it| it.parse().unwrap());
    for _ in 0..sleepers {
        let sleeper = std::thread::Builder::new().stack_size(64 << 10);
        sleeper.spawn(|| std::thread::sleep(Duration::from_hours(1))).unwrap();
    }
    let pins_to: Option<u32> = std::env::var(PINS_TO).ok().map(|cpu| cpu.parse().unwrap());
    let mut pipe = std::env::var(STARTS_BEHIND).ok();
    let (file, begin) = (File::options().write(true).open(path).unwrap(), Instant::now());
    for count in 0_u64.. {
        // Again and again: its first choice may be just where it is held.
        if let Some(cpu) = pins_to.filter(|_| begin.elapsed() > Duration::from_millis(700)) {
            corehop_system::thread::set_affinity([Cpu(cpu)]).unwrap();
        }
        if let Some(pipe) = pipe.take_if(|_| begin.elapsed() > Duration::from_millis(300)) {
            starts_behind(&pipe);
        }
        let mut state = count;
        for _ in 0..20_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
        // In place and of one length, so that a reader never finds it empty.
        file.write_at(format!("{count:20}\n").as_bytes(), 0).unwrap();
    }
}

/// Starts a process whose input is a pipe without a writer: the start shares this process's memory, and lasts until there is one.
fn starts_behind(pipe: &str) {
    let (pipe, program) = (CString::new(pipe).unwrap(), c"/bin/true");
    let (words, none) =
        ([program.as_ptr().cast_mut(), std::ptr::null_mut()], [std::ptr::null_mut()]);
    // SAFETY: the actions are made and freed here, and all strings outlive the call.
    unsafe {
        let mut actions = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&raw mut actions);
        libc::posix_spawn_file_actions_addopen(
            &raw mut actions,
            0,
            pipe.as_ptr(),
            libc::O_RDONLY,
            0,
        );
        let (mut pid, attributes) = (0, std::ptr::null());
        let begun = libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const actions,
            attributes,
            words.as_ptr(),
            none.as_ptr(),
        );
        assert_eq!(begun, 0);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
    }
}

fn rows(path: &Path) -> Vec<CausedBlock> {
    Reader::open(File::open(path).unwrap()).unwrap().all().unwrap()
}

#[test]
fn events_happen_in_blocks_with_a_dose_alone_and_the_program_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let counter = Counter::start(folder.path());
    let before = counter.allowed();
    let output = corehop(
        folder.path(),
        &[
            "measure",
            "program-costs",
            "--pid",
            &counter.pid(),
            "--progress",
            "count",
            "--rounds",
            "8",
            "--block",
            "60ms",
            "--length",
            "200us",
            "--share",
            "20%",
            "--json",
            "-o",
            "costs.parquet",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(counter.allowed(), before);
    let rows = rows(&folder.path().join("costs.parquet"));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let costs = answer["program_costs"]["costs"].as_array().unwrap();
    assert_eq!(rows.len(), 8 * 5 * costs.len());
    for cost in costs {
        let of = |dose: fn(u64) -> bool| {
            let of =
                rows.iter().filter(move |it| it.event.word() == cost["event"] && dose(it.dose));
            of.map(|it| it.events).sum::<u64>()
        };
        assert_eq!(of(|dose| dose == 0), 0, "{cost}");
        assert!(of(|dose| dose == 4) > of(|dose| dose == 1), "{cost}");
    }
    let usable = rows.iter().filter(|it| it.invalid.is_none());
    for row in usable {
        assert!(
            row.cpu_ns > 0.0 && row.cpu_ns < 1.5 * row.wall_ns && row.progress > 0.0,
            "{row:?}"
        );
        assert!(row.preemptors_ns <= row.wall_ns + 1e9, "{row:?}");
    }
    let report = said(&corehop(folder.path(), &["report", "costs.parquet", "--table", "text"]));
    assert!(report.contains("CPU time of the program for each event"), "{report}");
    assert!(report.contains(&format!("process {}", counter.pid())), "{report}");
}

#[test]
fn a_command_without_progress_is_run_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; cat /proc/self/status | grep Cpus_allowed_list >> seen";
    let output = corehop(
        folder.path(),
        &[
            "measure",
            "program-costs",
            "--rounds",
            "2",
            "--event",
            "preemption",
            "-o",
            "costs.parquet",
            "--",
            "sh",
            "-c",
            script,
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(&folder.path().join("costs.parquet"));
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|it| (it.progress - 1.0).abs() < 1e-12 && it.cpu_ns > 0.0));
    let seen = fs::read_to_string(folder.path().join("seen")).unwrap();
    assert_eq!(seen.lines().count(), 10, "each block is one run");
}

/// The child begins while its parent is held on one CPU, and each list of the threads is made while one of them is held.
#[test]
fn a_process_that_a_held_one_starts_is_moved_as_well() {
    let cpus = corehop_system::thread::affinity().unwrap();
    if cpus.len() < 2 {
        return skipped("one CPU: nothing can be moved");
    }
    let folder = tempfile::tempdir().unwrap();
    let child = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sh -c '{child}'; true");
    let words = ["measure", "program-costs", "--rounds", "3", "--share", "20%", "-o", "x.parquet"];
    let output = corehop(folder.path(), &[&words[..], &["--", "sh", "-c", &script]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(&folder.path().join("x.parquet"));
    let moves = || rows.iter().filter(|it| it.event.is_migration());
    let sum = |of: fn(&CausedBlock) -> u64| moves().map(of).sum::<u64>();
    let [tried, happened] = [sum(|it| it.tried), sum(|it| it.events)];
    assert!(tried > 20 && 3 * happened > tried, "{happened} of {tried} migrations happened");
}

#[test]
fn a_killed_measurement_puts_the_program_back() {
    let (_turn, folder) = (turn(), tempfile::tempdir().unwrap());
    let counter = Counter::start(folder.path());
    let before = counter.allowed();
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let words = ["measure", "program-costs", "--progress", "count", "--rounds", "1000", "--pid"];
    command.args(words).arg(counter.pid()).current_dir(folder.path());
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let within = |what: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_mins(1) {
            if what() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    };
    let is_held = || counter.allowed() != before;
    if before.iter().any(|list| list.contains(['-', ','])) {
        assert!(within(&is_held), "it is held at times");
    }
    run.kill().unwrap();
    run.wait().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(within(&|| counter.allowed() == before), "{:?} and not {before:?}", counter.allowed());
}

#[test]
fn a_measurement_that_is_killed_while_a_thread_is_frozen_thaws_the_thread() {
    let (_turn, folder) = (turn(), tempfile::tempdir().unwrap());
    let counter = Counter::start(folder.path());
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let count = || read(&folder.path().join("count")).trim().parse::<u64>().unwrap_or(0);
    let frozen = || {
        let group =
            read(Path::new(&format!("/proc/{0}/task/{1}/cgroup", counter.pid(), counter.worker())));
        group.contains("corehop-leave")
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let words = "measure program-costs --progress count --rounds 1000 --event idle_leave --length 50ms --share 50% --pid";
    command.args(words.split(' ')).arg(counter.pid()).current_dir(folder.path());
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut run = Counter(run);
    let begin = Instant::now();
    while !frozen() {
        if begin.elapsed() > Duration::from_secs(20) {
            return skipped("no cgroup of version 2 can be made here");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // In the middle of an absence, as likely as not.
    std::thread::sleep(Duration::from_millis(20));
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    let begin = Instant::now();
    while frozen() {
        assert!(begin.elapsed() < Duration::from_mins(1), "the thread is still in the cgroup");
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = count();
    while count() == before {
        assert!(begin.elapsed() < Duration::from_mins(1), "the thread does not run");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_that_pins_itself_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cpus = corehop_system::thread::affinity().unwrap();
    let cpu = cpus.iter().last().unwrap();
    let counter = Counter::pinning(folder.path(), cpu.0);
    let words = [
        "measure",
        "program-costs",
        "--progress",
        "count",
        "--rounds",
        "15",
        "--event",
        "preemption",
        "--block",
        "20ms",
        "-o",
        "x.parquet",
        "--pid",
    ];
    let output = corehop(folder.path(), &[&words[..], &[&counter.pid()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        counter.allowed().contains(&cpu.to_string().replace("CPU ", "")),
        "{:?}",
        counter.allowed()
    );
    let all = rows(&folder.path().join("x.parquet"));
    assert!(all.iter().map(|it| it.tried).sum::<u64>() > 0);
}

#[expect(clippy::print_stdout, reason = "a test that looks at nothing says so")]
fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// A short measurement of a running program that counts in `count`.
fn briefly(folder: &Path, pid: &str) -> Output {
    let _turn = turn();
    briefly_at_once(folder, pid)
}

fn briefly_at_once(folder: &Path, pid: &str) -> Output {
    let words = "measure program-costs --progress count --rounds 2 --event preemption --block 30ms -o x.parquet --force --pid";
    at_once(folder, &words.split(' ').chain([pid]).collect::<Vec<_>>())
}

#[test]
fn idle_leaves_freeze_a_thread_for_their_length_and_leave_no_cgroup_behind() {
    let folder = tempfile::tempdir().unwrap();
    let counter = Counter::start(folder.path());
    let cgroup = || fs::read_to_string(format!("/proc/{}/cgroup", counter.pid())).unwrap();
    let (before, pid) = (cgroup(), counter.pid());
    let words = "measure program-costs --progress count --rounds 4 --event preemption,idle_leave --length 2ms \
        --preemptor 16KiB,1MiB --share 30% --block 60ms -o x.parquet --pid";
    let output =
        corehop(folder.path(), &words.split_whitespace().chain([&*pid]).collect::<Vec<_>>());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(cgroup(), before, "each thread is where it was");
    let rows = rows(&folder.path().join("x.parquet"));
    assert_eq!(rows.len(), 4 * 5 * 3, "two preemptors and an idle leave");
    let sizes: BTreeSet<_> = rows.iter().filter_map(|it| it.polluter.clone()).collect();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    let leaves: Vec<_> = rows.iter().filter(|it| it.event == Event::IdleLeave).collect();
    if leaves.iter().any(|it| it.invalid.as_ref().is_some_and(|why| why.contains("cgroup"))) {
        return skipped("no cgroup of version 2 can be made here");
    }
    let of = |dose: u64| -> (u64, f64, f64) {
        let all = leaves.iter().filter(|it| it.dose == dose);
        all.fold((0, 0.0, 0.0), |(n, cpu, wall), it| {
            (n + it.events, cpu + it.cpu_ns, wall + it.wall_ns)
        })
    };
    let ((none, cpu, wall), (events, less, all)) = (of(0), of(4));
    assert_eq!(none, 0);
    assert!(events > 8, "{events} events");
    // The CPU time that a block lacks is that of the absences: the thread was off its CPU, and nothing else was charged to it.
    let (absent, share) = (all * cpu / wall - less, cpu / wall);
    assert!(
        absent > 0.5 * share * events as f64 * 2e6,
        "{absent} ns in {events} absences of {share}"
    );
    assert!(text.contains("idle absence of 2"), "{text}");
}
