// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that say what preemptions and migrations cost.

use std::path::{Path, PathBuf};

use corehop_core::decision::costs::{CostTable, SelectError, Selection, Source};
use corehop_core::units::Nanos;

use super::fit::model;
use super::predict::pair;
use crate::exit::{Exit, Failure};

/// Where these options are listed.
const HEADING: &str = "What preemptions and migrations cost";

/// Where costs come from, and which of them are meant.
#[derive(Debug, clap::Args)]
pub(super) struct CostArgs {
    /// What preemptions and migrations cost a working set: a table (`corehop report --table csv` writes such), a
    /// model that `corehop fit` wrote (`*.json`), or samples to fit one to
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(super) costs: Option<PathBuf>,
    /// Under which load
    #[arg(
        long,
        value_name = "LOAD",
        requires = "costs",
        help_heading = HEADING
    )]
    load: Option<String>,
    /// By which statistic, in place of the largest cost (for a study: of all that there are)
    #[arg(
        long,
        value_name = "NAME",
        requires = "costs",
        help_heading = HEADING
    )]
    statistic: Option<String>,
    /// After which preemption length, by a model or samples; the longest measured where it is not given
    #[arg(
        long,
        value_name = "TIME",
        requires = "costs",
        help_heading = HEADING
    )]
    length: Option<Nanos>,
    /// Which of several series of a model or samples: `page=thp`, `write_ratio=0.5`
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = pair,
        requires = "costs",
        help_heading = HEADING
    )]
    only: Vec<(String, String)>,
}

impl CostArgs {
    /// Where they come from, if that was said.
    pub(super) fn source(&self) -> Result<Option<Source>, Failure> {
        self.costs.as_deref().map(source).transpose()
    }

    /// Which of them are meant.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            load: self.load.clone(),
            statistic: self.statistic.clone(),
            length: self.length,
            only: self.only.clone(),
        }
    }
}

/// The costs in a file: a table where its name ends in `.csv`.
pub(super) fn source(path: &Path) -> Result<Source, Failure> {
    if path.extension().is_none_or(|extension| extension != "csv") {
        return model(path).map(Source::Model);
    }
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Usage, error).context(named()))?;
    let table = CostTable::parse(&text);
    table.map(Source::Table).map_err(|error| Failure::new(Exit::Damaged, error).context(named()))
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        Self::new(Exit::Usage, error)
    }
}
