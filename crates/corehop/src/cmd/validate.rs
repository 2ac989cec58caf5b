// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop validate`

mod claims;
mod gangs;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use corehop_core::machine::{Machine, Records, samples_of};
use corehop_core::platform::Platform;
use corehop_core::report::validation::{self, Dots};
use corehop_core::report::validation_svg::drawing;
use corehop_core::samples::Sample;
use corehop_core::sim::SimMachine;
use corehop_core::units::Bytes;
use corehop_core::validation::aim::{Aim, Reached, Samples};
use corehop_core::validation::claims::{ClaimStudy, Tested};
use corehop_core::validation::gangs::GangStudy;
use corehop_core::validation::points::{Compared, PointStudy};
use corehop_core::validation::tables::{Errors, Joined, Order, Study};
use serde_json::{Value, json};

use self::claims::Simulated;
use super::platform::described;
use crate::exit::{Exit, Failure};
use crate::output::{self, print};

/// Rerun published experiments on the simulated machine, and report its error.
///
/// The output joins every printed row with the simulated one. It marks rows that platform parameters were
/// fitted on, and judges them separately. The simulation samples some sets of all caches (one in 2 to 64) for
/// working sets of a mebibyte and more. A study reaches its aim if the median error, the 90th percentile and
/// the order of the events all meet it. With fewer samples than the study's number the aim is not judged.
///
/// Exit code 1: an aim is not reached or not judged, or a claim does not come out as printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A platform or a study, such as `xeon_x5650` or `waechtler-a4`; default: all.
    what: Option<String>,
    /// Samples per cell; default: the study's number.
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Only these working-set sizes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// Use this platform file instead of the built-in one.
    #[arg(long, value_name = "FILE.toml")]
    on: Option<String>,
    /// Simulate every set of every cache for working sets of any size (many times slower)
    #[arg(long)]
    exact: bool,
    /// The seed of all random draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with a figure of each table: printed against simulated values.
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write the figures to this folder, one file per table.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Print JSON: every row, and the errors of each table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let Chosen { tables, values, gangs, claims, takes } = chosen(args)?;
    let of = |id: &str, have| Samples { have, takes: takes.get(id).copied().unwrap_or(have) };
    let mut simulated = Simulated::default();
    let mut answers = Vec::new();
    let mut drawings = Vec::new();
    let mut missed = false;
    for study in tables {
        let rows = study.join(simulated.of(&study, args)?);
        drawings.push(Dots::of_table(&study, &rows));
        let errors = Errors::of(&rows, false);
        let samples = of(&study.id, study.samples);
        let aim = Aim::of(errors, Some(Order::of(&rows)), study.limit, samples);
        missed |= aim.is_open();
        if args.json {
            answers.push(json(&study, &rows, &aim));
        } else {
            print(&text(&study, &rows, &aim))?;
        }
    }
    for study in values {
        let points = simulate_points(&study, args)?;
        drawings.push(Dots::of_points(&study, &points));
        let errors = Compared::errors(&points, false);
        let aim = Aim::of(errors, None, study.limit, of(&study.id, study.samples));
        missed |= aim.is_open();
        if args.json {
            answers.push(points_json(&study, &points, &aim));
        } else {
            print(&points_text(&study, &points, &aim))?;
        }
    }
    for study in gangs {
        let rows = gangs::simulate(&study, args)?;
        drawings.extend(Dots::of_gangs(&study, &rows));
        let aims = gangs::aims(&study, &rows, of(&study.id, study.samples));
        missed |= aims.iter().any(|it| it.aim.as_ref().is_some_and(Aim::is_open));
        if args.json {
            answers.push(gangs::json(&study, &rows, &aims));
        } else {
            print(&gangs::text(&study, &rows, &aims))?;
        }
    }
    for study in claims {
        let tested = claims::test(&study, args, &mut simulated)?;
        missed |= tested.iter().any(Tested::is_missed);
        if args.json {
            answers.push(claims::json(&study, &tested));
        } else {
            print(&claims::text(&study, &tested))?;
        }
    }
    draw(args, &drawings)?;
    if args.json {
        print(&format!("{:#}\n", json!({ "seed": args.seed, "studies": answers })))?;
    }
    Ok(if missed { Exit::No } else { Exit::Done })
}

/// Writes the requested figures.
fn draw(args: &Args, all: &[Dots]) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        output::write(path, validation::page(args.seed, all))?;
    }
    let Some(folder) = &args.svg else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(Exit::Failed, error).context(folder.display().to_string()))?;
    for dots in all {
        let path = folder.join(format!("{}.svg", dots.id));
        output::write(&path, drawing(dots))?;
    }
    Ok(())
}

/// The requested studies.
struct Chosen {
    tables: Vec<Study>,
    values: Vec<PointStudy>,
    gangs: Vec<GangStudy>,
    claims: Vec<ClaimStudy>,
    /// By study: the samples that its aim was set for.
    takes: BTreeMap<String, u32>,
}

impl Chosen {
    /// All studies.
    fn all() -> Result<Self, Failure> {
        let damaged = |error| Failure::new(Exit::Damaged, error);
        let tables: Result<Vec<Study>, _> = Study::names().filter_map(Study::named).collect();
        let tables = tables.map_err(damaged)?;
        let values = PointStudy::all().map_err(damaged)?;
        let gangs = GangStudy::all().map_err(damaged)?;
        let of_tables = tables.iter().map(|it| (it.id.clone(), it.samples));
        let of_values = values.iter().map(|it| (it.id.clone(), it.samples));
        let of_gangs = gangs.iter().map(|it| (it.id.clone(), it.samples));
        Ok(Self {
            takes: of_tables.chain(of_values).chain(of_gangs).collect(),
            claims: ClaimStudy::all().map_err(damaged)?,
            tables,
            values,
            gangs,
        })
    }

    fn ids(&self) -> Vec<&str> {
        let tables = self.tables.iter().map(|it| it.id.as_str());
        let values = self.values.iter().map(|it| it.id.as_str());
        let gangs = self.gangs.iter().map(|it| it.id.as_str());
        let claims = self.claims.iter().map(|it| it.id.as_str());
        tables.chain(values).chain(gangs).chain(claims).collect()
    }

    /// Studies that `wants` accepts by their id and their platform.
    fn retain(&mut self, wants: impl Fn(&str, &str) -> bool) {
        self.tables.retain(|it| wants(&it.id, &it.platform));
        self.values.retain(|it| wants(&it.id, &it.platform));
        self.gangs.retain(|it| wants(&it.id, &it.platform));
        self.claims.retain(|it| wants(&it.id, &it.platform));
    }

    /// Restricts to cells of these sizes; a claim is about many cells.
    fn narrow(&mut self, sizes: &[u64]) {
        self.tables =
            std::mem::take(&mut self.tables).into_iter().map(|it| it.only(sizes)).collect();
        self.tables.retain(|study| !study.printed.is_empty());
        for study in &mut self.values {
            study.points.retain(|point| sizes.contains(&point.wss_kib));
        }
        self.values.retain(|study| !study.points.is_empty());
        self.gangs.clear();
        self.claims.clear();
    }

    fn set_samples(&mut self, samples: u32) {
        self.tables.iter_mut().for_each(|study| study.samples = samples);
        self.values.iter_mut().for_each(|study| study.samples = samples);
        self.gangs.iter_mut().for_each(|study| study.samples = study.samples.min(samples));
        self.claims.iter_mut().for_each(|study| study.set_samples(samples));
    }
}

/// The requested studies, with the requested samples and sizes.
fn chosen(args: &Args) -> Result<Chosen, Failure> {
    let mut all = Chosen::all()?;
    let known = all.ids().join(", ");
    if let Some(what) = &args.what {
        all.retain(|id, platform| id == what || platform == what);
        if all.ids().is_empty() {
            let what = format!(
                "`{what}` is neither a study nor a platform of a study; studies are {known}"
            );
            return Err(Failure::says(Exit::Usage, what));
        }
    }
    if !args.wss.is_empty() {
        let sizes: Vec<u64> = args.wss.iter().map(|wss| wss.get() / 1024).collect();
        all.narrow(&sizes);
    }
    if let Some(samples) = args.samples {
        all.set_samples(samples);
    }
    Ok(all)
}

/// The machine that a study is simulated on.
fn machine(platform: Platform, args: &Args) -> Result<SimMachine, Failure> {
    let machine = SimMachine::new(platform)?;
    Ok(if args.exact { machine } else { machine.sampled() })
}

fn simulate_points(study: &PointStudy, args: &Args) -> Result<Vec<Compared>, Failure> {
    let platform = described(args.on.as_deref().unwrap_or(&study.platform))?;
    let mut runs = Vec::new();
    for plan in study.plans(&platform, args.seed)? {
        let mut records = Records::default();
        machine(platform.clone(), args)?.run(&plan, &mut records)?;
        runs.push(records.jobs);
    }
    Ok(study.compare(&platform, &runs))
}

fn points_json(study: &PointStudy, points: &[Compared], aim: &Aim) -> Value {
    json!({
        "study": study.id,
        "title": study.title,
        "platform": study.platform,
        "samples": study.samples,
        "quantity": study.quantity,
        "limit": study.limit,
        "aim": aim,
        "judged": Compared::errors(points, false),
        "fitted": Compared::errors(points, true),
        "points": points,
    })
}

fn points_text(study: &PointStudy, points: &[Compared], aim: &Aim) -> String {
    let mut text = format!(
        "{} ({}, {}, {} samples a value)\n",
        study.title, study.platform, study.quantity, study.samples
    );
    for point in points {
        let _ = writeln!(
            text,
            "{:44}{:>12.2}{:>12.2}{:>8.1}%{}",
            point.name,
            point.printed,
            point.simulated,
            point.error * 100.0,
            if point.fitted { " fitted" } else { "" },
        );
    }
    let errors = |fitted| Compared::errors(points, fitted);
    summary(&mut text, errors(false), errors(true), aim);
    text
}

/// A summary of the errors.
fn summary(text: &mut String, judged: Option<Errors>, fitted: Option<Errors>, aim: &Aim) {
    for (what, errors) in [("judged", judged), ("fitted on", fitted)] {
        if let Some(errors) = errors {
            let _ = writeln!(
                text,
                "{what}: {} rows, median error {:.1} %, 90th percentile {:.1} %",
                errors.rows,
                errors.median * 100.0,
                errors.p90 * 100.0
            );
        }
    }
    let _ = writeln!(text, "{}\n", said(aim));
}

/// The aim, and whether it is reached.
fn said(aim: &Aim) -> String {
    let outcome = match aim.outcome {
        Reached::Reached => "aim reached",
        Reached::NotReached => "aim not reached",
        Reached::NotJudged => "aim not judged",
    };
    let why = aim.why.join("; ");
    format!(
        "{outcome} (a median error of at most {:.0} %, a 90th percentile of at most {:.0} %, events in the \
         printed order){}{why}",
        aim.median * 100.0,
        aim.p90 * 100.0,
        if why.is_empty() { "" } else { ": " }
    )
}

fn simulate(study: &Study, args: &Args) -> Result<Vec<Sample>, Failure> {
    let platform = described(args.on.as_deref().unwrap_or(&study.platform))?;
    let plan = study.plan(&platform, args.seed)?;
    let pause = study.pause(&platform);
    Ok(samples_of(&mut machine(platform, args)?.pausing(pause), &plan)?)
}

fn json(study: &Study, rows: &[Joined], aim: &Aim) -> Value {
    json!({
        "study": study.id,
        "title": study.title,
        "platform": study.platform,
        "samples": study.samples,
        "limit": study.limit,
        "aim": aim,
        "judged": Errors::of(rows, false),
        "fitted": Errors::of(rows, true),
        "order": Order::of(rows),
        "rows": rows,
    })
}

fn text(study: &Study, rows: &[Joined], aim: &Aim) -> String {
    let mut text =
        format!("{} ({}, {} samples a cell)\n", study.title, study.platform, study.samples);
    let _ = writeln!(
        text,
        "{:18}{:16}{:>10}{:>12}{:>12}{:>9}",
        "event", "length", "WSS KiB", "printed us", "simulated", "error"
    );
    for row in rows.iter().filter(|row| row.statistic != "std") {
        let _ = writeln!(
            text,
            "{:18}{:16}{:>10}{:>12.2}{:>12.2}{:>8.1}%{}",
            row.event.word(),
            row.preemption_length,
            row.wss_kib,
            row.printed_us,
            row.simulated_us,
            row.error * 100.0,
            match (row.statistic.as_str(), row.fitted) {
                ("max", _) => format!(" maximum of {}, not judged", row.n),
                (_, true) => " fitted".to_owned(),
                _ => String::new(),
            },
        );
    }
    let order = Order::of(rows);
    let _ = writeln!(
        text,
        "order of the events: {} of {} pairs that are printed apart",
        order.agree, order.pairs
    );
    summary(&mut text, Errors::of(rows, false), Errors::of(rows, true), aim);
    text
}
