// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux as seen by a process: its own threads and signals, clocks, the text of `/proc`, the description of the host,
//! and a way to revert every change to the system. This crate makes no measurements.

pub mod proc;
pub mod clock;
pub mod rights;
pub mod flock;
pub mod folders;
pub mod discover;
pub mod supervisor;
pub mod thread;
