// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two threads that swap items and make no system call: on one CPU, on two, and where a search leaves them.
//!
//! The program is this benchmark itself, started again with [`PROGRAM`].

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_plan::units::Cpu;
use serde_json::{Value, json};

use super::placer::Placer;
use super::running::{Count, Far, Running, silent};
use crate::median::Median;
use crate::packages::Started;
use crate::{Fallible, pause};

/// The argument that makes the benchmark the program: `--swap=DATA,ITEMS,FILE`.
pub(crate) const PROGRAM: &str = "--swap=";
/// The sizes of the array.
const ITEMS: [u64; 5] = [10, 100, 800, 8_000, 100_000];
/// The time of a stretch in one placement.
const STRETCH: Duration = Duration::from_millis(500);
/// The time that a search is given.
const SEARCH: Duration = Duration::from_secs(14);
/// The percentage of the faster side from which on that side was taken.
const TAKEN: f64 = 90.0;
/// The program ends by itself after this, whatever becomes of the benchmark.
const MOST: Duration = Duration::from_mins(5);
/// The time between two writes of the count.
const TICK: Duration = Duration::from_millis(5);
/// Swaps between two counts.
const AT_ONCE: u64 = 64;

/// The items that both threads swap, or each has its own: nothing is shared then.
pub(crate) const SHARED: &str = "shared";
pub(crate) const OWN: &str = "own";

/// Swaps of a thread.
#[derive(Default)]
#[repr(align(64))]
struct Swaps(AtomicU64);

/// Items, and a lock for each.
type Items = Arc<[[AtomicU32; 2]]>;

/// Swaps until the end, and writes the number of swaps into a file.
pub(crate) fn run(argument: &str) -> Fallible<()> {
    let words: Vec<&str> = argument.splitn(3, ',').collect();
    let &[data, items, file] = &words[..] else { return Err("DATA,ITEMS,FILE".into()) };
    let items: u32 = items.parse()?;
    let new = || (0..items).map(|at| [at.into(), 0.into()]).collect::<Items>();
    let shared = new();
    let counts: Arc<[Swaps; 2]> = Arc::default();
    for thread in 0..2 {
        let items = if data == OWN { new() } else { shared.clone() };
        let counts = counts.clone();
        let swap = move || loop {
            swaps(&items, &counts[thread].0, thread as u64 + 1);
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
fn swaps(items: &[[AtomicU32; 2]], count: &AtomicU64, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    for _ in 0..10_000 {
        for _ in 0..AT_ONCE {
            let one = below(items.len());
            let other = (one + 1 + below(items.len() - 1)) % items.len();
            let [[low, low_lock], [high, high_lock]] =
                [&items[one.min(other)], &items[one.max(other)]];
            lock(low_lock);
            lock(high_lock);
            let item = low.load(Ordering::Relaxed);
            low.store(high.load(Ordering::Relaxed), Ordering::Relaxed);
            high.store(item, Ordering::Relaxed);
            high_lock.store(0, Ordering::Release);
            low_lock.store(0, Ordering::Release);
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
pub(crate) fn begin(data: &str, items: u64) -> Fallible<Running> {
    let folder = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
    let count = folder.path().join("count");
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("{PROGRAM}{data},{items},{}", count.display()));
    let process = Started::of(silent(&mut command))?;
    Running::begin(vec![process], Far::Named("swap-1"), Count::File(count), folder)
}

/// The rate with the threads on these CPUs, in swaps per second.
fn on(swap: &Running, cpus: [Cpu; 2]) -> Fallible<f64> {
    swap.on(cpus)?;
    pause(STRETCH / 5)?;
    swap.rate(STRETCH)
}

/// The rate that a search comes to.
fn placed(swap: &Running) -> Fallible<f64> {
    let placer = Placer::placing(swap, &["--search"])?;
    pause(SEARCH)?;
    let rate = swap.rate(4 * STRETCH)?;
    placer.end()?;
    Ok(rate)
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// The logarithm of the largest over the smallest.
fn spread(rates: &[f64]) -> f64 {
    let most = rates.iter().copied().fold(f64::MIN, f64::max);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    (most / least).ln()
}

/// The figures: for each size the ratio of both static placements, and what of the better one a search comes to.
pub(crate) fn figures([a, b]: [Cpu; 2], blocks: usize) -> Fallible<Vec<Value>> {
    let mut figures = Vec::new();
    let (mut right, mut apart) = (0, 0);
    for items in ITEMS {
        let swap = begin(SHARED, items)?;
        let (mut ratios, mut of_best) = (Vec::new(), Vec::new());
        let (mut shared, mut same) = (Vec::new(), Vec::new());
        for _ in 0..blocks {
            let at = shared.len();
            shared.push(on(&swap, [a, b])?);
            same.push(on(&swap, [a, a])?);
            shared.push(on(&swap, [a, b])?);
            swap.release()?;
            let placed = placed(&swap)?;
            // The host may have moved its CPUs meanwhile.
            shared.push(on(&swap, [a, b])?);
            same.push(on(&swap, [a, a])?);
            let [apart, together] = [mean(&shared[at..]), mean(&same[at / 3 * 2..])];
            ratios.push(together / apart);
            of_best.push(100.0 * placed / together.max(apart));
        }
        let (Some(ratio), Some(of_best)) = (Median::of(&ratios), Median::of(&of_best)) else {
            continue;
        };
        // What a side alone differs by, from one look to another, says nothing about a placement.
        let floor = spread(&shared).max(spread(&same));
        let is_apart = ratio.value.ln().abs() > floor;
        right += u32::from(!is_apart || of_best.value >= TAKEN);
        apart += u32::from(is_apart);
        let mut it = of_best.figure(&format!("place/swap-{items}-of-best-percent"), "%");
        it["same_over_shared"] = ratio.figure("", "ratio")["value"].clone();
        it["floor_percent"] = json!(100.0 * floor.exp_m1());
        it["told_apart"] = json!(is_apart);
        it["blocks"] = json!(blocks);
        figures.push(it);
    }
    let of = ITEMS.len();
    figures.push(json!({
        "name": "place/swap-faster-side", "value": right, "unit": "sizes", "of": of, "told_apart": apart,
    }));
    Ok(figures)
}
