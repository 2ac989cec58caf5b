// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that change a thread's privileges, or otherwise what its calls may do, while its partner keeps the
//! earlier ones.
//!
//! Before the libc function is called, the partner is ended and gone from the kernel's list of threads. From then on
//! the thread executes its calls itself. glibc's own credential functions (`setuid` and its relatives) change all
//! threads, including the partner.
//!
//! The library does not see a system call that the program makes by its own instruction.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

use super::course::Errno;
use super::files::look;
use super::real::behind;
use super::thread::{change_rights, has_partner};

/// The threads whose partners must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PartnerScope {
    /// The partner of the calling thread must end.
    Caller = 1,
    /// The partner of the calling thread must end. A filter may answer calls by a signal whose handler expects a
    /// thread of the program. New threads inherit the filter, so no thread gets a new partner.
    Filter,
    /// The partners of all threads must end, because the call changes all of them.
    All,
}

/// Defines functions that change privileges, each with its system call and the result if a partner would keep the old
/// privileges.
macro_rules! private {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty, $number:expr => [$($a:expr),*], or $refused:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $answer {
            let real = behind!($name: fn($($type),*) -> $answer);
            if !may($number, &[$($a as usize as c_long),*]) {
                return $refused;
            }
            // SAFETY: by the caller.
            unsafe { real($($argument),*) }
        }
    )*};
}

private! {
    unshare(flags: c_int) -> c_int, libc::SYS_unshare => [flags], or refused();
    setns(fd: c_int, kind: c_int) -> c_int, libc::SYS_setns => [fd, kind], or refused();
    setfsuid(id: libc::uid_t) -> c_int, libc::SYS_setfsuid => [id], or refused();
    setfsgid(id: libc::gid_t) -> c_int, libc::SYS_setfsgid => [id], or refused();
    close_range(first: libc::c_uint, last: libc::c_uint, flags: c_int) -> c_int,
        libc::SYS_close_range => [first, last, flags], or refused();
    capset(header: *mut c_void, data: *const c_void) -> c_int, libc::SYS_capset => [header, data], or refused();
    personality(what: c_ulong) -> c_int, libc::SYS_personality => [what], or refused();
    prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int,
        libc::SYS_prctl => [option, a, b, c, d], or refused();
    ptrace(request: c_int, pid: c_long, at: *mut c_void, data: *mut c_void) -> c_long,
        libc::SYS_ptrace => [request, pid, at, data], or c_long::from(refused());
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long,
        number => [a, b, c, d, e, f], or c_long::from(refused());
}

/// Prepares for a system call. Returns false if the call must not be made, because a partner would keep the privileges
/// that the call drops.
fn may(number: c_long, a: &[c_long]) -> bool {
    let Some(reach) = reach(number, a) else { return true };
    let _same = Errno::kept();
    // These two report no error, and programs go on as if the rights were gone: the wait is as long as the partner's call.
    let cannot_fail = [libc::SYS_setfsuid, libc::SYS_setfsgid].contains(&(number & !X32));
    while !change_rights(reach) {
        if !cannot_fail {
            return false;
        }
    }
    true
}

/// Prepares for opening a file, because a thread changes its own label (AppArmor, SELinux, Smack) by writing to a
/// file in /proc. Always returns true.
pub(super) fn keeps_its_label(folder: c_int, path: *const c_char, flags: c_int) -> bool {
    if flags & libc::O_ACCMODE != libc::O_RDONLY && has_partner() {
        let place = look(folder as usize, path as usize, 0);
        if place.is_some_and(|place| place.is_of_proc()) {
            may(LSM_SET_SELF_ATTR, &[]);
        }
    }
    true
}

/// The result that asks the caller to try again.
fn refused() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = libc::EAGAIN };
    -1
}

/// The flag of seccomp(2) and landlock_restrict_self(2) for all threads.
const FILTER_ALL: c_long = libc::SECCOMP_FILTER_FLAG_TSYNC as c_long;
const LANDLOCK_ALL: c_long = 1 << 3;
/// The operations of keyctl(2) that change the caller's keyrings: get (which may create), join, set, assume.
const KEYRINGS: [c_int; 4] = [0, 1, 14, 16];
const OWN_KEYRING: c_int = -1;
/// The flag of close_range(2) that gives the caller its own descriptor table.
const CLOSE_RANGE_UNSHARE: c_long = 2;
const LSM_SET_SELF_ATTR: c_long = 460;
/// The bit in a system call number that selects the x32 convention.
const X32: c_long = 0x4000_0000;

/// The threads that differ from their partners after a system call on filters, credentials, labels, namespaces,
/// keyrings, the tracer or policies of one thread. The list includes clones that glibc does not know, and thread
/// exits that bypass glibc.
fn reach(number: c_long, a: &[c_long]) -> Option<PartnerScope> {
    let arg = |at: usize| a.get(at).copied().unwrap_or(0);
    let flag = |at: usize, flag: c_long| arg(at) & flag != 0;
    let caller = |is: bool| is.then_some(PartnerScope::Caller);
    let number = number & !X32;
    match number {
        libc::SYS_seccomp if flag(1, FILTER_ALL) => Some(PartnerScope::All),
        libc::SYS_seccomp => {
            (arg(0) as u32 != libc::SECCOMP_GET_ACTION_AVAIL).then_some(PartnerScope::Filter)
        }
        libc::SYS_landlock_restrict_self if flag(1, LANDLOCK_ALL) => Some(PartnerScope::All),
        libc::SYS_prctl => of_prctl(arg(0) as c_int),
        libc::SYS_close_range => caller(flag(2, CLOSE_RANGE_UNSHARE)),
        libc::SYS_personality => caller(arg(0) as u32 != u32::MAX),
        libc::SYS_ptrace => caller(arg(0) as u32 == libc::PTRACE_TRACEME),
        libc::SYS_keyctl => caller(KEYRINGS.contains(&(arg(0) as c_int))),
        libc::SYS_add_key => caller(arg(4) as c_int == OWN_KEYRING),
        libc::SYS_request_key => caller(arg(3) as c_int == OWN_KEYRING),
        _ => caller(NUMBERS.contains(&number)),
    }
}

/// The prctl(2) settings that belong to one thread and affect its calls.
fn of_prctl(option: c_int) -> Option<PartnerScope> {
    const SPECULATION: c_int = 53;
    const DISPATCH: c_int = 59;
    const CORE_SCHEDULING: c_int = 62;
    match option {
        libc::PR_SET_SECCOMP | DISPATCH => Some(PartnerScope::Filter),
        libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_CAPBSET_DROP
        | libc::PR_CAP_AMBIENT
        | libc::PR_SET_SECUREBITS
        | libc::PR_SET_KEEPCAPS
        | SPECULATION
        | CORE_SCHEDULING => Some(PartnerScope::Caller),
        _ => None,
    }
}

/// The system calls that change the caller with any arguments.
const NUMBERS: [c_long; 22] = [
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
    libc::SYS_landlock_restrict_self,
    LSM_SET_SELF_ATTR,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setattr,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_vfork,
    libc::SYS_exit,
];
