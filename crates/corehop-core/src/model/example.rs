// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows for tests.

pub(crate) use crate::samples::example::{access_time, guest, preemption_length, sample};
