// SPDX-License-Identifier: MIT OR Apache-2.0
//! The coordinator's view of a task set's threads: set up, started, drained and ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use corehop_plan::experiment::TaskRun;
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, TaskJobRecord};
use corehop_plan::workload::scheduler::Scheduler;

use super::super::failed;
use super::policy::{self, KernelPolicy};
use super::worker::Peers;
use crate::control_page::AbsenceMethod;
use corehop_system::clock::monotonic_ns;

/// The interval at which records are passed on.
const PASS_ON: Duration = Duration::from_millis(250);

const PANIC: &str = "a panic, whose message is above; please report it";

/// The data that the threads of a set share.
#[derive(Debug, Default)]
pub(super) struct CrewState {
    pub(super) records: Mutex<Vec<TaskJobRecord>>,
    pub(super) stop: AtomicBool,
    pub(super) peers: Peers,
    pub(super) running: AtomicU32,
    /// Whether a thread of the set has panicked.
    pub(super) panicked: AtomicBool,
    /// The methods by which threads notice absences.
    pub(super) methods: Mutex<Vec<AbsenceMethod>>,
}

impl CrewState {
    /// Counts a thread as running while it lives. If the thread panics, the coordinator must not wait for the report or
    /// the end of the thread.
    pub(super) fn carry_out(&self, report: &Sender<SetupResult>, life: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(life)).is_err() {
            self.panicked.store(true, Ordering::Release);
            // After the start there is no receiver any more.
            let _started = report.send(Err(PANIC.to_owned()));
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The message of a thread after its setup: ready, or the reason why not.
pub(super) type SetupResult = Result<(), String>;

/// The reply to a thread: the start of the run, or `None` if there is no run.
pub(super) type StartReply = Option<u64>;

/// The threads of a task set.
#[derive(Debug)]
pub(super) struct TaskCrew {
    pub(super) shared: Arc<CrewState>,
    pub(super) starts: Vec<Sender<StartReply>>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

impl TaskCrew {
    /// Waits until every thread is ready.
    pub(super) fn all_ready(self, reports: &Receiver<SetupResult>) -> Result<Self, MachineError> {
        for _ in 0..self.threads.len() {
            let report = reports.recv().unwrap_or_else(|_| Err("it ended".to_owned()));
            if let Err(why) = report {
                self.end();
                return Err(MachineError::NotPossible {
                    what: "a task's thread".to_owned(),
                    why,
                    remedy: "see `corehop doctor`, or run fewer or smaller tasks".to_owned(),
                });
            }
        }
        Ok(self)
    }

    /// Puts every thread under its policy, while all of them wait.
    pub(super) fn set_policies(
        &self,
        scheduler: Scheduler,
        run: &TaskRun,
    ) -> Result<(), MachineError> {
        for (task, planned) in run.tasks.iter().enumerate() {
            let tid = self.shared.peers[task].load(Ordering::Acquire);
            let policy = KernelPolicy::of(scheduler, run, planned);
            if let Err(error) = policy.apply(tid) {
                self.dismiss();
                return Err(policy::refused(run, task, tid, policy, &error));
            }
        }
        Ok(())
    }

    /// Puts every thread back under the ordinary policy, because a thread under a reservation may wait for its next
    /// reserved time before it ends, and may meanwhile hold something for which the caller waits.
    fn dismiss(&self) {
        let alive = self.threads.iter().zip(self.shared.peers.iter());
        for (_, peer) in alive.filter(|(thread, _)| !thread.is_finished()) {
            let tid = peer.load(Ordering::Acquire);
            if tid != 0 {
                // One that is gone by now needs nothing.
                let _gone = KernelPolicy::Other.apply(tid);
            }
        }
    }

    pub(super) fn start(&self, origin_ns: u64) {
        for start in &self.starts {
            // A thread that has ended needs no start.
            let _ended = start.send(Some(origin_ns));
        }
    }

    /// Passes records on until all threads have ended, or no more records are wanted.
    pub(super) fn drain(
        &self,
        run: &TaskRun,
        sink: &mut dyn Sink,
        check: impl Fn() -> Result<(), MachineError>,
    ) -> Result<RunEnd, MachineError> {
        let give_up = monotonic_ns() + run.duration.get() * 2 + 60_000_000_000;
        let (mut wanted, mut records) = (true, room(run));
        let stop = sink.stop();
        loop {
            let last = self.shared.running.load(Ordering::Acquire) == 0;
            std::thread::sleep(if last { Duration::ZERO } else { PASS_ON });
            records.clear();
            std::mem::swap(&mut records, &mut lock(&self.shared.records));
            let more = records.is_empty()
                || sink.take(Batch::Tasks(&records)).map_err(MachineError::Sink)?;
            wanted &= more && !stop.is_asked();
            check()?;
            let panicked = self.shared.panicked.load(Ordering::Acquire);
            if panicked && last {
                return Err(failed("a task's thread", PANIC));
            }
            if !wanted || panicked {
                self.shared.stop.store(true, Ordering::Release);
                // A job under way goes on to its end, and gets all the time for that which there is.
                self.dismiss();
            }
            if last {
                return Ok(if wanted { RunEnd::Complete } else { RunEnd::Stopped });
            }
            if monotonic_ns() > give_up {
                return Err(failed("running a task set", "the tasks do not end"));
            }
        }
    }

    /// Ends the threads; returns the methods by which they noticed absences.
    pub(super) fn end(self) -> Vec<AbsenceMethod> {
        self.shared.stop.store(true, Ordering::Release);
        self.dismiss();
        for start in &self.starts {
            // Those that have been started already, or have ended, do not listen.
            let _not_listening = start.send(None);
        }
        for thread in self.threads {
            // A panic of a task is on stderr already.
            let _panicked = thread.join();
        }
        lock(&self.shared.methods).clone()
    }
}

/// Returns preallocated and touched memory for the records that a task makes before they are passed on, because a task
/// must not allocate within its execution time.
pub(super) fn room(run: &TaskRun) -> Vec<TaskJobRecord> {
    // Below this periods are too short for jobs to come as often.
    const MOST: u64 = 100_000;
    let jobs = |period: u64| 4 * (PASS_ON.as_nanos() as u64 / period + 1);
    let most: u64 = run.tasks.iter().map(|task| jobs(task.period.get())).sum();
    let mut room = vec![TaskJobRecord::default(); most.min(MOST) as usize];
    room.clear();
    room
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use corehop_plan::machine::Records;
    use corehop_plan::units::Nanos;
    use corehop_plan::workload::Load;

    use super::super::recruit::RecordBuffer;
    use super::*;

    #[test]
    fn a_panic_of_a_task_ends_the_run_with_an_error_and_keeps_its_records() {
        let shared = Arc::new(CrewState { running: AtomicU32::new(1), ..CrewState::default() });
        let (report, reports) = channel();
        let its = shared.clone();
        let life = move || {
            its.carry_out(&report, || {
                let records = vec![TaskJobRecord::default()];
                let _kept = RecordBuffer { records, shared: &its };
                panic!("a test");
            });
        };
        let threads = vec![std::thread::spawn(life)];
        let crew = TaskCrew { shared, starts: Vec::new(), threads };
        assert_eq!(reports.recv(), Ok(Err(PANIC.to_owned())), "it is not waited for");
        let mut records = Records::default();
        let run = TaskRun {
            number: None,
            index: 0,
            load: Load::Idle,
            duration: Nanos::from_millis(1),
            watched: false,
            scale: 1.0,
            clusters: Vec::new(),
            tasks: Vec::new(),
        };
        let error = crew.drain(&run, &mut records, || Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("a task's thread failed: a panic"), "{error}");
        assert_eq!(records.tasks.len(), 1);
        crew.end();
    }
}
