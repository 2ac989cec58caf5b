// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks of corehop. `make bench` and its siblings run them; `servers/` gets the programs that some of them load.

/// The program that is measured, as `make build` leaves it.
pub const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/corehop");
