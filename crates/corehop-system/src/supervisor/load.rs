// SPDX-License-Identifier: MIT OR Apache-2.0
//! Realistic background loads: any shell command, pinned, restarted when it ends, and ended permanently with the run.
//!
//! Each load has a keeper, a helper process that starts the command, reaps its orphans, and leads its process group.
//! If the measuring process forked itself, each restart would write-protect the measured working set, and the process
//! ID would change. The keeper's ID is recorded only once.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corehop_plan::units::{CpuList, Nanos};

use super::process::{
    ENDING, ProcessId, READY, all, block_only, checked, dispose, enter_helper, signal_set,
    start_helper, wait_readable,
};
use super::undo::{MARK, Undo, end_group, mark};
use super::{Guard, SupervisorError, UndoId};
use crate::proc::Stat;
use crate::thread::{affinity_of, set_affinity};

/// The command-line argument that starts the program as a keeper.
pub(super) const ROLE: &str = "__load";
/// The message that lets the keeper begin, after its process ID is in the journal.
const GO: u8 = b'G';
/// The number of consecutive runs that end immediately after which the command is given up.
const GIVE_UP_AFTER: u32 = 5;

/// A request for a background load.
#[derive(Debug, Clone)]
struct LoadCommand {
    /// The command for `/bin/sh -c`, run in the caller's directory.
    command: String,
    /// The CPUs on which the load may run.
    cpus: CpuList,
}

/// A background load that runs under `SCHED_OTHER` until this value is dropped.
#[derive(Debug)]
pub struct LoadChild {
    load: LoadCommand,
    keeper: Child,
    leader: ProcessId,
    /// The socket to the keeper; closing it ends the load.
    lifeline: Option<UnixStream>,
    progress: File,
    most_ticks: AtomicU64,
    guard: Guard,
    undo: Option<UndoId>,
}

/// Starts `command` as a load on `cpus` and discards its output. The load's process group is in the journal before
/// the command begins.
///
/// # Errors
/// Returns an error if the keeper or the journal is not available, or one of the CPUs is not allowed. A useless command
/// is detected later, by [`LoadChild::check`].
pub fn spawn_load(
    command: &str,
    cpus: CpuList,
    guard: &Guard,
) -> Result<LoadChild, SupervisorError> {
    LoadCommand { command: command.to_owned(), cpus }.spawn(guard)
}

impl LoadCommand {
    /// Starts the load: see [`spawn_load`].
    fn spawn(self, guard: &Guard) -> Result<LoadChild, SupervisorError> {
        let mut child = self.clone().start_keeper(guard).map_err(|source| match source.kind() {
            io::ErrorKind::NotConnected => SupervisorError::NotPrepared,
            _ => SupervisorError::LoadStart { command: self.command, source },
        })?;
        child.check_cpus()?;
        child.undo = Some(guard.record(Undo::KillProcessGroup { leader: child.leader })?);
        child.release().map_err(|source| SupervisorError::LoadStart {
            command: child.load.command.clone(),
            source,
        })?;
        Ok(child)
    }

    /// Starts the keeper, which waits for its release.
    fn start_keeper(self, guard: &Guard) -> io::Result<LoadChild> {
        let progress = memory_file(c"corehop-load")?;
        progress.write_all_at(&KeeperProgress::default().packed(), 0)?;
        let cpus = self.cpus.to_string();
        let arguments = [OsStr::new(&cpus), OsStr::new(&self.command)];
        let theirs = progress.try_clone()?.into();
        let (keeper, lifeline) = start_helper(ROLE, &arguments, theirs, Stdio::null())?;
        // A child that was not waited for: the number is there, and is its own.
        let leader = ProcessId::of(keeper.id() as i32)?;
        Ok(LoadChild {
            load: self,
            keeper,
            leader,
            lifeline: Some(lifeline),
            progress,
            most_ticks: AtomicU64::new(0),
            guard: guard.clone(),
            undo: None,
        })
    }
}

impl LoadChild {
    fn release(&self) -> io::Result<()> {
        self.lifeline.as_ref().map_or(Ok(()), |mut lifeline| lifeline.write_all(&[GO]))
    }

    /// Returns the leader of the load's process group.
    pub fn leader(&self) -> ProcessId {
        self.leader
    }

    /// Returns the number of times that the command has ended and was restarted.
    pub fn restarts(&self) -> u32 {
        KeeperProgress::read(&self.progress).runs
    }

    /// Returns the CPU time of the load so far, including its process group, its ended children, and its keeper (next
    /// to nothing). The time grows in steps of 10 ms and never decreases. The call takes some milliseconds, because
    /// it reads `/proc` for every process.
    pub fn cpu_time(&self) -> Nanos {
        let of_group = |stat: &Stat| stat.pgrp == self.leader.pid;
        let ticks = all().filter(of_group).map(|stat| stat.own_ticks + stat.child_ticks).sum();
        // Between the death of a process and its parent's notice of it, its time is nowhere.
        let before = self.most_ticks.fetch_max(ticks, Ordering::Relaxed);
        // SAFETY: sysconf takes an integer.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        Nanos::new(ticks.max(before) * (1_000_000_000 / per_second))
    }

    /// Checks that the load still runs as requested. Call this function regularly during the run, and at its end.
    ///
    /// # Errors
    /// Returns an error if the command was given up because it repeatedly ended immediately, the keeper was killed, the
    /// kernel moved the load to other CPUs, or the supervisor is stopped.
    pub fn check(&self) -> Result<(), SupervisorError> {
        self.guard.check()?;
        let command = self.load.command.clone();
        let progress = KeeperProgress::read(&self.progress);
        if progress.given_up {
            return Err(SupervisorError::LoadGivenUp {
                command,
                times: GIVE_UP_AFTER,
                status: progress.status(),
            });
        }
        if !self.leader.is_alive() {
            return Err(SupervisorError::LoadKilled { command, pid: self.leader.pid });
        }
        self.check_cpus()
    }

    /// Checks the load's CPUs, because the kernel moves the load if a CPU goes offline or leaves the cpuset.
    fn check_cpus(&self) -> Result<(), SupervisorError> {
        let asked = self.load.cpus.clone();
        match affinity_of(self.leader.pid) {
            Ok(got) if got == asked => Ok(()),
            Ok(got) => {
                Err(SupervisorError::LoadCpus { command: self.load.command.clone(), asked, got })
            }
            Err(source) => {
                Err(SupervisorError::LoadStart { command: self.load.command.clone(), source })
            }
        }
    }
}

impl Drop for LoadChild {
    fn drop(&mut self) {
        self.lifeline = None;
        if let Some(undo) = self.undo {
            // What would not die stays listed, and is reported at the end of the guard.
            let _reported_later = self.guard.undo(undo);
        }
        let _waited_for = self.keeper.wait();
    }
}

/// The keeper's progress in eight bytes of shared memory, which are written and read atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct KeeperProgress {
    /// The number of runs that have ended.
    runs: u32,
    /// The status of the last run, in the format of waitpid(2).
    wait_status: u16,
    given_up: bool,
}

impl KeeperProgress {
    fn packed(self) -> [u8; 8] {
        let word = u64::from(self.runs) << 32
            | u64::from(self.given_up) << 16
            | u64::from(self.wait_status);
        word.to_le_bytes()
    }

    fn unpacked(bytes: [u8; 8]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self { runs: (word >> 32) as u32, wait_status: word as u16, given_up: word >> 16 & 1 == 1 }
    }

    fn read(file: &File) -> Self {
        let mut bytes = [0; 8];
        // The file has had eight bytes since before the keeper was started.
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Self::unpacked(bytes),
            Err(_) => Self::default(),
        }
    }

    fn status(self) -> ExitStatus {
        ExitStatus::from_raw(i32::from(self.wait_status))
    }
}

fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: memfd_create reads a C string, which `name` is.
    let fd = checked(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: a descriptor that the kernel has just made, with this one owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The descriptors that the keeper polls while the command runs.
struct Keeper {
    lifeline: UnixStream,
    parents_death: Option<OwnedFd>,
    signals: File,
}

/// The keeper's `main`, which runs `command` on `cpus` repeatedly until the other end of the lifeline closes, the
/// parent dies, or SIGTERM arrives.
pub(super) fn keep(cpus: &OsStr, command: &OsStr) -> io::Result<()> {
    let lifeline = enter_helper(c"corehop-load")?;
    let own = ProcessId::own()?;
    let parent = ProcessId::of(std::os::unix::process::parent_id() as i32)?;
    if let Some(cpus) = cpus.to_str().and_then(|list| list.parse::<CpuList>().ok()) {
        // The parent looks at what came of it.
        let _seen_there = set_affinity(cpus.iter());
    }
    // SAFETY: PR_SET_CHILD_SUBREAPER takes an integer.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })?;
    let mut keeper =
        Keeper { lifeline, parents_death: parent.death_notice(), signals: keeper_signals()? };
    keeper.lifeline.write_all(READY)?;
    let mut word = [0];
    if io::Read::read(&mut keeper.lifeline, &mut word)? == 1 && word == [GO] {
        let ended = keeper.run_on_and_on(command, &mark(own));
        let _none_left = end_group(own);
        ended?;
    }
    Ok(())
}

fn keeper_signals() -> io::Result<File> {
    let heard = [libc::SIGCHLD, libc::SIGTERM];
    // Ignored, its children would vanish with the time they used.
    dispose(&[libc::SIGCHLD], libc::SIG_DFL);
    block_only(&heard);
    let set = signal_set(&heard);
    // SAFETY: signalfd reads `set`, and makes a new descriptor.
    let fd = checked(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
    // SAFETY: a descriptor that the kernel has just made, with this one owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

impl Keeper {
    fn run_on_and_on(&mut self, command: &OsStr, mark: &str) -> io::Result<()> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut progress = KeeperProgress::default();
        let mut at_once = 0;
        while !progress.given_up {
            let (begun, used) = (Instant::now(), children_time());
            let pid = start(command, mark)?;
            let Some(wait_status) = self.until_all_ended(pid)? else { return Ok(()) };
            progress.runs += 1;
            progress.wait_status = wait_status as u16;
            let ran = (begun.elapsed(), children_time().saturating_sub(used));
            at_once = if ended_at_once(wait_status == 0, ran) { at_once + 1 } else { 0 };
            progress.given_up = at_once == GIVE_UP_AFTER;
            file.write_all_at(&progress.packed(), 0)?;
        }
        // The time used can be asked for as long as the keeper lives.
        while !self.is_over()? {}
        Ok(())
    }

    /// Waits for the command and for all processes it has left behind; returns the command's wait status, or `None`
    /// if the load is over.
    fn until_all_ended(&mut self, command: libc::pid_t) -> io::Result<Option<i32>> {
        let mut status = 0;
        loop {
            let mut of_child = 0;
            // SAFETY: waitpid writes to a live local.
            match unsafe { libc::waitpid(-1, &raw mut of_child, libc::WNOHANG) } {
                -1 => return Ok(Some(status)),
                0 if self.is_over()? => return Ok(None),
                pid if pid == command => status = of_child,
                _ => {}
            }
        }
    }

    /// Waits for an event; returns whether the load is over.
    fn is_over(&mut self) -> io::Result<bool> {
        let death = self.parents_death.as_ref().map(|fd| fd as &dyn AsRawFd);
        let [closed, orphaned, signalled] =
            wait_readable([Some(&self.lifeline), death, Some(&self.signals)], None)?;
        Ok(closed || orphaned || (signalled && self.next_signal()? == libc::SIGTERM))
    }

    /// The number of the next signal, which is the first word of signalfd(2)'s record.
    fn next_signal(&mut self) -> io::Result<i32> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        io::Read::read_exact(&mut self.signals, &mut record)?;
        Ok(i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
    }
}

/// Whether a run ended immediately: it failed within a second, or used almost no time.
fn ended_at_once(success: bool, (wall, cpu): (Duration, Duration)) -> bool {
    let idle = wall < Duration::from_millis(200) && cpu < Duration::from_millis(5);
    idle || (!success && wall < Duration::from_secs(1))
}

/// The CPU time of the children for which this process has waited.
fn children_time() -> Duration {
    // SAFETY: all-zero bits are a valid value of this plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: getrusage writes to a live local.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000))
        .iter()
        .sum()
}

fn start(command: &OsStr, mark: &str) -> io::Result<libc::pid_t> {
    let output = || io::stderr().as_fd().try_clone_to_owned();
    let keeper = std::process::id() as libc::pid_t;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env(MARK, mark);
    shell.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    // SAFETY: `become_a_load` makes system calls only; it neither allocates nor locks.
    unsafe { shell.pre_exec(move || become_a_load(keeper)) };
    Ok(shell.spawn()?.id() as libc::pid_t)
}

/// Prepares a forked process before exec: it receives signals normally, and dies with its keeper.
fn become_a_load(keeper: libc::pid_t) -> io::Result<()> {
    dispose(&ENDING, libc::SIG_DFL);
    block_only(&[]);
    // SAFETY: the calls take integers.
    unsafe {
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != keeper {
            // The keeper died before the line above took effect.
            libc::_exit(1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_keeper_tells_arrives() {
        for told in [
            KeeperProgress::default(),
            KeeperProgress { runs: u32::MAX, wait_status: 0x7f00, given_up: true },
            KeeperProgress { runs: 3, wait_status: 9, given_up: false },
        ] {
            assert_eq!(KeeperProgress::unpacked(told.packed()), told);
        }
        let not_found = KeeperProgress { runs: 5, wait_status: 0x7f00, given_up: true };
        assert_eq!(not_found.status().code(), Some(127));
    }

    #[test]
    fn a_short_run_that_works_is_a_load_and_one_that_does_nothing_or_fails_is_not() {
        let ms = Duration::from_millis;
        let compile = (ms(60), ms(55));
        assert!(!ended_at_once(true, compile) && ended_at_once(false, compile));
        assert!(ended_at_once(true, (ms(3), ms(1))));
        assert!(!ended_at_once(true, (ms(900), ms(1))) && !ended_at_once(false, (ms(1500), ms(1))));
    }
}
