// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closures that run on other cores while the caller continues; this is safe because their scope waits for all of
//! them.

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::thread;

use crate::frame::{ClosureFrame, perform};
use crate::switch::{Full, Switch, Ticket, WaitError};

type ScopedClosure<'env, R> = Box<dyn FnOnce() -> R + Send + 'env>;

/// A type that makes the lifetime invariant, so that it cannot be shortened or lengthened.
type Invariant<'a> = fn(&'a ()) -> &'a ();

/// The closures that were started within [`Switch::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env> {
    switch: &'scope mut Switch,
    begun: Vec<Option<Begun>>,
    /// The invariant lifetimes, so that a [`Pending`] of another scope does not fit.
    lifetimes: PhantomData<(Invariant<'scope>, Invariant<'env>)>,
}

/// A closure of a scope whose result has not been taken.
#[derive(Debug)]
#[must_use = "the result waits for `Scope::wait`"]
pub struct Pending<'scope, R> {
    at: usize,
    of: PhantomData<(Invariant<'scope>, fn() -> R)>,
}

/// An outstanding call, its frame, and the function that frees the frame.
#[derive(Debug)]
struct Begun {
    ticket: Ticket,
    frame: *mut (),
    end: unsafe fn(*mut ()) -> Option<Box<dyn std::any::Any + Send>>,
}

impl Switch {
    /// Runs `work`, which may start closures on other cores that borrow values outside of `work`. All closures have
    /// ended when this function returns. A panic of a closure whose result was not taken continues in the caller.
    pub fn scope<'env, T>(
        &mut self,
        work: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>) -> T,
    ) -> T {
        let mut scope = Scope { switch: self, begun: Vec::new(), lifetimes: PhantomData };
        let value = work(&mut scope);
        if let Some(panic) = scope.settle() {
            resume_unwind(panic);
        }
        value
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a closure on another core. If there is no partner, or 64 calls are outstanding, the closure runs
    /// immediately on the caller's core.
    pub fn submit<R: Send + 'env>(
        &mut self,
        work: impl FnOnce() -> R + Send + 'env,
    ) -> Pending<'scope, R> {
        let work: ScopedClosure<'env, R> = Box::new(work);
        let frame = ClosureFrame::<ScopedClosure<'env, R>, R>::new(work);
        let frame = Box::into_raw(Box::new(frame));
        // SAFETY: the function takes this frame, which lives until the call has ended: `settle` waits for that.
        let submitted =
            unsafe { self.switch.submit(perform::<ScopedClosure<'env, R>, R>, frame.cast()) };
        let ticket = submitted.unwrap_or_else(|Full| {
            // SAFETY: as above; the call was not submitted.
            unsafe { perform::<ScopedClosure<'env, R>, R>(frame.cast()) };
            Ticket::ran()
        });
        self.begun.push(Some(Begun {
            ticket,
            frame: frame.cast(),
            end: end::<ScopedClosure<'env, R>, R>,
        }));
        Pending { at: self.begun.len() - 1, of: PhantomData }
    }

    /// Waits for a closure and returns its result. Results may be taken in any order. A panic of the closure
    /// continues in the caller.
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::Forked`] if the process was forked while the closure ran; the parent gets the result.
    #[expect(clippy::needless_pass_by_value, reason = "a result is taken once")]
    pub fn wait<R: Send + 'env>(&mut self, pending: Pending<'scope, R>) -> Result<R, WaitError> {
        let begun = self.begun[pending.at].take().ok_or(WaitError::UnknownTicket)?;
        begun.ticket.settled(self.switch)?;
        // SAFETY: the lifetimes say that it is of this scope, so that its frame has this type; the call has ended.
        let frame =
            unsafe { Box::from_raw(begun.frame.cast::<ClosureFrame<ScopedClosure<'env, R>, R>>()) };
        Ok(frame.result())
    }

    /// Waits for all outstanding closures; returns the first panic.
    fn settle(&mut self) -> Option<Box<dyn std::any::Any + Send>> {
        let mut first = None;
        for begun in std::mem::take(&mut self.begun).into_iter().flatten() {
            // A frame that the parent's partner has is the parent's: this copy of it stays as it is.
            if begun.ticket.settled(self.switch).is_ok() {
                // SAFETY: the frame is of the type for which `end` was made, and its call has ended.
                let panic = unsafe { (begun.end)(begun.frame) };
                first = first.or(panic);
            }
        }
        first
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        // Reached with open calls only while a panic of `work` unwinds. That panic goes on; panics of closures are dropped.
        drop(self.settle());
    }
}

/// Frees a frame; returns the panic of its closure.
///
/// # Safety
///
/// `frame` must come from a box of a [`ClosureFrame`] with these types, and the call of the frame must have ended.
unsafe fn end<F, R>(frame: *mut ()) -> Option<Box<dyn std::any::Any + Send>> {
    // SAFETY: by the caller.
    let frame = unsafe { Box::from_raw(frame.cast::<ClosureFrame<F, R>>()) };
    let outcome: Option<thread::Result<R>> = frame.outcome;
    outcome?.err()
}
