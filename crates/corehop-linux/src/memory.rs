// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for working sets: mapped, placed, prefaulted and locked.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_mfence};
use std::io;
use std::ptr::NonNull;
use std::sync::LazyLock;

use corehop_plan::units::Bytes;
use corehop_plan::workload::{LINE, Page};

use crate::group_memory;
use crate::mapped::{Mapped, WRITABLE};
use corehop_system::proc;

/// The size of the huge pages that transparent and pool pages use.
const HUGE: usize = 2 << 20;
/// The policy of mbind(2) that takes memory only from the given nodes.
const MPOL_BIND: i32 = 2;

/// Private memory of a working set.
#[derive(Debug)]
pub(crate) struct Mapping {
    whole: Mapped,
    /// The start of the used part of the mapping, aligned to a huge page if huge pages are requested.
    start: NonNull<u8>,
    length: usize,
    /// The length of the used part of the mapping, in whole pages of the mapping's page kind.
    room: usize,
}

// SAFETY: a mapping is plain memory that its owner alone refers to.
unsafe impl Send for Mapping {}

/// The reason why a working set has no memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The working set is larger than the available memory.
    #[error(
        "a working set of {wss} does not fit into memory ({available} available): choose a smaller one"
    )]
    TooLarge {
        /// The size of the working set.
        wss: Bytes,
        /// The memory that the system reports as available.
        available: Bytes,
    },
    /// The pool of huge pages is too small.
    #[error(
        "no {wss} of huge pages in the pool: `echo {pages} > /proc/sys/vm/nr_hugepages` as root, or use --page thp"
    )]
    NoHugePages {
        /// The size of the working set.
        wss: Bytes,
        /// The number of pages needed.
        pages: u64,
    },
    /// The node does not exist or has no memory.
    #[error(
        "memory on node {node} is not available: {error}; `corehop sim platform` lists the nodes"
    )]
    Node {
        /// The requested node.
        node: u32,
        /// The system's error.
        error: io::Error,
    },
    /// The system refused a request for memory.
    #[error("{what} failed: {error}")]
    Refused {
        /// The refused request.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl Mapping {
    /// Maps `length` bytes in pages of a kind, prefaulted on `node` or on the caller's node.
    pub(crate) fn new(length: Bytes, page: Page, node: Option<u32>) -> Result<Self, MemoryError> {
        let available = available_memory();
        if length.get() > available.get() / 10 * 9 {
            return Err(MemoryError::TooLarge { wss: length, available });
        }
        let mut mapping = Self::map(length, page)?;
        mapping.advise(page);
        if let Some(node) = node {
            mapping.bind(node).map_err(|error| MemoryError::Node { node, error })?;
        }
        mapping.bytes_mut().fill(0);
        Ok(mapping)
    }

    fn map(length: Bytes, page: Page) -> Result<Self, MemoryError> {
        let length = length.get() as usize;
        let huge = page != Page::Base;
        // Room to align to a huge page; what is never touched costs nothing.
        let (whole_length, flags) = match page {
            Page::Base => (length.next_multiple_of(4096), 0),
            Page::Transparent => (length.next_multiple_of(HUGE) + HUGE, 0),
            Page::Hugetlb => {
                (length.next_multiple_of(HUGE), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)
            }
        };
        let refused = |error| match page {
            Page::Hugetlb => MemoryError::NoHugePages {
                wss: Bytes::new(length as u64),
                pages: (whole_length / HUGE) as u64,
            },
            _ => MemoryError::Refused { what: "mapping memory", error },
        };
        let whole = Mapped::private(whole_length, flags).map_err(refused)?;
        let offset = if huge { whole.start::<u8>().as_ptr().align_offset(HUGE) } else { 0 };
        // SAFETY: the mapping was made large enough for this offset and `length` bytes after it.
        let start = unsafe { whole.start::<u8>().add(offset) };
        let room = length.next_multiple_of(if huge { HUGE } else { 4096 });
        Ok(Self { whole, start, length, room })
    }

    fn advise(&mut self, page: Page) {
        let advice = match page {
            Page::Base => libc::MADV_NOHUGEPAGE,
            Page::Transparent => libc::MADV_HUGEPAGE,
            Page::Hugetlb => return,
        };
        // A kernel without transparent huge pages refuses it, which `huge_share` will show.
        self.whole.advise(advice);
    }

    fn bind(&self, node: u32) -> io::Result<()> {
        let mut mask = vec![0_u64; node as usize / 64 + 1];
        mask[node as usize / 64] |= 1 << (node % 64);
        // SAFETY: names our own mapping and a mask of the length given.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.whole.start::<u8>().as_ptr(),
                self.whole.bytes(),
                MPOL_BIND,
                mask.as_ptr(),
                mask.len() * 64 + 1,
                0,
            )
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Locks the pages of the mapping in memory. Only whole pages are locked, because the kernel maps a partly locked
    /// huge page as small pages. Pages beyond the limit on locked memory stay prefaulted without a lock.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: names our own mapping.
        let answer = unsafe { libc::mlock(self.start.as_ptr().cast(), self.room) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes the memory executable; it was written before and is not written again while it runs.
    pub(crate) fn make_executable(&mut self) -> io::Result<()> {
        self.whole.protect(libc::PROT_READ | libc::PROT_EXEC)
    }

    pub(crate) fn make_writable(&mut self) -> io::Result<()> {
        self.whole.protect(WRITABLE)
    }

    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `length` readable and writable bytes that only `self` refers to; it
        // is not asked for while a walk runs over it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Evicts every line of the memory from all caches.
    pub(crate) fn flush(&self) {
        let lines = (0..self.length).step_by(LINE as usize);
        // SAFETY: the addresses lie in our mapping; flushing changes no value.
        let line = |offset| unsafe { self.start.as_ptr().add(offset) };
        if *HAS_CLFLUSHOPT {
            // SAFETY: mapped, and the processor has the instruction.
            lines.for_each(|offset| unsafe { clflushopt(line(offset)) });
        } else {
            // SAFETY: mapped.
            lines.for_each(|offset| unsafe { _mm_clflush(line(offset)) });
        }
        // SAFETY: a fence: the flushes are done after it.
        unsafe { _mm_mfence() };
    }

    /// Returns the page frames and takes new ones; the contents are lost.
    pub(crate) fn renew(&mut self, node: Option<u32>) -> Result<(), MemoryError> {
        // The contents are written anew below.
        if !self.whole.advise(libc::MADV_DONTNEED) {
            // Locked pages are not given back.
            // SAFETY: our own mapping.
            unsafe { libc::munlock(self.start.as_ptr().cast(), self.room) };
            self.whole.advise(libc::MADV_DONTNEED);
        }
        if let Some(node) = node {
            self.bind(node).map_err(|error| MemoryError::Node { node, error })?;
        }
        self.bytes_mut().fill(0);
        Ok(())
    }
}

/// Whether the processor has `clflushopt`: CPUID leaf 7, EBX bit 23. The value is read once, because in a guest CPUID
/// traps to the hypervisor.
static HAS_CLFLUSHOPT: LazyLock<bool> =
    LazyLock::new(|| __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 23 != 0);

/// Flushes a line without waiting for earlier flushes, which makes many flushes several times as fast as with
/// `clflush`.
///
/// # Safety
/// The address must be mapped, and the processor must have the instruction.
#[inline]
unsafe fn clflushopt(line: *const u8) {
    // SAFETY: the caller's promise; it changes no value, no register and no flag.
    unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
}

/// The start and the end of a walk over prepared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Linked {
    /// The address of the first element, word or instruction of the walk.
    pub(crate) start: u64,
    /// The end of a scan, or the descriptor of code.
    pub(crate) end: u64,
    /// The first element of each chain.
    pub(crate) chains: [u64; 8],
}

/// The memory that can be allocated without swapping, according to the system and the control groups of this process.
pub(crate) fn available_memory() -> Bytes {
    let text = proc::text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    let free = kib.map_or(Bytes::new(u64::MAX), Bytes::from_kib);
    group_memory::room().map_or(free, |room| room.min(free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::WorkingSet;

    use crate::set_memory::SetMemory;

    #[test]
    fn a_working_set_smaller_than_a_huge_page_stays_on_one() {
        let set =
            WorkingSet { page: Page::Transparent, ..WorkingSet::list(Bytes::from_mib(1), 0.0) };
        let memory =
            SetMemory::new(&set, &mut corehop_plan::workload::draw::DrawStream::new(1, 1)).unwrap();
        // Where no huge page is free there is none.
        let share = memory.huge_share();
        assert!(!(0.01..=0.99).contains(&share), "{share}");
        let larger = WorkingSet { wss: Bytes::from_mib(8), ..set };
        let larger =
            SetMemory::new(&larger, &mut corehop_plan::workload::draw::DrawStream::new(1, 1))
                .unwrap();
        assert_eq!(
            share > 0.0,
            larger.huge_share() > 0.0,
            "small sets have them where large ones do"
        );
    }
}
