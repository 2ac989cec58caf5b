// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that once made the program panic, abort or run without end.
