// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes a descriptor from one process to another (unix(7), `SCM_RIGHTS`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Space for a header and one descriptor, with the alignment of the header.
#[derive(Default)]
#[repr(C, align(8))]
struct ControlMessage([u8; 24]);

/// Calls `work` with a message of one byte and the space for its descriptor.
fn with_message<T>(control: &mut ControlMessage, work: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid message, without an address.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    work(&mut message)
}

/// Sends a copy of the descriptor `fd`.
///
/// # Errors
/// Fails with the errors of sendmsg(2).
pub(super) fn send(to: &UnixStream, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = ControlMessage::default();
    with_message(&mut control, |message| {
        // SAFETY: the control buffer has room for one header and one descriptor, and all of it outlives the call.
        let sent = unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd.as_raw_fd());
            libc::sendmsg(to.as_raw_fd(), message, libc::MSG_NOSIGNAL)
        };
        if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
    })
}

/// Waits for a descriptor.
///
/// # Errors
/// Fails with the errors of recvmsg(2), and if something other than a descriptor arrives.
pub(super) fn receive(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut control = ControlMessage::default();
    with_message(&mut control, |message| {
        // SAFETY: the kernel writes to the buffers of the message, which outlive the call.
        let length = unsafe { libc::recvmsg(from.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: reads the header that the kernel wrote, if there is one, and the descriptor behind it, which has
        // this one owner.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Err(io::Error::other("no descriptor came"));
            }
            Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_descriptor_arrives_and_works_where_the_first_one_is_closed() {
        let (to, from) = UnixStream::pair().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        send(&to, near.as_fd()).unwrap();
        drop(near);
        UnixStream::from(receive(&from).unwrap()).write_all(b"here").unwrap();
        let mut text = String::new();
        far.read_to_string(&mut text).unwrap();
        assert_eq!(text, "here");
        drop(to);
        assert!(receive(&from).is_err());
    }
}
