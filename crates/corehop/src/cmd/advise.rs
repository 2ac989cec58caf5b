// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise`

use std::path::PathBuf;

use corehop_core::decision::advice::{Advice, Wanted, advise};
use corehop_core::decision::simulated::{Simulated, SimulationError};
use corehop_core::model::cpmd::Model;
use corehop_core::report::{advice_page, decided};
use corehop_core::units::{Bytes, Nanos};
use indicatif::ProgressBar;

use super::fit::model;
use super::platform::described;
use super::predict::pair;
use crate::exit::{Exit, Failure};
use crate::output::{self, print};

mod set;

/// Where the options for a set of tasks are listed.
const SET: &str = "A set of tasks (SET.json --costs FILE)";

/// What a scheduler should do on a machine: let a job be preempted or move it, where to, from which
/// preemption length on; which migrations to avoid; the constants that schedulers ask for.
///
/// From samples of the machine, from a model of them, or from a simulation of a platform (--on), which also
/// says what dividing its cache would save. With --costs, for a set of tasks on one CPU: which task to make
/// non-preemptive for how long, and what that saves. Exit code 1: nothing was measured that carries an advice, or
/// the set misses deadlines however preemptions are limited.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Samples of the machine, live or simulated, or a model that `corehop fit` wrote (`*.json`); with --costs a set
    /// of tasks, as `corehop check` reads it.
    #[arg(value_name = "FILE.parquet|MODEL.json|SET.json", required_unless_present = "on")]
    file: Option<PathBuf>,
    /// Simulate the synthetic method on this platform (a minute or more), and advise on it.
    #[arg(long, value_name = "NAME|FILE.toml", conflicts_with_all = ["file", "costs"])]
    on: Option<String>,
    /// The working-set sizes, separated by commas; those measured where it is not given.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// The preemption length; the longest measured where it is not given.
    #[arg(long, value_name = "TIME")]
    length: Option<Nanos>,
    /// What makes no difference, as a share of the smallest cost; never less than 1 us.
    #[arg(long, value_name = "PERCENT%", default_value = "10%", value_parser = super::quantities::percent)]
    margin: f64,
    /// Which of several series: `page=thp`, `write_ratio=0.5`. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Without polluters on the other CPUs, which take most of the time.
    #[arg(long, requires = "on", help_heading = "Simulated machine (--on NAME or FILE)")]
    idle: bool,
    /// The samples of each cell.
    #[arg(
        long,
        value_name = "N",
        requires = "on",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(2..),
        help_heading = "Simulated machine (--on NAME or FILE)"
    )]
    samples: u32,
    /// The seed of every draw.
    #[arg(
        long,
        value_name = "N",
        requires = "on",
        default_value_t = 1,
        help_heading = "Simulated machine (--on NAME or FILE)"
    )]
    seed: u64,
    /// What preemptions cost the tasks of a set: a table (`corehop report --table csv`), a model, or samples.
    #[arg(
        long,
        value_name = "FILE",
        requires = "file",
        conflicts_with_all = ["wss", "output"],
        help_heading = SET
    )]
    costs: Option<PathBuf>,
    /// Under which load.
    #[arg(long, value_name = "LOAD", requires = "costs", help_heading = SET)]
    load: Option<String>,
    /// By which statistic, in place of the largest cost.
    #[arg(long, value_name = "NAME", requires = "costs", help_heading = SET)]
    statistic: Option<String>,
    /// Write a page: one HTML file with a map of what to do by size and preemption length.
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Print it as JSON.
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
    let wanted = Wanted {
        wss: args.wss.clone(),
        length: args.length,
        margin: args.margin,
        only: args.only.clone(),
    };
    let of =
        |model: &Model| advise(model, &wanted).map_err(|error| Failure::new(Exit::Usage, error));
    let advice = match (&args.file, &args.on) {
        (Some(file), _) => of(&model(file)?)?,
        (None, Some(on)) => simulated(args, on, of)?,
        (None, None) => {
            return Err(Failure::says(Exit::Usage, "give a file, or a platform with --on"));
        }
    };
    if let Some(path) = &args.output {
        let of = args.on.clone().or_else(|| Some(args.file.as_ref()?.display().to_string()));
        let title = format!("Advice from {}", of.unwrap_or_default());
        output::write(path, advice_page::page(&advice, &title))?;
    }
    print(&if args.json {
        format!("{:#}\n", serde_json::json!(advice))
    } else {
        decided::advice(&advice)
    })?;
    Ok(if advice.rules.is_empty() { Exit::No } else { Exit::Done })
}

/// Advice from a simulation, with what dividing the cache would save.
fn simulated(
    args: &Args,
    on: &str,
    advise: impl Fn(&Model) -> Result<Advice, Failure>,
) -> Result<Advice, Failure> {
    if on == "live" {
        let what = "this host is measured, not simulated: give the file of `corehop measure synthetic -o FILE`";
        return Err(Failure::says(Exit::Usage, what));
    }
    let platform = described(on)?;
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
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
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
