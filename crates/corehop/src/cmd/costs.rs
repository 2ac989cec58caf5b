// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that name the costs of preemptions and migrations.

use std::path::PathBuf;

use corehop_plan::units::Nanos;
use corehop_stats::costs::Selection;

use corehop_app::costs::CostRequest;
use corehop_app::quantities::pair;

/// The heading of these options in the help.
pub(super) const HEADING: &str = "What preemptions and migrations cost";

/// The options for the source of costs and for the choice among the costs.
#[derive(Debug, clap::Args)]
pub(super) struct CostArgs {
    /// Take the costs by working-set size from this file: a table of `corehop report --table csv`, a model of
    /// `corehop advise fit` (`*.json`), or samples to which corehop fits a model. `none` charges nothing. By default,
    /// corehop takes the costs of this host that `corehop advise fit --default` stored, if any
    #[arg(long, value_name = "FILE|none", help_heading = HEADING)]
    costs: Option<PathBuf>,
    #[command(flatten)]
    choice: CostChoice,
}

/// The options that choose among the costs of a source.
#[derive(Debug, clap::Args)]
struct CostChoice {
    /// Use the costs under this background load
    #[arg(long, value_name = "LOAD", help_heading = HEADING)]
    load: Option<String>,
    /// Use this statistic of the costs. By default, `corehop check` uses the highest quantile with an upper end,
    /// otherwise the largest cost; a recording uses the mean, and a study uses all statistics
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    statistic: Option<String>,
    /// Use the costs after preemptions of this length, if a model or samples give the costs; default: the longest
    /// measured length
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    length: Option<Nanos>,
    /// Select one of several series of a model or samples by the value of a column, for example `page=thp`,
    /// `write_ratio=0.5`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = HEADING)]
    only: Vec<(String, String)>,
}

impl CostArgs {
    /// The requested costs of preemptions and migrations.
    pub(super) fn request(&self) -> CostRequest {
        let CostChoice { load, statistic, length, only } = &self.choice;
        let choice = Selection {
            load: load.clone(),
            statistic: statistic.clone(),
            length: *length,
            only: only.clone(),
        };
        CostRequest { named: self.costs.clone(), choice }
    }
}
