// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medians of blocks, as figures.

use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::median_interval;
use serde_json::{Value, json};

/// A median with its 95 % interval, whose ends are missing where the values are too few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Median {
    pub(crate) value: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

impl Median {
    /// None without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let values = Ordered::new(values).ok()?;
        let median = median_interval(&values, 0.05).ok()?;
        Some(Self { value: median.estimate, low: median.low, high: median.high })
    }

    /// As a figure of the list.
    pub(crate) fn figure(self, name: &str, unit: &str) -> Value {
        json!({"name": name, "value": self.value, "unit": unit, "low": self.low, "high": self.high})
    }
}
