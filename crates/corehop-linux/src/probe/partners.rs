// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the current distance between two CPUs: threads parked on them, in a separate process, exchange lines.
//!
//! A hypervisor moves the virtual CPUs of its guests, which no topology shows. Some hundred exchanges take tens of
//! microseconds, and distinguish one shared cache from two.
//!
//! A thread may not get its CPU for seconds, and cannot end before it has run once more. Such a thread would keep
//! this process alive, and everything that waits for its end. So the threads are in a helper process for which
//! nothing waits, and a late answer counts as no answer.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use corehop_plan::units::{Cpu, CpuList};

pub(crate) use super::parked::CpuPair;
use super::parked::{Met, PATIENCE_NS, Parked};
use crate::duty;
use corehop_system::clock::TickClock;
use corehop_system::supervisor::{READY, enter_helper, nowhere, start_helper, wait_readable};

/// The command-line argument that starts the program as the partner process.
pub(crate) const ROLE: &str = "__partners";
/// The longest wait for an answer.
const LATE: Duration = Duration::from_millis(300);
/// The silence after which the process is given up.
const LOST: Duration = Duration::from_secs(5);
/// The time that the process has to end by itself.
const END: Duration = Duration::from_millis(20);
/// The number of bytes of an order and of an answer.
const WORDS: usize = 24;

/// The partner threads on some CPUs.
#[derive(Debug)]
pub(crate) struct Partners {
    there: Mutex<There>,
    /// Whether the answering threads may be real-time.
    real_time: bool,
}

/// The running partner process.
#[derive(Debug)]
struct There {
    child: Child,
    socket: UnixStream,
    /// The number of the last order.
    asked: u32,
    /// The number of the last answer.
    answered: u32,
    /// The time since which an answer is late.
    late: Option<Instant>,
    lost: bool,
}

impl Partners {
    /// Starts the process, with threads on each of `cpus`.
    ///
    /// # Errors
    /// Fails if the system starts no more processes or threads, or with `NotConnected` if this program's `main` does
    /// not call [`corehop_system::supervisor::main_if_asked`].
    pub(crate) fn park(cpus: &CpuList, clock: TickClock, real_time: bool) -> io::Result<Self> {
        let (cpus, rate) = (cpus.to_string(), (clock.hertz() * 1e-9).to_string());
        let policy = if real_time { "fifo" } else { "other" };
        let words = [cpus.as_str(), &rate, policy].map(OsStr::new);
        let (child, socket) = start_helper(ROLE, &words, nowhere()?, nowhere()?)?;
        let there = There { child, socket, asked: 0, answered: 0, late: None, lost: false };
        Ok(Self { there: Mutex::new(there), real_time })
    }

    /// The one-way time of a line from one CPU to the other, in nanoseconds. Returns `None` if the two threads did not
    /// run simultaneously, one of them could not be pinned, or no answer arrived within some hundred milliseconds.
    pub(crate) fn exchange(&self, pair: CpuPair) -> Option<f64> {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.real_time {
            return there.exchange(pair, PATIENCE_NS)?.time_ns;
        }
        let wait = duty::wait_for_exchange_ns(pair.1, PATIENCE_NS);
        std::thread::sleep(Duration::from_nanos(wait as u64));
        let allowance = duty::allowance_together_ns(pair.1).min(PATIENCE_NS);
        let met = there.exchange(pair, allowance).unwrap_or_default();
        // The budget of the CPU counts what spins for a line as it counts a job; what is not known, as the most.
        duty::enter_other(pair.1, met.spent_ns.unwrap_or(allowance));
        met.time_ns
    }
}

impl There {
    /// Sends an order, and waits for the answer. Returns `None` if no answer arrives in time.
    fn exchange(&mut self, (a, b): CpuPair, allowance_ns: f64) -> Option<Met> {
        if self.lost || !self.is_free() {
            return None;
        }
        self.asked = self.asked.wrapping_add(1);
        let mut order = [0; WORDS];
        put(&mut order, self.asked, [a.0, b.0], allowance_ns);
        if self.socket.write_all(&order).is_err() {
            self.lost = true;
            return None;
        }
        let answer = self.answer(LATE);
        if answer.is_none() {
            self.late = Some(Instant::now());
        }
        answer
    }

    /// Whether the last order is answered by now.
    fn is_free(&mut self) -> bool {
        if self.answered != self.asked && self.answer(Duration::ZERO).is_none() {
            self.lost |= self.late.is_some_and(|since| since.elapsed() > LOST);
            return false;
        }
        self.late = None;
        true
    }

    /// The answer to the last order, if it arrives within `limit`.
    fn answer(&mut self, limit: Duration) -> Option<Met> {
        let [there] = wait_readable([Some(&self.socket)], Some(limit)).ok()?;
        if !there {
            return None;
        }
        let mut words = [0; WORDS];
        if self.socket.read_exact(&mut words).is_err() {
            self.lost = true;
            return None;
        }
        self.answered = u32::from_ne_bytes(four(&words, 0));
        let float =
            |at: usize| Some(f64::from_ne_bytes(eight(&words, at))).filter(|it| !it.is_nan());
        Some(Met { time_ns: float(8), spent_ns: float(16) })
    }
}

impl Drop for There {
    fn drop(&mut self) {
        // Its threads end with it, or are the business of a process that nothing waits for.
        let _closed = self.socket.shutdown(std::net::Shutdown::Both);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > END {
                let _ends = self.child.kill();
                let _status = self.child.try_wait();
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// The process's `main`, which exchanges lines on request until the socket is closed.
pub(crate) fn serve(cpus: &OsStr, rate: &OsStr, policy: &OsStr) -> io::Result<()> {
    let mut socket = enter_helper(c"corehop-lines")?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let cpus: CpuList = cpus.to_str().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
    let rate: f64 = rate.to_str().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
    let parked = Parked::park(&cpus, TickClock::of_rate(rate), policy == "fifo")?;
    socket.write_all(READY)?;
    let mut order = [0; WORDS];
    while socket.read_exact(&mut order).is_ok() {
        let pair =
            (Cpu(u32::from_ne_bytes(four(&order, 8))), Cpu(u32::from_ne_bytes(four(&order, 12))));
        // Never longer than the one who asks may have counted.
        let allowance = f64::from_ne_bytes(eight(&order, 16)).min(PATIENCE_NS);
        let met = parked.exchange(pair, allowance);
        let mut answer = [0; WORDS];
        answer[..4].copy_from_slice(&order[..4]);
        answer[8..16].copy_from_slice(&met.time_ns.unwrap_or(f64::NAN).to_ne_bytes());
        answer[16..].copy_from_slice(&met.spent_ns.unwrap_or(f64::NAN).to_ne_bytes());
        socket.write_all(&answer)?;
    }
    Ok(())
}

/// Writes an order: its number, two CPUs, and the allowance in nanoseconds.
fn put(order: &mut [u8; WORDS], number: u32, cpus: [u32; 2], allowance_ns: f64) {
    order[..4].copy_from_slice(&number.to_ne_bytes());
    order[8..12].copy_from_slice(&cpus[0].to_ne_bytes());
    order[12..16].copy_from_slice(&cpus[1].to_ne_bytes());
    order[16..].copy_from_slice(&allowance_ns.to_ne_bytes());
}

fn four(words: &[u8; WORDS], at: usize) -> [u8; 4] {
    std::array::from_fn(|n| words[at + n])
}

fn eight(words: &[u8; WORDS], at: usize) -> [u8; 8] {
    std::array::from_fn(|n| words[at + n])
}
