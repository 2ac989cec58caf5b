// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printed values with the corresponding simulated values, for a drawing.

use corehop_decide::validation::aim::ErrorQuantiles;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::JudgementRole;

/// The values of one drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// The name of the drawing for links.
    pub id: String,
    /// The title of the drawing.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// Whether the axes are logarithmic.
    pub log: bool,
    /// The value from which a logarithmic axis is logarithmic.
    pub least: f64,
    /// The median error that the simulation should reach; None without such an aim.
    pub limit: Option<f64>,
    /// The law by which errors are computed.
    pub law: ErrorLaw,
    /// The values.
    pub dots: Vec<Dot>,
    /// The quantiles of the errors of the values that count for the judgement.
    pub judged: Option<ErrorQuantiles>,
}

/// A printed value with the corresponding simulated value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// The property that the value shares with others, such as its event or quantity.
    pub series: String,
    /// The name of the value.
    pub label: String,
    /// The printed value.
    pub printed: f64,
    /// The simulated value.
    pub simulated: f64,
    /// The role of the value in the judgement.
    pub role: JudgementRole,
}
