// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `realistic`: the user's command, one copy pinned to each CPU, started again when it ends
//! (Wächtler 3.3: compiling a kernel).

use std::time::{Duration, Instant};

use corehop_plan::units::{Cpu, CpuList};

use corehop_system::supervisor::{Guard, LoadChild, SupervisorError, spawn_load};

/// The CPU time that each copy should have used before samples are taken.
const BEGUN: Duration = Duration::from_millis(20);
/// The greatest wait for that. A command that waits for a device may never use as much.
const PATIENCE: Duration = Duration::from_secs(1);

/// The copies.
#[derive(Debug)]
pub(crate) struct Commands {
    copies: Vec<(Cpu, LoadChild)>,
}

impl Commands {
    /// Starts one on each of `cpus`, and waits until they have got going.
    ///
    /// # Errors
    /// If one cannot be started, or ends at once again and again.
    pub(crate) fn start(
        command: &str,
        cpus: &[Cpu],
        guard: &Guard,
    ) -> Result<Self, SupervisorError> {
        let mut all = Self { copies: Vec::new() };
        for &cpu in cpus {
            all.copies.push((cpu, spawn_load(command, CpuList::new([cpu]), guard)?));
        }
        all.await_progress()?;
        Ok(all)
    }

    fn await_progress(&self) -> Result<(), SupervisorError> {
        let begun = Instant::now();
        let runs = |child: &LoadChild| u128::from(child.cpu_time().get()) >= BEGUN.as_nanos();
        for (_, child) in &self.copies {
            while !runs(child) && begun.elapsed() < PATIENCE {
                child.check()?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.check()
    }

    /// Whether all go on as asked.
    ///
    /// # Errors
    /// As [`LoadChild::check`].
    pub(crate) fn check(&self) -> Result<(), SupervisorError> {
        self.copies.iter().try_for_each(|(_, child)| child.check())
    }

    /// The CPU time of each copy so far, in nanoseconds: the proof that it ran. Takes some
    /// milliseconds.
    pub(crate) fn cpu_ns(&self) -> Vec<(Cpu, u64)> {
        self.copies.iter().map(|(cpu, child)| (*cpu, child.cpu_time().get())).collect()
    }

    /// The number of times the copies have ended and been started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.copies.iter().map(|(_, child)| u64::from(child.restarts())).sum()
    }
}
