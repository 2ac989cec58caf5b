// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that name the costs of preemptions and migrations.

use std::path::PathBuf;

use corehop_core::model::costs::{SelectError, Selection, Source};
use corehop_core::units::Nanos;

use super::quantities::pair;
use crate::exit::{Exit, Failure};
use crate::input;

/// The heading of these options in the help.
const HEADING: &str = "What preemptions and migrations cost";

/// The source of costs, and which of them to use.
#[derive(Debug, clap::Args)]
pub(super) struct CostArgs {
    /// Costs by working-set size: a table of `corehop report --table csv`, a model of `corehop fit` (`*.json`), or
    /// samples to fit one to
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(super) costs: Option<PathBuf>,
    /// The background load of the costs
    #[arg(long, value_name = "LOAD", requires = "costs", help_heading = HEADING)]
    load: Option<String>,
    /// The statistic of the costs; default: the largest cost (for a study: all statistics)
    #[arg(long, value_name = "NAME", requires = "costs", help_heading = HEADING)]
    statistic: Option<String>,
    /// The preemption length, for a model or samples; default: the longest measured
    #[arg(long, value_name = "TIME", requires = "costs", help_heading = HEADING)]
    length: Option<Nanos>,
    /// Choose one of several series of a model or samples: `page=thp`, `write_ratio=0.5`
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
    /// Their source, if given.
    pub(super) fn source(&self) -> Result<Option<Source>, Failure> {
        self.costs.as_deref().map(input::costs).transpose()
    }

    /// The part of them to use.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            load: self.load.clone(),
            statistic: self.statistic.clone(),
            length: self.length,
            only: self.only.clone(),
        }
    }
}

impl From<SelectError> for Failure {
    fn from(error: SelectError) -> Self {
        Self::new(Exit::Usage, error)
    }
}
