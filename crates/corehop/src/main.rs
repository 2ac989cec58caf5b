// SPDX-License-Identifier: MIT OR Apache-2.0
//! placeholder
fn main() {}
