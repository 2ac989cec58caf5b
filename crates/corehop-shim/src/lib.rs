// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loads system calls of a program that knows nothing of it to other cores.
//!
//! `corehop offload` starts a program with this library preloaded. Its functions bear the names of libc's; a call that
//! qualifies is made by a partner thread on an OS core (`corehop-switch`), every other one by libc. A call that the
//! library misses runs as always: right, only not faster.
//!
//! The functions are there with the feature `preload` alone. Without it the crate is what the command shares with the
//! library: the [`board`] and its [`tally`], the list of [calls](call), and the rules that [decide](predict) and [guard].

pub mod call;
pub mod board;
pub mod tally;
pub mod guard;
pub mod predict;

#[cfg(feature = "preload")]
mod preload;
