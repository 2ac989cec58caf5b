// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread of a task set: its setup, and its jobs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use corehop_plan::experiment::{DrawStream, Tasks};
use corehop_plan::samples::TaskJobRecord;
use corehop_plan::shown;
use corehop_plan::units::CpuList;

use super::super::calibrate::TickCalibration;
use super::super::counters::HostCounters;
use super::ControlPagesResult;
use super::cpusets::Partitions;
use super::crew::{CrewState, SetupResult, StartReply, lock};
use super::policy::KernelPolicy;
use super::worker::TaskWorker;
use crate::control_page::Notice;
use crate::rseq::Rseq;
use crate::set_memory::SetMemory;
use crate::walk::{StampCost, Walk};
use corehop_system::clock::{TickClock, monotonic_ns};
use corehop_system::thread::{current_tid, set_affinity, set_affinity_everywhere};

/// The interval at which a thread checks whether the run was stopped, if its next release is far away.
const LOOK: Duration = Duration::from_millis(250);

/// The data that a new thread receives.
pub(super) struct Recruit {
    /// The plan that contains only this run.
    pub(super) plan: Arc<Tasks>,
    pub(super) seed: u64,
    pub(super) run: usize,
    pub(super) task: usize,
    pub(super) clock: TickClock,
    pub(super) calibration: TickCalibration,
    pub(super) stamps: StampCost,
    pub(super) pages: ControlPagesResult,
    pub(super) counters: Arc<HostCounters>,
    pub(super) door: Option<PathBuf>,
    pub(super) cpus: Option<CpuList>,
    pub(super) policy: KernelPolicy,
    pub(super) shared: Arc<CrewState>,
}

impl Recruit {
    /// Runs the thread from setup to end.
    pub(super) fn serve(self, report: &Sender<SetupResult>, started: &Receiver<StartReply>) {
        let shared = self.shared.clone();
        shared.carry_out(report, || self.live(report, started));
    }

    fn live(self, report: &Sender<SetupResult>, started: &Receiver<StartReply>) {
        let shared = self.shared.clone();
        let worker = self.set_up();
        let ready = worker.as_ref().map(|_| ()).map_err(Clone::clone);
        // There is no listener where another thread has failed before.
        let _gone = report.send(ready);
        if let Ok((mut worker, releases)) = worker
            && let Ok(Some(origin_ns)) = started.recv()
        {
            work(&mut worker, releases, origin_ns, &shared);
        }
    }

    /// Joins the thread's CPUs, and prepares its memory and its detection of absences, as an ordinary thread.
    fn set_up(self) -> Result<(TaskWorker, impl Iterator<Item = u64> + use<>), String> {
        let tid = current_tid();
        self.shared.peers[self.task].store(tid, Ordering::Release);
        if let Some(door) = &self.door {
            let entering = |error| format!("{}: {error}", shown::path(door));
            Partitions::enter(door, tid).map_err(entering)?;
        }
        let allowed = match &self.cpus {
            Some(cpus) => set_affinity(cpus.iter()),
            None => set_affinity_everywhere(0),
        };
        allowed.map_err(|error| format!("its CPUs: {error}"))?;
        corehop_system::thread::punctual();
        let planned = &self.plan.runs[0].tasks[self.task];
        let mut draw = DrawStream::new(self.seed, 10_000 + self.task as u64);
        let memory = SetMemory::new(&planned.set, &mut draw).map_err(|error| error.to_string())?;
        let pages = self.pages.as_ref().map_err(String::as_str);
        let watched = self.plan.runs[0].watched;
        // Why no better one is said once, of the control pages: the others take no rights.
        let notice = watched.then(|| Notice::best(pages)).transpose()?.map(|(notice, _)| notice);
        lock(&self.shared.methods).extend(notice.as_ref().map(Notice::method));
        let worker = TaskWorker {
            run: self.run,
            task: self.task,
            wcet_ns: planned.wcet.get() as f64,
            clock: self.clock,
            calibration: self.calibration,
            stamps: self.stamps,
            walk: Walk::new(&planned.set, memory.linked()),
            memory,
            lines: planned.set.lines(),
            rseq: Rseq::of_this_thread().ok(),
            notice,
            counters: self.counters.clone(),
            shared: self.shared.clone(),
            is_cut: false,
            policy: self.policy.to_string(),
            warm_chunk: None,
            cpu_before: 0,
            word: 0,
        };
        Ok((worker, self.plan.releases(self.seed, 0, self.task)))
    }
}

/// Sleeps until a release, in intervals short enough that a stop does not have to wait. Returns whether the run
/// continues.
fn await_release(worker: &mut TaskWorker, release_ns: u64, stop: &AtomicBool) -> bool {
    while release_ns.saturating_sub(monotonic_ns()) > 2 * LOOK.as_nanos() as u64 {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    worker.sleep_until(release_ns);
    !stop.load(Ordering::Acquire)
}

/// Runs the jobs of a task, each at its release or when the previous job has ended.
fn work(
    worker: &mut TaskWorker,
    releases: impl Iterator<Item = u64>,
    origin_ns: u64,
    shared: &CrewState,
) {
    let mut kept = RecordBuffer { records: Vec::with_capacity(64), shared };
    for (number, release_ns) in releases.enumerate() {
        if !await_release(worker, origin_ns + release_ns, &shared.stop) {
            break;
        }
        let record = worker.job(number as u64, release_ns, origin_ns);
        if worker.is_cut {
            break;
        }
        kept.records.push(record);
        match shared.records.try_lock() {
            Ok(mut records) => records.append(&mut kept.records),
            Err(TryLockError::Poisoned(records)) => records.into_inner().append(&mut kept.records),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// The records that a thread keeps while the coordinator has locked the list; dropping the buffer appends them to the
/// list, even if the thread ends early.
pub(super) struct RecordBuffer<'a> {
    pub(super) records: Vec<TaskJobRecord>,
    pub(super) shared: &'a CrewState,
}

impl Drop for RecordBuffer<'_> {
    fn drop(&mut self) {
        lock(&self.shared.records).append(&mut self.records);
    }
}
