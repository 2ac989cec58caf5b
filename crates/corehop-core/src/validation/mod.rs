// SPDX-License-Identifier: MIT OR Apache-2.0
//! Validation: what was published of a machine, against the simulated one.

mod numa_home;
pub mod tables;
pub mod aim;
pub mod points;
pub mod gangs;
pub mod claims;
mod studies;
