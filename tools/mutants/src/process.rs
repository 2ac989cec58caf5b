// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test programs as processes: in a group of their own, with a limit of time and of other resources, and without
//! processes that stay behind.
//!
//! A mutant can do anything. Limits keep an endless loop from filling the memory, the disk or, under a real-time policy,
//! the machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The soft limits of a test program: seconds without sleep under a real-time policy (in microseconds), bytes of a file, of
/// private memory, and of a core.
const LIMITS: [(libc::__rlimit_resource_t, u64); 4] = [
    (libc::RLIMIT_RTTIME, 3_000_000),
    (libc::RLIMIT_FSIZE, 4 << 30),
    (libc::RLIMIT_DATA, 8 << 30),
    (libc::RLIMIT_CORE, 0),
];

/// The time for which processes may end by themselves after SIGTERM, for instance to undo what they changed.
const GRACE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(2);
/// The time for which the last lines of a program that has ended may be on their way, where a process of the program
/// still holds its standard output.
const LAST_LINES: Duration = Duration::from_secs(5);

/// The end of a test program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TestRun {
    pub way: TestEnd,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TestEnd {
    Passed,
    /// A test failed (the program was then stopped), or the program ended by a signal or an exit code, without a name.
    Failed(Option<String>),
    TimedOut,
}

/// Whether the user has asked this program to stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes this process responsible for all processes below it: the parent of orphans, and alive until it has ended them where
/// the user interrupts it.
pub(crate) fn be_responsible() {
    let handler: extern "C" fn(libc::c_int) = interrupt;
    // SAFETY: sets attributes of this process. The handler only stores to an atomic.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(number, handler as libc::sighandler_t);
        }
    }
}

extern "C" fn interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Runs a test program until its end, its first failed test, or the limit.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<TestRun> {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    // SAFETY: between fork and exec only setrlimit is called, which reads a local.
    unsafe {
        command.pre_exec(|| {
            limit_resources();
            Ok(())
        })
    };
    let mut child = command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
    // The kernel that runs out of memory then ends the mutant and no other program.
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
    let failures = failures(child.stdout.take());
    let way = wait(&mut child, &failures, start + limit);
    if !matches!(way, Ok(TestEnd::Passed)) {
        end_group(&mut child)?;
    }
    Ok(TestRun { way: way?, seconds: start.elapsed().as_secs_f64() })
}

fn limit_resources() {
    for (resource, soft) in LIMITS {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit writes and setrlimit reads a local. A refusal leaves the usual limit.
        unsafe {
            if libc::getrlimit(resource, &raw mut limit) == 0 {
                limit.rlim_cur = limit.rlim_max.min(soft);
                libc::setrlimit(resource, &raw const limit);
            }
        }
    }
}

/// The names of the tests that fail, as the test program prints them.
fn failures(stdout: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let Some(stdout) = stdout else { return };
        for line in BufReader::new(stdout).split(b'\n').map_while(io::Result::ok) {
            if let Some(name) = failed(&String::from_utf8_lossy(&line)) {
                let _ = sender.send(name.to_owned());
            }
        }
    };
    // Without a thread the program's end alone counts.
    let _ = thread::Builder::new().spawn(read);
    receiver
}

fn failed(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.trim_end_matches(" - should panic"))
}

fn wait(child: &mut Child, failures: &Receiver<String>, deadline: Instant) -> Result<TestEnd> {
    loop {
        match failures.recv_timeout(POLL) {
            Ok(name) => return Ok(TestEnd::Failed(Some(name))),
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status, failures));
        }
        if Instant::now() >= deadline {
            return Ok(TestEnd::TimedOut);
        }
        if is_interrupted() {
            bail!("interrupted: the next run goes on here");
        }
    }
}

/// The end of a program by itself.
fn ended(status: ExitStatus, failures: &Receiver<String>) -> TestEnd {
    if status.success() {
        return TestEnd::Passed;
    }
    TestEnd::Failed(failures.recv_timeout(LAST_LINES).ok())
}

/// Ends all processes of the child's group.
fn end_group(child: &mut Child) -> Result<()> {
    let group = -i32::try_from(child.id()).context("a process has a positive number")?;
    signal(group, libc::SIGTERM);
    let until = Instant::now() + GRACE;
    // A group without members refuses signals.
    while Instant::now() < until && child.try_wait()?.is_none() {
        thread::sleep(POLL);
    }
    signal(group, libc::SIGKILL);
    child.wait()?;
    Ok(())
}

fn signal(target: i32, number: i32) -> bool {
    // SAFETY: sends a signal to processes that this program started, and reads no memory.
    unsafe { libc::kill(target, number) == 0 }
}

/// Ends the processes that test programs left behind. No test program may run meanwhile.
pub(crate) fn sweep() {
    let until = Instant::now() + GRACE;
    let mut asked = BTreeSet::new();
    loop {
        let left = children();
        // A process that even SIGKILL does not end waits in the kernel, and runs no code.
        if left.is_empty() || Instant::now() > until + GRACE {
            return;
        }
        for process in left {
            let number = match (Instant::now() < until, asked.insert(process)) {
                (true, true) => libc::SIGTERM,
                (true, false) => 0,
                (false, _) => libc::SIGKILL,
            };
            signal(process, number);
            let mut status = 0;
            // SAFETY: writes a local; the process is a child that nothing else waits for.
            unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) };
        }
        thread::sleep(POLL);
    }
}

/// The processes whose parent this process is, dead ones too.
fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn way(script: &str, limit: Duration) -> TestEnd {
        run(&mut shell(script), limit).unwrap().way
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_program_passes_fails_by_name_or_fails_by_its_end() {
        assert_eq!(way("echo 'test a ... ok'", LONG), TestEnd::Passed);
        assert_eq!(way("kill -SEGV $$", LONG), TestEnd::Failed(None));
        let name = TestEnd::Failed(Some("a::b".to_owned()));
        assert_eq!(way("echo 'test a::b ... FAILED'; exit 101", LONG), name);
    }

    #[test]
    fn the_first_failed_test_stops_the_program() {
        let start = Instant::now();
        let script = "echo 'test a - should panic ... FAILED'; sleep 50";
        assert_eq!(way(script, LONG), TestEnd::Failed(Some("a".to_owned())));
        assert!(start.elapsed() < Duration::from_secs(40), "sleep was not ended");
    }

    #[test]
    fn a_program_beyond_its_time_is_ended_with_all_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("trap '' TERM; sleep 50 & echo $! > {file:?}; wait; sleep 50");
        let start = Instant::now();
        assert_eq!(way(&script, Duration::from_secs(2)), TestEnd::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(40), "the group went on after SIGTERM");
        let process = fs::read_to_string(file).unwrap();
        let state = format!("/proc/{}/stat", process.trim());
        let is_gone = || fs::read_to_string(&state).map_or(true, |text| text.contains(") Z "));
        // The kernel ends a process some time after the signal.
        while !is_gone() && start.elapsed() < Duration::from_secs(40) {
            thread::sleep(POLL);
        }
        assert!(is_gone(), "{:?}", fs::read_to_string(&state));
    }

    #[test]
    fn limits_hold_for_programs_that_tests_start() {
        let script = "sh -c 'test $(ulimit -c) = 0 && test $(ulimit -d) -le 8388608'";
        assert_eq!(way(script, LONG), TestEnd::Passed);
    }
}
