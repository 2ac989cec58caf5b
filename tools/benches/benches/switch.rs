// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of an empty call by each mechanism, beside its peer or its physical limit.
//!
//! `cargo bench -p corehop-benches -- OUT.json` adds its figures to those in OUT.json; names of subjects after it
//! leave the others out. All take turns, batch by batch, there and back, so that they meet the same neighbours. A time is
//! the 10th percentile over batches, as others only ever add time, with the median beside it. A ratio is the median of the
//! ratios of the rounds, with its interval of 95 %: a host may move its virtual CPUs between rounds, and a line then takes
//! six times as long. Nothing here is asserted; the machine may be shared.
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod list;

use std::ffi::c_void;
use std::hint::black_box;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use corehop_switch::policy::CoreSet;
use corehop_switch::{KernelPoller, Mechanism, Options, Switch};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 60;
/// A sleeping partner is given so long to fall asleep, in nanoseconds.
const FALLS_ASLEEP: u64 = 60_000;

fn main() -> Fallible<()> {
    let mut words = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let out = words.next().map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    let only: Vec<String> = words.collect();
    list::put(figures(&only)?, &out)
}

/// A subject: times a batch, in nanoseconds for each call, or says why it cannot.
struct Subject {
    name: &'static str,
    batch: fn(Cores) -> Fallible<f64>,
}

/// The caller's core and the other.
#[derive(Clone, Copy)]
struct Cores {
    here: usize,
    there: usize,
}

const SUBJECTS: [Subject; 17] = [
    Subject { name: "none", batch: |_| Ok(none()) },
    Subject { name: "v1", batch: |cores| called(cores, Mechanism::Affinity, 20) },
    Subject { name: "v2", batch: |cores| called(cores, Mechanism::HandOff, 20) },
    Subject { name: "v3", batch: |cores| called(cores, Mechanism::Linked, 20) },
    Subject { name: "line-exchange-owned", batch: |cores| exchange::<true>(cores, 0) },
    Subject { name: "line-exchange", batch: |cores| exchange::<false>(cores, 0) },
    Subject { name: "v4", batch: |cores| called(cores, Mechanism::Polling, 5_000) },
    Subject { name: "run", batch: |cores| closure(cores, 0) },
    Subject { name: "v5", batch: |cores| called(cores, Mechanism::Adaptive, 5_000) },
    Subject { name: "line-exchange-work", batch: |cores| exchange::<false>(cores, steps()) },
    Subject { name: "v4-work", batch: called_between_work },
    Subject { name: "run-work", batch: |cores| closure(cores, steps()) },
    Subject { name: "run-large", batch: large_closure },
    Subject { name: "sqpoll", batch: sqpoll },
    Subject { name: "v5-asleep", batch: asleep },
    Subject { name: "futex", batch: bare_wake },
    Subject { name: "async-16", batch: asynchronous },
];

/// Dividend, divisor, and their name.
const RATIOS: [(&str, &str, &str); 11] = [
    ("v1", "v4", "v1-over-v4"),
    ("v4", "line-exchange", "v4-over-line-exchange"),
    ("v4-work", "line-exchange-work", "v4-over-line-exchange-with-work"),
    ("v4", "line-exchange-owned", "v4-over-owned-line-exchange"),
    ("run", "v4", "run-over-call"),
    ("run-work", "v4-work", "run-over-call-with-work"),
    ("run-large", "v4", "run-large-over-call"),
    ("sqpoll", "v4", "sqpoll-over-v4"),
    ("v5", "v4", "v5-over-v4"),
    ("v5-asleep", "futex", "v5-asleep-over-futex"),
    ("async-16", "v4", "async-16-over-sync"),
];

/// The times of the subjects, round by round.
struct Times(Vec<Vec<Option<f64>>>);

impl Times {
    fn of(&self, name: &str) -> Option<&[Option<f64>]> {
        let at = SUBJECTS.iter().position(|subject| subject.name == name)?;
        Some(&self.0[at])
    }

    fn quantile(&self, name: &str, share: f64) -> Option<f64> {
        quantile(&self.of(name)?.iter().flatten().copied().collect::<Vec<f64>>(), share)
    }

    fn time(&self, name: &str) -> Option<Value> {
        let (low, median) = (self.quantile(name, 0.1)?, self.quantile(name, 0.5)?);
        let name = format!("switch/{name}-ns");
        Some(json!({"name": name, "value": round(low), "unit": "ns", "median": round(median)}))
    }

    /// The median ratio of two subjects that met in the same rounds, with the time of the divisor.
    fn ratio(&self, (over, under, name): (&str, &str, &str)) -> Option<Value> {
        let pairs = self.of(over)?.iter().zip(self.of(under)?);
        let ratios: Vec<f64> =
            pairs.filter_map(|(over, under)| Some((*over)? / (*under)?)).collect();
        // The ranks between which the median lies with 95 %.
        let margin = 0.98 / (ratios.len() as f64).sqrt();
        let at = |share: f64| quantile(&ratios, share.clamp(0.0, 1.0)).map(round);
        let interval = [at(0.5 - margin)?, at(0.5 + margin)?];
        let (name, divisor) = (format!("switch/{name}"), self.quantile(under, 0.5)?);
        Some(json!({"name": name, "value": at(0.5)?, "unit": "1", "interval": interval,
                    "rounds": ratios.len(), "divisor_ns": round(divisor)}))
    }
}

fn figures(only: &[String]) -> Fallible<Vec<Value>> {
    // Before this thread is moved to one core.
    let elsewhere = only.is_empty().then(elsewhere);
    let Some(cores) = cores()? else {
        eprintln!("skipped: switch/*: fewer than two cores are usable");
        return Ok(Vec::new());
    };
    let mut times = Times(SUBJECTS.iter().map(|_| Vec::new()).collect());
    for round in 0..ROUNDS {
        let mut order: Vec<usize> = (0..SUBJECTS.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let subject = &SUBJECTS[at];
            let wanted = only.is_empty() || only.iter().any(|name| name == subject.name);
            let time = wanted.then(|| (subject.batch)(cores));
            if let (0, Some(Err(why))) = (round, &time) {
                eprintln!("skipped: switch/{}: {why}", subject.name);
            }
            times.0[at].push(time.and_then(Result::ok));
        }
    }
    let mut figures: Vec<Value> =
        SUBJECTS.iter().filter_map(|subject| times.time(subject.name)).collect();
    figures.extend(RATIOS.iter().filter_map(|&names| times.ratio(names)));
    figures.extend(elsewhere);
    Ok(figures)
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 * share) as usize).min(values.len().checked_sub(1)?)).copied()
}

/// The first two usable cores; the calling thread is moved to the first.
fn cores() -> Fallible<Option<Cores>> {
    let mut usable = CoreSet::EMPTY.words();
    // SAFETY: the kernel writes at most the given number of bytes.
    unsafe { libc::sched_getaffinity(0, size_of_val(&usable), usable.as_mut_ptr().cast()) };
    let usable = CoreSet::from_words(usable);
    let mut usable = usable.iter();
    let (Some(here), Some(there)) = (usable.next(), usable.next()) else { return Ok(None) };
    pin(here)?;
    Ok(Some(Cores { here, there }))
}

fn pin(core: usize) -> Fallible<()> {
    let words = CoreSet::of(&[core]).words();
    // SAFETY: the kernel reads the given number of bytes.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

unsafe extern "C" fn nothing(_: *mut c_void) -> u64 {
    0
}

/// The time of one of `calls`, in nanoseconds.
fn timed(calls: u32, mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..calls {
        call();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// The caller's own work between two calls, in nanoseconds.
const OWN_WORK: f64 = 20.0;

/// Works for so many steps, each of which needs the one before.
fn work(steps: u32) {
    let mut value = 3_u64;
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    black_box(value);
}

/// The steps of [`OWN_WORK`] on this host: by the fastest of some batches.
fn steps() -> u32 {
    static STEPS: OnceLock<u32> = OnceLock::new();
    *STEPS.get_or_init(|| {
        let step = || timed(1_000, || work(100)) / 100.0;
        (OWN_WORK / (0..30).map(|_| step()).fold(f64::INFINITY, f64::min)) as u32
    })
}

fn none() -> f64 {
    timed(5_000, || {
        // SAFETY: it does nothing.
        black_box(unsafe { black_box(nothing)(ptr::null_mut()) });
    })
}

fn open(cores: Cores, mechanism: Mechanism) -> Fallible<Switch> {
    let wish = Options {
        os_cores: CoreSet::of(&[cores.there]),
        mechanism: Some(mechanism),
        patience_ns: 1_000_000_000,
        ..Options::default()
    };
    let mut switch = Switch::open(&wish);
    if switch.mechanism() != mechanism {
        return Err(format!("{:?}", switch.fallbacks()).into());
    }
    for _ in 0..20 {
        call(&mut switch);
    }
    Ok(switch)
}

fn call(switch: &mut Switch) {
    // SAFETY: it does nothing.
    black_box(unsafe { switch.call(nothing, ptr::null_mut()) });
}

fn called(cores: Cores, mechanism: Mechanism, calls: u32) -> Fallible<f64> {
    let mut switch = open(cores, mechanism)?;
    Ok(timed(calls, || call(&mut switch)))
}

fn called_between_work(cores: Cores) -> Fallible<f64> {
    let (mut switch, steps) = (open(cores, Mechanism::Polling)?, steps());
    Ok(timed(5_000, || {
        call(&mut switch);
        work(steps);
    }))
}

/// A closure in place of a function, and own work between two of them.
fn closure(cores: Cores, steps: u32) -> Fallible<f64> {
    let mut switch = open(cores, Mechanism::Polling)?;
    let value = black_box(7_u64);
    Ok(timed(5_000, || {
        black_box(switch.run(|| value + 1));
        work(steps);
    }))
}

/// A closure that has no room in the line of its call.
fn large_closure(cores: Cores) -> Fallible<f64> {
    let mut switch = open(cores, Mechanism::Polling)?;
    let values = black_box([7_u64; 8]);
    Ok(timed(5_000, || {
        black_box(switch.run(move || values[0] + 1));
    }))
}

unsafe extern "C" fn core_of(_: *mut c_void) -> u64 {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() as u64 }
}

/// Of 100,000 calls by a switch with the usual options those whose function ran on an OS core.
fn elsewhere() -> Value {
    let calls = 100_000;
    let mut switch = Switch::open(&Options::default());
    let os = switch.os_cores();
    // SAFETY: the function takes no argument.
    let there = |switch: &mut Switch| unsafe { switch.call(core_of, ptr::null_mut()) } as usize;
    let found = (0..calls).filter(|_| os.contains(there(&mut switch))).count();
    let (counts, mechanism) = (switch.counts(), switch.mechanism().to_string());
    let (local, taken_back) = (counts.local, counts.taken_back);
    json!({"name": "switch/default-runs-elsewhere", "value": found, "unit": "calls", "of": calls,
           "mechanism": mechanism, "local": local, "taken_back": taken_back})
}

fn asynchronous(cores: Cores) -> Fallible<f64> {
    let mut switch = open(cores, Mechanism::Polling)?;
    let mut failed = 0;
    let time = timed(500, || {
        // SAFETY: it does nothing.
        let tickets: [_; 16] =
            std::array::from_fn(|_| unsafe { switch.submit(nothing, ptr::null_mut()) });
        for ticket in tickets {
            let settled = ticket.ok().and_then(|ticket| switch.wait(ticket).ok());
            failed += usize::from(settled.is_none());
        }
    });
    if failed == 0 { Ok(time / 16.0) } else { Err(format!("{failed} calls failed").into()) }
}

fn sqpoll(cores: Cores) -> Fallible<f64> {
    let mut poller = KernelPoller::open(cores.there, 100)?;
    let mut done = (0..20).all(|_| poller.nop(1_000_000_000));
    let time = timed(2_000, || done &= poller.nop(1_000_000_000));
    if done { Ok(time) } else { Err("the kernel's thread did not answer within 1 s".into()) }
}

/// Runs until so many nanoseconds have passed, so that this core stays awake.
fn pass(nanoseconds: u64) {
    let begun = Instant::now();
    while begun.elapsed().as_nanos() < u128::from(nanoseconds) {
        std::hint::spin_loop();
    }
}

/// The time of calls before each of which the other thread falls asleep.
fn after_sleep(mut call: impl FnMut()) -> f64 {
    let mut total = 0.0;
    for _ in 0..20 {
        pass(FALLS_ASLEEP);
        total += timed(1, &mut call);
    }
    total / 20.0
}

fn asleep(cores: Cores) -> Fallible<f64> {
    let mut switch = open(cores, Mechanism::Adaptive)?;
    Ok(after_sleep(|| call(&mut switch)))
}

/// Two words that threads hand a number over with: the same line, or a line each.
#[repr(align(128))]
struct Words {
    there: AtomicU32,
    back: AtomicU64,
}

impl Words {
    fn new() -> Arc<Self> {
        Arc::new(Self { there: AtomicU32::new(0), back: AtomicU64::new(0) })
    }

    /// Pauses, then fetches the line for writing.
    fn own(&self) {
        std::hint::spin_loop();
        // SAFETY: a hint.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) ptr::from_ref(self), options(nostack));
        }
    }

    /// A thread on a core that answers until it is told to stop.
    fn answered(self: &Arc<Self>, core: usize, answer: fn(&Self)) -> JoinHandle<()> {
        let words = Arc::clone(self);
        std::thread::spawn(move || {
            if pin(core).is_ok() {
                answer(&words);
            }
        })
    }
}

/// Tells an answering thread to stop.
const STOP: u32 = u32::MAX;

/// The physical limit: a line goes to the other core and comes back, and nothing else happens but the caller's work between.
/// `OWNED`: either side pauses between looks, and asks for the line to write when it looks.
fn exchange<const OWNED: bool>(cores: Cores, steps: u32) -> Fallible<f64> {
    let words = Words::new();
    let thread = words.answered(cores.there, |words| {
        let mut seen = 0;
        while seen != STOP {
            let now = words.there.load(Ordering::Acquire);
            if now != seen {
                seen = now;
                words.back.store(u64::from(seen), Ordering::Release);
            } else if OWNED {
                words.own();
            }
        }
    });
    let mut number = 0;
    let mut there_and_back = || {
        number += 1;
        words.there.store(number, Ordering::Release);
        while words.back.load(Ordering::Acquire) != u64::from(number) {
            if OWNED {
                words.own();
            }
        }
        work(steps);
    };
    (0..20).for_each(|_| there_and_back());
    let time = timed(5_000, there_and_back);
    words.there.store(STOP, Ordering::Release);
    thread.join().map_err(|_| "the other thread panicked")?;
    Ok(time)
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word lives on; there is no time.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

/// A bare wake-up: the other thread sleeps on a futex, is woken, and answers in memory.
fn bare_wake(cores: Cores) -> Fallible<f64> {
    let words = Words::new();
    let thread = words.answered(cores.there, |words| {
        let mut seen = 0;
        while seen != STOP {
            futex(&words.there, libc::FUTEX_WAIT, seen);
            let now = words.there.load(Ordering::Acquire);
            if now != seen {
                seen = now;
                words.back.store(u64::from(seen), Ordering::Release);
            }
        }
    });
    let mut number = 0;
    let time = after_sleep(|| {
        number += 1;
        words.there.store(number, Ordering::Release);
        futex(&words.there, libc::FUTEX_WAKE, 1);
        while words.back.load(Ordering::Acquire) != u64::from(number) {
            // A caller that spins instead waits ten times as long on some virtual machines.
            std::thread::yield_now();
        }
    });
    words.there.store(STOP, Ordering::Release);
    futex(&words.there, libc::FUTEX_WAKE, 1);
    thread.join().map_err(|_| "the other thread panicked")?;
    let _ = cores.here;
    Ok(time)
}
