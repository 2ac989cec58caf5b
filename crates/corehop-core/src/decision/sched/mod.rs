// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability: does a set of tasks meet its deadlines, and if not always, how late can it be?
//!
//! Every test is a pure function of a [`System`], in integer time; verdicts come from whole numbers
//! and fractions, never from a rounded number, a clock or a time-out. [`all`] lists them by name,
//! with what each assumes and where it comes from.

pub mod exact;
mod divisor;
pub mod task;
pub mod blocks;
pub mod placement;
pub mod verdict;
pub mod set_file;
pub mod rt_app;
pub mod uni;
pub mod overhead;
pub mod bill;
pub mod limited;
pub mod global;
pub mod partition;
pub mod soft;
pub mod cache_aware;
pub mod generate;
pub mod clusters;
pub mod catalogue;
pub mod charge;
pub mod study;
pub mod cost_study;
mod answer_json;

pub use answer_json::answer_json;
pub use bill::{Bill, Payer};
pub use catalogue::{Charging, Suffers, Test, all, test};
pub use task::{Parameters, System, Task, TaskError, TaskSet, Time};
pub use verdict::{Answer, Verdict};
