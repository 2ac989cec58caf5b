// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live host, which follows the threads of a target and moves them reversibly.

use std::time::Duration;

use corehop_plan::experiment::Target;
use corehop_plan::host::{Host, HostError, Move, Observation, Receipt};
use corehop_plan::samples::ObservedThread;
use corehop_plan::units::CpuList;

use super::follower::AbsenceFollower;
use super::moves::Moves;
use super::target::ObservedTarget;
use super::working_set::WorkingSetSampler;
use super::{How, ObserveError};
use crate::limits::LimitsOver;
use corehop_system::proc::ProcEntry;
use corehop_system::supervisor::Guard;
use corehop_system::thread::affinity_of;

/// The threads of a command, a process or a cgroup.
#[derive(Debug)]
pub struct LiveHost {
    pub(super) follower: AbsenceFollower,
    /// The reason why the threads are not followed by BPF.
    pub(super) why_not_bpf: Option<String>,
    pub(super) followed: ObservedTarget,
    pub(super) working_sets: Option<WorkingSetSampler>,
    /// The limits of the control groups of the followed processes.
    pub(super) limits: LimitsOver,
    windows: u64,
    /// The CPUs that the threads together were allowed to use at the last check.
    pub(super) allowed: Option<CpuList>,
    moves: Moves,
}

/// The number of first windows in which the control groups are read each time, because a program may enter another
/// group before it begins.
const FIRST_LOOKS: u64 = 10;
/// After the first windows, the control groups are read in one of this many windows.
const LOOK_EVERY: u64 = 10;
/// The largest number of processes whose groups are read, the newest first.
const MOST_GROUPED: usize = 8;

impl LiveHost {
    /// Starts or finds `target`, and follows its threads.
    ///
    /// # Errors
    /// Fails with [`ObserveError`] if there is no such target or no method is available.
    pub fn begin(target: &Target, how: &How) -> Result<Self, ObserveError> {
        let (mut follower, why_not_bpf) = AbsenceFollower::at(how.method)?;
        let followed = ObservedTarget::begin(target, how.to_stderr, &mut follower)?;
        let working_sets = how.estimate_wss.then(WorkingSetSampler::begin);
        let moves = Moves::new(Guard::new());
        let mut limits = LimitsOver::default();
        limits.look(follower.pids().into_iter().filter(|&pid| pid != std::process::id()));
        Ok(Self {
            follower,
            why_not_bpf,
            followed,
            working_sets,
            limits,
            windows: 0,
            allowed: None,
            moves,
        })
    }

    /// Reads the control groups and allowed CPUs of the processes in the windows that require it.
    fn look_at_groups(&mut self) {
        self.windows += 1;
        if self.windows <= FIRST_LOOKS || self.windows.is_multiple_of(LOOK_EVERY) {
            let pids = self.follower.pids().into_iter().rev().take(MOST_GROUPED);
            for cpus in pids.filter(|&pid| pid > 0).flat_map(allowed_in) {
                let before = self.allowed.take().unwrap_or_default();
                self.allowed = Some(CpuList::new(before.iter().chain(cpus.iter())));
            }
            self.limits.look(self.follower.pids().into_iter().rev().take(MOST_GROUPED));
        }
    }

    /// Returns the threads so far with their counts, in the order in which they were noticed.
    pub fn threads(&self) -> Vec<ObservedThread> {
        self.follower.threads()
    }
}

/// The allowed CPUs of each of a process's first threads.
fn allowed_in(pid: u32) -> impl Iterator<Item = CpuList> {
    let tids = ProcEntry::process(pid).threads().into_iter().flatten().take(MOST_GROUPED);
    tids.filter_map(|tid| affinity_of(tid.cast_signed()).ok())
}

impl Host for LiveHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        self.followed.wait(window);
        self.moves.check()?;
        self.look_at_groups();
        let mut absences = Vec::new();
        self.follower.absences(false, |absence| absences.push(absence));
        let ended = self.followed.ended(&mut self.follower)?;
        if let (None, Some(working_sets)) = (ended, &mut self.working_sets) {
            working_sets.look(&self.follower);
        }
        Ok(Observation { absences, activity: None, ended })
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        self.moves.apply(moves)
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        self.moves.revert(&receipt)
    }
}
