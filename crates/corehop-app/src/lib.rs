// SPDX-License-Identifier: MIT OR Apache-2.0
//! The use cases of corehop as functions that take requests and return answers. This crate neither prints nor reads a
//! command line. The crate knows machines and hosts only by their traits, and the caller passes in the live
//! implementations.

pub mod failure;
pub mod answer;
pub mod voice;
pub mod words;
pub mod layout;
pub mod file;
pub mod doubts;
pub mod input;
pub mod task_files;
pub mod answers;
pub mod here;
pub mod host_costs;
pub mod costs;
pub mod program_costs;
pub mod check;
pub mod compare;
pub mod study;
pub mod report;
pub mod doctor;
pub mod advise;
pub mod quantities;
pub mod validate;
pub mod run;
pub mod place;
pub mod pinning;
pub mod offload;
pub mod calibrate;
pub mod charge;
