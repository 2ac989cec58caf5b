// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live host: follows the threads of a target, and moves them with a way back.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use corehop_core::experiment::Target;
use corehop_core::host::{Host, HostError, Move, Observation, Receipt};
use corehop_core::samples::ObservedThread;

use super::follower::Follower;
use super::target::Followed;
use super::working_set::WorkingSets;
use super::{How, ObserveError};
use crate::supervisor::{Guard, ProcessId, SupervisorError, Undo, UndoId};
use crate::thread::{affinity_of, set_affinity_of};

/// The threads of a command, a process or a cgroup.
#[derive(Debug)]
pub struct LiveHost {
    pub(super) follower: Follower,
    /// Why they are not followed by BPF.
    pub(super) why_not_bpf: Option<String>,
    pub(super) followed: Followed,
    pub(super) working_sets: Option<WorkingSets>,
    guard: Guard,
    /// By the number of a receipt, how to take each of its moves back, and where to.
    moves: HashMap<u64, Vec<(UndoId, Move)>>,
    receipts: u64,
}

impl LiveHost {
    /// Starts `target`, or finds it, and follows its threads.
    ///
    /// # Errors
    /// [`ObserveError`], if there is no such target or no method is available.
    pub fn begin(target: &Target, how: &How) -> Result<Self, ObserveError> {
        let (mut follower, why_not_bpf) = Follower::at(how.method)?;
        let followed = Followed::begin(target, how.to_stderr, &mut follower)?;
        let working_sets = how.estimate_wss.then(WorkingSets::begin);
        let (guard, moves) = (Guard::new(), HashMap::new());
        Ok(Self { follower, why_not_bpf, followed, working_sets, guard, moves, receipts: 0 })
    }

    /// Makes one move. It is written down first how to take it back.
    fn move_one(&self, it: &Move) -> Result<(UndoId, Move), String> {
        let tid = it.tid.cast_signed();
        let gone = |error: io::Error| format!("{error}; it may have ended");
        let thread = ProcessId::of(tid).map_err(|error| error.to_string())?;
        let before = affinity_of(tid).map_err(gone)?;
        let undo = Undo::SetAffinity { thread, cpus: before.clone() };
        let id = self.guard.record(undo).map_err(|error| error.to_string())?;
        let moved = set_affinity_of(tid, it.cpus.iter()).and_then(|()| affinity_of(tid));
        let refused = match moved {
            Ok(cpus) if cpus == it.cpus => return Ok((id, Move { tid: it.tid, cpus: before })),
            Ok(cpus) => format!("the kernel gives it CPUs {cpus}; name CPUs that it may use"),
            Err(error) => {
                format!("{error}; name CPUs that are online and in its cpuset, or run as its user")
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
}

impl Host for LiveHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        self.followed.wait(window);
        let mut absences = Vec::new();
        self.follower.absences(false, |absence| absences.push(absence));
        let ended = self.followed.ended(&mut self.follower)?;
        if let (None, Some(working_sets)) = (ended, &mut self.working_sets) {
            working_sets.look(&self.follower);
        }
        Ok(Observation { absences, activity: None, ended })
    }

    fn threads(&self) -> Vec<ObservedThread> {
        self.follower.threads()
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        let mut made = Vec::new();
        for it in moves {
            match self.move_one(it) {
                Ok(done) => made.push(done),
                Err(why) => {
                    // The reason of the first failure is the one that is told.
                    let _second = self.take_back(&made);
                    return Err(HostError::Move { tid: it.tid, cpus: it.cpus.clone(), why });
                }
            }
        }
        self.receipts += 1;
        let before = made.iter().map(|(_, before)| before.clone()).collect();
        self.moves.insert(self.receipts, made);
        Ok(Receipt { number: self.receipts, before })
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        let made = self.moves.remove(&receipt.number).unwrap_or_default();
        self.take_back(&made)
    }
}
