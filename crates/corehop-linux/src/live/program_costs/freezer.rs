// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a thread off its CPU for a stated time, without a signal and without a process in its place.
//!
//! The means is the freezer of cgroup version 2 (Linux 5.2): a threaded cgroup below that of the program holds the thread of the
//! next event, and nothing else. A frozen thread sleeps in the kernel; `wait` of its parent does not report it, and SIGKILL ends it.
//! Only threads that run a moment before are frozen: a system call that sleeps would be woken, and some end with EINTR then
//! (signal(7)). The journal
//! has the way back before the cgroup is made.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corehop_plan::shown;
use corehop_plan::units::Nanos;

use super::held::SubjectThread;
use corehop_system::clock::{monotonic_ns, sleep_until};
use corehop_system::proc::{self, ProcEntry};
use corehop_system::supervisor::{Guard, Undo, UndoId};

/// The time that a running thread has to reach the kernel and freeze. A thread in an uninterruptible sleep needs longer.
const PATIENCE: Duration = Duration::from_millis(5);

/// Freezes threads, one at a time. When dropped, the freezer moves all threads back to their own cgroups.
#[derive(Debug)]
pub(super) struct Freezer {
    guard: Guard,
    /// The folder of the cgroup hierarchy of version 2.
    root: PathBuf,
    /// For each cgroup that contains processes of the program: corehop's cgroup below it, and the journal entry that
    /// removes corehop's cgroup.
    cells: HashMap<PathBuf, (PathBuf, UndoId)>,
    /// For each cgroup that contains processes of the program: the reason why corehop cannot create a cgroup below it.
    refusals: HashMap<PathBuf, String>,
    /// The cgroup that holds the thread of the next event.
    taken: Option<PathBuf>,
}

impl Freezer {
    /// Creates the freezer of this host.
    ///
    /// # Errors
    /// Fails with the reason why this host has no freezer.
    pub(super) fn of_host(guard: Guard) -> Result<Self, String> {
        let mounts = proc::mounts(&proc::bytes("/proc/mounts").unwrap_or_default());
        let none = "no cgroup hierarchy of version 2 is mounted, whose freezer an idle leave needs";
        let root = proc::unified(&mounts).ok_or(none)?.to_owned();
        Ok(Self { guard, root, cells: HashMap::new(), refusals: HashMap::new(), taken: None })
    }

    /// Moves the thread into a cgroup that can be frozen, and moves all other threads back. Returns false if the thread
    /// has ended.
    ///
    /// # Errors
    /// Fails with the reason why the kernel refuses to move the thread.
    pub(super) fn take(&mut self, thread: &SubjectThread) -> Result<bool, String> {
        self.taken = None;
        let Some(now) = self.group_of(thread) else { return Ok(false) };
        let home =
            self.cells.iter().find(|(_, (cell, _))| *cell == now).map(|(home, _)| home.clone());
        let cell = self.cell(&home.unwrap_or(now))?;
        match enter(&cell, thread.tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
            entered => entered.map_err(|error| refused(&cell, &error))?,
        }
        self.release_all_but(thread.tid);
        self.taken = Some(cell);
        Ok(true)
    }

    /// Freezes the thread of the last [`take`](Self::take) for `length`, counted from the time at which the thread is
    /// off its CPU. Returns whether the thread was frozen.
    ///
    /// # Errors
    /// Fails with the reason why the kernel refuses to freeze the thread.
    pub(super) fn freeze(&self, length: Nanos) -> Result<bool, String> {
        let Some(cell) = &self.taken else { return Ok(false) };
        let switch = |on: &str| {
            fs::write(cell.join("cgroup.freeze"), on).map_err(|error| refused(cell, &error))
        };
        switch("1")?;
        let frozen = is_frozen_soon(cell);
        if frozen {
            sleep_until((monotonic_ns() + length.get()).cast_signed());
        }
        // Outside the cgroup no thread stays frozen.
        switch("0").inspect_err(|_| self.let_go())?;
        Ok(frozen)
    }

    /// The cgroup of version 2 to which a thread belongs.
    fn group_of(&self, thread: &SubjectThread) -> Option<PathBuf> {
        let text = ProcEntry::thread(thread.pid, thread.tid).bytes("cgroup").ok()?;
        let below = proc::groups(&text).find(proc::CgroupEntry::is_unified)?.below().to_owned();
        // Above what this process sees of the hierarchy.
        let is_seen = !below.starts_with("..");
        is_seen.then(|| self.root.join(below))
    }

    /// The threaded cgroup below `home`, which is created if it is missing.
    fn cell(&mut self, home: &Path) -> Result<PathBuf, String> {
        if let Some((cell, _)) = self.cells.get(home) {
            return Ok(cell.clone());
        }
        if let Some(why) = self.refusals.get(home) {
            return Err(why.clone());
        }
        let cell = home.join(format!("corehop-leave-{}", std::process::id()));
        let gone = Undo::RemoveCgroup { path: cell.clone(), back_to: home.to_owned() };
        let undo = self.guard.record(gone).map_err(|error| error.to_string())?;
        if let Err(why) = made(&cell) {
            // A folder that was not made is gone already; another one is removed here or at the end.
            let _removed = self.guard.undo(undo);
            self.refusals.insert(home.to_owned(), why.clone());
            return Err(why);
        }
        self.cells.insert(home.to_owned(), (cell.clone(), undo));
        Ok(cell)
    }

    /// Moves all threads back to their own cgroups at the end of a block.
    pub(super) fn let_go(&self) {
        self.release_all_but(0);
    }

    /// Moves all threads except the thread `kept` from corehop's cgroups back to their own cgroups.
    fn release_all_but(&self, kept: u32) {
        for (home, (cell, _)) in &self.cells {
            let inside = proc::text(cell.join("cgroup.threads")).unwrap_or_default();
            let others = inside.lines().filter_map(|it| it.parse().ok()).filter(|&it| it != kept);
            for tid in others {
                // A thread that has ended needs nothing; another one is put back at the end.
                let _ended = enter(home, tid);
            }
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        for (_, (_, undo)) in self.cells.drain() {
            // What cannot be put back stays in the journal, and is reported at the end.
            let _reported_later = self.guard.undo(undo);
        }
    }
}

/// Makes a threaded cgroup, which the kernel can freeze.
fn made(cell: &Path) -> Result<(), String> {
    let made = fs::create_dir(cell).and_then(|()| fs::write(cell.join("cgroup.type"), "threaded"));
    made.map_err(|error| refused(cell, &error))?;
    if cell.join("cgroup.freeze").exists() {
        return Ok(());
    }
    Err("this kernel has no freezer of cgroup version 2: boot Linux 5.2 or later".to_owned())
}

/// Moves a thread into a cgroup; a thread that is already in the cgroup stays there.
fn enter(group: &Path, tid: u32) -> io::Result<()> {
    fs::write(group.join("cgroup.threads"), tid.to_string())
}

/// Whether the kernel reports all threads of the cgroup as frozen before [`PATIENCE`] is over.
fn is_frozen_soon(cell: &Path) -> bool {
    let events = cell.join("cgroup.events");
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if proc::text(&events).is_ok_and(|it| it.lines().any(|line| line == "frozen 1")) {
            return true;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    false
}

fn refused(cell: &Path, error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "run as root, or as a user to whom this cgroup is delegated"
        }
        Some(libc::EOPNOTSUPP | libc::EBUSY) => {
            "the cgroup of the program has controllers for its groups: start the program in a cgroup of its own (systemd-run --scope)"
        }
        _ => "leave out --event idle_leave",
    };
    format!("cgroup {}: {error}; {remedy}", shown::path(cell))
}
