// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check study`

use std::path::PathBuf;

use corehop_app::failure::{Exit, Failure};
use corehop_app::study::{StudyForms, StudyRequest, count, merge};
use corehop_sched::study::{Progress, Shard};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cmd::VerbOrMode;
use crate::cmd::costs::CostArgs;
use crate::output::{Force, bars, repeated, stdout_layout, told};

/// The arguments of `corehop check study` and of its mode.
pub(crate) type Args = VerbOrMode<CountOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Add up the counts of shards that were written with -o.
    Merge(Merge),
}

/// The options of `corehop check study merge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Merge {
    /// Add up the counts in these files, which come from shards or from one run.
    #[arg(required = true, value_name = "FILE.parquet")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    shown: StudyOutputOptions,
}

/// Draw random task sets, and count the sets that each scheduler can schedule as delays grow.
///
/// corehop prints the weighted schedulability W(D_c) with 95 % intervals, and the delay up to which one scheduler is
/// preferable to another. With --costs, corehop also prints the working-set size up to which one scheduler is
/// preferable to another. The seed and the index of a set alone determine the set, so shards from any machine add up
/// to the same bytes. A study with working sets compares finer charges for preemptions, and shows the savings of
/// limited preemption.
#[derive(Debug, clap::Args)]
pub(crate) struct CountOptions {
    /// Run the study in this file (*.toml) or folder, or the study of this name: bastoni-fig5, delays-by-pair,
    /// limited-preemption. Print the counts in this file (*.parquet).
    #[arg(value_name = "NAME|FILE|FOLDER")]
    what: PathBuf,
    /// Run only shard K of N: the task sets whose index leaves the remainder K when divided by N.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Draw this many task sets for each cap on the utilisation; default: the study's number.
    #[arg(long, value_name = "N")]
    sets: Option<u64>,
    /// Draw all random numbers from this seed; default: the study's seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Compute with this many threads; default: one per CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    #[command(flatten)]
    shown: StudyOutputOptions,
}

/// The options for the output of a study.
#[derive(Debug, clap::Args)]
struct StudyOutputOptions {
    /// Write the counts to this file.
    #[arg(short, long, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
    #[command(flatten)]
    costs: CostArgs,
    /// Write a page: one self-contained HTML file.
    #[arg(long, value_name = "FILE.html")]
    page: Option<PathBuf>,
    /// Draw the curves of the reading that the study compares with its paper, otherwise of the first reading.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => args.run(),
        VerbOrMode::Mode(Mode::Merge(args)) => {
            told(&merge(&args.files, &args.shown.forms())?, args.shown.json)
        }
    }
}

impl CountOptions {
    fn run(&self) -> Result<Exit, Failure> {
        let request = StudyRequest {
            what: self.what.clone(),
            shard: self.shard,
            sets: self.sets,
            seed: self.seed,
            threads: self.threads,
            forms: self.shown.forms(),
        };
        told(&count(&request, Bar::new)?, self.shown.json)
    }
}

impl StudyOutputOptions {
    fn forms(&self) -> StudyForms {
        StudyForms {
            output: self.output.clone(),
            costs: self.costs.request(),
            page: self.page.clone(),
            picture: self.picture.clone(),
            force: self.force.force,
            layout: stdout_layout(),
            command: repeated(),
        }
    }
}

/// The progress of a study, on stderr if that is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(sets: u64) -> Self {
        let Some(terminal) = bars() else { return Self(ProgressBar::hidden()) };
        let bar = ProgressBar::with_draw_target(Some(sets), terminal);
        // The template is a constant; where it could not be parsed the default would be shown.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} sets, {eta} left") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn advance(&self, sets: u64) -> bool {
        self.0.inc(sets);
        true
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
