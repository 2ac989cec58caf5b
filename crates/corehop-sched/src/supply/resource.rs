// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stated supply: a periodic resource, like a guest whose virtual CPU has a quota (Shin and Lee, RTSS 2003).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Supplies, Supply};
use corehop_plan::bounds;
use corehop_plan::units::CpuList;

/// The longest period, in microseconds.
const LONGEST_US: f64 = 1e12;

/// The source text for a stated supply.
const STATED: &str = "Each CPU has the stated budget in every period, at any time of the period.";

/// A budget in each period, for each of the listed CPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    cpus: CpuList,
    period_us: f64,
    budget_us: f64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Resources {
    One(Resource),
    Some(Vec<Resource>),
}

/// The error for a text that states no supply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; expected {{\"cpus\": \"0-1\", \"period_us\": 10000, \"budget_us\": 8000}}, or a list of such objects"
)]
pub struct ResourceError(String);

/// Parses the supply that a text states: a budget that each CPU has in every period, at any time of the period.
///
/// # Errors
/// Returns [`ResourceError`] for other texts, and for values that no CPU can have.
pub fn resources(text: &str) -> Result<Supplies, ResourceError> {
    let stated: Resources =
        bounds::from_json(text).map_err(|error| ResourceError(error.to_string()))?;
    let all = match stated {
        Resources::One(it) => vec![it],
        Resources::Some(all) => all,
    };
    let mut cpus = BTreeMap::new();
    for it in &all {
        let supply = it.supply()?;
        for cpu in it.cpus.iter() {
            if cpus.insert(cpu.0, supply.clone()).is_some() {
                return Err(ResourceError(format!("cpus: CPU {} is stated twice", cpu.0)));
            }
        }
    }
    if cpus.is_empty() {
        return Err(ResourceError("cpus: no CPU is named".to_owned()));
    }
    Ok(Supplies::of(cpus, BTreeMap::new(), STATED))
}

impl Resource {
    /// In the worst case the budget comes first in one period and last in all following periods.
    fn supply(&self) -> Result<Supply, ResourceError> {
        let Self { period_us, budget_us, .. } = *self;
        let wrong = |field: &str, value: f64, expected: &str| {
            Err(ResourceError(format!("{field}: {value} is not {expected}")))
        };
        if !(0.001..=LONGEST_US).contains(&period_us) {
            return wrong("period_us", period_us, "a time from 0.001 to 1e12 us");
        }
        if !(0.001..=period_us).contains(&budget_us) {
            return wrong("budget_us", budget_us, "a time from 0.001 us to the period");
        }
        let period = (period_us * 1_000.0).ceil() as u64;
        let missing = period - (budget_us * 1_000.0).floor() as u64;
        let windows = [(2 * missing, 2 * missing), (2 * missing + period, 3 * missing)];
        Ok(Supply::new(windows, 2 * missing + period, Some((period, missing)), 0))
    }
}
