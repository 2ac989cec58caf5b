// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preloaded library.
//!
//! `names` has the functions that stand before libc's, `course` the way of one call, `thread` a thread's partner,
//! `attempt` what the partner does, `rest` what is left to do here, `process` the state of the process, `cpus` the CPUs
//! of its threads, `files` what may be waited for there, `private` the functions after which a thread differs from its partner.

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
