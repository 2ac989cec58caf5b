// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemptors of a running program: one parked on each CPU, which takes the CPU for a given time.
//!
//! Preemptors are ordinary threads, with the highest weight that this user may set. A preemptor counts its own time
//! on the CPU. An order that got less than nine tenths of its time does not count as a preemption of that length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use corehop_plan::experiment::DrawStream;
use corehop_plan::units::Cpu;
use corehop_plan::workload::Polluter;

use crate::counters::software::thread_cpu_time;
use crate::live::polluter::Cursor;
use crate::memory::MemoryError;
use corehop_system::clock::{TickClock, Ticks, roughly_now};
use corehop_system::thread::{best_ordinary_policy, set_affinity, set_policy};

/// An order counts as a preemption of its length if the preemptor ran for at least this share of the ordered time.
const TOOK: f64 = 0.9;

/// A preemptor parked on one CPU.
#[derive(Debug)]
pub(super) struct Intruder {
    cpu: Cpu,
    work: Polluter,
    orders: Arc<IntruderOrders>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct IntruderOrders {
    /// The ticks to take; 0 without an order.
    ticks: AtomicU64,
    /// The number of orders for which the preemptor got its CPU.
    took: AtomicU64,
    /// The total time on the CPU, in nanoseconds.
    busy_ns: AtomicU64,
    end: AtomicBool,
}

impl Intruder {
    /// Parks a preemptor on `cpu`.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory for the preemptor's working set, or the system starts
    /// no more threads.
    pub(super) fn park(
        polluter: &Polluter,
        cpu: Cpu,
        clock: TickClock,
        seed: u64,
    ) -> Result<Self, MemoryError> {
        let cursor = Cursor::new(polluter, &mut DrawStream::new(seed, 3000 + u64::from(cpu.0)))?;
        let orders = Arc::new(IntruderOrders::default());
        let shared = orders.clone();
        let builder = std::thread::Builder::new().name(format!("intrude-{}", cpu.0));
        let thread = builder.spawn(move || intrude(cursor, cpu, clock, &shared));
        let refused = |error| MemoryError::Refused { what: "starting a preemptor", error };
        let work = polluter.clone();
        Ok(Self { cpu, work, orders, thread: Some(thread.map_err(refused)?) })
    }

    pub(super) const fn cpu(&self) -> Cpu {
        self.cpu
    }

    pub(super) const fn work(&self) -> &Polluter {
        &self.work
    }

    /// Orders the preemptor to take its CPU for `ticks`. Returns false if the preemptor still executes the previous
    /// order.
    pub(super) fn go(&self, ticks: Ticks) -> bool {
        let free =
            self.orders.ticks.compare_exchange(0, ticks, Ordering::Release, Ordering::Relaxed);
        if let (Ok(_), Some(thread)) = (free, &self.thread) {
            thread.thread().unpark();
        }
        free.is_ok()
    }

    /// Whether the preemptor has no order.
    pub(super) fn rests(&self) -> bool {
        self.orders.ticks.load(Ordering::Acquire) == 0
    }

    /// The number of orders so far for which the preemptor got its CPU, and its total time on the CPU in nanoseconds.
    pub(super) fn took(&self) -> (u64, u64) {
        (self.orders.took.load(Ordering::Relaxed), self.orders.busy_ns.load(Ordering::Relaxed))
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        self.orders.end.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        // Its panic is no reason for another one.
        let _ended = thread.join();
    }
}

fn intrude(mut cursor: Cursor, cpu: Cpu, clock: TickClock, orders: &IntruderOrders) {
    if set_affinity([cpu]).is_err() || set_policy(best_ordinary_policy()).is_err() {
        return;
    }
    while !orders.end.load(Ordering::Relaxed) {
        let ticks = orders.ticks.load(Ordering::Acquire);
        if ticks == 0 {
            std::thread::park();
            continue;
        }
        let (begin, before) = (roughly_now(), thread_cpu_time().get());
        while roughly_now().wrapping_sub(begin) < ticks && !orders.end.load(Ordering::Relaxed) {
            cursor.stride();
        }
        let wall_ns = clock.nanos(roughly_now().wrapping_sub(begin));
        let busy_ns = thread_cpu_time().get() - before;
        orders.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        if busy_ns as f64 >= TOOK * wall_ns {
            orders.took.fetch_add(1, Ordering::Relaxed);
        }
        orders.ticks.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use corehop_plan::units::Bytes;
    use corehop_plan::workload::Pattern;

    use super::*;

    #[test]
    fn an_order_takes_its_cpu_for_its_time_and_a_second_one_has_to_wait() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let polluter =
            Polluter { wss: Bytes::from_kib(64), pattern: Pattern::Shuffled, write_ratio: 0.5 };
        let intruder = Intruder::park(&polluter, cpu, clock, 1).unwrap();
        assert!(intruder.rests() && intruder.took() == (0, 0));
        assert!(intruder.go(clock.ticks(20e6)));
        assert!(!intruder.go(clock.ticks(20e6)), "it is at work");
        let begin = Instant::now();
        while !intruder.rests() && begin.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (took, busy_ns) = intruder.took();
        assert!(took <= 1 && (1_000_000..2_000_000_000).contains(&busy_ns), "{took} {busy_ns}");
    }
}
