// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux as a process sees it: its own threads and signals, clocks, the text of `/proc`, the description of the host, and a way
//! back from every change of the system. Nothing here measures.

pub mod proc;
pub mod clock;
pub mod rights;
pub mod flock;
pub mod folders;
pub mod discover;
pub mod supervisor;
pub mod thread;
