// SPDX-License-Identifier: MIT OR Apache-2.0
//! Campaigns: the number of samples that a run takes of each cell, and the end of the run.

pub mod class_quota;
pub mod sampling;
pub mod forecast;
