// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work on the OS core: executes one call, unless it would sleep.
//!
//! A signal to the caller could not interrupt a call that sleeps on the OS core. So a call that may wait is tried
//! without waiting, and left to the caller if it would wait. A write to a pipe or a file may raise a signal in its
//! thread, so such an error is left to the caller too. Files on a disk are read and written immediately, because no
//! signal interrupts that on any thread. Files on other file systems are left to the caller.

use std::ffi::c_void;

use libc::{c_long, iovec, msghdr};

use super::files::{DescriptorKind, kind, look};
use super::kernel;
use crate::call::Call;

/// A call, prepared for the thread that executes it.
pub(super) struct CallAttempt {
    pub(super) call: Call,
    pub(super) a: [usize; 6],
    /// The thread ID of the caller.
    pub(super) tid: u64,
    /// The result from the kernel. `None` means that the caller must execute the call.
    pub(super) answer: Option<isize>,
    /// Whether the result is partial, and the caller waits for the rest.
    pub(super) rest: bool,
}

impl CallAttempt {
    pub(super) fn new(call: Call, a: [usize; 6]) -> Self {
        Self { call, a, tid: 0, answer: None, rest: false }
    }
}

/// Executes the call of a request.
///
/// # Safety
/// The argument must be a [`Request`] whose pointers belong to the caller.
pub(super) unsafe extern "C" fn attempt(request: *mut c_void) -> u64 {
    // SAFETY: by the caller.
    let request = unsafe { &mut *request.cast::<CallAttempt>() };
    request.answer = request.carry_out();
    0
}

const RWF_NOWAIT: usize = 8;
const EAGAIN: isize = -(libc::EAGAIN as isize);
const EPIPE: isize = -(libc::EPIPE as isize);
const EFBIG: isize = -(libc::EFBIG as isize);
const NOT_SUPPORTED: isize = -(libc::EOPNOTSUPP as isize);
const INTERRUPTED: isize = -(libc::EINTR as isize);

/// Executes a system call of the program.
fn system_call(number: c_long, a: [usize; 6]) -> isize {
    // SAFETY: the arguments are those of the program's own call.
    unsafe { kernel::call(number, a) }
}

/// Whether calls on this descriptor may wait.
fn waits(fd: usize) -> bool {
    let flags = system_call(libc::SYS_fcntl, [fd, libc::F_GETFL as usize, 0, 0, 0, 0]);
    flags >= 0 && flags as i32 & libc::O_NONBLOCK == 0
}

impl CallAttempt {
    fn carry_out(&mut self) -> Option<isize> {
        match self.call {
            Call::Read | Call::Readv | Call::Write | Call::Writev => self.transfer(),
            Call::Pread | Call::Pwrite | Call::Fsync | Call::Fdatasync => self.on_a_file(),
            Call::Recvfrom | Call::Recvmsg | Call::Sendto | Call::Sendmsg => self.message(),
            Call::Sendfile => self.send_file(),
            Call::Open => self.open(libc::AT_FDCWD as usize, self.a[0], self.a[1]),
            Call::Openat => self.open(self.a[0], self.a[1], self.a[2]),
            Call::Stat => self.status(libc::AT_FDCWD as usize, self.a[0], 0),
            Call::Fstatat => self.status(self.a[0], self.a[1], self.a[3]),
            Call::Statx => self.status(self.a[0], self.a[1], self.a[2]),
            Call::Select => self.select(),
            Call::Poll => self.ready(libc::SYS_poll, 2),
            Call::EpollWait => self.ready(libc::SYS_epoll_wait, 3),
            Call::Accept4 if waits(self.a[0]) => None,
            Call::Accept4 => self.directly(),
        }
    }

    /// Executes the call unchanged.
    fn directly(&mut self) -> Option<isize> {
        let number = c_long::from(self.call.kernel_numbers()[0]);
        let answer = system_call(number, self.a);
        self.accept(answer, DescriptorKind::File)
    }

    fn on_a_file(&mut self) -> Option<isize> {
        if kind(self.a[0]) == DescriptorKind::File { self.directly() } else { None }
    }

    /// Executes stat, fstatat and statx.
    fn status(&mut self, folder: usize, path: usize, flags: usize) -> Option<isize> {
        if look(folder, path, flags as i32)?.is_plain() { self.directly() } else { None }
    }

    /// Accepts a result, unless the caller must repeat the call.
    fn accept(&mut self, answer: isize, kind: DescriptorKind) -> Option<isize> {
        match answer {
            // Nothing to wait for, and none who would.
            EAGAIN if !matches!(kind, DescriptorKind::Other) && !waits(self.a[0]) => Some(answer),
            // Where the caller makes the attempt itself (V1), its signal is under way.
            EPIPE | EFBIG
                if !matches!(kind, DescriptorKind::Socket) && kernel::tid() == self.tid =>
            {
                Some(answer)
            }
            EAGAIN | INTERRUPTED | EPIPE | EFBIG => None,
            _ => Some(answer),
        }
    }

    /// Executes read, write, readv and writev.
    fn transfer(&mut self) -> Option<isize> {
        let writes = matches!(self.call, Call::Write | Call::Writev);
        let one = iovec { iov_base: self.a[1] as *mut c_void, iov_len: self.a[2] };
        let (vector, count) = match self.call {
            Call::Read | Call::Write => (&raw const one as usize, 1),
            _ => (self.a[1], self.a[2]),
        };
        // SAFETY: the vector is the caller's, or `one`.
        let whole = unsafe { length(vector, count) };
        if whole == 0 {
            // A message of no bytes takes one from a socket, or sends one, where such a read or writev does nothing.
            return None;
        }
        let kind = kind(self.a[0]);
        let answer = match kind {
            DescriptorKind::File => return self.directly(),
            DescriptorKind::Other => return None,
            DescriptorKind::Pipe => {
                let number = if writes { libc::SYS_pwritev2 } else { libc::SYS_preadv2 };
                // The offset -1 is the file's own.
                let a = [self.a[0], vector, count, usize::MAX, usize::MAX, RWF_NOWAIT];
                match system_call(number, a) {
                    NOT_SUPPORTED => return None,
                    answer => answer,
                }
            }
            DescriptorKind::Socket => {
                // SAFETY: all zeroes are one.
                let mut message: msghdr = unsafe { std::mem::zeroed() };
                message.msg_iov = vector as *mut iovec;
                message.msg_iovlen = count;
                let number = if writes { libc::SYS_sendmsg } else { libc::SYS_recvmsg };
                let flags = libc::MSG_DONTWAIT | if writes { libc::MSG_NOSIGNAL } else { 0 };
                let a = [self.a[0], &raw const message as usize, flags as usize, 0, 0, 0];
                system_call(number, a)
            }
        };
        if writes {
            self.rest = answer > 0 && (answer as usize) < whole && waits(self.a[0]);
        }
        self.accept(answer, kind)
    }

    /// Executes recvfrom, recvmsg, sendto and sendmsg.
    fn message(&mut self) -> Option<isize> {
        let place = if matches!(self.call, Call::Recvmsg | Call::Sendmsg) { 2 } else { 3 };
        let mut a = self.a;
        let sends = matches!(self.call, Call::Sendto | Call::Sendmsg);
        let extra = libc::MSG_DONTWAIT | if sends { libc::MSG_NOSIGNAL } else { 0 };
        a[place] |= extra as usize;
        let number = c_long::from(self.call.kernel_numbers()[0]);
        let answer = system_call(number, a);
        if sends && answer > 0 {
            let whole = match self.call {
                Call::Sendto => self.a[2],
                // SAFETY: the kernel has just read it.
                _ => unsafe { message_length(self.a[1]) },
            };
            let may_wait = self.a[place] as i32 & libc::MSG_DONTWAIT == 0;
            self.rest = (answer as usize) < whole && may_wait && waits(self.a[0]);
        }
        self.accept(answer, DescriptorKind::Socket)
    }

    fn send_file(&mut self) -> Option<isize> {
        let [to, from, ..] = self.a;
        let waits =
            kind(from) != DescriptorKind::File || kind(to) != DescriptorKind::File && waits(to);
        if waits { None } else { self.directly() }
    }

    /// Opens files and folders; pipes and devices are left to the caller, because opening them may wait.
    fn open(&mut self, folder: usize, path: usize, flags: usize) -> Option<isize> {
        let nofollow = flags as i32 & libc::O_NOFOLLOW != 0;
        let place = look(folder, path, if nofollow { libc::AT_SYMLINK_NOFOLLOW } else { 0 })?;
        if !matches!(place.mode, libc::S_IFREG | libc::S_IFDIR) || !place.is_plain() {
            return None;
        }
        let mode = if self.call == Call::Open { self.a[2] } else { self.a[3] };
        let answer = system_call(libc::SYS_openat, [folder, path, flags, mode, 0, 0]);
        self.accept(answer, DescriptorKind::File)
    }

    /// Executes poll and epoll_wait without waiting.
    fn ready(&mut self, number: c_long, timeout: usize) -> Option<isize> {
        let mut a = self.a;
        let asked = a[timeout] as i32;
        a[timeout] = 0;
        match system_call(number, a) {
            0 if asked != 0 => None,
            answer => self.accept(answer, DescriptorKind::Other),
        }
    }

    fn select(&mut self) -> Option<isize> {
        let mut sets = [[0_u64; 16]; 3];
        let highest = self.a[0];
        if highest > 1024 {
            return None;
        }
        let bytes = highest.div_ceil(64) * 8;
        let mut pointers = [0; 3];
        for ((set, &theirs), pointer) in sets.iter_mut().zip(&self.a[1..4]).zip(&mut pointers) {
            if theirs != 0 {
                // SAFETY: the caller's set has this many bits.
                unsafe { copy(theirs as *const u8, set.as_mut_ptr().cast(), bytes) };
                *pointer = set.as_mut_ptr() as usize;
            }
        }
        let now = [0_i64; 2];
        let [read, write, other] = pointers;
        let a = [highest, read, write, other, &raw const now as usize, 0];
        let answer = system_call(libc::SYS_pselect6, a);
        if answer <= 0 {
            return None;
        }
        for (set, &theirs) in sets.iter().zip(&self.a[1..4]) {
            if theirs != 0 {
                // SAFETY: as above.
                unsafe { copy(set.as_ptr().cast(), theirs as *mut u8, bytes) };
            }
        }
        Some(answer)
    }
}

unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// The total size of a vector in bytes.
///
/// # Safety
/// The vector must have `count` elements.
pub(super) unsafe fn length(vector: usize, count: usize) -> usize {
    // SAFETY: by the caller.
    let all = unsafe { std::slice::from_raw_parts(vector as *const iovec, count) };
    all.iter().map(|one| one.iov_len).fold(0, usize::saturating_add)
}

/// The size of a message in bytes.
///
/// # Safety
/// The address must point to a `msghdr`.
pub(super) unsafe fn message_length(message: usize) -> usize {
    // SAFETY: by the caller.
    unsafe {
        let message = &*(message as *const msghdr);
        length(message.msg_iov as usize, message.msg_iovlen)
    }
}
