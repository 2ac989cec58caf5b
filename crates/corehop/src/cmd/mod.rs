// SPDX-License-Identifier: MIT OR Apache-2.0
//! One file per verb: its options and its calls.

pub(crate) mod advise;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
mod costs;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod measure;
pub(crate) mod offload;
pub(crate) mod place;
pub(crate) mod platform;
pub(crate) mod predict;
mod quantities;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod study;
pub(crate) mod validate;
