// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the rate of memory: the CPUs of a node read uncached lines, eight at a time each, alone and all together.
//!
//! A pointer chase waits for each line and never reaches this rate, but a polluter beside it may.

use std::sync::atomic::{AtomicUsize, Ordering};

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::Controller;
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::{Page, WorkingSet};

use super::{ProbeError, joined, pin};
use crate::memory::available_memory;
use crate::set_memory::SetMemory;
use crate::walk::Walk;
use corehop_system::clock::{TickClock, Ticks, now};

/// The size of the list of each CPU; a walk takes some milliseconds.
const LIST: Bytes = Bytes::from_mib(8);
/// The number of chains of each CPU, which is the number of lines in flight.
const CHAINS: u8 = 8;
/// The number of rounds, of which the fastest counts, because disturbances only make a round longer.
const ROUNDS: u32 = 8;
/// The largest number of CPUs; fewer already saturate a memory controller.
const MOST: usize = 16;
/// The time after which a walk is given up, in nanoseconds.
const PATIENCE_NS: f64 = 1e9;

/// The time between two lines that the first node serves, to one CPU and to all of its usable CPUs. Returns `None` if
/// memory is short, or a walk does not end in time.
pub(super) fn of(
    platform: &Platform,
    clock: &TickClock,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Controller>, ProbeError> {
    let usable = platform.usable();
    let first = platform
        .nodes
        .iter()
        .map(|node| node.cpus.value.intersection(&usable))
        .find(|it| !it.is_empty());
    let cpus: Vec<Cpu> = first.unwrap_or(usable).iter().take(MOST).collect();
    if available_memory().get() / 4 < LIST.get() * cpus.len() as u64 {
        return Ok(None);
    }
    progress("what memory serves");
    let (Some(one), Some(all)) = (rate(&cpus[..1], clock)?, rate(&cpus, clock)?) else {
        return Ok(None);
    };
    Ok(Some(Controller { one_ns: one, all_ns: all, cpus: cpus.len() as u32 }))
}

/// The start and the end of a CPU's walk; `None` if the walk did not end.
type WalkInterval = Option<(Ticks, Ticks)>;

/// The time in nanoseconds between two lines to these CPUs together.
fn rate(cpus: &[Cpu], clock: &TickClock) -> Result<Option<f64>, ProbeError> {
    let set = WorkingSet { page: Page::Transparent, chains: CHAINS, ..WorkingSet::list(LIST, 0.0) };
    let meeting = Meeting { of: cpus.len(), arrived: AtomicUsize::new(0) };
    let walked: Result<Vec<Vec<WalkInterval>>, ProbeError> = std::thread::scope(|scope| {
        let start = |(at, &cpu): (usize, &Cpu)| {
            let (set, meeting) = (&set, &meeting);
            std::thread::Builder::new().spawn_scoped(scope, move || {
                let ready = pin(cpu)
                    .and_then(|()| Ok(SetMemory::new(set, &mut DrawStream::new(at as u64, 2))?));
                let rounds = (0..ROUNDS as usize).map(|round| {
                    let memory = ready.as_ref().ok()?;
                    memory.flush();
                    meeting.wait(round, clock).then(|| walk(set, memory, clock))?
                });
                let rounds: Vec<_> = rounds.collect();
                ready.map(|_| rounds)
            })
        };
        let threads: Result<Vec<_>, _> = cpus.iter().enumerate().map(start).collect();
        threads?.into_iter().map(joined).collect()
    });
    let lines = set.lines() * cpus.len() as u64;
    let walked = walked?;
    let round = |at: usize| -> Option<Ticks> {
        let all: Option<Vec<(Ticks, Ticks)>> = walked.iter().map(|of| of[at]).collect();
        let all = all?;
        Some(all.iter().map(|it| it.1).max()? - all.iter().map(|it| it.0).min()?)
    };
    let shortest = (0..ROUNDS as usize).filter_map(round).min();
    Ok(shortest.map(|ticks| clock.nanos(ticks) / lines as f64))
}

/// Lets threads begin a round together.
struct Meeting {
    of: usize,
    arrived: AtomicUsize,
}

impl Meeting {
    /// Waits until all threads have reached this round. Returns false if a thread does not arrive.
    fn wait(&self, round: usize, clock: &TickClock) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let end = now() + clock.ticks(PATIENCE_NS);
        while self.arrived.load(Ordering::Acquire) < (round + 1) * self.of {
            if now() > end {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }
}

/// The start and the end of a walk over uncached lines, if the walk ended.
fn walk(set: &WorkingSet, memory: &SetMemory, clock: &TickClock) -> Option<(Ticks, Ticks)> {
    let mut walk = Walk::new(set, memory.linked());
    let began = now();
    let walked = walk.walk(None, Ticks::MAX, began + clock.ticks(PATIENCE_NS));
    walked.complete.then(|| (began, now()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use corehop_system::discover::{SysRoot, discover};

    #[test]
    fn memory_serves_many_chains_faster_than_one_waits_for_a_line() {
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let platform = discover(&SysRoot::live()).unwrap();
        let Some(it) = of(&platform, &clock, &mut |_| {}).unwrap() else { return };
        assert!((0.05..200.0).contains(&it.one_ns) && it.all_ns < 2.0 * it.one_ns, "{it:?}");
        assert_eq!(it.cpus as usize, platform.usable().len().min(MOST));
    }
}
