// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring that programs append records to and this process empties (BPF_MAP_TYPE_RINGBUF).
//!
//! Layout: a page with the reader's position, a page with the writers', then the data, mapped
//! twice in a row so that a record that wraps round can be read in one piece. See
//! Documentation/bpf/ringbuf.rst of the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
    producer: NonNull<u8>,
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
        Ok(Self { fd, consumer: consumer.cast(), producer, bytes: u64::from(bytes) })
    }

    /// The descriptor, for instructions that name the ring.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes every record that is complete, as words; how many there were.
    ///
    /// # Panics
    /// Never: records are as long as their writers say, and lie inside of the ring.
    pub fn drain(&mut self, mut take: impl FnMut(&[u64])) -> usize {
        // SAFETY: both positions lie at the start of a mapped page, and are changed atomically.
        let (consumer, written) = unsafe {
            (
                self.consumer.as_ref(),
                (*self.producer.as_ptr().cast::<AtomicU64>()).load(Ordering::Acquire),
            )
        };
        let mut at = consumer.load(Ordering::Relaxed);
        let mut count = 0;
        let mut record = Vec::new();
        while at < written {
            // SAFETY: a header lies inside of the data (mapped twice), aligned to 8.
            let start =
                unsafe { self.producer.add(page_size() + (at & (self.bytes - 1)) as usize) };
            // SAFETY: as above.
            let header = unsafe { (*start.as_ptr().cast::<AtomicU32>()).load(Ordering::Acquire) };
            if header & BUSY != 0 {
                break;
            }
            let length = u64::from(header & !(BUSY | DISCARDED));
            if header & DISCARDED == 0 {
                // SAFETY: the record follows its header, and its writer is done with it.
                let words = unsafe { start.add(HEADER as usize).cast::<u64>() };
                record.clear();
                // SAFETY: as above, for each of its whole words.
                record.extend(
                    (0..length as usize / 8).map(|n| unsafe { words.add(n).read_volatile() }),
                );
                take(&record);
                count += 1;
            }
            at += (length + HEADER).next_multiple_of(8);
            consumer.store(at, Ordering::Release);
        }
        count
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

fn map(fd: &OwnedFd, protection: i32, bytes: usize, first: usize) -> io::Result<NonNull<u8>> {
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
