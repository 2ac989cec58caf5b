// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for the machine of a plan and for the destination of its rows, common to all experiments with a
//! plan.

use std::path::PathBuf;

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::Experiment;
use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;
use corehop_sim::Sampling;
use corehop_stats::campaign::sampling::Goal;
use corehop_stats::sequential::Precision;

use super::partitioning::PartitioningOptions;
use super::{on, outline};
use crate::output::{AnswerBody, Force, answer, told};
use crate::progress::view;
use corehop_app::answer::Answer;
use corehop_app::failure::{Exit, Failure};
use corehop_app::quantities::percent;
use corehop_app::run::{Destination, RunOptions};

/// The options for the destination of the rows and of the answer.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct Out {
    /// Write the rows to this file; the file is called `FILE.part` until the run is complete
    #[arg(short, long, value_name = "FILE.parquet")]
    pub(in crate::cmd) output: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cmd) force: Force,
    /// Write the rows as an Arrow stream to stdout instead of a file: the rows of the -o file, or rows of KIND
    /// (`task_jobs`)
    #[arg(
        long,
        value_name = "KIND",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["output", "json"]
    )]
    pub(in crate::cmd) stream: Option<String>,
    /// Print the outline of the plan and the projected time; with --json the plan itself
    #[arg(long)]
    pub(in crate::cmd) dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(in crate::cmd) json: bool,
    /// Stop after this time; if time is left, corehop takes more samples of the least certain cells
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(in crate::cmd) budget: Option<Nanos>,
}

/// The options for the machine, its partitioning, and the output.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct To {
    /// Run on this machine: `live` (this host), or a simulated machine by the id of a platform or by a platform file
    #[arg(long, default_value = "live")]
    pub(in crate::cmd) on: String,
    #[command(flatten)]
    pub(in crate::cmd) out: Out,
    #[command(flatten)]
    pub(in crate::cmd) partitioning: PartitioningOptions,
}

/// The option to resume an interrupted run.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct Resume {
    /// Resume an interrupted run from its FILE.part
    #[arg(long, requires = "output", conflicts_with = "stream")]
    pub(in crate::cmd) resume: bool,
}

/// The options for the seed of an experiment and for resuming a run.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct SeedOptions {
    #[command(flatten)]
    again: Resume,
    /// Draw all random numbers from this seed
    #[arg(long, default_value_t = 1)]
    pub(in crate::cmd) seed: u64,
}

impl SeedOptions {
    /// Whether to resume an interrupted run.
    pub(in crate::cmd) const fn resumes(&self) -> bool {
        self.again.resume
    }
}

/// The option for a precision to reach instead of a number of samples.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct Precise {
    /// Measure until the median of every cell is known to ±PERCENT of its warm touch with 95 % confidence. For
    /// programs with common data, PERCENT refers to the time of a run
    #[arg(long, value_name = "PERCENT%", value_parser = percent, conflicts_with = "samples", help_heading = "Enough samples")]
    precision: Option<f64>,
}

impl Precise {
    /// The precision goal, if a precision is requested.
    pub(in crate::cmd) fn goal(&self) -> Option<Goal> {
        let precision = |relative| Goal::Precision(Precision { relative, alpha: 0.05 });
        self.precision.map(precision)
    }
}

/// The amount of samples and replicates that a run takes.
#[derive(Debug, Clone, Copy)]
pub(in crate::cmd) struct Extent {
    pub(in crate::cmd) goal: Goal,
    /// The requested number of replicates.
    pub(in crate::cmd) replicates: Option<u32>,
    /// The rule for sampling cache sets on a simulated machine.
    pub(in crate::cmd) sampling: Sampling,
}

impl Extent {
    /// The default amount of the experiment.
    pub(in crate::cmd) const WHOLE: Self =
        Self { goal: Goal::Count, replicates: None, sampling: Sampling::Large };
}

impl To {
    /// Whether the plan runs on this host.
    pub(in crate::cmd) fn is_live(&self) -> bool {
        self.on == on::LIVE
    }

    /// The description of the machine.
    pub(in crate::cmd) fn platform(&self) -> Result<Platform, Failure> {
        on::platform(&self.on)
    }

    /// Runs an experiment, or prints its outline.
    pub(in crate::cmd) fn carry_out(
        &self,
        platform: Platform,
        experiment: &dyn Experiment,
        draws: &SeedOptions,
        extent: Extent,
        options: LiveMachineOptions,
    ) -> Result<Exit, Failure> {
        let replicates = extent.replicates_of(experiment, &platform, draws.seed)?;
        if self.out.dry_run {
            on::partitioning(&self.on, &platform, &self.partitioning, extent.sampling)?;
            return outline::of_experiment(
                experiment,
                &platform,
                draws.seed,
                replicates,
                self.out.json,
            );
        }
        let run = RunOptions { replicates, goal: extent.goal, ..self.to_run(draws.again.resume)? };
        let partitioning = (&self.partitioning, extent.sampling);
        let mut machine = on::machine(&self.on, platform, options, partitioning)?;
        let answer = run.experiment(machine.as_mut(), experiment, draws.seed)?;
        self.out.tell(&answer)
    }

    /// The run options for the whole plan in one replicate.
    pub(in crate::cmd) fn to_run(&self, resume: bool) -> Result<RunOptions, Failure> {
        let destination = self.out.destination(resume);
        if destination.is_none() {
            let what = "missing output: add `-o FILE.parquet`, --stream or --dry-run";
            return Err(Failure::says(Exit::Usage, what));
        }
        Ok(self.out.to_run(destination))
    }
}

impl Out {
    /// The run options for the whole plan in one replicate.
    pub(in crate::cmd) fn to_run(&self, destination: Option<Destination>) -> RunOptions {
        RunOptions {
            destination,
            spool: None,
            goal: Goal::Count,
            replicates: 1,
            budget: self.budget.map(outline::duration),
            view,
            charge: None,
        }
    }

    /// Ends a run with its answer; if stdout carries the rows, prints only the sentence.
    pub(in crate::cmd) fn tell(&self, of: &Answer) -> Result<Exit, Failure> {
        if self.stream.is_some() {
            answer(&of.sentence, AnswerBody::Beside(""))?;
            return Ok(of.exit);
        }
        if self.json {
            // One line: a log of many runs has one for each.
            answer(&of.sentence, AnswerBody::Data(&format!("{}\n", of.json)))?;
            return Ok(of.exit);
        }
        told(of, false)
    }

    /// Whether stdout carries a JSON answer or a stream of rows.
    pub(in crate::cmd) const fn wants_stdout(&self) -> bool {
        self.json || self.stream.is_some()
    }

    /// The requested destination, if any.
    pub(in crate::cmd) fn destination(&self, resume: bool) -> Option<Destination> {
        match (&self.output, &self.stream) {
            (Some(path), _) => {
                Some(Destination::File { path: path.clone(), resume, force: self.force.into() })
            }
            (None, Some(kind)) => {
                Some(Destination::Stdout((!kind.is_empty()).then(|| kind.clone())))
            }
            (None, None) => None,
        }
    }
}

impl Extent {
    /// The number of replicates of a run of `experiment`.
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
            None => Ok(corehop_plan::experiment::usual_replicates(fewest)),
            Some(asked) if self.goal == Goal::Count && asked > most => {
                let why = format!(
                    "--replicates {asked}: the cells have at most {most} samples, and each replicate needs a sample; use --samples {asked} or more"
                );
                Err(Failure::says(Exit::Usage, why))
            }
            Some(asked) => Ok(asked),
        }
    }
}

/// Parses the time budget of a run.
fn budget(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if time.get() == 0 => {
            Err("--budget 0 leaves no time for a sample: omit --budget".to_owned())
        }
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}
