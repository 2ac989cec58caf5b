// SPDX-License-Identifier: MIT OR Apache-2.0
//! A system call that the kernel denies to a process and all that it starts, as a sandbox does.

use std::io;

/// The architecture that a filter is asked about (`AUDIT_ARCH_X86_64`).
const X86_64: u32 = 0xc000_003e;

/// Makes `call` fail with `errno` from now on, for this process and its descendants; fit for the time between fork and
/// exec. Other calls are as before.
///
/// # Errors
/// If the kernel has no seccomp filters.
pub(crate) fn deny(call: libc::c_long, errno: i32) -> io::Result<()> {
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let end = |answer| statement(libc::BPF_RET | libc::BPF_K, answer);
    let unless = |value, skip| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: skip,
        k: value,
    };
    // The words of struct seccomp_data: the call at 0, the architecture at 4.
    let mut filter = [
        load(4),
        unless(X86_64, 3),
        load(0),
        unless(call as u32, 1),
        end(libc::SECCOMP_RET_ERRNO | errno as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads `program` and the filter in it, which are live locals.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
