// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page in which the kernel shows a thread the location of its counter (`struct
//! perf_event_mmap_page`, include/uapi/linux/perf_event.h), and the instruction that reads the
//! counter.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::mapped::Mapped;

/// The used part of an event's mapped page, in words of 32 bits.
pub(super) type CounterPage = [AtomicU32; 16];

/// The positions of fields in the page.
const LOCK: usize = 2;
const INDEX: usize = 3;
const OFFSET: usize = 4;
const TIME_WANTED: usize = 6;
const TIME_COUNTED: usize = 8;
const CAPABILITIES: usize = 10;
const WIDTH: usize = 12;
/// The capability bit for reading the counter from user mode.
const USER_RDPMC: u64 = 1 << 2;
/// The number of read attempts. The kernel changes the page only at switches, so a few attempts
/// always suffice.
const ATTEMPTS: u32 = 100;
const PAGE_BYTES: usize = 4096;

/// The page of one event, mapped into this process.
#[derive(Debug)]
pub(super) struct MappedPage(Mapped);

impl MappedPage {
    /// Maps the event's page; `None` if the kernel provides no page, in which case corehop reads the event by a system
    /// call.
    pub(super) fn of(event: &OwnedFd) -> Option<Self> {
        Mapped::shared(event.as_fd(), PAGE_BYTES, libc::PROT_READ).ok().map(Self)
    }

    /// The event's count, if it can currently be read without a system call.
    pub(super) fn count(&self) -> Option<u64> {
        // SAFETY: mapped as long as self; the kernel writes concurrently, hence the atomics.
        count(unsafe { self.0.start().as_ref() }, read_counter)
    }
}

/// Reads the counter by the protocol in the kernel's header: `lock` changes whenever the other fields change. The
/// counter contains the lower `width` bits of a signed number, which is added to `offset`. Returns `None` if the event
/// is not on a counter, users may not read the counter, or several events share it.
pub(super) fn count(
    page: &CounterPage,
    mut counter: impl FnMut(u32) -> Option<u64>,
) -> Option<u64> {
    for _ in 0..ATTEMPTS {
        let lock = page[LOCK].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let index = page[INDEX].load(Ordering::Relaxed);
        let allowed = wide(page, CAPABILITIES) & USER_RDPMC != 0;
        let always_on = wide(page, TIME_WANTED) == wide(page, TIME_COUNTED);
        let raw = if allowed && always_on && index > 0 { counter(index - 1) } else { None };
        let count = raw.and_then(|raw| {
            let value = extend_sign(raw, width(page))?;
            Some(wide(page, OFFSET).wrapping_add(value))
        });
        fence(Ordering::Acquire);
        if page[LOCK].load(Ordering::Relaxed) == lock {
            return count;
        }
    }
    None
}

/// Reads 64 bits from two words; a torn value is detected because `lock` changes too.
fn wide(page: &CounterPage, word: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&page[word].load(Ordering::Relaxed).to_ne_bytes());
    bytes[4..].copy_from_slice(&page[word + 1].load(Ordering::Relaxed).to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn width(page: &CounterPage) -> u32 {
    let [low, high, ..] = page[WIDTH].load(Ordering::Relaxed).to_ne_bytes();
    u32::from(u16::from_ne_bytes([low, high]))
}

fn extend_sign(raw: u64, width: u32) -> Option<u64> {
    let unused = 64_u32.checked_sub(width).filter(|&unused| unused < 64)?;
    Some(((raw << unused) as i64 >> unused) as u64)
}

/// The processor's counter number `index`.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn read_counter(index: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: rdpmc reads a register; the page has just said that this is allowed, or else its
    // lock changes and the value is thrown away. A refusal in between would be a signal, which the
    // kernel avoids by clearing the capability first.
    unsafe {
        std::arch::asm!(
            "rdpmc",
            in("ecx") index, out("eax") low, out("edx") high,
            options(nostack, preserves_flags)
        );
    }
    Some(u64::from(high) << 32 | u64::from(low))
}

/// On other processors the kernel must read the counter (on ARM, users may not read the counters by
/// default).
#[cfg(not(target_arch = "x86_64"))]
fn read_counter(_index: u32) -> Option<u64> {
    None
}
