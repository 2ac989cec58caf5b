// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads parked on CPUs that exchange lines on request, inside the process of [`super::partners`].
//!
//! The measuring thread runs under the ordinary policy and waits for its CPU like any other thread. When it has the
//! CPU, it wakes the other thread, which is real-time if allowed, so that both run simultaneously whatever else runs.
//! The real-time thread runs for a bounded time and never alone.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use corehop_plan::units::{Cpu, CpuList};

use super::exchange::{ExchangeLines, LinePingPong, ROUNDS};
use super::pin;
use corehop_system::clock::{TickClock, Ticks, now, read};
use corehop_system::thread::{FIFO_PRIORITY, SchedulingPolicy, set_policy};

/// The number of batches in an exchange, of which the shortest counts, because disturbances only make a batch longer.
const BATCHES: u64 = 8;
/// The time that one thread waits for the other, in nanoseconds.
pub(super) const PATIENCE_NS: f64 = 3e6;
/// The time after which nobody waits for a thread that has not begun or not reported. Other threads may have the CPU of
/// this thread.
const LATE: Duration = Duration::from_millis(100);

/// The order to a measuring thread: begin an exchange with the answering thread, and report the durations of the
/// batches.
struct ExchangeCommand {
    game: ExchangeLines,
    answers: Sender<Answering>,
    tell: Sender<Vec<Ticks>>,
    spent: Sender<f64>,
    allowance: Ticks,
}

/// The order to the answering thread: exchange lines for at most this long, and report the CPU time since the last
/// report.
struct Answering {
    game: Arc<LinePingPong>,
    allowance: Ticks,
    spent: Sender<f64>,
}

/// Two CPUs, the smaller number first.
pub(crate) type CpuPair = (Cpu, Cpu);

/// The result of an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Met {
    /// The one-way time of a line, in nanoseconds. The time is `None` if the threads did not run simultaneously.
    pub(super) time_ns: Option<f64>,
    /// The CPU time of the answering thread, in nanoseconds. The CPU time is `None` if the thread has not reported.
    pub(super) spent_ns: Option<f64>,
}

/// The two parked threads on one CPU.
#[derive(Debug)]
struct OnCpu {
    orders: Sender<ExchangeCommand>,
    answers: Sender<Answering>,
    /// Whether the measuring thread has an order.
    busy: Arc<AtomicBool>,
}

/// The parked threads, two on each CPU. Dropping the value ends the threads without waiting for their ends.
#[derive(Debug)]
pub(super) struct Parked {
    on: BTreeMap<Cpu, OnCpu>,
    clock: TickClock,
}

impl Parked {
    /// Parks threads on each of `cpus`.
    ///
    /// # Errors
    /// Fails if the system starts no more threads.
    pub(super) fn park(cpus: &CpuList, clock: TickClock, real_time: bool) -> io::Result<Self> {
        let mut all = Self { on: BTreeMap::new(), clock };
        for cpu in cpus.iter() {
            let (order, orders) = channel();
            let (play, games) = channel();
            let busy = Arc::new(AtomicBool::new(false));
            let its = Arc::clone(&busy);
            start("line", cpu, move || measure(cpu, &clock, &orders, &its))?;
            start("echo", cpu, move || answer(cpu, real_time, &games))?;
            all.on.insert(cpu, OnCpu { orders: order, answers: play, busy });
        }
        Ok(all)
    }

    /// Exchanges lines between two CPUs; the answering thread spins for at most `allowance_ns`. If one of the threads
    /// does not get its CPU within a tenth of a second, the exchange has no result.
    pub(super) fn exchange(&self, pair: CpuPair, allowance_ns: f64) -> Met {
        let [Some(first), Some(second)] = [pair.0, pair.1].map(|cpu| self.on.get(&cpu)) else {
            return Met::default();
        };
        let Ok(game) = ExchangeLines::new() else { return Met::default() };
        // A thread that has not finished its last game would only have more to do.
        if first.busy.swap(true, Ordering::AcqRel) {
            return Met::default();
        }
        let ((tell, told), (spent, spends)) = (channel(), channel());
        let allowance = self.clock.ticks(allowance_ns);
        let answers = second.answers.clone();
        let asked = first.orders.send(ExchangeCommand { game, answers, tell, spent, allowance });
        let batches = asked.ok().and_then(|()| told.recv_timeout(LATE).ok()).unwrap_or_default();
        let shortest = batches.into_iter().min();
        Met {
            time_ns: shortest.map(|ticks| self.clock.nanos(ticks) / (2 * ROUNDS) as f64),
            spent_ns: spends.recv_timeout(LATE).ok(),
        }
    }
}

fn start(name: &str, cpu: Cpu, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(format!("{name}-{}", cpu.0));
    thread.spawn(work).map(drop)
}

fn measure(cpu: Cpu, clock: &TickClock, orders: &Receiver<ExchangeCommand>, busy: &AtomicBool) {
    let pinned = pin(cpu).is_ok();
    while let Ok(ExchangeCommand { game, answers, tell, spent, allowance }) = orders.recv() {
        let game = Arc::new(LinePingPong::new(game, BATCHES, now() + clock.ticks(PATIENCE_NS)));
        let other = Answering { game: Arc::clone(&game), allowance, spent };
        let both = pinned && answers.send(other).is_ok();
        let batches = if both { game.serve(Ticks::MAX / 4) } else { Vec::new() };
        game.leave();
        busy.store(false, Ordering::Release);
        // The one who asked may have given up.
        let _late = tell.send(batches);
    }
}

fn answer(cpu: Cpu, real_time: bool, games: &Receiver<Answering>) {
    let pinned = pin(cpu).is_ok();
    // Where this is refused, the thread is served as all others are.
    let urgent = real_time && set_policy(SchedulingPolicy::Fifo(FIFO_PRIORITY - 1)).is_ok();
    let mut before = read(libc::CLOCK_THREAD_CPUTIME_ID);
    while let Ok(Answering { game, allowance, spent }) = games.recv() {
        if pinned {
            game.answer(if urgent { now() + allowance } else { Ticks::MAX });
        }
        game.leave();
        let kernel = read(libc::CLOCK_THREAD_CPUTIME_ID);
        let since = if urgent { (kernel - before) as f64 } else { 0.0 };
        before = kernel;
        let _late = spent.send(since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_threads_exchange_lines_again_and_again() {
        let cpus = corehop_system::thread::affinity().unwrap();
        let [Some(first), Some(second)] = [cpus.first(), cpus.iter().nth(1)] else {
            #[expect(clippy::print_stderr, reason = "a skip that is not told is none")]
            {
                eprintln!("skipped: only one CPU is usable");
            }
            return;
        };
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let parked = Parked::park(&cpus, clock, true).unwrap();
        let got: Vec<Met> = (0..40).map(|_| parked.exchange((first, second), 2e6)).collect();
        let times: Vec<f64> = got.iter().filter_map(|it| it.time_ns).collect();
        // On a busy machine some do not meet in time.
        assert!(!times.is_empty() && times.iter().all(|&ns| ns > 1.0), "{got:?}");
        // What spins for real time says for how long, within its allowance and the way to and from sleep.
        assert!(got.iter().filter_map(|it| it.spent_ns).all(|ns| ns < 10e6), "{got:?}");
        assert_eq!(parked.exchange((first, Cpu(60_000)), 2e6), Met::default(), "no such CPU");
    }

    #[test]
    fn a_cpu_that_cannot_be_had_gives_no_exchange_and_no_endless_wait() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let both = CpuList::new([cpu, Cpu(1_000)]);
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let parked = Parked::park(&both, clock, false).unwrap();
        assert_eq!(parked.exchange((cpu, Cpu(1_000)), 2e6).time_ns, None);
    }

    #[test]
    fn a_thread_that_has_not_finished_is_given_no_more_and_not_waited_for() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let parked = Parked::park(&CpuList::new([cpu]), clock, false).unwrap();
        parked.on[&cpu].busy.store(true, Ordering::Release);
        assert_eq!(parked.exchange((cpu, cpu), 2e6), Met::default());
    }
}
