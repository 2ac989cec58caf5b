// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printed values with the corresponding simulated values, for a drawing.

use corehop_decide::validation::aim::ErrorQuantiles;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::JudgementRole;

/// The printed and simulated values that one drawing compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// The name of the drawing for links.
    pub id: String,
    /// The title above the drawing.
    pub title: String,
    /// The unit in which the values are given.
    pub unit: String,
    /// Whether the axes of the drawing are logarithmic.
    pub log: bool,
    /// The smallest value from which a logarithmic axis can start.
    pub least: f64,
    /// The median error that the simulation should reach, or `None` if the study has no aim.
    pub limit: Option<f64>,
    /// Whether the quantity reaches the aim of its study, or `None` if the study has no aim, or too few samples.
    pub reached: Option<bool>,
    /// The law by which errors are computed.
    pub law: ErrorLaw,
    /// The printed and simulated values of the drawing.
    pub dots: Vec<Dot>,
    /// The quantiles of the errors of the values that count for the judgement.
    pub judged: Option<ErrorQuantiles>,
}

/// A printed value with the corresponding simulated value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// The property that the value shares with others, such as its event or quantity.
    pub series: String,
    /// The name of the value in the drawing.
    pub label: String,
    /// The value that the study printed.
    pub printed: f64,
    /// The value that the simulated machine gave.
    pub simulated: f64,
    /// The role of the value in the judgement.
    pub role: JudgementRole,
}
