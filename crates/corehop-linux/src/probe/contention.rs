// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects CPUs that share a core: multiplications slow each other down only on a shared
//! multiplier.
//!
//! One thread times short intervals of independent multiplications, first alone, then while another
//! CPU multiplies without pause. Only intervals in which the other thread demonstrably ran count.
//! The shortest of them is compared with the shortest interval alone, because other activity
//! lengthens some intervals but not all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::Contention;
use corehop_plan::units::Cpu;

use super::{ProbeError, joined, on_cpu, pin};
use corehop_system::clock::{Ticks, now};

/// The number of rounds of eight multiplications in an interval: some microseconds.
const SPELL: u64 = 1_000;
/// The number of intervals alone.
const ALONE: u32 = 1_000;
/// The number of common intervals that count, and the number of attempts for them.
const TOGETHER: usize = 500;
const TRIES: u32 = 20_000;

/// Measures the slowdown of all pairs that are to be measured.
pub(super) fn all(
    platform: &Platform,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Contention>, ProbeError> {
    let pairs = platform.contention_pairs();
    let mut contentions = Vec::new();
    for (place, &(from, to)) in pairs.iter().enumerate() {
        progress(&format!("contention, pair {} of {}", place + 1, pairs.len()));
        let slowdown = slowdown(from, to)?;
        contentions.extend(slowdown.map(|slowdown| Contention { from, to, slowdown }));
    }
    Ok(contentions)
}

/// The shortest common interval divided by the shortest interval alone; `None` if the two threads
/// hardly ran simultaneously.
fn slowdown(from: Cpu, to: Cpu) -> Result<Option<f64>, ProbeError> {
    on_cpu(from, || {
        let alone = (0..ALONE).map(|_| spell()).min().unwrap_or(Ticks::MAX);
        let (over, spells) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || {
                pin(to)?;
                while !over.load(Ordering::Relaxed) {
                    multiply(SPELL / 8);
                    spells.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
            let together = together(&spells);
            over.store(true, Ordering::Relaxed);
            joined(other).map(|()| together.map(|together| together as f64 / alone as f64))
        })
    })
}

/// The shortest interval during which the other thread completed at least half as much work, so
/// that it ran nearly all the time.
fn together(spells: &AtomicU64) -> Option<Ticks> {
    let mut counted = Vec::new();
    for _ in 0..TRIES {
        let before = spells.load(Ordering::Relaxed);
        let ticks = spell();
        if spells.load(Ordering::Relaxed) - before >= 4 {
            counted.push(ticks);
        }
        if counted.len() >= TOGETHER {
            break;
        }
    }
    // A handful could be those at whose end the other one had just started.
    (counted.len() >= TOGETHER / 10).then(|| counted.into_iter().min())?
}

/// Measures the ticks of one interval of multiplications.
fn spell() -> Ticks {
    let began = now();
    multiply(SPELL);
    now() - began
}

/// Executes rounds of eight independent multiplications, as many as the core can do.
fn multiply(rounds: u64) {
    // SAFETY: computes in registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            "imul {a}, {a}",
            "imul {b}, {b}",
            "imul {c}, {c}",
            "imul {d}, {d}",
            "imul {e}, {e}",
            "imul {f}, {f}",
            "imul {g}, {g}",
            "imul {h}, {h}",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) 3_u64 => _,
            b = inout(reg) 5_u64 => _,
            c = inout(reg) 7_u64 => _,
            d = inout(reg) 9_u64 => _,
            e = inout(reg) 11_u64 => _,
            f = inout(reg) 13_u64 => _,
            g = inout(reg) 15_u64 => _,
            h = inout(reg) 17_u64 => _,
            n = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_of_twice_the_work_takes_about_twice_as_long() {
        let time = |rounds: u64| {
            let began = now();
            multiply(rounds);
            now() - began
        };
        // In turns, so that a change of the clock rate meets both.
        let both = |_| [time(1_000), time(2_000)];
        let spells: Vec<[u64; 2]> = (0..4_000).map(both).collect();
        let [once, twice] = [0, 1].map(|at| spells.iter().map(|it| it[at]).min().unwrap() as f64);
        let ratio = twice / once;
        assert!((1.4..2.8).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_named() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let error = slowdown(cpu, Cpu(1000)).unwrap_err();
        assert!(matches!(error, ProbeError::Pin { cpu: Cpu(1000), .. }));
    }
}
