// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns each task to one CPU or one cluster of CPUs: packing, exact assignment, and splitting.

mod admission;
pub mod packing;
pub mod exhaustive;
pub mod edf_os;
pub mod split;
pub mod given;

pub use admission::Admission;
pub(crate) use admission::{analysed, payer, responses, responses_by_blocks, responses_by_pairs};
pub use packing::{Fit, Packing};
