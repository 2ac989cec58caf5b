// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether a run is repeatable: finds the defects of its replicates, and tests whether the next run lands in
//! its intervals. `make repeat` uses these checks, and `examples/coverage.rs` prints how often intervals contain a
//! known truth.
#![forbid(unsafe_code)]

pub mod defects;
pub mod landing;
