// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a machine.
