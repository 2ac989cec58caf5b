// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans of measurements, the rows that they yield, and the seams where they are run.
//!
//! Data flows one way, in the order of the modules below. A module uses those above it and none
//! below it; the test `layers` of `tools/rules` checks that. Nothing here touches an
//! operating system or a clock: a [`machine::Machine`] or a [`host::Host`] does, and it is handed in.
#![forbid(unsafe_code)]

pub mod shown;
pub mod words;
pub mod bounds;
pub mod parallel;
pub mod units;
pub mod stop;
pub mod platform;
pub mod finding;
pub mod workload;
pub mod kinds;
pub mod experiment;
pub mod samples;
pub mod machine;
pub mod host;
pub mod replay;
