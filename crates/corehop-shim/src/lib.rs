// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loads system calls of an unmodified program to other cores.
//!
//! `corehop offload` starts a program with this library preloaded. The library's functions have the names of libc
//! functions. A partner thread on an OS core (`corehop-switch`) executes a qualifying call, and libc executes all
//! other calls. A call that the library misses runs normally: correctly, but not faster.
//!
//! The functions exist only with the feature `preload`. Without the feature, the crate contains what the command
//! shares with the library: the [`board`] and its [`tally`], the list of [calls](call), and the rules that
//! [decide](predict) and [guard].

pub mod call;
pub mod board;
pub mod tally;
pub mod guard;
pub mod predict;

#[cfg(feature = "preload")]
mod preload;
