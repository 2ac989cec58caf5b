// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds one program thread at a time on a CPU, and records how to release it.
//!
//! A thread is held where it is, or where it is sent, until the next event or the end of the block. Without that the scheduler
//! would undo a migration, or make one of a preemption, and blocks without events hold their thread alike. The journal has the
//! way back from each CPU before a thread is held there. A thread that has chosen other CPUs meanwhile goes its own way: it is
//! left alone from then on. A thread from which its cpuset took the CPU has chosen nothing, and is put back.

use std::collections::{HashMap, HashSet};
use std::io;

use corehop_plan::host::ActiveThread;
use corehop_plan::units::{Cpu, CpuList};

use crate::observe::way_back;
use corehop_system::proc::ProcEntry;
use corehop_system::supervisor::{Guard, ProcessId, SupervisorError, Undo, UndoId, has_chosen};
use corehop_system::thread::{affinity_of, set_affinity_of};

/// A thread of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The CPUs that the thread may use.
    pub(super) home: CpuList,
}

impl SubjectThread {
    /// The CPU on which the thread last ran, and whether it runs or waits for that CPU. Returns `None` if the thread
    /// has ended.
    pub(super) fn now(&self) -> Option<(Cpu, bool)> {
        let stat = ProcEntry::thread(self.pid, self.tid).stat().ok()?;
        Some((stat.cpu?, stat.state == b'R'))
    }
}

/// The reason why a thread cannot be held.
#[derive(Debug)]
pub(super) enum HoldError {
    /// The thread has ended, has chosen its CPUs itself, or may no longer use the requested CPU.
    Gone,
    /// The kernel refused to hold the thread.
    Refused(io::Error),
    /// corehop cannot record in the journal how to undo the hold.
    Unwatched(SupervisorError),
}

/// The thread that is held, the CPU on which it is held, and the change that undoes the hold.
#[derive(Debug)]
struct HeldThread {
    thread: SubjectThread,
    on: Cpu,
    way: Undo,
}

/// Holds threads, one at a time. When dropped, the value releases the held thread.
#[derive(Debug)]
pub(super) struct ThreadHold {
    guard: Guard,
    /// For each thread and each CPU on which it was held: the change that undoes the hold, and the journal entry of
    /// this change.
    ways: HashMap<(i32, u64, Cpu), (UndoId, Undo)>,
    held: Option<HeldThread>,
    /// Threads that have chosen CPUs themselves.
    astray: HashSet<u32>,
    /// The threads of the previous listing.
    known: HashSet<u32>,
    /// For each process and each CPU on which a thread of the process was held: the CPUs that this thread may use.
    lent: HashMap<(u32, Cpu), CpuList>,
}

impl ThreadHold {
    pub(super) fn new(guard: Guard) -> Self {
        let (ways, lent) = (HashMap::new(), HashMap::new());
        Self { guard, ways, held: None, astray: HashSet::new(), known: HashSet::new(), lent }
    }

    /// Whether the thread has chosen CPUs itself, or has only one CPU.
    pub(super) fn is_astray(&self, thread: &SubjectThread) -> bool {
        thread.home.len() < 2 || self.astray.contains(&thread.tid)
    }

    /// Corrects the CPUs of listed threads that the hold has changed. The held thread gets its allowed CPUs in the
    /// list. A thread that the held thread has started inherits its single CPU, and `correct` gives it the CPUs of the
    /// held thread.
    ///
    /// A thread counts as started by a held thread if it is new in the list and has only one CPU, on which a thread
    /// of its process or of its parent process was held.
    pub(super) fn correct(&mut self, threads: &mut [ActiveThread]) {
        let listed = threads.iter().map(|it| it.tid).collect();
        let known = std::mem::replace(&mut self.known, listed);
        for thread in threads {
            if let Some(held) = self.held.as_ref().filter(|it| it.thread.tid == thread.tid) {
                thread.allowed = held.thread.home.clone();
                continue;
            }
            let is_new = !known.contains(&thread.tid);
            let home = is_new.then(|| self.lender_of(thread)).flatten();
            // One that has ended needs nothing.
            if let Some(home) = home
                && set_affinity_of(thread.tid.cast_signed(), home.iter()).is_ok()
            {
                thread.allowed = home;
            }
        }
    }

    /// The CPUs of the held thread that started this thread; `None` if no held thread started it.
    fn lender_of(&self, thread: &ActiveThread) -> Option<CpuList> {
        let only = thread.allowed.first().filter(|_| thread.allowed.len() == 1)?;
        let lent = |pid: u32| self.lent.get(&(pid, only)).cloned();
        let parent = || Some(ProcEntry::process(thread.pid).stat().ok()?.parent);
        lent(thread.pid).or_else(|| lent(parent()?))
    }

    /// Tells the supervisor that this process is alive.
    pub(super) fn beat(&self) -> Result<(), SupervisorError> {
        self.guard.beat()
    }

    /// Holds a thread on a CPU, and releases the previous thread.
    pub(super) fn hold(&mut self, thread: &SubjectThread, on: Cpu) -> Result<(), HoldError> {
        if self.held.as_ref().is_some_and(|it| it.thread.tid != thread.tid) {
            self.let_go();
        }
        let tid = thread.tid.cast_signed();
        let expected = match &self.held {
            Some(held) => CpuList::new([held.on]),
            None => thread.home.clone(),
        };
        if affinity_of(tid).map_err(|_| HoldError::Gone)? != expected {
            if self.held.is_some() {
                self.let_go();
            } else if has_chosen(tid, &expected).map_err(|_| HoldError::Gone)? {
                self.astray.insert(thread.tid);
            }
            return Err(HoldError::Gone);
        }
        let way = self.write_down(thread, on)?;
        self.lent.insert((thread.pid, on), thread.home.clone());
        set_affinity_of(tid, [on]).map_err(refused)?;
        self.held = Some(HeldThread { thread: thread.clone(), on, way });
        Ok(())
    }

    /// Records in the journal how to undo the hold of a thread on a CPU, unless the journal already has this entry;
    /// returns the undo.
    fn write_down(&mut self, thread: &SubjectThread, on: Cpu) -> Result<Undo, HoldError> {
        let id = ProcessId::of(thread.tid.cast_signed()).map_err(|_| HoldError::Gone)?;
        let key = (id.pid, id.start_time, on);
        // The program may have given the thread other CPUs since.
        let is_current =
            |way: &Undo| matches!(way, Undo::SetAffinity { cpus, .. } if *cpus == thread.home);
        if let Some((_, way)) = self.ways.get(&key).filter(|(_, way)| is_current(way)) {
            return Ok(way.clone());
        }
        let way = way_back(id, thread.home.clone(), CpuList::new([on]));
        let undo = self.guard.record(way.clone()).map_err(HoldError::Unwatched)?;
        if let Some((earlier, _)) = self.ways.insert(key, (undo, way.clone())) {
            self.guard.settled(earlier);
        }
        Ok(way)
    }

    /// Releases the held thread to its former CPUs.
    pub(super) fn let_go(&mut self) {
        let Some(HeldThread { thread, on, way }) = self.held.take() else { return };
        match has_chosen(thread.tid.cast_signed(), &CpuList::new([on])) {
            Ok(false) => {
                // One that cannot be put back has ended, or stays in the journal.
                let _ended = way.apply();
            }
            Ok(true) => drop(self.astray.insert(thread.tid)),
            Err(_) => {}
        }
    }
}

impl Drop for ThreadHold {
    /// Removes from the journal the threads that are no longer held or have chosen their own CPUs; the guard puts the
    /// other threads back.
    fn drop(&mut self) {
        self.let_go();
        for ((tid, start_time, cpu), (id, _)) in self.ways.drain() {
            let same = ProcessId::of(tid).is_ok_and(|it| it.start_time == start_time);
            let is_held = affinity_of(tid).is_ok_and(|it| it == CpuList::new([cpu]));
            if !same || !is_held || self.astray.contains(&tid.cast_unsigned()) {
                self.guard.settled(id);
            }
        }
    }
}

/// Converts an error of setting a thread's CPUs. A CPU that left the cpuset or went offline does not end the run,
/// because the next list of threads has their current CPUs.
fn refused(error: io::Error) -> HoldError {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::EINVAL) => HoldError::Gone,
        _ => HoldError::Refused(error),
    }
}
