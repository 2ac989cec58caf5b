// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions as pure functions of models: advice, comparison, placement, calibration and
//! validation.
#![forbid(unsafe_code)]

pub mod kept;
pub mod run_cost;
pub mod simulated;
pub mod advice;
pub mod gate;
pub mod comparison;
pub mod hyperfine;
pub mod collected;
pub mod program_runs;
pub mod move_cost;
pub mod wake_cost;
pub mod placer;
pub mod pinning;
pub mod calibration;
pub mod validation;
pub mod example;
