// SPDX-License-Identifier: MIT OR Apache-2.0
//! Campaigns: how many samples a run takes of which cell, when it ends, and whether it can be repeated.

pub mod class_quota;
pub mod sampling;
pub mod forecast;
pub mod defects;
pub mod landing;
