// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise`

use std::path::{Path, PathBuf};

use corehop_decide::advice::{Advice, Wanted, advise};
use corehop_decide::simulated::{Simulated, SimulationError};
use corehop_plan::shown;
use corehop_plan::units::{Bytes, Nanos};
use corehop_report::{advice_page, decided};
use corehop_stats::cpmd::Model;
use indicatif::ProgressBar;

use super::quantities::pair;
use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Force, OutputFile, either};

mod set;

/// The heading of the options for a task set.
const SET: &str = "A set of tasks (SET.json --costs FILE)";

/// Advise a scheduler: whether to let a job be preempted or to migrate it, to which CPU, from which preemption
/// length on; which migrations to avoid; which values to give the kernel's constants.
///
/// The input is samples of the machine, a model of them, or a simulated platform (--on). A simulation also shows
/// what cache partitioning would save. With --costs the input is a task set on one CPU, and the advice is which
/// task to make non-preemptive for how long, and what that saves. Exit code 1: the measurements do not support
/// any advice, or the set misses deadlines under every limit on preemptions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Samples of the machine, live or simulated, or a model of `corehop fit` (`*.json`); with --costs a task set
    /// in the format of `corehop check`.
    #[arg(value_name = "FILE.parquet|MODEL.json|SET.json", required_unless_present = "on")]
    file: Option<PathBuf>,
    /// Simulate the synthetic method on this platform (a minute or more), and use its samples.
    #[arg(long, value_name = "NAME|FILE.toml", conflicts_with_all = ["file", "costs"])]
    on: Option<String>,
    /// Working-set sizes, separated by commas; default: those measured.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// The preemption length; default: the longest measured.
    #[arg(long, value_name = "TIME")]
    length: Option<Nanos>,
    /// Differences below this share of the smallest cost do not count; at least 1 us.
    #[arg(long, value_name = "PERCENT%", default_value = "10%", value_parser = super::quantities::percent)]
    margin: f64,
    /// Choose one of several series: `page=thp`, `write_ratio=0.5`. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Leave out polluters on the other CPUs, which take most of the time.
    #[arg(
        long,
        requires = "on",
        conflicts_with = "file",
        help_heading = "Simulated machine (--on NAME or FILE)"
    )]
    idle: bool,
    /// Samples per cell.
    #[arg(
        long,
        value_name = "N",
        requires = "on",
        conflicts_with = "file",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(2..),
        help_heading = "Simulated machine (--on NAME or FILE)"
    )]
    samples: u32,
    /// The seed of all random draws.
    #[arg(
        long,
        value_name = "N",
        requires = "on",
        conflicts_with = "file",
        default_value_t = 1,
        help_heading = "Simulated machine (--on NAME or FILE)"
    )]
    seed: u64,
    /// Costs of preemptions for a task set: a table (`corehop report --table csv`), a model, or samples.
    #[arg(
        long,
        value_name = "FILE",
        requires = "file",
        conflicts_with_all = ["wss", "margin", "output"],
        help_heading = SET
    )]
    costs: Option<PathBuf>,
    /// The background load of the costs.
    #[arg(long, value_name = "LOAD", requires = "costs", conflicts_with = "on", help_heading = SET)]
    load: Option<String>,
    /// The statistic of the costs; default: as for `check`, the highest quantile whose upper end the samples give, otherwise
    /// the largest cost.
    #[arg(long, value_name = "NAME", requires = "costs", conflicts_with = "on", help_heading = SET)]
    statistic: Option<String>,
    /// Write a page: one HTML file with a map of the advice by size and preemption length.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.length.is_some_and(|length| length.get() == 0) {
        return Err(Failure::says(Exit::Usage, "--length is 0: a preemption takes some time"));
    }
    if let (Some(file), Some(costs)) = (&args.file, &args.costs) {
        return set::run(args, file, costs);
    }
    let inputs: Vec<&Path> = args.file.iter().map(PathBuf::as_path).collect();
    let output = OutputFile::if_asked(args.output.as_ref(), &inputs, args.force)?;
    let wanted = Wanted {
        wss: args.wss.clone(),
        length: args.length,
        margin: args.margin,
        only: args.only.clone(),
    };
    let of =
        |model: &Model| advise(model, &wanted).map_err(|error| Failure::new(Exit::Usage, error));
    let advice = match (&args.file, &args.on) {
        (Some(file), _) => of(&input::model(file)?)?,
        (None, Some(on)) => simulated(args, on, of)?,
        (None, None) => {
            return Err(Failure::says(Exit::Usage, "give a file, or a platform with --on"));
        }
    };
    if let Some(file) = output {
        let of = args.on.clone().or_else(|| args.file.as_deref().map(shown::path));
        let title = format!("Advice from {}", of.unwrap_or_default());
        file.write(advice_page::page(&advice, &title))?;
    }
    let json = args.json.then(|| doubts::with(serde_json::json!(advice)));
    either(&advice.sentence(), json.as_ref(), || decided::advice(&advice))?;
    Ok(if advice.rules.is_empty() { Exit::No } else { Exit::Done })
}

/// Advice from a simulation, with what cache partitioning would save.
fn simulated(
    args: &Args,
    on: &str,
    advise: impl Fn(&Model) -> Result<Advice, Failure>,
) -> Result<Advice, Failure> {
    if on == "live" {
        let what = "--on simulates, but this host is measured: give the file of `corehop measure synthetic -o FILE`";
        return Err(Failure::says(Exit::Usage, what));
    }
    let platform = input::platform(on)?;
    let mut what = Simulated {
        loaded: !args.idle,
        samples: args.samples,
        seed: args.seed,
        ..Simulated::default()
    };
    if !args.wss.is_empty() {
        what.wss.clone_from(&args.wss);
    }
    what.lengths.extend(args.length);
    let bar = ProgressBar::new_spinner();
    bar.set_message(format!("simulating {}", platform.id));
    // A steady tick is a thread, and indicatif panics if the system starts none.
    bar.tick();
    let mut advice = advise(&what.model(&platform)?)?;
    let (savings, silent) = what.partitioning(&platform)?;
    bar.finish_and_clear();
    advice.partitioning = savings;
    advice.silent.extend(silent);
    Ok(advice)
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Experiment(error) => error.into(),
            SimulationError::Machine(error) => error.into(),
        }
    }
}
