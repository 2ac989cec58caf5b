// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of costs, and the selection of costs from a source.

use std::collections::BTreeSet;

use super::ranked::{RankedCosts, SampledCosts, is_named};
use super::{CostTable, EventCosts, ModelCosts, ProgramPrices};
use crate::cpmd::{DelayModel, Statistic};
use corehop_plan::units::Nanos;

/// A source of costs: a table, a model, or a program.
#[derive(Debug, Clone, PartialEq)]
pub enum CostSource {
    /// The source is a summary table.
    Table(CostTable),
    /// The source is a model that `corehop advise fit` made.
    Model(DelayModel),
    /// The source is a result of events that corehop caused in a program.
    Program(ProgramPrices),
}

/// The selection of the costs that an answer uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// The background load that is selected, or `None` for the source's only load.
    pub load: Option<String>,
    /// The statistic that is selected. If the field is `None`, a single answer uses the largest cost (the mean for a
    /// program), and several answers use all statistics (mean and largest for a model).
    pub statistic: Option<String>,
    /// The preemption length, for all sources except tables, or `None` for the longest measured length.
    pub length: Option<Nanos>,
    /// The names and values of a model's series for fields other than load and statistic.
    pub only: Vec<(String, String)>,
}

/// The selected costs, for one load and one statistic.
pub struct Selected<'a> {
    /// The background load of the selected costs.
    pub load: String,
    /// The statistic of the selected costs.
    pub statistic: String,
    /// The costs that the selection matched.
    pub costs: Box<dyn EventCosts + Send + 'a>,
}

impl std::fmt::Debug for Selected<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Selected({} {})", self.load, self.statistic)
    }
}

/// The reason why a selection matches no costs, or more than one kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The source has several loads, and the selection names none.
    #[error("the costs have several loads: choose one of {0} with --load")]
    Loads(String),
    /// The source has no costs for the selection.
    #[error("there are no costs of {sought}, only of {known}")]
    Unknown {
        /// The load and the statistic of the selection.
        sought: String,
        /// The loads and statistics that the source has.
        known: String,
    },
    /// The selection has an option that the costs of a table do not distinguish.
    #[error(
        "{0} chooses among the costs of a model or of samples: the costs given have no such choice"
    )]
    NotOfATable(&'static str),
    /// The costs are means, but a verdict needs bounds.
    #[error(
        "the costs of a program are means, and a verdict on deadlines needs bounds: use `--statistic mean` to charge the means anyway"
    )]
    MeansAlone,
}

impl Selection {
    /// Rejects a choice among series, which only models have.
    fn refuse_series(&self) -> Result<(), SelectError> {
        if self.only.is_empty() { Ok(()) } else { Err(SelectError::NotOfATable("--only")) }
    }

    /// Rejects a choice among lengths, which tables lack.
    fn refuse_length(&self) -> Result<(), SelectError> {
        if self.length.is_none() { Ok(()) } else { Err(SelectError::NotOfATable("--length")) }
    }
}

impl CostSource {
    /// Returns the loads for which the source has costs.
    pub fn loads(&self) -> Vec<&str> {
        let loads: BTreeSet<&str> = match self {
            Self::Table(table) => table.selections().map(|(load, ..)| load).collect(),
            Self::Model(model) => {
                model.curves.iter().map(|curve| curve.series.key.load.as_str()).collect()
            }
            Self::Program(_) => BTreeSet::from([ProgramPrices::LOAD]),
        };
        loads.into_iter().collect()
    }

    /// Returns the selected costs, for a single answer.
    ///
    /// # Errors
    /// Returns [`SelectError`] if the selection matches several kinds of costs, or none.
    pub fn selected(&self, wanted: &Selection) -> Result<Selected<'_>, SelectError> {
        let loads = self.loads();
        let load = match (&wanted.load, loads.as_slice()) {
            (Some(load), _) => load,
            (None, [one]) => *one,
            (None, several) => return Err(SelectError::Loads(several.join(", "))),
        };
        let usual = if let Self::Program(_) = self { ProgramPrices::STATISTIC } else { "max" };
        let statistic = wanted.statistic.as_deref().unwrap_or(usual);
        let exact = Selection {
            load: Some(load.to_owned()),
            statistic: Some(statistic.to_owned()),
            ..wanted.clone()
        };
        let found = self.selections(&exact)?.into_iter().next();
        found.ok_or_else(|| self.unknown(&exact))
    }

    /// Returns the selected costs for a verdict on deadlines: for the named statistic, or else for all quantiles and
    /// the largest observed cost. The costs of a table that states no numbers of samples count as bounds.
    ///
    /// # Errors
    /// Returns [`SelectError`] if the selection matches several kinds of costs, or none.
    pub fn for_a_verdict(&self, wanted: &Selection) -> Result<Selected<'_>, SelectError> {
        if matches!(self, Self::Program(_)) && wanted.statistic.is_none() {
            return Err(SelectError::MeansAlone);
        }
        let mut all = self.sampled(wanted)?;
        if let Some(name) = &wanted.statistic {
            if is_named(name) {
                let quantiles = vec![(name.clone(), self.sampled(wanted)?.costs)];
                all.costs = Box::new(RankedCosts { quantiles, largest: all.costs });
            }
            return Ok(all);
        }
        let of = |name: &&str| {
            let statistic = Some((*name).to_owned());
            let load = Some(all.load.clone());
            let of = Selection { load, statistic, ..wanted.clone() };
            Some(((*name).to_owned(), self.sampled(&of).ok()?.costs))
        };
        let quantiles: Vec<_> = self.quantiles(&all.load).iter().filter_map(of).collect();
        if !quantiles.is_empty() {
            all.costs = Box::new(RankedCosts { quantiles, largest: all.costs });
        }
        Ok(all)
    }

    /// Returns the quantiles that the samples of a source can have, highest first; empty for a table that states no
    /// numbers of samples.
    fn quantiles(&self, load: &str) -> &'static [&'static str] {
        match self {
            Self::Model(_) => &["p99", "p90", "median"],
            Self::Table(table) if table.select(load, "n").is_some() => {
                &["p999", "p99", "p90", "p50"]
            }
            Self::Table(_) | Self::Program(_) => &[],
        }
    }

    /// Returns the selected costs as for [`CostSource::selected`], with the upper ends that a table states.
    fn sampled(&self, wanted: &Selection) -> Result<Selected<'_>, SelectError> {
        let mut selected = self.selected(wanted)?;
        if let Self::Table(table) = self
            && let Some(costs) = SampledCosts::of(table, &selected.load, &selected.statistic)
        {
            selected.costs = Box::new(costs);
        }
        Ok(selected)
    }

    /// Returns all costs that the selection matches.
    ///
    /// # Errors
    /// Returns [`SelectError`] if the selection matches no costs.
    pub fn selections(&self, wanted: &Selection) -> Result<Vec<Selected<'_>>, SelectError> {
        let is =
            |sought: &Option<String>, it: &str| sought.as_deref().is_none_or(|word| word == it);
        let found: Vec<Selected<'_>> = match self {
            Self::Table(table) => {
                wanted.refuse_length().and_then(|()| wanted.refuse_series())?;
                let meant = |&(load, statistic, _): &(&str, &str, _)| {
                    is(&wanted.load, load) && is(&wanted.statistic, statistic)
                };
                let meant = table.selections().filter(meant);
                let of = |(load, statistic, costs): (&str, &str, _)| Selected {
                    load: load.to_owned(),
                    statistic: statistic.to_owned(),
                    costs: Box::new(costs),
                };
                meant.map(of).collect()
            }
            Self::Model(model) => {
                let statistics: Vec<Statistic> = match &wanted.statistic {
                    Some(word) => word.parse().into_iter().collect(),
                    None => vec![Statistic::Mean, Statistic::Max],
                };
                let loads = self.loads().into_iter().filter(|load| is(&wanted.load, load));
                let of = |load: &str, statistic: Statistic| Selected {
                    load: load.to_owned(),
                    statistic: statistic.word().to_owned(),
                    costs: Box::new(ModelCosts::new(
                        model,
                        load,
                        statistic,
                        wanted.length,
                        &wanted.only,
                    )),
                };
                loads.flat_map(|load| statistics.iter().map(move |&it| of(load, it))).collect()
            }
            Self::Program(prices) => {
                wanted.refuse_series()?;
                let [load, statistic] = [ProgramPrices::LOAD, ProgramPrices::STATISTIC];
                let is_meant = is(&wanted.load, load) && is(&wanted.statistic, statistic);
                let of = || Selected {
                    load: load.to_owned(),
                    statistic: statistic.to_owned(),
                    costs: Box::new(prices.after(wanted.length)),
                };
                is_meant.then(of).into_iter().collect()
            }
        };
        if found.is_empty() { Err(self.unknown(wanted)) } else { Ok(found) }
    }

    fn unknown(&self, wanted: &Selection) -> SelectError {
        let word = |it: &Option<String>| it.clone().unwrap_or_else(|| "any".to_owned());
        let known: Vec<String> = match self {
            Self::Table(table) => {
                table.selections().map(|(load, what, _)| format!("{load} {what}")).collect()
            }
            Self::Program(_) => {
                vec![format!("{} {}", ProgramPrices::LOAD, ProgramPrices::STATISTIC)]
            }
            Self::Model(_) => {
                let statistics: Vec<&str> = Statistic::ALL.iter().map(|it| it.word()).collect();
                vec![format!("{}, each by {}", self.loads().join(", "), statistics.join(", "))]
            }
        };
        SelectError::Unknown {
            sought: format!("{} {}", word(&wanted.load), word(&wanted.statistic)),
            known: known.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::Event;

    fn source() -> CostSource {
        let text = "load,event,statistic,wss_kib,cost_us\n\
            idle,preemption,max,64,10\nbusy,preemption,max,64,20\nbusy,preemption,avg,64,5\n";
        CostSource::Table(CostTable::parse(text).unwrap())
    }

    fn of(load: Option<&str>, statistic: Option<&str>) -> Selection {
        let owned = |it: Option<&str>| it.map(ToOwned::to_owned);
        Selection { load: owned(load), statistic: owned(statistic), ..Selection::default() }
    }

    #[test]
    fn one_answer_needs_one_load_and_takes_the_largest_cost() {
        let source = source();
        assert_eq!(
            source.selected(&of(None, None)).unwrap_err(),
            SelectError::Loads("busy, idle".to_owned())
        );
        let busy = source.selected(&of(Some("busy"), None)).unwrap();
        assert_eq!(busy.costs.cost(Event::Preemption, 1.0).map(|it| it.us), Ok(20.0));
        assert_eq!(source.selections(&of(Some("busy"), None)).unwrap().len(), 2);
        assert_eq!(source.selections(&Selection::default()).unwrap().len(), 3);
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let error = source().selected(&of(Some("idle"), Some("p99"))).unwrap_err().to_string();
        assert!(error.contains("idle p99") && error.contains("busy avg"), "{error}");
        let long = Selection { length: Some(Nanos::new(1)), ..Selection::default() };
        assert!(source().selections(&long).unwrap_err().to_string().contains("--length"));
    }
}
