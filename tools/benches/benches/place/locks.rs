// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that counting futex calls, or finished ones, adds to system calls: a thread makes the cheapest call there is,
//! counted and not, in turns.

use std::collections::BTreeMap;

use corehop_linux::bpf::sharing::WakeGraph;
use corehop_linux::counters::software::thread_cpu_time;
use corehop_linux::placing::LOCK_WINDOWS;
use corehop_plan::units::Cpu;
use corehop_system::thread::set_affinity;
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

/// The calls that are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Locks,
    Progress,
}

pub(crate) fn figures(cpu: Cpu) -> Fallible<Vec<Value>> {
    let before = corehop_system::thread::affinity()?;
    set_affinity([cpu])?;
    let graph = WakeGraph::open()?;
    let (mut figures, mut switches) = (Vec::new(), BTreeMap::new());
    graph.wish_calls(&[libc::SYS_getppid as u32]);
    for (name, what, call, followed) in [
        ("place/locks-call-ns", What::Locks, Call::Getppid, true),
        ("place/locks-call-of-others-ns", What::Locks, Call::Getppid, false),
        ("place/locks-futex-ns", What::Locks, Call::Wake, true),
        ("place/progress-call-ns", What::Progress, Call::Getppid, true),
        ("place/progress-call-of-others-ns", What::Progress, Call::Getppid, false),
    ] {
        if followed {
            graph.follow(std::process::id())?;
        } else {
            graph.leave(std::process::id());
        }
        let (mut added, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            let alone = call.ns();
            let begun = thread_cpu_time().get();
            let counting = match what {
                What::Locks => graph.count_locks()?,
                What::Progress => graph.count_calls()?,
            };
            let attached = thread_cpu_time().get() - begun;
            let counted = call.ns();
            let begun = thread_cpu_time().get();
            drop(counting);
            let switch = (attached + thread_cpu_time().get() - begun) as f64 * 1e-3;
            switches.entry(what).or_insert_with(Vec::new).push(switch);
            added.push(counted - f64::midpoint(alone, call.ns()));
            plain.push(alone);
            graph.take_words()?;
        }
        figures.extend(figure(name, what, &added, &plain));
    }
    set_affinity(before.iter())?;
    for (what, all) in switches {
        let name = match what {
            What::Locks => "place/locks-switch-us",
            What::Progress => "place/progress-switch-us",
        };
        figures.extend(Median::of(&all).map(|it| it.figure(name, "µs of CPU time")));
    }
    Ok(figures)
}

fn figure(name: &str, what: What, added: &[f64], plain: &[f64]) -> Option<Value> {
    let added = Median::of(added)?;
    let mut figure = added.figure(name, "ns");
    figure["uncounted_call_ns"] = json!(Median::of(plain)?.value);
    if what == What::Locks {
        // Attached in one window of so many.
        figure["at_default_rate_ns"] = json!(added.value / LOCK_WINDOWS as f64);
    }
    Some(figure)
}
