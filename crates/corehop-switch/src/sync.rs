// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics: the real ones, or those of the model checker.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
