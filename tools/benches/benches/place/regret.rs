// SPDX-License-Identifier: MIT OR Apache-2.0
//! No regret: what a program gets done beside a placer, from the kernel's own start, against the same program left alone and in
//! both static placements; on a quiet host, and beside one and two programs that fill a CPU.
//!
//! Each arm of a block starts the program anew, and the order of the arms changes from block to block. A block is a line of JSON, so that
//! a run that is interrupted goes on where it was.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use corehop_plan::units::Cpu;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::placer::Placer;
use super::programs::Program;
use super::running::{Running, silent};
use crate::median::Median;
use crate::packages::{Packages, Started};
use crate::{Fallible, pause};

/// The stretch in which a placer may cost, and the last part of it, in which it is to have paid.
const FIRST: Duration = Duration::from_secs(20);
const LAST: Duration = Duration::from_secs(10);
/// From a static placement to its stretch.
const SETTLE: Duration = Duration::from_millis(200);
/// A best static placement that gains less is no reason to move.
const WORTH: f64 = 1.1;

/// The programs that fill CPUs meanwhile.
const COMPANY: [(&str, usize); 3] = [("quiet", 0), ("one-hog", 1), ("two-hogs", 2)];

/// The rates of a block, in counts per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the name of its column")]
struct Block {
    program: String,
    company: String,
    block: usize,
    /// Left alone: over all of it, and in its last part.
    alone: [f64; 2],
    /// Beside a placer, likewise.
    placed: [f64; 2],
    /// On one CPU, and with a side on each.
    fixed: [f64; 2],
    /// Whether the placer kept a placement.
    kept: bool,
    /// The load of the host, of one minute, when the block began.
    load: f64,
}

/// An arm of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Alone,
    Placed,
    Same,
    Separate,
}

/// All figures of these programs; blocks that the file has are not run again.
pub(crate) fn figures(
    programs: &[Program],
    packages: &Packages,
    cpus: [Cpu; 2],
    (blocks, rows): (usize, &Path),
) -> Fallible<Vec<Value>> {
    let mut all = read(rows)?;
    for block in 0..blocks {
        for program in programs {
            for (company, hogs) in COMPANY {
                let name = program.name();
                let is_it =
                    |it: &Block| (&*it.program, &*it.company, it.block) == (&name, company, block);
                if all.iter().any(is_it) {
                    continue;
                }
                match run(*program, packages, cpus, (company, hogs, block)) {
                    Ok(new) => {
                        append(rows, &new)?;
                        all.push(new);
                    }
                    Err(why) if corehop_system::supervisor::interrupt::requested() => {
                        return Err(why);
                    }
                    Err(why) => eprintln!("skipped: {name}, {company}: {why}"),
                }
            }
        }
    }
    Ok(of_blocks(&all))
}

/// The blocks of a file; none where there is no file.
fn read(rows: &Path) -> Fallible<Vec<Block>> {
    let text = match std::fs::read_to_string(rows) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    // The last line of an interrupted run may be torn.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn append(rows: &Path, block: &Block) -> Fallible<()> {
    if let Some(folder) = rows.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(rows)?;
    writeln!(file, "{}", serde_json::to_string(block)?)?;
    Ok(())
}

fn run(
    program: Program,
    packages: &Packages,
    cpus: [Cpu; 2],
    (company, hogs, block): (&str, usize, usize),
) -> Fallible<Block> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(f64::NAN);
    let _hogs = (0..hogs).map(|_| hog()).collect::<Fallible<Vec<_>>>()?;
    let mut new = Block {
        program: program.name(),
        company: company.to_owned(),
        block,
        alone: [f64::NAN; 2],
        placed: [f64::NAN; 2],
        fixed: [f64::NAN; 2],
        kept: false,
        load,
    };
    let mut arms = [Arm::Alone, Arm::Placed, Arm::Same, Arm::Separate];
    arms.rotate_left(block % 4);
    for arm in arms {
        let running = program.begin(packages, 1)?;
        match arm {
            Arm::Alone => new.alone = rates(&running)?,
            Arm::Placed => (new.placed, new.kept) = placed(&running)?,
            Arm::Same => new.fixed[0] = fixed(&running, [cpus[0]; 2])?,
            Arm::Separate => new.fixed[1] = fixed(&running, cpus)?,
        }
    }
    Ok(new)
}

/// A program that fills a CPU.
fn hog() -> Fallible<Started> {
    let mut command = Command::new("sh");
    Started::of(silent(command.args(["-c", "while :; do :; done"])))
}

/// The rate over all of the time, and in its last part.
fn rates(running: &Running) -> Fallible<[f64; 2]> {
    let (first, last) = (running.rate(FIRST)?, running.rate(LAST)?);
    let [a, b] = [FIRST, LAST].map(|it| it.as_secs_f64());
    Ok([(a * first + b * last) / (a + b), last])
}

fn placed(running: &Running) -> Fallible<([f64; 2], bool)> {
    let placer = Placer::placing(running, &[])?;
    let rates = rates(running)?;
    let answer = placer.end()?;
    running.is_free()?;
    let trials = answer["trials"].as_array().map_or(&[][..], Vec::as_slice);
    Ok((rates, trials.last().is_some_and(|it| it["kept"] == true)))
}

fn fixed(running: &Running, cpus: [Cpu; 2]) -> Fallible<f64> {
    running.on(cpus)?;
    pause(SETTLE)?;
    running.rate(LAST)
}

/// The figures of each program and company, and those over all.
fn of_blocks(all: &[Block]) -> Vec<Value> {
    let mut cases: Vec<(&str, &str)> = all.iter().map(|it| (&*it.program, &*it.company)).collect();
    cases.sort_unstable();
    cases.dedup();
    let mut figures = Vec::new();
    let (mut right, mut wrongly_kept) = (0, 0);
    for (program, company) in &cases {
        let blocks: Vec<&Block> =
            all.iter().filter(|it| (&*it.program, &*it.company) == (program, company)).collect();
        let of = |what: &str, value: fn(&Block) -> f64| {
            let values: Vec<f64> = blocks.iter().map(|it| value(it)).collect();
            let median = Median::of(&values)?;
            let mut figure = median.figure(&format!("place/{program}-{company}-{what}"), "%");
            figure["blocks"] = json!(blocks.len());
            figure["kept"] = json!(blocks.iter().filter(|it| it.kept).count());
            figure["load"] = json!(blocks.iter().map(|it| it.load).fold(0.0, f64::max));
            Some(figure)
        };
        figures.extend(of("regret-percent", |it| 100.0 * (1.0 - it.placed[0] / it.alone[0])));
        figures.extend(of("of-best-percent", |it| 100.0 * it.placed[1] / it.best()));
        right += usize::from(is_right(&blocks));
        wrongly_kept += usize::from(is_wrongly_kept(&blocks));
    }
    let worst = |what: &str, key: fn(&Value) -> f64| {
        let of =
            figures.iter().filter(|it| it["name"].as_str().is_some_and(|it| it.ends_with(what)));
        let worst = of.max_by(|x, y| key(x).total_cmp(&key(y)))?;
        let mut figure = worst.clone();
        figure["of"] = worst["name"].clone();
        figure["name"] = json!(format!("place/{}", what.trim_start_matches('-')));
        figure["cases"] = json!(cases.len());
        Some(figure)
    };
    let value = |it: &Value| it["value"].as_f64().unwrap_or(f64::NAN);
    let over = [
        worst("-regret-percent", value),
        worst("-of-best-percent", |it| -it["value"].as_f64().unwrap_or(f64::NAN)),
        Some(json!({
            "name": "place/right-verdicts", "value": right, "unit": "cases", "cases": cases.len(),
            "wrongly_kept": wrongly_kept,
        })),
    ];
    let over: Vec<Value> = over.into_iter().flatten().collect();
    figures.extend(over);
    figures
}

impl Block {
    /// The best of what was not the placer's, in the last part.
    fn best(&self) -> f64 {
        self.fixed.into_iter().fold(self.alone[1], f64::max)
    }
}

fn median(blocks: &[&Block], value: impl Fn(&Block) -> f64) -> Option<Median> {
    Median::of(&blocks.iter().map(|it| value(it)).collect::<Vec<_>>())
}

fn mostly_kept(blocks: &[&Block]) -> bool {
    2 * blocks.iter().filter(|it| it.kept).count() > blocks.len()
}

/// Whether what most blocks came to is what the static placements say: kept where that is no slower than alone, and not where
/// nothing gains a tenth.
fn is_right(blocks: &[&Block]) -> bool {
    let ratio = |it: &Block| it.placed[1] / it.alone[1];
    let gain = median(blocks, |it| it.best() / it.alone[1]).map_or(1.0, |it| it.value);
    if mostly_kept(blocks) {
        median(blocks, ratio).is_some_and(|it| it.value >= 1.0)
    } else {
        gain < WORTH
    }
}

/// Whether a placement was kept that is slower than leaving alone, beyond doubt.
fn is_wrongly_kept(blocks: &[&Block]) -> bool {
    let slower = median(blocks, |it| it.placed[1] / it.alone[1]);
    mostly_kept(blocks) && slower.and_then(|it| it.high).is_some_and(|it| it < 1.0)
}
