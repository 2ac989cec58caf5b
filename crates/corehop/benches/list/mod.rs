// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of figures that the benchmarks of all crates share, `out/bench.json`.

use std::path::Path;

use corehop_core::model::ordered::Ordered;
use corehop_core::model::quantile::median_interval;
use serde_json::{Value, json};

/// Tells figures, and puts them into the list in place of earlier ones of the same names.
pub(crate) fn put(figures: Vec<Value>, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for figure in &figures {
        eprintln!("{figure}");
    }
    let mut list: Vec<Value> = match std::fs::read_to_string(out) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Vec::new(),
    };
    list.retain(|figure| figures.iter().all(|new| new["name"] != figure["name"]));
    list.extend(figures);
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(out, format!("{:#}\n", Value::from(list)))?;
    eprintln!("{}", out.display());
    Ok(())
}

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
