// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of watching once the graph is known: what a program loses, in turns of two seconds with and without it, and the CPU time of
//! the placer. A turn has each kind of window as often as it comes.
//!
//! The kernel moves a program that is left to it, and its rate changes by tens of percent. So it is bound here: to one CPU,
//! where all that is added to a wake-up takes time from it, and to two.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use corehop_decide::placer::terrain::{Terrain, WakeCosts};
use corehop_decide::placer::{Placer as Decision, Settings};
use corehop_linux::placing::{PAGE_FAULTS, PlacerSettings, PlacingHost};
use corehop_plan::experiment::Target;
use corehop_plan::host::{Evidence, Host as _};
use corehop_plan::platform::Platform;
use corehop_plan::units::Cpu;
use corehop_system::discover::{SysRoot, discover};
use serde_json::{Value, json};

use super::placer::Placer;
use super::running::Running;
use crate::median::Median;
use crate::{Fallible, pause};

/// A turn, and the time before it.
const TURN: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(30);
/// Turns with watching on each side.
const TURNS: usize = 20;
/// Looks before a turn: those in which every wake-up is counted.
const FIRST: u32 = 21;
/// The default of `corehop place`.
const WINDOW: Duration = Duration::from_millis(100);
/// A placer first measures what a wake-up costs.
const BEGIN: Duration = Duration::from_millis(1500);
/// The time in which CPU time is counted.
const COUNTED: Duration = Duration::from_millis(1400);

/// The CPU time of `corehop place --dry-run` beside the program, in CPUs.
pub(crate) fn cpus(running: &Running) -> Fallible<f64> {
    let placer = Placer::watching(running)?;
    pause(BEGIN)?;
    let before = placer.cpu_s()?;
    pause(COUNTED)?;
    let cpus = (placer.cpu_s()? - before) / COUNTED.as_secs_f64();
    placer.end()?;
    Ok(cpus)
}

/// The loss on the side where it is larger, with the other one beside it.
pub(crate) fn loss(name: &str, running: &Running, [a, b]: [Cpu; 2]) -> Fallible<Option<Value>> {
    let platform = discover(&SysRoot::live())?;
    let mut sides = Vec::new();
    for (side, cpus) in [("same", [a, a]), ("separate", [a, b])] {
        running.on(cpus)?;
        sides.extend(of_side(running, &platform)?.map(|it| (side, it)));
    }
    running.release()?;
    sides.sort_by(|(_, x), (_, y)| y.value.total_cmp(&x.value));
    let Some(&(side, loss)) = sides.first() else { return Ok(None) };
    let mut figure = loss.figure(&format!("place/{name}-loss-percent"), "%");
    figure["side"] = json!(side);
    for (side, it) in &sides[1..] {
        figure[*side] = json!([it.value, it.low, it.high]);
    }
    figure["turns"] = json!(TURNS);
    Ok(Some(figure))
}

/// The share of the rate between two turns without watching that a turn with it lacks, in percent.
fn of_side(running: &Running, platform: &Platform) -> Fallible<Option<Median>> {
    let turn = || {
        pause(SETTLE)?;
        running.rate(TURN)
    };
    let mut losses = Vec::new();
    let mut before = turn()?;
    for _ in 0..TURNS {
        let with = watched(running, platform, turn)?;
        let after = turn()?;
        losses.push(100.0 * (1.0 - with / f64::midpoint(before, after)));
        before = after;
    }
    Ok(Median::of(&losses))
}

/// Does something while the program is watched as `corehop place --dry-run` does it.
fn watched<T>(
    running: &Running,
    platform: &Platform,
    during: impl FnOnce() -> Fallible<T>,
) -> Fallible<T> {
    let targets: Vec<Target> = running.pids().into_iter().map(Target::Process).collect();
    let wishes = PlacerSettings {
        platform,
        progress: None,
        evidence: &[Evidence::Wakes],
        page_faults: PAGE_FAULTS,
        search: false,
        moves: false,
        to_stderr: false,
    };
    // Measuring them takes longer than a turn; nothing is decided by them here.
    let costs = WakeCosts { same_cpu_ns: 2e3, shared_cache_ns: 4e3, separate_ns: 4e3 };
    let end = AtomicBool::new(false);
    let watch = |ready: &mpsc::Sender<()>| -> Result<(), String> {
        let mut host = PlacingHost::begin(&targets, wishes).map_err(|it| it.to_string())?;
        let mut decision = Decision::new(Settings::default(), Terrain::of(platform, costs));
        let mut window = |length| -> Result<(), String> {
            let window = host.observe(length).map_err(|it| it.to_string())?;
            window.activity.map(|it| decision.step(&it));
            Ok(())
        };
        // The first looks meet new threads, and take longer.
        (0..FIRST).try_for_each(|_| window(WINDOW / 4))?;
        ready.send(()).ok();
        while !end.load(Ordering::Relaxed) {
            window(WINDOW)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let (ready, begun) = mpsc::channel();
        let watcher = scope.spawn(move || watch(&ready));
        // It hangs up where it could not begin.
        let result = begun.recv().map_err(Into::into).and_then(|()| during());
        end.store(true, Ordering::Relaxed);
        watcher.join().map_err(|_| "watching panicked")??;
        result
    })
}
