// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions: pure functions of models.

pub mod class_quota;
pub mod defects;
pub mod landing;
pub mod sampling;
pub mod forecast;
pub mod costs;
pub mod run_cost;
pub mod sched;
pub mod simulated;
pub mod advice;
pub mod claims;
pub mod comparison;
mod numa_home;
pub mod validation;
pub mod aim;
pub mod points;
pub mod gang_study;
mod studies;
