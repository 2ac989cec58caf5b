// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kind of a descriptor or path: whether a partner may wait for it and sees what the caller sees.
//!
//! A file on a disk or in memory is read and written immediately, and no signal interrupts the access. Files on other
//! file systems may wait indefinitely (`/proc/kmsg`, `trace_pipe`, a FUSE server), and `/proc/thread-self` differs
//! for each thread. So there is a list of file systems whose files go to the OS core; files of all others stay on the
//! caller's core.

use std::sync::atomic::{AtomicU64, Ordering};

use super::kernel;

/// The file systems on a disk or in memory, by their statfs(2) numbers. An overlay shows files of other file systems,
/// which are usually on a disk.
const PLAIN: [u32; 24] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs, devtmpfs, memfd
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0x794c_7630, // overlay
    0x0000_4d44, // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // NTFS3
    0x0000_9660, // ISO 9660
    0x1501_3346, // UDF
    0x7371_7368, // SquashFS
    0xe0f5_e1e2, // EROFS
    0x28cd_3d45, // cramfs
    0x5265_4973, // ReiserFS
    0x3153_464a, // JFS
    0x0000_3434, // NILFS2
    0x0000_137f, // Minix
    0x0000_72b6, // JFFS2
    0x2405_1905, // UBIFS
];
const PROC: u32 = 0x0000_9fa0;

/// The flag for a mount ID that no other mount ever gets (Linux 6.8).
const UNIQUE: u32 = 0x4000;

/// The kind of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DescriptorKind {
    /// A file on a disk or in memory.
    File,
    Socket,
    Pipe,
    Other,
}

/// The kind of a descriptor.
pub(super) fn kind(fd: usize) -> DescriptorKind {
    let empty = c"".as_ptr() as usize;
    let Some(place) = look(fd, empty, libc::AT_EMPTY_PATH) else { return DescriptorKind::Other };
    match place.mode {
        libc::S_IFSOCK => DescriptorKind::Socket,
        libc::S_IFIFO => DescriptorKind::Pipe,
        libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR if place.is_plain() => DescriptorKind::File,
        _ => DescriptorKind::Other,
    }
}

/// The location of a file, determined before it is used.
pub(super) struct FileLocation {
    folder: usize,
    path: usize,
    flags: i32,
    /// The bits of the file's type.
    pub(super) mode: u32,
    /// The ID of the file's mount, if there is such an ID.
    mount: Option<u64>,
}

/// Looks up a file without contacting a server or an automounter. `None` if the file does not exist, or the caller
/// may not access it.
pub(super) fn look(folder: usize, path: usize, flags: i32) -> Option<FileLocation> {
    let flags = flags & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW);
    let how = (flags | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT) as usize;
    // SAFETY: all zeroes are one; the kernel writes it.
    let (answer, status) = unsafe {
        let mut status: libc::statx = std::mem::zeroed();
        let mask = (libc::STATX_TYPE | UNIQUE) as usize;
        let a = [folder, path, how, mask, &raw mut status as usize, kernel::OWN];
        (kernel::call(libc::SYS_statx, a), status)
    };
    let mount = (status.stx_mask & UNIQUE != 0).then_some(status.stx_mnt_id);
    let mode = u32::from(status.stx_mode) & libc::S_IFMT;
    (answer == 0).then_some(FileLocation { folder, path, flags, mode, mount })
}

/// Known mounts, each at an index given by its ID: the ID, and a bit that says whether the file system is on the
/// list.
static KNOWN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

impl FileLocation {
    /// Whether the file system is on a disk or in memory; determined once for each mount.
    pub(super) fn is_plain(&self) -> bool {
        let known = self.mount.map(|mount| (mount, &KNOWN[mount as usize % KNOWN.len()]));
        if let Some((mount, word)) = known {
            let word = word.load(Ordering::Relaxed);
            if word >> 1 == mount {
                return word & 1 == 1;
            }
        }
        let Some(number) = self.file_system() else { return false };
        let plain = PLAIN.contains(&number);
        if let Some((mount, word)) = known {
            word.store(mount << 1 | u64::from(plain), Ordering::Relaxed);
        }
        plain
    }

    /// Whether the file is in /proc.
    pub(super) fn is_of_proc(&self) -> bool {
        !self.is_plain() && self.file_system() == Some(PROC)
    }

    /// The statfs(2) number of the file system.
    fn file_system(&self) -> Option<u32> {
        if self.flags & libc::AT_EMPTY_PATH != 0 {
            return file_system(self.folder);
        }
        let nofollow = self.flags & libc::AT_SYMLINK_NOFOLLOW != 0;
        let how = libc::O_PATH | libc::O_CLOEXEC | if nofollow { libc::O_NOFOLLOW } else { 0 };
        let a = [self.folder, self.path, how as usize, 0, 0, kernel::OWN];
        // SAFETY: the path is the program's own, as it was for `look`.
        let fd = usize::try_from(unsafe { kernel::call(libc::SYS_openat, a) }).ok()?;
        let number = file_system(fd);
        // SAFETY: this function's own descriptor.
        unsafe { kernel::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
        number
    }
}

fn file_system(fd: usize) -> Option<u32> {
    // SAFETY: all zeroes are one; the kernel writes it.
    let (answer, status) = unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        let a = [fd, &raw mut status as usize, 0, 0, 0, 0];
        (kernel::call(libc::SYS_fstatfs, a), status)
    };
    (answer == 0).then_some(status.f_type as u32)
}
