// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that counting adds to a wake-up: two threads on one CPU hand a byte to and fro, counted and not, in turns.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use corehop_linux::bpf::sharing::WakeGraph;
use corehop_plan::units::Cpu;
use corehop_system::thread::set_affinity;
use serde_json::{Value, json};

use crate::Fallible;
use crate::median::Median;

const BLOCKS: usize = 41;
const TURNS: usize = 4_000;

/// A partner that sends every byte back until it is cut off.
struct Partner {
    to: PipeWriter,
    from: PipeReader,
    thread: JoinHandle<()>,
}

impl Partner {
    fn begin(cpu: Cpu) -> Fallible<Self> {
        let ((mut read, to), (from, mut write)) = (pipe()?, pipe()?);
        let thread = spawn(move || {
            set_affinity([cpu]).ok();
            let mut byte = [0];
            while read.read_exact(&mut byte).is_ok() && write.write_all(&byte).is_ok() {}
        });
        Ok(Self { to, from, thread })
    }

    /// Nanoseconds of a wake-up: there are two in a turn.
    fn wake_ns(&mut self) -> Fallible<f64> {
        let begun = Instant::now();
        for _ in 0..TURNS {
            self.to.write_all(&[0])?;
            self.from.read_exact(&mut [0])?;
        }
        Ok(begun.elapsed().as_secs_f64() * 1e9 / (2 * TURNS) as f64)
    }
}

pub(crate) fn figures(cpu: Cpu) -> Fallible<Vec<Value>> {
    let before = corehop_system::thread::affinity()?;
    set_affinity([cpu])?;
    let mut partner = Partner::begin(cpu)?;
    partner.wake_ns()?;
    let (mut added, mut plain, mut followed) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..BLOCKS {
        let alone = partner.wake_ns()?;
        let graph = WakeGraph::open()?;
        if block % 2 == 0 {
            graph.follow(std::process::id())?;
        }
        let counting = graph.count_wakes()?;
        let counted = partner.wake_ns()?;
        drop((counting, graph));
        let again = partner.wake_ns()?;
        let difference = counted - f64::midpoint(alone, again);
        if block % 2 == 0 {
            followed.push(difference);
        } else {
            added.push(difference);
        }
        plain.push(alone);
    }
    let Partner { to, from, thread } = partner;
    drop((to, from));
    thread.join().map_err(|_| "the partner failed")?;
    set_affinity(before.iter())?;
    let counted = [("place/wake-ns", followed), ("place/wake-of-others-ns", added)];
    Ok(counted.iter().filter_map(|(name, added)| figure(name, added, &plain)).collect())
}

fn figure(name: &str, added: &[f64], plain: &[f64]) -> Option<Value> {
    let mut figure = Median::of(added)?.figure(name, "ns");
    figure["uncounted_wake_ns"] = json!(Median::of(plain)?.value);
    Some(figure)
}
