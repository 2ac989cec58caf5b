// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closures as calls: a small closure is stored in the cache line of its call, and a larger one in a frame on its
//! caller's stack.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{ptr, thread};

use crate::lane::{ClosureStorage, PostedCall, RoomWords};

/// A closure, and space for its outcome.
pub(crate) struct ClosureFrame<F, R> {
    pub(crate) work: Option<F>,
    pub(crate) outcome: Option<thread::Result<R>>,
}

impl<F: FnOnce() -> R, R> ClosureFrame<F, R> {
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(work), outcome: None }
    }

    /// The call that runs the closure.
    pub(crate) fn call(&mut self) -> PostedCall {
        let argument = ptr::from_mut(self).cast();
        PostedCall { function: perform::<F, R> as *const () as usize, argument }
    }

    /// The result of the closure, whose call has ended. A panic of the closure continues in the caller.
    pub(crate) fn result(self) -> R {
        match self.outcome {
            Some(Ok(value)) => value,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("a call returns only after it has run"),
        }
    }
}

/// Runs the closure of a frame. A panic is stored for the caller.
pub(crate) unsafe extern "C" fn perform<F: FnOnce() -> R, R>(frame: *mut c_void) -> u64 {
    // SAFETY: the caller passes its frame, and does not use it before the call has returned.
    let frame = unsafe { &mut *frame.cast::<ClosureFrame<F, R>>() };
    if let Some(work) = frame.work.take() {
        frame.outcome = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    0
}

/// The possible return values of a call with a stored closure.
const RETURNED: u64 = 0;
const PANICKED: u64 = 1;

type Panic = Box<dyn Any + Send>;

/// Whether the closure, its result and a panic fit into the cache line of a call.
#[inline]
pub(crate) fn fits<F: FnOnce() -> R, R>(_: &F) -> bool {
    const { is_small::<F>() && is_small::<R>() && is_small::<Panic>() }
}

const fn is_small<T>() -> bool {
    size_of::<T>() <= size_of::<RoomWords>() && align_of::<T>() <= align_of::<RoomWords>()
}

/// Moves a closure that [`fits`] into the storage of the caller's next call; returns the call that runs the closure.
#[inline]
pub(crate) fn pack<F: FnOnce() -> R, R>(room: &ClosureStorage, work: F) -> PostedCall {
    debug_assert!(fits(&work), "the closure has room");
    // SAFETY: it is small, and the room is the caller's.
    room.open(|words| unsafe { words.cast::<F>().write(work) });
    let argument = ptr::from_ref(room).cast_mut().cast();
    PostedCall { function: unpack_and_perform::<F, R> as *const () as usize, argument }
}

/// Runs the closure that was moved into the storage, and stores its result or panic there.
unsafe extern "C" fn unpack_and_perform<F: FnOnce() -> R, R>(room: *mut c_void) -> u64 {
    // SAFETY: `pack` passes the room of the call's line, which outlives the call.
    let room = unsafe { &*room.cast::<ClosureStorage>() };
    // SAFETY: the closure is there, and this call alone takes it.
    let work = room.open(|words| unsafe { words.cast::<F>().read() });
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => {
            // SAFETY: it is small, and the room is this call's.
            room.open(|words| unsafe { words.cast::<R>().write(value) });
            RETURNED
        }
        Err(panic) => {
            // SAFETY: as above.
            room.open(|words| unsafe { words.cast::<Panic>().write(panic) });
            PANICKED
        }
    }
}

/// Takes the result of a closure from the storage, according to its call's return value. A panic of the closure
/// continues in the caller.
///
/// # Safety
///
/// The closure must have been packed into this storage, its call must have returned `how`, and `R` must be the type
/// of its result.
#[inline]
pub(crate) unsafe fn unpack<R>(room: &ClosureStorage, how: u64) -> R {
    if how == RETURNED {
        // SAFETY: by the caller.
        return room.open(|words| unsafe { words.cast::<R>().read() });
    }
    // SAFETY: by the caller.
    resume_unwind(room.open(|words| unsafe { words.cast::<Panic>().read() }))
}
