// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that replace libc functions.
//!
//! A thread cancellation may leave these functions by unwinding, so they hold nothing that must be dropped.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{epoll_event, fd_set, iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t};
use libc::{mode_t, nfds_t, off_t, timeval};

use super::attempt::{CallAttempt, length, message_length};
use super::course::{QualifyingCall, begin};
use super::private::keeps_its_label;
use super::real::behind;
use super::rest;
use crate::call::Call;

/// Defines replacement functions. Each function states its call, its size in bytes if it has one, a condition without
/// which it is passed to libc, and the arguments of the system call.
macro_rules! functions {
    ($($call:ident: $name:ident($($argument:ident: $type:ty),*) -> $answer:ty,
       $size:expr, if $condition:expr => [$($a:expr),*];)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $answer {
            let real = behind!($name: fn($($type),*) -> $answer);
            let course = if $condition { begin(Call::$call, $size as u64) } else { None };
            let Some(mut course) = course else {
                // SAFETY: by the caller.
                return unsafe { real($($argument),*) };
            };
            let mut request = CallAttempt::new(Call::$call, six(&[$($a as usize),*]));
            if let Some(answer) = made(&mut course, &mut request) {
                return answer as $answer;
            }
            // SAFETY: by the caller.
            let answer = unsafe { real($($argument),*) };
            course.here(answer as isize);
            answer
        }
    )*};
}

/// The result in libc's form, if the call was executed on an OS core.
fn made(course: &mut QualifyingCall, request: &mut CallAttempt) -> Option<isize> {
    let answer = course.there(request)?;
    if answer < 0 {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = -answer as c_int };
        return Some(-1);
    }
    Some(if request.rest { rest::write(request, answer as usize) as isize } else { answer })
}

fn six(some: &[usize]) -> [usize; 6] {
    std::array::from_fn(|at| some.get(at).copied().unwrap_or(0))
}

/// Whether these message flags have the same effect on another thread.
fn plain(flags: c_int) -> bool {
    let known = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_CMSG_CLOEXEC;
    flags & !(known | libc::MSG_PEEK | libc::MSG_TRUNC) == 0
}

/// The number of bytes in a vector that the kernel would accept.
fn vector(iov: *const iovec, count: c_int) -> usize {
    // SAFETY: the program says so; where it is wrong the kernel's answer would be EFAULT.
    unsafe { length(iov as usize, count as usize) }
}

fn is_vector(iov: *const iovec, count: c_int) -> bool {
    !iov.is_null() && (1..=1024).contains(&count)
}

/// The size of a message in bytes.
fn message(of: *const msghdr) -> usize {
    // SAFETY: as for vectors.
    unsafe { message_length(of as usize) }
}

fn is_message(of: *const msghdr) -> bool {
    // SAFETY: as for vectors.
    !of.is_null() && unsafe { is_vector((*of).msg_iov, (*of).msg_iovlen as c_int) }
}

/// The null address, for calls without an address.
const NONE: usize = 0;

functions! {
    Read: read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t, len, if true => [fd, to, len];
    Read: __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t,
        len, if len <= room => [fd, to, len];
    Pread: pread(fd: c_int, to: *mut c_void, len: size_t, at: off_t) -> ssize_t,
        len, if true => [fd, to, len, at];
    Pread: pread64(fd: c_int, to: *mut c_void, len: size_t, at: off_t) -> ssize_t,
        len, if true => [fd, to, len, at];
    Pread: __pread_chk(fd: c_int, to: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t,
        len, if len <= room => [fd, to, len, at];
    Pread: __pread64_chk(fd: c_int, to: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t,
        len, if len <= room => [fd, to, len, at];
    Readv: readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
        vector(iov, count), if is_vector(iov, count) => [fd, iov, count];
    Recvfrom: recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
        len, if plain(flags) => [fd, to, len, flags, NONE, NONE];
    Recvfrom: __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t,
        len, if plain(flags) && len <= room => [fd, to, len, flags, NONE, NONE];
    Recvfrom: recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr,
        address_len: *mut socklen_t) -> ssize_t,
        len, if plain(flags) => [fd, to, len, flags, address, address_len];
    Recvfrom: __recvfrom_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int,
        address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t,
        len, if plain(flags) && len <= room => [fd, to, len, flags, address, address_len];
    Recvmsg: recvmsg(fd: c_int, to: *mut msghdr, flags: c_int) -> ssize_t,
        message(to), if plain(flags) && is_message(to) => [fd, to, flags];
    Write: write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t,
        len, if true => [fd, from, len];
    Pwrite: pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t,
        len, if true => [fd, from, len, at];
    Pwrite: pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t,
        len, if true => [fd, from, len, at];
    Writev: writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
        vector(iov, count), if is_vector(iov, count) => [fd, iov, count];
    Sendto: send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t,
        len, if plain(flags) => [fd, from, len, flags, NONE, NONE];
    Sendto: sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, address: *const sockaddr,
        address_len: socklen_t) -> ssize_t,
        len, if plain(flags) => [fd, from, len, flags, address, address_len];
    Sendmsg: sendmsg(fd: c_int, from: *const msghdr, flags: c_int) -> ssize_t,
        message(from), if plain(flags) && is_message(from) => [fd, from, flags];
    Sendfile: sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t,
        len, if true => [to, from, at, len];
    Sendfile: sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t,
        len, if true => [to, from, at, len];
    Open: open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        0, if keeps_its_label(libc::AT_FDCWD, path, flags) => [path, flags, mode];
    Open: open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        0, if keeps_its_label(libc::AT_FDCWD, path, flags) => [path, flags, mode];
    Open: __open_2(path: *const c_char, flags: c_int) -> c_int,
        0, if flags & CREATES == 0 && keeps_its_label(libc::AT_FDCWD, path, flags) => [path, flags];
    Open: __open64_2(path: *const c_char, flags: c_int) -> c_int,
        0, if flags & CREATES == 0 && keeps_its_label(libc::AT_FDCWD, path, flags) => [path, flags];
    Openat: openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        0, if keeps_its_label(folder, path, flags) => [folder, path, flags, mode];
    Openat: openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        0, if keeps_its_label(folder, path, flags) => [folder, path, flags, mode];
    Openat: __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int,
        0, if flags & CREATES == 0 && keeps_its_label(folder, path, flags) => [folder, path, flags];
    Openat: __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int,
        0, if flags & CREATES == 0 && keeps_its_label(folder, path, flags) => [folder, path, flags];
    Stat: stat(path: *const c_char, to: *mut libc::stat) -> c_int, 0, if true => [path, to];
    Stat: stat64(path: *const c_char, to: *mut libc::stat) -> c_int, 0, if true => [path, to];
    Stat: __xstat(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int,
        0, if version == STAT_VERSION => [path, to];
    Stat: __xstat64(version: c_int, path: *const c_char, to: *mut libc::stat) -> c_int,
        0, if version == STAT_VERSION => [path, to];
    Fstatat: fstatat(folder: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int,
        0, if flags & libc::AT_EMPTY_PATH == 0 => [folder, path, to, flags];
    Fstatat: fstatat64(folder: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int,
        0, if flags & libc::AT_EMPTY_PATH == 0 => [folder, path, to, flags];
    Statx: statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint,
        to: *mut libc::statx) -> c_int,
        0, if flags & libc::AT_EMPTY_PATH == 0 => [folder, path, flags, mask, to];
    Fsync: fsync(fd: c_int) -> c_int, 0, if true => [fd];
    Fdatasync: fdatasync(fd: c_int) -> c_int, 0, if true => [fd];
    Select: select(highest: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set,
        timeout: *mut timeval) -> c_int,
        0, if (0..=1024).contains(&highest) => [highest, read, write, other];
    Poll: poll(all: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int,
        0, if true => [all, count, timeout];
    Poll: __poll_chk(all: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int,
        0, if room / size_of::<pollfd>() >= count as usize => [all, count, timeout];
    EpollWait: epoll_wait(fd: c_int, to: *mut epoll_event, most: c_int, timeout: c_int) -> c_int,
        0, if true => [fd, to, most, timeout];
    Accept4: accept4(fd: c_int, address: *mut sockaddr, address_len: *mut socklen_t,
        flags: c_int) -> c_int,
        0, if true => [fd, address, address_len, flags];
}

/// The flags with which opening a file takes a mode; glibc ends the program if the mode is missing.
const CREATES: c_int = libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY;
/// The version of `struct stat` that the kernel uses.
const STAT_VERSION: c_int = 1;
