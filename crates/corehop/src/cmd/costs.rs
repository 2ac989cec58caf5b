// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that name the costs of preemptions and migrations.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use corehop_plan::shown;
use corehop_plan::units::Nanos;
use corehop_stats::costs::{CostSource, Selection};

use super::quantities::pair;
use corehop_app::failure::{Failure, refuse};
use corehop_app::host_costs;
use corehop_app::input;

/// The heading of these options in the help.
pub(super) const HEADING: &str = "What preemptions and migrations cost";

/// The source of costs, and which of them to use.
#[derive(Debug, clap::Args)]
pub(super) struct CostArgs {
    /// Costs by working-set size: a table of `corehop report --table csv`, a model of `corehop advise fit` (`*.json`), or
    /// samples to fit one to. `none` charges nothing. Default: the costs of this host that `corehop advise fit --default`
    /// kept, if there are some
    #[arg(long, value_name = "FILE|none", help_heading = HEADING)]
    costs: Option<PathBuf>,
    #[command(flatten)]
    pub(super) choice: CostChoice,
}

/// Costs, and their origin in a sentence.
#[derive(Debug)]
pub(super) struct ChosenCosts {
    pub(super) source: Option<CostSource>,
    pub(super) origin: String,
}

/// The choice among the costs of a source.
#[derive(Debug, clap::Args)]
pub(super) struct CostChoice {
    /// The background load of the costs
    #[arg(long, value_name = "LOAD", help_heading = HEADING)]
    load: Option<String>,
    /// The statistic of the costs; default: of `check` the highest quantile whose upper end the samples give, otherwise
    /// the largest cost (of a recording the mean, of a study all)
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    statistic: Option<String>,
    /// The preemption length, for a model or samples; default: the longest measured
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    length: Option<Nanos>,
    /// Choose one of several series of a model or samples: `page=thp`, `write_ratio=0.5`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = HEADING)]
    only: Vec<(String, String)>,
}

impl CostChoice {
    /// The choice as words of a command.
    pub(super) fn words(&self) -> Vec<OsString> {
        let named = [
            ("--load", self.load.clone()),
            ("--statistic", self.statistic.clone()),
            ("--length", self.length.map(|it| it.to_string())),
        ];
        let named = named.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let only = self.only.iter().map(|(name, value)| ("--only", format!("{name}={value}")));
        named.chain(only).flat_map(|(option, value)| [option.into(), value.into()]).collect()
    }
}

impl CostArgs {
    /// The file, if one is named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.costs.as_deref().filter(|path| *path != Path::new("none"))
    }

    /// Whether an option says which costs are meant, or that there are none.
    pub(super) const fn is_given(&self) -> bool {
        self.costs.is_some()
    }

    /// The costs: those that are named, those of this host that were kept, or none.
    ///
    /// # Errors
    /// Exit 2 for a choice among costs that are not there; exit 4 for a damaged file, and for kept costs of another machine.
    pub(super) fn chosen(&self) -> Result<ChosenCosts, Failure> {
        let none = |why: String| ChosenCosts { source: None, origin: format!("no costs: {why}") };
        let chosen = match (self.file(), &self.costs) {
            (Some(path), _) => ChosenCosts {
                source: Some(input::costs(path)?),
                origin: format!("costs: {}", shown::path(path)),
            },
            (None, Some(_)) => none("--costs none was given".to_owned()),
            (None, None) => match host_costs::kept()? {
                Some((costs, path)) => ChosenCosts {
                    source: Some(CostSource::Model(costs.model)),
                    origin: format!(
                        "costs: those of this host, measured {}, in {}",
                        costs.date,
                        shown::path(&path)
                    ),
                },
                None => none(format!("none of this host are kept; {}", host_costs::REMEDY)),
            },
        };
        if chosen.source.is_none() {
            self.choice.refuse_without_costs()?;
        }
        Ok(chosen)
    }

    /// The part of them to use.
    pub(super) fn selection(&self) -> Selection {
        self.choice.selection()
    }
}

impl CostChoice {
    /// The part of the costs to use.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            load: self.load.clone(),
            statistic: self.statistic.clone(),
            length: self.length,
            only: self.only.clone(),
        }
    }

    /// Refuses a choice among costs that are not there.
    pub(super) fn refuse_without_costs(&self) -> Result<(), Failure> {
        let given = [
            ("--load", self.load.is_some()),
            ("--length", self.length.is_some()),
            ("--statistic", self.statistic.is_some()),
            ("--only", !self.only.is_empty()),
        ];
        refuse("there are no costs to choose from (--costs FILE)", &given)
    }
}
