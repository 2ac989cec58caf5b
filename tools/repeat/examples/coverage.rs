// SPDX-License-Identifier: MIT OR Apache-2.0
//! The coverage of 95 % intervals over replicates, in synthetic experiments with a known truth.
//!
//! Prints Markdown tables: one row for each design and number of samples per replicate, one column for each number
//! of replicates. If some experiments have no interval, brackets show the share of experiments with an interval; a
//! dash means that fewer than one in twenty has an interval. With 300 experiments, which take about a minute, the
//! standard error of a figure is 1.3 points; with 2,000 experiments the error is 0.5 points.
//!
//! ```console
//! $ cargo run --release -p corehop-repeat --example coverage -- 2000
//! $ cargo run --release -p corehop-repeat --example coverage -- quick 200 4096
//! ```
//!
//! The second form uses the cells of the preset `quick` on a simulated machine. Its arguments are the number of
//! runs, each with ten replicates, and the largest working set in KiB. The truth comes from all replicates
//! together.

#![allow(clippy::print_stdout)] // a program that prints

#[path = "quick_cells/mod.rs"]
mod quick_cells;

use std::error::Error;

use corehop_fixtures::designs::{Design, ReplicateCourse, SeededSource, StandardLaw};
use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_stats::cell::CellKey;
use corehop_stats::ordered::{BadInput, Ordered};
use corehop_stats::quantile;
use corehop_stats::replicates::{Nested, ReplicateStatistic, median_difference};
use quick_cells::{QuickRuns, coverage};
use rayon::prelude::*;

const REPLICATES: [usize; 7] = [6, 7, 8, 10, 12, 20, 50];
const SAMPLES: [usize; 4] = [5, 20, 100, 500];
const EXPERIMENTS: usize = 300;
const REPLICATES_FOR_TRUTH: usize = 20_000;

/// A statistic and its true value, computed from many replicates, each from its own run.
struct CoverageStatistic {
    name: &'static str,
    of: fn(&Nested) -> Result<ReplicateStatistic, BadInput>,
    truth: fn(&[Vec<f64>]) -> Result<f64, BadInput>,
}

const STATISTICS: [CoverageStatistic; 3] = [
    CoverageStatistic {
        name: "Median",
        of: |cell| cell.median(0.05),
        truth: |many| middle(many, 0.5),
    },
    CoverageStatistic { name: "Mean", of: |cell| cell.mean(0.05), truth: |many| Ok(mean(many)) },
    CoverageStatistic {
        name: "Quantile 0.95",
        of: |cell| cell.quantile(0.95, 0.05),
        truth: |many| {
            // Of five samples no replicate carries it: there it is that of all samples.
            let pooled = many[0].len() < 20;
            if pooled { of(&many.concat(), 0.95) } else { middle(many, 0.95) }
        },
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("quick") {
        return quick();
    }
    Ok(laws()?)
}

/// Prints the coverage for the cells of `quick` on the simulated machine.
fn quick() -> Result<(), Box<dyn Error>> {
    let number = |at, usual| std::env::args().nth(at).map_or(Ok(usual), |it| it.parse::<u64>());
    let (runs, most) = (number(2, 200)?, Bytes::from_kib(number(3, 4096)?));
    let asked = QuickRuns { runs, samples: 3, most, loaded: true };
    let platform = Platform::named("xeon_x5650").ok_or("no such platform")??;
    println!("| cell | WSS | median µs | runs with an interval | hold the truth |");
    println!("|---|--:|--:|--:|--:|");
    let cells = coverage(&platform, asked)?;
    for it in &cells {
        let CellKey { event, load, page, wss_bytes, .. } = &it.cell;
        let percent = 100.0 * f64::from(it.held) / f64::from(it.had.max(1));
        let (length, kib) = (it.cell.absence(), wss_bytes >> 10);
        let (truth, had) = (it.truth_us, it.had);
        println!(
            "| {load} {event} {page} {length} | {kib} KiB | {truth:.3} | {had} | {percent:.1} % |"
        );
    }
    let vary = cells.iter().filter(|it| it.differs);
    let sum = vary.fold((0, 0), |sum, it| (sum.0 + it.held, sum.1 + it.had));
    println!(
        "\nof all that vary: {:.1} % of {}",
        100.0 * f64::from(sum.0) / f64::from(sum.1),
        sum.1
    );
    Ok(())
}

fn laws() -> Result<(), BadInput> {
    for (statistic, samples) in STATISTICS.iter().zip([&SAMPLES[..], &SAMPLES[..3], &SAMPLES[..3]])
    {
        table(statistic.name, samples, |design, n| row(statistic, design, n))?;
    }
    table("Difference of two medians, the second spread threefold", &SAMPLES[..2], difference_row)?;
    table(
        "Median, each sample taken for a replicate, in turn (wrong)",
        &SAMPLES[..2],
        |design, n| {
            let taken = CoverageStatistic {
                name: "",
                of: |cell| cell.median(0.05),
                truth: |many| of(&many.concat(), 0.5),
            };
            row_of(design, n, &taken, |groups| {
                let in_turn = |at: usize| groups.iter().map(move |group| vec![group[at]]);
                (0..groups[0].len()).flat_map(in_turn).collect()
            })
        },
    )
}

/// The number of experiments, from the first argument.
fn experiments() -> usize {
    std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(EXPERIMENTS)
}

fn designs() -> Vec<(String, Design)> {
    let skewed = StandardLaw::LogNormal(0.5);
    let mut all = Vec::new();
    for (effect, of) in [(StandardLaw::Normal, "normal"), (skewed, "log-normal")] {
        for (noise, within) in [
            (StandardLaw::Normal, "normal"),
            (skewed, "log-normal"),
            (StandardLaw::Exponential, "exponential"),
        ] {
            for icc in [0.0, 0.3, 0.9] {
                if icc > 0.0 || effect == StandardLaw::Normal {
                    let name = format!("{of} / {within}, icc {icc}");
                    all.push((name, Design::steady(effect, noise, icc)));
                }
            }
        }
    }
    let normal = Design::steady(StandardLaw::Normal, StandardLaw::Normal, 0.5);
    let far = Design::steady(StandardLaw::LogNormal(1.0), StandardLaw::LogNormal(1.0), 0.9);
    let more = [
        ("log-normal, σ = 1, icc 0.9", far),
        ("two peaks within", Design::steady(StandardLaw::Normal, StandardLaw::TwoPeaks, 0.3)),
        (
            "replicates from two peaks",
            Design::steady(StandardLaw::TwoPeaks, StandardLaw::Normal, 0.9),
        ),
        ("sinus of amplitude 0.3", Design { course: ReplicateCourse::Sinus(0.3), ..normal }),
        ("sinus of amplitude 1", Design { course: ReplicateCourse::Sinus(1.0), ..normal }),
        ("related, ρ = 0.3", Design { course: ReplicateCourse::Related(0.3), icc: 0.9, ..normal }),
    ];
    all.extend(more.map(|(name, design)| (name.to_owned(), design)));
    all
}

fn table(
    name: &str,
    samples: &[usize],
    row: impl Fn(&Design, usize) -> Result<String, BadInput> + Sync,
) -> Result<(), BadInput> {
    println!("\n## {name}\n\n| design (replicates / samples) | n | {}", cells(REPLICATES));
    println!("|---|--:|{}", "--:|".repeat(REPLICATES.len()));
    let rows: Vec<_> = designs()
        .into_iter()
        .flat_map(|it| samples.iter().map(move |&n| (it.clone(), n)))
        .collect();
    let lines: Result<Vec<String>, BadInput> = rows
        .par_iter()
        .map(|((name, design), n)| Ok(format!("| {name} | {n} | {}", row(design, *n)?)))
        .collect();
    lines?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn cells<T: ToString>(of: impl IntoIterator<Item = T>) -> String {
    of.into_iter().map(|cell| cell.to_string() + " | ").collect::<String>().trim_end().to_owned()
}

fn row(statistic: &CoverageStatistic, design: &Design, n: usize) -> Result<String, BadInput> {
    row_of(design, n, statistic, |groups| groups)
}

fn row_of(
    design: &Design,
    n: usize,
    statistic: &CoverageStatistic,
    regroup: fn(Vec<Vec<f64>>) -> Vec<Vec<f64>>,
) -> Result<String, BadInput> {
    let mut draw = SeededSource::new(n as u64);
    let truth = (statistic.truth)(&design.apart(&mut draw, REPLICATES_FOR_TRUTH, n))?;
    let one = |replicates: usize| {
        covered(|| {
            let cell = Nested::new(regroup(design.run(&mut draw, replicates, n)))?;
            Ok((statistic.of)(&cell)?.interval.map(|interval| interval.contains(truth)))
        })
    };
    Ok(cells(REPLICATES.map(one).into_iter().collect::<Result<Vec<_>, _>>()?))
}

fn difference_row(design: &Design, n: usize) -> Result<String, BadInput> {
    let mut draw = SeededSource::new(n as u64);
    let truth = 2.0 * middle(&design.apart(&mut draw, REPLICATES_FOR_TRUTH, n), 0.5)?;
    let one = |replicates: usize| {
        covered(|| {
            let x = Nested::new(design.run(&mut draw, replicates, n))?;
            let mut threefold = design.run(&mut draw, replicates, n);
            threefold.iter_mut().flatten().for_each(|value| *value *= 3.0);
            let difference = median_difference(&x, &Nested::new(threefold)?, 0.05)?;
            Ok(difference.interval.map(|interval| interval.contains(truth)))
        })
    };
    Ok(cells(REPLICATES.map(one).into_iter().collect::<Result<Vec<_>, _>>()?))
}

/// The share of intervals that contain the truth, and the share of experiments with an interval.
fn covered(
    mut experiment: impl FnMut() -> Result<Option<bool>, BadInput>,
) -> Result<String, BadInput> {
    let (mut had, mut held) = (0, 0);
    for _ in 0..experiments() {
        let outcome = experiment()?;
        had += usize::from(outcome.is_some());
        held += usize::from(outcome == Some(true));
    }
    let (share, rate) = (had as f64 / experiments() as f64, held as f64 / had.max(1) as f64);
    Ok(match share {
        share if share < 0.05 => "–".to_owned(),
        share if share < 0.995 => format!("{:.1} ({:.0})", 100.0 * rate, 100.0 * share),
        _ => format!("{:.1}", 100.0 * rate),
    })
}

fn of(values: &[f64], p: f64) -> Result<f64, BadInput> {
    quantile::quantile(&Ordered::new(values)?, p)
}

/// The median of the replicates' own quantiles.
fn middle(replicates: &[Vec<f64>], p: f64) -> Result<f64, BadInput> {
    let own: Result<Vec<f64>, BadInput> = replicates.iter().map(|values| of(values, p)).collect();
    of(&own?, 0.5)
}

fn mean(replicates: &[Vec<f64>]) -> f64 {
    let of = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    replicates.iter().map(of).sum::<f64>() / replicates.len() as f64
}
