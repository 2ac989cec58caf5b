// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live machine of corehop, and everything that asks Linux.

pub mod supervisor;
