// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements that an observed supply proves: the number of observed windows, and the share of all windows that may lose more.

use serde_json::{Value, json};

use super::Supplies;
use corehop_plan::workload::task::Time;

/// The confidence of the bound on the share of windows that may lose more time than the largest observed loss.
const CONFIDENCE: f64 = 0.95;
/// The largest share of windows that may exceed a bound that still counts as a bound, as for costs.
const MOST_BEYOND: f64 = 0.1;

/// The observations behind a supply, for windows up to a length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SupplyClaim {
    /// The length of a window, in nanoseconds.
    pub window_ns: u64,
    /// The largest time lost in a window of this length, in nanoseconds.
    pub lost_ns: u64,
    /// The number of disjoint observed windows of that length, for the CPU with the fewest.
    pub windows: u64,
    /// The number of consecutive windows that cover the longest time of the answer.
    pub parts: u64,
    /// The share of times of `parts` windows that may lose more than was observed, at 95 % confidence, if windows are
    /// alike.
    pub beyond: f64,
}

impl SupplyClaim {
    /// Whether the share `beyond` is small enough that the supply counts as a bound.
    pub fn bounds(&self) -> bool {
        self.beyond <= MOST_BEYOND
    }

    /// Returns the claim as JSON with times in microseconds.
    pub fn json(&self) -> Value {
        json!({
            "window_us": self.window_ns as f64 / 1_000.0,
            "most_lost_us": self.lost_ns as f64 / 1_000.0,
            "windows": self.windows,
            "in_a_row": self.parts,
            "beyond_at_95_percent": self.beyond,
        })
    }

    /// Describes the most that the longest windows lost: `up to 4 ms in 40 ms`.
    pub fn most_lost(&self) -> String {
        format!("up to {} in {}", milliseconds(self.lost_ns), milliseconds(self.window_ns))
    }

    /// Describes the claim as a condition, to follow "if".
    pub fn sentence(&self) -> String {
        let Self { window_ns, lost_ns, windows, parts, .. } = *self;
        let (window, lost) = (milliseconds(window_ns), milliseconds(lost_ns));
        let several = if parts > 1 { format!(", nor {parts} in a row,") } else { String::new() };
        let share = percent(self.beyond.min(1.0));
        let share = if self.bounds() {
            format!("at most {share} of the windows lose more, at 95 % confidence")
        } else {
            format!(
                "up to {share} of the windows may lose more, at 95 % confidence: a longer `corehop measure supply` lowers this share"
            )
        };
        format!(
            "no window up to {window}{several} loses more than the most seen at its length ({lost} in any of \
             {windows} of {window}; {share})"
        )
    }
}

/// The share of values that may lie above the largest of `n` observations, at 95 % confidence (Wilks 1941; with no
/// exceedance among `n`, this is the bound of Clopper and Pearson).
fn beyond(n: u64) -> f64 {
    if n == 0 { 1.0 } else { 1.0 - (1.0 - CONFIDENCE).powf(1.0 / n as f64) }
}

impl Supplies {
    /// Returns the observations behind an answer about times up to `longest`, in units of `unit_ns`; `None` if the
    /// supply is stated.
    pub fn claim(&self, longest: Time, unit_ns: u64) -> Option<SupplyClaim> {
        let asked = longest.ticks().saturating_mul(unit_ns).max(1);
        let known = self.watched.values().map(super::WindowCensus::longest).min()?;
        let window_ns = asked.min(known).max(1);
        let parts = asked.div_ceil(window_ns);
        let windows = self.watched.values().map(|it| it.windows_of(window_ns)).min()?;
        let lost_ns = self.worst.in_units_of(1).lost(Time::new(window_ns)).ticks();
        let beyond = (beyond(windows) * parts as f64).min(1.0);
        Some(SupplyClaim { window_ns, lost_ns, windows, parts, beyond })
    }
}

/// Formats a share as percent, rounded up to two digits.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent >= 10.0 {
        0
    } else if percent >= 1.0 {
        1
    } else {
        2
    };
    let scale = 10_f64.powi(digits);
    format!("{} %", (percent * scale).ceil() / scale)
}

/// Formats nanoseconds as milliseconds, rounded up to microseconds.
fn milliseconds(ns: u64) -> String {
    match ns.div_ceil(1_000) {
        us @ 0..1_000 => format!("{us} us"),
        us => format!("{} ms", us as f64 / 1_000.0),
    }
}
