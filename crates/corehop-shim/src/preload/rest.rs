// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completes a write that the OS core executed in part, because a blocking write continues until everything is
//! written.

use std::ffi::c_void;

use libc::{iovec, msghdr};

use super::attempt::CallAttempt;
use super::kernel;
use crate::call::Call;

/// The number of elements that are written in one call.
const AT_ONCE: usize = 64;

/// Writes what is left after `done` bytes on this thread, and returns the total number of bytes. As in the kernel, an
/// error or a signal ends the write with the bytes written so far.
pub(super) fn write(request: &CallAttempt, mut done: usize) -> usize {
    let one = iovec { iov_base: request.a[1] as *mut c_void, iov_len: request.a[2] };
    let (whole, flags) = match request.call {
        Call::Write => (std::slice::from_ref(&one), 0),
        Call::Sendto => (std::slice::from_ref(&one), request.a[3]),
        // SAFETY: the kernel has just read this vector.
        Call::Writev => (unsafe { vector(request.a[1], request.a[2]) }, 0),
        Call::Sendmsg => {
            // SAFETY: the kernel has just read this message.
            let all = unsafe {
                let message = &*(request.a[1] as *const msghdr);
                vector(message.msg_iov as usize, message.msg_iovlen)
            };
            (all, request.a[2])
        }
        _ => return done,
    };
    let mut left = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; AT_ONCE];
    loop {
        let count = remaining(whole, done, &mut left);
        if count == 0 {
            return done;
        }
        match write_some(request, &left[..count], flags) {
            more if more > 0 => done += more as usize,
            _ => return done,
        }
    }
}

unsafe fn vector<'a>(at: usize, count: usize) -> &'a [iovec] {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(at as *const iovec, count) }
}

/// The elements, or parts of them, after the first `done` bytes.
fn remaining(whole: &[iovec], done: usize, left: &mut [iovec; AT_ONCE]) -> usize {
    let (mut skip, mut count) = (done, 0);
    for element in whole {
        if skip >= element.iov_len {
            skip -= element.iov_len;
            continue;
        }
        if count == AT_ONCE {
            break;
        }
        let base = element.iov_base.wrapping_byte_add(skip);
        left[count] = iovec { iov_base: base, iov_len: element.iov_len - skip };
        (skip, count) = (0, count + 1);
    }
    count
}

fn write_some(request: &CallAttempt, left: &[iovec], flags: usize) -> isize {
    let fd = request.a[0];
    // SAFETY: all zeroes are a message.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = left.as_ptr().cast_mut();
    message.msg_iovlen = left.len();
    // Once some bytes are written a socket raises no signal, and a pipe does.
    let flags = flags | libc::MSG_NOSIGNAL as usize;
    // SAFETY: the elements are parts of the program's own.
    unsafe {
        let a = [fd, &raw const message as usize, flags, 0, 0, kernel::OWN];
        let sent = kernel::call(libc::SYS_sendmsg, a);
        if sent != -(libc::ENOTSOCK as isize) {
            return sent;
        }
        kernel::call(libc::SYS_writev, [fd, left.as_ptr() as usize, left.len(), 0, 0, kernel::OWN])
    }
}
