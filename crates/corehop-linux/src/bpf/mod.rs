// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small tracing programs in the kernel.
//!
//! The programs are written in C, in `bpf/*.bpf.c` of this crate. Developers compile them with clang (`make bpf`) and
//! commit the objects, so building corehop needs no clang. An object runs on every kernel with BTF, because the
//! loader replaces each field offset with the running kernel's offset (CO-RE). Programs write into arrays that this
//! process maps ([`ArrayMapping`]), so reading a count is a memory load. Nothing is pinned: programs and maps
//! disappear with their owner, either by drop or because the kernel closes the files of a dead process.
//!
//! The loader is [aya](https://aya-rs.dev). aya is pure Rust: it links statically with any libc, and the build needs
//! no C library. libbpf (through libbpf-rs) would need libelf and zlib, as headers on each build machine or built
//! from source with autotools. aya neither loads `struct_ops` nor reports how often a program was missed, so
//! [`sched_ext`] and [`Object::info`](object::Object::info) use system calls.
//!
//! The programs need Linux 5.12 or later with BTF, and root or `CAP_BPF` with `CAP_PERFMON`. The examples
//! `interrupt_cost` and `switch_cost` measure the overhead on the local machine.

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

/// The reason why the kernel does not run a BPF program.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's type information cannot be read.
    #[error(
        "{VMLINUX_BTF} cannot be read ({source}): BPF needs a kernel with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf {
        /// The I/O error of reading the type information.
        source: io::Error,
    },
    /// The kernel's type information is damaged or of a newer format.
    #[error("{VMLINUX_BTF} cannot be parsed: {source}")]
    BadBtf {
        /// The error in the type information.
        source: BtfError,
    },
    /// The kernel lacks a tracepoint.
    #[error("this kernel has no tracepoint `{name}`")]
    NoTracepoint {
        /// The name of the tracepoint.
        name: String,
    },
    /// The kernel's types lack a field or a type that a program needs.
    #[error("this kernel's types lack {what}, which the program `{program}` reads")]
    NoField {
        /// The name of the program.
        program: String,
        /// The missing field, if known.
        what: String,
    },
    /// The caller lacks a privilege.
    #[error(
        "the kernel denies {what} ({source}): run as root, or give the program the right with `setcap cap_bpf,cap_perfmon+ep FILE` (in a container, the seccomp profile also has to allow bpf; before Linux 5.11, raise `ulimit -l`)"
    )]
    NotPermitted {
        /// The refused request.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel was built without the system call bpf(2).
    #[error("this kernel has no bpf(2) ({source}): use a kernel with CONFIG_BPF_SYSCALL=y")]
    NoBpf {
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel's verifier rejected a program.
    #[error("the kernel rejects the program `{program}` ({source}); its verifier says:\n{log}")]
    Rejected {
        /// The name of the program.
        program: String,
        /// The kernel's error.
        source: io::Error,
        /// The log of the verifier.
        log: String,
    },
    /// A BPF object file of corehop cannot be loaded, which is a bug in corehop.
    #[error("a BPF object cannot be loaded: {reason}")]
    Malformed {
        /// The fault in the object file.
        reason: String,
    },
    /// The kernel refused a request for another reason.
    #[error("{what} failed: {source}")]
    Failed {
        /// The refused request.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel has none of the tracepoints.
    #[error("no BPF counter is available: {}", reasons.join("; "))]
    NothingToCount {
        /// The reason for each tracepoint.
        reasons: Vec<String>,
    },
}

impl BpfError {
    /// Converts the error of a failed system call.
    fn from_call(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what, source },
            Some(libc::ENOSYS) => Self::NoBpf { source },
            _ => Self::Failed { what, source },
        }
    }
    /// Returns whether the reason of this error would also make other BPF programs of this process fail.
    pub fn is_general(&self) -> bool {
        matches!(self, Self::NoBtf { .. } | Self::NotPermitted { .. } | Self::NoBpf { .. })
    }
}

/// Returns the running kernel's type information, which is read once because reading takes some ten milliseconds.
///
/// # Errors
/// Fails if the type information cannot be read, or has a newer format.
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

/// Parses type information in the format that the kernel exports.
///
/// # Errors
/// Fails if the type information is damaged, or has a newer format.
pub fn parse_types(bytes: &[u8]) -> Result<Btf, BpfError> {
    Btf::parse(bytes, Endianness::default()).map_err(|source| BpfError::BadBtf { source })
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The memory of a BPF array, mapped into this process for reading and writing. The mapping keeps the array's memory
/// alive, and is only accessed by atomic operations.
#[derive(Debug)]
pub struct ArrayMapping(Mapped);

impl ArrayMapping {
    /// Maps a complete array of `bytes`, rounded up to whole pages.
    fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(page_size());
        Mapped::shared(fd, bytes, WRITABLE).map(Self)
    }

    /// Returns the number of words in the array.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.bytes() / 8
    }

    /// Returns whether the array has no words; always false.
    pub fn is_empty(&self) -> bool {
        self.0.bytes() == 0
    }

    /// Returns the current values of the `N` words from `first` on, by loads without a system call.
    ///
    /// # Panics
    /// Panics if the words are beyond the end of the array.
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

    /// Returns one word, which may be changed.
    ///
    /// # Panics
    /// Panics if the word is beyond the end of the array.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len(), "word {index} of {}", self.len());
        // SAFETY: inside of the mapping and aligned; alive as long as self.
        unsafe { self.0.start().add(index).as_ref() }
    }
}

/// The number of CPUs that this machine may ever have.
pub(crate) fn configured_cpus() -> usize {
    // SAFETY: sysconf has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// Makes the kernel count the run time of BPF programs, which costs two clock readings per run.
#[derive(Debug)]
pub struct RunTimeStatistics {
    _fd: OwnedFd,
}

impl RunTimeStatistics {
    /// Starts counting the run time of BPF programs. Dropping the value stops the counting, unless another user still
    /// needs the counts.
    ///
    /// # Errors
    /// Fails if the caller lacks `CAP_SYS_ADMIN`.
    pub fn begin() -> Result<Self, BpfError> {
        let statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        statistics.map(|fd| Self { _fd: fd }).map_err(|error| {
            BpfError::from_call("run-time statistics of BPF programs", error.io_error)
        })
    }
}
