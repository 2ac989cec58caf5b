// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves of threads, and the way back of each.

use std::collections::HashMap;
use std::io;

use corehop_plan::host::{HostError, Move, Receipt};
use corehop_plan::units::CpuList;

use corehop_system::discover::cpuset_of;
use corehop_system::supervisor::{Guard, ProcessId, SupervisorError, Undo, UndoId};
use corehop_system::thread::{affinity_of, set_affinity_of};

/// Moves in force. Dropped, they are taken back; the supervisor does so if this process is killed.
#[derive(Debug)]
pub(crate) struct Moves {
    guard: Guard,
    /// By the number of a receipt, how to take each of its moves back, and where to.
    made: HashMap<u64, Vec<(UndoId, Move)>>,
    receipts: u64,
}

impl Moves {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, made: HashMap::new(), receipts: 0 }
    }

    /// Makes sure that the supervisor of the moves does its work.
    ///
    /// # Errors
    /// If it is stopped: nothing would take the moves back if this process died.
    pub(crate) fn check(&self) -> Result<(), HostError> {
        self.guard.check().map_err(unwatched)
    }

    /// Makes sure of the supervisor as [`Self::check`] does, and tells it that this process is at work. After the first call
    /// the supervisor expects one every few seconds.
    ///
    /// # Errors
    /// As [`Self::check`], and if this process was silent for so long that its moves are taken back.
    pub(crate) fn beat(&self) -> Result<(), HostError> {
        self.guard.beat().map_err(unwatched)
    }

    /// Makes one move. It is written down first how to take it back.
    fn move_one(&self, it: &Move) -> Result<(UndoId, Move), String> {
        let tid = it.tid.cast_signed();
        let gone = |error: io::Error| format!("{error}; the thread may have ended");
        let thread = ProcessId::of(tid).map_err(|error| error.to_string())?;
        let before = affinity_of(tid).map_err(gone)?;
        let undo = way_back(thread, before.clone(), it.cpus.clone());
        let id = self.guard.record(undo).map_err(|error| error.to_string())?;
        let moved = set_affinity_of(tid, it.cpus.iter()).and_then(|()| affinity_of(tid));
        let refused = match moved {
            Ok(cpus) if !is_curtailed(&cpus, &it.cpus) => {
                return Ok((id, Move { tid: it.tid, cpus: before }));
            }
            Ok(cpus) => format!(
                "the kernel restricts the thread to CPUs {cpus}; name CPUs that the thread may use"
            ),
            Err(error) => {
                format!(
                    "{error}; name CPUs that are online and in the thread's cpuset, or run as the user of the thread"
                )
            }
        };
        // A thread that cannot be put back has ended.
        let _gone = self.guard.undo(id);
        Err(refused)
    }

    /// Takes moves back, the last one first; the first failure.
    fn take_back(&self, moves: &[(UndoId, Move)]) -> Result<(), HostError> {
        let mut first = Ok(());
        for (id, Move { tid, cpus }) in moves.iter().rev() {
            let named = |error: SupervisorError| {
                let (tid, cpus, why) = (*tid, cpus.clone(), error.to_string());
                HostError::Move { tid, cpus, why }
            };
            first = first.and(self.guard.undo(*id).map_err(named));
        }
        first
    }

    /// All of these, or none. Threads that have ended meanwhile need no move, unless no other is left.
    pub(crate) fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        let (mut made, mut ended) = (Vec::new(), None);
        for it in moves {
            match self.move_one(it) {
                Ok(done) => made.push(done),
                Err(why) => {
                    let failed = HostError::Move { tid: it.tid, cpus: it.cpus.clone(), why };
                    if ProcessId::of(it.tid.cast_signed()).is_err() {
                        ended = Some(failed);
                        continue;
                    }
                    // The reason of the first failure is the one that is told.
                    let _second = self.take_back(&made);
                    return Err(failed);
                }
            }
        }
        if let Some(failed) = ended.filter(|_| made.is_empty()) {
            return Err(failed);
        }
        self.receipts += 1;
        let before = made.iter().map(|(_, before)| before.clone()).collect();
        self.made.insert(self.receipts, made);
        Ok(Receipt { number: self.receipts, before })
    }

    /// Puts back what the receipt tells of. Nothing the second time.
    pub(crate) fn revert(&mut self, receipt: &Receipt) -> Result<(), HostError> {
        let made = self.made.remove(&receipt.number).unwrap_or_default();
        self.take_back(&made)
    }

    /// A thread that was started by a moved one has its CPUs: it will be put `home` with the moves of `receipt`.
    pub(crate) fn adopt(&mut self, receipt: &Receipt, tid: u32, home: CpuList) {
        let Some(made) = self.made.get_mut(&receipt.number) else { return };
        // One that has ended needs nothing.
        let Ok(thread) = ProcessId::of(tid.cast_signed()) else { return };
        let Ok(given) = affinity_of(tid.cast_signed()) else { return };
        if let Ok(id) = self.guard.record(way_back(thread, home.clone(), given)) {
            made.push((id, Move { tid, cpus: home }));
        }
    }

    /// Takes back the moves of one thread before the others'.
    pub(crate) fn release(&mut self, receipt: &Receipt, tid: u32) -> Result<(), HostError> {
        let Some(made) = self.made.get_mut(&receipt.number) else { return Ok(()) };
        let its: Vec<(UndoId, Move)> = made.extract_if(.., |(_, it)| it.tid == tid).collect();
        self.take_back(&its)
    }
}

fn unwatched(error: SupervisorError) -> HostError {
    HostError::Observe { what: "the supervisor of the moves", source: io::Error::other(error) }
}

/// Whether the kernel gave a thread some of the CPUs that it was to have, and not all. Others it has chosen itself in the
/// meantime: it was moved, and goes its own way.
fn is_curtailed(has: &CpuList, given: &CpuList) -> bool {
    has != given && has.is_within(given)
}

/// The way to put a thread back that might run on `cpus`, and is given others.
pub(crate) fn way_back(thread: ProcessId, cpus: CpuList, given: CpuList) -> Undo {
    let anywhere = cpuset_of(thread.pid).is_some_and(|it| it == cpus);
    Undo::SetAffinity { thread, cpus, given: Some(given), anywhere }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_some_of_its_cpus_was_curtailed_and_one_with_others_has_chosen_them() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        let is = |has: &str, given: &str| is_curtailed(&list(has), &list(given));
        assert!(is("1", "0-1"));
        assert!(!is("0-1", "0-1"));
        assert!(!is("2", "0-1"));
        assert!(!is("0-2", "0-1"));
    }
}
