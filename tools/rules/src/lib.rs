// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the sources that a reader of sources can check. The tests of this crate are its content.
