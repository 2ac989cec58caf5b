// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printed values beside simulated ones, to be drawn.

use corehop_decide::validation::aim::ErrorQuantiles;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::JudgementRole;

/// Values that belong into one drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// A name for links.
    pub id: String,
    /// The title.
    pub title: String,
    /// Their unit.
    pub unit: String,
    /// Whether they are drawn on logarithmic axes, and from which value on.
    pub log: bool,
    /// See `log`.
    pub least: f64,
    /// The median error that is aimed at, if there is an aim.
    pub limit: Option<f64>,
    /// The law of errors.
    pub law: ErrorLaw,
    /// The values.
    pub dots: Vec<Dot>,
    /// The errors of values that judge.
    pub judged: Option<ErrorQuantiles>,
}

/// A printed value and a simulated one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// The property it shares with others: an event, a quantity.
    pub series: String,
    /// Its name.
    pub label: String,
    /// The printed value.
    pub printed: f64,
    /// The simulated value.
    pub simulated: f64,
    /// The part it has in the judgement.
    pub role: JudgementRole,
}
