// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library that is preloaded into programs.
//!
//! `names` contains the functions that replace libc's. `course` handles one call, `thread` a thread's partner,
//! `attempt` the partner's work, and `rest` the work left for the caller. `process` holds the state of the process,
//! `cpus` sets the CPUs of its threads, `files` decides what a partner may wait for, and `private` handles functions
//! after which a thread differs from its partner.

mod attempt;
mod course;
mod cpus;
mod files;
mod kernel;
mod names;
mod private;
mod process;
mod real;
mod rest;
mod thread;
