// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures wake-ups: the cost of a wake-up on one CPU and on two, and the additional cost of the other CPU's idle
//! state.
//!
//! Two threads exchange a byte through pipes. The conditions ([`WakeArm`]) alternate batch by batch, forwards and
//! backwards, so that drift affects all of them alike. One condition keeps both CPUs awake by `SCHED_IDLE` threads,
//! which yield to everything else and spin for some milliseconds at a time. The experiment changes no setting of the
//! host.
//!
//! A thread that does not get its CPU cannot end. So the threads are in a separate process for which nothing waits.
//! The process sends each batch when it is complete, and an alarm ends the process. Batches that do not arrive in
//! time are missing.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corehop_plan::host::wakes::{WakeArm, WakeBatch, WakeBatches};
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::units::{Cpu, CpuList};

use super::exchange;
use corehop_system::clock::{TickClock, Ticks, now};
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::{READY, enter_helper, nowhere, start_helper, wait_readable};
use corehop_system::thread::{
    SchedulingPolicy, current_cpu, current_tid, set_affinity, set_affinity_of, set_policy,
};

/// The command-line argument that starts the program as the process of this experiment.
pub(crate) const ROLE: &str = "__wakes";
/// The number of round trips in a batch, and before a batch, because the first round trips find the threads on other
/// CPUs.
const TRIPS: u32 = 10;
const SETTLE: u32 = 2;
/// The number of rounds over all conditions: fewer if the time is over, more if other activity left too few batches
/// on idle CPUs.
const ROUNDS: usize = 45;
const ENOUGH: usize = 12;
/// The longest time for which a thread that keeps a CPU awake spins without a pause.
const SPIN: Duration = Duration::from_millis(20);
/// The time for a spinning thread to begin or to stop. If other threads use its CPU, the thread does neither, and the
/// CPU is not idle anyway.
const TURN: Duration = Duration::from_millis(2);
/// The additional time that the process gets, to start and for an unfinished batch.
const LATE: Duration = Duration::from_millis(400);
/// The time in seconds after which the kernel ends the process.
const LAST_S: u32 = 5;
/// The number of bytes of a message.
const WORDS: usize = 24;
/// The message number that announces the time of a line.
const LINE: u32 = u32::MAX;
/// The policy of the threads, because beside a program that fills the CPUs a hand-over would wait for other threads'
/// time slices.
const URGENT: SchedulingPolicy = SchedulingPolicy::Other(-20);

/// Measures wake-ups for about `most`, and never longer than `most` plus half a second.
///
/// Without CAP_SYS_NICE, other threads may disturb the measurement.
pub fn wake_batches(platform: &Platform, most: Duration) -> WakeBatches {
    let cpus = platform.usable();
    let pair = |affinities: &[Affinity]| affinities.iter().find_map(|&it| platform.pair(&cpus, it));
    let near = pair(&[Affinity::L3, Affinity::L2, Affinity::Smt]);
    let far = pair(&[Affinity::Memory]);
    let first = cpus.first().unwrap_or(Cpu(0));
    let (a, b) = near.or(far).unwrap_or((first, first));
    let words = match near.and(far) {
        Some((c, d)) => vec![a, b, c, d],
        None => vec![a, b],
    };
    let mut all = WakeBatches { cpus: (a != b).then_some((a, b)), ..WakeBatches::default() };
    let done =
        ProbeProcess::start(&words, most).and_then(|mut it| it.collect(most + LATE, &mut all));
    all.trouble = done.err().map(|it| it.to_string());
    // Where two CPUs have no cache in common, they are the pair without one as well.
    if near.is_none() {
        let far: Vec<WakeBatch> =
            all.batches.iter().filter(|it| it.arm == WakeArm::OtherCpu).copied().collect();
        all.batches.extend(far.into_iter().map(|it| WakeBatch { arm: WakeArm::Separate, ..it }));
    }
    all
}

/// The running helper process, and the socket to it.
struct ProbeProcess {
    child: Child,
    socket: UnixStream,
}

impl ProbeProcess {
    fn start(cpus: &[Cpu], most: Duration) -> io::Result<Self> {
        let cpus = cpus.iter().map(|it| it.0.to_string()).collect::<Vec<_>>().join(",");
        let most = most.as_millis().to_string();
        let words = [cpus.as_str(), &most].map(OsStr::new);
        let (child, socket) = start_helper(ROLE, &words, nowhere()?, nowhere()?)?;
        Ok(Self { child, socket })
    }

    /// Receives messages until the process closes its end.
    fn collect(&mut self, most: Duration, all: &mut WakeBatches) -> io::Result<()> {
        let end = Instant::now() + most;
        let mut words = [0; WORDS];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let [there] = wait_readable([Some(&self.socket)], Some(left))?;
            if !there {
                let why = "the threads that hand over did not get their CPUs in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            match self.socket.read_exact(&mut words) {
                Ok(()) => take(&words, all),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for ProbeProcess {
    fn drop(&mut self) {
        // Nothing waits for a process with a thread that cannot end.
        let _ends = self.child.kill();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None))
            && begun.elapsed() < Duration::from_millis(20)
        {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Adds the batch that a message describes.
fn take(words: &[u8; WORDS], all: &mut WakeBatches) {
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|n| words[at + n]));
    let float = |at: usize| f64::from_ne_bytes(std::array::from_fn(|n| words[at + n]));
    let (kind, idle) = (number(0), number(4));
    if kind == LINE {
        all.line_ns = Some(float(8));
    } else if let Some(&arm) = WakeArm::ALL.get(kind as usize) {
        let idle = [Some(false), Some(true)].get(idle as usize).copied().flatten();
        all.batches.push(WakeBatch { arm, ns: float(8), idle, crossed: float(16) });
    }
}

/// A message: its kind, whether CPUs were idle, a time, and the share of hand-overs on two CPUs.
fn message(kind: u32, idle: Option<bool>, ns: f64, crossed: f64) -> [u8; WORDS] {
    let mut words = [0; WORDS];
    words[..4].copy_from_slice(&kind.to_ne_bytes());
    words[4..8].copy_from_slice(&idle.map_or(u32::MAX, u32::from).to_ne_bytes());
    words[8..16].copy_from_slice(&ns.to_ne_bytes());
    words[16..].copy_from_slice(&crossed.to_ne_bytes());
    words
}

/// The process's `main`, which runs the experiment on these CPUs for `most` milliseconds.
pub(crate) fn serve(cpus: &OsStr, most: &OsStr) -> io::Result<()> {
    let mut socket = enter_helper(c"corehop-wakes")?;
    // SAFETY: takes an integer; the kernel ends this process then, whatever its threads wait for.
    unsafe { libc::alarm(LAST_S) };
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let list = cpus.to_str().ok_or_else(invalid)?.split(',');
    let cpus: Vec<Cpu> =
        list.map(|it| it.parse().map(Cpu)).collect::<Result<_, _>>().map_err(|_| invalid())?;
    let most: u64 = most.to_str().and_then(|it| it.parse().ok()).ok_or_else(invalid)?;
    let pairs: Vec<(Cpu, Cpu)> = cpus.chunks_exact(2).map(|it| (it[0], it[1])).collect();
    let &near = pairs.first().ok_or_else(invalid)?;
    socket.write_all(READY)?;
    let clock = TickClock::calibrate(Duration::from_millis(10));
    if let Some(ns) = exchange::one_way_ns(near.0, near.1, &clock) {
        socket.write_all(&message(LINE, None, ns, 0.0))?;
    }
    let end = Instant::now() + Duration::from_millis(most);
    PipeProbe::begin(near, pairs.get(1).copied(), clock)?.run(end, &mut socket)
}

/// Two threads that wake each other, and the pipes between them.
struct PipeProbe {
    near: (Cpu, Cpu),
    far: Option<(Cpu, Cpu)>,
    to_there: PipeWriter,
    here: PipeReader,
    echo: i32,
    /// The CPU on which the other thread last answered.
    answered_on: Arc<AtomicU32>,
    awake: Awake,
    clock: TickClock,
}

impl PipeProbe {
    fn begin(near: (Cpu, Cpu), far: Option<(Cpu, Cpu)>, clock: TickClock) -> io::Result<Self> {
        let ((here, mut to_here), (mut there, to_there)) = (pipe()?, pipe()?);
        let (tid, answered_on) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (its, on) = (Arc::clone(&tid), Arc::clone(&answered_on));
        let echo = move || {
            // What the thread may not have, it does without.
            let _plain = set_policy(URGENT);
            its.store(current_tid(), Ordering::Release);
            let mut byte = [0];
            while there.read(&mut byte).is_ok_and(|it| it == 1) {
                on.store(current_cpu().0, Ordering::Relaxed);
                if to_here.write_all(&byte).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("echo".to_owned()).spawn(echo)?;
        let _plain = set_policy(URGENT);
        let awake = Awake::begin(near, &clock)?;
        let mut all = Self { near, far, to_there, here, echo: 0, answered_on, awake, clock };
        // The first answer says that the other thread is there.
        all.trip()?;
        all.echo = tid.load(Ordering::Acquire).cast_signed();
        Ok(all)
    }

    /// Runs rounds until there are enough or the time is over, and at least one.
    fn run(mut self, end: Instant, socket: &mut UnixStream) -> io::Result<()> {
        let mut arms: Vec<WakeArm> = WakeArm::ALL.into_iter().filter(|&it| self.has(it)).collect();
        let (mut idle, mut round) = (0, 0);
        while round == 0 || (Instant::now() < end && (round < ROUNDS || idle < ENOUGH)) {
            for &arm in &arms {
                let batch = self.batch(arm)?;
                // Where the host does not count, more rounds tell no more.
                idle += usize::from(arm == WakeArm::OtherCpu && batch.idle != Some(false));
                socket.write_all(&message(arm as u32, batch.idle, batch.ns, batch.crossed))?;
            }
            arms.reverse();
            round += 1;
        }
        Ok(())
    }

    fn has(&self, arm: WakeArm) -> bool {
        match arm {
            WakeArm::SameCpu => true,
            WakeArm::Separate => self.far.is_some(),
            _ => self.near.0 != self.near.1,
        }
    }

    /// Runs a batch under one condition.
    fn batch(&mut self, arm: WakeArm) -> io::Result<WakeBatch> {
        let (a, b) = self.near;
        let (here, there) = match (arm, self.far) {
            (WakeArm::SameCpu, _) => (vec![a], vec![a]),
            (WakeArm::Free, _) => (vec![a, b], vec![a, b]),
            (WakeArm::Separate, Some((a, b))) => (vec![a], vec![b]),
            _ => (vec![a], vec![b]),
        };
        set_affinity(here.iter().copied())?;
        set_affinity_of(self.echo, there.iter().copied())?;
        self.awake.turn(arm == WakeArm::KeptAwake, &self.clock);
        for _ in 0..SETTLE {
            self.trip()?;
        }
        let used = CpuList::new(here.into_iter().chain(there));
        let before = idle_entries(&used);
        let (begun, mut crossed) = (now(), 0);
        for _ in 0..TRIPS {
            self.trip()?;
            crossed += u32::from(self.answered_on.load(Ordering::Relaxed) != current_cpu().0);
        }
        let ns = self.clock.nanos(now() - begun) / f64::from(2 * TRIPS);
        let idle = before.zip(idle_entries(&used)).map(|(before, after)| {
            let entries: Vec<u64> = after
                .iter()
                .zip(before)
                .map(|(after, before)| after.saturating_sub(before))
                .collect();
            became_idle(arm, &entries)
        });
        Ok(WakeBatch { arm, ns, idle, crossed: f64::from(crossed) / f64::from(TRIPS) })
    }

    /// Hands the byte over, and waits for the answer.
    fn trip(&mut self) -> io::Result<()> {
        let mut byte = [0];
        self.to_there.write_all(&byte)?;
        self.here.read_exact(&mut byte)
    }
}

/// Whether CPUs with these numbers of idle entries in a batch were idle before its wake-ups.
fn became_idle(arm: WakeArm, entries: &[u64]) -> bool {
    let most = u64::from(TRIPS) * 4 / 5;
    let few = u64::from(TRIPS) / 5;
    match arm {
        WakeArm::KeptAwake => entries.iter().any(|&it| it > few),
        _ => entries.iter().all(|&it| it >= most),
    }
}

/// The number of times that each CPU has entered an idle state; `None` if the host does not count idle states (no
/// cpuidle).
fn idle_entries(cpus: &CpuList) -> Option<Vec<u64>> {
    let root = SysRoot::live();
    let of = |cpu: Cpu| {
        let folder = format!("sys/devices/system/cpu/cpu{}/cpuidle", cpu.0);
        let states = root.numbered(&folder, "state", "").into_iter();
        let counts: Vec<u64> = states
            .filter_map(|it| root.read(format!("{folder}/state{it}/usage"))?.trim().parse().ok())
            .collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    };
    cpus.iter().map(of).collect()
}

/// `SCHED_IDLE` threads that keep CPUs awake on request.
struct Awake {
    shared: Arc<SpinControl>,
    threads: Vec<std::thread::Thread>,
}

#[derive(Default)]
struct SpinControl {
    on: AtomicBool,
    /// The stamp after which no thread spins.
    until: AtomicU64,
    spinning: AtomicU32,
}

impl Awake {
    /// Starts a thread on each CPU. A thread that may not use the class `SCHED_IDLE` ends, because it would take time
    /// from other threads.
    fn begin((a, b): (Cpu, Cpu), clock: &TickClock) -> io::Result<Self> {
        let shared = Arc::new(SpinControl::default());
        let mut threads = Vec::new();
        for cpu in CpuList::new([a, b]).iter() {
            let shared = Arc::clone(&shared);
            let spin = move || {
                if set_affinity([cpu]).is_ok() && set_policy(SchedulingPolicy::Idle).is_ok() {
                    shared.serve();
                }
            };
            let thread =
                std::thread::Builder::new().name(format!("awake-{}", cpu.0)).spawn(spin)?;
            threads.push(thread.thread().clone());
        }
        let all = Self { shared, threads };
        all.turn(false, clock);
        Ok(all)
    }

    /// Makes the threads spin or stop, and gives them some time to do so.
    fn turn(&self, on: bool, clock: &TickClock) {
        let shared = &self.shared;
        if !on && !shared.on.swap(false, Ordering::AcqRel) {
            return;
        }
        if on {
            let spin = clock.ticks(SPIN.as_nanos() as f64);
            shared.until.store(now() + spin, Ordering::Release);
            shared.on.store(true, Ordering::Release);
            self.threads.iter().for_each(std::thread::Thread::unpark);
        }
        let expected = if on { self.threads.len() as u32 } else { 0 };
        let begun = Instant::now();
        while shared.spinning.load(Ordering::Acquire) != expected && begun.elapsed() < TURN {
            // The spinning thread gives way to this one on its CPU.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl SpinControl {
    fn serve(&self) {
        let asked = |stamp: Ticks| {
            self.on.load(Ordering::Acquire) && stamp < self.until.load(Ordering::Acquire)
        };
        loop {
            if !asked(now()) {
                std::thread::park_timeout(Duration::from_millis(50));
                continue;
            }
            self.spinning.fetch_add(1, Ordering::AcqRel);
            while asked(now()) {
                (0..64).for_each(|_| std::hint::spin_loop());
            }
            self.spinning.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let mut all = WakeBatches::default();
        take(&message(LINE, None, 151.5, 0.0), &mut all);
        for (idle, crossed) in [(None, 0.5), (Some(true), 1.0), (Some(false), 0.0)] {
            let arm = WakeArm::KeptAwake;
            take(&message(arm as u32, idle, 2_345.0, crossed), &mut all);
            assert_eq!(all.batches.pop(), Some(WakeBatch { arm, ns: 2_345.0, idle, crossed }));
        }
        take(&message(77, None, 1.0, 1.0), &mut all);
        assert!(all.batches.is_empty() && all.line_ns == Some(151.5));
    }

    #[test]
    fn an_idle_batch_needs_both_cpus_and_one_kept_awake_is_spoilt_by_either() {
        for (arm, entries, idle) in [
            (WakeArm::OtherCpu, [10, 9], true),
            (WakeArm::OtherCpu, [10, 0], false),
            (WakeArm::KeptAwake, [0, 1], false),
            (WakeArm::KeptAwake, [0, 9], true),
        ] {
            assert_eq!(became_idle(arm, &entries), idle, "{arm:?} {entries:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_prepared_gives_no_costs_and_a_reason() {
        // This very test program does not call `main_if_asked`.
        let platform = corehop_system::discover::discover(&SysRoot::live()).unwrap();
        let all = wake_batches(&platform, Duration::from_millis(10));
        assert!(all.batches.is_empty() && all.trouble.is_some(), "{all:?}");
    }
}
