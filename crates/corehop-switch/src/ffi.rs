// SPDX-License-Identifier: MIT OR Apache-2.0
//! The implementation of the C interface, which `include/corehop_switch.h` documents.
//!
//! Every function accepts a null switch, an error of the caller, without crashing: calls then run on the caller's
//! core.

use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write as _;

use crate::mechanism::Mechanism;
use crate::options::Options;
use crate::partner::Function;
use crate::policy::{CoreSet, Flags, MOST_CORES};
use crate::switch::{Switch, Ticket, WaitError};

/// The value that selects the mechanism with the lowest measured cost.
const CHOOSE: u32 = u32::MAX;
/// The value that selects the default spin limit.
const USUAL: u64 = u64::MAX;

const DONE: c_int = 0;
const FULL: c_int = 1;
const UNKNOWN_TICKET: c_int = 2;
const FORKED: c_int = 3;
const INVALID: c_int = 4;

/// The C structure `struct corehop_switch_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct COptions {
    size: usize,
    os_cores: [u64; MOST_CORES / 64],
    mechanism: u32,
    flags: u32,
    spin_limit_ns: u64,
    patience_ns: u64,
}

impl COptions {
    fn usual() -> Self {
        let Options { patience_ns, .. } = Options::default();
        Self {
            size: size_of::<Self>(),
            os_cores: [0; MOST_CORES / 64],
            mechanism: CHOOSE,
            flags: 2,
            spin_limit_ns: USUAL,
            patience_ns,
        }
    }

    /// The options, or `None` if a value is invalid.
    fn read(self) -> Option<Options> {
        let mechanism = match self.mechanism {
            CHOOSE => None,
            number => Some(Mechanism::from_number(number)?),
        };
        Some(Options {
            os_cores: CoreSet::from_words(self.os_cores),
            mechanism,
            flags: Flags::from_bits(self.flags)?,
            spin_limit_ns: (self.spin_limit_ns != USUAL).then_some(self.spin_limit_ns),
            patience_ns: self.patience_ns,
            ..Options::default()
        })
    }
}

/// Fills `options` with the defaults.
///
/// # Safety
///
/// `options` must point to a `struct corehop_switch_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_options_init(options: *mut COptions) {
    // SAFETY: by the caller.
    unsafe { options.write(COptions::usual()) };
}

/// Creates a switch; returns null if an option is invalid.
///
/// # Safety
///
/// `options` must be null or point to a structure that `corehop_switch_options_init` has filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_open(options: *const COptions) -> *mut Switch {
    let wishes = if options.is_null() {
        COptions::usual()
    } else {
        // SAFETY: by the caller; the size comes first in every version.
        let size = unsafe { options.cast::<usize>().read() };
        if size != size_of::<COptions>() {
            return std::ptr::null_mut();
        }
        // SAFETY: it has the size of this version.
        unsafe { options.read() }
    };
    let switch = wishes.read().map(|options| Box::into_raw(Box::new(Switch::open(&options))));
    switch.unwrap_or(std::ptr::null_mut())
}

/// Runs a function on another core.
///
/// # Safety
///
/// `switch` must be null or open, and used by one thread at a time; see [`Switch::call`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_call(
    switch: *mut Switch,
    function: Function,
    argument: *mut c_void,
) -> u64 {
    // SAFETY: by the caller.
    match unsafe { switch.as_mut() } {
        // SAFETY: by the caller.
        Some(switch) => unsafe { switch.call(function, argument) },
        // SAFETY: by the caller.
        None => unsafe { function(argument) },
    }
}

/// Runs a function on one of the given cores, which a policy chooses.
///
/// # Safety
///
/// The conditions of [`corehop_switch_call`] apply; `cores` must point to 16 words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_call_on(
    switch: *mut Switch,
    cores: *const [u64; MOST_CORES / 64],
    flags: u32,
    function: Function,
    argument: *mut c_void,
    result: *mut u64,
) -> c_int {
    // SAFETY: by the caller.
    let (Some(switch), Some(flags)) = (unsafe { switch.as_mut() }, Flags::from_bits(flags)) else {
        return INVALID;
    };
    // SAFETY: by the caller.
    let cores = CoreSet::from_words(unsafe { *cores });
    // SAFETY: by the caller.
    unsafe { result.write(switch.call_on(&cores, flags, function, argument)) };
    DONE
}

/// Starts a function on another core without waiting for it.
///
/// # Safety
///
/// The conditions of [`Switch::submit`] apply; `ticket` must point to one word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_submit(
    switch: *mut Switch,
    function: Function,
    argument: *mut c_void,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: by the caller.
    let Some(switch) = (unsafe { switch.as_mut() }) else { return INVALID };
    // SAFETY: by the caller.
    match unsafe { switch.submit(function, argument) } {
        Ok(Ticket { line, number }) => {
            // SAFETY: by the caller. 2^56 calls take centuries.
            unsafe { ticket.write(u64::from(line) << 56 | number) };
            DONE
        }
        Err(_) => FULL,
    }
}

/// Waits for a function that was started.
///
/// # Safety
///
/// `switch` must be null or open, and used by one thread at a time; `result` must point to one word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_wait(
    switch: *mut Switch,
    ticket: u64,
    result: *mut u64,
) -> c_int {
    // SAFETY: by the caller.
    let Some(switch) = (unsafe { switch.as_mut() }) else { return INVALID };
    match switch.wait_for((ticket >> 56) as u8, ticket << 8 >> 8) {
        Ok(value) => {
            // SAFETY: by the caller.
            unsafe { result.write(value) };
            DONE
        }
        Err(WaitError::UnknownTicket) => UNKNOWN_TICKET,
        Err(WaitError::Forked) => FORKED,
    }
}

/// Wakes the partners in advance.
///
/// # Safety
///
/// `switch` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_prepare(switch: *const Switch) {
    // SAFETY: by the caller.
    if let Some(switch) = unsafe { switch.as_ref() } {
        switch.prepare();
    }
}

/// Returns the number of the mechanism.
///
/// # Safety
///
/// `switch` must be null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_mechanism(switch: *const Switch) -> u32 {
    // SAFETY: by the caller.
    let switch = unsafe { switch.as_ref() };
    switch.map_or(Mechanism::Local, Switch::mechanism) as u32
}

/// Writes the mechanism, its costs and the unmet options as text. Returns the length of the text without the
/// terminating null.
///
/// # Safety
///
/// `switch` must be null or open; `text` must point to `size` bytes, or be null with a size of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_describe(
    switch: *const Switch,
    text: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: by the caller.
    let said = unsafe { switch.as_ref() }.map(described).unwrap_or_default();
    let length = said.len().min(size.saturating_sub(1));
    if size > 0 {
        // SAFETY: `length + 1` bytes fit.
        unsafe {
            text.copy_from_nonoverlapping(said.as_ptr().cast(), length);
            text.add(length).write(0);
        }
    }
    said.len()
}

/// Returns one line of text for the mechanism, and one line for each unmet option.
fn described(switch: &Switch) -> String {
    let mut text = switch.mechanism().to_string();
    for (mechanism, nanoseconds) in switch.costs() {
        // Writing to a string does not fail.
        let _ = write!(text, ", {mechanism} {nanoseconds} ns");
    }
    for fallback in switch.fallbacks() {
        let _ = write!(text, "\n{fallback}");
    }
    text
}

/// Completes the outstanding calls, ends the partners and frees the switch.
///
/// # Safety
///
/// `switch` must be null or open, and must not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corehop_switch_close(switch: *mut Switch) {
    if !switch.is_null() {
        // SAFETY: by the caller; `corehop_switch_open` made the box.
        drop(unsafe { Box::from_raw(switch) });
    }
}

#[cfg(test)]
#[path = "ffi_tests.rs"]
mod tests;
