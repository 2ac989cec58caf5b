// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a run can be repeated: the defects of its replicates, and whether the next run lands in its intervals. `make repeat`
//! measures by it, and `examples/coverage.rs` prints how often intervals hold a truth that is known.
#![forbid(unsafe_code)]

pub mod defects;
pub mod landing;
