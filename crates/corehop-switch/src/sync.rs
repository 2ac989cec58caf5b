// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics and cells, either the real ones or those of the model checker, and the two halves of an asymmetric fence.
//!
//! [`light`] costs its thread nothing, and [`heavy`] costs a system call. A light and a heavy half together order
//! memory like two full fences. The kernel makes every running thread of the process execute a full fence
//! (membarrier), and a thread that does not run has executed one when it was switched out.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// A cell with the interface of the model checker, which detects two threads that open it simultaneously.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self(core::cell::UnsafeCell::new(content))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}

/// The half of the fence for the thread that executes the fence often; this half keeps the order of the thread's
/// stores and loads relative to a [`heavy`] half.
#[inline]
pub(crate) fn light() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    // In a model: what both halves come to together.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The half of the fence for the thread that executes the fence rarely. Returns false if the kernel refused the
/// fence.
#[cfg(not(loom))]
pub(crate) fn heavy() -> bool {
    crate::sys::membarrier()
}

/// The heavy half of the fence in a model.
#[cfg(loom)]
pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Fetches the cache line of a value for writing. A polling thread that will next write to the line then needs one
/// transfer instead of two: first the content, then exclusive access.
#[cfg(not(loom))]
#[inline]
pub(crate) fn own<T>(value: &T) {
    let address = core::ptr::from_ref(value);
    // SAFETY: a hint, which changes no memory and no register; x86-64 processors without it ignore it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
    let _ = address;
}

/// Does nothing in the models that the model checker runs.
#[cfg(loom)]
pub(crate) fn own<T>(_: &T) {}
