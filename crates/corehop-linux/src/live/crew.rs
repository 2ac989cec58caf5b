// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured threads: one thread that moves between CPUs, or one thread parked on every CPU.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use corehop_plan::machine::MachineError;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::Mover;

use super::runner::{Runner, RunnerAction};
use super::seat::ThreadResources;
use corehop_system::thread::SchedulingPolicy;

/// A mailbox for the job's state; the waiting thread takes the state out.
#[derive(Debug, Default)]
struct JobMailbox {
    content: Mutex<SlotContent>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum SlotContent {
    #[default]
    Empty,
    State(Box<Runner>),
    End,
}

impl JobMailbox {
    fn put(&self, content: SlotContent) {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
        self.changed.notify_one();
    }

    /// Waits for the job's state; `None` means that the phase has ended.
    fn take(&self) -> Option<Box<Runner>> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match std::mem::take(&mut *content) {
                SlotContent::State(runner) => return Some(runner),
                SlotContent::End => return None,
                SlotContent::Empty => {
                    content = self.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// The mailboxes of all threads, and of the coordinator.
#[derive(Debug)]
struct Slots {
    threads: BTreeMap<Cpu, JobMailbox>,
    home: JobMailbox,
}

impl Slots {
    /// The mailbox of the thread on `cpu`; a moving thread has the only mailbox.
    fn of(&self, cpu: Cpu) -> Option<&JobMailbox> {
        self.threads.get(&cpu).or_else(|| self.threads.values().next())
    }
}

/// The measured threads of one phase.
#[derive(Debug)]
pub(crate) struct Crew {
    slots: Arc<Slots>,
    threads: Vec<JoinHandle<()>>,
    policy: (SchedulingPolicy, Option<String>),
}

impl Crew {
    /// Starts the threads that `mover` needs on `cpus`.
    pub(crate) fn start(
        mover: Mover,
        cpus: &CpuList,
        real_time: &Result<(), String>,
    ) -> io::Result<Self> {
        let places: Vec<Cpu> = match mover {
            Mover::Affinity => cpus.first().into_iter().collect(),
            Mover::Handover => cpus.iter().collect(),
        };
        let threads = places.iter().map(|&cpu| (cpu, JobMailbox::default())).collect();
        let slots = Arc::new(Slots { threads, home: JobMailbox::default() });
        let mut crew =
            Self { slots, threads: Vec::new(), policy: (SchedulingPolicy::Other(0), None) };
        for cpu in places {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let (slots, real_time) = (crew.slots.clone(), real_time.clone());
            let parked = mover == Mover::Handover;
            crew.threads.push(std::thread::Builder::new().name(format!("job-{}", cpu.0)).spawn(
                move || {
                    match ThreadResources::take(cpu, real_time, parked) {
                        Ok((seat, policy)) => {
                            // The coordinator waits for this message.
                            let _ = ready.send(Ok(policy));
                            work(cpu, seat, &slots);
                        }
                        Err(error) => {
                            let _ = ready.send(Err(error));
                        }
                    }
                },
            )?);
            crew.policy = is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(crew)
    }

    /// Lets the threads execute the runner's orders, and returns the runner afterwards.
    ///
    /// # Errors
    ///
    /// Fails if no thread is left to execute the orders.
    pub(crate) fn run(&self, runner: Box<Runner>, start: Cpu) -> Result<Box<Runner>, MachineError> {
        self.slots.of(start).ok_or_else(panicked)?.put(SlotContent::State(runner));
        self.slots.home.take().ok_or_else(panicked)
    }

    /// The policy of the measured threads, and the reason why corehop could not use a better policy.
    pub(crate) fn policy(&self) -> &(SchedulingPolicy, Option<String>) {
        &self.policy
    }
}

fn panicked() -> MachineError {
    MachineError::Failed {
        what: "the measured thread".to_owned(),
        why: "a panic, whose message is above; please report it".to_owned(),
    }
}

fn work(cpu: Cpu, mut seat: ThreadResources, slots: &Slots) {
    let mine = slots.of(cpu);
    while let Some(mut runner) = mine.and_then(JobMailbox::take) {
        // A panic must not leave the coordinator waiting: the runner goes home with what it has recorded.
        let gone = catch_unwind(AssertUnwindSafe(|| runner.go_on(&mut seat)));
        let next = gone.unwrap_or_else(|_| runner.give_up(panicked()));
        let to = match next {
            RunnerAction::HandTo(cpu) => slots.of(cpu).unwrap_or(&slots.home),
            RunnerAction::Done => &slots.home,
        };
        to.put(SlotContent::State(runner));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for slot in self.slots.threads.values() {
            slot.put(SlotContent::End);
        }
        for thread in self.threads.drain(..) {
            // The state of a thread that panicked is gone; there is nothing to save here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::runner::PhaseSetup;
    use super::*;

    #[test]
    fn a_panic_of_the_measured_thread_is_an_error_and_the_coordinator_goes_on() {
        let crew = Crew::start(Mover::Affinity, &CpuList::new([Cpu(0)]), &Err("a test".into()));
        let mut runner = Box::new(Runner::new(PhaseSetup::without_jobs()));
        // A job of a plan without any.
        runner.jobs = 0..1;
        let runner = crew.unwrap().run(runner, Cpu(0)).unwrap();
        let error = runner.error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(error.contains("the measured thread failed: a panic"), "{error}");
        assert!(runner.jobs.is_empty());
    }
}
