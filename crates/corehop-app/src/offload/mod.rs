// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of off-load: for a program that has run, and for a simulated machine.

mod answer;
mod simulated;

pub use answer::{KernelCoverage, OffloadAnswer, Offloaded, of, words};
pub use simulated::{simulate, simulated_time};
