// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one thread of a program that is held on a CPU at a time, and its way back.
//!
//! A thread is held where it is, or where it is sent, until the next event or the end of the block. Without that the scheduler
//! would undo a migration, or make one of a preemption, and blocks without events hold their thread alike. The journal has the
//! way back from each CPU before a thread is held there. A thread that has chosen other CPUs meanwhile goes its own way: it is
//! left alone from then on.

use std::collections::{HashMap, HashSet};
use std::io;

use corehop_plan::units::{Cpu, CpuList};

use crate::observe::way_back;
use corehop_system::proc::ProcEntry;
use corehop_system::supervisor::{Guard, ProcessId, SupervisorError, UndoId};
use corehop_system::thread::{affinity_of, set_affinity_of};

/// A thread of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The CPUs that it may use.
    pub(super) home: CpuList,
}

impl SubjectThread {
    /// The CPU that it ran on last, and whether it runs or waits for that CPU. None of one that has ended.
    pub(super) fn now(&self) -> Option<(Cpu, bool)> {
        let stat = ProcEntry::thread(self.pid, self.tid).stat().ok()?;
        Some((stat.cpu?, stat.state == b'R'))
    }
}

/// Why a thread cannot be held.
#[derive(Debug)]
pub(super) enum HoldError {
    /// It has ended, or goes its own way.
    Gone,
    /// The kernel refuses.
    Refused(io::Error),
    /// The way back cannot be written down.
    Unwatched(SupervisorError),
}

/// Holds threads, one at a time. Dropped, it lets go.
#[derive(Debug)]
pub(super) struct ThreadHold {
    guard: Guard,
    /// The way back of each thread from each CPU.
    ways: HashMap<(i32, u64, Cpu), UndoId>,
    held: Option<(SubjectThread, Cpu)>,
    /// Threads that have chosen CPUs themselves.
    astray: HashSet<u32>,
}

impl ThreadHold {
    pub(super) fn new(guard: Guard) -> Self {
        Self { guard, ways: HashMap::new(), held: None, astray: HashSet::new() }
    }

    /// Whether the thread has chosen CPUs itself, or has no choice.
    pub(super) fn is_astray(&self, thread: &SubjectThread) -> bool {
        thread.home.len() < 2 || self.astray.contains(&thread.tid)
    }

    /// Tells the supervisor that this process is at work.
    pub(super) fn beat(&self) -> Result<(), SupervisorError> {
        self.guard.beat()
    }

    /// Holds a thread on a CPU; the one before is let go.
    pub(super) fn hold(&mut self, thread: &SubjectThread, on: Cpu) -> Result<(), HoldError> {
        if self.held.as_ref().is_some_and(|(it, _)| it.tid != thread.tid) {
            self.let_go();
        }
        let tid = thread.tid.cast_signed();
        let expected = match &self.held {
            Some((_, cpu)) => CpuList::new([*cpu]),
            None => thread.home.clone(),
        };
        if affinity_of(tid).map_err(|_| HoldError::Gone)? != expected {
            self.astray.insert(thread.tid);
            self.held = None;
            return Err(HoldError::Gone);
        }
        self.write_down(thread, on)?;
        set_affinity_of(tid, [on]).map_err(refused)?;
        self.held = Some((thread.clone(), on));
        Ok(())
    }

    /// Writes the way back from a CPU down, once.
    fn write_down(&mut self, thread: &SubjectThread, on: Cpu) -> Result<(), HoldError> {
        let id = ProcessId::of(thread.tid.cast_signed()).map_err(|_| HoldError::Gone)?;
        let key = (id.pid, id.start_time, on);
        if !self.ways.contains_key(&key) {
            let undo = way_back(id, thread.home.clone(), CpuList::new([on]));
            self.ways.insert(key, self.guard.record(undo).map_err(HoldError::Unwatched)?);
        }
        Ok(())
    }

    /// Lets the thread go that is held: it may run where it might before.
    pub(super) fn let_go(&mut self) {
        let Some((thread, on)) = self.held.take() else { return };
        let tid = thread.tid.cast_signed();
        match affinity_of(tid) {
            Ok(now) if now == CpuList::new([on]) => {
                // One that cannot be put back has ended, or stays in the journal.
                let _ended = set_affinity_of(tid, thread.home.iter());
            }
            Ok(_) => drop(self.astray.insert(thread.tid)),
            Err(_) => {}
        }
    }
}

impl Drop for ThreadHold {
    /// Threads that are back, or have chosen their CPUs, are crossed off the journal; the others it puts back.
    fn drop(&mut self) {
        self.let_go();
        for ((tid, start_time, cpu), id) in self.ways.drain() {
            let same = ProcessId::of(tid).is_ok_and(|it| it.start_time == start_time);
            let is_held = affinity_of(tid).is_ok_and(|it| it == CpuList::new([cpu]));
            if !same || !is_held || self.astray.contains(&tid.cast_unsigned()) {
                self.guard.settled(id);
            }
        }
    }
}

fn refused(error: io::Error) -> HoldError {
    if error.raw_os_error() == Some(libc::ESRCH) {
        HoldError::Gone
    } else {
        HoldError::Refused(error)
    }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::JoinHandle;

    use super::*;
    use corehop_system::thread::{affinity, current_tid, set_affinity};

    /// A thread that sleeps until its sender is dropped; what it is sent it chooses as its CPUs.
    fn sleeper() -> (SubjectThread, Sender<Cpu>, JoinHandle<()>) {
        let (send, receive) = channel::<Cpu>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            tell.send((current_tid(), affinity().unwrap())).unwrap();
            for cpu in receive {
                set_affinity([cpu]).unwrap();
                tell.send((0, CpuList::default())).unwrap();
            }
        });
        let (tid, home) = told.recv().unwrap();
        std::thread::spawn(move || told.iter().count());
        (SubjectThread { pid: std::process::id(), tid, home }, send, thread)
    }

    fn of(thread: &SubjectThread) -> CpuList {
        affinity_of(thread.tid.cast_signed()).unwrap()
    }

    fn hold_in(folder: &std::path::Path) -> ThreadHold {
        ThreadHold::new(Guard::in_directory(folder))
    }

    #[test]
    fn one_thread_is_held_at_a_time_and_all_are_back_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let ((a, end_a, of_a), (b, end_b, of_b)) = (sleeper(), sleeper());
        let (first, last) = (a.home.first().unwrap(), a.home.iter().last().unwrap());
        if first == last {
            eprintln!("skipped: one CPU is usable");
            return;
        }
        let mut hold = hold_in(folder.path());
        hold.hold(&a, first).unwrap();
        hold.hold(&a, last).unwrap();
        assert_eq!(of(&a), CpuList::new([last]));
        hold.hold(&b, first).unwrap();
        assert_eq!((of(&a), of(&b)), (a.home.clone(), CpuList::new([first])));
        drop(hold);
        assert_eq!((of(&a), of(&b)), (a.home.clone(), b.home.clone()));
        drop((end_a, end_b));
        of_a.join().unwrap();
        of_b.join().unwrap();
    }

    #[test]
    fn a_thread_that_pins_itself_is_left_alone_even_where_it_was_held() {
        let folder = tempfile::tempdir().unwrap();
        let (a, choose, thread) = sleeper();
        let (first, last) = (a.home.first().unwrap(), a.home.iter().last().unwrap());
        if first == last {
            eprintln!("skipped: one CPU is usable");
            return;
        }
        let mut hold = hold_in(folder.path());
        hold.hold(&a, first).unwrap();
        choose.send(last).unwrap();
        let begin = std::time::Instant::now();
        while of(&a) != CpuList::new([last]) && begin.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        assert!(matches!(hold.hold(&a, first), Err(HoldError::Gone)));
        assert!(hold.is_astray(&a));
        drop(hold);
        assert_eq!(of(&a), CpuList::new([last]), "its own choice stays");
        drop(choose);
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_that_has_ended_is_no_error_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let (a, end, thread) = sleeper();
        drop(end);
        thread.join().unwrap();
        let mut hold = hold_in(folder.path());
        let first = a.home.first().unwrap();
        let begin = std::time::Instant::now();
        // The kernel keeps the thread for a moment.
        while !matches!(hold.hold(&a, first), Err(HoldError::Gone))
            && begin.elapsed().as_secs() < 60
        {
            std::thread::yield_now();
        }
        assert!(begin.elapsed().as_secs() < 60);
    }
}
