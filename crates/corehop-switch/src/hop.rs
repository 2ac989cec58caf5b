// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context hop: code in the middle of a function moves to the other core and back, together with its stack.
//!
//! [`Switch::run`] delegates a closure to another thread. A hop moves the running code itself: the code has its own
//! stack, which the caller's thread and the partner's thread resume in turn. Hops break everything that belongs to a
//! thread. After a hop, a thread local is a different variable, and the compiler may have kept the address of the
//! first one. The problem also affects `errno`, locks that their thread must release, and code that asks for the
//! current thread. Therefore hops are unsafe and must be requested, and a hop is refused if a problem can be
//! detected.

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::thread;

use crate::switch::Switch;

/// The reason why hops are refused.
#[derive(Debug)]
pub enum HopRefused {
    /// The stack switch is implemented for x86-64 only.
    Architecture,
    /// The kernel maintains a shadow stack for this thread, which a stack switch would violate.
    ShadowStack,
    /// This thread is unwinding, and the count of panics belongs to the thread.
    Panicking,
    /// There is no memory for a stack.
    Stack(io::Error),
}

impl fmt::Display for HopRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture => f.write_str("hops are for x86-64 only: use `run`"),
            Self::ShadowStack => f.write_str(
                "this thread has a shadow stack (user_shstk): use `run`, or start the program without a shadow stack",
            ),
            Self::Panicking => f.write_str("this thread is unwinding: hop before or after"),
            Self::Stack(error) => write!(f, "no memory for a stack of {STACK} bytes ({error})"),
        }
    }
}

impl std::error::Error for HopRefused {}

/// The size of the stack of a hopping function, in bytes, with a guard page below it.
const STACK: usize = 256 << 10;
const GUARD: usize = 4096;

/// The request of a function that gives up its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    There,
    Back,
    Done,
}

/// The two contexts of a hopping function; both sides access them only through pointers.
struct HopContext {
    /// The stack pointer of the thread that runs the function, while the function runs.
    base: *mut c_void,
    /// The stack pointer of the function, while the function does not run.
    own: *mut c_void,
    wish: Wish,
    away: bool,
}

/// Lets a running function hop between cores.
#[derive(Debug)]
pub struct Hop {
    control: *mut HopContext,
}

impl Hop {
    /// Continues on the OS core. Returns false, without effect, while this thread is unwinding.
    pub fn there(&mut self) -> bool {
        self.away() || self.leave(Wish::There)
    }

    /// Continues on the caller's thread. Returns false, without effect, while this thread is unwinding.
    pub fn back(&mut self) -> bool {
        !self.away() || self.leave(Wish::Back)
    }

    fn away(&self) -> bool {
        // SAFETY: the driver's control outlives the function; only this side runs now.
        unsafe { (*self.control).away }
    }

    fn leave(&mut self, wish: Wish) -> bool {
        if thread::panicking() {
            return false;
        }
        // SAFETY: as above; `base` is the context that resumed this function, which waits for it.
        unsafe {
            (*self.control).wish = wish;
            context::swap(&raw mut (*self.control).own, (*self.control).base);
        }
        true
    }
}

/// A closure with its outcome, and its hops.
struct HopFrame<F, R> {
    body: Option<F>,
    outcome: Option<thread::Result<R>>,
    control: HopContext,
}

impl Switch {
    /// Runs a closure that can [hop](Hop) between this thread and the OS core, on a stack of 256 KiB. The closure may
    /// end on either side; its result or panic is returned on the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`HopRefused`], before anything has run, if the architecture, a shadow stack, a panic in progress or a
    /// lack of memory prevents hops.
    ///
    /// # Safety
    ///
    /// Across a hop, the closure must not use thread locals (directly or through functions that it calls), must not
    /// hold a lock guard that belongs to its thread, and may only hold values that can be sent to another thread.
    pub unsafe fn run_hopping<R>(
        &mut self,
        body: impl FnOnce(&mut Hop) -> R,
    ) -> Result<R, HopRefused> {
        refuse()?;
        let stack = Stack::new().map_err(HopRefused::Stack)?;
        let (base, own) = (ptr::null_mut(), ptr::null_mut());
        let control = HopContext { base, own, wish: Wish::Back, away: false };
        let mut frame = HopFrame { body: Some(body), outcome: None, control };
        let entry = entry_of(&frame);
        let whole = &raw mut frame;
        // SAFETY: the stack is fresh; the frame lives until the function is done. One thread at a time resumes the
        // function: a call returns only after the partner has given it up.
        unsafe {
            let control = &raw mut (*whole).control;
            (*control).own = context::prepare(stack.top(), entry, whole.cast());
            while (*control).wish != Wish::Done {
                if (*control).wish == Wish::Back {
                    resume(control.cast());
                    continue;
                }
                (*control).away = true;
                self.call(resume, control.cast());
                (*control).away = false;
            }
        }
        match frame.outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("a function is done only after its outcome"),
        }
    }
}

/// Checks for conditions under which hops would fail.
fn refuse() -> Result<(), HopRefused> {
    if !context::SUPPORTED {
        return Err(HopRefused::Architecture);
    }
    if context::has_shadow_stack() {
        return Err(HopRefused::ShadowStack);
    }
    if thread::panicking() { Err(HopRefused::Panicking) } else { Ok(()) }
}

/// Runs the function on this thread until it gives up its stack.
unsafe extern "C" fn resume(control: *mut c_void) -> u64 {
    let control = control.cast::<HopContext>();
    // SAFETY: the driver passes the control of a function that waits in `own`.
    unsafe { context::swap(&raw mut (*control).base, (*control).own) };
    0
}

/// Returns the first function that runs on the stack of a [`HopFrame`] of this type.
fn entry_of<F: FnOnce(&mut Hop) -> R, R>(_: &HopFrame<F, R>) -> context::Entry {
    enter::<F, R>
}

unsafe extern "C" fn enter<F: FnOnce(&mut Hop) -> R, R>(frame: *mut c_void) -> ! {
    let frame = frame.cast::<HopFrame<F, R>>();
    // SAFETY: the driver passes its frame, and touches only `control` until this function is done.
    unsafe {
        let control = &raw mut (*frame).control;
        if let Some(body) = (*frame).body.take() {
            let mut hop = Hop { control };
            (*frame).outcome = Some(catch_unwind(AssertUnwindSafe(|| body(&mut hop))));
        }
        (*control).wish = Wish::Done;
        context::swap(&raw mut (*control).own, (*control).base);
    }
    unreachable!("a function that is done is not resumed")
}

/// Memory for a stack, with an inaccessible page below it.
struct Stack(NonNull<c_void>);

impl Stack {
    fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), STACK + GUARD, protection, flags, -1, 0) };
        let start = NonNull::new(start).filter(|start| start.as_ptr() != libc::MAP_FAILED);
        let stack = Self(start.ok_or_else(io::Error::last_os_error)?);
        // SAFETY: the first page of the mapping.
        match unsafe { libc::mprotect(stack.0.as_ptr(), GUARD, libc::PROT_NONE) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The end of the memory, from which a stack grows down.
    fn top(&self) -> *mut u64 {
        // SAFETY: one past the mapping.
        unsafe { self.0.as_ptr().byte_add(STACK + GUARD).cast() }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.0.as_ptr(), STACK + GUARD) };
    }
}

#[cfg(target_arch = "x86_64")]
mod context {
    use std::arch::naked_asm;
    use std::ffi::c_void;

    pub(super) const SUPPORTED: bool = true;

    pub(super) type Entry = unsafe extern "C" fn(*mut c_void) -> !;

    /// The `arch_prctl` code that returns the features of the thread's shadow stack.
    const SHADOW_STACK_STATUS: i64 = 0x5005;

    pub(super) fn has_shadow_stack() -> bool {
        let mut features = 0_u64;
        // SAFETY: the kernel writes one word, or knows no such call.
        let outcome =
            unsafe { libc::syscall(libc::SYS_arch_prctl, SHADOW_STACK_STATUS, &raw mut features) };
        outcome == 0 && features & 1 == 1
    }

    /// Saves the registers that a function must preserve, stores the stack pointer in `save`, and continues at `to`.
    ///
    /// # Safety
    ///
    /// `to` must have been saved by this function or created by [`prepare`], and may be resumed only once.
    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn swap(save: *mut *mut c_void, to: *mut c_void) {
        naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "ldmxcsr [rsp]",
            "fldcw [rsp + 4]",
            "add rsp, 8",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }

    /// The code to which the first return of [`swap`] on a new stack leads.
    #[unsafe(naked)]
    unsafe extern "C" fn begin() {
        naked_asm!("mov rdi, r12", "call r13", "ud2")
    }

    /// Writes a context to the top of a new stack that calls `entry` with `argument`.
    ///
    /// # Safety
    ///
    /// `top` must be the end of writable memory, aligned to 16 bytes.
    pub(super) unsafe fn prepare(
        top: *mut u64,
        entry: Entry,
        argument: *mut c_void,
    ) -> *mut c_void {
        // The usual control words: all exceptions masked, round to nearest.
        let controls = 0x037f_u64 << 32 | 0x1f80;
        let (r12, r13) = (argument as u64, entry as usize as u64);
        let first = begin as *const () as u64;
        // Controls, r15, r14, r13, r12, rbx, rbp, the address of `begin`, and two words for its alignment.
        let words = [controls, 0, 0, r13, r12, 0, 0, first, 0, 0];
        // SAFETY: by the caller.
        unsafe {
            let context = top.sub(words.len());
            context.copy_from_nonoverlapping(words.as_ptr(), words.len());
            context.cast()
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod context {
    use std::ffi::c_void;

    pub(super) const SUPPORTED: bool = false;

    pub(super) type Entry = unsafe extern "C" fn(*mut c_void) -> !;

    pub(super) fn has_shadow_stack() -> bool {
        false
    }

    pub(super) unsafe fn swap(_: *mut *mut c_void, _: *mut c_void) {}

    pub(super) unsafe fn prepare(_: *mut u64, _: Entry, _: *mut c_void) -> *mut c_void {
        std::ptr::null_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mechanism, Options};

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_thread_without_a_shadow_stack_may_hop() {
        assert_eq!(refuse().is_ok(), !context::has_shadow_stack());
    }

    #[test]
    fn a_reason_against_hops_is_told_with_what_to_do() {
        let stack = HopRefused::Stack(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert_eq!(
            stack,
            "no memory for a stack of 262144 bytes (Cannot allocate memory (os error 12))"
        );
        assert_eq!(HopRefused::Architecture.to_string(), "hops are for x86-64 only: use `run`");
        assert_eq!(
            HopRefused::Panicking.to_string(),
            "this thread is unwinding: hop before or after"
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_function_hops_without_a_partner_on_its_own_thread_and_is_away_in_between() {
        if refuse().is_err() {
            return;
        }
        let mut switch =
            Switch::open(&Options { mechanism: Some(Mechanism::Local), ..Options::default() });
        // SAFETY: the closure uses no thread local and holds no lock.
        let seen = unsafe {
            switch.run_hopping(|hop| {
                let mut seen = vec![hop.away()];
                for step in [Hop::there, Hop::there, Hop::back, Hop::back] {
                    assert!(step(hop));
                    seen.push(hop.away());
                }
                seen
            })
        };
        assert_eq!(seen.unwrap(), [false, true, true, false, false]);
        // Each way there is one call, and being there already none.
        assert_eq!(switch.counts().local, 1);
    }

    #[test]
    fn a_stack_is_writable_to_its_top_above_its_guard() {
        let stack = Stack::new().unwrap();
        let top = stack.top();
        assert_eq!(top as usize % 16, 0);
        assert_eq!(top as usize - stack.0.as_ptr() as usize, STACK + GUARD);
        // SAFETY: the last word, and the first above the guard, are the stack's.
        unsafe {
            top.sub(1).write(1);
            top.sub(STACK / 8).write(2);
            assert_eq!((top.sub(1).read(), top.sub(STACK / 8).read()), (1, 2));
        }
    }
}
