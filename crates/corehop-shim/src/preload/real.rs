// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions behind the library's functions: libc's, or those of another preloaded library.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next function with this name and type.
macro_rules! behind {
    ($name:ident: fn($($type:ty),*) -> $answer:ty) => {{
        type Function = unsafe extern "C-unwind" fn($($type),*) -> $answer;
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero"),
            };
        static REAL: $crate::preload::real::Real = $crate::preload::real::Real::new(NAME);
        #[used]
        #[unsafe(link_section = "corehop_reals")]
        static LISTED: &$crate::preload::real::Real = &REAL;
        // SAFETY: libc's function of this name has this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(REAL.address()) }
    }};
}
pub(super) use behind;

/// A function that is looked up once.
#[derive(Debug)]
pub(super) struct Real {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Real {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The address of the function.
    #[inline]
    pub(super) fn address(&self) -> *mut c_void {
        let at = self.at.load(Ordering::Relaxed);
        if at.is_null() { self.find() } else { at }
    }

    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        at
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let at = self.look_up();
        if at.is_null() {
            // A program that calls a function finds it without us, too.
            // SAFETY: nothing else to be done.
            unsafe { libc::abort() };
        }
        at
    }
}

unsafe extern "C" {
    // The linker knows begin and end of the section.
    #[link_name = "__start_corehop_reals"]
    static FIRST: usize;
    #[link_name = "__stop_corehop_reals"]
    static END: usize;
}

/// Looks up all functions in advance, because a signal handler may be the first to call a function and must not look
/// the function up. A function that this libc lacks stays without an address.
pub(super) fn look_up_all() {
    // SAFETY: the section holds references, one after the other.
    let all = unsafe {
        let first = (&raw const FIRST).cast::<&Real>();
        let end = (&raw const END).cast::<&Real>();
        std::slice::from_raw_parts(first, end.offset_from_unsigned(first))
    };
    for real in all {
        real.look_up();
    }
}
