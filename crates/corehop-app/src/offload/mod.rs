// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of off-load: of a program that has run, and of a simulated machine.

mod answer;
mod simulated;

pub use answer::{KernelCoverage, OffloadAnswer, Offloaded, of, words};
pub use simulated::{simulate, simulated_time};
