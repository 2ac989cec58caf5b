// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live machine of corehop, and everything that asks Linux.

pub mod proc;
pub mod bpf;
pub mod clock;
pub mod rights;
pub mod flock;
pub mod folders;
pub mod counters;
pub mod discover;
mod limits;
mod duty;
pub mod live;
mod mapped;
mod group_memory;
pub mod memory;
mod set_memory;
pub mod observe;
mod overheads;
pub mod control_page;
mod perf_event;
pub mod offload;
mod pages;
pub mod placing;
pub mod preflight;
pub mod probe;
pub mod rseq;
pub mod supervisor;
mod switches;
pub mod thread;
pub mod walk;
