// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate `corehop-plan` has the plans of measurements, the rows that measurements yield, and the
//! traits of the machines and hosts that run plans.
//!
//! Data flows one way, in the order of the modules below. A module uses only modules listed before
//! it; the test `layers` of `tools/rules` checks this order. The modules of this crate use no
//! operating system and no clock: a caller passes in a [`machine::Machine`] or a [`host::Host`] that
//! does.
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
