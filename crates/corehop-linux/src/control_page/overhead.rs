// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the cost of detection. Two threads exchange a byte through pipes on one CPU: without control pages, with
//! control pages, and registered with control pages.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use corehop_plan::samples::ControlPageCost;
use corehop_plan::units::Cpu;

use crate::bpf::RunTimeStatistics;
use crate::bpf::control::ControlPages;
use corehop_system::thread::set_affinity;

/// The number of hand-overs per pass; each hand-over is two switches.
const ROUNDS: u32 = 2_000;

/// Measures the cost of the control pages for thread switches on `cpu`, with `goes` passes of each kind, each a few
/// milliseconds long.
///
/// # Errors
/// Fails if pipes or threads are not available, or with the error of the control pages.
pub fn overhead(
    cpu: Cpu,
    goes: u32,
    open: impl Fn() -> Result<Arc<ControlPages>, crate::bpf::BpfError>,
) -> Result<ControlPageCost, Box<dyn std::error::Error + Send + Sync>> {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..goes.max(1) {
        best[0] = best[0].min(ping_pong(cpu, None, ROUNDS)?);
        let pages = open()?;
        best[1] = best[1].min(ping_pong(cpu, None, ROUNDS)?);
        best[2] = best[2].min(ping_pong(cpu, Some(&pages), ROUNDS)?);
    }
    let [none_ns, unregistered_ns, registered_ns] = best;
    let program_ns = program_time(cpu, &open()?).ok();
    Ok(ControlPageCost { none_ns, unregistered_ns, registered_ns, program_ns, goes })
}

/// The additional time of a switch while threads are followed, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Longer {
    /// The additional time of a switch between followed threads.
    pub registered_ns: f64,
    /// The additional time of a switch between threads that are not followed.
    pub unregistered_ns: f64,
}

/// The number of passes of each kind after a recording, which take some 60 ms together.
const SHORT_GOES: u32 = 8;
const SHORT_ROUNDS: u32 = 400;

/// Measures by how much the pages that followed a program lengthen thread switches on `cpu`. The call removes the
/// pages, because the measurement without pages comes last.
///
/// # Errors
/// Fails if pipes or threads are not available, or the threads cannot be registered.
pub fn following(
    cpu: Cpu,
    pages: Arc<ControlPages>,
) -> Result<Longer, Box<dyn std::error::Error + Send + Sync>> {
    let best = |pages: Option<&Arc<ControlPages>>| {
        let mut goes = (0..SHORT_GOES).map(|_| ping_pong(cpu, pages, SHORT_ROUNDS));
        goes.try_fold(f64::INFINITY, |best, go| go.map(|ns| best.min(ns)))
    };
    let (registered_ns, unregistered_ns) = (best(Some(&pages))?, best(None)?);
    drop(pages);
    let none_ns = best(None)?;
    let longer = |ns: f64| (ns - none_ns).max(0.0);
    Ok(Longer { registered_ns: longer(registered_ns), unregistered_ns: longer(unregistered_ns) })
}

/// The run time of the BPF program on `sched_switch`, per run, while registered threads switch.
fn program_time(
    cpu: Cpu,
    pages: &Arc<ControlPages>,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let _counting = RunTimeStatistics::begin()?;
    let totals = || -> io::Result<(u64, u64)> {
        let programs = pages.programs()?;
        let switch = programs.iter().find(|(name, _)| *name == "sched_switch");
        Ok(switch.map_or((0, 0), |(_, info)| (info.run_time_ns, info.runs)))
    };
    let before = totals()?;
    ping_pong(cpu, Some(pages), ROUNDS)?;
    let after = totals()?;
    Ok((after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64)
}

/// The duration of a switch, in nanoseconds.
fn ping_pong(
    cpu: Cpu,
    pages: Option<&Arc<ControlPages>>,
    rounds: u32,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let (mut from_there, mut to_here) = io::pipe()?;
    let (mut from_here, mut to_there) = io::pipe()?;
    let echo = move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        set_affinity([cpu])?;
        let _page = pages.map(ControlPages::register).transpose()?;
        let mut byte = [0];
        while from_here.read(&mut byte)? == 1 {
            to_here.write_all(&byte)?;
        }
        Ok(())
    };
    let drive = move || -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
        set_affinity([cpu])?;
        let _page = pages.map(ControlPages::register).transpose()?;
        let mut byte = [0];
        let mut hand_over = |rounds: u32| -> io::Result<()> {
            for _ in 0..rounds {
                to_there.write_all(&byte)?;
                from_there.read_exact(&mut byte)?;
            }
            Ok(())
        };
        hand_over(100)?;
        let begin = Instant::now();
        hand_over(rounds)?;
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(2 * rounds))
    };
    std::thread::scope(|scope| {
        let start = std::thread::Builder::new;
        // A thread that does not start drops its ends of the pipes, so that the other thread ends.
        let echo = start().spawn_scoped(scope, echo)?;
        let drive = start().spawn_scoped(scope, drive)?;
        let took = drive.join().map_err(|_| "the thread that hands over died")?;
        echo.join().map_err(|_| "the thread that answers died")??;
        took
    })
}
