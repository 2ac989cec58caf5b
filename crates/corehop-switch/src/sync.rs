// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics and cells: the real ones, or those of the model checker; and the two halves of an asymmetric fence.
//!
//! [`light`] costs its thread nothing, and [`heavy`] costs an entry into the kernel. Between a light and a heavy half the
//! order is that of two full fences: the kernel has every running thread of the process pass a full fence (membarrier), and
//! a thread that does not run has passed one when it was switched out.

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

/// A cell as the model checker has it, which sees two threads that open it at once.
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

/// The half of a thread that is often here: keeps the order of its stores and loads against a [`heavy`] half.
#[inline]
pub(crate) fn light() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    // In a model: what both halves come to together.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The half of a thread that is seldom here. False if the kernel refused it.
#[cfg(not(loom))]
pub(crate) fn heavy() -> bool {
    crate::sys::membarrier()
}

/// As above, in a model.
#[cfg(loom)]
pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Fetches the line of a value for writing. A poller that means to write there next asks once for what it would else ask
/// for twice: the content, then the line for itself.
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

/// As above, in a model: nothing.
#[cfg(loom)]
pub(crate) fn own<T>(_: &T) {}
