// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two threads that swap items and make no system call: on one CPU, on two, and where a search leaves them.
//!
//! The program is this benchmark itself, started again with [`PROGRAM`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_core::units::Cpu;
use corehop_linux::thread::set_affinity_of;
use serde_json::{Value, json};

use super::programs::{interrupt, only, placer, threads};
use crate::Fallible;
use crate::median::Median;
use crate::packages::Started;

/// The argument that makes the benchmark the program: `--swap=ITEMS,FILE`.
pub(crate) const PROGRAM: &str = "--swap=";
/// The sizes of the array.
const ITEMS: [u64; 5] = [10, 100, 800, 8_000, 100_000];
/// The time of a stretch in one placement.
const STRETCH: Duration = Duration::from_millis(500);
/// The time that a search is given.
const SEARCH: Duration = Duration::from_secs(14);
/// The program ends by itself after this, whatever becomes of the benchmark.
const MOST: Duration = Duration::from_mins(5);
/// The time between two writes of the count.
const TICK: Duration = Duration::from_millis(5);
/// Swaps between two counts.
const AT_ONCE: u64 = 64;

#[derive(Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Swaps until the end, and writes the number of swaps into a file.
pub(crate) fn run(argument: &str) -> Fallible<()> {
    let (items, file) = argument.split_once(',').ok_or("ITEMS,FILE")?;
    let items: u64 = items.parse()?;
    let words = || (0..items).map(|at| AtomicU32::new(at as u32)).collect::<Arc<[_]>>();
    let (array, locks) = (words(), words());
    locks.iter().for_each(|lock| lock.store(0, Ordering::Relaxed));
    let counts: Arc<[Count; 2]> = Arc::default();
    for thread in 0..2 {
        let (array, locks, counts) = (array.clone(), locks.clone(), counts.clone());
        let swap = move || loop {
            swaps(&array, &locks, &counts[thread].0, thread as u64 + 1);
        };
        std::thread::Builder::new().name(format!("swap-{thread}")).spawn(swap)?;
    }
    let (begun, new) = (Instant::now(), format!("{file}.new"));
    while begun.elapsed() < MOST {
        let done: u64 = counts.iter().map(|it| it.0.load(Ordering::Relaxed)).sum();
        std::fs::write(&new, done.to_string())?;
        std::fs::rename(&new, file)?;
        sleep(TICK);
    }
    Ok(())
}

/// Many swaps.
fn swaps(array: &[AtomicU32], locks: &[AtomicU32], count: &AtomicU64, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    for _ in 0..10_000 {
        for _ in 0..AT_ONCE {
            let one = below(array.len());
            let other = (one + 1 + below(array.len() - 1)) % array.len();
            let (low, high) = (one.min(other), one.max(other));
            lock(&locks[low]);
            lock(&locks[high]);
            let item = array[low].load(Ordering::Relaxed);
            array[low].store(array[high].load(Ordering::Relaxed), Ordering::Relaxed);
            array[high].store(item, Ordering::Relaxed);
            locks[high].store(0, Ordering::Release);
            locks[low].store(0, Ordering::Release);
        }
        count.fetch_add(AT_ONCE, Ordering::Relaxed);
    }
}

/// Takes a lock; who has looked for long lets others run.
fn lock(word: &AtomicU32) {
    let mut looks = 0;
    while word.swap(1, Ordering::Acquire) != 0 {
        looks += 1;
        if looks % 1_000 == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// The program under way.
struct Swap {
    process: Started,
    count: PathBuf,
    _folder: tempfile::TempDir,
}

impl Swap {
    fn begin(items: u64) -> Fallible<Self> {
        let folder = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let count = folder.path().join("count");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(format!("{PROGRAM}{items},{}", count.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Started::of(&mut command)?;
        let begun = Instant::now();
        while counted(&count).unwrap_or(0.0) <= 0.0 {
            if begun.elapsed() > Duration::from_secs(5) {
                return Err("the swaps do not begin".into());
            }
            sleep(TICK);
        }
        Ok(Self { process, count, _folder: folder })
    }

    /// The threads that swap.
    fn workers(&self) -> Vec<u32> {
        let pid = self.process.pid();
        let swaps = |tid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            name.is_ok_and(|name| name.starts_with("swap-"))
        };
        threads(pid).into_iter().filter(swaps).collect()
    }

    /// The rate with both threads on these CPUs, in swaps per second.
    fn on(&self, cpus: [Cpu; 2]) -> Fallible<f64> {
        for (tid, cpu) in self.workers().into_iter().zip(cpus) {
            set_affinity_of(tid.cast_signed(), only(cpu).iter())?;
        }
        sleep(STRETCH / 5);
        self.rate()
    }

    fn release(&self) -> Fallible<()> {
        let all = corehop_linux::thread::affinity()?;
        self.workers()
            .into_iter()
            .try_for_each(|tid| Ok(set_affinity_of(tid.cast_signed(), all.iter())?))
    }

    fn rate(&self) -> Fallible<f64> {
        let (begun, before) = (Instant::now(), counted(&self.count)?);
        sleep(STRETCH);
        Ok((counted(&self.count)? - before) / begun.elapsed().as_secs_f64())
    }

    /// The rate that a search comes to.
    fn placed(&self) -> Fallible<f64> {
        let progress = ["--search", "--progress"].map(OsStr::new);
        let options = [&progress[..], &[self.count.as_os_str()]].concat();
        let placer = placer(&[self.process.pid()], &options)?;
        sleep(SEARCH);
        let rates = (0..4).map(|_| self.rate()).collect::<Fallible<Vec<f64>>>();
        interrupt(placer)?;
        let rates = rates?;
        Ok(rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

fn counted(path: &Path) -> Fallible<f64> {
    Ok(std::fs::read_to_string(path)?.parse()?)
}

/// The figures: for each size the ratio of both static placements, and what of the better one a search comes to.
pub(crate) fn figures([a, b]: [Cpu; 2], blocks: usize) -> Fallible<Vec<Value>> {
    let mut figures = Vec::new();
    let mut right = 0;
    for items in ITEMS {
        let swap = Swap::begin(items)?;
        let (mut ratios, mut floors, mut of_best) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..blocks {
            let first = swap.on([a, b])?;
            let same = swap.on([a, a])?;
            let again = swap.on([a, b])?;
            let shared = f64::midpoint(first, again);
            swap.release()?;
            let placed = swap.placed()?;
            ratios.push(same / shared);
            floors.push((first / again).ln().abs());
            of_best.push(100.0 * placed / same.max(shared));
        }
        let (Some(ratio), Some(of_best)) = (Median::of(&ratios), Median::of(&of_best)) else {
            continue;
        };
        let floor = 100.0 * floors.iter().copied().fold(0.0, f64::max);
        // What the control alone differs by says nothing about a placement.
        let is_right = of_best.value >= 100.0 - floor.max(10.0);
        right += u32::from(is_right);
        let mut it = of_best.figure(&format!("place/swap-{items}-of-best-percent"), "%");
        it["same_over_shared"] = ratio.figure("", "ratio")["value"].clone();
        it["floor_percent"] = json!(floor);
        it["blocks"] = json!(blocks);
        figures.push(it);
    }
    let of = ITEMS.len();
    figures
        .push(json!({"name": "place/swap-faster-side", "value": right, "unit": "sizes", "of": of}));
    Ok(figures)
}
