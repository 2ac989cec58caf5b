// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fast core switching: runs a function on another core and hands the result back.

pub mod policy;
pub mod budget;
mod fault;
mod lane;
#[cfg(all(test, loom))]
mod models;
mod sync;
