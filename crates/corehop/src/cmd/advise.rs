// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise`

use std::path::PathBuf;

use corehop_core::decision::advice::{Wanted, advise};
use corehop_core::report::decided;
use corehop_core::units::{Bytes, Nanos};

use super::fit::model;
use super::predict::pair;
use crate::answer::print;
use crate::exit::{Exit, Failure};

/// What a scheduler should do on a machine: let a job be preempted or move it, where to, from which
/// preemption length on; which migrations to avoid; the constants that schedulers ask for.
///
/// Exit code 1: nothing was measured that carries an advice.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Samples of the machine, live or simulated, or a model that `corehop fit` wrote (`*.json`).
    #[arg(value_name = "FILE.parquet|MODEL.json")]
    file: PathBuf,
    /// The working-set sizes, separated by commas; those measured where it is not given.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// The preemption length; the longest measured where it is not given.
    #[arg(long, value_name = "TIME")]
    length: Option<Nanos>,
    /// What makes no difference, as a share of the smallest cost; never less than 1 us.
    #[arg(long, value_name = "PERCENT%", default_value = "10%", value_parser = super::measure::percent)]
    margin: f64,
    /// Which of several series: `page=thp`, `write_ratio=0.5`. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let model = model(&args.file)?;
    let wanted = Wanted {
        wss: args.wss.clone(),
        length: args.length,
        margin: args.margin,
        only: args.only.clone(),
    };
    let advice = advise(&model, &wanted).map_err(|error| Failure::new(Exit::Usage, error))?;
    print(&if args.json {
        format!("{:#}\n", serde_json::json!(advice))
    } else {
        decided::advice(&advice)
    })?;
    Ok(if advice.rules.is_empty() { Exit::No } else { Exit::Done })
}
