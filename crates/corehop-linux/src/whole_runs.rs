// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a command from start to end on given CPUs, and measures its time.
//!
//! A run has no input and its output is discarded, so that the time includes no terminal. A run has its own process
//! group, which is ended with the run. A process that outlives the command (such as a server in the background)
//! becomes a child of this process, gets the default CPUs back, and makes the run invalid.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::whole_run::{CommandRunner, WholeRun, WholeRunError};
use corehop_plan::units::CpuList;

use crate::observe::{command_of, reap_child};
use corehop_system::proc::ProcEntry;
use corehop_system::supervisor::interrupt::{pass_on_the_end, requested, signal};
use corehop_system::supervisor::pidfd;
use corehop_system::thread::{affinity, set_affinity, set_affinity_of};

/// The time between two checks of a run's threads.
const LOOK: Duration = Duration::from_millis(5);
/// The time between two checks for an interrupt, if threads are not counted.
const WAIT: Duration = Duration::from_millis(100);
/// The time that a run has to end after a signal, shorter than the time of an interrupted corehop.
const PATIENCE: Duration = Duration::from_millis(400);
/// The time that processes which outlive the command have to end.
const STRAGGLE: Duration = Duration::from_millis(100);

/// A command that is run completely.
#[derive(Debug)]
pub struct TimedCommand {
    words: Vec<Argument>,
    /// The CPUs that a command inherits from this process.
    inherited: CpuList,
    /// Whether orphaned processes already became children of this process before the runs.
    was_reaper: bool,
}

impl TimedCommand {
    /// Creates a command from these words.
    ///
    /// # Errors
    /// Fails only with a kernel error that does not occur in correct programs.
    pub fn new(words: Vec<Argument>) -> io::Result<Self> {
        let inherited = affinity()?;
        Ok(Self { words, inherited, was_reaper: adopt_orphans(true)? })
    }

    /// Returns the CPUs that a command inherits from this process.
    pub const fn inherited(&self) -> &CpuList {
        &self.inherited
    }

    /// The command as text.
    fn name(&self) -> String {
        Target::Command(self.words.clone()).to_string()
    }

    fn start(&self, cpus: Option<&CpuList>) -> io::Result<Child> {
        let mut command = command_of(&self.words, false)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        if let Some(cpus) = cpus {
            pin(&mut command, cpus.clone());
        }
        pass_on_the_end(&mut command).spawn()
    }

    /// Rejects a run that left processes behind; these get the default CPUs back.
    fn refuse_strays(&self, before: &BTreeSet<u32>) -> Result<(), WholeRunError> {
        let strays = strays(before);
        let Some(&pid) = strays.first() else { return Ok(()) };
        for stray in strays {
            each_thread(stray, &mut |_, tid| {
                // One that has ended needs nothing.
                let _gone = set_affinity_of(tid.cast_signed(), self.inherited.iter());
            });
        }
        Err(WholeRunError::Strays { what: self.name(), pid })
    }
}

impl Drop for TimedCommand {
    fn drop(&mut self) {
        let _as_before = adopt_orphans(self.was_reaper);
    }
}

impl CommandRunner for TimedCommand {
    fn run(&mut self, cpus: Option<&CpuList>, most: Duration) -> Result<WholeRun, WholeRunError> {
        let (before, started) = (own_children(), Instant::now());
        let child = self
            .start(cpus)
            .map_err(|source| WholeRunError::NotStarted { what: self.name(), source })?;
        let notice = pidfd(child.id().cast_signed());
        let deadline = started + most;
        let mut under_way = RunUnderWay { child, notice, started, deadline, killed_from: None };
        // Threads are counted where the command is left alone: that is the load that it puts on the CPUs that it has.
        let failed = |source| WholeRunError::Failed { what: "waiting for the command", source };
        let run = under_way.wait(cpus.is_none()).map_err(failed)?;
        if run.ended_early {
            // What the command started ends with it.
            end_group(&under_way.child, libc::SIGKILL);
        }
        self.refuse_strays(&before)?;
        Ok(run)
    }
}

/// Makes the command start on these CPUs.
fn pin(command: &mut Command, cpus: CpuList) {
    let begin = move || set_affinity(cpus.iter());
    // SAFETY: `begin` makes one system call on a value that it owns; up to 1,024 CPUs it takes no memory.
    unsafe { command.pre_exec(begin) };
}

/// A run in progress.
struct RunUnderWay {
    child: Child,
    /// A descriptor that becomes readable when the child ends.
    notice: Option<OwnedFd>,
    started: Instant,
    deadline: Instant,
    /// The time at which corehop kills the run; `None` until corehop has asked the run to end.
    killed_from: Option<Instant>,
}

impl RunUnderWay {
    /// Waits for the end of the run, counts its threads if requested, and ends the run if the time is over or the
    /// user interrupts.
    fn wait(&mut self, counts: bool) -> io::Result<WholeRun> {
        let (pid, mut threads) = (self.child.id(), 1);
        loop {
            self.sleep(if counts { LOOK } else { WAIT });
            let wall_ns = self.started.elapsed().as_nanos() as u64;
            if let Some((status, cpu_ns)) = reap_child(pid)? {
                let ended_early = self.killed_from.is_some();
                let run = WholeRun { wall_ns, cpu_ns, status, threads, ended_early };
                return Ok(run);
            }
            self.end_in_time();
            if counts {
                threads = threads.max(wanting(pid));
            }
        }
    }

    /// Sleeps for at most `most`, or until the child ends, so that the wall time does not depend on the sleep.
    fn sleep(&self, most: Duration) {
        let Some(notice) = &self.notice else { return std::thread::sleep(LOOK) };
        let mut poll = libc::pollfd { fd: notice.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live descriptor record, and its number.
        unsafe { libc::poll(&raw mut poll, 1, most.as_millis() as i32) };
    }

    /// Asks the run to end, and kills it if it does not.
    fn end_in_time(&mut self) {
        let now = Instant::now();
        match self.killed_from {
            None if requested() || now >= self.deadline => {
                end_group(&self.child, signal().unwrap_or(libc::SIGTERM));
                self.killed_from = Some(now + PATIENCE);
            }
            Some(from) if now >= from => end_group(&self.child, libc::SIGKILL),
            _ => {}
        }
    }
}

/// Signals the process group of a run. The group number is safe to use. Either this process has not yet waited for
/// the group's first process, or the group still has members, so no other group has the number.
fn end_group(child: &Child, signal: i32) {
    // SAFETY: takes two integers; the number is that of a group that this process has made.
    unsafe { libc::kill(-child.id().cast_signed(), signal) };
}

/// The number of threads of a process and its descendants that run or wait for a CPU at this moment.
fn wanting(pid: u32) -> usize {
    let mut count = 0;
    each_thread(pid, &mut |pid, tid| {
        let state = ProcEntry::thread(pid, tid).stat().map(|it| it.state);
        count += usize::from(state.is_ok_and(|it| it == b'R'));
    });
    count
}

/// Calls `look` for each thread of a process and its descendants.
fn each_thread(pid: u32, look: &mut dyn FnMut(u32, u32)) {
    let entry = ProcEntry::process(pid);
    for tid in entry.threads().into_iter().flatten() {
        look(pid, tid);
    }
    for child in entry.children() {
        each_thread(child, look);
    }
}

/// The child processes for which this process must wait.
fn own_children() -> BTreeSet<u32> {
    ProcEntry::process(std::process::id()).children().into_iter().collect()
}

/// The processes that a run left behind and that do not end soon. Processes that have ended are reaped.
fn strays(before: &BTreeSet<u32>) -> Vec<u32> {
    let end = Instant::now() + STRAGGLE;
    loop {
        let mut left: Vec<u32> = own_children().difference(before).copied().collect();
        left.retain(|&pid| matches!(reap_child(pid), Ok(None)));
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        std::thread::sleep(LOOK);
    }
}

/// Sets whether orphaned descendants become children of this process; returns the earlier setting.
fn adopt_orphans(adopts: bool) -> io::Result<bool> {
    let mut before: libc::c_int = 0;
    // SAFETY: the first call writes to a live local, the second one takes integers.
    let done = unsafe {
        libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut before)
            | libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(adopts))
    };
    if done == 0 { Ok(before != 0) } else { Err(io::Error::last_os_error()) }
}
