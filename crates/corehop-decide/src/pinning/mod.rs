// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pinning a whole program: which sets of CPUs are worth trying, and whether one of them makes the program faster.
//!
//! [`arms`] derives the sets from a platform, [`contest`] decides between them round by round, and [`answer`]
//! describes the result. These modules are pure: the caller runs the program and chooses the host.

pub mod answer;
pub mod arms;
pub mod contest;
