// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring that programs append records to and this process empties (BPF_MAP_TYPE_RINGBUF).
//!
//! Layout: a page with the reader's position, a page with the writers', then the data, mapped
//! twice in a row so that a record that wraps round can be read in one piece. See
//! Documentation/bpf/ringbuf.rst of the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BpfError, page_size, syscall};

/// A record is being written.
const BUSY: u32 = 1 << 31;
/// A record was given up by its writer.
const DISCARDED: u32 = 1 << 30;
/// Length and page offset, before each record.
const HEADER: u64 = 8;

/// A ring, read by one reader.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    consumer: NonNull<AtomicU64>,
    /// The writers' page, then the data twice.
    producer: NonNull<AtomicU64>,
    bytes: u64,
}

// SAFETY: the mappings belong to the process; reading takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of `bytes`: a power of two, at least a page.
    ///
    /// # Errors
    /// Where the caller may not, the kernel is older than 5.8, or has no memory for it.
    pub fn new(name: &str, bytes: u32) -> Result<Self, BpfError> {
        let failed = |source| BpfError::from_call(format!("a BPF ring of {bytes} bytes"), source);
        let fd = syscall::create_ring(name, bytes).map_err(failed)?;
        let page = page_size();
        let consumer = map(&fd, libc::PROT_READ | libc::PROT_WRITE, page, 0).map_err(failed)?;
        let behind = page + 2 * bytes as usize;
        let producer = map(&fd, libc::PROT_READ, behind, page).inspect_err(|_| {
            // SAFETY: exactly what mmap gave; nothing refers to it.
            unsafe { libc::munmap(consumer.as_ptr().cast(), page) };
        });
        let producer = producer.map_err(failed)?;
        Ok(Self { fd, consumer, producer, bytes: u64::from(bytes) })
    }

    /// The descriptor, for instructions that name the ring.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes every record that is complete, as words; how many there were.
    pub fn drain(&mut self, mut take: impl FnMut(&[u64])) -> usize {
        // SAFETY: a mapped page begins with it, and it is changed atomically.
        let consumer = unsafe { self.consumer.as_ref() };
        let written = self.word(0, Ordering::Acquire);
        let mut at = consumer.load(Ordering::Relaxed);
        let mut record = Vec::new();
        let mut count = 0;
        while at < written {
            let start = (page_size() + (at & (self.bytes - 1)) as usize) / 8;
            // The lower half is the length; it is written last.
            let header = self.word(start, Ordering::Acquire) as u32;
            if header & BUSY != 0 {
                break;
            }
            let length = u64::from(header & !(BUSY | DISCARDED));
            if header & DISCARDED == 0 {
                let words = 1..=length as usize / 8;
                record.clear();
                record.extend(words.map(|word| self.word(start + word, Ordering::Relaxed)));
                take(&record);
                count += 1;
            }
            at += (length + HEADER).next_multiple_of(8);
            consumer.store(at, Ordering::Release);
        }
        count
    }

    /// A word behind the writers' position.
    fn word(&self, index: usize, ordering: Ordering) -> u64 {
        debug_assert!(index < (page_size() + 2 * self.bytes as usize) / 8);
        // SAFETY: inside of the mapping: a record begins in the first half of the data and is
        // shorter than that; the kernel writes concurrently, hence the atomics.
        unsafe { (*self.producer.as_ptr().add(index)).load(ordering) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let page = page_size();
        // SAFETY: exactly what mmap gave; nothing refers to either any more.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), page);
            libc::munmap(self.producer.as_ptr().cast(), page + 2 * self.bytes as usize);
        }
    }
}

fn map(
    fd: &OwnedFd,
    protection: i32,
    bytes: usize,
    first: usize,
) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a fresh mapping that the kernel places.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            first as libc::off_t,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)
}
