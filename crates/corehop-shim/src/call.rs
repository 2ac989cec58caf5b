// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of system calls that may be off-loaded.
//!
//! A call is on the list if its outcome does not depend on which thread of the process executes it.

/// A system call that may be off-loaded, under all names that libc has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are named as the system calls are")]
pub enum Call {
    Read,
    Pread,
    Readv,
    Recvfrom,
    Recvmsg,
    Write,
    Pwrite,
    Writev,
    Sendto,
    Sendmsg,
    Sendfile,
    Open,
    Openat,
    Stat,
    Fstatat,
    Statx,
    Fsync,
    Fdatasync,
    Select,
    Poll,
    EpollWait,
    Accept4,
}

/// The number of system calls that may be off-loaded.
pub const CALLS: usize = 22;

impl Call {
    /// All calls, in the order of their numbers.
    pub const ALL: [Self; CALLS] = [
        Self::Read,
        Self::Pread,
        Self::Readv,
        Self::Recvfrom,
        Self::Recvmsg,
        Self::Write,
        Self::Pwrite,
        Self::Writev,
        Self::Sendto,
        Self::Sendmsg,
        Self::Sendfile,
        Self::Open,
        Self::Openat,
        Self::Stat,
        Self::Fstatat,
        Self::Statx,
        Self::Fsync,
        Self::Fdatasync,
        Self::Select,
        Self::Poll,
        Self::EpollWait,
        Self::Accept4,
    ];

    /// Returns the name of the call.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Pread => "pread",
            Self::Readv => "readv",
            Self::Recvfrom => "recvfrom",
            Self::Recvmsg => "recvmsg",
            Self::Write => "write",
            Self::Pwrite => "pwrite",
            Self::Writev => "writev",
            Self::Sendto => "sendto",
            Self::Sendmsg => "sendmsg",
            Self::Sendfile => "sendfile",
            Self::Open => "open",
            Self::Openat => "openat",
            Self::Stat => "stat",
            Self::Fstatat => "fstatat",
            Self::Statx => "statx",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Select => "select",
            Self::Poll => "poll",
            Self::EpollWait => "epoll_wait",
            Self::Accept4 => "accept4",
        }
    }

    /// Returns the call with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| call.name() == name)
    }

    /// Returns whether the call has a number of bytes, which is compared with a threshold; calls
    /// without a size always qualify.
    pub const fn has_size(self) -> bool {
        (self as u8) <= Self::Sendfile as u8
    }

    /// Returns the call's numbers in the kernel's table for x86-64; a call has several numbers
    /// because libc implements some calls by another call.
    pub const fn kernel_numbers(self) -> &'static [u32] {
        match self {
            Self::Read => &[0],
            Self::Pread => &[17],
            Self::Readv => &[19],
            Self::Recvfrom => &[45],
            Self::Recvmsg => &[47],
            Self::Write => &[1],
            Self::Pwrite => &[18],
            Self::Writev => &[20],
            Self::Sendto => &[44],
            Self::Sendmsg => &[46],
            Self::Sendfile => &[40],
            Self::Open => &[2],
            Self::Openat => &[257],
            Self::Stat => &[4],
            Self::Fstatat => &[262],
            Self::Statx => &[332],
            Self::Fsync => &[74],
            Self::Fdatasync => &[75],
            Self::Select => &[23, 270],
            Self::Poll => &[7],
            Self::EpollWait => &[232],
            Self::Accept4 => &[288],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_place_and_a_name_of_its_own() {
        for (at, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, at);
            assert_eq!(Call::named(call.name()), Some(call));
        }
        assert_eq!(Call::named("close"), None);
        assert!(Call::Sendfile.has_size() && !Call::Open.has_size());
    }
}
