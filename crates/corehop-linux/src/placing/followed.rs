// SPDX-License-Identifier: MIT OR Apache-2.0
//! The followed processes, including the processes that they start.
//!
//! If the wake graph runs, the kernel adds children as they are started, and removes ended processes. Otherwise
//! `/proc` shows children at each look, and a process whose parent ends between two looks is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PlacingError;
use crate::bpf::sharing::WakeGraph;
use crate::observe::{cgroup, members};
use corehop_system::proc::ProcEntry;
use corehop_system::supervisor::ProcessId;

/// The followed processes, updated at each look.
#[derive(Debug)]
pub(crate) struct ProcessTracker {
    /// The kernel's table of processes.
    kernel: Option<Arc<WakeGraph>>,
    cgroups: Vec<PathBuf>,
    /// The found processes by process ID, with their start times, so that a reused ID is not followed.
    known: BTreeMap<u32, ProcessId>,
}

impl ProcessTracker {
    /// Creates a tracker without processes.
    pub(crate) fn new(kernel: Option<Arc<WakeGraph>>) -> Self {
        Self { kernel, cgroups: Vec::new(), known: BTreeMap::new() }
    }

    /// Whether one of the cgroups still exists.
    pub(crate) fn has_cgroup(&self) -> bool {
        self.cgroups.iter().any(|it| it.exists())
    }

    /// Follows a process and its descendants.
    ///
    /// # Errors
    /// Fails if there is no such user process.
    pub(crate) fn process(&mut self, pid: u32) -> Result<(), PlacingError> {
        let what = format!("process {pid}");
        let no_target = |source| PlacingError::NoTarget { what: what.clone(), source };
        let absent = |text| no_target(io::Error::new(io::ErrorKind::NotFound, text));
        let status = ProcEntry::process(pid)
            .status()
            .map_err(|_| absent("there is no such process: `pgrep NAME` finds numbers"))?;
        if status.number::<u32>("Tgid").is_some_and(|it| it != pid) {
            return Err(absent(
                "this is a thread of another process: name that process (Tgid in /proc/PID/status)",
            ));
        }
        if status.state() == Some(b'Z') {
            return Err(absent("the process has ended, and waits for its parent"));
        }
        // A thread of the kernel has no memory of its own.
        if status.field("VmSize").is_none() {
            return Err(PlacingError::Kernel { pid });
        }
        self.tree(pid).map_err(no_target)
    }

    /// Follows the processes of a cgroup, including processes that enter it later.
    ///
    /// # Errors
    /// Fails if the cgroup does not exist.
    pub(crate) fn cgroup(&mut self, path: &Path) -> io::Result<()> {
        let path = cgroup(path)?;
        self.members(&path)?;
        self.cgroups.push(path);
        Ok(())
    }

    /// Follows the processes that `start` starts, from their first instruction on.
    ///
    /// # Errors
    /// Fails if the kernel cannot follow the processes.
    pub(crate) fn child<T>(&mut self, start: impl FnOnce() -> T) -> io::Result<T> {
        let Some(kernel) = &self.kernel else { return Ok(start()) };
        let own = std::process::id();
        kernel.follow(own)?;
        let started = start();
        kernel.leave(own);
        Ok(started)
    }

    /// Adds a started process, in case the kernel does not follow it.
    pub(crate) fn started(&mut self, pid: u32) {
        // One that has ended has no threads.
        let _gone = self.enter(pid);
    }

    /// Adds a process. The kernel starts to follow the process before the check that the process lives, so that the
    /// kernel sees the process end.
    fn enter(&mut self, pid: u32) -> io::Result<()> {
        if let Some(kernel) = &self.kernel {
            kernel.follow(pid)?;
        }
        let id = ProcessId::of(pid.cast_signed()).ok().filter(|it| lives(*it));
        let Some(id) = id else {
            self.leave(pid);
            return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"));
        };
        self.known.insert(pid, id);
        Ok(())
    }

    fn leave(&mut self, pid: u32) {
        self.known.remove(&pid);
        if let Some(kernel) = &self.kernel {
            kernel.leave(pid);
        }
    }

    fn tree(&mut self, pid: u32) -> io::Result<()> {
        self.enter(pid)?;
        for child in ProcEntry::process(pid).children() {
            // One that has ended meanwhile is no loss.
            let _gone = self.tree(child);
        }
        Ok(())
    }

    /// Adds the processes of the cgroup that are not followed yet.
    fn members(&mut self, path: &Path) -> io::Result<BTreeSet<u32>> {
        let inside: BTreeSet<u32> = members(path)?.into_iter().collect();
        let mut new: Vec<u32> = inside.iter().copied().collect();
        new.retain(|pid| !self.known.contains_key(pid));
        for &pid in &new {
            let _gone = self.enter(pid);
        }
        // A number that became another's before it was entered is no member now.
        let now = if new.is_empty() { Vec::new() } else { members(path)? };
        for pid in new.into_iter().filter(|pid| !now.contains(pid)) {
            self.leave(pid);
        }
        Ok(inside)
    }

    /// The current processes, in ascending order.
    pub(crate) fn now(&mut self) -> Vec<u32> {
        // A cgroup that is gone has no processes.
        let paths = self.cgroups.clone();
        let inside = paths.iter().filter_map(|path| self.members(path).ok()).flatten().collect();
        match self.kernel.as_ref().map(|it| it.processes()) {
            Some(Ok(processes)) => self.keep(processes),
            // It does not tell any more: what is known is followed further.
            Some(Err(_)) => {
                self.kernel = None;
                self.look();
            }
            None => self.look(),
        }
        if !self.cgroups.is_empty() {
            self.leave_outside(&inside);
        }
        self.known.keys().copied().collect()
    }

    /// Removes processes that have left the cgroups. A process that was just started is added again at the next look.
    fn leave_outside(&mut self, inside: &BTreeSet<u32>) {
        let outside = self.known.keys().filter(|it| !inside.contains(it));
        for pid in outside.copied().collect::<Vec<u32>>() {
            self.leave(pid);
        }
    }

    /// Replaces the known processes by the processes in the kernel's table.
    fn keep(&mut self, mut processes: Vec<u32>) {
        processes.sort_unstable();
        self.known.retain(|pid, _| processes.binary_search(pid).is_ok());
        for pid in processes {
            if let std::collections::btree_map::Entry::Vacant(place) = self.known.entry(pid)
                && let Ok(id) = ProcessId::of(pid.cast_signed())
            {
                place.insert(id);
            }
        }
    }

    /// Removes ended processes, and adds new children.
    fn look(&mut self) {
        self.known.retain(|_, it| lives(*it));
        let mut pending: Vec<u32> = self.known.keys().copied().collect();
        while let Some(pid) = pending.pop() {
            let mut new = ProcEntry::process(pid).children();
            new.retain(|it| !self.known.contains_key(it));
            pending.extend(new.into_iter().filter(|&it| self.enter(it).is_ok()));
        }
    }
}

/// Whether a thread of the process runs, even if its first thread has ended.
fn lives(process: ProcessId) -> bool {
    let task = ProcEntry::process(process.pid);
    let threads = || task.threads().map_or(0, Iterator::count);
    let same = || ProcessId::of(process.pid).is_ok_and(|it| it == process);
    process.is_alive() || (same() && threads() > 1)
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// One tracker with the kernel's table, if BPF is available, and one tracker without the table.
    fn both() -> Vec<ProcessTracker> {
        let kernel = WakeGraph::open().map(Arc::new);
        let kernel = kernel.inspect_err(|error| eprintln!("skipped: {error}")).ok();
        let with = kernel.map(|it| ProcessTracker::new(Some(it)));
        with.into_iter().chain([ProcessTracker::new(None)]).collect()
    }

    /// A shell that runs `script`, and then reads a line.
    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script}; echo; read x")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process with this process ID, if the kernel assigns it; it sleeps until it is killed.
    fn of_number(pid: u32) -> Option<u32> {
        // clone3(2), version 1: the numbers are at words 8 and 9.
        let numbers = [pid.cast_signed()];
        let mut arguments = [0_u64; 10];
        arguments[4] = libc::SIGCHLD as u64;
        arguments[8] = numbers.as_ptr() as u64;
        arguments[9] = 1;
        // SAFETY: the arguments outlive the call and have the length given; without flags it is a fork, and the child
        // calls nothing but pause and _exit.
        let made =
            unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) };
        if made == 0 {
            // SAFETY: both may be called after a fork.
            unsafe {
                libc::pause();
                libc::_exit(0);
            }
        }
        (made > 0).then_some(made as u32)
    }

    fn reap(pid: u32) {
        // SAFETY: a child of this process that was not waited for.
        unsafe {
            libc::kill(pid.cast_signed(), libc::SIGKILL);
            libc::waitpid(pid.cast_signed(), std::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn a_number_that_became_another_process_s_is_not_followed() {
        for mut followed in both() {
            let first = shell("true");
            let pid = first.id();
            followed.process(pid).unwrap();
            assert_eq!(followed.now(), [pid]);
            end(first);
            // Start times are told in hundredths of a second.
            std::thread::sleep(Duration::from_millis(30));
            let Some(other) = of_number(pid) else {
                return eprintln!("skipped: {}", io::Error::last_os_error());
            };
            let now = followed.now();
            reap(other);
            assert_eq!((other, now), (pid, vec![]));
        }
    }

    #[test]
    fn of_a_tree_of_short_lived_processes_those_that_are_left_are_followed() {
        for mut followed in both() {
            // The parent of the last sleeper ends before it; it was seen before.
            let tree =
                shell("sleep 60 & for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.01 & true) & done");
            followed.process(tree.id()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            let left = loop {
                let now = followed.now();
                // A child has the shell's name until it is another program.
                let is_asleep =
                    |&pid: &u32| ProcEntry::process(pid).name().is_ok_and(|it| it == "sleep");
                if now.len() == 2 && now.iter().any(is_asleep) || Instant::now() > deadline {
                    break now;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            assert_eq!(left.len(), 2, "the shell and the sleeper: {left:?}");
            let sleeper = *left.iter().find(|&&it| it != tree.id()).unwrap();
            let name = ProcEntry::process(sleeper).name().unwrap();
            end(tree);
            // SAFETY: the process of this test that was just looked at.
            unsafe { libc::kill(sleeper.cast_signed(), libc::SIGKILL) };
            assert_eq!(name, "sleep");
        }
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_followed_as_long_as_another_runs() {
        let script = "import threading, time, ctypes\n\
            threading.Thread(target=time.sleep, args=(60,)).start()\n\
            print(flush=True)\n\
            ctypes.CDLL(None).syscall(60, 0)\n";
        for mut followed in both() {
            let mut command = Command::new("python3");
            command.args(["-c", script]).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            if followed.process(child.id()).is_err() {
                child.wait().unwrap();
                return eprintln!("skipped: python3 has ended");
            }
            let first = ProcEntry::thread(child.id(), child.id());
            let deadline = Instant::now() + Duration::from_secs(20);
            while first.status().unwrap().state() != Some(b'Z') {
                assert!(Instant::now() < deadline, "its first thread ends");
                std::thread::sleep(Duration::from_millis(5));
            }
            let now = followed.now();
            let pid = child.id();
            end(child);
            assert_eq!(now, [pid]);
        }
    }
}
