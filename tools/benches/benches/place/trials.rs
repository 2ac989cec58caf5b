// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program in blocks: left alone before and after, in both static placements, watched, left to a placer, and placed from
//! the worse of both.

use std::time::Duration;

use corehop_plan::units::Cpu;
use serde_json::{Value, json};

use super::placer::Placer;
use super::programs::Program;
use super::running::Running;
use super::watching;
use crate::median::Median;
use crate::packages::Packages;
use crate::{Fallible, pause};

/// The length of a stretch.
const STRETCH: Duration = Duration::from_millis(700);
/// From a change to the stretch after it.
const SETTLE: Duration = Duration::from_millis(100);
/// The time after which a placer is to have found the better side, from the one at which it is started.
const FOUND: Duration = Duration::from_millis(6500);

/// Blocks in which programs other than the servers with one connection are placed statically, and from the worse side.
const WITH_SIDES: usize = 2;

/// The rates of a block, in counts per second.
#[derive(Debug, Clone)]
struct Block {
    alone: [f64; 2],
    fixed: Option<Fixed>,
    /// The CPU time of a placer that moves nothing, in CPUs.
    watching: Option<f64>,
    left: Placed,
}

/// Rates that take two sides.
#[derive(Debug, Clone)]
struct Fixed {
    same: f64,
    separate: f64,
    /// From the worse of both.
    placed: Placed,
}

/// The rate that a placer comes to, and the one until then.
#[derive(Debug, Clone)]
struct Placed {
    rate: f64,
    trying: f64,
    /// Whether a placement was kept.
    kept: bool,
    /// Moves that the host refused.
    refused: usize,
}

impl Block {
    fn alone(&self) -> f64 {
        f64::midpoint(self.alone[0], self.alone[1])
    }

    /// The share of the rate alone that another one lacks, in percent.
    fn lacks(&self, rate: f64) -> f64 {
        100.0 * (1.0 - rate / self.alone())
    }
}

/// All figures of a program; `blocks` times everything.
pub(crate) fn figures(
    program: Program,
    packages: &Packages,
    cpus: [Cpu; 2],
    blocks: usize,
) -> Fallible<Vec<Value>> {
    let name = program.name();
    let running = match program.begin(packages, 1) {
        Ok(it) => it,
        Err(why) => {
            eprintln!("skipped: {name}: {why}");
            return Ok(Vec::new());
        }
    };
    let worst = program.has_sides().then(|| worst(&running, cpus)).transpose()?;
    let with_sides = if program.is_watched() { blocks } else { WITH_SIDES };
    let block = |at| {
        let worst = worst.as_deref().filter(|_| at < with_sides);
        block(program, &running, cpus, worst)
    };
    let all = (0..blocks).map(block).collect::<Fallible<Vec<Block>>>()?;
    let mut figures = of_blocks(&name, &all);
    if program.loses() {
        figures.extend(watching::loss(&name, &running, cpus)?);
    }
    for it in &mut figures {
        it["blocks"] = json!(blocks);
        if let Some(worst) = &worst {
            it["worst_start"] = json!(worst);
        }
    }
    Ok(figures)
}

fn of_blocks(name: &str, all: &[Block]) -> Vec<Value> {
    let of = |what: &str, unit: &str, value: &dyn Fn(&Block) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(value).collect();
        Median::of(&values).map(|it| it.figure(&format!("place/{name}-{what}"), unit))
    };
    let fixed = |what: &str, value: fn(&Fixed) -> f64| {
        of(what, "ratio", &|it| Some(value(it.fixed.as_ref()?) / it.alone()))
    };
    let figures = [
        of("floor", "ratio", &|it| Some(it.alone[1] / it.alone[0])),
        fixed("same-over-alone", |it| it.same),
        fixed("separate-over-alone", |it| it.separate),
        fixed("placed-over-alone", |it| it.placed.rate),
        of("live-of-best-percent", "%", &|trial| {
            let fixed = trial.fixed.as_ref()?;
            Some(100.0 * fixed.placed.rate / fixed.same.max(fixed.separate))
        }),
        of("cpu-percent", "%", &|it| Some(100.0 * it.watching?)),
        of("worse-than-alone-percent", "%", &|it| Some(it.lacks(it.left.rate)))
            .map(|it| explained(it, all)),
    ];
    figures.into_iter().flatten().collect()
}

/// The figures beside the loss under a placer: the least that could be seen, what trying cost, and what the placer did.
fn explained(mut figure: Value, all: &[Block]) -> Value {
    let floors: Vec<f64> = all.iter().map(|it| it.alone[1] / it.alone[0]).collect();
    if let Some(Median { low: Some(low), high: Some(high), .. }) = Median::of(&floors) {
        figure["floor"] = json!(100.0 * (1.0 - low).abs().max((high - 1.0).abs()));
    }
    let trying: Vec<f64> = all.iter().map(|it| it.lacks(it.left.trying)).collect();
    figure["while_trying"] = json!(Median::of(&trying).map(|it| it.value));
    figure["kept"] = json!(all.iter().filter(|it| it.left.kept).count());
    figure["refused"] = json!(all.iter().map(|it| it.left.refused).sum::<usize>());
    figure
}

fn block(
    program: Program,
    running: &Running,
    cpus: [Cpu; 2],
    worst: Option<&str>,
) -> Fallible<Block> {
    running.release()?;
    let before = settled(running)?;
    let sides = worst.map(|_| sides(running, cpus)).transpose()?;
    let watching = program.is_watched().then(|| watching::cpus(running)).transpose()?;
    let left = placed(running, &[])?;
    let after = settled(running)?;
    let fixed = sides.zip(worst).map(|([same, separate], worst)| {
        Ok(Fixed { same, separate, placed: placed(running, &["--start", worst])? })
    });
    let fixed = fixed.transpose().map_err(|error: Box<dyn std::error::Error>| error)?;
    Ok(Block { alone: [before, after], fixed, watching, left })
}

fn settled(running: &Running) -> Fallible<f64> {
    pause(SETTLE)?;
    running.rate(STRETCH)
}

/// The rates on one CPU, and with a side on each.
fn sides(running: &Running, [a, b]: [Cpu; 2]) -> Fallible<[f64; 2]> {
    running.on([a, a])?;
    let same = settled(running)?;
    running.on([a, b])?;
    let separate = settled(running)?;
    running.release()?;
    Ok([same, separate])
}

/// A placer beside the program. At its end every thread has its CPUs back.
fn placed(running: &Running, more: &[&str]) -> Fallible<Placed> {
    let placer = Placer::placing(running, more)?;
    let trying = running.rate(FOUND)?;
    let rate = running.rate(STRETCH)?;
    let answer = placer.end()?;
    running.is_free()?;
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let kept = list("trials").iter().any(|it| it["kept"] == true);
    Ok(Placed { rate, trying, kept, refused: list("refused").len() })
}

/// The start that is worse for this program.
fn worst(running: &Running, cpus: [Cpu; 2]) -> Fallible<String> {
    let [same, separate] = sides(running, cpus)?;
    let [a, b] = cpus.map(|cpu| cpu.0);
    Ok(if same < separate { a.to_string() } else { format!("{a},{b}") })
}
