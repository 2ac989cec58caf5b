// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise`

use std::path::{Path, PathBuf};

use corehop_decide::advice::{Advice, AdviceQuery, ProgramAdvice, advise};
use corehop_plan::shown;
use corehop_plan::units::{Bytes, Nanos};
use corehop_report::{advice_page, decided};
use corehop_stats::costs::ProgramPrices;
use corehop_stats::cpmd::DelayModel;

use crate::cmd::VerbOrMode;
use crate::output::{Force, OutputFile, either, repeated};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::input;
use corehop_app::quantities::pair;

mod fit;
mod gain;
mod predict;
mod set;
mod simulate;

/// The arguments of `corehop advise` and of its modes.
pub(crate) type Args = VerbOrMode<AdviseOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Simulate a platform, and advise from the simulated samples, including the savings of cache partitioning.
    Simulate(simulate::Args),
    /// Advise which task of a set to make non-preemptive, for how long, and how much CPU time the change saves.
    Set(set::Args),
    /// Fit a cost model to samples, and report its error.
    Fit(fit::Args),
    /// Predict the cost of a preemption or migration at a size and a length, with an interval.
    Predict(predict::Args),
    /// Predict the run time of threads that share data when placed close together, divided by their run time when
    /// placed far apart.
    Gain(gain::Args),
}

/// Advise a scheduler when to move a preempted job instead of letting the job wait for its CPU, by working-set size
/// and class of migration. Also advise values for constants of the kernel's scheduler.
///
/// A job that stays pays for the wait, and for a preemption as long as the wait; a job that moves at once pays for a
/// migration. The input is samples of the machine, or a model of these samples. Exit code 1 means that the measurements
/// do not support any advice.
#[derive(Debug, clap::Args)]
pub(crate) struct AdviseOptions {
    /// Advise from these samples of the machine, live or simulated, from this model of `corehop advise fit` (`*.json`), or
    /// from the costs of one program that `corehop measure program-costs` wrote.
    #[arg(value_name = "FILE.parquet|MODEL.json")]
    file: PathBuf,
    #[command(flatten)]
    wishes: AdviceOptions,
}

/// The options that select the advice.
#[derive(Debug, clap::Args)]
struct AdviceOptions {
    /// Advise for these working-set sizes, separated by commas; default: the measured sizes.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// Advise a job that expects to wait this long for its CPU; default: print the wait from which a move pays.
    #[arg(long, value_name = "TIME", value_parser = length)]
    length: Option<Nanos>,
    /// Select one of several series by the value of a column, for example `page=thp`, `write_ratio=0.5`. Repeat
    /// --only to select by several columns.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Write one HTML file with a map of the advice by size and expected wait.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Parses an expected waiting time.
fn length(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if time.get() == 0 => {
            Err("--length is 0: a job that waits for nothing stays".to_owned())
        }
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => args.run(),
        VerbOrMode::Mode(Mode::Simulate(args)) => simulate::run(args),
        VerbOrMode::Mode(Mode::Set(args)) => set::run(args),
        VerbOrMode::Mode(Mode::Fit(args)) => fit::run(args),
        VerbOrMode::Mode(Mode::Predict(args)) => predict::run(args),
        VerbOrMode::Mode(Mode::Gain(args)) => gain::run(args),
    }
}

impl AdviseOptions {
    fn run(&self) -> Result<Exit, Failure> {
        if let Some(prices) = input::program_costs(&self.file)? {
            return self.wishes.for_program(&prices);
        }
        let output = self.wishes.page(&[&self.file])?;
        let advice = self.wishes.advise(&input::model(&self.file)?)?;
        let file = shown::path(&self.file);
        self.wishes.answer(&advice, output, &file)
    }
}

impl AdviceOptions {
    /// The output file of the HTML page, if requested; none of `inputs` is allowed.
    fn page(&self, inputs: &[&Path]) -> Result<Option<OutputFile>, Failure> {
        OutputFile::if_asked(self.output.as_ref(), inputs, self.force)
    }

    /// Prints the advice for one measured program.
    fn for_program(&self, prices: &ProgramPrices) -> Result<Exit, Failure> {
        let others = [
            ("--wss", !self.wss.is_empty()),
            ("--only", !self.only.is_empty()),
            ("--output", self.output.is_some()),
        ];
        refuse(
            "the costs of a program are those of its own working set, as text or JSON",
            &others,
        )?;
        let advice = ProgramAdvice::of(prices, self.length);
        let json = self.json.then(|| doubts::with(serde_json::json!(advice)));
        either(&advice.sentence(), json.as_ref(), || decided::program_advice(&advice))?;
        Ok(if advice.is_any() { Exit::Done } else { Exit::No })
    }

    fn wanted(&self) -> AdviceQuery {
        AdviceQuery { wss: self.wss.clone(), length: self.length, only: self.only.clone() }
    }

    fn advise(&self, model: &DelayModel) -> Result<Advice, Failure> {
        advise(model, &self.wanted()).map_err(|error| Failure::new(Exit::Usage, error))
    }

    /// Writes the page, and prints the advice from `origin`.
    fn answer(
        &self,
        advice: &Advice,
        page: Option<OutputFile>,
        origin: &str,
    ) -> Result<Exit, Failure> {
        if let Some(file) = page {
            file.write(advice_page::page(advice, origin, &repeated()))?;
        }
        let json = self.json.then(|| doubts::with(serde_json::json!(advice)));
        either(&advice.sentence(), json.as_ref(), || decided::advice(advice))?;
        Ok(if advice.is_any() { Exit::Done } else { Exit::No })
    }
}
