// SPDX-License-Identifier: MIT OR Apache-2.0
//! The implementations of the verbs: one file per verb with a subfolder for its modes, each with options and calls.

mod verb_or_mode;

pub(crate) use verb_or_mode::VerbOrMode;

pub(crate) mod advise;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
mod costs;
pub(crate) mod doctor;
pub(crate) mod help;
pub(crate) mod measure;
pub(crate) mod offload;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod sim;
pub(crate) mod try_;
