// SPDX-License-Identifier: MIT OR Apache-2.0
//! Privileges that the executable file gives (setcap, setuid) beyond those of the user who starts it.
//!
//! The user controls the environment, the arguments and the journals, but does not have these privileges. So data
//! from the user must not be processed with them: see SECURITY.md.

use std::io;

/// Returns whether this process has privileges that the user who started it lacks (`AT_SECURE`, getauxval(3)).
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

/// The constant `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// Permanently drops lent privileges: sets the real user and group, and removes all capabilities. The call has no
/// effect if the process has no lent privileges. The change of privileges applies to the calling thread, and to the
/// threads that the calling thread starts afterwards.
///
/// # Errors
/// Returns an error if the kernel refuses; the caller must then not continue.
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
