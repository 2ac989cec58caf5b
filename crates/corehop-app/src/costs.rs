// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of preemptions and migrations: those that a request names, or those stored for this host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use corehop_decide::move_cost::MoveCosts;
use corehop_plan::shown;
use corehop_stats::costs::{CostSource, Selection};

use crate::failure::{Failure, refuse};
use crate::host_costs;
use crate::input;

/// The name of the load of an otherwise idle host, selected if a file has several loads.
pub const IDLE: &str = "idle";

/// The source of costs, and which of them to use.
#[derive(Debug, Clone, Default)]
pub struct CostRequest {
    /// A file, or `none`; `None` selects the costs stored for this host.
    pub named: Option<PathBuf>,
    /// The selection among the costs.
    pub choice: Selection,
}

/// Costs, with a sentence about their origin.
#[derive(Debug)]
pub struct ChosenCosts {
    /// The costs, or `None` if there are none.
    pub source: Option<CostSource>,
    /// The file that the costs come from, or the reason why there are none.
    pub origin: String,
}

impl CostRequest {
    /// Returns the named file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.named.as_deref().filter(|path| *path != Path::new("none"))
    }

    /// Returns whether the request names costs, or says that there are none.
    pub const fn is_given(&self) -> bool {
        self.named.is_some()
    }

    /// Returns the named costs, the costs stored for this host, or no costs.
    ///
    /// # Errors
    /// Fails with exit code 2 for a selection without costs, and with exit code 4 for a damaged file or for stored
    /// costs of another machine.
    pub fn chosen(&self) -> Result<ChosenCosts, Failure> {
        let none = |why: String| ChosenCosts { source: None, origin: format!("no costs: {why}") };
        let chosen = match (self.file(), &self.named) {
            (Some(path), _) => ChosenCosts {
                source: Some(input::costs(path)?),
                origin: format!("costs: {}", shown::path(path)),
            },
            (None, Some(_)) => none("--costs none was given".to_owned()),
            (None, None) => match host_costs::kept()? {
                Some((costs, path)) => ChosenCosts {
                    source: Some(CostSource::Model(costs.model)),
                    origin: format!(
                        "costs of this host, measured {}, in {}",
                        costs.date,
                        shown::path(&path)
                    ),
                },
                None => none(format!("this host has no stored costs; {}", host_costs::REMEDY)),
            },
        };
        if chosen.source.is_none() {
            self.refuse_without_costs()?;
        }
        Ok(chosen)
    }

    /// Returns the costs of migrating a thread; assumed costs if there are none. The thread's working set size is
    /// unknown at this point.
    ///
    /// # Errors
    /// Fails with exit code 4 for a file without costs, and with exit code 2 if the selection is ambiguous.
    pub fn of_moves(&self) -> Result<MoveCosts, Failure> {
        let chosen = self.chosen()?;
        let Some(source) = chosen.source else { return Ok(MoveCosts::ASSUMED) };
        let usual = || source.loads().contains(&IDLE).then(|| IDLE.to_owned());
        let load = self.choice.load.clone().or_else(usual);
        let selection = Selection { load, ..self.choice.clone() };
        let selected = source.selected(&selection);
        let selected = selected.map_err(|error| Failure::from(error).context(chosen.origin))?;
        Ok(MoveCosts::of(selected.costs.as_ref(), None))
    }

    /// Rejects a selection if there are no costs.
    ///
    /// # Errors
    /// Fails with exit code 2, and names the option to leave out.
    pub fn refuse_without_costs(&self) -> Result<(), Failure> {
        let given = [
            ("--load", self.choice.load.is_some()),
            ("--length", self.choice.length.is_some()),
            ("--statistic", self.choice.statistic.is_some()),
            ("--only", !self.choice.only.is_empty()),
        ];
        refuse("there are no costs to choose from (--costs FILE)", &given)
    }

    /// The background load that the request names.
    pub(crate) fn load(&self) -> Option<&str> {
        self.choice.load.as_deref()
    }

    /// The selection as command-line words.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let choice = &self.choice;
        let named = [
            ("--load", choice.load.clone()),
            ("--statistic", choice.statistic.clone()),
            ("--length", choice.length.map(|length| length.to_string())),
        ];
        let named = named.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let only = choice.only.iter().map(|(name, value)| ("--only", format!("{name}={value}")));
        named.chain(only).flat_map(|(option, value)| [option.into(), value.into()]).collect()
    }
}
