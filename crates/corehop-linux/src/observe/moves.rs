// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves threads, and records how to revert each move.

use std::collections::HashMap;
use std::io;

use corehop_plan::host::{HostError, Move, Receipt};
use corehop_plan::units::CpuList;

use corehop_system::discover::cpuset_of;
use corehop_system::supervisor::{Guard, ProcessId, SupervisorError, Undo, UndoId};
use corehop_system::thread::{affinity_of, set_affinity_of};

/// The moves of threads that are in force. Dropping the value reverts the moves; the supervisor reverts them if this
/// process is killed.
#[derive(Debug)]
pub(crate) struct Moves {
    guard: Guard,
    /// For each receipt number, how to revert each of its moves, and the target of the move.
    made: HashMap<u64, Vec<(UndoId, Move)>>,
    receipts: u64,
}

impl Moves {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, made: HashMap::new(), receipts: 0 }
    }

    /// Checks that the supervisor of the moves works.
    ///
    /// # Errors
    /// Fails if the supervisor is stopped, because nothing would revert the moves if this process died.
    pub(crate) fn check(&self) -> Result<(), HostError> {
        self.guard.check().map_err(unwatched)
    }

    /// Checks the supervisor like [`Self::check`], and tells it that this process is alive. After the first call, the
    /// supervisor expects a call every few seconds.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::check`], and if this process was silent for so long that the supervisor
    /// reverted its moves.
    pub(crate) fn beat(&self) -> Result<(), HostError> {
        self.guard.beat().map_err(unwatched)
    }

    /// Moves one thread to its new CPUs. The way to revert the move is written to the journal first.
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

    /// Reverts moves, the last one first; returns the first failure.
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

    /// Makes all of these moves, or none. Threads that have ended meanwhile are skipped, unless no other thread is
    /// left.
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

    /// Reverts the moves of a receipt. A second call with the same receipt has no effect.
    pub(crate) fn revert(&mut self, receipt: &Receipt) -> Result<(), HostError> {
        let made = self.made.remove(&receipt.number).unwrap_or_default();
        self.take_back(&made)
    }

    /// Registers a thread that a moved thread started and that inherited its CPUs. The thread is put back to `home`
    /// with the moves of `receipt`.
    pub(crate) fn adopt(&mut self, receipt: &Receipt, tid: u32, home: CpuList) {
        let Some(made) = self.made.get_mut(&receipt.number) else { return };
        // One that has ended needs nothing.
        let Ok(thread) = ProcessId::of(tid.cast_signed()) else { return };
        let Ok(given) = affinity_of(tid.cast_signed()) else { return };
        if let Ok(id) = self.guard.record(way_back(thread, home.clone(), given)) {
            made.push((id, Move { tid, cpus: home }));
        }
    }

    /// Reverts the moves of one thread before the others.
    pub(crate) fn release(&mut self, receipt: &Receipt, tid: u32) -> Result<(), HostError> {
        let Some(made) = self.made.get_mut(&receipt.number) else { return Ok(()) };
        let its: Vec<(UndoId, Move)> = made.extract_if(.., |(_, it)| it.tid == tid).collect();
        self.take_back(&its)
    }
}

fn unwatched(error: SupervisorError) -> HostError {
    HostError::Observe { what: "the supervisor of the moves", source: io::Error::other(error) }
}

/// Whether the kernel gave a thread only some of the requested CPUs. If the thread has other CPUs, it has chosen them
/// itself meanwhile: the move worked, and the thread is left alone.
fn is_curtailed(has: &CpuList, given: &CpuList) -> bool {
    has != given && has.is_within(given)
}

/// The undo for a thread that was allowed on `cpus` and gets `given`.
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
