// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `realistic`: the user's command, with one copy pinned to each CPU and restarted when it
//! ends (Wächtler 3.3: compiling a kernel).

use std::time::{Duration, Instant};

use corehop_plan::units::{Cpu, CpuList};

use corehop_system::supervisor::{Guard, LoadChild, SupervisorError, spawn_load};

/// The CPU time that each copy must use before samples are taken.
const BEGUN: Duration = Duration::from_millis(20);
/// The longest wait for a copy to use the CPU time [`BEGUN`]. A command that waits for a device may never use that much
/// CPU time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The running copies of the command.
#[derive(Debug)]
pub(crate) struct Commands {
    copies: Vec<(Cpu, LoadChild)>,
}

impl Commands {
    /// Starts one copy on each of `cpus`, and waits until the copies run.
    ///
    /// # Errors
    /// Fails if a copy cannot be started, or repeatedly ends immediately.
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

    /// Checks that all copies still run as requested.
    ///
    /// # Errors
    /// Fails with the errors of [`LoadChild::check`].
    pub(crate) fn check(&self) -> Result<(), SupervisorError> {
        self.copies.iter().try_for_each(|(_, child)| child.check())
    }

    /// The CPU time of each copy so far, in nanoseconds, which proves that it ran. The call takes
    /// some milliseconds.
    pub(crate) fn cpu_ns(&self) -> Vec<(Cpu, u64)> {
        self.copies.iter().map(|(cpu, child)| (*cpu, child.cpu_time().get())).collect()
    }

    /// The number of times that copies have ended and were restarted.
    pub(crate) fn restarts(&self) -> u64 {
        self.copies.iter().map(|(_, child)| u64::from(child.restarts())).sum()
    }
}
