// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability: does a set of tasks meet its deadlines, and if not always, how late can it be?
//!
//! Every test is a pure function of a [`System`] in integer time. Verdicts come from whole numbers
//! and fractions, never from a rounded number, a clock or a time-out. [`all`] lists the tests by
//! name, with each test's assumptions and source.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod exact;
mod divisor;
mod ranking;
pub mod supply;
pub mod system;
pub mod verdict;
pub mod uni;
pub mod overhead;
pub mod bill;
pub(crate) mod held_up;
pub mod limited;
pub mod global;
pub mod partition;
pub mod soft;
pub mod cache_aware;
pub mod clusters;
pub mod catalogue;
mod contents;
pub(crate) mod chains;
mod speed;
mod delays;
pub mod charge;
mod charged_supply;
mod answer_json;
pub mod sentence;
pub mod slack;
pub mod question;
pub mod deployment;
pub mod schedule;
pub mod composition;
pub mod late;
pub mod change;
pub mod margin;
pub mod study;

pub use answer_json::answer_json;
pub use bill::{Bill, Payer};
pub use catalogue::{Charging, Suffers, Test, all, test};
pub use charged_supply::ChargedSupply;
pub use deployment::deployed;
pub use question::SchedulabilityQuestion;
pub use sentence::sentence;
pub use system::System;
pub use verdict::{TestAnswer, Verdict};

pub use corehop_plan::workload::set_file;
pub use corehop_plan::workload::task::{Task, TaskError, TaskParameters, TaskSet, Tick, Time};
