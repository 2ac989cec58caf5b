// SPDX-License-Identifier: MIT OR Apache-2.0
//! The current distance between two CPUs: lines exchanged by threads parked on them.
//!
//! A host moves the virtual CPUs of its guests, and no topology says so. Some hundred exchanges take
//! tens of microseconds and tell one cache from two.
//!
//! The thread that measures runs under the ordinary policy: it waits for its CPU as any other thread
//! does. Only when it has it, the other one is woken, which is real-time where that is allowed, so
//! that the two meet whatever else runs; it plays for a bounded time and never alone.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use corehop_core::units::{Cpu, CpuList};

use super::exchange::{Game, Lines, ROUNDS};
use super::pin;
use crate::clock::{Clock, Ticks, now};
use crate::duty;
use crate::memory::MemoryError;
use crate::supervisor::interrupt;
use crate::thread::{FIFO_PRIORITY, Policy, set_policy};

/// The batches of an exchange, of which the shortest counts: what is disturbed takes longer.
const BATCHES: u64 = 8;
/// The time that one thread waits for the other, in nanoseconds.
const PATIENCE_NS: f64 = 3e6;
/// The order to a thread that measures: begin a game with the one that answers, and report the duration of
/// its batches.
struct Order {
    game: Lines,
    answers: Sender<Arc<Game>>,
    tell: Sender<Vec<Ticks>>,
}

/// Two CPUs, the smaller number first.
pub(crate) type Pair = (Cpu, Cpu);

/// The threads, two parked on each CPU.
#[derive(Debug)]
pub(crate) struct Partners {
    orders: BTreeMap<Cpu, (Sender<Order>, Sender<Arc<Game>>)>,
    threads: Vec<JoinHandle<()>>,
    clock: Clock,
    /// Whether the threads that answer may be real-time.
    real_time: bool,
}

impl Partners {
    /// Parks threads on each of `cpus`.
    ///
    /// # Errors
    /// If the system starts no more threads.
    pub(crate) fn park(cpus: &CpuList, clock: Clock, real_time: bool) -> io::Result<Self> {
        // Where one cannot be started, dropping `all` ends the others.
        let orders = BTreeMap::new();
        let mut all = Self { orders, threads: Vec::new(), clock, real_time };
        for cpu in cpus.iter() {
            let (order, orders) = channel();
            let (play, games) = channel();
            all.start("line", cpu, move || measure(cpu, &clock, &orders))?;
            all.start("echo", cpu, move || answer(cpu, &clock, real_time, &games))?;
            all.orders.insert(cpu, (order, play));
        }
        Ok(all)
    }

    fn start(
        &mut self,
        name: &str,
        cpu: Cpu,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(format!("{name}-{}", cpu.0));
        self.threads.push(thread.spawn(work)?);
        Ok(())
    }

    /// The time of a line from one CPU to the other, in nanoseconds for one way. None where the two
    /// threads did not meet, or one of them could not be put on its CPU.
    ///
    /// # Errors
    /// If there is no memory for the lines.
    pub(crate) fn exchange(&self, pair: Pair) -> Result<Option<f64>, MemoryError> {
        let [Some(first), Some(second)] = [pair.0, pair.1].map(|cpu| self.orders.get(&cpu)) else {
            return Ok(None);
        };
        if self.real_time {
            let wait = duty::wait_for_exchange_ns(pair.1, PATIENCE_NS);
            std::thread::sleep(Duration::from_nanos(wait as u64));
        }
        let (tell, told) = channel();
        let order = Order { game: Lines::new()?, answers: second.1.clone(), tell };
        let asked = first.0.send(order).is_ok();
        let batches = if asked { told.recv().unwrap_or_default() } else { Vec::new() };
        let shortest = batches.into_iter().min();
        Ok(shortest.map(|ticks| self.clock.nanos(ticks) / (2 * ROUNDS) as f64))
    }
}

fn measure(cpu: Cpu, clock: &Clock, orders: &Receiver<Order>) {
    interrupt::keep_off_this_thread();
    let pinned = pin(cpu).is_ok();
    while let Ok(Order { game, answers, tell }) = orders.recv() {
        let game = Arc::new(Game::new(game, BATCHES, now() + clock.ticks(PATIENCE_NS)));
        let both = pinned && answers.send(game.clone()).is_ok();
        let batches = if both { game.serve(Ticks::MAX / 4) } else { Vec::new() };
        game.leave();
        // The one who asked waits for this.
        let _ = tell.send(batches);
    }
}

fn answer(cpu: Cpu, clock: &Clock, real_time: bool, games: &Receiver<Arc<Game>>) {
    interrupt::keep_off_this_thread();
    let pinned = pin(cpu).is_ok();
    // Where this is refused, the thread is served as all others are.
    let urgent = real_time && set_policy(Policy::Fifo(FIFO_PRIORITY - 1)).is_ok();
    while let Ok(game) = games.recv() {
        let begun = now();
        if pinned && urgent {
            game.answer(begun + clock.ticks(duty::allowance_together_ns(cpu)));
            // The budget of the CPU counts what spins for a line as it counts a job.
            duty::enter(cpu, clock.between(begun, now()), 0.0);
            duty::settle(cpu);
        } else if pinned {
            game.answer(Ticks::MAX);
        }
        game.leave();
    }
}

impl Drop for Partners {
    fn drop(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_threads_exchange_lines_again_and_again_and_end() {
        let cpus = crate::thread::affinity().unwrap();
        let [Some(first), Some(second)] = [cpus.first(), cpus.iter().nth(1)] else {
            #[expect(clippy::print_stderr, reason = "a skip that is not told is none")]
            {
                eprintln!("skipped: only one CPU is usable");
            }
            return;
        };
        let clock = Clock::calibrate(Duration::from_millis(20));
        let partners = Partners::park(&cpus, clock, true).unwrap();
        let got = (0..40).filter_map(|_| partners.exchange((first, second)).unwrap());
        let got: Vec<f64> = got.collect();
        // On a busy machine some do not meet in time.
        assert!(!got.is_empty() && got.iter().all(|&ns| ns > 1.0), "{got:?}");
        assert_eq!(partners.exchange((first, Cpu(60_000))).unwrap(), None, "no such CPU");
    }

    #[test]
    fn a_cpu_that_cannot_be_had_gives_no_exchange_and_no_endless_wait() {
        let cpu = crate::thread::affinity().unwrap().first().unwrap();
        let both = CpuList::new([cpu, Cpu(1_000)]);
        let clock = Clock::calibrate(Duration::from_millis(20));
        let partners = Partners::park(&both, clock, false).unwrap();
        assert_eq!(partners.exchange((cpu, Cpu(1_000))).unwrap(), None);
    }
}
