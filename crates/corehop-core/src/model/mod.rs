// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models: what samples say, with an interval.
