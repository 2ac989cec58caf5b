// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop validate`

use std::fmt::Write;

use corehop_core::decision::validation::{Errors, Joined, Study};
use corehop_core::experiment::{Experiment, Plan};
use corehop_core::machine::{Machine, Sink, SinkError};
use corehop_core::samples::{JobRecord, Project, RunContext, Sample};
use corehop_core::sim::SimMachine;
use corehop_core::units::Bytes;
use serde_json::{Value, json};

use super::platform::described;
use crate::answer::print;
use crate::exit::{Exit, Failure};

/// Rerun published experiments on the simulated machine, and say how far off it is.
///
/// Every printed row is joined with what the simulation gives for it. Rows that parameters of the
/// platform were fitted on are marked, and judged apart. Working sets of a mebibyte and more are
/// simulated in some of the sets of all caches (one in 2 to 16).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A platform or a table, such as `xeon_x5650` or `waechtler-a4`; all of them if left out.
    what: Option<String>,
    /// The samples of each cell, in place of the study's number.
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Only these working-set sizes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// A platform file of your own in place of the one that comes with the program.
    #[arg(long, value_name = "FILE.toml")]
    on: Option<String>,
    /// Simulate every set of every cache, however large the working set (many times slower)
    #[arg(long)]
    exact: bool,
    /// The seed of every draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Every row as JSON, with the errors of each table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut answers = Vec::new();
    for study in chosen(args)? {
        let rows = study.join(&simulate(&study, args)?);
        if args.json {
            answers.push(json(&study, &rows));
        } else {
            print(&text(&study, &rows))?;
        }
    }
    if args.json {
        print(&format!("{:#}\n", json!({ "seed": args.seed, "studies": answers })))?;
    }
    Ok(Exit::Done)
}

/// The studies that are asked for, with the samples and sizes that are.
fn chosen(args: &Args) -> Result<Vec<Study>, Failure> {
    let all: Result<Vec<Study>, _> = Study::names().filter_map(Study::named).collect();
    let mut studies = all.map_err(|error| Failure::new(Exit::Damaged, error))?;
    if let Some(what) = &args.what {
        studies.retain(|study| study.id == *what || study.platform == *what);
    }
    if studies.is_empty() {
        let known: Vec<&str> = Study::names().collect();
        let what = args.what.as_deref().unwrap_or_default();
        return Err(Failure::says(
            Exit::Usage,
            format!(
                "`{what}` is neither a study nor the platform of one; studies are {}",
                known.join(", ")
            ),
        ));
    }
    let sizes: Vec<u64> = args.wss.iter().map(|wss| wss.get() / 1024).collect();
    let narrowed = studies.into_iter().map(|study| {
        let samples = args.samples.unwrap_or(study.samples);
        let study = if sizes.is_empty() { study } else { study.only(&sizes) };
        Study { samples, ..study }
    });
    Ok(narrowed.filter(|study| !study.printed.is_empty()).collect())
}

/// Keeps the rows of a run.
struct Rows<'a> {
    context: RunContext,
    plan: &'a Plan,
    taken: Vec<Sample>,
}

impl Sink for Rows<'_> {
    fn take(&mut self, records: &[JobRecord]) -> Result<(), SinkError> {
        let project = |record| Sample::project(&self.context, self.plan, record);
        self.taken.extend(records.iter().filter_map(project));
        Ok(())
    }
}

fn simulate(study: &Study, args: &Args) -> Result<Vec<Sample>, Failure> {
    let platform = described(args.on.as_deref().unwrap_or(&study.platform))?;
    let plan = study.experiment().plan(&platform, args.seed)?;
    let mut rows =
        Rows { context: RunContext::new(&plan, &platform, 0), plan: &plan, taken: vec![] };
    let machine = SimMachine::new(platform)?;
    let mut machine = if args.exact { machine } else { machine.sampled() };
    machine.run(&plan, &mut rows)?;
    Ok(rows.taken)
}

fn json(study: &Study, rows: &[Joined]) -> Value {
    json!({
        "study": study.id,
        "title": study.title,
        "platform": study.platform,
        "samples": study.samples,
        "judged": Errors::of(rows, false),
        "fitted": Errors::of(rows, true),
        "rows": rows,
    })
}

fn text(study: &Study, rows: &[Joined]) -> String {
    let mut text =
        format!("{} ({}, {} samples a cell)\n", study.title, study.platform, study.samples);
    let _ = writeln!(
        text,
        "{:18}{:16}{:>10}{:>12}{:>12}{:>9}",
        "event", "length", "WSS KiB", "printed us", "simulated", "error"
    );
    for row in rows.iter().filter(|row| row.statistic == "avg") {
        let _ = writeln!(
            text,
            "{:18}{:16}{:>10}{:>12.2}{:>12.2}{:>8.1}%{}",
            row.event.word(),
            row.preemption_length,
            row.wss_kib,
            row.printed_us,
            row.simulated_us,
            row.error * 100.0,
            if row.fitted { " fitted" } else { "" },
        );
    }
    for (what, fitted) in [("judged", false), ("fitted on", true)] {
        if let Some(errors) = Errors::of(rows, fitted) {
            let _ = writeln!(
                text,
                "{what}: {} rows, median error {:.1} %, 90th percentile {:.1} %",
                errors.rows,
                errors.median * 100.0,
                errors.p90 * 100.0
            );
        }
    }
    text.push('\n');
    text
}
