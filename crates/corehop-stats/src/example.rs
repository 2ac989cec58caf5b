// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module makes rows for tests.

pub(crate) use corehop_plan::samples::example::{access_time, guest, preemption_length, sample};
