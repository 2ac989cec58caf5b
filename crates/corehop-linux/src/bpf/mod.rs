// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small tracing programs in the kernel, without a compiler, an object file or a library.
//!
//! A program is a list of [`asm::Insn`], its offsets come from the kernel's own types ([`btf`]),
//! and it writes into the array of a [`Map`] that user memory shows: whoever wants to know reads
//! a word, at the cost of a load. Nothing is pinned: all of it goes when its owner goes, by drop
//! or because the kernel closes the files of a dead process.
//!
//! Needs Linux 5.11 or later with BTF, and root or `CAP_BPF` with `CAP_PERFMON`.
//! Overhead: `cargo run --release --example interrupt_cost` measures it on the machine at hand.

pub mod btf;
pub mod asm;
mod syscall;
pub mod ring;
pub mod interrupts;
pub mod control;
pub mod events;
pub mod sched_ext;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use asm::{AsmError, Insn};
use btf::{Btf, BtfError};
pub use syscall::ProgramInfo;

/// Where the kernel shows its type information.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why the kernel does not run a program of ours.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's type information cannot be read.
    #[error(
        "{VMLINUX_BTF} cannot be read ({source}): BPF needs a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// What reading it said.
        source: io::Error,
    },
    /// The kernel's type information does not hold what a program needs.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The caller may not.
    #[error(
        "the kernel refuses {what} ({source}): run as root, or give the program the right with \
         `setcap cap_bpf,cap_perfmon+ep FILE` (in a container, its seccomp profile has to allow \
         bpf too; before Linux 5.11, raise `ulimit -l`)"
    )]
    NotPermitted {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel was built without.
    #[error("this kernel has no bpf(2) ({source}): it needs CONFIG_BPF_SYSCALL=y")]
    NoBpf {
        /// What the kernel said.
        source: io::Error,
    },
    /// The verifier does not take a program.
    #[error(
        "the kernel does not take the program `{program}` ({source}); its verifier says:\n{log}"
    )]
    Rejected {
        /// Name of the program.
        program: String,
        /// What the kernel said.
        source: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// A program that cannot be written down: a fault of ours.
    #[error("the program `{program}` is malformed: {source}")]
    Malformed {
        /// Name of the program.
        program: String,
        /// What is wrong.
        source: AsmError,
    },
    /// Any other refusal.
    #[error("{what} failed: {source}")]
    Failed {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A place outside of a map.
    #[error("{bytes} bytes at {first} do not lie in the map `{map}` of {size} bytes, by pages")]
    OutsideOfMap {
        /// Name of the map.
        map: String,
        /// First byte asked for.
        first: usize,
        /// How many were asked for.
        bytes: usize,
        /// Size of the map's memory.
        size: usize,
    },
    /// None of the tracepoints is there.
    #[error("none of the counters can be had: {}", reasons.join("; "))]
    NothingToCount {
        /// Why, for each.
        reasons: Vec<String>,
    },
}

impl BpfError {
    /// What a failed system call means.
    fn from_call(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what, source },
            Some(libc::ENOSYS) => Self::NoBpf { source },
            _ => Self::Failed { what, source },
        }
    }
    /// Whether another program of the same process would meet the same refusal.
    pub fn is_general(&self) -> bool {
        matches!(self, Self::NoBtf { .. } | Self::NotPermitted { .. } | Self::NoBpf { .. })
    }
}

/// The running kernel's type information.
///
/// # Errors
/// Where it cannot be read, or is of a newer format.
pub fn kernel_types() -> Result<Btf, BpfError> {
    let bytes = std::fs::read(VMLINUX_BTF).map_err(|source| BpfError::NoBtf { source })?;
    Ok(Btf::parse(bytes)?)
}

/// An array that programs write and user memory shows. Closed on drop; programs and mappings made
/// from it keep its memory alive.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    name: String,
    size: usize,
}

impl Map {
    /// An array of `entries` values of `value_bytes` each (rounded up to 8), all zero.
    ///
    /// The values lie one after the other from the start of a page, so that values of whole pages
    /// can be shown one by one. [`Insn::MapValue`] works on arrays of one entry only.
    ///
    /// # Errors
    /// Where the caller may not, or the kernel has no memory for it.
    pub fn array(name: &str, value_bytes: u32, entries: u32) -> Result<Self, BpfError> {
        let fd = syscall::create_array(name, value_bytes, entries).map_err(|source| {
            BpfError::from_call(format!("a BPF map of {entries} times {value_bytes} bytes"), source)
        })?;
        let used = value_bytes.next_multiple_of(8) as usize * entries as usize;
        Ok(Self { fd, name: name.to_owned(), size: used.next_multiple_of(page_size()) })
    }

    /// The descriptor, for instructions that name the map.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Show `bytes` from `first` on, both multiples of the page size, in this process's memory,
    /// to be read.
    ///
    /// # Errors
    /// Where that is not inside of the map, or the kernel has no memory for it.
    pub fn show(&self, first: usize, bytes: usize) -> Result<Shown, BpfError> {
        self.shown(first, bytes, false)
    }

    /// All of it, to be read and written: programs see what is stored in [`Shown::word`].
    ///
    /// # Errors
    /// Where the kernel has no memory for it.
    pub fn show_writable(&self) -> Result<Shown, BpfError> {
        self.shown(0, self.size, true)
    }

    fn shown(&self, first: usize, bytes: usize, writable: bool) -> Result<Shown, BpfError> {
        let page = page_size();
        let inside = first.checked_add(bytes).is_some_and(|end| end <= self.size);
        if !inside || bytes == 0 || !first.is_multiple_of(page) || !bytes.is_multiple_of(page) {
            let map = self.name.clone();
            return Err(BpfError::OutsideOfMap { map, first, bytes, size: self.size });
        }
        Shown::map(&self.fd, first, bytes, writable).map_err(|source| {
            BpfError::from_call(format!("mmap of the map `{}`", self.name), source)
        })
    }

    /// Size of the memory behind it: whole pages.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// A table that programs and this process look up and change: 32-bit keys and values.
#[derive(Debug)]
pub struct Table {
    fd: OwnedFd,
}

impl Table {
    /// An empty table for at most `entries` keys, whose memory is taken at once.
    ///
    /// # Errors
    /// Where the caller may not, or the kernel has no memory for it.
    pub fn new(name: &str, entries: u32) -> Result<Self, BpfError> {
        let what = || format!("a BPF table of {entries} entries");
        let fd = syscall::create_hash(name, entries);
        fd.map(|fd| Self { fd }).map_err(|source| BpfError::from_call(what(), source))
    }

    /// The descriptor, for instructions that name the table.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Put `value` under `key`, whether or not something was there.
    ///
    /// # Errors
    /// `E2BIG` where the table is full.
    pub fn put(&self, key: u32, value: u32) -> io::Result<()> {
        syscall::update(&self.fd, key, value)
    }

    /// What is under `key`.
    pub fn get(&self, key: u32) -> Option<u32> {
        syscall::lookup(&self.fd, key)
    }

    /// Remove `key`, which need not be there.
    pub fn remove(&self, key: u32) {
        syscall::delete(&self.fd, key);
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Memory of a [`Map`], shown in this process. Unmapped on drop.
#[derive(Debug)]
pub struct Shown {
    words: NonNull<AtomicU64>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the memory is accessed by atomics alone, and belongs to the mapping, not to a thread.
unsafe impl Send for Shown {}
// SAFETY: as above.
unsafe impl Sync for Shown {}

impl Shown {
    fn map(fd: &OwnedFd, first: usize, bytes: usize, writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh mapping that the kernel places; it touches no memory of ours.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                first as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { words, bytes, writable })
    }

    /// How many words there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes / 8
    }

    /// Whether there is none; there always is.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The `N` words from `first` on, as they are now: loads, no system call.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn words<const N: usize>(&self, first: usize) -> [u64; N] {
        let inside = first.checked_add(N).is_some_and(|end| end <= self.len());
        assert!(inside, "words {first} to {first} + {N} of {}", self.len());
        // SAFETY: inside of the mapping (just checked), aligned to 8, alive as long as self; the
        // kernel writes concurrently, hence the atomics.
        let words = unsafe { std::slice::from_raw_parts(self.words.add(first).as_ptr(), N) };
        std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
    }

    /// One word that may be changed.
    ///
    /// # Panics
    /// Beyond the end, and where the memory is shown to be read.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(self.writable && index < self.len(), "word {index} of {}", self.len());
        // SAFETY: inside of the mapping and aligned; alive as long as self.
        unsafe { &*self.words.add(index).as_ptr() }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap gave, and nothing refers to it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.bytes) };
    }
}

/// A program that runs whenever its tracepoint is passed. Detached and unloaded on drop.
#[derive(Debug)]
pub struct Attached {
    // Declared first, so that it is closed first: the program runs no more.
    _link: OwnedFd,
    program: OwnedFd,
}

impl Attached {
    /// Verify `program`, and run it at the tracepoint `tracepoint` from now on. `name` is what
    /// tools show for it: letters, digits and `_`, at most 15 of them.
    ///
    /// # Errors
    /// Where the kernel lacks the tracepoint, the verifier rejects the program, or the caller may
    /// not.
    pub fn new(
        types: &Btf,
        tracepoint: &str,
        name: &str,
        program: &[Insn],
    ) -> Result<Self, BpfError> {
        let target = types.tracepoint(tracepoint)?;
        let slots = asm::assemble(program)
            .map_err(|source| BpfError::Malformed { program: name.to_owned(), source })?;
        let fd = syscall::load_tracing(name, target, &slots, None)
            .map_err(|source| rejection(name, target, &slots, source))?;
        let link = syscall::attach_tracing(&fd).map_err(|source| {
            BpfError::from_call(format!("attaching to the tracepoint `{tracepoint}`"), source)
        })?;
        Ok(Self { _link: link, program: fd })
    }

    /// What the kernel knows of the program.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn info(&self) -> io::Result<ProgramInfo> {
        syscall::program_info(&self.program)
    }
}

/// Why a program was not loaded: once more with the verifier's log, unless the reason is plain.
fn rejection(name: &str, target: u32, slots: &[asm::Slot], source: io::Error) -> BpfError {
    if let Some(libc::EPERM | libc::ENOSYS) = source.raw_os_error() {
        return BpfError::from_call(format!("loading the BPF program `{name}`"), source);
    }
    let mut log = vec![0; 1 << 18];
    // It fails as it did before; should it not, the descriptor is closed here.
    drop(syscall::load_tracing(name, target, slots, Some(&mut log)));
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
    BpfError::Rejected { program: name.to_owned(), source, log }
}

/// Keeps the kernel counting the run time of BPF programs (two clock readings per run).
#[derive(Debug)]
pub struct RunTimeStatistics {
    _fd: OwnedFd,
}

impl RunTimeStatistics {
    /// Begin; dropping it ends it, unless somebody else wants them too.
    ///
    /// # Errors
    /// Where the caller may not (it takes `CAP_SYS_ADMIN`).
    pub fn begin() -> Result<Self, BpfError> {
        syscall::enable_run_time_statistics()
            .map(|fd| Self { _fd: fd })
            .map_err(|source| BpfError::from_call("run-time statistics of BPF programs", source))
    }
}
