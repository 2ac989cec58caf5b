// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are hard to measure, and wishes that cannot be granted: each has its sentence, and nothing stays pinned.

use super::*;

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
    assert!(text.contains("no progress (10 blocks)"), "{text}");
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
    assert!(text.contains("was not measured: no progress (5 blocks)"), "{text}");
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
        (&["--event", "flush", "--", "true"], 2, "cannot cause flush"),
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
    assert!(text.contains("was not measured: no progress (10 blocks)"), "{text}");
    let costs = corehop(folder.path(), &["record", "--costs", "x.parquet", "--", "true"]);
    assert!(
        said(&costs)
            .contains("no block of this file is sufficient to compute the cost of an event"),
        "{}",
        said(&costs)
    );
}
