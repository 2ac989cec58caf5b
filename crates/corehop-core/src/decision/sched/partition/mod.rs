// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each task on one CPU, or in one cluster of CPUs: packing, exact assignment, and splitting.

pub mod exhaustive;
pub mod packing;
pub mod edf_os;
pub mod split;

pub use packing::{Admission, Fit, Packing};
