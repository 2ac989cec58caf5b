// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes whose threads are looked at, with those that they start.
//!
//! The kernel enters children as they are started, and takes out what has ended, where the wake graph runs. Without
//! it `/proc` tells of children at each look; a process whose parent ends between two looks is not found then.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PlacingError;
use crate::bpf::sharing::WakeGraph;
use crate::observe::members;
use crate::supervisor::ProcessId;

/// Processes, looked up again and again.
#[derive(Debug)]
pub(super) struct Followed {
    /// The kernel's table.
    kernel: Option<Arc<WakeGraph>>,
    cgroups: Vec<PathBuf>,
    /// What was found, by number, so that a number that became another's is not followed.
    known: BTreeMap<u32, ProcessId>,
}

impl Followed {
    /// None so far.
    pub(super) fn new(kernel: Option<Arc<WakeGraph>>) -> Self {
        Self { kernel, cgroups: Vec::new(), known: BTreeMap::new() }
    }

    /// Whether one of the cgroups is still there.
    pub(super) fn has_cgroup(&self) -> bool {
        self.cgroups.iter().any(|it| it.exists())
    }

    /// Follows a process and its descendants.
    ///
    /// # Errors
    /// If it is no process of a program's.
    pub(super) fn process(&mut self, pid: u32) -> Result<(), PlacingError> {
        let what = format!("process {pid}");
        let no_target = |source| PlacingError::NoTarget { what: what.clone(), source };
        let absent = |text| no_target(io::Error::new(io::ErrorKind::NotFound, text));
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .map_err(|_| absent("there is no such process: `pgrep NAME` finds numbers"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|it| it.split_whitespace().next())
        };
        if field("Tgid:").is_some_and(|it| it != pid.to_string()) {
            return Err(absent(
                "it is a thread of another process: name that one (Tgid in /proc/PID/status)",
            ));
        }
        if field("State:") == Some("Z") {
            return Err(absent("it has ended, and waits for its parent"));
        }
        // A thread of the kernel has no memory of its own.
        if field("VmSize:").is_none() {
            return Err(PlacingError::Kernel { pid });
        }
        self.tree(pid).map_err(no_target)
    }

    /// Follows the processes of a cgroup, also those that come to it later.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn cgroup(&mut self, path: &Path) -> io::Result<()> {
        self.members(path)?;
        self.cgroups.push(path.to_owned());
        Ok(())
    }

    /// Follows what `start` starts, from its first instruction on.
    ///
    /// # Errors
    /// If the kernel does not follow.
    pub(super) fn child<T>(&mut self, start: impl FnOnce() -> T) -> io::Result<T> {
        let Some(kernel) = &self.kernel else { return Ok(start()) };
        let own = std::process::id();
        kernel.follow(own)?;
        let started = start();
        kernel.leave(own);
        Ok(started)
    }

    /// Enters a process that was started, for the case that the kernel does not follow.
    pub(super) fn started(&mut self, pid: u32) {
        // One that has ended has no threads.
        let _gone = self.enter(pid);
    }

    /// Enters a process. The look after the kernel's entry makes sure that its end is seen there.
    fn enter(&mut self, pid: u32) -> io::Result<()> {
        if let Some(kernel) = &self.kernel {
            kernel.follow(pid)?;
        }
        let id = ProcessId::of(pid.cast_signed()).ok().filter(|it| it.is_alive());
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
        for child in children(pid) {
            // One that has ended meanwhile is no loss.
            let _gone = self.tree(child);
        }
        Ok(())
    }

    /// Enters what the cgroup holds and is not followed yet.
    fn members(&mut self, path: &Path) -> io::Result<()> {
        let mut new = members(path)?;
        new.retain(|pid| !self.known.contains_key(pid));
        for &pid in &new {
            let _gone = self.enter(pid);
        }
        // A number that became another's before it was entered is no member now.
        let now = if new.is_empty() { Vec::new() } else { members(path)? };
        for pid in new.into_iter().filter(|pid| !now.contains(pid)) {
            self.leave(pid);
        }
        Ok(())
    }

    /// The processes now, ascending.
    pub(super) fn now(&mut self) -> Vec<u32> {
        for path in self.cgroups.clone() {
            // One that is gone has no processes.
            let _gone = self.members(&path);
        }
        match self.kernel.as_ref().map(|it| it.processes()) {
            Some(Ok(processes)) => self.keep(processes),
            // It does not tell any more: what is known is followed further.
            Some(Err(_)) => {
                self.kernel = None;
                self.look();
            }
            None => self.look(),
        }
        self.known.keys().copied().collect()
    }

    /// Takes over the kernel's table.
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

    /// Takes out what has ended, and enters children that are new.
    fn look(&mut self) {
        self.known.retain(|_, it| it.is_alive());
        let mut pending: Vec<u32> = self.known.keys().copied().collect();
        while let Some(pid) = pending.pop() {
            let new: Vec<u32> =
                children(pid).into_iter().filter(|it| !self.known.contains_key(it)).collect();
            pending.extend(new.into_iter().filter(|&it| self.enter(it).is_ok()));
        }
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let texts = entries
        .flatten()
        .map(|it| fs::read_to_string(it.path().join("children")).unwrap_or_default());
    let numbers = |text: String| -> Vec<u32> {
        text.split_whitespace().filter_map(|it| it.parse().ok()).collect()
    };
    texts.flat_map(numbers).collect()
}
