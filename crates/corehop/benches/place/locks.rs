// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that counting futex calls adds to system calls: a thread makes the cheapest call there is, counted and not, in
//! turns.

use std::time::Instant;

use corehop_core::units::Cpu;
use corehop_linux::bpf::sharing::WakeGraph;
use corehop_linux::counters::software::thread_cpu_time;
use corehop_linux::placing::LOCK_WINDOWS;
use corehop_linux::thread::set_affinity;
use serde_json::{Value, json};

use crate::Fallible;
use crate::median::Median;

const BLOCKS: usize = 41;
const CALLS: u32 = 40_000;

/// The calls that are timed.
#[derive(Clone, Copy)]
enum Call {
    /// Its number alone.
    Getppid,
    /// A wake-up of no thread, at a word of this process.
    Wake,
}

impl Call {
    /// Nanoseconds of the CPU's time for one: other programs may have it in between.
    fn ns(self) -> f64 {
        let word = 0_u32;
        let begun = thread_cpu_time().get();
        for _ in 0..CALLS {
            // SAFETY: neither changes memory; the word outlives the call.
            unsafe {
                match self {
                    Self::Getppid => libc::syscall(libc::SYS_getppid),
                    Self::Wake => libc::syscall(libc::SYS_futex, &raw const word, 129, 1),
                };
            }
        }
        (thread_cpu_time().get() - begun) as f64 / f64::from(CALLS)
    }
}

pub(crate) fn figures(cpu: Cpu) -> Fallible<Vec<Value>> {
    let before = corehop_linux::thread::affinity()?;
    set_affinity([cpu])?;
    let graph = WakeGraph::open()?;
    let (mut figures, mut switches) = (Vec::new(), Vec::new());
    for (name, call, followed) in [
        ("place/locks-call-ns", Call::Getppid, true),
        ("place/locks-call-of-others-ns", Call::Getppid, false),
        ("place/locks-futex-ns", Call::Wake, true),
    ] {
        if followed {
            graph.follow(std::process::id())?;
        } else {
            graph.leave(std::process::id());
        }
        let (mut added, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            let alone = call.ns();
            let begun = Instant::now();
            let counting = graph.count_locks()?;
            let attached = begun.elapsed();
            let counted = call.ns();
            let begun = Instant::now();
            drop(counting);
            switches.push((attached + begun.elapsed()).as_secs_f64() * 1e6);
            added.push(counted - f64::midpoint(alone, call.ns()));
            plain.push(alone);
            graph.take_words()?;
        }
        figures.extend(figure(name, &added, &plain));
    }
    set_affinity(before.iter())?;
    figures.extend(Median::of(&switches).map(|it| it.figure("place/locks-switch-us", "µs")));
    Ok(figures)
}

fn figure(name: &str, added: &[f64], plain: &[f64]) -> Option<Value> {
    let added = Median::of(added)?;
    let mut figure = added.figure(name, "ns");
    figure["uncounted_call_ns"] = json!(Median::of(plain)?.value);
    // Attached in one window of so many.
    figure["at_default_rate_ns"] = json!(added.value / LOCK_WINDOWS as f64);
    Some(figure)
}
