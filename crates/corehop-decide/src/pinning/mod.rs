// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pinning a whole program: the sets of CPUs that are worth a try, and whether one of them pays.
//!
//! [`arms`] derives the sets from a platform, [`contest`] decides between them round by round, and [`answer`] is what came of
//! it. All of it is pure: who runs the program, and on which host, is the caller's.

pub mod answer;
pub mod arms;
pub mod contest;
