// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load threads that repeat one action, and prove that they ran.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use corehop_plan::units::Cpu;

use corehop_system::supervisor::interrupt;
use corehop_system::thread::{SchedulingPolicy, set_affinity, set_policy};

/// The work that a load thread repeats.
pub(crate) trait LoadWork: Send + 'static {
    /// Does the work once, for at most some milliseconds; returns the number of bytes moved.
    ///
    /// # Errors
    /// Fails with a sentence that says why the work can no longer be done.
    fn step(&mut self) -> Result<u64, String>;
}

/// A counter on its own cache lines, so that reading it does not slow down neighbouring counters.
#[derive(Debug, Default)]
#[repr(align(128))]
struct IsolatedCounter(AtomicU64);

/// The data that the load threads and their owner share.
#[derive(Debug)]
struct LoadState {
    bytes: Vec<IsolatedCounter>,
    stop: AtomicBool,
    /// The message of the first thread that gave up.
    given_up: Mutex<Option<String>>,
}

/// Load threads, one per CPU, which run until this value is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<LoadState>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts each worker on its CPU, in a thread under `policy`.
    pub(crate) fn start<W: LoadWork>(
        works: Vec<(Cpu, W)>,
        policy: SchedulingPolicy,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(LoadState {
            bytes: works.iter().map(|_| IsolatedCounter::default()).collect(),
            stop: AtomicBool::new(false),
            given_up: Mutex::new(None),
        });
        // Where one cannot be started, dropping `all` ends the others.
        let mut all = Self { shared, threads: Vec::new() };
        for (index, (cpu, work)) in works.into_iter().enumerate() {
            let shared = all.shared.clone();
            let name = format!("load-{}", cpu.0);
            let thread = std::thread::Builder::new().name(name);
            all.threads.push(thread.spawn(move || go_on((cpu, policy), work, &shared, index))?);
        }
        Ok(all)
    }

    /// The total number of bytes moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// The reason why a worker has stopped; `None` if all workers run.
    pub(crate) fn given_up(&self) -> Option<String> {
        self.shared.given_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn go_on(
    (cpu, policy): (Cpu, SchedulingPolicy),
    mut work: impl LoadWork,
    shared: &LoadState,
    index: usize,
) {
    let count = &shared.bytes[index].0;
    let mut all = || -> Result<(), String> {
        interrupt::keep_off_this_thread();
        set_affinity([cpu]).map_err(|error| {
            format!("a thread of the load cannot run on {cpu}: {error} (offline, or outside the cpuset?)")
        })?;
        set_policy(policy).map_err(|error| error.to_string())?;
        while !shared.stop.load(Ordering::Relaxed) {
            count.fetch_add(work.step()?, Ordering::Relaxed);
        }
        Ok(())
    };
    if let Err(why) = all() {
        shared.given_up.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_system::thread::affinity;
    use std::time::{Duration, Instant};

    const ORDINARY: SchedulingPolicy = SchedulingPolicy::Other(0);

    struct Countdown(u32);

    impl LoadWork for Countdown {
        fn step(&mut self) -> Result<u64, String> {
            self.0 = self.0.checked_sub(1).ok_or("nothing is left")?;
            Ok(64)
        }
    }

    #[test]
    fn the_bytes_of_all_are_counted_and_who_gives_up_says_why() {
        let cpu = affinity().unwrap().first().unwrap();
        let workers =
            Workers::start(vec![(cpu, Countdown(10)), (cpu, Countdown(20))], ORDINARY).unwrap();
        let begun = Instant::now();
        while workers.bytes() < 30 * 64 || workers.given_up().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(workers.bytes(), 30 * 64);
        assert_eq!(workers.given_up().as_deref(), Some("nothing is left"));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let workers = Workers::start(vec![(Cpu(60_000), Countdown(u32::MAX))], ORDINARY).unwrap();
        let begun = Instant::now();
        while workers.given_up().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(workers.given_up().unwrap().contains("60000") && workers.bytes() == 0);
    }
}
