// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions after which a thread may differ from its partner: it makes its calls itself from then on.
//!
//! Credentials by glibc's own functions (`setuid` and its kin) change in all threads, and so in the partner.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use super::real::behind;
use super::thread::set_private;

/// Defines functions that make the calling thread private.
macro_rules! private {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty, if $condition:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $answer {
            let real = behind!($name: fn($($type),*) -> $answer);
            if $condition {
                set_private();
            }
            // SAFETY: by the caller.
            unsafe { real($($argument),*) }
        }
    )*};
}

private! {
    unshare(flags: c_int) -> c_int, if true;
    setns(fd: c_int, kind: c_int) -> c_int, if true;
    setfsuid(id: libc::uid_t) -> c_int, if true;
    setfsgid(id: libc::gid_t) -> c_int, if true;
    capset(header: *mut c_void, data: *const c_void) -> c_int, if true;
    prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int,
        if PER_THREAD.contains(&option);
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long,
        if NUMBERS.contains(&number);
}

/// Settings of prctl(2) that are one thread's, and that its calls depend on.
const PER_THREAD: [c_int; 6] = [
    libc::PR_SET_SECCOMP,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_SECUREBITS,
    libc::PR_SET_KEEPCAPS,
];

/// The same by number: filters, credentials of one thread, memory policy, I/O priority, namespaces, and clones that
/// glibc does not know of.
const NUMBERS: [c_long; 22] = [
    libc::SYS_seccomp,
    libc::SYS_prctl,
    libc::SYS_capset,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_ioprio_set,
    libc::SYS_landlock_restrict_self,
    libc::SYS_sched_setattr,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_vfork,
];
