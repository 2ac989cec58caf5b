// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small tracing programs in the kernel.
//!
//! The programs are C, in `bpf/*.bpf.c` of this crate. clang compiles them when a developer changes
//! them (`make bpf`); the objects are committed, and building corehop needs no clang. An object
//! fits every kernel with BTF: the loader replaces each offset by the running kernel's (CO-RE).
//! Programs write into arrays that this process maps ([`ArrayMapping`]), so that reading a count takes a
//! load. Nothing is pinned: all of it goes when its owner goes, by drop or because the kernel
//! closes the files of a dead process.
//!
//! The loader is [aya](https://aya-rs.dev). It is Rust alone: it links static against any libc, and the
//! build needs no C library. libbpf (through libbpf-rs) would need libelf and zlib, as headers
//! on each machine that builds or built from source with autotools. aya does not load
//! `struct_ops`, hence the system calls of [`sched_ext`], and does not tell how often a program
//! was missed, hence [`Object::info`](object::Object::info).
//!
//! Needs Linux 5.12 or later with BTF, and root or `CAP_BPF` with `CAP_PERFMON`.
//! Overhead: the examples `interrupt_cost` and `switch_cost` measure it on the machine at hand.

mod syscall;
pub mod object;
pub mod facts;
pub mod interrupts;
pub mod calls;
pub mod sharing;
pub mod control;
pub mod events;
pub mod sched_ext;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use aya::Btf;
use aya::{BtfError, Endianness};

use crate::mapped::{Mapped, WRITABLE};
pub use syscall::ProgramInfo;

/// The file of the kernel's type information.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why the kernel does not run one of these programs.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's type information cannot be read.
    #[error(
        "{VMLINUX_BTF} cannot be read ({source}): BPF needs a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// The error of reading it.
        source: io::Error,
    },
    /// The kernel's type information is damaged or of a newer format.
    #[error("{VMLINUX_BTF} cannot be parsed: {source}")]
    BadBtf {
        /// The error in it.
        source: BtfError,
    },
    /// The kernel lacks a tracepoint.
    #[error("this kernel has no tracepoint `{name}`")]
    NoTracepoint {
        /// Name of the tracepoint.
        name: String,
    },
    /// The kernel's types lack a field or a type that a program reads.
    #[error("this kernel's types lack {what}, which the program `{program}` reads")]
    NoField {
        /// Name of the program.
        program: String,
        /// The missing field, where known.
        what: String,
    },
    /// The caller may not.
    #[error(
        "the kernel denies {what} ({source}): run as root, or give the program the right with `setcap cap_bpf,cap_perfmon+ep FILE` (in a container, the seccomp profile also has to allow bpf; before Linux 5.11, raise `ulimit -l`)"
    )]
    NotPermitted {
        /// The request.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel was built without.
    #[error("this kernel has no bpf(2) ({source}): use a kernel with CONFIG_BPF_SYSCALL=y")]
    NoBpf {
        /// The kernel's error.
        source: io::Error,
    },
    /// The verifier does not take a program.
    #[error("the kernel rejects the program `{program}` ({source}); its verifier says:\n{log}")]
    Rejected {
        /// Name of the program.
        program: String,
        /// The kernel's error.
        source: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// An object of corehop's that cannot be loaded: a fault of corehop's.
    #[error("a BPF object cannot be loaded: {reason}")]
    Malformed {
        /// The problem.
        reason: String,
    },
    /// Any other refusal.
    #[error("{what} failed: {source}")]
    Failed {
        /// The request.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// None of the tracepoints is there.
    #[error("no counter is available: {}", reasons.join("; "))]
    NothingToCount {
        /// Why, for each.
        reasons: Vec<String>,
    },
}

impl BpfError {
    /// The meaning of a failed system call.
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

/// The running kernel's type information, read once: it takes some ten milliseconds.
///
/// # Errors
/// If it cannot be read, or is of a newer format.
pub fn kernel_types() -> Result<&'static Btf, BpfError> {
    static READ: Mutex<Option<&'static Btf>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(types) = *read {
        return Ok(types);
    }
    let bytes = std::fs::read(VMLINUX_BTF).map_err(|source| BpfError::NoBtf { source })?;
    let types: &Btf = Box::leak(Box::new(parse_types(&bytes)?));
    *read = Some(types);
    Ok(types)
}

/// Type information as the kernel shows it.
///
/// # Errors
/// If it is damaged, or of a newer format.
pub fn parse_types(bytes: &[u8]) -> Result<Btf, BpfError> {
    Btf::parse(bytes, Endianness::default()).map_err(|source| BpfError::BadBtf { source })
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Memory of an array of programs, shown in this process, to be read and written. It keeps the array's memory
/// alive, and is accessed by atomics alone.
#[derive(Debug)]
pub struct ArrayMapping(Mapped);

impl ArrayMapping {
    /// All of an array of `bytes`, rounded up to whole pages.
    fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(page_size());
        Mapped::shared(fd, bytes, WRITABLE).map(Self)
    }

    /// The number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.bytes() / 8
    }

    /// Whether there is none; there always is.
    pub fn is_empty(&self) -> bool {
        self.0.bytes() == 0
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
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(self.0.start().add(first).as_ptr(), N) };
        std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
    }

    /// One word that may be changed.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len(), "word {index} of {}", self.len());
        // SAFETY: inside of the mapping and aligned; alive as long as self.
        unsafe { self.0.start().add(index).as_ref() }
    }
}

/// The CPUs that this machine may ever have.
pub(crate) fn configured_cpus() -> usize {
    // SAFETY: sysconf has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
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
    /// If the caller may not (it takes `CAP_SYS_ADMIN`).
    pub fn begin() -> Result<Self, BpfError> {
        let statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        statistics.map(|fd| Self { _fd: fd }).map_err(|error| {
            BpfError::from_call("run-time statistics of BPF programs", error.io_error)
        })
    }
}
