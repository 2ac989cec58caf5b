// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistical models: statements about samples, with intervals.
//!
//! Every function in this crate is pure: values in, statements out, and equal results for equal
//! seeds. If the data do not support a statement, the result is None, an error or "cannot tell",
//! never a number.
#![forbid(unsafe_code)]

pub mod ordered;
pub mod distance;
pub mod binomial;
#[cfg(test)]
mod draw;
pub mod quantile;
pub mod moments;
pub mod tail;
pub mod sequential;
pub mod paired;
pub mod ratio;
pub mod replicates;
pub mod recording;
pub mod compare;
pub mod verdict;
#[cfg(test)]
pub(crate) mod example;
pub mod estimator;
pub mod summarise;
pub mod cell;
pub mod classes;
pub mod restless;
pub mod delay;
pub mod summary;
pub mod conditions;
pub mod access;
pub mod lengths;
pub mod overheads;
pub mod program_costs;
pub mod gangs;
pub mod gain;
pub mod misses;
pub mod contacts;
pub mod switches;
pub mod tasks;
pub mod budget;
pub mod balance;
pub mod saturation;
pub mod scatter;
pub mod control;
pub mod company;
pub mod headline;
pub mod cpmd;
pub mod jobs;
pub mod costs;
pub mod machine_gain;
pub mod pair_gain;
pub mod campaign;
