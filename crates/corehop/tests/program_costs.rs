// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure program-costs` as a user types it, and the readers of its file.

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
fn a_program_of_a_thousand_threads_is_measured_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let counter = Counter::with(folder.path(), Some((SLEEPERS, "1000".to_owned())));
    let before = counter.allowed();
    let output = briefly(folder.path(), &counter.pid());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(&folder.path().join("x.parquet"));
    assert!(rows.iter().any(|it| it.threads > 1000), "{rows:?}");
    assert!(rows.iter().map(|it| it.events).sum::<u64>() > 0, "{rows:?}");
    assert_eq!(counter.allowed(), before);
}

#[test]
fn a_program_that_starts_processes_all_the_time_has_no_cost_and_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "echo 1 > count; i=1; while :; do i=$((i+1)); /bin/true; echo $i > new; mv new count; done";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", script]).current_dir(folder.path()).spawn().unwrap();
    let forking = Counter(shell);
    std::thread::sleep(Duration::from_millis(200));
    let text = said(&briefly(folder.path(), &forking.pid()));
    assert!(text.contains("a process of the program ended"), "{text}");
}

#[test]
fn a_program_that_is_stopped_makes_no_progress() {
    let folder = tempfile::tempdir().unwrap();
    let counter = Counter::start(folder.path());
    let before = counter.allowed();
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: a child that has not been waited for: its number is still its own.
    unsafe { libc::kill(counter.0.id().cast_signed(), libc::SIGSTOP) };
    let text = said(&briefly(folder.path(), &counter.pid()));
    assert!(text.contains("no progress in 10 blocks"), "{text}");
    assert_eq!(counter.allowed(), before);
}

#[test]
fn a_program_in_an_uninterruptible_sleep_makes_no_progress_and_the_measurement_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe").to_str().unwrap().to_owned();
    let path = CString::new(pipe.as_str()).unwrap();
    // SAFETY: the path is a string of this test.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let counter = Counter::with(folder.path(), Some((STARTS_BEHIND, pipe.clone())));
    let state = || {
        let stat =
            fs::read_to_string(format!("/proc/{}/task/{}/stat", counter.pid(), counter.worker()));
        stat.unwrap().rsplit(") ").next().unwrap().chars().next()
    };
    let begin = Instant::now();
    while state() != Some('D') {
        assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", state());
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = counter.allowed();
    let words = "measure program-costs --progress count --rounds 1 --event preemption,idle_leave --block 30ms -o x.parquet --pid";
    let pid = counter.pid();
    let output = corehop(folder.path(), &words.split(' ').chain([&*pid]).collect::<Vec<_>>());
    // The process that waits begins, and ends.
    drop(File::options().write(true).open(&pipe).unwrap());
    let text = said(&output);
    assert!(text.contains("was not measured: no progress in 5 blocks"), "{text}");
    assert_eq!(counter.allowed(), before);
}

/// A cpuset of two CPUs that exists until dropped; None, with a reason printed, where this user may make none.
struct Cpuset(PathBuf);

impl Cpuset {
    const ROOT: &str = "/sys/fs/cgroup/cpuset";

    fn of_two() -> Option<Self> {
        let folder = Path::new(Self::ROOT).join(format!("corehop-test-{}", std::process::id()));
        if !Path::new(Self::ROOT).join("cpuset.mems").exists() || fs::create_dir(&folder).is_err() {
            skipped("a cpuset of version 1 cannot be made here");
            return None;
        }
        let made = Self(folder);
        let nodes = fs::read_to_string(Path::new(Self::ROOT).join("cpuset.mems")).unwrap();
        made.write("cpuset.mems", nodes.trim());
        made.cpus("0-1").then_some(made)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    fn cpus(&self, list: &str) -> bool {
        fs::write(self.0.join("cpuset.cpus"), list).is_ok()
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        for task in fs::read_to_string(self.0.join("tasks")).unwrap_or_default().lines() {
            let _ended = fs::write(Path::new(Self::ROOT).join("tasks"), task);
        }
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The cpuset loses the CPU on which a thread may just be held, and gets that CPU back after the end.
#[test]
fn a_program_whose_cpuset_shrinks_is_left_with_all_cpus_of_the_cpuset() {
    let folder = tempfile::tempdir().unwrap();
    let Some(cpuset) = Cpuset::of_two() else { return };
    for lost in ["0", "1", "0", "1"] {
        assert!(cpuset.cpus("0-1"));
        let counter = Counter::start(folder.path());
        cpuset.write("cgroup.procs", &counter.pid());
        let _turn = turn();
        let mut run = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let words = "measure program-costs --progress count --rounds 12 --block 20ms --share 30% -o x.parquet --force --pid";
        run.args(words.split(' ')).arg(counter.pid()).current_dir(folder.path());
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(900));
        assert!(cpuset.cpus(if lost == "0" { "1" } else { "0" }));
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(cpuset.cpus("0-1"));
        assert_eq!(counter.allowed(), BTreeSet::from(["0-1".to_owned()]), "without {lost}");
    }
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
    if leaves.iter().any(|it| it.invalid.as_ref().is_some_and(|why| why.contains("not measured"))) {
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

#[test]
fn a_program_of_another_user_is_refused_with_the_right_that_is_missing() {
    // SAFETY: it reads the effective user.
    if unsafe { libc::geteuid() } != 0 {
        skipped("another user's program (not root, so there is none to start)");
        return;
    }
    let (_turn, folder) = (turn(), tempfile::tempdir().unwrap());
    let at = folder.path();
    fs::set_permissions(at, fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_corehop"), at.join("corehop")).unwrap();
    let counter = Counter::start(at);
    let before = counter.allowed();
    let words = "measure program-costs --progress count --rounds 1 -o x.parquet --pid";
    let mut command = Command::new(at.join("corehop"));
    command.args(words.split(' ')).arg(counter.pid()).current_dir(at).uid(65_534).gid(65_534);
    // Another test may just now start a program, which has the copy open for writing until then.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => break done.unwrap(),
        }
    };
    let text = said(&output);
    assert!(text.contains("CAP_SYS_NICE"), "{text}");
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert_eq!(counter.allowed(), before);
}

#[test]
fn two_measurements_at_once_are_refused() {
    let (_turn, folder) = (turn(), tempfile::tempdir().unwrap());
    let counter = Counter::start(folder.path());
    let mut first = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let words = ["measure", "program-costs", "--progress", "count", "--rounds", "1000", "--pid"];
    first.args(words).arg(counter.pid()).current_dir(folder.path());
    let first = Counter(first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_secs(2));
    let output = briefly_at_once(folder.path(), &counter.pid());
    drop(first);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("still"), "5\n").unwrap();
    let mine = std::process::id().to_string();
    for (words, code, part) in [
        (&["--rounds", "1"][..], 2, "missing program"),
        (&["--pid", &mine], 2, "--progress"),
        (&["--pid", "many", "--progress", "still"], 2, "by its number"),
        (&["--progress", "none", "--", "sleep", "5"], 3, "none has no progress"),
        (&["--event", "l4_migration", "--", "true"], 2, "l4_migration"),
        (&["--event", "flush", "--", "true"], 2, "flush cannot be caused"),
        (&["--event", "preemption,preemption", "--", "true"], 2, "each class once"),
        (&["--length", "1s", "--", "true"], 2, "a preemption of 1 s"),
        (&["--length", "1ms,1ms", "--", "true"], 2, "each length once"),
        (&["--preemptor", "64KiB,64KiB", "--", "true"], 2, "each size once"),
        (&["--block", "1ms", "--progress", "still", "--", "true"], 2, "a block of 1 ms"),
        (&["--block", "50ms", "--", "true"], 2, "--progress"),
        (&["--share", "80%", "--", "true"], 2, "at most 50 %"),
        (&["--rounds", "0", "--", "true"], 2, "--rounds 0"),
        (&["--", "/no/such/program"], 3, "/no/such/program"),
        (&["--event", "preemption", "--rounds", "1", "--", "false"], 1, "exit status 1"),
        (
            &["--progress", "still", "--event", "preemption", "--rounds", "1", "--", "true"],
            6,
            "ended before one round",
        ),
    ] {
        let output = corehop(at, &[&["measure", "program-costs"], words].concat());
        let text = said(&output);
        assert!(text.contains(part), "{words:?}: {text}");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
    }
}

#[test]
fn progress_that_stands_still_is_no_cost() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("still"), "5\n").unwrap();
    let words = [
        "measure",
        "program-costs",
        "--progress",
        "still",
        "--event",
        "preemption",
        "--rounds",
        "2",
        "--block",
        "20ms",
        "-o",
        "x.parquet",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let output = corehop(folder.path(), &words);
    let text = said(&output);
    assert!(text.contains("was not measured: no progress in 10 blocks"), "{text}");
    let costs = corehop(folder.path(), &["record", "--costs", "x.parquet", "--", "true"]);
    assert!(
        said(&costs).contains("no block of this file gives the cost of an event"),
        "{}",
        said(&costs)
    );
}

/// A file of rounds of 100 ms in which each event costs 50 us, but for some noise.
fn costs(folder: &Path, events: &[Event]) {
    let plan = Interventions {
        target: Target::Command(vec![Argument::new(b"/usr/bin/xz".to_vec())]),
        progress: Some("count".to_owned()),
        block: Nanos::from_millis(100),
        share: 0.05,
        lengths: vec![Nanos::from_micros(20)],
        preemptors: vec![Polluter {
            wss: Bytes::from_kib(64),
            pattern: Pattern::Shuffled,
            write_ratio: 0.5,
        }],
        events: events.to_vec(),
        blocks: Vec::new(),
    };
    let parameters = json!(ProgramCosts { plan, rounds: 20 });
    let provenance =
        Provenance { parameters, experiment: "program-costs".to_owned(), ..Provenance::default() };
    let mut rows = Vec::new();
    for (round, &event) in (0..20).flat_map(|round| events.iter().map(move |event| (round, event)))
    {
        for dose in ProgramCosts::DOSES.map(u64::from) {
            let noise = 1.0 + 1e-4 * f64::from((round * 7 + dose as u32 * 3) % 11);
            rows.push(CausedBlock {
                machine: "box".into(),
                seed: 1,
                block: rows.len() as u64,
                replicate: u64::from(round),
                event,
                dose,
                events: 10 * dose,
                tried: 10 * dose,
                asked_ns: (event == Event::Preemption).then_some(20e3),
                polluter: None,
                preemptors_ns: 0.0,
                cpu_ns: (1e8 + 5e5 * dose as f64) * noise,
                progress: 100.0,
                wall_ns: 1e8,
                threads: 1,
                exchange_ns: None,
                invalid: None,
            });
        }
    }
    let file = File::create(folder.join("costs.parquet")).unwrap();
    let mut part = BatchWriter::begin(file, RowKind::ProgramCosts, &provenance).unwrap();
    part.append(&Rows::from(rows)).unwrap();
    part.end().unwrap();
}

#[test]
fn a_recording_charges_the_programs_own_costs_and_says_the_loss_first() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    let text = said(&corehop(folder.path(), &["report", "costs.parquet", "--table", "text"]));
    assert!(text.contains("xz: a preemption of 20"), "{text}");
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done & i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; wait";
    let output =
        corehop(folder.path(), &["record", "--costs", "costs.parquet", "--", "sh", "-c", script]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains(" of its CPU time to ") || text.contains("lost none of its CPU time"),
        "{text}"
    );
    assert!(text.contains("no working set is assumed"), "{text}");
}

#[test]
fn metrics_have_the_costs_and_the_losses_for_a_collector() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let spins = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let words = [
        "measure",
        "program-costs",
        "--event",
        "preemption",
        "--rounds",
        "1",
        "--metrics",
        "costs.prom",
        "--",
        "sh",
        "-c",
        spins,
    ];
    let output = corehop(at, &words);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = fs::read_to_string(at.join("costs.prom")).unwrap();
    assert!(
        text.ends_with("# EOF\n")
            && text.contains("corehop_measurement_slowdown_ratio{program=\"sh\"}"),
        "{text}"
    );
    costs(at, &Event::RESUMING);
    let output = corehop(
        at,
        &["record", "--costs", "costs.parquet", "--metrics", "run.prom", "--", "sh", "-c", spins],
    );
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = fs::read_to_string(at.join("run.prom")).unwrap();
    assert!(text.contains("# TYPE corehop_run_cpu_seconds counter\n"), "{text}");
    let again = corehop(at, &["record", "--metrics", "run.prom", "--", "true"]);
    assert_eq!(
        again.status.code(),
        Some(2),
        "a file that is there is not replaced: {}",
        said(&again)
    );
}

#[test]
fn a_verdict_on_deadlines_does_not_take_means_for_bounds() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    let set = r#"{"cpus": 1, "tasks": [{"name": "fast", "wcet_us": 1000, "period_us": 10000, "wss_kib": 64},
        {"name": "slow", "wcet_us": 8000, "period_us": 40000, "wss_kib": 64}]}"#;
    fs::write(folder.path().join("set.json"), set).unwrap();
    let refused = corehop(folder.path(), &["check", "set.json", "--costs", "costs.parquet"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--statistic mean"), "{}", said(&refused));
    let words = ["check", "set.json", "--costs", "costs.parquet", "--statistic", "mean"];
    let taken = corehop(folder.path(), &words);
    assert_eq!(taken.status.code(), Some(1), "{}", said(&taken));
    assert!(said(&taken).contains("no event costs more than the mean"), "{}", said(&taken));
}

#[test]
fn the_costs_of_a_program_give_the_wait_from_which_a_move_pays_and_the_constant_of_linux() {
    let folder = tempfile::tempdir().unwrap();
    costs(folder.path(), &Event::RESUMING);
    // Each event costs 50 us, and preemptions of 20 us were measured: a wait and its preemption cost 50 us at 20 us at the latest.
    let advice = corehop(folder.path(), &["advise", "costs.parquet", "--json"]);
    assert_eq!(advice.status.code(), Some(0), "{}", said(&advice));
    let answer: Value = serde_json::from_slice(&advice.stdout).unwrap();
    let moves = answer["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 4, "{answer}");
    for it in moves {
        let from = it["pays_from"]["estimate_us"].as_f64().unwrap();
        assert!((0.0..=20.0).contains(&from), "{it}");
    }
    let text = said(&corehop(folder.path(), &["advise", "costs.parquet"]));
    assert!(text.contains("xz: moving pays by smt_migration from"), "{text}");
    assert!(text.contains("sched_migration_cost_ns: 50"), "{text}");
    let asked = corehop(folder.path(), &["advise", "costs.parquet", "--length", "10ms"]);
    assert!(said(&asked).contains("for a wait of 10 ms, move (smt_migration)"), "{}", said(&asked));
    let refused = corehop(folder.path(), &["advise", "costs.parquet", "--wss", "64KiB"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--wss"), "{}", said(&refused));
    costs(folder.path(), &[Event::Preemption]);
    let lacks = corehop(folder.path(), &["advise", "costs.parquet"]);
    assert_eq!(lacks.status.code(), Some(1), "{}", said(&lacks));
    assert!(said(&lacks).contains("no cost of a migration"), "{}", said(&lacks));
}
