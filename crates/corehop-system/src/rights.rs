// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rights that the program file gives (setcap, setuid) beyond those of the user who starts it.
//!
//! The user then controls the environment, the arguments and the journals, but not the rights. What comes from
//! the user must not be done with them: see SECURITY.md.

use std::io;

/// Whether this process has rights that the user who started it has not (`AT_SECURE`, getauxval(3)).
pub fn are_lent() -> bool {
    // SAFETY: getauxval takes an integer and reads what the kernel gave to this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The header of capset(2).
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// Gives up lent rights for good: the real user and group, and no capability. Does nothing for a process
/// whose rights are the user's own. It holds for the calling thread and those that it starts.
///
/// # Errors
/// When the kernel refuses; the caller must not go on then.
pub fn give_up_lent() -> io::Result<()> {
    if !are_lent() {
        return Ok(());
    }
    // Effective, permitted, inheritable, in two halves of 32 bits.
    let (header, none) = (CapabilityHeader { version: VERSION, pid: 0 }, [0_u32; 6]);
    // SAFETY: the calls take integers, and capset reads two live locals of the sizes of version 3.
    let done = unsafe {
        let (user, group) = (libc::getuid(), libc::getgid());
        libc::setresgid(group, group, group) == 0
            && libc::setresuid(user, user, user) == 0
            && libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
