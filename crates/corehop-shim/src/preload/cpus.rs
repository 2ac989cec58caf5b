// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets the CPUs of the program's threads: the OS cores are taken from them while calls go there, and given back
//! afterwards.
//!
//! A thread is moved from one CPU set to the other only if it has exactly the first set. So partners, and threads
//! whose CPUs the program chose itself, keep their CPUs. If one of these threads has exactly the CPUs that are not OS
//! cores, the process is left alone, because the two kinds could not be distinguished later.

use super::kernel;

const WORDS: usize = 16;
const BYTES: usize = WORDS * 8;
/// The number of rounds over the threads; a thread created during one round is found by the next.
const ROUNDS: usize = 3;

/// A CPU set in the kernel's format.
pub(super) type Cpus = [u64; WORDS];

/// Gives the CPUs `to` to the threads that have the CPUs `from`.
pub(super) fn change(from: &Cpus, to: &Cpus) {
    for _ in 0..ROUNDS {
        if !any_thread(|thread| change_thread(thread, from, to)) {
            return;
        }
    }
}

/// Whether any thread has exactly these CPUs.
pub(super) fn any_has(cpus: &Cpus) -> bool {
    any_thread(|thread| has(thread, cpus))
}

/// Gives the CPUs `to` to the calling thread if it has the CPUs `from`.
pub(super) fn change_own(from: &Cpus, to: &Cpus) {
    change_thread(0, from, to);
}

/// Whether `of` is true for any thread; the function calls `of` for all threads.
fn any_thread(mut of: impl FnMut(usize) -> bool) -> bool {
    let how = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    let path = c"/proc/self/task".as_ptr() as usize;
    // SAFETY: a string that ends with a zero.
    let folder = unsafe {
        kernel::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, how, 0, 0, kernel::OWN])
    };
    let Ok(folder) = usize::try_from(folder) else { return false };
    let mut entries = Entries([0; 4096]);
    let mut found = false;
    loop {
        let a = [folder, (&raw mut entries.0) as usize, entries.0.len(), 0, 0, 0];
        // SAFETY: the buffer has this many bytes.
        let read = unsafe { kernel::call(libc::SYS_getdents64, a) };
        let Some(read) = usize::try_from(read).ok().filter(|&read| read > 0) else { break };
        entries.threads(read, |thread| found |= of(thread));
    }
    // SAFETY: this function's own descriptor.
    unsafe { kernel::call(libc::SYS_close, [folder, 0, 0, 0, 0, 0]) };
    found
}

fn change_thread(thread: usize, from: &Cpus, to: &Cpus) -> bool {
    let a = [thread, BYTES, std::ptr::from_ref(to) as usize, 0, 0, 0];
    // SAFETY: the set has this many bytes.
    has(thread, from) && unsafe { kernel::call(libc::SYS_sched_setaffinity, a) } == 0
}

fn has(thread: usize, cpus: &Cpus) -> bool {
    let mut now: Cpus = [0; WORDS];
    let a = [thread, BYTES, (&raw mut now) as usize, 0, 0, 0];
    // SAFETY: the set has this many bytes.
    let read = unsafe { kernel::call(libc::SYS_sched_getaffinity, a) };
    read > 0 && now == *cpus
}

/// Directory entries in the kernel's format: 8 bytes inode number, 8 bytes offset, 2 bytes length, 1 byte type, the
/// name.
#[repr(align(8))]
struct Entries([u8; 4096]);

impl Entries {
    /// Calls `each` for each thread in the first `bytes` bytes.
    fn threads(&self, bytes: usize, mut each: impl FnMut(usize)) {
        let mut rest = &self.0[..bytes.min(self.0.len())];
        while rest.len() > 19 {
            let length = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
            let name = rest[19..].iter().take_while(|&&byte| byte != 0);
            let number = name.copied().try_fold(0_usize, |number, byte| {
                let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
                Some(number * 10 + usize::from(digit))
            });
            number.into_iter().for_each(&mut each);
            let Some(next) = rest.get(length.max(1)..) else { return };
            rest = next;
        }
    }
}
