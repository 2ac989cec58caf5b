// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run to be ended, and how to look at what it leaves.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_system::supervisor::{ProcessId, Restored, restore};
use tempfile::TempDir;

use crate::guarded;

pub(crate) struct Run {
    pub(crate) process: Child,
    pub(crate) orders: Option<ChildStdin>,
    pub(crate) answers: BufReader<ChildStdout>,
    pub(crate) folder: TempDir,
}

impl Run {
    pub(crate) fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("setting"), "before").unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.arg(guarded::ROLE).arg(folder.path().join("run"));
        Self::begin_as(command, folder)
    }

    /// A run with its journal in the folder of `other`.
    pub(crate) fn begin_beside(other: &Self) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.arg(guarded::ROLE).arg(other.path("run"));
        Self::begin_as(command, tempfile::tempdir().unwrap())
    }

    pub(crate) fn begin_as(mut command: Command, folder: TempDir) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        heed_signals(&mut command);
        let mut process = command.spawn().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { orders: process.stdin.take(), answers, process, folder }
    }

    /// A run that has changed the setting.
    pub(crate) fn begin_with_a_change() -> Self {
        let mut run = Self::begin();
        run.change("during the run");
        assert_eq!(run.setting(), "during the run");
        run
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_ref().unwrap(), "{order}").unwrap();
    }

    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    pub(crate) fn must(&mut self, order: &str) {
        assert_eq!(self.ask(order), "done", "{order}");
    }

    pub(crate) fn change(&mut self, to: &str) {
        let order = format!("set {} {to}", self.path("setting").display());
        self.must(&order);
    }

    /// Starts a load of four processes, one of which leaves the group and one of which ignores
    /// SIGTERM; waits until all have written down who they are.
    pub(crate) fn load(&mut self) -> Vec<ProcessId> {
        let pids = self.path("pids");
        let note = format!("echo $$ >> {}; exec sleep 60", pids.display());
        self.must(&format!(
            "load {} sh -c '{note}' & setsid sh -c '{note}' & sh -c 'trap \"\" TERM; {note}' & \
             echo $$ >> {}; wait",
            first_cpu(),
            pids.display()
        ));
        let read = || fs::read_to_string(&pids).unwrap_or_default();
        eventually("the load runs", || read().lines().count() == 4 && read().ends_with('\n'));
        let mut all: Vec<ProcessId> =
            read().lines().map(|pid| ProcessId::of(pid.parse().unwrap()).unwrap()).collect();
        all.push(ProcessId::of(self.ask("leader").parse().unwrap()).unwrap());
        all
    }

    pub(crate) fn supervisor(&mut self) -> ProcessId {
        ProcessId::of(self.ask("supervisor").parse().unwrap()).unwrap()
    }

    pub(crate) fn own(&self) -> ProcessId {
        ProcessId::of(self.process.id() as i32).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn setting(&self) -> String {
        fs::read_to_string(self.path("setting")).unwrap()
    }

    pub(crate) fn journals(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path("run")).into_iter().flatten().flatten();
        let paths = names.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|it| it == "journal")).collect()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        eventually("the run ends", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// A run of which both processes were killed, so that the setting is not restored.
    pub(crate) fn killed_with_its_supervisor() -> Self {
        let mut run = Self::begin_with_a_change();
        let supervisor = run.supervisor();
        kill(supervisor, libc::SIGKILL);
        kill(run.own(), libc::SIGKILL);
        run.wait();
        assert_eq!((run.setting().as_str(), run.journals().len()), ("during the run", 1));
        run
    }

    pub(crate) fn restore(&self) -> Vec<Restored> {
        restore(&self.path("run")).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // End of input ends it, should a test have failed in between, or else SIGKILL.
        self.orders = None;
        for _ in 0..1_000 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process of this test's that does nothing, in a group of its own, until this is dropped.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn begin() -> Self {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> ProcessId {
        // Not waited for, so the number is its own, alive or not.
        ProcessId::of(self.0.id() as i32).unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn kill(process: ProcessId, signal: i32) {
    assert!(process.is_alive(), "{process:?} is not there to be sent signal {signal}");
    // SAFETY: kill takes two integers; the process is one that this test has started.
    assert_eq!(unsafe { libc::kill(process.pid, signal) }, 0);
}

/// Lets the process that `command` starts heed the signals that ask to end, even where this test was
/// started by something that ignores them, such as nohup.
fn heed_signals(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: sets a disposition; async-signal-safe.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure calls nothing that is not async-signal-safe.
    unsafe { command.pre_exec(reset) };
}

/// Patience, not a claim on time: the machine may be busy with other tests.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        sleep(Duration::from_millis(2));
    }
}

pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A file of `/proc/PID/status`, without its name.
pub(crate) fn status(pid: i32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

pub(crate) fn allowed() -> String {
    status(std::process::id() as i32, "Cpus_allowed_list")
}

pub(crate) fn first_cpu() -> String {
    allowed().split([',', '-']).next().unwrap().to_owned()
}
