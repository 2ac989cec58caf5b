// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `dma`: input and output that moves data past the measured job, which Bastoni et al.
//! (section 6) leave as future work.
//!
//! The direct variant reads and writes a file past the page cache, so that a device, or a
//! hypervisor in its place, accesses memory by itself. The loopback variant sends datagrams to
//! itself, which the kernel copies. No device takes part, and the load's own CPUs do the copying.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_plan::shown;
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::Page;

use super::workers::LoadWork;
use crate::memory::{Mapping, MemoryError};
use corehop_system::rights;

/// The largest total size of all files of the load.
const MOST: u64 = 64 << 20;
/// The largest size of one file.
const MOST_OF_ONE: u64 = 16 << 20;
/// The number of bytes per transfer.
const BLOCK: u64 = 256 << 10;
/// One transfer in this many is a write; all others are reads, so that a run of hours does not wear out a disk.
const WRITE_EVERY: u64 = 8;

/// The number with which fstatfs(2) identifies file systems in memory.
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// The reason why direct input and output is not possible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DmaError {
    /// No folder allows direct transfers.
    #[error("no folder for temporary files supports direct input and output: {0}")]
    NoFolder(String),
    /// The file cannot be created.
    #[error("the load cannot use a temporary file in {path}: {error}", path = shown::path(folder))]
    File {
        /// The folder of the file.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// There is too little memory for the transfers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Reads and writes of an unnamed file, which disappears with the process in any case.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    buffer: Mapping,
    length: u64,
    transfers: u64,
}

impl Direct {
    /// Creates one worker for each of `cpus`.
    ///
    /// # Errors
    /// Fails with [`DmaError`], which names the tried folders and the problem with each.
    pub(crate) fn on(cpus: &[Cpu]) -> Result<Vec<(Cpu, Self)>, DmaError> {
        let folder = find_folder(&candidates())?;
        let share = (MOST / cpus.len().max(1) as u64).min(MOST_OF_ONE);
        let length = (share / BLOCK).max(1) * BLOCK;
        cpus.iter().map(|&cpu| Ok((cpu, Self::new(&folder, length)?))).collect()
    }

    fn new(folder: &Path, length: u64) -> Result<Self, DmaError> {
        let failed = |error| DmaError::File { folder: folder.to_owned(), error };
        let file = unnamed_direct_file(folder).map_err(failed)?;
        let mut buffer = Mapping::new(Bytes::new(BLOCK), Page::Base, None)?;
        for at in (0..length).step_by(BLOCK as usize) {
            file.write_all_at(buffer.bytes_mut(), at).map_err(failed)?;
        }
        Ok(Self { file, buffer, length, transfers: 0 })
    }
}

impl LoadWork for Direct {
    fn step(&mut self) -> Result<u64, String> {
        let at = self.transfers * BLOCK % self.length;
        let done = if self.transfers.is_multiple_of(WRITE_EVERY) {
            self.file.write_at(self.buffer.bytes_mut(), at)
        } else {
            self.file.read_at(self.buffer.bytes_mut(), at)
        };
        self.transfers += 1;
        done.map(|bytes| bytes as u64).map_err(|error| {
            format!("direct input or output of the temporary file failed: {error}")
        })
    }
}

/// The possible folders for temporary files, the preferred folder first.
fn candidates() -> Vec<PathBuf> {
    // With lent rights the environment is another's.
    let first = if rights::are_lent() { "/tmp".into() } else { std::env::temp_dir() };
    let mut folders = vec![first, PathBuf::from("/var/tmp"), PathBuf::from(".")];
    folders.dedup();
    folders
}

fn find_folder(candidates: &[PathBuf]) -> Result<PathBuf, DmaError> {
    let mut refusals = Vec::new();
    for folder in candidates {
        match takes_direct(folder) {
            Ok(()) => return Ok(folder.clone()),
            Err(why) => refusals.push(format!("{} ({why})", shown::path(folder))),
        }
    }
    Err(DmaError::NoFolder(refusals.join(", ")))
}

/// Checks that transfers in this folder reach a device.
fn takes_direct(folder: &Path) -> Result<(), String> {
    let file = unnamed_direct_file(folder).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => {
            "the file system of the folder has no direct input and output".to_owned()
        }
        _ => error.to_string(),
    })?;
    if is_in_memory(&file) {
        Err("the file system of the folder is in memory".to_owned())
    } else {
        Ok(())
    }
}

/// Creates an unnamed file, opened for transfers past the page cache.
fn unnamed_direct_file(folder: &Path) -> io::Result<File> {
    let open = |flags: i32, path: &Path| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_DIRECT | flags).open(path)
    };
    match open(libc::O_TMPFILE | libc::O_EXCL, folder) {
        // A file system, or a kernel, without O_TMPFILE.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            let path = folder.join(format!(".corehop-dma-{}", std::process::id()));
            let file = open(libc::O_CREAT | libc::O_EXCL, &path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        answer => answer,
    }
}

/// Whether the file is on a file system that accepts direct transfers but copies in memory.
fn is_in_memory(file: &File) -> bool {
    // SAFETY: all-zero bits are a valid value of this plain C structure.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a live local.
    unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut about) };
    #[allow(clippy::unnecessary_cast, reason = "its width differs between libraries")]
    let kind = about.f_type as i64;
    [TMPFS, RAMFS].contains(&kind)
}

/// A worker that sends datagrams to itself.
#[derive(Debug)]
pub(crate) struct Loopback {
    socket: UdpSocket,
    message: Vec<u8>,
}

impl Loopback {
    /// The size of a datagram in bytes.
    const MESSAGE: usize = 32 << 10;
    /// The time to wait for a lost datagram.
    const PATIENCE: Duration = Duration::from_millis(10);

    /// Creates one worker for each of `cpus`.
    ///
    /// # Errors
    /// Fails if the loopback device is down.
    pub(crate) fn on(cpus: &[Cpu]) -> io::Result<Vec<(Cpu, Self)>> {
        cpus.iter().map(|&cpu| Ok((cpu, Self::new()?))).collect()
    }

    fn new() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(Self::PATIENCE))?;
        socket.set_write_timeout(Some(Self::PATIENCE))?;
        Ok(Self { socket, message: vec![0x55; Self::MESSAGE] })
    }
}

impl LoadWork for Loopback {
    fn step(&mut self) -> Result<u64, String> {
        let exchange =
            self.socket.send(&self.message).and_then(|_| self.socket.recv(&mut self.message));
        match exchange {
            Ok(bytes) => Ok(bytes as u64),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(0)
            }
            Err(error) => Err(format!("datagrams to oneself: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn direct_transfers_move_bytes_through_a_file_that_has_no_name() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        if let Err(why) = takes_direct(folder.path()) {
            return eprintln!("skipped: {}: {why}", folder.path().display());
        }
        let mut work = Direct::new(folder.path(), 2 * BLOCK).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let moved: u64 = (0..10).map(|_| work.step().unwrap()).sum();
        assert_eq!(moved, 10 * BLOCK);
        assert_eq!(work.file.metadata().unwrap().len(), 2 * BLOCK);
    }

    #[test]
    fn where_nothing_takes_direct_transfers_every_folder_is_named_with_its_reason() {
        let folders = ["/proc", "/no/such/folder"].map(PathBuf::from);
        let error = find_folder(&folders).unwrap_err().to_string();
        assert!(error.contains("/proc (") && error.contains("/no/such/folder ("), "{error}");
        if let Ok(file) = File::open("/dev/shm") {
            assert!(is_in_memory(&file));
        }
    }

    #[test]
    fn datagrams_to_oneself_arrive() {
        let mut work = Loopback::new().unwrap();
        let moved: u64 = (0..10).map(|_| work.step().unwrap()).sum();
        assert!(moved > 0 && moved <= 10 * Loopback::MESSAGE as u64, "{moved}");
    }
}
