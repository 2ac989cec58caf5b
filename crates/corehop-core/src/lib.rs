// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of preempting a thread or moving it to another core: plan, run, model, decide.
//!
//! Data flows one way, in the order of the modules below. A module may use those above it and none
//! below it, and `model` may not use `sim`; `tests/layers.rs` checks both. Nothing here touches an
//! operating system or a clock: a [`machine::Machine`] or a [`host::Host`] does, and it is handed in.
#![forbid(unsafe_code)]

pub mod shown;
pub mod words;
pub mod bounds;
pub mod units;
pub mod stop;
pub mod platform;
pub mod finding;
pub mod workload;
pub mod experiment;
pub mod samples;
pub mod machine;
pub mod host;
pub mod sim;
pub mod model;
pub mod campaign;
pub mod sched;
pub mod study;
pub mod decision;
pub mod calibration;
pub mod validation;
pub mod report;
