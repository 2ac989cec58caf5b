// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows for tests.

pub(crate) use corehop_plan::samples::example::{access_time, guest, preemption_length, sample};
