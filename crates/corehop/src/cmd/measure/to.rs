// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which machine a plan runs, and where its rows go: what every experiment that makes a plan shares.

use std::path::PathBuf;
use std::time::Duration;

use corehop_core::decision::sampling::Goal;
use corehop_core::experiment::Experiment;
use corehop_core::platform::Platform;
use corehop_core::units::Nanos;
use corehop_linux::live::Options;

use super::partitioning::PartitioningOptions;
use super::{on, outline};
use crate::exit::{Exit, Failure};
use crate::run::{Destination, Run};

/// The machine, the file, and what is said meanwhile.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// The machine: `live`, the id of a platform, or a platform file
    #[arg(long, default_value = "live")]
    pub(super) on: String,
    /// The file to write; `FILE.part` while it is being written
    #[arg(short, long, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
    /// Write an Arrow stream to stdout instead of a file: rows of the kind that -o names, or of KIND
    /// (`task_jobs`)
    #[arg(
        long,
        value_name = "KIND",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["output", "json"]
    )]
    stream: Option<String>,
    /// Print the plan's outline and the projected time; with --json the plan itself
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One machine-readable answer on stdout
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
    /// Stop after this time; the worst cells get what is left of it
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(super) budget: Option<Nanos>,
    #[command(flatten)]
    pub(super) partitioning: PartitioningOptions,
}

/// The draws of an experiment, and whether it goes on with what it has.
#[derive(Debug, clap::Args)]
pub(super) struct Draws {
    /// Go on with the FILE.part of an interrupted run
    #[arg(long, requires = "output")]
    pub(super) resume: bool,
    /// The seed of every draw
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

/// How much of an experiment is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) goal: Goal,
    /// How many replicates were asked for.
    pub(super) replicates: Option<u32>,
    /// Whether a simulated machine simulates some of the sets of its caches only.
    pub(super) sampled: bool,
}

impl Extent {
    /// As much as the experiment asks for.
    pub(super) const WHOLE: Self = Self { goal: Goal::Count, replicates: None, sampled: false };
}

impl To {
    /// The description of the machine.
    pub(super) fn platform(&self) -> Result<Platform, Failure> {
        on::platform(&self.on)
    }

    /// Runs an experiment, or prints what would be run.
    pub(super) fn carry_out(
        &self,
        platform: Platform,
        experiment: &dyn Experiment,
        draws: &Draws,
        extent: Extent,
        options: Options,
    ) -> Result<Exit, Failure> {
        let replicates = extent.replicates_of(experiment, &platform, draws.seed)?;
        if self.dry_run {
            on::partitioning(&self.on, &platform, &self.partitioning, extent.sampled)?;
            return outline::of_experiment(
                experiment, &platform, draws.seed, replicates, self.json,
            );
        }
        let run = Run { replicates, goal: extent.goal, ..self.to_run(draws.resume)? };
        let partitioning = (&self.partitioning, extent.sampled);
        let mut machine = on::machine(&self.on, platform, options, partitioning)?;
        run.experiment(machine.as_mut(), experiment, draws.seed)
    }

    /// A run of all there is, in one replicate.
    pub(super) fn to_run(&self, resume: bool) -> Result<Run, Failure> {
        Ok(Run {
            destination: self.destination(resume)?,
            goal: Goal::Count,
            replicates: 1,
            budget: self.budget.map(duration),
            quiet: self.quiet,
            json: self.json,
        })
    }

    fn destination(&self, resume: bool) -> Result<Destination, Failure> {
        match (&self.output, &self.stream) {
            (Some(path), _) => Ok(Destination::File { path: path.clone(), resume }),
            (None, Some(kind)) => Ok(Destination::Stdout((!kind.is_empty()).then(|| kind.clone()))),
            (None, None) => Err(Failure::says(
                Exit::Usage,
                "where to? give `-o FILE.parquet`, --stream or --dry-run",
            )),
        }
    }
}

impl Extent {
    /// How many replicates a run of `experiment` consists of.
    fn replicates_of(
        self,
        experiment: &dyn Experiment,
        platform: &Platform,
        seed: u64,
    ) -> Result<u32, Failure> {
        let units = experiment.units(platform, seed)?;
        let counts = || units.iter().map(|unit| unit.asked);
        let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        match experiment.replicates().or(self.replicates) {
            None => Ok(corehop_core::experiment::usual_replicates(fewest)),
            Some(asked) if self.goal == Goal::Count && asked > most => {
                let why = format!(
                    "--replicates {asked}: the cells have {most} samples at most, and a replicate \
                     without a sample is none; ask for --samples {asked} or more"
                );
                Err(Failure::says(Exit::Usage, why))
            }
            Some(asked) => Ok(asked),
        }
    }
}

/// A time to stop after.
fn budget(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if time.get() == 0 => {
            Err("--budget 0 leaves no time for a sample: leave it out".to_owned())
        }
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.get())
}
