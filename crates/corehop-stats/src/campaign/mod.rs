// SPDX-License-Identifier: MIT OR Apache-2.0
//! Campaigns: how many samples a run takes of which cell, and when it ends.

pub mod class_quota;
pub mod sampling;
pub mod forecast;
